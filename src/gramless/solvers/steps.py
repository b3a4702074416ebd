"""The iterations of a solver whose state knows how to step and when to stop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from gramless.matrices.base import Vector
from gramless.solvers.objective import Callback, Solution


class State(Protocol):
    """Weights (n_columns, K) and what a solver needs to improve them."""

    weights: Vector

    def converged(self) -> bool:
        """Tell whether the weights are good enough."""

    def step(self) -> bool:
        """Improve the weights; False when nothing lowers the objective any more."""

    def record(self) -> dict[str, float]:
        """Return the entry of the history for the present weights."""


class Iterations:
    """The iterations of a solver, one at a time; nothing is computed between two of them.

    Parameters
    ----------
    state : State
    shape : tuple of int
        Of the weights, as the problem's targets ask for.
    max_iter : int

    Attributes
    ----------
    status : str
        As in :class:`~gramless.solvers.objective.Solution`; ``"stopped"`` until the last one.
    history : list of dict
        One record for the start and one for each iteration.
    """

    def __init__(self, state: State, shape: tuple[int, ...], max_iter: int) -> None:
        self.status = "stopped"
        self.history = [state.record()]
        self._state, self._shape, self._max_iter = state, shape, max_iter

    @property
    def weights(self) -> Vector:
        """The present weights."""
        return self._state.weights.reshape(self._shape)

    def __iter__(self) -> Iterator[tuple[int, Vector]]:
        """Yield the number of an iteration and the weights after it."""
        state, status = self._state, "max_iter"
        for iteration in range(1, self._max_iter + 1):
            if state.converged():
                break
            if not state.step():
                status = "stalled"
                break
            self.history.append(state.record())
            yield iteration, self.weights
        self.status = "converged" if state.converged() else status

    def run(self, callback: Callback | None) -> Solution:
        """Go through them, to the end or until the callback says True."""
        for iteration, weights in self:
            if callback is not None and callback(iteration, weights):
                break
        return Solution(self.weights, self.status, len(self.history) - 1, self.history)
