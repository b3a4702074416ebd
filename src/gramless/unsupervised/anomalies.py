"""Anomaly detection by the counts of rows in the bins of random grids.

The bins of a grid over few inputs estimate the density of these inputs. The score of a row is a
mean over many grids. It is linear in the features of random binning; the weight of a bin depends on
its count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from gramless.base.errors import InputError
from gramless.base.memory import check_memory, large_array_budget_for, user_memory_limit
from gramless.base.numeric import as_float, clip_infinities
from gramless.base.random import RandomStateLike, seed_from, stream, streams
from gramless.base.state import State, check_columns, number_in, part_in, require
from gramless.base.threads import row_blocks
from gramless.base.types import BoolArray, FloatArray, IntArray, TableLike
from gramless.estimators.inputs import RowInputs
from gramless.estimators.parameters import check_count
from gramless.features.grids import Grids, cell_limits
from gramless.preprocessing.rows import Rows, checked_weights
from gramless.unsupervised.base import TableEstimator
from gramless.unsupervised.bin_counts import BinCounts, hashed_grids
from gramless.unsupervised.marginals import MarginalCells
from gramless.unsupervised.principal_axes import PrincipalAxes, spreads

_MAX_BLOCK_ROWS, _MIN_BLOCK_ROWS = 1 << 16, 1 << 10
# A block holds copies of its rows with axes and clipped, and codes and positions of their bins.
_BYTES_PER_COLUMN, _BYTES_PER_GRID, _MEMORY_BLOCKS = 32, 4, 4
_MAX_DENSE_CELLS = 1 << 24  # cells per block in ``contributions``, which makes rows dense
# Tables of more columns are copied whole when they are scaled.
_NARROW, _WIDE_BYTES_PER_CELL = 256, 16
_MAX_SHAPING_ROWS = 10_000  # a random half of the rows, but at most this many, determines the grids
_AXES_EVERY = 3  # every third grid divides principal axes, the others divide inputs
_MIN_WIDTH, _MAX_WIDTH = 0.0625, 1.0  # widths of cells, in shares of an input's range in few rows
_MIN_RANGE = 1e-300
_MIN_POWER = 0.5  # grids have between this power of ``resolution`` and ``resolution`` cells
_FENCE = 1.5  # interquartile ranges below the lower quartile (Tukey's fence)
_ROUNDING = 1e-9  # scores that differ by less are equal
_CLIPPED_SHARE = 0.5  # inputs are clipped to this share of the largest that has a cell number


@dataclass(eq=False, repr=False, kw_only=True)
class AnomalyDetector(OutlierMixin, TableEstimator):
    """Anomaly detection by random grids: outliers are rows in nearly empty bins.

    Each grid divides a few random inputs into about ``sqrt(resolution)`` to ``resolution`` cells.
    The widths of the cells are shares of the ranges of these inputs in a few rows. A third of the
    grids divide principal axes instead of inputs, which detects rows that violate correlations. A
    bin with the share m of all rows has the rarity ``1 / (1 + resolution * m)``. The rarity of a
    row is the mean rarity of its bins, and its score is minus that.

    Parameters
    ----------
    n_grids : int, default=256
        Number of grids.
    resolution : int, default=256
        Approximate maximum number of cells of a grid. A bin with much less than
        ``1 / resolution`` of the rows counts as empty. Larger values find finer gaps, and need
        more rows.
    contamination : "auto" or float, default="auto"
        Share of outliers, above 0 and at most 0.5: for :meth:`predict` among new rows with the
        distribution of the training rows, for :meth:`fit_predict` among the training rows. With
        "auto", outliers have scores more than 1.5 interquartile ranges below the lower quartile
        (Tukey's fence).
    categorical_features : "auto" or array-like, default="auto"
        Names, indices or a mask of categorical columns, in addition to text, booleans and
        categories of data frames; see :class:`KernelRegressor`.
    random_state : int, RandomState or None, default=None
        Seed of all random numbers; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Number of threads; None means all processors. Results do not depend on it.

    Attributes
    ----------
    offset_ : float
        Threshold of scores: ``decision_function`` is ``score_samples`` minus this. It is learned
        from scores of training rows that are not counted themselves, like new rows.
    training_offset_ : float
        Threshold of scores of the training rows, which :meth:`fit_predict` uses.
    bin_counts_ : BinCounts
        The bins and their numbers of rows.
    axes_ : PrincipalAxes
        The principal axes of the numeric inputs; there are none for more than 1,000 inputs.
    marginals_ : MarginalCells
        Cells along single inputs and axes, which :meth:`contributions` uses.
    inputs_, seed_, n_features_in_, feature_names_in_

    Notes
    -----
    As for :class:`sklearn.ensemble.IsolationForest`, every method accepts new rows and training
    rows. Time grows with the rows times the grids, memory with the occupied bins, because rows are
    processed in blocks. Rows are compared with all rows, not only with their neighbours: for
    clusters of very different densities :class:`sklearn.neighbors.LocalOutlierFactor` is better.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless import AnomalyDetector
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> X[:, 2] += X[:, 0]
    >>> detector = AnomalyDetector(random_state=0).fit(X)
    >>> new = np.array([[0.0, 0.0, 0.0], [0.0, 8.0, 0.0]])
    >>> detector.predict(new)
    array([ 1, -1])
    >>> detector.contributions(new[1:]).argmax(axis=1)
    array([1])
    >>> bool(detector.p_values(new)[1] < 0.01)
    True
    """

    n_grids: int = 256
    resolution: int = 256
    contamination: str | float = "auto"
    categorical_features: str | ArrayLike = "auto"
    random_state: RandomStateLike = None
    n_jobs: int | None = None

    def fit(self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Draw the grids and count the rows in their bins.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            At least two training rows. NaN is a missing value, except in sparse rows.
        y : ignored
            Ignored; present for scikit-learn's interface.
        sample_weight : array-like (n_samples,), optional
            A row of weight w counts as w rows; a row of weight 0 is ignored.

        Returns
        -------
        The estimator itself.
        """
        self._check_parameters()
        X, sample_weight, _ = self._without_ignored(X, sample_weight)
        rows, _ = self._learn_inputs(X, ensure_min_samples=2)
        if (
            user_memory_limit() is not None
            and isinstance(rows, np.ndarray)
            and rows.shape[1] > _NARROW
        ):
            check_memory(
                f"AnomalyDetector: {rows.shape[0]:,} rows of {rows.shape[1]:,} columns",
                _WIDE_BYTES_PER_CELL * rows.size,
                "give fewer columns or rows",
            )
        seed = seed_from(self.random_state)
        rows, weights = self._weighted_rows(rows, sample_weight)
        n_rows = rows.shape[0]
        n_shaping = max(1, min(n_rows // 2, _MAX_SHAPING_ROWS))
        shaping = np.zeros(n_rows, bool)
        shaping[stream(seed, "ranges").choice(n_rows, n_shaping, replace=False)] = True
        sample = rows[np.flatnonzero(shaping)]
        categorical = self.inputs_.categorical
        if categorical is None:
            categorical = np.zeros(rows.shape[1], bool)
        axes = PrincipalAxes.of(sample, spreads(sample, categorical))
        grids = draw_grids(axes.append_to(sample), categorical, self.n_grids, self.resolution, seed)
        self.marginals_ = MarginalCells.of(_with_axes(axes, grids, sample), grids)
        self.seed_, self.axes_ = seed, axes
        first = _with_axes(axes, grids, rows[:1])
        self._count(BinCounts.empty(grids, first, self.n_jobs), rows, weights, shaping)
        return self

    def partial_fit(
        self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Count more training rows, or fit if there is no fit yet.

        The first batch determines the grids; it should have hundreds of rows
        that are like the later ones. The order of the later rows has no influence on the counts.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            More training rows.
        y : ignored
            Ignored; present for scikit-learn's interface.
        sample_weight : array-like (n_samples,), optional
            A row of weight w counts as w rows; a row of weight 0 is ignored.

        Returns
        -------
        The estimator itself.
        """
        if "bin_counts_" not in vars(self):
            return self.fit(X, sample_weight=sample_weight)
        self._check_parameters()
        X, sample_weight, _ = self._without_ignored(X, sample_weight)
        rows, weights = self._weighted_rows(self.inputs_.transform(self, X), sample_weight)
        self._count(self.bin_counts_, rows, weights, np.zeros(rows.shape[0], bool))
        return self

    def fit_predict(
        self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> IntArray:
        """Fit, and return -1 for outliers among the training rows and 1 for the other rows.

        If ``contamination`` is a number, outliers are this share of the rows. :meth:`predict` finds
        fewer outliers among the same rows: it treats them as new rows, but they have higher scores
        than new rows because they are counted in their bins.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            At least two training rows.
        y : ignored
            Ignored; present for scikit-learn's interface.
        sample_weight : array-like (n_samples,), optional
            See :meth:`fit`.

        Returns
        -------
        array (n_samples,) of int
        """
        scores = self.fit(X, sample_weight=sample_weight).score_samples(X)
        return np.where(scores < self.training_offset_, -1, 1)

    @property
    def training_offset_(self) -> float:
        """Threshold of scores of the training rows, which :meth:`fit_predict` uses."""
        check_is_fitted(self)
        binned = self.bin_counts_
        scores = -binned.of_sample(rarity(binned.shares(), self.resolution))
        if isinstance(self.contamination, str):
            return _fence(scores, binned.weights)
        return float(_quantiles(scores, binned.weights, [self.contamination])[0])

    def score_samples(self, X: TableLike) -> FloatArray:
        """Return minus the mean rarity of the bins of each row; lower scores are stranger.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to score.

        Returns
        -------
        array (n_samples,)
            Scores from -1 to 0.
        """
        check_is_fitted(self)
        return -self._means(X, rarity(self.bin_counts_.shares(), self.resolution))

    def decision_function(self, X: TableLike) -> FloatArray:
        """Return ``score_samples(X) - offset_``, which is negative for outliers.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to score.

        Returns
        -------
        array (n_samples,)
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: TableLike) -> IntArray:
        """Return -1 for outliers and 1 for other rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            New rows. For training rows use :meth:`fit_predict`.

        Returns
        -------
        array (n_samples,) of int
        """
        return np.where(self.decision_function(X) < 0.0, -1, 1)

    def p_values(self, X: TableLike) -> FloatArray:
        """Return conformal p-values of new rows.

        ``p_values(X) <= alpha`` detects outliers. For a row with the distribution of the training
        rows, its probability is at most ``alpha``, on average over fits. The method needs no
        validation rows: each new row is counted as if it were a training row, and is compared with
        training rows that had no influence on the grids. Their counts are never higher than they
        would be with the new row (full conformal prediction; Vovk, Gammerman & Shafer 2005,
        section 2.2).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            New rows, none of which is a training row.

        Returns
        -------
        array (n_samples,)
            ``(1 + s) / (1 + m)``, where s of m training rows are at least as strange. m is half of
            the training rows, and nearly 10,000 if there are more than 20,000.

        Notes
        -----
        The bound holds for exchangeable rows of equal weights without missing values, because the
        values that replace missing ones are learned from all rows. A training row of weight w
        counts as w rows, and a new row has the mean weight.
        """
        check_is_fitted(self)
        binned = self.bin_counts_
        compared, weight = ~binned.shaped_grids, binned.total / binned.n_rows
        # The share of a bin without the new row, if the total includes it.
        shares = binned.shares() * (binned.total / (binned.total + weight))
        training_rarities = binned.of_sample(rarity(shares, self.resolution))[compared]
        weights, order = binned.weights[compared], np.argsort(training_rarities, kind="stable")
        weight_from = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
        rarities = self._means(X, rarity(binned.shares(joined=weight), self.resolution))
        first = np.searchsorted(training_rarities[order], rarities - _ROUNDING)
        p_values = (weight + weight_from[first]) / (weight + weight_from[0])
        return np.asarray(p_values, np.float64)

    def contributions(self, X: TableLike) -> FloatArray:
        """Return the contribution of each column to the strangeness of each row.

        For each grid, the difference between the rarity of the row's bin and the mean rarity of the
        training rows is divided among the inputs or axes of the grid. The weights are minus the
        logarithms of the shares of rows in the row's cell along each of them alone. The part of a
        principal axis is divided among the inputs in proportion to the squares of their terms in
        the row's coordinate.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to score.

        Returns
        -------
        array (n_samples, n_features)
            Positive if a column makes a row stranger. The sum of a row is minus its score plus the
            mean score of the training rows.
        """
        check_is_fitted(self)
        binned = self.bin_counts_
        rarities, grids = rarity(binned.shares(), self.resolution), binned.bins.grids
        # For each grid, the rarity of each code minus the mean rarity of the training rows. Code 0
        # is an unknown bin.
        excess = []
        for a, b in pairwise(binned.bins.offsets_):
            mean = binned.counts[a:b] @ rarities[a:b] / binned.total
            of_codes = np.append(rarities[-1], rarities[a:b])
            excess.append((of_codes - mean) / binned.n_grids)
        sources = self.inputs_.sources(self.n_features_in_)
        # 1 (n_inputs, n_features_in_) if an input comes from a column.
        to_columns = sp.csr_array(
            (np.ones(len(sources)), (np.arange(len(sources)), sources)),
            shape=(len(sources), self.n_features_in_),
        )
        n_inputs = len(self.axes_.unit)
        first_pairs = np.cumsum([0, *np.isfinite(grids.widths).sum(axis=1)]).tolist()
        parts = [np.zeros((0, self.n_features_in_))]
        max_rows = max(1, _MAX_DENSE_CELLS // binned.bins.n_inputs)
        for block in self._blocks(self.inputs_.transform(self, X), max_rows):
            codes = binned.bins.rows_matrix(block).codes
            dense = block.toarray() if sp.issparse(block) else block
            parts_of_columns = np.zeros(dense.shape)
            for r, codes_of_grid in enumerate(codes):
                columns, shares = self.marginals_.shares(dense, grids, r, first_pairs[r])
                parts_of_columns[:, columns] += excess[r][codes_of_grid][:, None] * shares
            by_input = parts_of_columns[:, :n_inputs]
            if self.axes_.n_axes > 0:
                of_axes = parts_of_columns[:, n_inputs:]
                by_input += self.axes_.distribute(dense[:, :n_inputs], of_axes)
            parts.append(by_input @ to_columns)
        return np.concatenate(parts)

    def check_state(self, state: State) -> None:
        """Raise InputError if the parts of a model from a file are inconsistent."""
        inputs, axes = part_in(state, "inputs_", RowInputs), part_in(state, "axes_", PrincipalAxes)
        binned = part_in(state, "bin_counts_", BinCounts)
        n_features = number_in(state, "n_features_in_", int, 1)
        number_in(state, "seed_", int, 0, 2**64)
        number_in(state, "offset_", float)
        marginals, n_inputs = part_in(state, "marginals_", MarginalCells), len(axes.unit)
        n_pairs = np.count_nonzero(np.isfinite(binned.bins.widths_))
        require(len(marginals.first) == n_pairs, "marginals_ do not fit the grids")
        require(binned.bins.n_inputs == n_inputs + axes.n_axes, "axes_ do not fit the grids")
        inputs.check_sizes(n_inputs, n_features)
        check_columns(state, n_features)

    def _check_parameters(self) -> None:
        check_count(self, "n_grids")
        check_count(self, "resolution", low=2)
        if isinstance(self.contamination, str) and self.contamination == "auto":
            return
        if not 0.0 < as_float(self.contamination) <= 0.5:
            raise InputError(
                f"AnomalyDetector: contamination must be 'auto' or a number above 0 and at most "
                f"0.5; got {self.contamination!r}."
            )

    def _weighted_rows(
        self, rows: Rows, sample_weight: ArrayLike | None
    ) -> tuple[Rows, FloatArray | None]:
        if sample_weight is None:
            return rows, None
        weights = checked_weights(sample_weight, rows.shape[0], "AnomalyDetector")
        kept = np.flatnonzero(weights)
        return rows[kept], weights[kept]

    def _count(
        self, binned: BinCounts, rows: Rows, weights: FloatArray | None, shaping: BoolArray
    ) -> None:
        """Add rows to the counts, and learn the offset from the scores of a sample of all rows."""
        grids = binned.bins.grids
        for a, b in row_blocks(rows.shape[0], _rows_per_block(grids)):
            block_weights = None if weights is None else weights[a:b]
            block = _with_axes(self.axes_, grids, rows[a:b])
            binned = binned.add_rows(block, self.seed_, block_weights, shaping[a:b])
        scores = np.zeros(len(binned.weights))
        for shares in binned.shares_of_others():
            scores -= rarity(shares, self.resolution) / binned.n_grids
        # Rows that determined the grids have other scores than new rows. The remaining rows are
        # fewer, so that their quantiles vary more. The lower offset gives fewer false alarms.
        all_rows, compared = np.ones(len(scores), bool), ~binned.shaped_grids
        groups = [rows for rows in (all_rows, compared) if rows.any()]
        self.offset_ = min(self._offset(scores[rows], binned.weights[rows]) for rows in groups)
        self.bin_counts_ = binned

    def _offset(self, scores: FloatArray, weights: FloatArray) -> float:
        """Return the offset for new rows, given scores with the same distribution."""
        if isinstance(self.contamination, str):
            return _fence(scores, weights)
        # A new row is among the k lowest of m + 1 exchangeable scores with probability k / (m + 1).
        order = np.argsort(scores, kind="stable")
        cumulative = np.cumsum(weights[order])
        total = cumulative[-1] + weights.mean()
        max_weight = as_float(self.contamination) * total * (1.0 + _ROUNDING)
        k = max(1, int(np.searchsorted(cumulative, max_weight, side="right")))
        return float(scores[order[k - 1]] - _ROUNDING)

    def _blocks(self, rows: Rows, max_rows: int | None = None) -> Iterator[Rows]:
        grids = self.bin_counts_.bins.grids
        for a, b in row_blocks(rows.shape[0], max_rows or _rows_per_block(grids)):
            yield _with_axes(self.axes_, grids, rows[a:b])

    def _means(self, X: TableLike, values: FloatArray) -> FloatArray:
        """Return the mean value of the bins of each row."""
        binned, rows = self.bin_counts_, self.inputs_.transform(self, X)
        matrices = map(binned.bins.rows_matrix, self._blocks(rows))
        means = [binned.mean_over_grids(matrix, values) for matrix in matrices]
        return np.concatenate([np.zeros(0), *means])


def _rows_per_block(grids: Grids) -> int:
    """Return the number of rows per block, which is smaller if memory is short."""
    n_grids, n_columns = grids.widths.shape
    of_row = _BYTES_PER_COLUMN * n_columns + _BYTES_PER_GRID * n_grids
    budget = large_array_budget_for(_MEMORY_BLOCKS * _MAX_BLOCK_ROWS * of_row)
    return min(_MAX_BLOCK_ROWS, max(_MIN_BLOCK_ROWS, budget // (_MEMORY_BLOCKS * of_row)))


def rarity(share: FloatArray, resolution: int) -> FloatArray:
    """Return the rarity of bins with a share of the rows; the rarity of empty bins is 1."""
    result: FloatArray = 1.0 / (1.0 + resolution * share)
    return result


def draw_grids(
    sample: Rows, categorical: BoolArray, n_grids: int, resolution: int, seed: int
) -> Grids:
    """Draw grids over few inputs each, with about ``sqrt(resolution)`` to ``resolution`` cells.

    Widths are shares of the range of an input in ``resolution`` rows of the sample. These rows are
    drawn for each grid, so that an extreme row affects few grids. Each category is one cell.
    ``categorical`` has the length of the inputs; the columns after them are axes, which separate
    grids divide.
    """
    n_columns, n_inputs = sample.shape[1], len(categorical)
    is_category = np.append(categorical, np.zeros(n_columns - n_inputs, bool))
    half_ranges = _half_ranges(sample)
    varying = np.flatnonzero(half_ranges > _MIN_RANGE)
    inputs, axes = varying[varying < n_inputs], varying[varying >= n_inputs]
    widths = np.full((n_grids, n_columns), np.inf)
    shifts = np.zeros(widths.shape)
    for r, rng in enumerate(streams(seed, "anomalies", n_grids)):
        pool = axes if len(axes) and r % _AXES_EVERY == _AXES_EVERY - 1 else inputs
        share = np.exp(rng.uniform(np.log(_MIN_WIDTH), np.log(_MAX_WIDTH)))
        log_cells = rng.uniform(_MIN_POWER, 1.0) * np.log(resolution)
        n_divided = max(1, round(log_cells / np.log1p(1.0 / share)))
        columns = rng.choice(pool, min(n_divided, len(pool)), replace=False)
        rows = rng.choice(sample.shape[0], min(resolution, sample.shape[0]), replace=False)
        half = _half_ranges(sample[rows][:, columns])
        # An input that hardly varies may be constant in these rows.
        half = np.where(half > _MIN_RANGE, half, half_ranges[columns])
        with np.errstate(over="ignore"):
            width = clip_infinities(2.0 * share * half)
        shift = rng.random(len(columns)) * width
        widths[r, columns] = np.where(is_category[columns], 1.0, width)
        shifts[r, columns] = np.where(is_category[columns], 0.5, shift)
    return hashed_grids(widths, shifts, seed)


def _half_ranges(X: Rows) -> FloatArray:
    if X.shape[1] == 0:
        return np.zeros(0)
    if sp.issparse(X):
        low, high = (ends.toarray().ravel() for ends in (X.min(axis=0), X.max(axis=0)))
    else:
        low, high = X.min(axis=0), X.max(axis=0)
    return np.asarray(high, np.float64) / 2.0 - np.asarray(low, np.float64) / 2.0


def _with_axes(axes: PrincipalAxes, grids: Grids, X: Rows) -> Rows:
    """Return rows with their coordinates along axes, clipped to the range of cell numbers."""
    limits = _CLIPPED_SHARE * cell_limits(1.0 / grids.widths)
    n_inputs = X.shape[1]
    return _clip(axes.append_to(_clip(X, limits[:n_inputs])), limits)


def _clip(X: Rows, limits: FloatArray) -> Rows:
    """Return rows with inputs clipped to ``limits``; no copy is made if all are within."""
    values, bounds = (X.data, limits[X.indices]) if sp.issparse(X) else (X, limits)
    if not (np.abs(values) > bounds).any():
        return X
    if not sp.issparse(X):
        return np.clip(X, -limits, limits)
    return sp.csr_array((np.clip(values, -bounds, bounds), X.indices, X.indptr), shape=X.shape)


def _fence(scores: FloatArray, weights: FloatArray) -> float:
    low, high = _quantiles(scores, weights, [0.25, 0.75])
    return float(low - _FENCE * (high - low))


def _quantiles(values: FloatArray, weights: FloatArray, levels: list[float]) -> FloatArray:
    if (weights == 1.0).all():
        return np.quantile(values, levels)
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    return values[order[np.searchsorted(cumulative, np.multiply(levels, cumulative[-1]))]]
