"""Anomalies: rows that fall into bins of random grids which hold hardly any others.

The bins of a grid over few inputs estimate the density of these inputs. The score of a row is a
mean over many grids, linear in the features of random binning: one weight a bin, from its count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import OutlierMixin
from sklearn.utils.validation import _num_samples, check_is_fitted

from gramless.base.errors import InputError
from gramless.base.numeric import as_float
from gramless.base.random import RandomState, seed_from, stream, streams
from gramless.base.state import (
    State,
    Stateful,
    StatefulEstimator,
    array_in,
    check_columns,
    number_in,
    part_in,
    require,
)
from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, TableLike
from gramless.estimators.inputs import RowInputs
from gramless.estimators.parameters import check_count
from gramless.features.binning import GivenBinning
from gramless.features.grids import Grids
from gramless.matrices.binned import BinnedMatrix
from gramless.preprocessing.rows import Rows

_ROWS_AT_ONCE = 1 << 16
_MOST_CALIBRATION_ROWS = 10_000
_NARROWEST, _WIDEST = 0.0625, 1.0
"""Widths of cells, as shares of the range of an input in a few rows."""
_RANGED_ROWS = 10_000
"""Rows from which these few are drawn."""
_LEAST_RANGE = 1e-300
_LEAST_POWER = 0.5
"""Grids have from this power of ``resolution`` to ``resolution`` cells."""
_FENCE = 1.5
"""Tukey's: quartile ranges below the lower quartile."""
_ROUNDING = 1e-9
"""Scores that differ by less are equal."""


@dataclass(frozen=True)
class BinCounts(Stateful):
    """How many rows are in each bin of random grids, and the codes of a random sample of them.

    ``codes`` (n_grids, n_sampled) and ``draws`` (n_sampled,) are the bins of the sampled rows and
    the random numbers by which they were drawn: those with the smallest stay when rows are added.
    """

    bins: GivenBinning
    counts: FloatArray
    n_rows: int
    codes: AnyArray
    draws: FloatArray

    @classmethod
    def empty(cls, grids: Grids, X: Rows, n_jobs: int | None) -> BinCounts:
        """Return counts of no rows; the bins of the first row are known."""
        bins = GivenBinning(n_jobs=n_jobs)
        bins.learn_bins(X[:1], grids)
        none = np.zeros((len(grids), 0), np.uint16)
        return cls(bins, np.zeros(len(grids)), 0, none, np.zeros(0))

    def check(self) -> None:
        """Check that the parts of counts from a file fit each other."""
        fields = vars(self)
        bins = part_in(fields, "bins", GivenBinning)
        n_rows = number_in(fields, "n_rows", int, 1)
        counts = array_in(fields, "counts", np.float64, (int(bins.offsets_[-1]),), finite=True)
        require((counts >= 0.0).all() and counts.max() <= n_rows, "counts are none of rows")
        draws = array_in(fields, "draws", np.float64, (None,), finite=True)
        require(len(draws) > 0, "no rows are sampled")
        n_bins = bins.n_bins_
        codes = part_in(fields, "codes", np.ndarray)
        require(codes.dtype in (np.uint8, np.uint16, np.uint32), "codes are none of bins")
        require(codes.shape == (len(n_bins), len(draws)), "codes have a wrong shape")
        known = (codes > 0).all() and (codes.max(axis=1) <= n_bins).all()
        require(bool(known), "codes are none of known bins")

    def added(self, X: Rows, seed: int) -> BinCounts:
        """Return the counts with a block of further rows."""
        bins, matrix = self.bins.extended(X)
        counts = self.bins.weights_in(bins, self.counts) + matrix.bin_counts()
        drawn = stream(seed, "calibration", self.n_rows).random(X.shape[0])
        draws, n_old = np.concatenate([self.draws, drawn]), len(self.draws)
        kept = np.sort(np.argsort(draws, kind="stable")[:_MOST_CALIBRATION_ROWS])
        old, new = kept[kept < n_old], kept[kept >= n_old] - n_old
        codes = np.concatenate([self.codes[:, old], matrix.codes[:, new]], axis=1)
        return BinCounts(bins, counts, self.n_rows + X.shape[0], codes, draws[kept])

    @property
    def n_grids(self) -> int:
        """Number of grids."""
        return len(self.codes)

    def rarities(self, resolution: int, *, joined: int = 0) -> FloatArray:
        """Return how rare each bin is, and last a bin of no row, if ``joined`` rows join it."""
        counts = np.append(self.counts, 0.0) + joined
        return rarity(counts / (self.n_rows + joined), resolution)

    def mean_over_grids(self, matrix: BinnedMatrix, rarities: FloatArray) -> FloatArray:
        """Return the mean rarity of the bins of rows."""
        unseen = rarities[-1]
        sums: FloatArray = matrix.matvec(rarities[:-1] - unseen)
        return unseen + sums / (matrix.scale * self.n_grids)

    def of_sample(self, rarities: FloatArray) -> FloatArray:
        """Return the mean rarity of the bins of the sampled rows, in rising order."""
        bins = self.bins
        sample = BinnedMatrix(
            self.codes, bins.offsets_, scale=bins.scale_, has_unseen=False, n_jobs=bins.n_jobs
        )
        return np.sort(self.mean_over_grids(sample, rarities))

    def excess_shares(
        self, resolution: int, sources: IntArray
    ) -> list[tuple[IntArray, FloatArray]]:
        """Return the columns that each grid divides, and what each of its codes adds to each.

        That is the rarity above the mean over the rows, shared evenly among the columns;
        ``sources`` are the columns that inputs come from.
        """
        rarities, found = self.rarities(resolution), []
        for width, (a, b) in zip(self.bins.widths_, pairwise(self.bins.offsets_), strict=True):
            divided = np.unique(sources[np.isfinite(width)])
            usual = self.counts[a:b] @ rarities[a:b] / self.n_rows
            of_codes = np.append(rarities[-1], rarities[a:b]) - usual
            found.append((divided, of_codes / (self.n_grids * max(1, len(divided)))))
        return found


