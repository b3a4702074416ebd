"""Doubly stochastic gradients: one step for DSG, UDSG and CDSG, and what it does to its block."""

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
    """One step of a doubly stochastic run, as callbacks get it.

    Parameters
    ----------
    iteration : int
        Number of the step, from 1.
    block : int
        The block of features whose weights changed.
    n_blocks : int
        Number of blocks after the step.
    step : float
        Step size.
    loss : float
        Mean over the batch before the step, summed over the outputs.
    objective : float
        The loss plus ``alpha / 2`` times the squared norm of the weights as ordinary features would
        have them, ``n_blocks |alpha|^2``.
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


Change: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""What a step adds to the weights of its block, to the intercept and to the offset."""


@dataclass(frozen=True)
class EvaluatedBatch:
    """A batch of rows, the derivatives of the loss there, and the step chosen for them."""

    products: BlockProducts
    rows: PreparedRows
    slopes: FloatArray  # (n, n_outputs)
    choice: Choice
    share: float  # the step of the schedule relative to its first

    def centred_gradient(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean of slopes times centred features, and the means of the features."""
        n = len(self.slopes)
        both = np.column_stack([self.slopes - self.slopes.mean(axis=0), np.ones(n)])
        found = self.products.gradient(self.rows, self.choice.block, both) / n
        return found[:, :-1], found[:, -1]


class Update(Protocol):
    """A rule for the change of a block and of the constant."""

    @property
    def damping(self) -> float:
        """Return the factor by which steps are shortened, for the loss and the penalty."""

    def step(self, batch: EvaluatedBatch) -> Change:
        """Return the change."""


@dataclass(frozen=True)
class NoIntercept:
    """The papers' function: blocks of features alone."""

    damping: ClassVar[float] = 1.0

    def step(self, batch: EvaluatedBatch) -> Change:
        total = batch.products.gradient(batch.rows, batch.choice.block, batch.slopes)
        nothing = np.zeros(batch.slopes.shape[1])
        return -batch.choice.step * (total / len(batch.slopes)), nothing, nothing


@dataclass(frozen=True)
class FreeIntercept:
    """An unpenalised constant, and steps along features centred over the batch.

    The function ``f(x) + b`` is written as ``sum_k (phi_k(x) - m_k)' alpha_k + c``, in another
    basis. Features of a smooth kernel are nearly constant over wide regions, so that steps become
    unstable along the mean first; without it they may be many times longer. ``length`` is the first
    step size of the constant.
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
    """The same functions as ``FreeIntercept``'s, and a damped Newton step of the block.

    The gradient is divided by the covariance of the block's features over the batch, as the code of
    Dai et al. (2014) does, so that directions in which rows differ little are learned as fast as
    others. The limit is no longer the minimum of the penalised loss; held-out rows must end the
    run. Costs ``(2 F)^2`` operations per row of the batch and ``(2 F)^3 / 3`` once.
    """

    curvature: float  # of the loss
    first: float  # step of the schedule: a step of that length is a full damped one
    ridge: float  # added to the covariance, whose trace is at most 1
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
    """A function that grows by steps of the doubly stochastic gradient (DSG16, Algorithms 1 to 4).

    Each step takes a batch of rows, evaluates the function on it and changes one block of random
    features: weights of all blocks shrink by ``1 - damping step alpha``, then the block gets minus
    the step times the batch's mean of derivative times features. The limit minimises the mean loss
    plus ``alpha / 2`` times the squared norm in the kernel's space. A step costs the batch's rows
    times all frequencies so far.
    """

    products: BlockProducts
    expansion: FeatureExpansion
    loss: Loss
    alpha: float
    schedule: InverseTime
    strategy: Strategy
    update: Update
    seed: int  # of the strategy's draws
    variance: float = 0.0  # sigma^2 of a block of features, for Checking
    iteration: int = 0

    def step(self, X: Rows, targets: FloatArray) -> Step:
        """Take one step with a batch of rows and their targets (n, n_outputs)."""
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
        choice = self.strategy.choose(
            Situation(
                *(iteration, self.schedule.step(iteration), mean, f.sums),
                *(bound, self.variance, len(slopes), self.seed),
            )
        )
        share = self.schedule.step(iteration) / self.schedule.step(1)
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
