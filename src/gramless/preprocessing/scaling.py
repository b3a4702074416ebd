"""Scaling of the inputs.

A shift-invariant kernel depends on differences only, so standardisation needs no centring: it is
one unit per input, by which the grids multiply bandwidths, and rows are never copied. Quantile
scaling replaces values by their ranks in a copy; whitening replaces inputs by uncorrelated linear
combinations. A categorical input stays as it is, and its unit is the distance between two different
categories.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, Self

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from gramless.base.errors import InputError
from gramless.base.lazy_rows import OrderedRows
from gramless.base.memory import large_array_budget_for
from gramless.base.numeric import clip_infinities
from gramless.base.state import Stateful, array_in, number_in, part_in, require
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.preprocessing.rows import Rows, check_width, dense_columns

ScalingKind = Literal["none", "standard", "quantile", "both", "whiten"]
SCALINGS: tuple[ScalingKind, ...] = ("none", "standard", "quantile", "both", "whiten")

_MIN_PARALLEL_NUMBERS = 1 << 12  # below this, starting threads takes longer than the work
_MAX_COPIED_NUMBERS = 1 << 24  # larger tables are scaled a block of rows at a time
_BYTES_PER_COPIED_NUMBER = 32  # for the copy and its temporary arrays
_SAMPLE_ROWS = 20_000
_NUMBERS_AT_ONCE = 1 << 18
_WHITENED_ROWS_AT_ONCE = 4096
_N_LEVELS = 257
_MIN_UNIT = 1e-307  # the inverse of a smaller one overflows
_UNIFORM_STD = 12.0**-0.5
_RANKS_OF_SPARSE_ROWS = (
    "quantile scaling of sparse rows would make them dense; use scaling='standard' or 'none', "
    "or pass X.toarray()."
)
_WHITENING_OF_SPARSE_ROWS = (
    "whitening of sparse rows would make them dense; use scaling='standard' or 'none', or pass "
    "X.toarray()."
)


@dataclass(frozen=True, repr=False)
class Whitening(Stateful):
    """The transformation ``(x - mean) axes`` to uncorrelated numbers of variance 1.

    Attributes
    ----------
    mean : array (n_features,)
    axes : array (n_features, n_features)
        The columns are the principal components of the standardised inputs, each divided by its
        standard deviation, those of largest variance first. Standardisation makes the result
        independent of the units of the inputs. Axes along which rows do not vary are 0.
    """

    mean: FloatArray
    axes: FloatArray

    def check(self) -> None:
        """Raise ``ValueError`` if the fields of a whitening from a file are inconsistent."""
        mean = array_in(vars(self), "mean", np.float64, (None,), finite=True)
        array_in(vars(self), "axes", np.float64, (len(mean), len(mean)), finite=True)

    @classmethod
    def fit(cls, rows: FloatArray, weight: FloatArray, unit: FloatArray) -> Self:
        """Return the whitening of rows.

        Parameters
        ----------
        rows : array (n_rows, n_features)
        weight : array (n_rows,)
            Sample weights.
        unit : array (n_features,)
            Standard deviations of the inputs, infinite for constants.
        """
        share = weight / weight.sum()
        # The mean of differences from one row keeps the digits of timestamps.
        mean = rows[0] + share @ (rows - rows[0])
        standardised = (rows - mean) / unit
        with one_blas_thread():
            values, vectors = eigh((standardised * share[:, None]).T @ standardised)
        values, vectors = values[::-1], vectors[:, ::-1]
        # The signs of eigenvectors are arbitrary: the largest entry is made positive.
        largest = np.argmax(np.abs(vectors), axis=0)
        vectors = vectors * np.sign(vectors[largest, np.arange(len(values))])
        varies = values > len(values) * np.finfo(np.float64).eps * values[0]
        deviation = np.sqrt(np.where(varies, values, np.inf))
        return cls(mean, np.ascontiguousarray(vectors / deviation / unit[:, None]))

    @property
    def varies(self) -> BoolArray:
        varies: BoolArray = (self.axes != 0.0).any(axis=0)
        return varies

    def apply(self, X: AnyArray, n_jobs: int | None = None) -> AnyArray:
        """Return whitened rows, in single precision if ``X`` is."""
        # A matrix product could add the terms of a row in an order that depends on the block.
        out = np.zeros(X.shape, np.float32 if X.dtype == np.float32 else np.float64)

        def whiten_block(start: int, stop: int) -> None:
            sums = np.zeros((X.shape[1], stop - start))
            for j in range(X.shape[1]):
                column = X[start:stop, j] - self.mean[j]
                sums += self.axes[j][:, None] * column
            out[start:stop] = sums.T

        map_blocks(whiten_block, row_blocks(len(X), _WHITENED_ROWS_AT_ONCE), n_jobs)
        return out

    def uses_of_inputs(self, uses: BoolArray) -> BoolArray:
        inputs: BoolArray = uses @ (self.axes != 0.0).T
        return inputs


@dataclass(frozen=True, repr=False)
class Scaler(Stateful):
    """The unit of each input and the tables of quantile scaling and whitening.

    Attributes
    ----------
    kind : {"none", "standard", "quantile", "both", "whiten"}
        With "both", scaled rows have every input twice: as it is, then as its rank.
    unit : array (n_scaled,)
        The length of a bandwidth of one in each column of the scaled rows (:meth:`rows`): 1 for
        "none" and "whiten", else the standard deviation, that of a uniform distribution for ranks.
        It is infinite for ignored inputs: constants, and ranks of categories or of two values.
    spread : float
        The mean L1 distance between two random rows in these units.
    knots, levels : array (n_features, n_knots)
        Values of each input and their ranks in [0, 1].
    categorical : array of bool (n_scaled,), optional
        The columns of the scaled rows that are categories.
    limits : array (2, n_features), optional
        The range to which inputs are clipped.
    whitening : Whitening, optional
        The linear combinations of kind "whiten".
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
        """Raise ``ValueError`` if the fields of a scaler from a file are inconsistent."""
        require(self.kind in SCALINGS, "a scaler of an unknown kind")
        fields = vars(self)
        knots = array_in(fields, "knots", np.float64, (None, None), finite=True)
        array_in(fields, "levels", np.float64, knots.shape, finite=True)
        has_ranks = self.kind in ("quantile", "both")
        require(not has_ranks or knots.shape[1] > 0, "a scaler has no quantiles")
        array_in(fields, "unit", np.float64, (len(knots) * (2 if self.kind == "both" else 1),))
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
        for ranks of sparse rows, and for an input with a deviation too small to divide by.
        """
        if kind not in SCALINGS:
            raise InputError(f"scaling must be one of {', '.join(SCALINGS)}, got {kind!r}.")
        is_category = np.zeros(X.shape[1], bool) if categorical is None else categorical
        weight = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        if kind == "whiten":
            return cls._fit_whitened(X, weight, is_category)
        if sp.issparse(X):
            scaler = cls._fit_sparse(kind, X, weight, is_category)
        else:
            step = _sample_step(X)
            sample, sample_weights = X[::step], weight[::step]
            # A dozen arrays of the size of a block exist at once. The blocks have nearly equal
            # widths so that none is a single column, because NumPy sums it in another order.
            n_blocks = max(1, -(-sample.shape[0] * X.shape[1] // _NUMBERS_AT_ONCE))
            bounds = [X.shape[1] * k // n_blocks for k in range(n_blocks + 1)]
            parts = [
                cls._fit_columns(
                    kind, X, a, np.asarray(sample[:, a:b], np.float64), sample_weights, is_category
                )
                for a, b in pairwise(bounds)
            ]
            units, knots, levels, spreads = (
                np.concatenate([part[k] for part in parts], axis=-1) for k in range(4)
            )
            spread = float(spreads.ravel().sum())
            scaler = cls(kind, units.ravel(), spread, knots.T, levels.T)
        if categorical is not None:
            scaler = scaler._with_categories(X, weight, categorical)
        tiny = np.flatnonzero(scaler.unit < _MIN_UNIT)
        if len(tiny):
            raise InputError(
                f"Input {tiny[0]} has a standard deviation of {scaler.unit[tiny[0]]:.3g}, whose "
                "inverse is beyond double precision; multiply it by 1e300, or use "
                "scaling='quantile' or 'none'."
            )
        usable = np.isfinite(scaler.spread) and scaler.spread > 0
        return scaler if usable else replace(scaler, spread=1.0)

    @classmethod
    def _fit_whitened(cls, X: Rows, weight: FloatArray, categorical: BoolArray) -> Scaler:
        if sp.issparse(X):
            raise InputError(_WHITENING_OF_SPARSE_ROWS)
        if categorical.any():
            raise InputError(
                "scaling='whiten' combines inputs that are numbers, and some are categories (text, "
                "booleans, or indicators of missing numbers); leave these columns out, or use "
                "scaling='standard'."
            )
        standard, step = cls.fit("standard", X, weight), _sample_step(X)
        sample, weight = np.asarray(X[::step], np.float64), weight[::step]
        whitening = Whitening.fit(sample, weight, standard.unit)
        unit = np.where(whitening.varies, 1.0, np.inf)
        ordered, share = _sorted_columns(whitening.apply(sample), weight)
        spread = float(_mean_distances(ordered, share, unit).sum()) or 1.0
        no_knots = np.empty((X.shape[1], 0))
        return cls("whiten", unit, spread, no_knots, no_knots, whitening=whitening)

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
        """Return units, knots, levels and spreads of the columns of ``sample``, on the last axis.

        The sample has the columns of ``X`` from ``start`` on.
        """
        ordered, share = _sorted_columns(sample, weight)
        n_columns = sample.shape[1]
        knots = levels = np.empty((n_columns, 0))
        units = []
        if kind != "quantile":
            units.append(_standard_unit(ordered, share))
            if len(sample) < X.shape[0]:
                # An input that is constant in the sample may vary in the other rows.
                for j in np.flatnonzero(np.isinf(units[0])):
                    column = np.sort(np.asarray(X[:, start + j], np.float64))[:, None]
                    even = np.linspace(1.0 / len(column), 1.0, len(column))[:, None]
                    units[0][j] = _standard_unit(column, even)[0]
        if kind == "none":
            units[0][np.isfinite(units[0])] = 1.0
        if kind in ("quantile", "both"):
            knots, levels = _quantile_table(ordered, share)
            units.append(np.full(n_columns, _UNIFORM_STD))
        if kind == "both":
            units[1][[len(np.unique(values)) <= 2 for values in knots]] = np.inf
        is_ignored = ignored[start : start + n_columns]
        unit = np.concatenate([np.where(is_ignored, np.inf, part) for part in units])
        shares = np.tile(share, len(units))
        scaled = cls(kind, unit, 1.0, knots, levels).rows(ordered)
        spreads = _mean_distances(scaled, shares, unit)
        shape = len(units), n_columns
        return unit.reshape(shape), knots.T, levels.T, spreads.reshape(shape)

    @classmethod
    def _fit_sparse(
        cls, kind: ScalingKind, X: sp.csr_array, weight: FloatArray, ignored: BoolArray
    ) -> Scaler:
        if kind in ("quantile", "both"):
            raise InputError(_RANKS_OF_SPARSE_ROWS)
        share = weight / weight.sum()
        values = X.astype(np.float64)
        values.eliminate_zeros()
        n_stored = np.bincount(values.indices, minlength=X.shape[1])
        zero_share = 1.0 - np.asarray(share @ (values != 0).astype(np.float64)).ravel()
        # Exactly 0, without rounding, if a column has no zeros.
        zero_share[n_stored == X.shape[0]] = 0.0
        unit = _sparse_standard_unit(values, share, zero_share)
        if kind == "none":
            unit[np.isfinite(unit)] = 1.0
        unit[ignored] = np.inf
        spread = _sparse_mean_distance(values, share, zero_share, unit)
        no_knots = np.empty((X.shape[1], 0))
        return cls(kind, unit, spread, no_knots, no_knots)

    def _with_categories(self, X: Rows, weight: FloatArray, categorical: BoolArray) -> Scaler:
        """Return the scaler with the units of categorical inputs, which its fit ignored."""
        unit, spread, step = self.unit.copy(), self.spread, _sample_step(X)
        for j, column in dense_columns(X, categorical):
            if column.min() < column.max():
                unit[j] = 1.0
                _, code = np.unique(column[::step], return_inverse=True)
                share = np.bincount(code, weights=weight[::step]) / weight[::step].sum()
                # The probability that the categories of two random rows differ.
                spread += float(1.0 - share @ share)
        mask = np.zeros(len(unit), bool)
        mask[: len(categorical)] = categorical
        return replace(self, unit=unit, spread=spread, categorical=mask)

    @property
    def categorical_mask(self) -> BoolArray:
        return np.zeros(len(self.unit), bool) if self.categorical is None else self.categorical

    def weighted(self, relevance: FloatArray | None) -> Scaler:
        """Return the scaler with units divided by the relevance (n_scaled,) of inputs.

        Inputs of relevance 0 are ignored.
        """
        if relevance is None:
            return self
        with np.errstate(over="ignore", divide="ignore"):
            unit = self.unit / relevance
        return replace(self, unit=_clip_overflow(unit, self.unit)).ignoring(relevance == 0.0)

    def ignoring(self, mask: BoolArray) -> Scaler:
        """Return the scaler with infinite units for the inputs of a mask, which are ignored."""
        return replace(self, unit=np.where(mask, np.inf, self.unit))

    def ranked(self, mask: BoolArray) -> Scaler:
        """Return this scaler, of kind "both", without the values of the inputs of a mask.

        Their ranks stay, even if there are only two values; constants are ignored.
        """
        unit, n_inputs = self.unit.copy(), len(mask)
        varies = self.levels[:, -1] > 0.0
        unit[:n_inputs][mask] = np.inf
        unit[n_inputs:][mask] = np.where(varies[mask], _UNIFORM_STD, np.inf)
        return replace(self, unit=unit)

    def limited(self, X: FloatArray, margin: float) -> Scaler:
        """Return the scaler that clips inputs to the range in ``X``, widened on both sides.

        ``margin`` is relative to the range of each input. Categories are not clipped.
        """
        lowest, highest = (edge.astype(np.float64) for edge in (X.min(axis=0), X.max(axis=0)))
        with np.errstate(over="ignore"):
            widening = margin * (highest - lowest)
            widening[self.categorical_mask[: len(widening)]] = np.inf
            return replace(self, limits=np.stack([lowest - widening, highest + widening]))

    def unscaled(self, bandwidth: float | FloatArray) -> FloatArray:
        """Convert a bandwidth of scaled inputs to the units of the rows, without overflow."""
        with np.errstate(over="ignore"):
            in_row_units = bandwidth * self.unit
        return _clip_overflow(in_row_units, np.maximum(self.unit, bandwidth))

    def rows(self, X: Rows, n_jobs: int | None = None) -> Rows:
        """Return the scaled rows (n_rows, n_scaled); ``unit`` has one entry per column.

        Values beyond the limits are clipped first. The result is ``X`` itself for kinds "none" and
        "standard", else a copy in its precision. Raises ``InputError`` if the number of inputs
        differs from the fit, and for ranks and whitening of sparse rows.
        """
        check_width("Scaler", X, len(self.unit) // (2 if self.kind == "both" else 1))
        if self.limits is not None:
            dense = X.toarray() if sp.issparse(X) else X
            X = np.clip(dense, *self.limits.astype(dense.dtype))
        if self.kind in ("none", "standard"):
            return X
        if sp.issparse(X):
            is_whitened = self.whitening is not None
            raise InputError(_WHITENING_OF_SPARSE_ROWS if is_whitened else _RANKS_OF_SPARSE_ROWS)
        if self.whitening is not None:
            return self.whitening.apply(X, n_jobs)
        n_rows, n_features = X.shape
        first_rank = n_features if self.kind == "both" else 0
        is_copied = (np.arange(len(self.unit)) < first_rank) | self.categorical_mask
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        out = np.empty((n_rows, len(self.unit)), dtype, order="F")

        def scale_column(j: int) -> None:
            column = X[:, j % n_features]
            if is_copied[j]:
                out[:, j] = column
            elif np.isfinite(self.unit[j]):
                k = j - first_rank
                out[:, j] = np.interp(column, self.knots[k], self.levels[k])
            else:
                out[:, j] = 0.0

        n_threads = 1 if out.size < _MIN_PARALLEL_NUMBERS else n_jobs
        map_blocks(scale_column, [(j,) for j in range(len(self.unit))], n_threads)
        return out

    def ordered(self, X: Rows, order: IntArray | slice, n_jobs: int | None = None) -> Rows:
        """Return :meth:`rows` of ``X[order]``, as lazy rows if there are many."""
        width = len(self.unit)
        n_rows = X.shape[0] if isinstance(order, slice) else len(order)
        n_bytes = _BYTES_PER_COPIED_NUMBER * n_rows * width
        is_small = n_rows * width <= _MAX_COPIED_NUMBERS and n_bytes <= large_array_budget_for(
            n_bytes
        )
        if sp.issparse(X) or is_small:
            return self.rows(X[order], n_jobs)
        is_float64 = self.kind not in ("none", "standard") and X.dtype != np.float32
        dtype = np.dtype(np.float64) if is_float64 else X.dtype
        return OrderedRows(X, order, lambda rows: self.rows(rows, n_jobs), width, dtype)


def _clip_overflow(numbers: FloatArray, operands: FloatArray) -> FloatArray:
    """Replace infinities that arose from finite operands by the largest float."""
    return np.where(np.isfinite(operands), clip_infinities(numbers), numbers)


def _sample_step(X: Rows) -> int:
    return max(1, -(-X.shape[0] // _SAMPLE_ROWS))


def _sorted_columns(sample: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each column sorted, and the share of the total weight up to each of its values."""
    if (weight == 1.0).all():
        # Sorting takes a tenth of the time of argsort, which only unequal weights need.
        share = np.arange(1.0, len(weight) + 1.0) / len(weight)
        return np.sort(sample, axis=0), np.broadcast_to(share[:, None], sample.shape)
    order = np.argsort(sample, axis=0, kind="stable")
    share = np.cumsum(weight[order], axis=0) / weight.sum()
    return np.take_along_axis(sample, order, axis=0), share


