"""Monotone constraints on the weights of bins, by pooling adjacent violators."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gramless.base.arrays import padded_rows
from gramless.base.errors import InputError
from gramless.base.types import BoolArray, FloatArray, IntArray
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.stacked import with_ones, without_ones
from gramless.solvers.base import Solver
from gramless.solvers.objective import Callback, Problem, Solution

_MAX_ROUNDS = 30  # solves; violators that remain afterwards are pooled without another solve


@dataclass(frozen=True)
class MonotoneBins(Solver):
    """A solver that makes the weights of a grid's bins monotone along an input.

    It solves without constraints, pools neighbouring bins that violate them, and solves again. The
    bins of a grid with a sign must be in the order of the cells of one input; their weights do not
    decrease (1) or do not increase (-1). Bins without rows in these grids get the weight of a
    neighbour.

    For one grid this is the pool adjacent violators algorithm, and its solution is optimal. For
    several grids, pooled bins stay pooled, and the solution is the optimum over the pooled bins.
    The order holds exactly, also after rounding.

    Parameters
    ----------
    inner : Solver
        Solver of the problems without constraints.
    signs : array (n_grids,) of int
        1, -1, or 0 for grids without a constraint.
    """

    inner: Solver
    signs: IntArray

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise a problem of one output, see :meth:`Solver.solve`."""
        bins = bins_of(problem.matrix)
        row_weights = bins.gram_diagonal(problem.row_weights) / bins.scale**2
        pools = Pools.of(bins, self.signs, row_weights)
        n_iter, weights = 0, start
        for _ in range(_MAX_ROUNDS):
            pooled = replace(problem, matrix=pools.merge_bins(problem.matrix))
            first = None if weights is None else pools.pool_means(weights)
            solution = self.inner.solve(pooled, first, callback)
            n_iter += solution.n_iter
            weights = solution.weights[pools.pool_of_columns(problem.matrix.shape[1])]
            last, pools = pools, pools.pool_violators(weights)
            if pools.n_columns == last.n_columns or solution.status == "stopped":
                break
        assert weights is not None
        return replace(solution, weights=pools.monotone_weights(weights), n_iter=n_iter)


@dataclass(frozen=True, eq=False)
class Pools:
    """Pools of adjacent bins that share a weight.

    ``starts`` (n_bins,) is True for the first bin of each pool. ``row_weights`` (n_bins,) is the
    sum of the weights of the rows in each bin. In grids without a sign each bin is a pool, and its
    ``row_weights`` are set to 1.
    """

    offsets: IntArray
    signs: IntArray
    row_weights: FloatArray
    starts: BoolArray

    @classmethod
    def of(cls, bins: BinnedMatrix, signs: IntArray, row_weights: FloatArray) -> Pools:
        """Return pools of one bin with rows each, and of the bins without rows that follow it.

        Bins before the first one with rows join its pool.
        """
        row_weights = np.where(np.repeat(signs != 0, np.diff(bins.offsets)), row_weights, 1.0)
        starts = np.ones(len(row_weights), bool)
        for r in np.flatnonzero(signs):
            a, b = bins.offsets[r : r + 2]
            has_rows = row_weights[a:b] > 0.0
            starts[a:b] = has_rows
            starts[a : a + int(has_rows.argmax()) + 1] = False
            starts[a] = True
        return cls(bins.offsets, signs, row_weights, starts)

    @property
    def n_columns(self) -> int:
        return int(np.count_nonzero(self.starts))

    def pool_of_columns(self, n_columns: int) -> IntArray:
        """Return the index of each column's pool; each column after the bins is its own pool."""
        of_bins = np.cumsum(self.starts) - 1
        return np.concatenate([of_bins, self.n_columns + np.arange(n_columns - len(of_bins))])

    def pool_means(self, weights: Vector) -> Vector:
        """Return the mean weight of each pool, each bin counting by its rows."""
        n_bins, first = len(self.starts), np.flatnonzero(self.starts)
        sums = np.add.reduceat(self.row_weights * weights[:n_bins], first)
        return np.concatenate([sums / np.add.reduceat(self.row_weights, first), weights[n_bins:]])

    def monotone_weights(self, weights: Vector) -> Vector:
        """Return the mean weight of each column's pool, corrected for violations by rounding."""
        result = self.pool_means(weights)[self.pool_of_columns(len(weights))]
        for r in np.flatnonzero(self.signs):
            bins = slice(*self.offsets[r : r + 2])
            result[bins] = self.signs[r] * np.maximum.accumulate(self.signs[r] * result[bins])
        return result

    def pool_violators(self, weights: Vector) -> Pools:
        """Return larger pools, whose mean weights do not violate the constraints."""
        starts = self.starts.copy()
        for r in np.flatnonzero(self.signs):
            a, b = self.offsets[r : r + 2]
            first = np.flatnonzero(self.starts[a:b])
            row_weights = np.add.reduceat(self.row_weights[a:b], first)
            first_kept = pool_adjacent(self.signs[r] * weights[a:b][first], row_weights)
            starts[a:b] = False
            starts[a + first[first_kept]] = True
        return replace(self, starts=starts)

    def merge_bins(self, matrix: FeatureMatrix) -> FeatureMatrix:
        """Return the matrix with one column for each pool; a column of ones stays."""
        bins = bins_of(matrix)
        place = self.pool_of_columns(len(self.starts))
        offsets = np.append(place[bins.offsets[:-1]], self.n_columns)
        codes = padded_rows(bins.codes.shape, bins.codes.dtype.type)
        codes[...] = bins.codes
        for r in np.flatnonzero(self.signs):
            a, b = bins.offsets[r : r + 2]
            new_codes = np.append(0, place[a:b] - offsets[r] + 1).astype(codes.dtype)
            codes[r] = new_codes[bins.codes[r]]
        result = BinnedMatrix(
            codes, offsets, scale=bins.scale, has_unseen=bins.has_unseen, n_jobs=bins.n_jobs
        )
        return with_ones(result) if without_ones(matrix)[1] else result


def pool_adjacent(values: FloatArray, row_weights: FloatArray) -> IntArray:
    """Pool adjacent violators; return the first index of each pool.

    The weighted means of the pools do not decrease.

    Examples
    --------
    >>> pool_adjacent(np.array([1.0, 3.0, 2.0, 4.0]), np.ones(4))
    array([0, 1, 3])
    """
    starts: list[int] = []
    means: list[float] = []
    totals: list[float] = []
    for i, (value, weight) in enumerate(zip(values.tolist(), row_weights.tolist(), strict=True)):
        starts.append(i)
        means.append(value)
        totals.append(weight)
        while len(means) > 1 and means[-2] > means[-1]:
            last, weight = means.pop(), totals.pop()
            starts.pop()
            total = totals[-1] + weight
            means[-1] = (totals[-1] * means[-1] + weight * last) / total
            totals[-1] = total
    return np.array(starts)


def bins_of(matrix: FeatureMatrix) -> BinnedMatrix:
    inner, _ = without_ones(matrix)
    if not isinstance(inner, BinnedMatrix):
        raise InputError(
            "monotonic_cst needs bins in memory, without other features; raise memory_budget."
        )
    return inner
