"""Two-sample test: whether two tables follow the same distribution, and which inputs differ.

The statistic is the maximum mean discrepancy (MMD) of Gretton et al. (2012), the squared distance
between the mean features of the two tables, for several kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone

from gramless.base.errors import InputError
from gramless.base.lazy_rows import take_rows
from gramless.base.numeric import is_whole
from gramless.base.random import RandomState, seed_from, stream
from gramless.base.threads import map_blocks, one_blas_thread
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, TableLike
from gramless.estimators.features import given_map, named_map
from gramless.estimators.parameters import is_auto, scalings_of
from gramless.features.base import SizedMap
from gramless.features.binning import GivenBinning
from gramless.features.grids import Grids
from gramless.kernels import Laplacian, bandwidth_vector
from gramless.matrices.base import FeatureMatrix
from gramless.preprocessing.median import median_distance, scaled_sample
from gramless.preprocessing.rows import Rows, checked_weights, dense_columns
from gramless.preprocessing.scaling import Scaler
from gramless.unsupervised.encoded_tables import OWNER, EncodedTable, pooled
from gramless.unsupervised.permutations import (
    FEW_ROWS,
    RowBlocks,
    adjusted_p_values,
    block_gram,
    p_value,
    standardised,
)

_MIN_PERMUTATIONS = 19
BANDWIDTHS = (0.25, 1.0, 4.0)
"""Bandwidths that are tried together, in median distances."""
_CODES, _GRIDS = 1 << 25, (64, 256)
"""Grids of each bandwidth: at least, at most, and by the codes of all rows."""
_GRIDS_OF_FEW = 512  # those of up to 3,000 rows
_WIDTHS, _GRIDS_A_WIDTH = (0.03, 0.1, 0.3, 1.0, 3.0), 12
"""Bandwidths of kernels of the ranks of one input, in their deviations, and the grids of each."""
_UNIT = 12.0**-0.5  # the standard deviation of uniform ranks
_MOST_INPUTS, _INPUTS_AT_ONCE = 500, 16
"""Inputs that are looked at by themselves, and at the same time."""
_FEW_ROWS = 999  # rows that tell the usual value of each of very many inputs


@dataclass(frozen=True)
class InputDifference:
    """How the distribution of one input differs between two tables.

    ``p_value`` is adjusted for the number of inputs. ``distance`` is a share of the rows: of a
    number, the largest difference between the shares of rows at or below a value (Kolmogorov &
    Smirnov); of a category, the share that would have to change (total variation). ``statistic`` is
    the sum of the squared MMDs of the input by several kernels, each less its mean over
    permutations, in standard deviations, and their sum in standard deviations again.
    """

    name: str
    statistic: float
    p_value: float
    distance: float
    is_category: bool


@dataclass(frozen=True)
class KernelDifference:
    """The MMD of two tables by a kernel of all inputs, and its p-value, not adjusted.

    ``bandwidth`` is in units of the scaled inputs.
    """

    bandwidth: float | FloatArray
    mmd: float
    p_value: float


@dataclass(frozen=True)
class TwoSampleResult:
    """The result of a two-sample test.

    Attributes
    ----------
    p_value : float
        Small if the rows of the two tables do not follow the same distribution. If they do, it is
        at most alpha with a probability of at most alpha.
    statistic : float
        The largest standardised MMD of all kernels.
    kernels : tuple of KernelDifference
        One for each bandwidth of the kernels of all inputs.
    inputs : tuple of InputDifference
        In the order of the table; inputs that do not vary are left out, and of more than 500 all
        but those that vary in most rows. Numbers are compared where they are not missing, and a
        further input tells where they are.
    n_permutations : int
    n_rows : tuple of two int
    """

    p_value: float
    statistic: float
    kernels: tuple[KernelDifference, ...]
    inputs: tuple[InputDifference, ...] = field(repr=False)
    n_permutations: int
    n_rows: tuple[int, int]

    def changed(self, alpha: float = 0.05) -> list[InputDifference]:
        """Return the inputs whose adjusted p-value is at most ``alpha``, the surest first."""
        found = [one for one in self.inputs if one.p_value <= alpha]
        return sorted(found, key=lambda one: -one.statistic)


def two_sample_test(
    X: TableLike,
    Y: TableLike,
    *,
    features: str | SizedMap = "binning",
    bandwidth: float | ArrayLike | str = "auto",
    scaling: str = "auto",
    categorical_features: str | ArrayLike = "auto",
    n_grids: int | None = None,
    n_permutations: int = 999,
    x_weight: ArrayLike | None = None,
    y_weight: ArrayLike | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> TwoSampleResult:
    """Test whether the rows of two tables follow the same distribution.

    Kernels of all inputs, by default of three bandwidths, and one of each input by itself give a
    maximum mean discrepancy each. The largest of them, standardised by its permutations, is
    compared with the largest of each permutation: the p-value counts that several were tried. All
    inputs by themselves count as much as one bandwidth.

    Parameters
    ----------
    X, Y : array-like, sparse matrix or data frame (n_x, n_features), (n_y, n_features)
        Tables of the same columns; those of data frames are matched by name. Rows must be
        independent of each other: rows that follow each other in time often are not.
    features : str or feature map, default="binning"
        As in :class:`~gramless.KernelRegressor`, for the kernels of all inputs.
    bandwidth : float, array-like (n_inputs,), "auto" or "median", default="auto"
        In units of the scaled inputs. "auto" tries a quarter of the median distance between two
        rows, the distance itself and four times it, or the bandwidth of the feature map if that is
        a number.
    scaling : str, default="auto"
        "standard", "quantile", "both" or "none", learned from both tables; "auto" is "quantile", of
        sparse rows "standard".
    categorical_features : "auto" or array-like, default="auto"
        As in :class:`~gramless.KernelRegressor`.
    n_grids : int, default=None
        Grids of each bandwidth, of features by name; by default 512 of up to 3,000 rows, else 256,
        and down to 64 of many rows.
    n_permutations : int, default=999
        At least 19. The smallest p-value is ``1 / (n_permutations + 1)``.
    x_weight, y_weight : array-like (n_x,), (n_y,), default=None
        Weights of the rows. The null hypothesis is then that rows and their weights together follow
        the same distribution in both tables.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything that is drawn; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.

    Returns
    -------
    TwoSampleResult

    Raises
    ------
    InputError
        For tables of different columns, fewer than two rows, and unusable parameters.

    Notes
    -----
    Time is linear in rows and grids: each matrix of features is read once, for the sums of 256
    random blocks of rows. Permutations move blocks (Domingo-Enrich, Dwivedi & Mackey 2025), and
    tests by them hold their level exactly as those that move rows do. Memory is that of the pooled
    rows and of one feature matrix. The adjusted p-values of inputs hold for all that did not change
    if the joint distribution of these did not.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(300, 3)), rng.normal(size=(400, 3))
    >>> two_sample_test(X, Y, random_state=0).p_value > 0.05
    True
    >>> Y[:, 1] += 0.5
    >>> found = two_sample_test(X, Y, random_state=0)
    >>> found.p_value, [one.name for one in found.changed()]
    (0.001, ['x2'])
    """
    if not is_whole(n_permutations, _MIN_PERMUTATIONS):
        raise InputError(
            f"{OWNER}: n_permutations must be an integer, at least {_MIN_PERMUTATIONS}; got "
            f"{n_permutations!r}."
        )
    n_permutations = int(n_permutations)
    both, n_rows = pooled(X, Y)
    table = EncodedTable.of(both, sum(n_rows), categorical_features)
    if min(n_rows) < 2:
        raise InputError(f"{OWNER}: needs at least two rows of each table, got {n_rows}.")
    weights = [_weights(*given) for given in zip((x_weight, y_weight), n_rows, strict=True)]
    seed = seed_from(random_state)
    samples = _Samples.drawn(table, weights, n_permutations, seed, n_jobs)
    # "auto" takes ranks, but of sparse rows deviations.
    is_sparse = sp.issparse(samples.rows)
    kind = scalings_of(scaling, is_sparse)[0 if is_sparse else -1]
    scaler = Scaler.fit(kind, samples.rows, categorical=table.categorical)
    bandwidths, joint = _kernels(samples, scaler, features, bandwidth, n_grids)
    inputs, own = _inputs(samples, table)
    statistics = standardised(own)
    # The largest of all inputs counts as one statistic more.
    members = [joint, statistics.max(axis=0, keepdims=True)] if inputs else [joint]
    largest = standardised(np.concatenate(members)).max(axis=0)
    each = zip(bandwidths, joint, strict=True)
    adjusted = adjusted_p_values(statistics) if inputs else np.empty(0)
    return TwoSampleResult(
        p_value(largest),
        float(largest[0]),
        tuple(
            KernelDifference(width, float(np.sqrt(max(0.0, one[0]))), p_value(one))
            for width, one in each
        ),
        tuple(
            InputDifference(name, float(own), float(p), distance, is_category)
            for (name, distance, is_category), own, p in zip(
                inputs, statistics[:, 0], adjusted, strict=True
            )
        ),
        n_permutations,
        n_rows,
    )


@dataclass(frozen=True, eq=False)
class _Samples:
    """The pooled rows in random order, and what permutations do to them.

    ``in_first`` (n_rows,) tells which rows are of the first table, ``placed`` (n_blocks, 1 +
    n_permutations) which blocks are: as they are, and in each permutation.
    """

    rows: Rows
    weights: FloatArray
    in_first: BoolArray
    blocks: RowBlocks
    placed: BoolArray
    seed: int
    n_jobs: int | None

    @classmethod
    def drawn(
        cls,
        table: EncodedTable,
        weights: Sequence[FloatArray],
        n_permutations: int,
        seed: int,
        n_jobs: int | None,
    ) -> _Samples:
        """Shuffle the rows, draw blocks and permutations of them."""
        together = np.concatenate(weights)
        counted = np.flatnonzero(together > 0.0)
        n_first = int(np.count_nonzero(weights[0] > 0.0))
        blocks = RowBlocks.drawn(n_first, len(counted) - n_first, seed)
        # Units and bandwidths are learned from rows at fixed places. Of rows in random order they
        # do not depend on which table is which, as permutation tests demand.
        order = stream(seed, "pooled rows").permutation(len(counted))
        blocks = replace(blocks, numbers=blocks.numbers[order])
        together = together[counted[order]]
        placed = blocks.in_first(n_permutations, seed)
        rows = take_rows(table.rows, counted[order])
        return cls(rows, together, order < n_first, blocks, placed, seed, n_jobs)

    def discrepancies(self, matrix: FeatureMatrix, weights: FloatArray) -> FloatArray:
        """Return squared MMDs (1 + n_permutations,), the data as they are first.

        Where a permutation leaves one of the tables without weight, it is 0.
        """
        sums = np.bincount(self.blocks.numbers, weights, self.blocks.n_blocks)
        gram = block_gram(matrix, self.blocks, weights)
        with one_blas_thread():
            first, second = sums @ self.placed, sums @ ~self.placed
            usable = (first > 0.0) & (second > 0.0)
            difference = np.where(self.placed, 1.0, 0.0) / np.where(usable, first, 1.0)
            difference -= np.where(self.placed, 0.0, 1.0) / np.where(usable, second, 1.0)
            found = np.einsum("gk,gk->k", difference, gram @ difference)
        return np.where(usable, found, 0.0)


def _kernels(
    samples: _Samples,
    scaler: Scaler,
    features: str | SizedMap,
    bandwidth: float | ArrayLike | str,
    n_grids: int | None,
) -> tuple[list[float | FloatArray], FloatArray]:
    """Return bandwidths of kernels of all inputs, and squared MMDs (n, 1 + n_permutations)."""
    rows, seed, n_jobs = scaler.rows(samples.rows, samples.n_jobs), samples.seed, samples.n_jobs
    feature_map: SizedMap
    if isinstance(features, str):
        if features in ("binning", "smooth") and n_grids is None:
            n_grids = int(np.clip(_CODES // rows.shape[0], *_GRIDS))
            n_grids = _GRIDS_OF_FEW if rows.shape[0] <= FEW_ROWS else n_grids
        feature_map = named_map(features, rows.shape, 1, n_grids, seed, n_jobs)
    else:
        feature_map = given_map(features, OWNER, rows.shape, n_grids, seed, n_jobs)
    if is_auto(bandwidth) and not isinstance(feature_map.bandwidth, str):
        bandwidth = feature_map.bandwidth
    widths: list[float | FloatArray]
    if not isinstance(bandwidth, str):
        bandwidth_vector(bandwidth, rows.shape[1])
        widths = [np.asarray(bandwidth, np.float64)]
    elif bandwidth in ("auto", "median"):
        sample = scaled_sample(rows, scaler.unit, seed)
        median = median_distance(sample, seed, scaler.categorical_mask, feature_map.metric)
        widths = [factor * median for factor in (BANDWIDTHS if bandwidth == "auto" else (1.0,))]
    else:
        raise InputError(
            f"{OWNER}: bandwidth must be a number, one number an input, 'auto' or 'median'; "
            f"got {bandwidth!r}."
        )
    statistics = []
    for width in widths:
        # Fitted maps may be large: each is forgotten after its turn.
        kernel = clone(feature_map).set_params(
            bandwidth=scaler.unscaled(width), categorical=scaler.categorical
        )
        statistics.append(samples.discrepancies(kernel.fit_rows(rows), samples.weights))
    return widths, np.stack(statistics)


def _inputs(
    samples: _Samples, table: EncodedTable
) -> tuple[list[tuple[str, float, bool]], FloatArray]:
    """Return names, distances and kinds of the inputs that vary, and a statistic of each.

    Numbers are compared where they are not missing.
    """
    inputs, statistics = [], [np.empty((0, samples.placed.shape[1]))]

    def examined(j: int, column: AnyArray) -> tuple[tuple[str, float, bool], FloatArray] | None:
        weights, marker = samples.weights, table.markers[j]
        is_category = bool(table.categorical_mask[j])
        if marker >= 0:
            weights = np.where(samples.rows[:, marker] == 0.0, weights, 0.0)
        ranked = _RankedInput.of(column, weights, samples.in_first)
        if ranked is None:
            return None
        statistic = _statistic(samples, ranked, weights, is_category)
        return (table.names[j], ranked.distance(is_category), is_category), statistic

    columns = dense_columns(samples.rows, _looked_at(samples.rows))
    while batch := list(islice(columns, _INPUTS_AT_ONCE)):
        for found in map_blocks(examined, batch, samples.n_jobs):
            if found is not None:
                inputs.append(found[0])
                statistics.append(found[1][None])
    return inputs, np.concatenate(statistics)


def _looked_at(rows: Rows) -> BoolArray:
    """Return which inputs are looked at by themselves: of many, those that vary in most rows."""
    chosen = np.ones(rows.shape[1], bool)
    if len(chosen) > _MOST_INPUTS:
        if sp.issparse(rows):
            varied = np.bincount(rows.indices, rows.data != 0, minlength=len(chosen))
        else:
            # Of an odd number of rows, which are in random order, the median is a value.
            varied = (rows != np.median(rows[:_FEW_ROWS], axis=0)).sum(axis=0)
        chosen[np.argsort(-varied, kind="stable")[_MOST_INPUTS:]] = False
    return chosen


def _statistic(
    samples: _Samples, ranked: _RankedInput, weights: FloatArray, is_category: bool
) -> FloatArray:
    """Return the sum of the standardised MMDs of all kernels of one input."""
    if is_category:
        # One grid tells all categories apart.
        ones = np.ones((1, 1))
        all_grids = [Grids(ones, ones / 2.0, np.ones((1, 1), np.int64), np.zeros(1, np.int64))]
        rows = ranked.codes.astype(np.float64)
    else:
        all_grids = [
            Grids.draw(
                Laplacian(), np.array([w * _UNIT]), _GRIDS_A_WIDTH, (samples.seed + k) % 2**32
            )
            for k, w in enumerate(_WIDTHS)
        ]
        rows = ranked.ranks
    bins, found = GivenBinning(n_jobs=samples.n_jobs), []
    for grids in all_grids:
        found.append(samples.discrepancies(bins.learn_bins(rows[:, None], grids), weights))
    return standardised(np.stack(found)).sum(axis=0)


@dataclass(frozen=True, eq=False)
class _RankedInput:
    """One input of all rows by the order of its values.

    ``codes`` (n_rows,) number the distinct values, ``ranks`` (n_rows,) are the mean ranks of equal
    ones, from 0 to 1, among rows that count. ``shares`` (n_values,) are the share of each value in
    the first table less that in the second.
    """

    codes: IntArray
    ranks: FloatArray
    shares: FloatArray

    @classmethod
    def of(cls, column: AnyArray, weights: FloatArray, in_first: BoolArray) -> _RankedInput | None:
        """Rank the values of an input; None where they are all equal, or of one table alone."""
        values, codes = np.unique(column, return_inverse=True)
        counts = np.bincount(codes, weights > 0.0)
        first, second = weights[in_first].sum(), weights[~in_first].sum()
        if np.count_nonzero(counts) < 2 or not (first > 0.0 and second > 0.0):
            return None
        ranks = (np.cumsum(counts) - counts / 2.0) / counts.sum()
        signed = np.where(in_first, weights / first, -weights / second)
        shares = np.asarray(np.bincount(codes, signed, len(values)), np.float64)
        return cls(codes, ranks[codes], shares)

    def distance(self, is_category: bool) -> float:
        """Return the total variation of categories, of numbers Kolmogorov's distance."""
        if is_category:
            return float(np.abs(self.shares).sum() / 2.0)
        return float(np.abs(np.cumsum(self.shares)).max())


def _weights(given: ArrayLike | None, n_rows: int) -> FloatArray:
    weights = checked_weights(given, n_rows, OWNER)
    if np.count_nonzero(weights) < 2:
        raise InputError(f"{OWNER}: at least two rows of each table need a weight above 0.")
    return weights
