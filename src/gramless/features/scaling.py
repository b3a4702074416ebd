"""Units of the inputs: what "one" means in a bandwidth.

Kernels of differences do not care where zero is, so scaling by an affine map
is only a unit for each input: it goes into the grids, and the rows are never
copied. Quantile scaling replaces each value by its rank and does copy.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.threads import map_blocks
from gramless.features.inputs import Rows

ScalingKind = Literal["none", "standard", "quantile"]
SCALINGS: tuple[ScalingKind, ...] = ("none", "standard", "quantile")

_SAMPLE_ROWS = 20_000
_LEVELS = 257
_UNIFORM_STD = 12.0**-0.5
_SPARSE_RANKS = (
    "quantile scaling of sparse rows would make them dense; use scaling='standard' or 'none', "
    "or pass X.toarray()."
)


@dataclass(frozen=True)
class Scaler:
    """The unit of each input and, for quantile scaling, the table of ranks.

    Attributes
    ----------
    kind : {"none", "standard", "quantile"}
    unit : array (n_features,)
        What a bandwidth of one stands for, in units of the rows that
        :meth:`rows` returns: 1, or the standard deviation (that of a uniform
        law for ranks). Infinite for a constant input: it is ignored.
    spread : float
        Mean L1 distance between two random rows in these units.
    knots, levels : arrays (n_features, n_knots)
        Values and their ranks in [0, 1]; empty unless ``kind`` is "quantile".
    """

    kind: ScalingKind
    unit: NDArray[np.float64]
    spread: float
    knots: NDArray[np.float64] = field(repr=False)
    levels: NDArray[np.float64] = field(repr=False)

    @classmethod
    def fit(
        cls, kind: ScalingKind, X: Rows, sample_weight: NDArray[np.float64] | None = None
    ) -> Scaler:
        """Learn units from rows.

        Parameters
        ----------
        kind : {"none", "standard", "quantile"}
        X : array (n_samples, n_features) or CSR
        sample_weight : array (n_samples,), optional

        Returns
        -------
        Scaler

        Raises
        ------
        InputError
            For an unknown kind, or quantiles of sparse rows.

        Notes
        -----
        Looks at 20,000 evenly spaced rows at most.

        Examples
        --------
        >>> Scaler.fit("standard", np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]])).unit.round(3)
        array([0.816,   inf])
        """
        if kind not in SCALINGS:
            raise InputError(f"scaling must be one of {', '.join(SCALINGS)}, got {kind!r}.")
        if sp.issparse(X):
            return cls._fit_sparse(kind, X, sample_weight)
        step = max(1, -(-X.shape[0] // _SAMPLE_ROWS))
        sample = np.asarray(X[::step], np.float64)
        weight = np.ones(len(sample)) if sample_weight is None else sample_weight[::step]
        order = np.argsort(sample, axis=0, kind="stable")
        ordered = np.take_along_axis(sample, order, axis=0)
        share = np.cumsum(weight[order], axis=0) / weight.sum()
        knots = levels = np.empty((X.shape[1], 0))
        if kind == "quantile":
            knots, levels = _quantile_table(ordered, share)
            unit = np.full(X.shape[1], _UNIFORM_STD)
            flat = cls(kind, unit, 1.0, knots, levels)
            ordered = flat.rows(ordered)
        else:
            unit = _dense_unit(X, ordered, share)
            if kind == "none":
                unit[np.isfinite(unit)] = 1.0
        return cls(kind, unit, _spread(ordered, share, unit), knots, levels)

    @classmethod
    def _fit_sparse(
        cls, kind: ScalingKind, X: sp.csr_array, sample_weight: NDArray[np.float64] | None
    ) -> Scaler:
        if kind == "quantile":
            raise InputError(_SPARSE_RANKS)
        weight = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        share = weight / weight.sum()
        values = X.astype(np.float64)
        values.eliminate_zeros()
        stored = np.bincount(values.indices, minlength=X.shape[1])
        zero = 1.0 - np.asarray(share @ (values != 0).astype(np.float64)).ravel()
        zero[stored == X.shape[0]] = 0.0
        unit = _sparse_deviation(values, share, zero)
        if kind == "none":
            unit[np.isfinite(unit)] = 1.0
        spread = _sparse_spread(values, share, zero, unit)
        none = np.empty((X.shape[1], 0))
        return cls(kind, unit, spread, none, none)

    def weighted(self, relevance: NDArray[np.float64] | None) -> Scaler:
        """Return the scaler whose unit of each input is divided by its relevance."""
        return self if relevance is None else replace(self, unit=self.unit / relevance)

    def rows(self, X: Rows, n_jobs: int | None = None) -> Rows:
        """Return the rows in which ``unit`` is measured.

        Parameters
        ----------
        X : array (n_samples, n_features) or CSR
        n_jobs : int or None

        Returns
        -------
        array or CSR
            ``X`` itself, or its ranks: a copy in the precision of ``X``.
        """
        if self.kind != "quantile":
            return X
        if sp.issparse(X):
            raise InputError(_SPARSE_RANKS)
        out = np.empty(X.shape, np.float32 if X.dtype == np.float32 else np.float64, order="F")

        def rank(j: int) -> None:
            out[:, j] = np.interp(X[:, j], self.knots[j], self.levels[j])

        map_blocks(rank, [(j,) for j in range(X.shape[1])], n_jobs)
        return out


def _dense_unit(X: Rows, ordered: NDArray, share: NDArray) -> NDArray[np.float64]:
    """Return the sample's deviations, from all rows where the sample says "constant"."""
    unit = _standard_unit(ordered, share)
    if len(ordered) < X.shape[0]:
        for j in np.flatnonzero(np.isinf(unit)):
            column = np.sort(np.asarray(X[:, j], np.float64))[:, None]
            even = np.linspace(1.0 / len(column), 1.0, len(column))[:, None]
            unit[j] = _standard_unit(column, even)[0]
    return unit


