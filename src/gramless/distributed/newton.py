"""Newton's method over rows on a cluster: the weights are here, responses and losses there.

Steps are those of :class:`~gramless.solvers.newton_cg.NewtonCG` on one machine but for rounding:
the same rows have a say, by the same random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gramless.base.cached import cached_property
from gramless.base.random import stream
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.distributed.blocks import RowBlock, joined
from gramless.distributed.cluster import Result
from gramless.distributed.rows import Arrived, BlockFunction, Shared, by_block
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
from gramless.solvers.preconditioners import Inverse, default_rows, sampled_places
from gramless.solvers.vectors import add_times_by_row, matvec, rmatvec

_CHANGING = "weights", "penalty_value", "objective", "slow", "products", "penalties"
_WORDS = 4
"""Random numbers that a step of the counter of a stream stands for."""

CurvedFacts: TypeAlias = tuple[int, int, float, float, IntArray | None]
"""What :func:`curved_facts` tells of a block."""


@dataclass(frozen=True)
class MeanLoss:
    """A loss of rows whose weights sum to ``total``."""

    loss: Loss
    total: float

    def of(self, block: RowBlock) -> Losses:
        """Return the losses of a block's rows."""
        return Losses(self.loss, columns(block.targets), block.weights / self.total)


@dataclass(frozen=True, eq=False)
class Draw:
    """How rows are drawn by their curvature: each with a chance of ``factor`` times it.

    ``number`` is that of the draw among the ``n_rows``, those of block k from ``starts[k]`` on, and
    ``factor`` infinite where every row with any curvature is taken; all are if ``whole``.
    """

    losses: MeanLoss
    floor: CurvatureFloor
    number: int
    factor: float
    whole: bool
    starts: IntArray

    def drawn(
        self, block: RowBlock, largest: FloatArray, positions: IntArray | None
    ) -> tuple[IntArray, FloatArray]:
        """Return which rows of a block are drawn, and by what their weights grow."""
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
            everywhere = generator.random(int(self.starts[-1]))
            return everywhere[positions[start : start + block.n_rows]]
        generator.bit_generator.advance(start // _WORDS)  # type: ignore[attr-defined]
        return generator.random(start % _WORDS + block.n_rows)[start % _WORDS :]


@dataclass(frozen=True, eq=False)
class CurvedPart:
    """The rows of a block that have a say in a step, and their curvature."""

    block: RowBlock
    rows: IntArray
    weights: FloatArray
    curvature: Curvature
    mass: float


def curved_part(
    block: RowBlock, work: Workspace, draw: Draw, *, w: Arrived, positions: Arrived | None = None
) -> CurvedPart:
    """Return the rows of a block that have a say, remembered from the last time."""
    at = None if positions is None else positions.values.astype(np.int64)

    def make() -> CurvedPart:
        losses, there = draw.losses.of(block), responses(block, work, w)
        held = draw.floor.apply(losses.curvatures(there), losses.row_weights)
        rows, upscale = draw.drawn(block, held.max(axis=1), at)
        own = held[rows] * upscale[:, None]
        curvature: Curvature = RowCurvature(own)
        chosen = losses.of_rows(rows, upscale)
        if losses.loss.coupled and not draw.floor.flat.any():
            curvature = chosen.curvature(there[rows])
        part = block if draw.whole else block.take_rows(rows)
        # No row of softmax curvature exceeds twice its weight.
        mass = float(own.max(axis=1).sum() + 2.0 * chosen.row_weights.sum())
        return CurvedPart(part, rows, own.mean(axis=1), curvature, mass)

    found: CurvedPart = block.remembered("curved", (w.tag, draw.number, draw.whole), make)
    return found


def responses(block: RowBlock, work: Workspace, w: Arrived, name: str = "responses") -> Vector:
    """Return the responses of a block's rows to weights, remembered from the last time."""
    if block.n_rows == 0:
        return np.zeros((0, w.shape[1]))
    found: Vector = block.remembered(name, w.tag, lambda: matvec(block.matrix(work), w.values))
    return found


def sums_of_losses(
    block: RowBlock, work: Workspace, there: MeanLoss, *, w: Arrived
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return a block's mean losses, sensitivity, and sums of curvatures and slopes."""
    losses, z = there.of(block), responses(block, work, w)
    slopes, curvatures = derivatives(losses, z, work.threads)
    sums = np.abs(slopes * z).sum(axis=0), curvatures.sum(axis=0), np.abs(slopes).sum(axis=0)
    return losses.mean(z), *sums


def gradient(block: RowBlock, work: Workspace, there: MeanLoss, *, w: Arrived) -> Vector:
    """Return a block's part of the gradient of the mean loss."""
    slopes, _ = derivatives(there.of(block), responses(block, work, w), work.threads)
    return rmatvec(block.matrix(work), slopes, work.empty("sums", w.shape))


def curved_facts(block: RowBlock, work: Workspace, draw: Draw, **at: Arrived) -> CurvedFacts:
    """Return how many rows of a block have a say and how many curvature, and their sums.

    Where positions are given, also those of the rows with curvature.
    """
    part = curved_part(block, work, draw, **at)
    curved = part.weights != 0
    places = None
    if "positions" in at:
        start = int(draw.starts[block.number])
        places = at["positions"].values.astype(np.int64)[start + part.rows[curved]]
    n_curved = int(np.count_nonzero(curved))
    return len(part.rows), n_curved, float(part.weights.sum()), part.mass, places


def curved_taken(
    block: RowBlock,
    work: Workspace,
    draw: Draw,
    wanted: dict[int, IntArray],
    curved: bool,
    **at: Arrived,
) -> tuple[RowBlock, FloatArray] | None:
    """Return some of the rows that have a say, counted among all or among those with curvature."""
    own = wanted.get(block.number)
    if own is None:
        return None
    part = curved_part(block, work, draw, **at)
    rows = np.flatnonzero(part.weights)[own] if curved else own
    return part.block.take_rows(rows), part.weights[rows]


def curved_product(
    block: RowBlock,
    work: Workspace,
    draw: Draw,
    active: NDArray[np.intp],
    *,
    p: Arrived,
    **at: Arrived,
) -> Vector | None:
    """Return a block's part of ``Z' C Z p``."""
    part = curved_part(block, work, draw, **at)
    if len(part.rows) == 0:
        return None
    matrix = part.block.matrix(work)
    there = matvec(matrix, p.values, work.empty("responses", (len(part.rows), p.shape[1])))
    part.curvature.apply(slice(None), there, active)
    return rmatvec(matrix, there, work.empty("sums", p.shape))


def line_means(
    block: RowBlock,
    work: Workspace,
    there: MeanLoss,
    lengths: FloatArray,
    *,
    w: Arrived,
    d: Arrived,
) -> FloatArray:
    """Return a block's part of the mean losses at some lengths of a step."""
    z, change = responses(block, work, w), responses(block, work, d, "change")
    return there.of(block).mean(z + lengths * change)


def line_derivatives(
    block: RowBlock,
    work: Workspace,
    there: MeanLoss,
    lengths: FloatArray,
    *,
    w: Arrived,
    d: Arrived,
) -> FloatArray:
    """Return a block's part of the derivatives of the mean losses, (2, K)."""
    z, change = responses(block, work, w), responses(block, work, d, "change")
    losses, at, curved = there.of(block), z + lengths * change, change.copy()
    losses.curvature(at).apply(slice(None), curved, np.arange(curved.shape[1]))
    slopes = np.einsum("nk,nk->k", losses.slopes(at), change)
    return np.stack([slopes, np.einsum("nk,nk->k", curved, change)])


def target_means(block: RowBlock, work: Workspace, total: float) -> FloatArray:
    """Return a block's part of the mean targets."""
    return np.einsum("n,nk->k", block.weights / total, columns(block.targets))


def curvature_at(block: RowBlock, work: Workspace, there: MeanLoss, z: FloatArray) -> FloatArray:
    """Return a block's part of the mean curvature at constant responses."""
    losses = there.of(block)
    return losses.curvatures(np.broadcast_to(z, losses.targets.shape)).sum(axis=0)


class ClusterNewtonState(NewtonState):
    """Newton steps whose rows are on a cluster."""

    def __init__(
        self,
        problem: ClusterProblem,
        loss: Loss,
        start: Vector | None,
        options: NewtonCG,
    ) -> None:
        self.problem, self.loss, self.penalty = problem, loss, problem.penalty
        self.rows, self.draws = problem.rows, 0
        self.there = MeanLoss(loss, self.rows.total)
        self.typical_curvature, weights = loss.smoothness, np.zeros_like(problem.right)
        if not loss.smoothness < np.inf:
            constant = loss.link(np.sum(self.rows.per_block(target_means, self.rows.total), axis=0))
            parts = self.rows.per_block(curvature_at, self.there, constant)
            self.typical_curvature = float(np.sum(parts, axis=0).mean())
            if problem.layout.intercept:
                weights[-1] = constant
        self.positions: dict[str, Shared] = {}
        if problem.order is not None:
            places = np.empty(len(problem.order))
            places[problem.order] = np.arange(len(places))
            self.positions["positions"] = Shared(places)
        super().__init__(weights, start, options, has_callback=True)

    def numbers(self) -> dict[str, AnyArray]:
        """Return copies of all that changes from step to step, for :meth:`take_up`."""
        changing = {name: np.array(vars(self)[name]) for name in _CHANGING}
        return changing | {"before": np.array(self.before)}

    def take_up(self, numbers: Mapping[str, AnyArray]) -> None:
        """Be where another state of the same problem was."""
        self.weights = numbers["weights"]
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
        parts = rows.per_block(sums_of_losses, self.there, w=self.w)
        means, sensitivity, self.curvatures, slopes = (
            np.sum(same, axis=0) for same in zip(*parts, strict=True)
        )
        self._means, self.sensitivity = means, self.by_run(sensitivity)
        largest = max(1.0, rows.largest_norm)
        bound = float(slopes.max()) * largest
        self.gradient = self.problem.summed(gradient, bound, self.there, w=self.w)
        add_times_by_row(self.gradient, self.ridge, self.weights, self.options.n_jobs)

    def _approximate(self) -> None:
        self.before = self.draws, self.penalties
        facts = self._choose(self._flat_outputs(self.curvatures))
        self.total, self.mass = sum(own[2] for own in facts), sum(own[3] for own in facts)
        self.inverse = self._inverse(facts)

    def _choose(self, flat: BoolArray) -> list[CurvedFacts]:
        """Draw the rows that have a say; return what is known of those of each block."""
        n_rows, alpha, factor = self.rows.n_rows, self.penalty.l2, np.inf
        self.uses_all_rows = n_rows <= self.options.all_rows_below
        if alpha > 0 and not self.uses_all_rows:
            factor = self._squared_norm / (self.penalties * alpha)
        sizes = self.draws, factor, self.uses_all_rows, self.rows.starts
        self.draw = Draw(self.there, self.curvature_floor(flat), *sizes)
        facts = self._asked(curved_facts)
        if self.uses_all_rows:
            return facts
        self.draws += 1
        if 0 < sum(own[0] for own in facts) <= WORTH_COPYING * n_rows:
            return facts
        self.uses_all_rows, self.draw = True, replace(self.draw, whole=True)
        return self._asked(curved_facts)

    def _asked(self, function: BlockFunction, *arguments: object) -> list[Result]:
        return self.rows.per_block(function, self.draw, *arguments, w=self.w, **self.positions)

    @cached_property
    def _squared_norm(self) -> float:
        """The mean squared norm of rows, of a few of them."""
        n_rows, order = self.rows.n_rows, self.problem.order
        few = np.arange(0, n_rows, max(1, n_rows // MEASURED_ROWS))[:MEASURED_ROWS]
        block = self.rows.take_rows(few if order is None else order[few])
        matrix = self.problem.scaled(block.matrix(Workspace(self.options.n_jobs)))
        return float(matrix.gram_diagonal().sum()) / len(few)

    def _inverse(self, facts: list[CurvedFacts]) -> Inverse:
        """Precondition the ridge problem of the rows that have a say, weighted by curvatures."""
        if self.uses_all_rows:
            # One machine draws rows of the whole once, and again only if one has no curvature.
            block, weights, complete = self._sample([own[0] for own in facts], None)
            if weights.all():
                return self._inverse_of(block, weights, complete)
        places = None
        if self.positions:
            places = np.concatenate([own[4] for own in facts])
        return self._inverse_of(*self._sample([own[1] for own in facts], places, curved=True))

    def _inverse_of(self, block: RowBlock, weights: FloatArray, complete: bool) -> Inverse:
        penalty = L2(self.penalty.l2 / self.total, self.penalty.n_free)
        return self.problem.inverse_of(block, weights, penalty, complete)

    def _sample(
        self, counts: list[int], places: IntArray | None, curved: bool = False
    ) -> tuple[RowBlock, FloatArray, bool]:
        """Return a sample of rows of which each block has so many, and whether these are all.

        ``places`` are where one machine has them, None for all rows, whose places are known.
        """
        n_rows = sum(counts)
        wanted = default_rows(n_rows)
        chosen = sampled_places(n_rows, wanted)
        if places is not None:
            chosen = np.argsort(places)[chosen]
        elif self.problem.order is not None:
            chosen = self.problem.order[chosen]
        asked, back = by_block(np.append(0, np.cumsum(counts)), chosen)
        found = [own for own in self._asked(curved_taken, asked, curved) if own is not None]
        block = joined([own for own, _ in found])
        weights = np.concatenate([own for _, own in found])
        return block.take_rows(back), weights[back], wanted >= n_rows

    def _newton_direction(self, factors: FloatArray) -> Vector:
        def product(p: Vector, active: NDArray[np.intp]) -> Vector:
            problem, at = self.problem, {"w": self.w, **self.positions}
            bound, there = problem.bound(p) * self.mass, problem.shared(p)
            return problem.summed(curved_product, bound, self.draw, active, p=there, **at)

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
    """The objective along a step, whose responses workers remember."""

    state: ClusterNewtonState
    d: Shared
    penalty: tuple[FloatArray, FloatArray, FloatArray]

    def mean_loss(self, lengths: FloatArray) -> FloatArray:
        return np.asarray(np.sum(self._asked(line_means, lengths), axis=0))

    def loss_derivatives(self, lengths: FloatArray) -> tuple[FloatArray, FloatArray]:
        slopes, curvatures = np.sum(self._asked(line_derivatives, lengths), axis=0)
        return self.state.by_run(slopes), self.state.by_run(curvatures)

    def _asked(self, function: BlockFunction, lengths: FloatArray) -> list[FloatArray]:
        state = self.state
        return state.rows.per_block(function, state.there, lengths, w=state.w, d=self.d)
