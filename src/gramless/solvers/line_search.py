"""Line searches without products, because responses are linear in the step length."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import softmax, weighted_sums
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import BoolArray, FloatArray
from gramless.losses import Loss
from gramless.matrices.base import Vector
from gramless.solvers.cg import Curvature, RowCurvature, SoftmaxCurvature

# One number for each run. A run is an output, or all outputs together if the loss couples them.
Numbers = FloatArray
T = TypeVar("T")

# Objectives are compared up to this relative rounding error.
ROUNDING = 4 * np.finfo(float).eps
_ARMIJO_SHARE = 1e-4  # a step must achieve at least this fraction of the linear decrease
_MAX_HALVINGS = 30
_MAX_DOUBLINGS = 60
_MAX_REFINEMENTS = 3
# Lengths are refined only if that changes one of them by more than this share.
_MIN_CHANGE = 0.05
# Maximum numbers of rows and responses in a block. Exponentials are so slow that small blocks are
# worth a thread, but threads that work on very short arrays wait for the interpreter lock.
_ROWS_PER_BLOCK, _NUMBERS_PER_BLOCK = 1 << 13, 1 << 16


@dataclass(frozen=True)
class Losses:
    """The weighted mean loss of responses (n_rows, K), and its derivatives."""

    loss: Loss
    targets: Vector
    row_weights: FloatArray

    def mean(self, responses: Vector) -> Numbers:
        """Return each run's mean loss; infinite or NaN if it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return weighted_sums(self.row_weights, self.loss.value(responses, self.targets))

    def slopes(self, responses: Vector) -> Vector:
        return self.row_weights[:, None] * self.loss.gradient(responses, self.targets)

    def curvatures(self, responses: Vector) -> Vector:
        return self.row_weights[:, None] * self.loss.curvature(responses, self.targets)

    def curvature(self, responses: Vector) -> Curvature:
        """Return the second derivative as an operator, including mixed derivatives of outputs."""
        if self.loss.coupled:
            return SoftmaxCurvature(self.row_weights, softmax(responses))
        return RowCurvature(self.curvatures(responses))

    def of_rows(self, rows: NDArray[np.intp] | slice, upscale: FloatArray | float = 1.0) -> Losses:
        return Losses(self.loss, self.targets[rows], self.row_weights[rows] * upscale)

    def by_run(self, sums: FloatArray) -> Numbers:
        return sums.sum(keepdims=True) if self.loss.coupled else sums


def derivatives(losses: Losses, responses: Vector, n_jobs: int | None) -> tuple[Vector, Vector]:
    slopes, curvatures = np.empty_like(responses), np.empty_like(responses)

    def fill(first: int, last: int) -> None:
        rows = slice(first, last)
        part, z = losses.of_rows(rows), responses[rows]
        slopes[rows], curvatures[rows] = part.slopes(z), part.curvatures(z)

    _map_blocks(fill, responses, n_jobs)
    return slopes, curvatures


