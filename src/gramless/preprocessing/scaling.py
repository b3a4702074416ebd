"""Units of the inputs: what a bandwidth of one means.

Kernels of differences do not depend on where zero is, so affine scaling is only a unit for each
input: it goes into the grids, and rows are never copied. Quantile scaling replaces values by
their ranks in a copy, whitening replaces inputs by uncorrelated combinations. A categorical input
stays as it is: its unit is the distance between two different categories.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
import scipy.sparse as sp

from gramless.base.errors import InputError
from gramless.base.lazy_rows import OrderedRows
from gramless.base.memory import memory_for
from gramless.base.numeric import in_range
from gramless.base.state import Stateful, array_in, number_in, part_in, require
from gramless.base.threads import map_blocks
from gramless.base.types import BoolArray, FloatArray, IntArray
from gramless.preprocessing.rows import Rows, check_width, dense_columns
from gramless.preprocessing.whitening import Whitening

ScalingKind = Literal["none", "standard", "quantile", "both", "whiten"]
SCALINGS: tuple[ScalingKind, ...] = ("none", "standard", "quantile", "both", "whiten")

_WORTH_THREADS = 1 << 12
_MOST_COPIED = 1 << 24
"""Numbers of rows that are copied whole to be scaled."""
# A number of such rows, in them and in what is computed beside them.
_COPIED_BYTES = 32
_SAMPLE_ROWS = 20_000
_NUMBERS_AT_ONCE = 1 << 18
_LEVELS = 257
_LEAST_UNIT = 1e-307
_UNIFORM_STD = 12.0**-0.5
_SPARSE_RANKS = (
    "quantile scaling of sparse rows would make them dense; use scaling='standard' or 'none', "
    "or pass X.toarray()."
)
_SPARSE_COMBINATIONS = (
    "whitening of sparse rows would make them dense; use scaling='standard' or 'none', or pass "
    "X.toarray()."
)


@dataclass(frozen=True, repr=False)
class Scaler(Stateful):
    """The unit of each input and, for quantile scaling, the table of ranks.

    ``kind`` "both" has every input twice, as it is and as its rank. ``unit`` is what a bandwidth of
    one means in the rows that :meth:`rows` returns: 1, or the standard deviation (of a uniform
    distribution for ranks); it is infinite for ignored inputs: constants, and ranks of categories
    or of two values. ``spread`` is the mean L1 distance between two random rows in these units.
    ``knots`` and ``levels``, of shape (n_features, n_knots), are values and their ranks in [0, 1].
    ``categorical`` is the mask of inputs of the returned rows that are categories. ``limits``, of
    shape (2, n_features), are the least and the largest values of the inputs: others are clipped.
    Kind "whiten" has combinations of the inputs in their place, of which the unit is 1.
    """

    kind: ScalingKind
    unit: FloatArray
    spread: float
    knots: FloatArray
    levels: FloatArray
    categorical: BoolArray | None = None
    limits: FloatArray | None = None
    whitening: Whitening | None = None

    def check(self) -> None:
        """Check that the parts of a scaler from a file fit each other."""
        require(self.kind in SCALINGS, "a scaler of an unknown kind")
        fields, twice = vars(self), self.kind == "both"
        knots = array_in(fields, "knots", np.float64, (None, None), finite=True)
        array_in(fields, "levels", np.float64, knots.shape, finite=True)
        ranked = self.kind in ("quantile", "both")
        require(not ranked or knots.shape[1] > 0, "a scaler has no quantiles")
        array_in(fields, "unit", np.float64, (len(knots) * (2 if twice else 1),))
        if self.categorical is not None:
            array_in(fields, "categorical", np.bool_, self.unit.shape)
        if self.limits is not None:
            lower, upper = array_in(fields, "limits", np.float64, (2, len(knots)))
            require(bool((lower <= upper).all()), "limits of a scaler are not in order")
        require((self.kind == "whiten") == (self.whitening is not None), "whitening is missing")
        if self.whitening is not None:
            whitening = part_in(fields, "whitening", Whitening)
            require(len(whitening.mean) == len(knots), "a whitening is of another number of inputs")
        number_in(fields, "spread", float)

    @classmethod
    def fit(
        cls,
        kind: ScalingKind,
        X: Rows,
        sample_weight: FloatArray | None = None,
        categorical: BoolArray | None = None,
    ) -> Scaler:
        """Learn units from at most 20,000 evenly spaced rows.

        Categorical inputs get the unit 1 and no rank. Raises ``InputError`` for an unknown kind,
        for ranks of sparse rows, and for an input whose deviation is too small to divide by.
        """
        if kind not in SCALINGS:
            raise InputError(f"scaling must be one of {', '.join(SCALINGS)}, got {kind!r}.")
        chosen = np.zeros(X.shape[1], bool) if categorical is None else categorical
        weight = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        if kind == "whiten":
            return cls._fit_whitened(X, weight, chosen)
        fitted = cls._fit_sparse if sp.issparse(X) else cls._fit_dense
        scaler = fitted(kind, X, weight, chosen)
        if categorical is not None:
            scaler = scaler._with_categories(X, weight, categorical)
        tiny = np.flatnonzero(scaler.unit < _LEAST_UNIT)
        if len(tiny):
            raise InputError(
                f"Input {tiny[0]} has a standard deviation of {scaler.unit[tiny[0]]:.3g}, whose "
                "inverse is beyond double precision; multiply it by 1e300, or use "
                "scaling='quantile' or 'none'."
            )
        usable = np.isfinite(scaler.spread) and scaler.spread > 0
        return scaler if usable else replace(scaler, spread=1.0)

    @classmethod
    def _fit_dense(
        cls, kind: ScalingKind, X: Rows, weight: FloatArray, ignored: BoolArray
    ) -> Scaler:
        step = _sample_step(X)
        sample, weight = X[::step], weight[::step]
        # A dozen arrays as large as a block are needed at once. Blocks are of nearly equal widths,
        # because NumPy adds up the rows of a single column in another order.
        n_blocks = max(1, -(-sample.shape[0] * X.shape[1] // _NUMBERS_AT_ONCE))
        bounds = [X.shape[1] * k // n_blocks for k in range(n_blocks + 1)]
        parts = [
            cls._fit_columns(kind, X, a, np.asarray(sample[:, a:b], np.float64), weight, ignored)
            for a, b in pairwise(bounds)
        ]
        units, knots, levels, spreads = (
            np.concatenate([part[k] for part in parts], axis=-1) for k in range(4)
        )
        return cls(kind, units.ravel(), float(spreads.ravel().sum()), knots.T, levels.T)

    @classmethod
    def _fit_whitened(cls, X: Rows, weight: FloatArray, categorical: BoolArray) -> Scaler:
        if sp.issparse(X):
            raise InputError(_SPARSE_COMBINATIONS)
        if categorical.any():
            raise InputError(
                "scaling='whiten' combines inputs that are numbers, and some are categories (text, "
                "truth values, or which numbers are missing); leave these columns out, or use "
                "scaling='standard'."
            )
        standard, step = cls.fit("standard", X, weight), _sample_step(X)
        sample, weight = np.asarray(X[::step], np.float64), weight[::step]
        whitening = Whitening.fit(sample, weight, standard.unit)
        unit = np.where(whitening.varies, 1.0, np.inf)
        ordered, share = _sorted_columns(whitening.apply(sample), weight)
        spread = float(_spreads(ordered, share, unit).sum()) or 1.0
        none = np.empty((X.shape[1], 0))
        return cls("whiten", unit, spread, none, none, whitening=whitening)

    @classmethod
    def _fit_columns(
        cls,
        kind: ScalingKind,
        X: Rows,
        start: int,
        sample: FloatArray,
        weight: FloatArray,
        ignored: BoolArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return units, knots, levels and spreads of some columns, which are the last axis."""
        ordered, share = _sorted_columns(sample, weight)
        n_columns = sample.shape[1]
        knots = levels = np.empty((n_columns, 0))
        units = []
        if kind != "quantile":
            units.append(_dense_unit(X, start, ordered, share))
        if kind == "none":
            units[0][np.isfinite(units[0])] = 1.0
        if kind in ("quantile", "both"):
            knots, levels = _quantile_table(ordered, share)
            units.append(np.full(n_columns, _UNIFORM_STD))
        if kind == "both":
            units[1][[len(np.unique(values)) <= 2 for values in knots]] = np.inf
        are_ignored = ignored[start : start + n_columns]
        unit = np.concatenate([np.where(are_ignored, np.inf, each) for each in units])
        shares = np.tile(share, len(units))
        spreads = _spreads(cls(kind, unit, 1.0, knots, levels).rows(ordered), shares, unit)
        shape = len(units), n_columns
        return unit.reshape(shape), knots.T, levels.T, spreads.reshape(shape)

    @classmethod
    def _fit_sparse(
        cls, kind: ScalingKind, X: sp.csr_array, weight: FloatArray, ignored: BoolArray
    ) -> Scaler:
        if kind in ("quantile", "both"):
            raise InputError(_SPARSE_RANKS)
        share = weight / weight.sum()
        values = X.astype(np.float64)
        values.eliminate_zeros()
        stored = np.bincount(values.indices, minlength=X.shape[1])
        zero = 1.0 - np.asarray(share @ (values != 0).astype(np.float64)).ravel()
        zero[stored == X.shape[0]] = 0.0
        unit = _sparse_deviation(values, share, zero)
        if kind == "none":
            unit[np.isfinite(unit)] = 1.0
        unit[ignored] = np.inf
        spread = _sparse_spread(values, share, zero, unit)
        none = np.empty((X.shape[1], 0))
        return cls(kind, unit, spread, none, none)

    def _with_categories(self, X: Rows, weight: FloatArray, categorical: BoolArray) -> Scaler:
        """Return the scaler with units of the categorical inputs, which it was fitted to ignore."""
        unit, spread, step = self.unit.copy(), self.spread, _sample_step(X)
        for j, column in dense_columns(X, categorical):
            if column.min() < column.max():
                unit[j] = 1.0
                # The probability that two random rows are of different categories.
                _, number = np.unique(column[::step], return_inverse=True)
                share = np.bincount(number, weights=weight[::step]) / weight[::step].sum()
                spread += float(1.0 - share @ share)
        mask = np.zeros(len(unit), bool)
        mask[: len(categorical)] = categorical
        return replace(self, unit=unit, spread=spread, categorical=mask)

    @property
    def categorical_mask(self) -> BoolArray:
        """Which inputs are categories, as a mask even if there are none."""
        return np.zeros(len(self.unit), bool) if self.categorical is None else self.categorical

    def weighted(self, relevance: FloatArray | None) -> Scaler:
        """Return the scaler whose units are divided by relevance; inputs of none are ignored."""
        if relevance is None:
            return self
        with np.errstate(over="ignore", divide="ignore"):
            unit = self.unit / relevance
        return replace(self, unit=_as_finite(unit, self.unit)).ignoring(relevance == 0.0)

    def ignoring(self, chosen: BoolArray) -> Scaler:
        """Return the scaler with infinite units of some inputs (n_features,): they are ignored."""
        return replace(self, unit=np.where(chosen, np.inf, self.unit))

    def ranked(self, chosen: BoolArray) -> Scaler:
        """Return the scaler, of kind "both", that has only ranks of some inputs.

        They are there even if only two values are known; a constant is ignored.
        """
        unit, n_inputs = self.unit.copy(), len(chosen)
        varies = self.levels[:, -1] > 0.0
        unit[:n_inputs][chosen] = np.inf
        unit[n_inputs:][chosen] = np.where(varies[chosen], _UNIFORM_STD, np.inf)
        return replace(self, unit=unit)

    def limited(self, X: FloatArray, margin: float) -> Scaler:
        """Return the scaler that clips inputs beyond the range of some rows.

        The limits are ``margin`` times the range of an input beyond it; categories have none.
        """
        least, most = (edge.astype(np.float64) for edge in (X.min(axis=0), X.max(axis=0)))
        with np.errstate(over="ignore"):
            beyond = margin * (most - least)
            beyond[self.categorical_mask[: len(beyond)]] = np.inf
            return replace(self, limits=np.stack([least - beyond, most + beyond]))

    def unscaled(self, bandwidth: float | FloatArray) -> FloatArray:
        """Convert a bandwidth of scaled inputs to units of the rows, keeping finite ones finite."""
        with np.errstate(over="ignore"):
            own = bandwidth * self.unit
        return _as_finite(own, np.maximum(self.unit, bandwidth))

    def rows(self, X: Rows, n_jobs: int | None = None) -> Rows:
        """Return the rows in which ``unit`` is measured.

        This is ``X`` itself, or a copy in its precision: its ranks, both side by side, or whitened
        rows. Values beyond the limits are clipped first. Raises ``InputError`` for other columns
        than those of the fit, and for ranks and combinations of sparse rows.
        """
        check_width("Scaler", X, len(self.unit) // (2 if self.kind == "both" else 1))
        if self.limits is not None:
            dense = X.toarray() if sp.issparse(X) else X
            X = np.clip(dense, *self.limits.astype(dense.dtype))
        if self.kind in ("none", "standard"):
            return X
        if sp.issparse(X):
            raise InputError(_SPARSE_RANKS if self.whitening is None else _SPARSE_COMBINATIONS)
        if self.whitening is not None:
            return self.whitening.apply(X, n_jobs)
        n_rows, n_features = X.shape
        first = n_features if self.kind == "both" else 0
        kept = (np.arange(len(self.unit)) < first) | self.categorical_mask
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        out = np.empty((n_rows, len(self.unit)), dtype, order="F")

        def write(j: int) -> None:
            column = X[:, j % n_features]
            if kept[j]:
                out[:, j] = column
            elif np.isfinite(self.unit[j]):
                out[:, j] = np.interp(column, self.knots[j - first], self.levels[j - first])
            else:
                out[:, j] = 0.0

        threads = 1 if out.size < _WORTH_THREADS else n_jobs
        map_blocks(write, [(j,) for j in range(len(self.unit))], threads)
        return out

    def ordered(self, X: Rows, order: IntArray | slice, n_jobs: int | None = None) -> Rows:
        """Return :meth:`rows` of some rows in an order; of many they are computed when read."""
        width = len(self.unit)
        n_rows = X.shape[0] if isinstance(order, slice) else len(order)
        n_bytes = _COPIED_BYTES * n_rows * width
        is_small = n_rows * width <= _MOST_COPIED and n_bytes <= memory_for(n_bytes)
        if sp.issparse(X) or is_small:
            return self.rows(X[order], n_jobs)
        copied = self.kind not in ("none", "standard") and X.dtype != np.float32
        dtype = np.dtype(np.float64) if copied else X.dtype
        return OrderedRows(X, order, lambda rows: self.rows(rows, n_jobs), width, dtype)


def _as_finite(numbers: FloatArray, beside: FloatArray) -> FloatArray:
    """Replace overflowed numbers by the largest float wherever ``beside`` is finite."""
    return np.where(np.isfinite(beside), in_range(numbers), numbers)


def _sample_step(X: Rows) -> int:
    return max(1, -(-X.shape[0] // _SAMPLE_ROWS))


def _sorted_columns(sample: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each column sorted, and the share of the total weight up to each of its values."""
    if (weight == 1.0).all():
        # The order itself is not needed, and takes ten times as long.
        share = np.arange(1.0, len(weight) + 1.0) / len(weight)
        return np.sort(sample, axis=0), np.broadcast_to(share[:, None], sample.shape)
    order = np.argsort(sample, axis=0, kind="stable")
    share = np.cumsum(weight[order], axis=0) / weight.sum()
    return np.take_along_axis(sample, order, axis=0), share


def _dense_unit(X: Rows, start: int, ordered: FloatArray, share: FloatArray) -> FloatArray:
    """Return the deviations of columns from ``start`` on, in all rows if samples are constant."""
    unit = _standard_unit(ordered, share)
    if len(ordered) < X.shape[0]:
        for j in np.flatnonzero(np.isinf(unit)):
            column = np.sort(np.asarray(X[:, start + j], np.float64))[:, None]
            even = np.linspace(1.0 / len(column), 1.0, len(column))[:, None]
            unit[j] = _standard_unit(column, even)[0]
    return unit


def _standard_unit(ordered: FloatArray, share: FloatArray) -> FloatArray:
    weight = np.diff(share, axis=0, prepend=0.0)
    # Centring and scaling first keeps the digits of timestamps and avoids overflow.
    centred = ordered / 4.0 - ordered[len(ordered) // 2] / 4.0
    size = np.abs(centred).max(axis=0)
    size[size == 0] = 1.0
    centred /= size
    mean = (weight * centred).sum(axis=0)
    deviation = np.sqrt((weight * (centred - mean) ** 2).sum(axis=0))
    return _usable(4.0 * (deviation * size), np.abs(ordered).max(axis=0))


def _sparse_deviation(values: sp.csr_array, share: FloatArray, zero: FloatArray) -> FloatArray:
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


def _usable(deviation: FloatArray, size: FloatArray) -> FloatArray:
    """Return infinity where a deviation is rounding noise: the input is constant."""
    return np.where(deviation > 1e-12 * size, deviation, np.inf)


def _spreads(ordered: FloatArray, share: FloatArray, unit: FloatArray) -> FloatArray:
    """Return the mean distance of two random rows along each column (Gini's mean difference)."""
    gaps = np.diff(ordered, axis=0)
    below = share[:-1]
    spreads: FloatArray = 2.0 * (gaps * below * (1.0 - below)).sum(axis=0) / unit
    return spreads


def _sparse_spread(
    values: sp.csr_array, share: FloatArray, zero: FloatArray, unit: FloatArray
) -> float:
    """Return the sum of :func:`_spreads`, with one entry a column for all its zeros."""
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
    return float((2.0 * gaps * below[:-1] * np.maximum(0.0, 1.0 - below[:-1])).sum())


def _quantile_table(ordered: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return values and their ranks in [0, 1]; tied values get the middle of their ranks."""
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
