"""Newton's method with weights on the client, and rows, responses and losses on a cluster.

Up to rounding, steps are those of :class:`~gramless.solvers.newton_cg.NewtonCG` on one machine: the
same random numbers sample the same rows. Only the curvature floor of quantile losses can be larger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gramless.base.random import stream
from gramless.base.threads import cached_property
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.distributed.blocks import RowBlock, concatenate_blocks
from gramless.distributed.cluster import Result
from gramless.distributed.rows import BlockFunction, ReceivedVector, Shared, group_by_block
from gramless.distributed.solving import (
    ClusterProblem,
    ClusterSystem,
    RemoteCurvature,
)
from gramless.distributed.workspace import Workspace
from gramless.losses import Loss
from gramless.matrices.base import Vector
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateRuns, Curvature, RowCurvature
from gramless.solvers.hessian_subsampling import MEASURED_ROWS, WORTH_COPYING
from gramless.solvers.line_search import AnyLine, Losses, derivatives
from gramless.solvers.newton_cg import CurvatureFloor, NewtonCG, NewtonState
from gramless.solvers.objective import columns
from gramless.solvers.preconditioners import Inverse, default_sample_size, sampled_row_indices
from gramless.solvers.vectors import add_times_by_row, matvec, rmatvec

# Attributes that change from step to step; their names are also those in checkpoints.
_CHANGING = "weights", "penalty_value", "objective", "slow", "products", "penalties"
_NUMBERS_PER_COUNTER_STEP = 4  # a step of Philox yields four random numbers


class CurvatureSummary(NamedTuple):
    """Statistics of the sampled rows of a block.

    ``n_rows`` is the number of sampled rows, and ``n_curved`` that of the sampled rows with
    curvature. The mean curvature of a row is the mean over outputs; ``total`` is the sum of these.
    ``bound`` is an upper bound of the sum of the rows' largest curvatures. ``places`` are the
    positions of the rows with curvature in a fit on one machine, None if blocks have that order.
    """

    n_rows: int
    n_curved: int
    total: float
    bound: float
    places: IntArray | None


@dataclass(frozen=True)
class MeanLoss:
    """A loss of rows whose weights sum to ``total``."""

    loss: Loss
    total: float

    def of(self, block: RowBlock) -> Losses:
        return Losses(self.loss, columns(block.targets), block.weights / self.total)


@dataclass(frozen=True, eq=False)
class Draw:
    """A draw of rows with a probability of ``factor`` times their curvature, at most 1.

    ``number`` is the index of the draw. Block k has the rows from ``starts[k]`` on. If ``factor``
    is infinite, all rows of positive curvature are drawn; if ``whole``, all rows are.
    """

    losses: MeanLoss
    floor: CurvatureFloor
    number: int
    factor: float
    whole: bool
    starts: IntArray

    def draw_rows(
        self, block: RowBlock, largest: FloatArray, positions: IntArray | None
    ) -> tuple[IntArray, FloatArray]:
        """Return the indices of the drawn rows of a block, and the factors of their weights."""
        if self.whole:
            return np.arange(block.n_rows), np.ones(block.n_rows)
        chances = (largest > 0).astype(float)
        if self.factor < np.inf:
            chances = np.minimum(largest * self.factor, 1.0)
        rows = np.flatnonzero(self._uniform(block, positions) < chances)
        return rows, 1.0 / chances[rows]

    def _uniform(self, block: RowBlock, positions: IntArray | None) -> FloatArray:
        """Return the random numbers of a block's rows, the same as on one machine."""
        generator = stream(0, "curved rows", self.number)
        start = int(self.starts[block.number])
        if positions is not None:
            of_all_rows = generator.random(int(self.starts[-1]))
            return of_all_rows[positions[start : start + block.n_rows]]
        generator.bit_generator.advance(start // _NUMBERS_PER_COUNTER_STEP)  # type: ignore[attr-defined]
        return generator.random(start % _NUMBERS_PER_COUNTER_STEP + block.n_rows)[
            start % _NUMBERS_PER_COUNTER_STEP :
        ]


@dataclass(frozen=True, eq=False)
class CurvedPart:
    """The sampled rows of a block in a step, and their curvature."""

    block: RowBlock
    rows: IntArray
    weights: FloatArray
    curvature: Curvature
    curvature_bound: float


def curved_part(
    block: RowBlock,
    work: Workspace,
    draw: Draw,
    *,
    w: ReceivedVector,
    positions: ReceivedVector | None = None,
) -> CurvedPart:
    """Return the sampled rows of a block, cached for the same weights and draw."""
    places = None if positions is None else positions.values.astype(np.int64)

    def make() -> CurvedPart:
        losses, z = draw.losses.of(block), responses(block, work, w)
        floored = draw.floor.apply(losses.curvatures(z), losses.row_weights)
        rows, upscale = draw.draw_rows(block, floored.max(axis=1), places)
        curvatures = floored[rows] * upscale[:, None]
        curvature: Curvature = RowCurvature(curvatures)
        sampled = losses.of_rows(rows, upscale)
        if losses.loss.coupled and not draw.floor.flat.any():
            curvature = sampled.curvature(z[rows])
        part = block if draw.whole else block.take_rows(rows)
        # The first sum bounds the curvatures without mixed derivatives. The second one bounds
        # those of softmax, which are at most twice the weight of a row.
        curvature_bound = float(curvatures.max(axis=1).sum() + 2.0 * sampled.row_weights.sum())
        return CurvedPart(part, rows, curvatures.mean(axis=1), curvature, curvature_bound)

    part: CurvedPart = block.get_or_compute("curved", (w.tag, draw.number, draw.whole), make)
    return part


def responses(
    block: RowBlock, work: Workspace, w: ReceivedVector, name: str = "responses"
) -> Vector:
    """Return the responses of a block's rows to weights, cached for the same weights."""
    if block.n_rows == 0:
        return np.zeros((0, w.shape[1]))
    z: Vector = block.get_or_compute(name, w.tag, lambda: matvec(block.matrix(work), w.values))
    return z


def sums_of_losses(
    block: RowBlock, work: Workspace, mean_loss: MeanLoss, *, w: ReceivedVector
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return sums over a block's rows, for each output.

    These are the mean losses, ``|slope * z|``, the curvatures and ``|slope|``, where a slope is the
    derivative of the mean loss by the response ``z`` of a row.
    """
    losses, z = mean_loss.of(block), responses(block, work, w)
    slopes, curvatures = derivatives(losses, z, work.threads)
    sums = np.abs(slopes * z).sum(axis=0), curvatures.sum(axis=0), np.abs(slopes).sum(axis=0)
    return losses.mean(z), *sums


# Without a docstring, functions of a block return the block's part of a sum over all rows.


def gradient(block: RowBlock, work: Workspace, mean_loss: MeanLoss, *, w: ReceivedVector) -> Vector:
    slopes, _ = derivatives(mean_loss.of(block), responses(block, work, w), work.threads)
    return rmatvec(block.matrix(work), slopes, work.empty("sums", w.shape))


def summarise_curvature(
    block: RowBlock, work: Workspace, draw: Draw, **at: ReceivedVector
) -> CurvatureSummary:
    """Return statistics of a block's sampled rows; ``at`` has the vectors of `curved_part`."""
    part = curved_part(block, work, draw, **at)
    has_curvature = part.weights != 0
    places = None
    if "positions" in at:
        start = int(draw.starts[block.number])
        places = at["positions"].values.astype(np.int64)[start + part.rows[has_curvature]]
    n_curved = int(np.count_nonzero(has_curvature))
    total = float(part.weights.sum())
    return CurvatureSummary(len(part.rows), n_curved, total, part.curvature_bound, places)


def take_curved_rows(
    block: RowBlock,
    work: Workspace,
    draw: Draw,
    indices: dict[int, IntArray],
    among_curved: bool,
    **at: ReceivedVector,
) -> tuple[RowBlock, FloatArray] | None:
    """Return some of the sampled rows and their weights; None if the block has none of them.

    Indices count all sampled rows or, if ``among_curved``, only those with curvature.
    """
    rows = indices.get(block.number)
    if rows is None:
        return None
    part = curved_part(block, work, draw, **at)
    if among_curved:
        rows = np.flatnonzero(part.weights)[rows]
    return part.block.take_rows(rows), part.weights[rows]


def curved_product(
    block: RowBlock,
    work: Workspace,
    draw: Draw,
    active: NDArray[np.intp],
    *,
    p: ReceivedVector,
    **at: ReceivedVector,
) -> Vector | None:
    """Return a block's part of ``Z' C Z p``."""
    part = curved_part(block, work, draw, **at)
    if len(part.rows) == 0:
        return None
    matrix = part.block.matrix(work)
    z = matvec(matrix, p.values, work.empty("responses", (len(part.rows), p.shape[1])))
    part.curvature.apply(slice(None), z, active)
    return rmatvec(matrix, z, work.empty("sums", p.shape))


def line_means(
    block: RowBlock,
    work: Workspace,
    mean_loss: MeanLoss,
    lengths: FloatArray,
    *,
    w: ReceivedVector,
    d: ReceivedVector,
) -> FloatArray:
    z, change = responses(block, work, w), responses(block, work, d, "change")
    return mean_loss.of(block).mean(z + lengths * change)


def line_derivatives(
    block: RowBlock,
    work: Workspace,
    mean_loss: MeanLoss,
    lengths: FloatArray,
    *,
    w: ReceivedVector,
    d: ReceivedVector,
) -> FloatArray:
    z, change = responses(block, work, w), responses(block, work, d, "change")
    losses, at, curved = mean_loss.of(block), z + lengths * change, change.copy()
    losses.curvature(at).apply(slice(None), curved, np.arange(curved.shape[1]))
    slopes = np.einsum("nk,nk->k", losses.slopes(at), change)
    return np.stack([slopes, np.einsum("nk,nk->k", curved, change)])


def target_means(block: RowBlock, work: Workspace, total: float) -> FloatArray:
    return np.einsum("n,nk->k", block.weights / total, columns(block.targets))


def curvature_at(
    block: RowBlock, work: Workspace, mean_loss: MeanLoss, z: FloatArray
) -> FloatArray:
    losses = mean_loss.of(block)
    return losses.curvatures(np.broadcast_to(z, losses.targets.shape)).sum(axis=0)


class ClusterNewtonState(NewtonState):
    """The state of Newton's method with rows on a cluster."""

    def __init__(
        self,
        problem: ClusterProblem,
        loss: Loss,
        start: Vector | None,
        options: NewtonCG,
    ) -> None:
        self.problem, self.loss, self.penalty = problem, loss, problem.penalty
        self.rows, self.draws = problem.rows, 0
        self.mean_loss = MeanLoss(loss, self.rows.total)
        # On one machine, quantile losses have a smaller one, see SmoothPinball.typical_curvature.
        self.typical_curvature, weights = loss.smoothness, np.zeros_like(problem.rhs)
        if not loss.smoothness < np.inf:
            # As on one machine: with an unbounded curvature, steps from zero weights could be too
            # long by any factor.
            constant = loss.link(
                np.sum(self.rows.map_over_blocks(target_means, self.rows.total), axis=0)
            )
            parts = self.rows.map_over_blocks(curvature_at, self.mean_loss, constant)
            self.typical_curvature = float(np.sum(parts, axis=0).mean())
            if problem.layout.intercept:
                weights[-1] = constant
        self.positions: dict[str, Shared] = {}
        if problem.order is not None:
            # Floats, because only vectors of floats are sent to workers.
            places = np.empty(len(problem.order))
            places[problem.order] = np.arange(len(places))
            self.positions["positions"] = Shared(places)
        super().__init__(weights, start, options, has_callback=True)

    def numbers(self) -> dict[str, AnyArray]:
        """Return copies of everything that changes from step to step, for :meth:`take_up`."""
        changing = {name: np.array(vars(self)[name]) for name in _CHANGING}
        return changing | {"before": np.array(self.before)}

    def take_up(self, numbers: Mapping[str, AnyArray]) -> None:
        """Restore the state of another solver of the same problem."""
        self.weights = numbers["weights"]
        # The last sample is drawn again, with the number of draws and the penalties that it had.
        # The penalties after it are restored at the end.
        draws, self.penalties = numbers["before"].tolist()
        self.draws = int(draws)
        self._update_responses()
        self._differentiate()
        self._approximate()
        self.penalty_value, self.objective = numbers["penalty_value"], numbers["objective"]
        self._update_residuals()
        self.slow, self.products = bool(numbers["slow"]), int(numbers["products"])
        self.penalties = float(numbers["penalties"])

    def _update_responses(self) -> None:
        self.w = self.problem.shared(self.weights)

    def _mean_losses(self) -> FloatArray:
        return self._means

    def _differentiate(self) -> None:
        rows = self.rows
        parts = rows.map_over_blocks(sums_of_losses, self.mean_loss, w=self.w)
        means, sensitivity, self.curvatures, slopes = (
            np.sum(same, axis=0) for same in zip(*parts, strict=True)
        )
        self._means, self.sensitivity = means, self.by_run(sensitivity)
        largest = max(1.0, rows.largest_norm)
        bound = float(slopes.max()) * largest
        self.gradient = self.problem.sum_over_blocks(gradient, bound, self.mean_loss, w=self.w)
        add_times_by_row(self.gradient, self.ridge, self.weights, self.options.n_jobs)

    def _approximate(self) -> None:
        self.before = self.draws, self.penalties
        summaries = self._draw_rows(self._flat_outputs(self.curvatures))
        self.total = sum(block.total for block in summaries)
        self.curvature_bound = sum(block.bound for block in summaries)
        self.inverse = self._inverse(summaries)

    def _draw_rows(self, flat: BoolArray) -> list[CurvatureSummary]:
        n_rows, alpha, factor = self.rows.n_rows, self.penalty.l2, np.inf
        self.uses_all_rows = n_rows <= self.options.all_rows_below
        if alpha > 0 and not self.uses_all_rows:
            factor = self._squared_norm / (self.penalties * alpha)
        self.draw = Draw(
            self.mean_loss,
            self.curvature_floor(flat),
            number=self.draws,
            factor=factor,
            whole=self.uses_all_rows,
            starts=self.rows.starts,
        )
        summaries = self._map_over_blocks(summarise_curvature)
        if self.uses_all_rows:
            return summaries
        self.draws += 1
        if 0 < sum(block.n_rows for block in summaries) <= WORTH_COPYING * n_rows:
            return summaries
        self.uses_all_rows, self.draw = True, replace(self.draw, whole=True)
        return self._map_over_blocks(summarise_curvature)

    def _map_over_blocks(self, function: BlockFunction, *arguments: object) -> list[Result]:
        return self.rows.map_over_blocks(
            function, self.draw, *arguments, w=self.w, **self.positions
        )

    @cached_property
    def _squared_norm(self) -> float:
        n_rows, order = self.rows.n_rows, self.problem.order
        sample = np.arange(0, n_rows, max(1, n_rows // MEASURED_ROWS))[:MEASURED_ROWS]
        block = self.rows.take_rows(sample if order is None else order[sample])
        matrix = self.problem.scaled(block.matrix(Workspace(self.options.n_jobs)))
        return float(matrix.gram_diagonal().sum()) / len(sample)

    def _inverse(self, summaries: list[CurvatureSummary]) -> Inverse:
        """Return the preconditioner for the sampled rows, weighted by their curvatures."""
        if self.uses_all_rows:
            # As on one machine, the sample of all rows is drawn again only if a row in it has no
            # curvature.
            counts = [block.n_rows for block in summaries]
            block, weights, complete = self._sample(counts, None)
            if weights.all():
                return self._inverse_of(block, weights, complete)
        places = None
        if self.positions:
            places = np.concatenate([block.places for block in summaries])
        counts = [block.n_curved for block in summaries]
        return self._inverse_of(*self._sample(counts, places, curved=True))

    def _inverse_of(self, block: RowBlock, weights: FloatArray, complete: bool) -> Inverse:
        penalty = L2(self.penalty.l2 / self.total, self.penalty.n_free)
        return self.problem.inverse_of(block, weights, penalty, complete)

    def _sample(
        self, counts: list[int], places: IntArray | None, curved: bool = False
    ) -> tuple[RowBlock, FloatArray, bool]:
        """Return a sample of rows, their weights, and whether these are all rows.

        ``counts`` are the numbers of rows of the blocks, with ``curved`` only of the rows with
        curvature. ``places`` are the positions of the counted rows in a fit on one machine; None if
        these are all rows, or if blocks have that order.
        """
        n_rows = sum(counts)
        n_sampled = default_sample_size(n_rows)
        sample = sampled_row_indices(n_rows, n_sampled)
        if places is not None:
            sample = np.argsort(places)[sample]
        elif self.problem.order is not None:
            sample = self.problem.order[sample]
        indices, back = group_by_block(np.append(0, np.cumsum(counts)), sample)
        parts = self._map_over_blocks(take_curved_rows, indices, curved)
        blocks, weights = zip(*(part for part in parts if part is not None), strict=True)
        return (
            concatenate_blocks(blocks).take_rows(back),
            np.concatenate(weights)[back],
            n_sampled >= n_rows,
        )

    def _newton_direction(self, factors: FloatArray) -> Vector:
        def product(p: Vector, active: NDArray[np.intp]) -> Vector:
            problem, at = self.problem, {"w": self.w, **self.positions}
            bound, shared = problem.bound(p) * self.curvature_bound, problem.shared(p)
            return problem.sum_over_blocks(curved_product, bound, self.draw, active, p=shared, **at)

        coupled = self.loss.coupled and not self.draw.floor.flat.any()
        right = self.gradient * factors
        system = ClusterSystem(right, self.ridge, RemoteCurvature(coupled), product)
        runs = ConjugateRuns(system, self.inverse, self.inner_tol(), self.options.n_jobs)
        self.products += runs.run(self.options.max_inner)
        return runs.weights

    def _line(
        self, direction: Vector, penalty: tuple[FloatArray, FloatArray, FloatArray]
    ) -> ClusterLine:
        return ClusterLine(self, self.problem.shared(direction), penalty)

    def _move(self, line: AnyLine, lengths: FloatArray) -> None:
        self._update_responses()


@dataclass(frozen=True, eq=False)
class ClusterLine(AnyLine):
    """The objective along the direction ``d``, with responses that workers cache."""

    state: ClusterNewtonState
    d: Shared
    penalty: tuple[FloatArray, FloatArray, FloatArray]

    def mean_loss(self, lengths: FloatArray) -> FloatArray:
        return np.asarray(np.sum(self._map_over_blocks(line_means, lengths), axis=0))

    def loss_derivatives(self, lengths: FloatArray) -> tuple[FloatArray, FloatArray]:
        slopes, curvatures = np.sum(self._map_over_blocks(line_derivatives, lengths), axis=0)
        return self.state.by_run(slopes), self.state.by_run(curvatures)

    def _map_over_blocks(self, function: BlockFunction, lengths: FloatArray) -> list[FloatArray]:
        state = self.state
        return state.rows.map_over_blocks(function, state.mean_loss, lengths, w=state.w, d=self.d)