def _map_blocks(
    function: Callable[[int, int], T], responses: Vector, n_jobs: int | None
) -> list[T]:
    rows = min(_ROWS_PER_BLOCK, max(1, _NUMBERS_PER_BLOCK // max(1, responses.shape[1])))
    return map_blocks(function, row_blocks(len(responses), rows), n_jobs)


class AnyLine(ABC):
    """Each run's objective along a step, by step length.

    ``penalty`` holds the constant, linear and quadratic coefficients of the penalty.
    """

    penalty: tuple[Numbers, Numbers, Numbers]

    @abstractmethod
    def mean_loss(self, lengths: Numbers) -> Numbers:
        """Return each run's mean loss."""

    @abstractmethod
    def loss_derivatives(self, lengths: Numbers) -> tuple[Numbers, Numbers]:
        """Return the first and the second derivative of each run's mean loss."""

    def value(self, lengths: Numbers) -> Numbers:
        return np.asarray(self.mean_loss(lengths) + self.penalty_at(lengths))

    def penalty_at(self, lengths: Numbers) -> Numbers:
        constant, linear, quadratic = self.penalty
        return constant + lengths * linear + lengths**2 * quadratic

    def newton_lengths(self, lengths: Numbers) -> Numbers:
        """Return the lengths after a Newton step from ``lengths``, at least 0."""
        slopes, curvatures = self.loss_derivatives(lengths)
        _, linear, quadratic = self.penalty
        slope = slopes + linear + 2.0 * lengths * quadratic
        curvature = curvatures + 2.0 * quadratic
        move = np.divide(slope, curvature, out=np.zeros_like(slope), where=curvature > 0)
        return np.maximum(lengths - move, 0.0)


@dataclass(frozen=True)
class Line(AnyLine):
    losses: Losses
    responses: Vector
    change: Vector
    penalty: tuple[Numbers, Numbers, Numbers]
    n_jobs: int | None = None

    def mean_loss(self, lengths: Numbers) -> Numbers:
        def of_rows(first: int, last: int) -> Numbers:
            rows = slice(first, last)
            responses = self.responses[rows] + lengths * self.change[rows]
            return self.losses.of_rows(rows).mean(responses)

        return np.asarray(np.sum(_map_blocks(of_rows, self.responses, self.n_jobs), axis=0))

    def loss_derivatives(self, lengths: Numbers) -> tuple[Numbers, Numbers]:
        def of_rows(first: int, last: int) -> Vector:
            rows = slice(first, last)
            part, change = self.losses.of_rows(rows), self.change[rows]
            responses, curved = self.responses[rows] + lengths * change, change.copy()
            part.curvature(responses).apply(slice(None), curved, np.arange(curved.shape[1]))
            slopes = np.einsum("nk,nk->k", part.slopes(responses), change)
            return np.stack([slopes, np.einsum("nk,nk->k", curved, change)])

        slopes, curvatures = np.sum(_map_blocks(of_rows, self.responses, self.n_jobs), axis=0)
        return self.losses.by_run(slopes), self.losses.by_run(curvatures)


def search(
    line: AnyLine, before: Numbers, slope: Numbers, rounding: Numbers, flat: BoolArray
) -> tuple[Numbers, Numbers]:
    """Return the step length of each run and the objective there; 0 if no length lowers it.

    At length 0 the objective is ``before``, up to ``rounding``, and its slope is ``slope``. The
    curvature of ``flat`` runs is a guess, so their steps are doubled while that lowers the
    objective. Newton steps along the line then refine the lengths.
    """
    lengths, objective = backtrack(line.value, before, slope, rounding)
    lengths, objective = _extend_flat(line, lengths, objective, rounding, flat)
    return _refine(line, lengths, objective)


def backtrack(
    value: Callable[[Numbers], Numbers], before: Numbers, slope: Numbers, rounding: Numbers
) -> tuple[Numbers, Numbers]:
    """Halve each run's step until its objective decreases enough; return lengths and objectives.

    The length is 0 if no step decreases the objective. ``value`` returns each run's objective at
    some lengths; a step at which it overflows is too long.
    """
    lengths = np.where(slope < 0, 1.0, 0.0)
    for _ in range(_MAX_HALVINGS):
        objective = value(lengths)
        too_long = ~(objective <= before + _ARMIJO_SHARE * lengths * slope + rounding)
        if not too_long.any():
            break
        lengths[too_long] *= 0.5
    return np.where(too_long, 0.0, lengths), np.where(too_long, before, objective)


def _extend_flat(
    line: AnyLine, lengths: Numbers, objective: Numbers, rounding: Numbers, flat: BoolArray
) -> tuple[Numbers, Numbers]:
    """Double the steps of flat runs while the objective decreases by more than its rounding."""
    growing = flat & (lengths > 0)
    for _ in range(_MAX_DOUBLINGS):
        if not growing.any():
            break
        longer = np.where(growing, 2.0 * lengths, lengths)
        new_objective = line.value(longer)
        growing = growing & (new_objective < objective - rounding)
        lengths = np.where(growing, longer, lengths)
        objective = np.where(growing, new_objective, objective)
    return lengths, objective


def _refine(line: AnyLine, lengths: Numbers, objective: Numbers) -> tuple[Numbers, Numbers]:
    # Newton steps along the line, while they lower the objective.
    for _ in range(_MAX_REFINEMENTS):
        refined = np.where(lengths > 0, line.newton_lengths(lengths), 0.0)
        if not (np.abs(refined - lengths) > _MIN_CHANGE * lengths).any():
            break
        new_objective = line.value(refined)
        is_lower = new_objective < objective
        if not is_lower.any():
            break
        lengths = np.where(is_lower, refined, lengths)
        objective = np.where(is_lower, new_objective, objective)
    return lengths, objective
