"""Doubly stochastic gradients: one training loop for DSG, UDSG and CDSG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gramless.base.sums import inner, weighted_sums
from gramless.features.inputs import Rows
from gramless.losses import Loss
from gramless.streaming.expansion import Expansion
from gramless.streaming.products import BlockProducts
from gramless.streaming.schedules import InverseTime
from gramless.streaming.strategies import Choice, Situation, Strategy


@dataclass(frozen=True)
class Step:
    """What one step did.

    Attributes
    ----------
    iteration : int
        From 1.
    block : int
        The block that changed.
    n_blocks : int
        Blocks there are now.
    step : float
        eta.
    loss : float
        Mean over the batch, before the step, summed over the outputs.
    objective : float
        The same with ``alpha / 2`` times the squared norm of the weights as ordinary features
        would have them, ``n_blocks |alpha|^2``.
    gradient_norm : float
        Of the batch's mean derivative of the loss.
    """

    iteration: int
    block: int
    n_blocks: int
    step: float
    loss: float
    objective: float
    gradient_norm: float


class Intercept(Protocol):
    """Whether the function has a constant that the penalty leaves alone."""

    def step(
        self,
        products: BlockProducts,
        rows: Any,
        slopes: NDArray[np.float64],
        choice: Choice,
        share: float,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return what is added to the block's weights, to the intercept and to the offset.

        Parameters
        ----------
        products : BlockProducts
        rows : what ``products.prepare`` returned, of n rows
        slopes : array (n, n_outputs)
            Derivatives of the loss.
        choice : Choice
        share : float
            The schedule's step, relative to its first.
        """


@dataclass(frozen=True)
class NoIntercept:
    """The papers' function: blocks of features alone."""

    def step(
        self,
        products: BlockProducts,
        rows: Any,
        slopes: NDArray[np.float64],
        choice: Choice,
        share: float,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return minus the step times the mean of derivative times features, and zeros."""
        nothing = np.zeros(slopes.shape[1])
        gradient = products.gradient(rows, choice.block, slopes) / len(slopes)
        return -choice.step * gradient, nothing, nothing


@dataclass(frozen=True)
class FreeIntercept:
    """A constant without penalty, and steps along features less their mean over the batch.

    The function ``f(x) + b`` is written as ``sum_k (phi_k(x) - m_k)' alpha_k + c``: another
    basis for the same functions and penalty, whatever the m_k. All features of a smooth kernel
    are about constant over wide regions, which makes the mean the direction in which steps become
    unstable first; without it they may be many times longer.

    Parameters
    ----------
    length : float
        The first step of the constant.
    """

    length: float

    def step(
        self,
        products: BlockProducts,
        rows: Any,
        slopes: NDArray[np.float64],
        choice: Choice,
        share: float,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the same for features less their means, and what keeps the means out."""
        mean = slopes.mean(axis=0)
        both = np.column_stack([slopes - mean, np.ones(len(slopes))])
        found = products.gradient(rows, choice.block, both) / len(slopes)
        weights, means = -choice.step * found[:, :-1], found[:, -1]
        return weights, -share * self.length * mean, -weighted_sums(means, weights)


@dataclass
class DoublyStochastic:
    """A function that grows by steps of the doubly stochastic gradient (DSG16, Algorithms 1 to 4).

    Each step takes a batch of rows, evaluates the function on it and changes one block of random
    features: weights of all blocks shrink by ``1 - step alpha``, then the block gets minus the
    step times the batch's mean of derivative times features. Its limit minimises the mean loss
    plus ``alpha / 2`` times the squared norm in the kernel's space.

    Parameters
    ----------
    products : BlockProducts
    expansion : Expansion
        Changed by each step.
    loss : Loss
    alpha : float
    schedule : InverseTime
    strategy : Strategy
    intercept : Intercept
    seed : int
        Of the strategy's draws.
    variance : float, default=0.0
        sigma^2 of a block of features, for ``Checking``.

    Notes
    -----
    A step costs the batch's rows times all frequencies so far, memory O(blocks x columns x
    outputs), however many rows have been seen.
    """

    products: BlockProducts
    expansion: Expansion
    loss: Loss
    alpha: float
    schedule: InverseTime
    strategy: Strategy
    intercept: Intercept
    seed: int
    variance: float = 0.0
    iteration: int = 0

    def step(self, X: Rows, targets: NDArray[np.float64]) -> Step:
        """Take one step with a batch of rows and their targets (n, n_outputs)."""
        f = self.expansion
        self.iteration += 1
        rows = self.products.prepare(X)
        responses = self._responses(rows, len(targets))
        loss = float(self.loss.value(responses, targets).sum()) / len(targets)
        objective = loss + 0.5 * self.alpha * f.n_blocks * f.squared_norm
        slopes = self.loss.gradient(responses, targets)
        mean = slopes.sum(axis=0) / len(slopes)
        bound = float(np.sqrt(np.einsum("ij,ij->i", slopes, slopes).max()))
        choice = self.strategy.choose(
            Situation(
                *(self.iteration, self.schedule.step(self.iteration), mean, f.sums),
                *(bound, self.variance, len(slopes), self.seed),
            )
        )
        share = self.schedule.step(self.iteration) / self.schedule.step(1)
        step = self.intercept.step(self.products, rows, slopes, choice, share)
        self._take(choice, *step, -choice.step * mean)
        f.average()
        norm = float(np.sqrt(inner(mean, mean)))
        return Step(self.iteration, choice.block, f.n_blocks, choice.step, loss, objective, norm)

    def responses(self, X: Rows) -> NDArray[np.float64]:
        """Return the function, as it is now, at rows: (n, n_outputs)."""
        return self._responses(self.products.prepare(X), X.shape[0])

    def _responses(self, rows: Any, n_rows: int) -> NDArray[np.float64]:
        f = self.expansion
        if f.n_blocks == 0:
            return np.zeros((n_rows, f.n_outputs))
        return f.scale * self.products.responses(rows, f.groups, f.n_blocks) + f.constant

    def _take(
        self,
        choice: Choice,
        weights: NDArray[np.float64],
        intercept: NDArray[np.float64],
        offset: NDArray[np.float64],
        total: NDArray[np.float64],
    ) -> None:
        f = self.expansion
        f.shrink(1.0 - choice.step * self.alpha)
        if choice.block == f.n_blocks:
            f.add(weights, total)
        else:
            f.change(choice.block, weights, total)
        f.move(intercept, offset)