class AnomalyDetector(OutlierMixin, StatefulEstimator):
    """Finds rows that fall into bins of random grids which hold hardly any others.

    Each grid divides a few inputs, drawn at random, into some ``sqrt(resolution)`` to
    ``resolution`` cells, whose widths are shares of the ranges of these inputs in a few rows. A bin
    with the share m of all rows has the rarity ``1 / (1 + resolution * m)``, and a row the mean
    rarity of its bins.

    Parameters
    ----------
    n_grids : int, default=256
    resolution : int, default=256
        The most cells of a grid, about. Shares of the rows far below ``1 / resolution`` all count
        as empty. Larger numbers find finer gaps, and need more rows.
    contamination : "auto" or float, default="auto"
        The fraction of the rows of the fit that :meth:`predict` calls outliers, above 0 and at most
        0.5. With "auto" these are the rows whose score is 1.5 quartile ranges below the lower
        quartile (Tukey's fence).
    categorical_features : "auto" or array-like, default="auto"
        As in :class:`KernelRegressor`: names, positions or a mask of columns of categories, beside
        text, truth values and categories of data frames.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.

    Attributes
    ----------
    offset_ : float
        ``decision_function`` is ``score_samples`` minus this.
    bin_counts_ : BinCounts
        The bins, and how many rows are in each.
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

    def __init__(
        self,
        *,
        n_grids: int = 256,
        resolution: int = 256,
        contamination: str | float = "auto",
        categorical_features: str | Any = "auto",
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_grids = n_grids
        self.resolution = resolution
        self.contamination = contamination
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Draw grids, and count the rows in their bins.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            At least two rows. NaN is a missing value, but in sparse rows.
        y : ignored

        Returns
        -------
        The estimator itself.
        """
        self._check_parameters()
        inputs, rows, _ = RowInputs.fit(
            self,
            X,
            np.zeros(_num_samples(X)),
            self.categorical_features,
            {"ensure_min_samples": 2},
        )
        seed = seed_from(self.random_state)
        grids = draw_grids(rows, inputs.categorical, self.n_grids, self.resolution, seed)
        binned = BinCounts.empty(grids, rows, self.n_jobs)
        for block in _blocks(rows):
            binned = binned.added(block, seed)
        self.inputs_, self.seed_ = inputs, seed
        self._take_counts(binned)
        return self

    def partial_fit(self, X: TableLike, y: object = None) -> Self:
        """Count further rows, or fit to the first.

        Grids stay those of the first batch, which should hold hundreds of
        rows like those to come; for counts, the order of the rows does not matter.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
        y : ignored

        Returns
        -------
        The estimator itself.
        """
        if "bin_counts_" not in vars(self):
            return self.fit(X)
        self._check_parameters()
        binned = self.bin_counts_
        for block in _blocks(self.inputs_.transform(self, X)):
            binned = binned.added(block, self.seed_)
        self._take_counts(binned)
        return self

    def score_samples(self, X: TableLike) -> FloatArray:
        """Return minus the mean rarity of the bins of each row: the lower, the stranger.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)

        Returns
        -------
        array (n_samples,)
            From -1 to 0.
        """
        check_is_fitted(self)
        return -self._mean_rarities(X, self.bin_counts_.rarities(self.resolution))

    def decision_function(self, X: TableLike) -> FloatArray:
        """Return ``score_samples(X) - offset_``, which is negative for outliers.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)

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

        Returns
        -------
        array (n_samples,) of int
        """
        return np.where(self.decision_function(X) < 0.0, -1, 1)

    def p_values(self, X: TableLike) -> FloatArray:
        """Return conformal p-values of new rows.

        ``p_values(X) <= alpha`` finds outliers, and calls about a share of ``alpha`` of the rows so
        that follow the law of the rows of the fit; see the notes on how close to it. No rows are
        held back: each new row is counted as if it were one of the fit, and compared with a sample
        of these, whose own counts never rise above what they would be with it.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            None of the rows of the fit.

        Returns
        -------
        array (n_samples,)
            At least 1 / 10,001, or 1 / (n + 1) for a fit to n rows, if these are fewer.

        Notes
        -----
        The share would be at most ``alpha`` for each row by itself, on average over fits, for rows
        drawn independently and grids that do not depend on them. But widths are shares of ranges in
        rows of the fit: for an ``alpha`` of 0.05 we measured 0.052, after fits to 200 and to 1,000
        rows.
        """
        check_is_fitted(self)
        binned = self.bin_counts_
        counts = binned.counts / (binned.n_rows + 1.0)
        own = np.append(rarity(counts, self.resolution), 0.0)
        known = binned.of_sample(own)
        found = self._mean_rarities(X, binned.rarities(self.resolution, joined=1))
        as_strange = len(known) - np.searchsorted(known, found - _ROUNDING)
        return np.asarray((1.0 + as_strange) / (1.0 + len(known)), np.float64)

    def contributions(self, X: TableLike) -> FloatArray:
        """Return how much each column makes a row strange.

        The rarity of a bin, less the mean over the rows of the fit in its grid, is shared evenly
        among the columns that the grid divides.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)

        Returns
        -------
        array (n_samples, n_features_in_)
            Positive where a column makes a row stranger. Rows sum to minus ``score_samples``, less
            the mean of that over the rows of the fit.
        """
        check_is_fitted(self)
        sources = self.inputs_.sources(self.n_features_in_)
        shares = self.bin_counts_.excess_shares(self.resolution, sources)
        parts = [np.zeros((0, self.n_features_in_))]
        for block in _blocks(self.inputs_.transform(self, X)):
            codes = self.bin_counts_.bins.rows_matrix(block).codes
            parts.append(np.zeros((block.shape[0], self.n_features_in_)))
            for own, (columns, share) in zip(codes, shares, strict=True):
                for j in columns:
                    parts[-1][:, j] += share[own]
        return np.concatenate(parts)

    def check_state(self, state: State) -> None:
        """Check that grids and inputs of a file fit each other."""
        inputs, binned = (
            part_in(state, "inputs_", RowInputs),
            part_in(state, "bin_counts_", BinCounts),
        )
        n_features = number_in(state, "n_features_in_", int, 1)
        number_in(state, "seed_", int, 0, 2**64)
        number_in(state, "offset_", float)
        inputs.check_sizes(binned.bins.n_inputs, n_features)
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

    def _take_counts(self, binned: BinCounts) -> None:
        """Take counts, and set the offset by the scores of the sampled rows."""
        scores = -binned.of_sample(binned.rarities(self.resolution))
        if isinstance(self.contamination, str):
            low, high = np.quantile(scores, [0.25, 0.75])
            offset = low - _FENCE * (high - low)
        else:
            offset = np.quantile(scores, self.contamination)
        self.bin_counts_, self.offset_ = binned, float(offset)

    def _mean_rarities(self, X: TableLike, rarities: FloatArray) -> FloatArray:
        binned, rows = self.bin_counts_, self.inputs_.transform(self, X)
        parts = (binned.bins.rows_matrix(block) for block in _blocks(rows))
        return np.concatenate([binned.mean_over_grids(part, rarities) for part in parts])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


