"""Doubly stochastic gradients: one training loop for DSG, UDSG and CDSG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.sums import inner
from gramless.losses import Loss
from gramless.preprocessing.rows import Rows
from gramless.streaming.expansion import Expansion
from gramless.streaming.products import BlockProducts
from gramless.streaming.schedules import InverseTime
from gramless.streaming.strategies import Choice, Situation, Strategy
from gramless.streaming.updates import Change, Update


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
    update : Update
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
    update: Update
    seed: int
    variance: float = 0.0
    iteration: int = 0

    def step(self, X: Rows, targets: NDArray[np.float64]) -> Step:
        """Take one step with a batch of rows and their targets (n, n_outputs)."""
        f, iteration = self.expansion, self.iteration + 1
        rows = self.products.prepare(X)
        responses = self._responses(rows, len(targets))
        loss = float(self.loss.value(responses, targets).sum()) / len(targets)
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
        change = self.update.step(self.products, rows, slopes, choice, share)
        self.iteration = iteration
        self._take(choice, change, -choice.step * mean)
        f.average()
        norm = float(np.sqrt(inner(mean, mean)))
        return Step(iteration, choice.block, f.n_blocks, choice.step, loss, objective, norm)

    def responses(self, X: Rows) -> NDArray[np.float64]:
        """Return the function, as it is now, at rows: (n, n_outputs)."""
        return self._responses(self.products.prepare(X), X.shape[0])

    def _responses(self, rows: Any, n_rows: int) -> NDArray[np.float64]:
        f = self.expansion
        if f.n_blocks == 0:
            return np.zeros((n_rows, f.n_outputs))
        return f.scale * self.products.responses(rows, f.groups, f.n_blocks) + f.constant

    def _take(self, choice: Choice, change: Change, total: NDArray[np.float64]) -> None:
        f = self.expansion
        f.shrink(1.0 - choice.step * self.alpha)
        if choice.block == f.n_blocks:
            f.add(change.weights, total)
        else:
            f.change(choice.block, change.weights, total)
        f.move(change.intercept, change.offset)
