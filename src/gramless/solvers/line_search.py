"""Line searches without products: responses are linear in the length of a step."""

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

Numbers = FloatArray
"""One for each run: an output, or all outputs if they are coupled."""
T = TypeVar("T")

ROUNDING = 4 * np.finfo(float).eps
_DECREASE = 1e-4
_HALVINGS = 30
_DOUBLINGS = 60
_REFINEMENTS = 3
_LOSS_ROWS, _LOSS_NUMBERS = 1 << 13, 1 << 16
"""Rows and responses in a block, at most: exponentials are slow enough for a few to be worth a
thread, but threads that go from one short array to the next wait for the interpreter."""
_CLOSE = 0.05
"""Skip refinements that would change a length by less than this fraction."""


@dataclass(frozen=True)
class Losses:
    """The weighted mean loss of responses (n_rows, K), and its derivatives."""

    loss: Loss
    targets: Vector
    row_weights: FloatArray

    def mean(self, responses: Vector) -> Numbers:
        """Return each run's mean loss; infinite or NaN where it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return weighted_sums(self.row_weights, self.loss.value(responses, self.targets))

    def slopes(self, responses: Vector) -> Vector:
        """Return the derivative by each response, (n_rows, K)."""
        return self.row_weights[:, None] * self.loss.gradient(responses, self.targets)

    def curvatures(self, responses: Vector) -> Vector:
        """Return the second derivative by each response, (n_rows, K)."""
        return self.row_weights[:, None] * self.loss.curvature(responses, self.targets)

    def curvature(self, responses: Vector) -> Curvature:
        """Return the second derivative as an operator."""
        if self.loss.coupled:
            return SoftmaxCurvature(self.row_weights, softmax(responses))
        return RowCurvature(self.curvatures(responses))

    def of_rows(self, rows: NDArray[np.intp] | slice, upscale: FloatArray | float = 1.0) -> Losses:
        """Return the losses of some rows, with weights times ``upscale``."""
        return Losses(self.loss, self.targets[rows], self.row_weights[rows] * upscale)

    def by_run(self, sums: FloatArray) -> Numbers:
        """Turn sums over outputs into sums over runs."""
        return sums.sum(keepdims=True) if self.loss.coupled else sums


def derivatives(losses: Losses, responses: Vector, n_jobs: int | None) -> tuple[Vector, Vector]:
    """Return slopes and curvatures by each response, (n_rows, K) both."""
    slopes, curvatures = np.empty_like(responses), np.empty_like(responses)

    def fill(first: int, last: int) -> None:
        rows = slice(first, last)
        part, there = losses.of_rows(rows), responses[rows]
        slopes[rows], curvatures[rows] = part.slopes(there), part.curvatures(there)

    _by_blocks(fill, responses, n_jobs)
    return slopes, curvatures


def _by_blocks(function: Callable[[int, int], T], responses: Vector, n_jobs: int | None) -> list[T]:
    """Call a function of the losses of some rows on blocks of all rows."""
    rows = min(_LOSS_ROWS, max(1, _LOSS_NUMBERS // max(1, responses.shape[1])))
    return map_blocks(function, row_blocks(len(responses), rows), n_jobs)


class AnyLine(ABC):
    """Each run's objective along a step; ``penalty`` is its constant, linear and quadratic part."""

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
        """Return the minima, at least 0, of the parabolas that touch the objective at lengths."""
        slopes, curvatures = self.loss_derivatives(lengths)
        _, linear, quadratic = self.penalty
        slope = slopes + linear + 2.0 * lengths * quadratic
        curvature = curvatures + 2.0 * quadratic
        move = np.divide(slope, curvature, out=np.zeros_like(slope), where=curvature > 0)
        return np.maximum(lengths - move, 0.0)


@dataclass(frozen=True)
class Line(AnyLine):
    """The objective along a step, where the responses of all rows are here, and their change."""

    losses: Losses
    responses: Vector
    change: Vector
    penalty: tuple[Numbers, Numbers, Numbers]
    n_jobs: int | None = None

    def mean_loss(self, lengths: Numbers) -> Numbers:
        def of_rows(first: int, last: int) -> Numbers:
            rows = slice(first, last)
            there = self.responses[rows] + lengths * self.change[rows]
            return self.losses.of_rows(rows).mean(there)

        return np.asarray(np.sum(_by_blocks(of_rows, self.responses, self.n_jobs), axis=0))

    def loss_derivatives(self, lengths: Numbers) -> tuple[Numbers, Numbers]:
        def of_rows(first: int, last: int) -> Vector:
            rows = slice(first, last)
            part, change = self.losses.of_rows(rows), self.change[rows]
            there, curved = self.responses[rows] + lengths * change, change.copy()
            part.curvature(there).apply(slice(None), curved, np.arange(curved.shape[1]))
            slopes = np.einsum("nk,nk->k", part.slopes(there), change)
            return np.stack([slopes, np.einsum("nk,nk->k", curved, change)])

        slopes, curvatures = np.sum(_by_blocks(of_rows, self.responses, self.n_jobs), axis=0)
        return self.losses.by_run(slopes), self.losses.by_run(curvatures)


def search(
    line: AnyLine, before: Numbers, slope: Numbers, rounding: Numbers, flat: BoolArray
) -> tuple[Numbers, Numbers]:
    """Return lengths that lower each run's objective, 0 where none does, and the objective there.

    At length 0 the objective is ``before``, with an error of up to ``rounding``, and its slope is
    ``slope``. The curvature of ``flat`` runs is a guess: their steps are doubled while that helps.
    """
    lengths, objective = halved(line.value, before, slope, rounding)
    lengths, objective = _doubled(line, lengths, objective, rounding, flat)
    return _refined(line, lengths, objective)


def halved(
    value: Callable[[Numbers], Numbers], before: Numbers, slope: Numbers, rounding: Numbers
) -> tuple[Numbers, Numbers]:
    """Halve each run's step until its objective falls by enough; 0 where it never does.

    ``value`` returns each run's objective at some lengths. Where it overflows, steps are too long.
    """
    lengths = np.where(slope < 0, 1.0, 0.0)
    for _ in range(_HALVINGS):
        there = value(lengths)
        short = ~(there <= before + _DECREASE * lengths * slope + rounding)
        if not short.any():
            break
        lengths[short] *= 0.5
    return np.where(short, 0.0, lengths), np.where(short, before, there)


def _doubled(
    line: AnyLine, lengths: Numbers, objective: Numbers, rounding: Numbers, flat: BoolArray
) -> tuple[Numbers, Numbers]:
    """Double the steps of flat runs while the objective falls by more than its rounding."""
    growing = flat & (lengths > 0)
    for _ in range(_DOUBLINGS):
        if not growing.any():
            break
        longer = np.where(growing, 2.0 * lengths, lengths)
        there = line.value(longer)
        growing = growing & (there < objective - rounding)
        lengths = np.where(growing, longer, lengths)
        objective = np.where(growing, there, objective)
    return lengths, objective


def _refined(line: AnyLine, lengths: Numbers, objective: Numbers) -> tuple[Numbers, Numbers]:
    """Follow Newton's steps along the line while they help."""
    for _ in range(_REFINEMENTS):
        better = np.where(lengths > 0, line.newton_lengths(lengths), 0.0)
        if not (np.abs(better - lengths) > _CLOSE * lengths).any():
            break
        there = line.value(better)
        lower = there < objective
        if not lower.any():
            break
        lengths = np.where(lower, better, lengths)
        objective = np.where(lower, there, objective)
    return lengths, objective