def _standard_unit(ordered: NDArray, share: NDArray) -> NDArray[np.float64]:
    weight = np.diff(share, axis=0, prepend=0.0)
    # Relative to the middle and the largest: timestamps lose no digit, nothing overflows.
    centred = ordered / 4.0 - ordered[len(ordered) // 2] / 4.0
    size = np.abs(centred).max(axis=0)
    size[size == 0] = 1.0
    centred /= size
    mean = (weight * centred).sum(axis=0)
    deviation = np.sqrt((weight * (centred - mean) ** 2).sum(axis=0))
    return _usable(4.0 * (deviation * size), np.abs(ordered).max(axis=0))


def _sparse_deviation(values: Any, share: NDArray, zero: NDArray) -> NDArray[np.float64]:
    size = np.asarray(abs(values).max(axis=0).todense()).ravel()
    # A power of two divides without rounding.
    size = np.exp2(np.floor(np.log2(np.where(size > 0, size, 1.0))))
    scaled = values.copy()
    scaled.data /= size[values.indices]
    mean = np.asarray(share @ scaled).ravel()
    scaled.data -= mean[values.indices]
    left = np.asarray(share @ scaled).ravel() - zero * mean
    scaled.data **= 2
    variance = np.asarray(share @ scaled).ravel() + zero * mean**2 - left**2
    return _usable(np.sqrt(np.maximum(variance, 0.0)) * size, size)


def _usable(deviation: NDArray, size: NDArray) -> NDArray[np.float64]:
    """Return infinity where a deviation is rounding noise: the input is constant."""
    return np.where(deviation > 1e-12 * size, deviation, np.inf)


def _spread(ordered: NDArray, share: NDArray, unit: NDArray) -> float:
    """Return the mean L1 distance of two random rows (Gini's mean difference, summed)."""
    gaps = np.diff(ordered, axis=0)
    below = share[:-1]
    spread = float((2.0 * (gaps * below * (1.0 - below)).sum(axis=0) / unit).sum())
    return spread if np.isfinite(spread) and spread > 0 else 1.0


def _sparse_spread(values: Any, share: NDArray, zero: NDArray, unit: NDArray) -> float:
    """Do as :func:`_spread` on the non-zeros, one entry more a column for all its zeros."""
    n_columns = values.shape[1]
    column = np.concatenate([values.indices, np.arange(n_columns)])
    number = np.concatenate([values.data, np.zeros(n_columns)])
    weight = np.concatenate([np.repeat(share, np.diff(values.indptr)), zero])
    order = np.lexsort((number, column))
    column, number, weight = column[order], number[order], weight[order]
    first = np.flatnonzero(np.diff(column, prepend=-1))
    below = np.cumsum(weight)
    below -= np.repeat(below[first] - weight[first], np.diff(first, append=len(column)))
    gaps = np.where(np.diff(column) == 0, np.diff(number), 0.0) / unit[column[:-1]]
    spread = float((2.0 * gaps * below[:-1] * np.maximum(0.0, 1.0 - below[:-1])).sum())
    return spread if np.isfinite(spread) and spread > 0 else 1.0


def _quantile_table(ordered: NDArray, share: NDArray) -> tuple[NDArray, NDArray]:
    """Return values and their ranks: the least value 0, the greatest 1, ties in the middle."""
    targets = np.linspace(0.0, 1.0, _LEVELS)
    n_features = ordered.shape[1]
    knots, levels = np.empty((2, n_features, _LEVELS))
    for j in range(n_features):
        at = np.searchsorted(share[:, j], targets - 1e-12)
        picked = ordered[np.minimum(at, len(ordered) - 1), j]
        value, first, count = np.unique(picked, return_index=True, return_counts=True)
        rank = targets[first] + (count - 1) / (2.0 * (_LEVELS - 1))
        rank[0], rank[-1] = 0.0, 1.0 if len(value) > 1 else 0.0
        knots[j], levels[j] = value[-1], rank[-1]
        knots[j, : len(value)], levels[j, : len(value)] = value, rank
    return knots, levels
