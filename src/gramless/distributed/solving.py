"""Problems with rows on a cluster and vectors on the client, and ridge regression with them."""

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
from gramless.matrices.weighted import multiply_first, scale_bins
from gramless.penalties import Penalty
from gramless.solvers.cg import ConjugateRuns, Curvature
from gramless.solvers.objective import Problem, columns
from gramless.solvers.preconditioners import (
    Inverse,
    RowSample,
    SampledRows,
    default_sample_size,
    sampled_row_indices,
)


@dataclass(frozen=True, eq=False)
class ClusterProblem:
    """A problem with an L2 penalty and any loss, with rows on a cluster.

    ``shares`` (n_columns,) are the mean features of all rows, which only identify the problem.
    ``rhs`` (n_columns, K) are the features times weighted targets. ``at_zero`` is the weighted mean
    of the squared targets, summed over outputs: twice the squared loss at zero weights. The client
    scales the bins, which are the first columns, by ``factors`` (n_bins,); workers have unscaled
    bins. ``order`` is the order of the rows in a fit on one machine, which the sample for the
    preconditioner depends on; None is the order of the blocks.
    """

    rows: ClusterRows
    layout: Layout
    penalty: Penalty
    shares: FloatArray = field(repr=False)
    rhs: FloatArray = field(repr=False)
    at_zero: float
    order: IntArray | None = field(repr=False)
    factors: FloatArray = field(repr=False)
    n_jobs: int | None

    def shared(self, w: Vector) -> Shared:
        """Return weights in the form that workers need, as weights of unscaled bins."""
        return Shared(multiply_first(w, self.factors))

    def sum_over_blocks(
        self,
        function: BlockFunction,
        bound: float,
        *arguments: object,
        **vectors: Shared,
    ) -> FloatArray:
        """Return sums over the rows of all blocks, for scaled bins.

        ``bound`` is an upper bound of the sums for unscaled bins, see
        :meth:`ClusterRows.sum_over_blocks`.
        """
        return multiply_first(
            self.rows.sum_over_blocks(function, bound, *arguments, **vectors), self.factors
        )

    def scaled(self, matrix: FeatureMatrix) -> FeatureMatrix:
        return scale_bins(matrix, self.factors) if len(self.factors) > 0 else matrix

    def identifying_bytes(self, name: str, tol: float, start: Vector | None) -> Iterator[bytes]:
        """Yield bytes that identify the problem and the solver."""
        facts = name, tol, self.penalty, self.at_zero, self.rows.total, self.rows.sizes.tolist()
        yield repr(facts).encode()
        yield self.rhs.tobytes()
        yield self.shares.tobytes()
        if start is not None:
            yield start.tobytes()

    def bound(self, w: Vector) -> float:
        """Return an upper bound of ``abs(response * feature)`` over all rows and columns.

        ``w`` are weights (n_columns, K) of scaled bins; the features are those of workers. A
        product ``Z' C Z w`` is at most this bound times the sum of the curvatures ``C``.
        """
        layout, largest_norm = self.layout, self.rows.largest_norm
        sizes, largest, n_binned = np.abs(multiply_first(columns(w), self.factors)), 1.0, 0
        bound = np.zeros(sizes.shape[1])
        scales = np.ones(1) if layout.scales is None else layout.scales
        if layout.offsets is not None:
            n_binned = int(layout.offsets[-1])
            # Bins are the first part of the features. A row is in at most one bin of a grid.
            scale = layout.scale * float(scales[0])
            bound += scale * np.maximum.reduceat(sizes[:n_binned], layout.offsets[:-1]).sum(axis=0)
            largest = max(largest, scale)
        stop = len(sizes) - int(layout.intercept)
        if stop > n_binned:
            # By the Cauchy-Schwarz inequality.
            norm = largest_norm * float(scales.max())
            bound += norm * np.sqrt(np.square(sizes[n_binned:stop]).sum(axis=0))
            largest = max(largest, norm)
        if layout.intercept:
            bound += sizes[-1]
        return float(bound.max()) * largest

    def inverse(self) -> Inverse:
        """Return the approximate inverse of the Hessian from the same sample as on one machine."""
        n_rows = self.rows.n_rows
        n_sampled = default_sample_size(n_rows)
        sample = sampled_row_indices(n_rows, n_sampled)
        block = self.rows.take_rows(sample if self.order is None else self.order[sample])
        return self.inverse_of(block, block.weights, self.penalty, n_sampled >= n_rows)

    def inverse_of(
        self, block: RowBlock, weights: FloatArray, penalty: Penalty, complete: bool
    ) -> Inverse:
        """Return the approximate inverse of the Hessian from a sample of rows.

        ``weights`` are those of the rows in the Hessian. ``complete`` states whether the sample has
        all rows.
        """
        matrix = self.scaled(block.matrix(Workspace(self.n_jobs)))
        places, targets = np.arange(block.n_rows), np.zeros(block.n_rows)
        sample = RowSample(SampledRows(), places, matrix, matrix.row_gram(), complete)
        return sample.inverse(Problem(matrix, targets, penalty, sample_weight=weights))


@dataclass(frozen=True)
class RemoteCurvature:
    """Curvature that workers apply, because they have the rows."""

    coupled: bool

    def apply(self, rows: slice, responses: Vector, active: NDArray[np.intp]) -> None:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ClusterSystem:
    """Linear equations whose ``product`` with weights is one round trip to the workers."""

    right: Vector
    ridge: FloatArray
    curvature: Curvature
    product: Callable[[Vector, NDArray[np.intp]], Vector]

    def times(self, w: Vector, active: NDArray[np.intp], out: Vector | None = None) -> Vector:
        return self.product(w, active)


def ridge_solver(problem: ClusterProblem, tol: float, start: Vector | None) -> ConjugateRuns:
    """Return conjugate gradients for the squared loss, from zero weights if there is no start."""

    def product(w: Vector, active: NDArray[np.intp]) -> Vector:
        total = problem.rows.total
        return problem.sum_over_blocks(gram_product, problem.bound(w), total, w=problem.shared(w))

    ridge = problem.penalty.diagonal(problem.rhs[:, 0])
    system = ClusterSystem(problem.rhs, ridge, RemoteCurvature(False), product)
    first = None if start is None else columns(start)
    runs = ConjugateRuns(system, problem.inverse(), tol, problem.n_jobs, first)
    runs.at_zero = 0.5 * problem.at_zero
    return runs
