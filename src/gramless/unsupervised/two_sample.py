"""Two-sample test of the distributions of two tables and of their inputs.

The statistic is the maximum mean discrepancy (MMD) of Gretton et al. (2012) for several kernels,
the squared distance between the mean features of the two tables.
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
from gramless.base.random import RandomStateLike, seed_from, stream
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
from gramless.unsupervised.encoded_tables import OWNER, EncodedTable, pool_tables
from gramless.unsupervised.permutations import (
    FEW_ROWS,
    RowBlocks,
    adjusted_p_values,
    block_gram,
    p_value,
    standardise,
)

_MIN_PERMUTATIONS = 19
BANDWIDTHS = (0.25, 1.0, 4.0)  # in median distances, for the kernels of all inputs together
# Codes of all rows for each bandwidth, and the range of the number of grids that results.
_MAX_CODES, _GRIDS_RANGE = 1 << 25, (64, 256)
_GRIDS_FOR_FEW_ROWS = 512
# Bandwidths of the kernels of the ranks of one input, in standard deviations, and grids of each.
_RANK_BANDWIDTHS, _GRIDS_PER_BANDWIDTH = (0.03, 0.1, 0.3, 1.0, 3.0), 12
_RANK_DEVIATION = 12.0**-0.5  # standard deviation of uniform ranks in [0, 1]
# Inputs that are tested separately: at most 500 of them, in batches of 16.
_MAX_INPUTS, _INPUTS_AT_ONCE = 500, 16
# If there are more inputs, the median of this number of rows estimates the most frequent value of
# each. The number is odd, so that the median is one of the values.
_MEDIAN_ROWS = 999


@dataclass(frozen=True)
class InputDifference:
    """The difference between the distributions of one input in two tables.

    ``p_value`` is adjusted for the number of inputs. ``distance`` is a share of the rows: for
    numbers the largest difference between the shares of rows at or below a value
    (Kolmogorov-Smirnov), for categories the share of rows that would have to change (total
    variation). ``statistic`` is the standardised sum of the standardised squared MMDs of the input
    by several kernels; both are standardised by their distribution over permutations.
    """

    name: str
    statistic: float
    p_value: float
    distance: float
    is_category: bool


@dataclass(frozen=True)
class KernelDifference:
    """The MMD of two tables by a kernel of all inputs, and its p-value without adjustment.

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
        The p-value. If the rows of both tables follow the same distribution, the probability of a
        p-value of at most alpha is at most alpha.
    statistic : float
        The largest standardised MMD of all kernels.
    kernels : tuple of KernelDifference
        One for each bandwidth of the kernels of all inputs.
    inputs : tuple of InputDifference
        The inputs in the order of the table, without those that do not vary. If there are more than
        500 inputs, only the 500 with the fewest rows at their most frequent value are tested.
        Numbers are compared in rows where they are not missing; an additional input marks the rows
        where they are.
    n_permutations : int
        Number of permutations.
    n_rows : tuple of two int
        Number of rows of each table.
    """

    p_value: float
    statistic: float
    kernels: tuple[KernelDifference, ...]
    inputs: tuple[InputDifference, ...] = field(repr=False)
    n_permutations: int
    n_rows: tuple[int, int]

    def changed(self, alpha: float = 0.05) -> list[InputDifference]:
        """Return inputs with an adjusted p-value of at most ``alpha``, most significant first."""
        changed = [difference for difference in self.inputs if difference.p_value <= alpha]
        return sorted(changed, key=lambda difference: -difference.statistic)


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
    random_state: RandomStateLike = None,
    n_jobs: int | None = None,
) -> TwoSampleResult:
    """Test whether the rows of two tables follow the same distribution.

    The test uses the maximum mean discrepancy (MMD) with kernels of all inputs, by default of three
    bandwidths, and with kernels of each input by itself. Each MMD is standardised by its
    permutations. The largest one is compared with the largest one of each permutation, so that the
    p-value accounts for the multiple tests. All tests of single inputs together have the same
    weight as one bandwidth.

    Parameters
    ----------
    X, Y : array-like, sparse matrix or data frame (n_x, n_features), (n_y, n_features)
        Tables with the same columns; those of data frames are matched by name. Rows must be
        independent of each other; rows that follow each other in time often are not.
    features : str or feature map, default="binning"
        Features for the kernels of all inputs; see :class:`~gramless.KernelRegressor`.
    bandwidth : float, array-like (n_inputs,), "auto" or "median", default="auto"
        Bandwidth in units of the scaled inputs. "median" is the median distance of two rows. "auto"
        tests a quarter of the median, the median and four times the median, or only the bandwidth
        of the feature map if that is a number.
    scaling : str, default="auto"
        "standard", "quantile", "both" or "none", learned from both tables; "auto" is "quantile", or
        "standard" for sparse rows.
    categorical_features : "auto" or array-like, default="auto"
        See :class:`~gramless.KernelRegressor`.
    n_grids : int, default=None
        Number of grids of each bandwidth, if ``features`` is the name of features with grids. By
        default 512 for up to 3,000 rows, otherwise 256, and down to 64 for many rows.
    n_permutations : int, default=999
        Number of permutations, at least 19. The smallest p-value is ``1 / (n_permutations + 1)``.
    x_weight, y_weight : array-like (n_x,), (n_y,), default=None
        Weights of the rows. The null hypothesis is then that the pairs of rows and weights follow
        the same distribution in both tables.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random numbers; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Number of threads; None means all processors. Results do not depend on it.

    Returns
    -------
    TwoSampleResult

    Raises
    ------
    InputError
        If the tables have different columns or fewer than two rows of positive weight, or if a
        parameter is invalid.

    Notes
    -----
    Time is linear in rows and grids, because each feature matrix is read once, for the sums of 256
    random blocks of rows. Permutations exchange blocks (Domingo-Enrich, Dwivedi & Mackey 2025);
    the test has an exact level like a test that exchanges rows. Memory is that of the pooled rows
    and of one feature matrix. The adjusted p-values are valid for the inputs that did not change if
    the joint distribution of these inputs did not change either.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(300, 3)), rng.normal(size=(400, 3))
    >>> two_sample_test(X, Y, random_state=0).p_value > 0.05
    True
    >>> Y[:, 1] += 0.5
    >>> result = two_sample_test(X, Y, random_state=0)
    >>> result.p_value, [column.name for column in result.changed()]
    (0.001, ['x2'])
    """
    if not is_whole(n_permutations, _MIN_PERMUTATIONS):
        raise InputError(
            f"{OWNER}: n_permutations must be an integer, at least {_MIN_PERMUTATIONS}; got "
            f"{n_permutations!r}."
        )
    n_permutations = int(n_permutations)
    pooled_table, n_rows = pool_tables(X, Y)
    table = EncodedTable.of(pooled_table, sum(n_rows), categorical_features)
    if min(n_rows) < 2:
        raise InputError(f"{OWNER}: needs at least two rows of each table, got {n_rows}.")
    weights = []
    for weight, n in zip((x_weight, y_weight), n_rows, strict=True):
        weights.append(checked_weights(weight, n, OWNER))
        if np.count_nonzero(weights[-1]) < 2:
            raise InputError(
                f"{OWNER}: at least two rows of each table must have a positive weight."
            )
    seed = seed_from(random_state)
    samples = _Samples.draw(table, weights, n_permutations, seed, n_jobs)
    # "auto" is "quantile", or "standard" for sparse rows.
    is_sparse = sp.issparse(samples.rows)
    kind = scalings_of(scaling, is_sparse)[0 if is_sparse else -1]
    scaler = Scaler.fit(kind, samples.rows, categorical=table.categorical)
    bandwidths, joint = _test_all_inputs(samples, scaler, features, bandwidth, n_grids)
    inputs, single = _test_single_inputs(samples, table)
    statistics = standardise(single)
    # The largest statistic of single inputs has the same weight as one bandwidth.
    tests = [joint, statistics.max(axis=0, keepdims=True)] if inputs else [joint]
    largest = standardise(np.concatenate(tests)).max(axis=0)
    adjusted = adjusted_p_values(statistics) if inputs else np.empty(0)
    return TwoSampleResult(
        p_value(largest),
        float(largest[0]),
        tuple(
            KernelDifference(width, float(np.sqrt(max(0.0, mmds[0]))), p_value(mmds))
            for width, mmds in zip(bandwidths, joint, strict=True)
        ),
        tuple(
            InputDifference(name, float(statistic), float(p), distance, is_category)
            for (name, distance, is_category), statistic, p in zip(
                inputs, statistics[:, 0], adjusted, strict=True
            )
        ),
        n_permutations,
        n_rows,
    )


@dataclass(frozen=True, eq=False)
class _Samples:
    """The pooled rows in random order, and their permutations.

    ``in_first`` (n_rows,) is a mask of the rows of the first table. ``blocks_in_first``
    (n_blocks, 1 + n_permutations) is a mask of the blocks of the first table, in the data and in
    each permutation.
    """

    rows: Rows
    weights: FloatArray
    in_first: BoolArray
    blocks: RowBlocks
    blocks_in_first: BoolArray
    seed: int
    n_jobs: int | None

    @classmethod
    def draw(
        cls,
        table: EncodedTable,
        weights: Sequence[FloatArray],
        n_permutations: int,
        seed: int,
        n_jobs: int | None,
    ) -> _Samples:
        """Shuffle the rows of positive weight, and draw blocks and permutations."""
        all_weights = np.concatenate(weights)
        used = np.flatnonzero(all_weights > 0.0)
        n_first = int(np.count_nonzero(weights[0] > 0.0))
        blocks = RowBlocks.draw(n_first, len(used) - n_first, seed)
        # Scalings and bandwidths are learned from rows at fixed positions. The random order makes
        # them independent of the tables, as permutation tests require.
        order = stream(seed, "pooled rows").permutation(len(used))
        blocks = replace(blocks, numbers=blocks.numbers[order])
        blocks_in_first = blocks.in_first(n_permutations, seed)
        rows, row_weights = take_rows(table.rows, used[order]), all_weights[used[order]]
        return cls(rows, row_weights, order < n_first, blocks, blocks_in_first, seed, n_jobs)

    def discrepancies(self, matrix: FeatureMatrix, weights: FloatArray) -> FloatArray:
        """Return the squared MMDs (1 + n_permutations,) of the data and of the permutations.

        The MMD of a permutation that leaves a table without weight is 0.
        """
        sums = np.bincount(self.blocks.numbers, weights, self.blocks.n_blocks)
        gram = block_gram(matrix, self.blocks, weights)
        with one_blas_thread():
            first, second = sums @ self.blocks_in_first, sums @ ~self.blocks_in_first
            is_usable = (first > 0.0) & (second > 0.0)
            difference = np.where(self.blocks_in_first, 1.0, 0.0) / np.where(is_usable, first, 1.0)
            difference -= np.where(self.blocks_in_first, 0.0, 1.0) / np.where(
                is_usable, second, 1.0
            )
            squares = np.einsum("gk,gk->k", difference, gram @ difference)
        return np.where(is_usable, squares, 0.0)


def _test_all_inputs(
    samples: _Samples,
    scaler: Scaler,
    features: str | SizedMap,
    bandwidth: float | ArrayLike | str,
    n_grids: int | None,
) -> tuple[list[float | FloatArray], FloatArray]:
    """Return the bandwidths of kernels of all inputs, and squared MMDs (n, 1 + n_permutations)."""
    rows, seed, n_jobs = scaler.rows(samples.rows, samples.n_jobs), samples.seed, samples.n_jobs
    feature_map: SizedMap
    if isinstance(features, str):
        if features in ("binning", "smooth") and n_grids is None:
            n_grids = int(np.clip(_MAX_CODES // rows.shape[0], *_GRIDS_RANGE))
            n_grids = _GRIDS_FOR_FEW_ROWS if rows.shape[0] <= FEW_ROWS else n_grids
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
            f"{OWNER}: bandwidth must be a number, one number per input, 'auto' or 'median'; "
            f"got {bandwidth!r}."
        )
    statistics = []
    for width in widths:
        # Fitted maps may be large, so that only one of them is in memory.
        kernel = clone(feature_map).set_params(
            bandwidth=scaler.unscaled(width), categorical=scaler.categorical
        )
        statistics.append(samples.discrepancies(kernel.fit_rows(rows), samples.weights))
    return widths, np.stack(statistics)


def _test_single_inputs(
    samples: _Samples, table: EncodedTable
) -> tuple[list[tuple[str, float, bool]], FloatArray]:
    """Return the name, distance and kind of each input that varies, and its statistics."""
    inputs, statistics = [], [np.empty((0, samples.blocks_in_first.shape[1]))]

    def test_input(j: int, column: AnyArray) -> tuple[tuple[str, float, bool], FloatArray] | None:
        # Numbers are compared in rows where they are not missing.
        weights, marker = samples.weights, table.markers[j]
        is_category = bool(table.categorical_mask[j])
        if marker >= 0:
            weights = np.where(samples.rows[:, marker] == 0.0, weights, 0.0)
        ranked = _RankedInput.of(column, weights, samples.in_first)
        if ranked is None:
            return None
        statistic = _statistic(samples, ranked, weights, is_category)
        return (table.names[j], ranked.distance(is_category), is_category), statistic

    columns = dense_columns(samples.rows, _tested_inputs(samples.rows))
    while batch := list(islice(columns, _INPUTS_AT_ONCE)):
        for result in map_blocks(test_input, batch, samples.n_jobs):
            if result is not None:
                inputs.append(result[0])
                statistics.append(result[1][None])
    return inputs, np.concatenate(statistics)


def _tested_inputs(rows: Rows) -> BoolArray:
    """Return a mask of at most 500 inputs that are tested one by one, which vary in most rows."""
    is_tested = np.ones(rows.shape[1], bool)
    if len(is_tested) > _MAX_INPUTS:
        if sp.issparse(rows):
            n_different = np.bincount(rows.indices, rows.data != 0, minlength=len(is_tested))
        else:
            # The median of an odd number of rows is one of their values.
            n_different = (rows != np.median(rows[:_MEDIAN_ROWS], axis=0)).sum(axis=0)
        is_tested[np.argsort(-n_different, kind="stable")[_MAX_INPUTS:]] = False
    return is_tested


def _statistic(
    samples: _Samples, ranked: _RankedInput, weights: FloatArray, is_category: bool
) -> FloatArray:
    """Return the sum of the standardised MMDs of all kernels of one input."""
    if is_category:
        # One grid with a cell for each category.
        ones = np.ones((1, 1))
        all_grids = [Grids(ones, ones / 2.0, np.ones((1, 1), np.int64), np.zeros(1, np.int64))]
        rows = ranked.codes.astype(np.float64)
    else:
        all_grids = [
            Grids.draw(
                Laplacian(),
                np.array([bandwidth * _RANK_DEVIATION]),
                _GRIDS_PER_BANDWIDTH,
                (samples.seed + k) % 2**32,
            )
            for k, bandwidth in enumerate(_RANK_BANDWIDTHS)
        ]
        rows = ranked.ranks
    bins, mmds = GivenBinning(n_jobs=samples.n_jobs), []
    for grids in all_grids:
        mmds.append(samples.discrepancies(bins.learn_bins(rows[:, None], grids), weights))
    return standardise(np.stack(mmds)).sum(axis=0)


@dataclass(frozen=True, eq=False)
class _RankedInput:
    """The ranks of the values of one input.

    ``codes`` (n_rows,) are the indices of the distinct values. ``ranks`` (n_rows,) are mean ranks
    from 0 to 1 among rows of positive weight. ``shares`` (n_values,) are the differences between
    the shares of each value in the first and in the second table.
    """

    codes: IntArray
    ranks: FloatArray
    shares: FloatArray

    @classmethod
    def of(cls, column: AnyArray, weights: FloatArray, in_first: BoolArray) -> _RankedInput | None:
        """Rank the values of an input; None if all are equal or a table has none."""
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
        """Return the total variation of categories, or the Kolmogorov distance of numbers."""
        if is_category:
            return float(np.abs(self.shares).sum() / 2.0)
        return float(np.abs(np.cumsum(self.shares)).max())