def _standard_unit(ordered: FloatArray, share: FloatArray) -> FloatArray:
    """Return the standard deviation of each sorted column, infinite if it is constant."""
    weight = np.diff(share, axis=0, prepend=0.0)
    # Centring and scaling first keeps the digits of timestamps and avoids overflow.
    centred = ordered / 4.0 - ordered[len(ordered) // 2] / 4.0
    size = np.abs(centred).max(axis=0)
    size[size == 0] = 1.0
    centred /= size
    mean = (weight * centred).sum(axis=0)
    deviation = np.sqrt((weight * (centred - mean) ** 2).sum(axis=0))
    return _infinite_if_constant(4.0 * (deviation * size), np.abs(ordered).max(axis=0))


def _sparse_standard_unit(
    values: sp.csr_array, share: FloatArray, zero_share: FloatArray
) -> FloatArray:
    size = np.asarray(abs(values).max(axis=0).todense()).ravel()
    # A power of two divides without rounding.
    size = np.exp2(np.floor(np.log2(np.where(size > 0, size, 1.0))))
    scaled = values.copy()
    scaled.data /= size[values.indices]
    mean = np.asarray(share @ scaled).ravel()
    scaled.data -= mean[values.indices]
    # What rounding left of the mean; the two-pass formula subtracts its square.
    mean_error = np.asarray(share @ scaled).ravel() - zero_share * mean
    scaled.data **= 2
    variance = np.asarray(share @ scaled).ravel() + zero_share * mean**2 - mean_error**2
    return _infinite_if_constant(np.sqrt(np.maximum(variance, 0.0)) * size, size)


def _infinite_if_constant(deviation: FloatArray, size: FloatArray) -> FloatArray:
    # A deviation this small is rounding noise.
    return np.where(deviation > 1e-12 * size, deviation, np.inf)


def _mean_distances(ordered: FloatArray, share: FloatArray, unit: FloatArray) -> FloatArray:
    """Return the mean distance of two random rows in each column (Gini's mean difference)."""
    gaps = np.diff(ordered, axis=0)
    below = share[:-1]
    distances: FloatArray = 2.0 * (gaps * below * (1.0 - below)).sum(axis=0) / unit
    return distances


def _sparse_mean_distance(
    values: sp.csr_array, share: FloatArray, zero_share: FloatArray, unit: FloatArray
) -> float:
    """Return the sum of :func:`_mean_distances`; all zeros of a column are one entry."""
    n_columns = values.shape[1]
    column = np.concatenate([values.indices, np.arange(n_columns)])
    number = np.concatenate([values.data, np.zeros(n_columns)])
    weight = np.concatenate([np.repeat(share, np.diff(values.indptr)), zero_share])
    order = np.lexsort((number, column))
    column, number, weight = column[order], number[order], weight[order]
    first = np.flatnonzero(np.diff(column, prepend=-1))
    below = np.cumsum(weight)
    below -= np.repeat(below[first] - weight[first], np.diff(first, append=len(column)))
    gaps = np.where(np.diff(column) == 0, np.diff(number), 0.0) / unit[column[:-1]]
    return float((2.0 * gaps * below[:-1] * np.maximum(0.0, 1.0 - below[:-1])).sum())


def _quantile_table(ordered: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return quantiles and their ranks in [0, 1]; tied quantiles get the mean of their ranks."""
    targets = np.linspace(0.0, 1.0, _N_LEVELS)
    n_features = ordered.shape[1]
    knots, levels = np.empty((2, n_features, _N_LEVELS))
    for j in range(n_features):
        # The shares are sums with rounding errors.
        positions = np.searchsorted(share[:, j], targets - 1e-12)
        quantiles = ordered[np.minimum(positions, len(ordered) - 1), j]
        value, first, count = np.unique(quantiles, return_index=True, return_counts=True)
        rank = targets[first] + (count - 1) / (2.0 * (_N_LEVELS - 1))
        rank[0], rank[-1] = 0.0, 1.0 if len(value) > 1 else 0.0
        # After the distinct values, the last one is repeated.
        knots[j], levels[j] = value[-1], rank[-1]
        knots[j, : len(value)], levels[j, : len(value)] = value, rank
    return knots, levels