def rarity(share: FloatArray, resolution: int) -> FloatArray:
    """Return how rare bins are that hold some share of the rows: 1 for empty ones."""
    found: FloatArray = 1.0 / (1.0 + resolution * share)
    return found


def draw_grids(
    X: Rows, categorical: BoolArray | None, n_grids: int, resolution: int, seed: int
) -> Grids:
    """Draw grids over few inputs each, of about ``sqrt(resolution)`` to ``resolution`` cells.

    Widths are shares of the range of an input in ``resolution`` rows, which are drawn for each grid
    anew: few grids see an extreme row. Categories are all told apart.
    """
    names = np.zeros(X.shape[1], bool) if categorical is None else categorical
    n_rows = min(X.shape[0], _RANGED_ROWS)
    drawn = stream(seed, "ranges").choice(X.shape[0], n_rows, replace=False)
    sample = X[np.sort(drawn)]
    whole = _half_ranges(sample)
    pool = np.flatnonzero(whole > _LEAST_RANGE)
    widths = np.full((n_grids, X.shape[1]), np.inf)
    shifts = np.zeros(widths.shape)
    for r, rng in enumerate(streams(seed, "anomalies", n_grids)):
        share = np.exp(rng.uniform(np.log(_NARROWEST), np.log(_WIDEST)))
        cells = rng.uniform(_LEAST_POWER, 1.0) * np.log(resolution)
        wanted = max(1, round(cells / np.log1p(1.0 / share)))
        chosen = rng.choice(pool, min(wanted, len(pool)), replace=False)
        few = rng.choice(n_rows, min(resolution, n_rows), replace=False)
        half = _half_ranges(sample[few][:, chosen])
        # An input that hardly varies may not do so in a few rows.
        own = 2.0 * share * np.where(half > _LEAST_RANGE, half, whole[chosen])
        widths[r, chosen] = np.where(names[chosen], 1.0, own)
        shifts[r, chosen] = np.where(names[chosen], 0.5, rng.random(len(chosen)) * own)
    drawn_keys, n_keys = streams(seed, "cells", n_grids), X.shape[1] + 1
    hashes = np.array([own.integers(-(2**63), 2**63 - 1, n_keys) for own in drawn_keys])
    return Grids(widths, shifts, hashes[:, 1:] | 1, hashes[:, 0].copy())


def _half_ranges(X: Rows) -> FloatArray:
    """Return half the range of each input: that never overflows."""
    if X.shape[1] == 0:
        return np.zeros(0)
    if sp.issparse(X):
        low, high = (ends.toarray().ravel() for ends in (X.min(axis=0), X.max(axis=0)))
    else:
        low, high = X.min(axis=0), X.max(axis=0)
    return np.asarray(high, np.float64) / 2.0 - np.asarray(low, np.float64) / 2.0


def _blocks(X: Rows) -> Iterator[Rows]:
    return (X[a:b] for a, b in row_blocks(X.shape[0], _ROWS_AT_ONCE))
