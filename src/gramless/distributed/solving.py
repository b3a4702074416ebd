"""Ridge regression over rows on a cluster: the vectors are here, the rows there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gramless.base.types import FloatArray, IntArray
from gramless.distributed.blocks import Layout, RowBlock
from gramless.distributed.rows import BlockFunction, ClusterRows, Shared, gram_product
from gramless.distributed.workspace import Workspace
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.scaled_bins import multiplied, scale_bins
from gramless.penalties import Penalty
from gramless.solvers.cg import ConjugateRuns, Curvature
from gramless.solvers.objective import Problem, columns
from gramless.solvers.preconditioners import (
    Inverse,
    RowSample,
    SampledRows,
    default_rows,
    sampled_places,
)


@dataclass(frozen=True, eq=False)
class ClusterProblem:
    """A ridge problem, or one of another loss, over rows on a cluster.

    ``shares`` (n_columns,) are the mean features of all rows, ``right`` the features times weighted
    targets, (n_columns, K). Weights are those of features whose bins, the first columns, are scaled
    by ``factors`` (n_bins,); workers have the bins themselves. ``order`` are the rows in the order
    in which a fit on one machine has them, by which it draws a sample; None is their own.
    """

    rows: ClusterRows
    layout: Layout
    penalty: Penalty
    shares: FloatArray = field(repr=False)
    right: FloatArray = field(repr=False)
    at_zero: float
    order: IntArray | None = field(repr=False)
    factors: FloatArray = field(repr=False)
    n_jobs: int | None

    def shared(self, w: Vector) -> Shared:
        """Return weights for the workers: those of the bins themselves."""
        return Shared(multiplied(w, self.factors))

    def summed(
        self,
        function: BlockFunction,
        bound: float,
        *arguments: object,
        **vectors: Shared,
    ) -> FloatArray:
        """Return sums over the rows of all blocks of columns, scaled as these are here."""
        return multiplied(self.rows.summed(function, bound, *arguments, **vectors), self.factors)

    def scaled(self, matrix: FeatureMatrix) -> FeatureMatrix:
        """Return features of some rows with scaled bins."""
        return scale_bins(matrix, self.factors) if len(self.factors) > 0 else matrix

    def mark(self, name: str, tol: float, start: Vector | None) -> Iterator[bytes]:
        """Yield bytes that no other problem has, nor the same one with another solver."""
        told = name, tol, self.penalty, self.at_zero, self.rows.total, self.rows.sizes.tolist()
        yield repr(told).encode()
        yield self.right.tobytes()
        yield self.shares.tobytes()
        if start is not None:
            yield start.tobytes()

    def bound(self, w: Vector) -> float:
        """Return what no response to weights (n_columns, K) exceeds, times the largest feature."""
        layout, largest_norm = self.layout, self.rows.largest_norm
        sizes, largest, n_binned = np.abs(multiplied(columns(w), self.factors)), 1.0, 0
        bound = np.zeros(sizes.shape[1])
        scales = np.ones(1) if layout.scales is None else layout.scales
        if layout.offsets is not None:
            n_binned = int(layout.offsets[-1])
            scale = layout.scale * float(scales[0])
            bound += scale * np.maximum.reduceat(sizes[:n_binned], layout.offsets[:-1]).sum(axis=0)
            largest = max(largest, scale)
        stop = len(sizes) - int(layout.intercept)
        if stop > n_binned:
            norm = largest_norm * float(scales.max())
            bound += norm * np.sqrt(np.square(sizes[n_binned:stop]).sum(axis=0))
            largest = max(largest, norm)
        if layout.intercept:
            bound += sizes[-1]
        return float(bound.max()) * largest

    def inverse(self) -> Inverse:
        """Return the approximate inverse of the Hessian, by the same sample as on one machine."""
        n_rows = self.rows.n_rows
        wanted = default_rows(n_rows)
        chosen = sampled_places(n_rows, wanted)
        block = self.rows.take_rows(chosen if self.order is None else self.order[chosen])
        return self.inverse_of(block, block.weights, self.penalty, wanted >= n_rows)

    def inverse_of(
        self, block: RowBlock, weights: FloatArray, penalty: Penalty, complete: bool
    ) -> Inverse:
        """Return the approximate inverse of the Hessian that a sample of rows stands for."""
        matrix = self.scaled(block.matrix(Workspace(self.n_jobs)))
        places, nothing = np.arange(block.n_rows), np.zeros(block.n_rows)
        sample = RowSample(SampledRows(), places, matrix, matrix.row_gram(), complete)
        return sample.inverse(Problem(matrix, nothing, penalty, sample_weight=weights))


@dataclass(frozen=True)
class RemoteCurvature:
    """Curvature that workers apply, who know the rows."""

    coupled: bool

    def apply(self, rows: slice, responses: Vector, active: NDArray[np.intp]) -> None:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ClusterSystem:
    """Equations of which workers make the ``product`` with some weights: a round trip."""

    right: Vector
    ridge: FloatArray
    curvature: Curvature
    product: Callable[[Vector, NDArray[np.intp]], Vector]

    def times(self, w: Vector, active: NDArray[np.intp], out: Vector | None = None) -> Vector:
        return self.product(w, active)


def squares(problem: ClusterProblem, tol: float, start: Vector | None) -> ConjugateRuns:
    """Return conjugate gradients for the squared loss, ready to run."""

    def product(w: Vector, active: NDArray[np.intp]) -> Vector:
        total = problem.rows.total
        return problem.summed(gram_product, problem.bound(w), total, w=problem.shared(w))

    ridge = problem.penalty.diagonal(problem.right[:, 0])
    system = ClusterSystem(problem.right, ridge, RemoteCurvature(False), product)
    first = None if start is None else columns(start)
    runs = ConjugateRuns(system, problem.inverse(), tol, problem.n_jobs, first)
    runs.at_zero = 0.5 * problem.at_zero
    return runs
