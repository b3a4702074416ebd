"""Doubly stochastic gradients: the step of DSG, UDSG and CDSG, and rules for its update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
from scipy.linalg import solve

from gramless.base.arrays import inner, weighted_sums
from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray
from gramless.losses import Loss
from gramless.preprocessing.rows import Rows
from gramless.streaming.feature_blocks import BlockProducts, PreparedRows
from gramless.streaming.feature_expansion import FeatureExpansion
from gramless.streaming.step_sizes import InverseTime
from gramless.streaming.strategies import Choice, Situation, Strategy


@dataclass(frozen=True)
class Step:
    """The record of one step of a doubly stochastic run, which callbacks receive.

    Parameters
    ----------
    iteration : int
        Number of the step, from 1.
    block : int
        Index of the block of features with changed weights.
    n_blocks : int
        Number of blocks after the step.
    step : float
        Step size.
    loss : float
        Mean loss of the batch before the step, summed over the outputs.
    objective : float
        The loss plus ``alpha / 2`` times the squared norm ``n_blocks |alpha|^2``, which ordinary
        random features with the same function would have.
    gradient_norm : float
        Norm of the mean derivative of the loss.

    Examples
    --------
    >>> Step(1, 0, 1, step=0.5, loss=0.2, objective=0.2, gradient_norm=0.1).n_blocks
    1
    """

    iteration: int
    block: int
    n_blocks: int
    step: float
    loss: float
    objective: float
    gradient_norm: float


# The changes of the weights of a block, of the intercept and of the offset.
Change: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class EvaluatedBatch:
    """A batch of rows, the derivatives of its losses, and the chosen step."""

    products: BlockProducts
    rows: PreparedRows
    slopes: FloatArray  # (n, n_outputs): derivatives of the losses by the predictions
    choice: Choice
    share: float  # the step of the schedule relative to its first

    def centred_gradient(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean product of slopes and centred features, and the mean features."""
        n = len(self.slopes)
        both = np.column_stack([self.slopes - self.slopes.mean(axis=0), np.ones(n)])
        means = self.products.gradient(self.rows, self.choice.block, both) / n
        return means[:, :-1], means[:, -1]


class Update(Protocol):
    """A rule for the changes of a block and of the constant."""

    @property
    def damping(self) -> float:
        """Return the factor that shortens steps, for the loss and the penalty."""

    def step(self, batch: EvaluatedBatch) -> Change: ...


@dataclass(frozen=True)
class NoIntercept:
    """The update of the papers, for a function without a constant."""

    damping: ClassVar[float] = 1.0

    def step(self, batch: EvaluatedBatch) -> Change:
        total = batch.products.gradient(batch.rows, batch.choice.block, batch.slopes)
        zeros = np.zeros(batch.slopes.shape[1])
        return -batch.choice.step * (total / len(batch.slopes)), zeros, zeros


@dataclass(frozen=True)
class FreeIntercept:
    """The update for a function with an unpenalised constant; features are centred over the batch.

    The function ``f(x) + b`` is written in another basis, ``sum_k (phi_k(x) - m_k)' alpha_k + c``.
    Features of a smooth kernel are nearly constant over wide regions, so long steps become unstable
    along the mean features first. Without the mean, steps can be many times longer. ``length`` is
    the first step size of the constant.
    """

    length: float
    damping: ClassVar[float] = 1.0

    def step(self, batch: EvaluatedBatch) -> Change:
        gradient, means = batch.centred_gradient()
        weights = -batch.choice.step * gradient
        intercept = -batch.share * self.length * batch.slopes.mean(axis=0)
        return weights, intercept, -weighted_sums(means, weights)


@dataclass(frozen=True)
class NewtonStep:
    """A damped Newton step of the block, for the functions of :class:`FreeIntercept`.

    The gradient is divided by the covariance of the block's features over the batch, as in the code
    of Dai et al. (2014), so directions in which rows differ little are learned as fast as others.
    The limit is not the minimum of the penalised loss, so the run must end by early stopping. A
    step costs ``(2 F)^2`` operations for each row of the batch, and ``(2 F)^3 / 3`` more.
    """

    curvature: float  # curvature of the loss
    first: float  # first step of the schedule, for which the damped step is full
    ridge: float  # added to the diagonal of the covariance; its trace is at most 1
    damping: float = 0.3

    def step(self, batch: EvaluatedBatch) -> Change:
        (gradient, means), choice = batch.centred_gradient(), batch.choice
        moments = batch.products.moments(batch.rows, choice.block)
        covariance = moments / len(batch.slopes) - np.outer(means, means)
        covariance[np.diag_indices(len(means))] += self.ridge
        with one_blas_thread():
            direction = solve(covariance, gradient, assume_a="pos", overwrite_a=True)
        length = self.damping * choice.step / (self.first * self.curvature)
        weights: FloatArray = -length * direction
        intercept = -batch.share / self.curvature * batch.slopes.mean(axis=0)
        return weights, intercept, -weighted_sums(means, weights)


@dataclass
class DoublyStochastic:
    """A function that is learned by doubly stochastic gradients (DSG16, Algorithms 1 to 4).

    Each step evaluates the function on a batch of rows and changes one block of random features.
    All weights are multiplied by ``1 - damping * step * alpha``; then the mean product of
    derivatives and features, times the step, is subtracted from the weights of the block. The limit
    minimises the mean loss plus ``alpha / 2`` times the squared norm in the kernel's space. The
    cost of a step is proportional to the rows of the batch times all frequencies so far.
    """

    products: BlockProducts
    expansion: FeatureExpansion
    loss: Loss
    alpha: float
    schedule: InverseTime
    strategy: Strategy
    update: Update
    seed: int  # seed of the strategy's draws
    variance: float = 0.0  # sigma^2 of the kernel estimate of one block, for Checking
    iteration: int = 0

    def step(self, X: Rows, targets: FloatArray) -> Step:
        """Take one step on a batch of rows and their targets (n, n_outputs)."""
        f, iteration = self.expansion, self.iteration + 1
        rows = self.products.prepare(X)
        responses = np.zeros((len(targets), f.n_outputs))
        if f.n_blocks:
            responses = f.scale * self.products.responses(rows, f.groups, f.n_blocks) + f.constant
        loss = float(self.loss.comparable_value(responses, targets).sum()) / len(targets)
        objective = loss + 0.5 * self.alpha * f.n_blocks * f.squared_norm
        slopes = self.loss.gradient(responses, targets)
        mean = slopes.sum(axis=0) / len(slopes)
        bound = float(np.sqrt(np.einsum("ij,ij->i", slopes, slopes).max()))
        scheduled_step = self.schedule.step(iteration)
        situation = Situation(
            iteration=iteration,
            step=scheduled_step,
            gradient=mean,
            sums=f.sums,
            loss_bound=bound,
            variance=self.variance,
            batch_rows=len(slopes),
            seed=self.seed,
        )
        choice = self.strategy.choose(situation)
        share = scheduled_step / self.schedule.step(1)
        batch = EvaluatedBatch(self.products, rows, slopes, choice, share)
        weights, intercept, offset = self.update.step(batch)
        self.iteration = iteration
        f.shrink(1.0 - self.update.damping * choice.step * self.alpha)
        if choice.block == f.n_blocks:
            f.add(weights, -choice.step * mean)
        else:
            f.change(choice.block, weights, -choice.step * mean)
        f.move(intercept, offset)
        f.average()
        norm = float(np.sqrt(inner(mean, mean)))
        return Step(iteration, choice.block, f.n_blocks, choice.step, loss, objective, norm)
