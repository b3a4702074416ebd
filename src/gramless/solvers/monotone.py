"""Weights of bins that rise or fall along an input."""

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

_MOST_ROUNDS = 30
"""Then what is left is pooled without another solve."""


@dataclass(frozen=True)
class MonotoneBins(Solver):
    """Solve without constraints, pool neighbouring bins that break them, and solve again.

    Each grid r with a sign has its bins in the order of the cells of one input, and weights that
    never fall (1) or never rise (-1). Bins without rows have the weight of a neighbour. For one
    grid this is the algorithm of pool adjacent violators, whose solution is optimal; for several
    what was pooled stays so, and the solution is the optimum over the pooled bins. Weights keep
    their order exactly.

    Parameters
    ----------
    inner : Solver
        Of problems without constraints.
    signs : array (n_grids,) of int
        1, -1, or 0 for grids that are free.
    """

    inner: Solver
    signs: IntArray

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise a problem of one output, see :meth:`Solver.solve`."""
        bins = bins_of(problem.matrix)
        masses = bins.gram_diagonal(problem.row_weights) / bins.scale**2
        pools = Pools.of(bins, self.signs, masses)
        n_iter, weights = 0, start
        for _ in range(_MOST_ROUNDS):
            own = replace(problem, matrix=pools.pooled(problem.matrix))
            first = None if weights is None else pools.means(weights)
            solution = self.inner.solve(own, first, callback)
            n_iter += solution.n_iter
            weights = solution.weights[pools.place(problem.matrix.shape[1])]
            before, pools = pools, pools.joined(weights)
            if pools.n_columns == before.n_columns or solution.status == "stopped":
                break
        assert weights is not None
        return replace(solution, weights=pools.in_order(weights), n_iter=n_iter)


@dataclass(frozen=True, eq=False)
class Pools:
    """Which bins of grids with a sign share a weight: runs of neighbours.

    ``starts`` (n_bins,) tells where a run begins; bins of other grids are runs of their own, with
    masses of 1.
    """

    offsets: IntArray
    signs: IntArray
    masses: FloatArray
    starts: BoolArray

    @classmethod
    def of(cls, bins: BinnedMatrix, signs: IntArray, masses: FloatArray) -> Pools:
        """Return runs of one bin with rows each, and those without rows behind it."""
        masses = np.where(np.repeat(signs != 0, np.diff(bins.offsets)), masses, 1.0)
        starts = np.ones(len(masses), bool)
        for r in np.flatnonzero(signs):
            a, b = bins.offsets[r : r + 2]
            seen = masses[a:b] > 0.0
            starts[a:b] = seen
            # Bins before the first with rows share its run.
            starts[a : a + int(seen.argmax()) + 1] = False
            starts[a] = True
        return cls(bins.offsets, signs, masses, starts)

    @property
    def n_columns(self) -> int:
        """Number of weights of bins."""
        return int(np.count_nonzero(self.starts))

    def place(self, n_columns: int) -> IntArray:
        """Return which weight each column has; those behind the bins have their own."""
        own = np.cumsum(self.starts) - 1
        return np.concatenate([own, self.n_columns + np.arange(n_columns - len(own))])

    def means(self, weights: Vector) -> Vector:
        """Return the mean weight of each run, by the rows of its bins."""
        n_bins, first = len(self.starts), np.flatnonzero(self.starts)
        sums = np.add.reduceat(self.masses * weights[:n_bins], first)
        return np.concatenate([sums / np.add.reduceat(self.masses, first), weights[n_bins:]])

    def in_order(self, weights: Vector) -> Vector:
        """Return the mean weights of runs for all columns, in an order that no rounding breaks."""
        found = self.means(weights)[self.place(len(weights))]
        for r in np.flatnonzero(self.signs):
            own = slice(*self.offsets[r : r + 2])
            found[own] = self.signs[r] * np.maximum.accumulate(self.signs[r] * found[own])
        return found

    def joined(self, weights: Vector) -> Pools:
        """Return the runs that are left when neighbours that break the order are pooled."""
        starts = self.starts.copy()
        for r in np.flatnonzero(self.signs):
            a, b = self.offsets[r : r + 2]
            first = np.flatnonzero(self.starts[a:b])
            masses = np.add.reduceat(self.masses[a:b], first)
            kept = pool_adjacent(self.signs[r] * weights[a:b][first], masses)
            starts[a:b] = False
            starts[a + first[kept]] = True
        return replace(self, starts=starts)

    def pooled(self, matrix: FeatureMatrix) -> FeatureMatrix:
        """Return the matrix with one column for each run."""
        bins = bins_of(matrix)
        place = self.place(len(self.starts))
        offsets = np.append(place[bins.offsets[:-1]], self.n_columns)
        codes = padded_rows(bins.codes.shape, bins.codes.dtype.type)
        codes[...] = bins.codes
        for r in np.flatnonzero(self.signs):
            a, b = bins.offsets[r : r + 2]
            numbers = np.append(0, place[a:b] - offsets[r] + 1).astype(codes.dtype)
            codes[r] = numbers[bins.codes[r]]
        made = BinnedMatrix(
            codes, offsets, scale=bins.scale, has_unseen=bins.has_unseen, n_jobs=bins.n_jobs
        )
        return with_ones(made) if without_ones(matrix)[1] else made


def pool_adjacent(values: FloatArray, masses: FloatArray) -> IntArray:
    """Return where runs begin whose means rise, by pooling neighbours that fall.

    Examples
    --------
    >>> pool_adjacent(np.array([1.0, 3.0, 2.0, 4.0]), np.ones(4))
    array([0, 1, 3])
    """
    begins: list[int] = []
    means: list[float] = []
    sums: list[float] = []
    for at, (value, mass) in enumerate(zip(values.tolist(), masses.tolist(), strict=True)):
        begins.append(at)
        means.append(value)
        sums.append(mass)
        while len(means) > 1 and means[-2] > means[-1]:
            last, mass = means.pop(), sums.pop()
            begins.pop()
            both = sums[-1] + mass
            means[-1] = (sums[-1] * means[-1] + mass * last) / both
            sums[-1] = both
    return np.array(begins)


def bins_of(matrix: FeatureMatrix) -> BinnedMatrix:
    """Return the bins of a matrix, without its intercept; refuse other features."""
    inner, _ = without_ones(matrix)
    if not isinstance(inner, BinnedMatrix):
        raise InputError(
            "monotonic_cst needs bins in memory, without other features; raise memory_budget."
        )
    return inner
