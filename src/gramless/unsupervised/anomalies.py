"""Anomalies: rows that fall into bins of random grids which hold hardly any others.

The bins of a grid over few inputs estimate the density of these inputs. The score of a row is a
mean over many grids, linear in the features of random binning: one weight a bin, from its count.
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
from gramless.base.memory import check_memory, is_limited, memory_for
from gramless.base.numeric import as_float, in_range
from gramless.base.random import RandomState, seed_from, stream, streams
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

_ROWS_AT_ONCE = 1 << 16
_FEWEST_AT_ONCE = 1 << 10
# A row in a block is there with its axes, and cut off; its bins have codes and places.
_BYTES_A_COLUMN, _BYTES_A_GRID, _MEMORY_BLOCKS = 32, 4, 4
_NUMBERS_TO_SHARE = 1 << 24
"""Bounds rows times inputs of a block whose rarities are shared: rows become dense there."""
# Both parts of the rows of tables of more columns are copied whole to be scaled.
_NARROW, _WIDE_BYTES_A_CELL = 256, 16
_MOST_SHAPING_ROWS = 10_000
"""Rows that grids are drawn by: a random half of those of the fit, or so many of more."""
_AXES_EVERY = 3  # one grid in so many divides principal axes, the others inputs
_NARROWEST, _WIDEST = 0.0625, 1.0
"""Widths of cells, as shares of the range of an input in a few rows."""
_LEAST_RANGE = 1e-300
_LEAST_POWER = 0.5  # grids have from this power of ``resolution`` to ``resolution`` cells
_FENCE = 1.5  # Tukey's: quartile ranges below the lower quartile
_ROUNDING = 1e-9  # scores that differ by less are equal
_FARTHEST = 0.5  # inputs are cut off at this share of the largest whose cells can be numbered


@dataclass(eq=False, repr=False, kw_only=True)
class AnomalyDetector(OutlierMixin, TableEstimator):
    """Finds rows that fall into bins of random grids which hold hardly any others.

    Each grid divides a few inputs, drawn at random, into some ``sqrt(resolution)`` to
    ``resolution`` cells, whose widths are shares of the ranges of these inputs in a few rows; a
    third of the grids divides principal axes of the inputs in their place, which show rows that
    break correlations. A bin with the share m of all rows has the rarity
    ``1 / (1 + resolution * m)``, and a row the mean rarity of its bins.

    Parameters
    ----------
    n_grids : int, default=256
        Number of grids.
    resolution : int, default=256
        The most cells of a grid, about. Shares of the rows far below ``1 / resolution`` all count
        as empty. Larger numbers find finer gaps, and need more rows.
    contamination : "auto" or float, default="auto"
        The share of new rows, distributed like those of the fit, that :meth:`predict` calls
        outliers, and of the rows of the fit that :meth:`fit_predict` does: above 0 and at most 0.5.
        With "auto" outliers have scores more than 1.5 interquartile ranges below the lower
        quartile (Tukey's fence).
    categorical_features : "auto" or array-like, default="auto"
        As in :class:`KernelRegressor`: names, positions or a mask of columns of categories, beside
        text, truth values and categories of data frames.
    random_state : int, RandomState or None, default=None
        Seed of everything that is drawn; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    offset_ : float
        ``decision_function`` is ``score_samples`` minus this. It comes from scores that rows of the
        fit have when they are not counted themselves, as new rows are not.
    training_offset_ : float
        Rows of the fit with lower ``score_samples`` are outliers by :meth:`fit_predict`.
    bin_counts_ : BinCounts
        The bins, and how many rows are in each.
    axes_ : PrincipalAxes
        The principal axes; none of categories, nor of more than 1,000 inputs.
    marginals_ : MarginalCells
        How surprising cells are along single inputs and axes.
    inputs_, seed_, n_features_in_, feature_names_in_

    Notes
    -----
    Every method takes new rows as well as those of the fit, as :class:`sklearn.ensemble.\
IsolationForest` does. Time grows with the rows times the grids, memory with the occupied bins:
    rows pass in blocks. Rows are strange beside all rows, not beside their neighbours alone: for
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
    random_state: RandomState = None
    n_jobs: int | None = None

    def fit(self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Draw grids, and count the rows in their bins.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            At least two rows. NaN is a missing value, but in sparse rows.
        y : ignored
            Ignored; present for scikit-learn's interface.
        sample_weight : array-like (n_samples,), optional
            A row of weight w counts as w rows, one of weight 0 not at all.

        Returns
        -------
        The estimator itself.
        """
        self._check_parameters()
        X, sample_weight, _ = self._without_ignored(X, sample_weight)
        rows, _ = self._learn_inputs(X, ensure_min_samples=2)
        if is_limited() and isinstance(rows, np.ndarray) and rows.shape[1] > _NARROW:
            check_memory(
                f"AnomalyDetector: {rows.shape[0]:,} rows of {rows.shape[1]:,} columns",
                _WIDE_BYTES_A_CELL * rows.size,
                "give fewer columns or rows",
            )
        seed = seed_from(self.random_state)
        rows, weights = self._weighed(rows, sample_weight)
        n_rows = rows.shape[0]
        n_shaping = max(1, min(n_rows // 2, _MOST_SHAPING_ROWS))
        shaping = np.zeros(n_rows, bool)
        shaping[stream(seed, "ranges").choice(n_rows, n_shaping, replace=False)] = True
        sample = rows[np.flatnonzero(shaping)]
        names = self.inputs_.categorical
        names = np.zeros(rows.shape[1], bool) if names is None else names
        axes = PrincipalAxes.of(sample, spreads(sample, names))
        grids = draw_grids(axes.beside(sample), names, self.n_grids, self.resolution, seed)
        self.marginals_ = MarginalCells.of(_beside(axes, grids, sample), grids)
        self.seed_, self.axes_ = seed, axes
        first = _beside(axes, grids, rows[:1])
        self._count(BinCounts.empty(grids, first, self.n_jobs), rows, weights, shaping)
        return self

    def partial_fit(
        self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Count further rows, or fit to the first.

        Grids stay those of the first batch, which should hold hundreds of
        rows like those to come; for counts, the order of the rows does not matter.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Further training rows.
        y : ignored
            Ignored; present for scikit-learn's interface.
        sample_weight : array-like (n_samples,), optional
            Weights of the rows; only their proportions matter.

        Returns
        -------
        The estimator itself.
        """
        if "bin_counts_" not in vars(self):
            return self.fit(X, sample_weight=sample_weight)
        self._check_parameters()
        X, sample_weight, _ = self._without_ignored(X, sample_weight)
        rows, weights = self._weighed(self.inputs_.transform(self, X), sample_weight)
        self._count(self.bin_counts_, rows, weights, np.zeros(rows.shape[0], bool))
        return self

    def fit_predict(
        self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> IntArray:
        """Fit, and return -1 for outliers among the rows of the fit and 1 for the others.

        With a number as ``contamination`` outliers are this share of the rows. :meth:`predict`
        finds fewer outliers in the same rows: it takes them for new ones, and each looks less
        strange than a new row because it is counted in its bins.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            At least two rows.
        y : ignored
            Ignored; present for scikit-learn's interface.
        sample_weight : array-like (n_samples,), optional
            As in :meth:`fit`.

        Returns
        -------
        array (n_samples,) of int
        """
        scores = self.fit(X, sample_weight=sample_weight).score_samples(X)
        return np.where(scores < self.training_offset_, -1, 1)

    @property
    def training_offset_(self) -> float:
        """Rows of the fit with lower scores are outliers by :meth:`fit_predict`."""
        check_is_fitted(self)
        binned = self.bin_counts_
        scores = -binned.of_sample(rarity(binned.shares(), self.resolution))
        if isinstance(self.contamination, str):
            return _fence(scores, binned.weights)
        return float(_quantiles(scores, binned.weights, [self.contamination])[0])

    def score_samples(self, X: TableLike) -> FloatArray:
        """Return minus the mean rarity of the bins of each row: the lower, the stranger.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to score.

        Returns
        -------
        array (n_samples,)
            From -1 to 0.
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
            New rows. For rows of the fit use :meth:`fit_predict`.

        Returns
        -------
        array (n_samples,) of int
        """
        return np.where(self.decision_function(X) < 0.0, -1, 1)

    def p_values(self, X: TableLike) -> FloatArray:
        """Return conformal p-values of new rows.

        ``p_values(X) <= alpha`` finds outliers, and is true with a probability of at most ``alpha``
        for a row that follows the distribution of the rows of the fit, on average over fits. No
        rows are held back: each new row is counted as if it were one of the fit, and compared with
        rows of the fit by which no grid was drawn, whose own counts never rise above what they
        would be with it (full conformal prediction; Vovk, Gammerman & Shafer 2005, section 2.2).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            None of the rows of the fit.

        Returns
        -------
        array (n_samples,)
            ``(1 + s) / (1 + m)``, where s of m rows are at least as strange. These m are half of
            the rows of a fit, and nearly 10,000 of more than 20,000.

        Notes
        -----
        The bound is for exchangeable rows of equal weights, without gaps: what fills gaps is
        learned from all rows. A row of weight w is compared with as w rows, and a new row counts
        with the mean weight.
        """
        check_is_fitted(self)
        binned = self.bin_counts_
        compared, weight = ~binned.shaped_grids, binned.total / binned.n_rows
        alone = rarity(binned.shares() * (binned.total / (binned.total + weight)), self.resolution)
        known, weights = binned.of_sample(alone)[compared], binned.weights[compared]
        order = np.argsort(known, kind="stable")
        above = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
        rarities = self._means(X, rarity(binned.shares(joined=weight), self.resolution))
        as_strange = above[np.searchsorted(known[order], rarities - _ROUNDING)]
        return np.asarray((weight + as_strange) / (weight + above[0]), np.float64)

    def contributions(self, X: TableLike) -> FloatArray:
        """Return how much each column makes a row strange.

        The rarity of a bin, less the mean over the rows of the fit in its grid, is shared among
        what the grid divides, by how surprising the row's cell is along each alone: by minus the
        logarithms of the shares of the rows in these cells. What falls to a principal axis is
        shared among the inputs by the squares of their terms in the row's coordinate.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Rows to score.

        Returns
        -------
        array (n_samples, n_features)
            Positive where a column makes a row stranger. Rows sum to minus ``score_samples``, less
            the mean of that over the rows of the fit.
        """
        check_is_fitted(self)
        binned = self.bin_counts_
        of_codes, grids = self._excess_of_codes(), binned.bins.grids
        n_inputs, to_columns = len(self.axes_.unit), self._attribution()
        pairs = np.cumsum([0, *np.isfinite(grids.widths).sum(axis=1)]).tolist()
        parts = [np.zeros((0, self.n_features_in_))]
        most = max(1, _NUMBERS_TO_SHARE // binned.bins.n_inputs)
        for block in self._blocks(self.inputs_.transform(self, X), most):
            codes = binned.bins.rows_matrix(block).codes
            dense = block.toarray() if sp.issparse(block) else block
            shared = np.zeros(dense.shape)
            for r, own in enumerate(codes):
                columns, shares = self.marginals_.shares(dense, grids, r, pairs[r])
                shared[:, columns] += of_codes[r][own][:, None] * shares
            by_input = shared[:, :n_inputs]
            if self.axes_.n_axes > 0:
                by_input += self.axes_.shared(dense[:, :n_inputs], shared[:, n_inputs:])
            parts.append(by_input @ to_columns)
        return np.concatenate(parts)

    def check_state(self, state: State) -> None:
        """Check that grids and inputs of a file fit each other."""
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

    def _weighed(
        self, rows: Rows, sample_weight: ArrayLike | None
    ) -> tuple[Rows, FloatArray | None]:
        """Return the rows of positive weight, and their weights, None where all are 1."""
        if sample_weight is None:
            return rows, None
        weights = checked_weights(sample_weight, rows.shape[0], "AnomalyDetector")
        kept = np.flatnonzero(weights)
        return rows[kept], weights[kept]

    def _count(
        self, binned: BinCounts, rows: Rows, weights: FloatArray | None, shaping: BoolArray
    ) -> None:
        """Add rows to counts, and set the offset by the sampled ones, each scored as a new row."""
        grids = binned.bins.grids
        for a, b in row_blocks(rows.shape[0], _rows_at_once(grids)):
            own = None if weights is None else weights[a:b]
            block = _beside(self.axes_, grids, rows[a:b])
            binned = binned.added(block, self.seed_, own, shaping[a:b])
        scores = np.zeros(len(binned.weights))
        for shares in binned.shares_of_others():
            scores -= rarity(shares, self.resolution) / binned.n_grids
        # Rows by which grids were drawn look stranger or less strange than new ones. But the others
        # are fewer, so that their quantiles vary more: the lower offset gives fewer false alarms.
        every, compared = np.ones(len(scores), bool), ~binned.shaped_grids
        groups = [rows for rows in (every, compared) if rows.any()]
        self.offset_ = min(self._offset(scores[rows], binned.weights[rows]) for rows in groups)
        self.bin_counts_ = binned

    def _offset(self, scores: FloatArray, weights: FloatArray) -> float:
        """Return the offset for new rows, given scores that follow the same distribution."""
        if isinstance(self.contamination, str):
            return _fence(scores, weights)
        # A new row is among the k lowest of m + 1 exchangeable scores with probability k / (m + 1).
        order = np.argsort(scores, kind="stable")
        reached = np.cumsum(weights[order])
        most = as_float(self.contamination) * (reached[-1] + weights.mean()) * (1.0 + _ROUNDING)
        k = max(1, int(np.searchsorted(reached, most, side="right")))
        return float(scores[order[k - 1]] - _ROUNDING)

    def _blocks(self, rows: Rows, most: int | None = None) -> Iterator[Rows]:
        """Yield inputs of rows with their coordinates along the axes, block by block."""
        grids = self.bin_counts_.bins.grids
        for a, b in row_blocks(rows.shape[0], most or _rows_at_once(grids)):
            yield _beside(self.axes_, grids, rows[a:b])

    def _means(self, X: TableLike, values: FloatArray) -> FloatArray:
        """Return the mean value of the bins of rows."""
        binned, rows = self.bin_counts_, self.inputs_.transform(self, X)
        parts = map(binned.bins.rows_matrix, self._blocks(rows))
        found = [binned.mean_over_grids(part, values) for part in parts]
        return np.concatenate([np.zeros(0), *found])

    def _excess_of_codes(self) -> list[FloatArray]:
        """Return what each code of each grid adds to the rarity of a row, above the usual."""
        binned, found = self.bin_counts_, []
        rarities = rarity(binned.shares(), self.resolution)
        for a, b in pairwise(binned.bins.offsets_):
            usual = binned.counts[a:b] @ rarities[a:b] / binned.total
            found.append((np.append(rarities[-1], rarities[a:b]) - usual) / binned.n_grids)
        return found

    def _attribution(self) -> sp.csr_array:
        """Return 1 (n_inputs, n_features_in_) where an input comes from a column."""
        sources = self.inputs_.sources(self.n_features_in_)
        ones, inputs = np.ones(len(sources)), np.arange(len(sources))
        return sp.csr_array((ones, (inputs, sources)), shape=(len(sources), self.n_features_in_))


def _rows_at_once(grids: Grids) -> int:
    """Return how many rows are looked at together: fewer if memory is short."""
    n_grids, n_columns = grids.widths.shape
    of_row = _BYTES_A_COLUMN * n_columns + _BYTES_A_GRID * n_grids
    budget = memory_for(_MEMORY_BLOCKS * _ROWS_AT_ONCE * of_row)
    return min(_ROWS_AT_ONCE, max(_FEWEST_AT_ONCE, budget // (_MEMORY_BLOCKS * of_row)))


def rarity(share: FloatArray, resolution: int) -> FloatArray:
    """Return how rare bins are that hold some share of the rows: 1 for empty ones."""
    found: FloatArray = 1.0 / (1.0 + resolution * share)
    return found


def draw_grids(
    sample: Rows, categorical: BoolArray, n_grids: int, resolution: int, seed: int
) -> Grids:
    """Draw grids over few inputs each, of about ``sqrt(resolution)`` to ``resolution`` cells.

    Widths are shares of the range of an input in ``resolution`` rows of the sample, which are drawn
    for each grid anew: few grids see an extreme row. Categories are all told apart. Columns behind
    the inputs, of which ``categorical`` tells, are divided by grids of their own.
    """
    n_columns, n_inputs = sample.shape[1], len(categorical)
    names = np.append(categorical, np.zeros(n_columns - n_inputs, bool))
    whole = _half_ranges(sample)
    pool = np.flatnonzero(whole > _LEAST_RANGE)
    inputs, axes = pool[pool < n_inputs], pool[pool >= n_inputs]
    widths = np.full((n_grids, n_columns), np.inf)
    shifts = np.zeros(widths.shape)
    for r, rng in enumerate(streams(seed, "anomalies", n_grids)):
        own_pool = axes if len(axes) and r % _AXES_EVERY == _AXES_EVERY - 1 else inputs
        share = np.exp(rng.uniform(np.log(_NARROWEST), np.log(_WIDEST)))
        cells = rng.uniform(_LEAST_POWER, 1.0) * np.log(resolution)
        wanted = max(1, round(cells / np.log1p(1.0 / share)))
        chosen = rng.choice(own_pool, min(wanted, len(own_pool)), replace=False)
        few = rng.choice(sample.shape[0], min(resolution, sample.shape[0]), replace=False)
        half = _half_ranges(sample[few][:, chosen])
        # An input that hardly varies may not do so in a few rows.
        half = np.where(half > _LEAST_RANGE, half, whole[chosen])
        with np.errstate(over="ignore"):
            own = in_range(2.0 * share * half)
        widths[r, chosen] = np.where(names[chosen], 1.0, own)
        shifts[r, chosen] = np.where(names[chosen], 0.5, rng.random(len(chosen)) * own)
    return hashed_grids(widths, shifts, seed)


def _half_ranges(X: Rows) -> FloatArray:
    if X.shape[1] == 0:
        return np.zeros(0)
    if sp.issparse(X):
        low, high = (ends.toarray().ravel() for ends in (X.min(axis=0), X.max(axis=0)))
    else:
        low, high = X.min(axis=0), X.max(axis=0)
    return np.asarray(high, np.float64) / 2.0 - np.asarray(low, np.float64) / 2.0


def _beside(axes: PrincipalAxes, grids: Grids, X: Rows) -> Rows:
    """Return rows with their coordinates along axes, cut off where cells have no numbers."""
    limits = _FARTHEST * cell_limits(1.0 / grids.widths)
    n_inputs = X.shape[1]
    return _cut_off(axes.beside(_cut_off(X, limits[:n_inputs])), limits)


def _cut_off(X: Rows, limits: FloatArray) -> Rows:
    """Return rows whose inputs are at most as large as limits; those that are stay."""
    values, most = (X.data, limits[X.indices]) if sp.issparse(X) else (X, limits)
    if not (np.abs(values) > most).any():
        return X
    if not sp.issparse(X):
        return np.clip(X, -limits, limits)
    return sp.csr_array((np.clip(values, -most, most), X.indices, X.indptr), shape=X.shape)


def _fence(scores: FloatArray, weights: FloatArray) -> float:
    low, high = _quantiles(scores, weights, [0.25, 0.75])
    return float(low - _FENCE * (high - low))


def _quantiles(values: FloatArray, weights: FloatArray, levels: list[float]) -> FloatArray:
    """Return quantiles of values that count as often as their weights say."""
    if (weights == 1.0).all():
        return np.quantile(values, levels)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return values[order[np.searchsorted(reached, np.multiply(levels, reached[-1]))]]
