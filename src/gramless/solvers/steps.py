"""The rounds of a solver whose state knows how to step and when to stop."""

from __future__ import annotations

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


def run(state: State, shape: tuple[int, ...], max_iter: int, callback: Callback | None) -> Solution:
    """Step until the state has converged, stalls or is stopped, or ``max_iter`` times."""
    status = "max_iter"
    history = [state.record()]
    for iteration in range(1, max_iter + 1):
        if state.converged():
            break
        if not state.step():
            status = "stalled"
            break
        history.append(state.record())
        if callback is not None and callback(iteration, state.weights.reshape(shape)):
            status = "stopped"
            break
    if status != "stopped" and state.converged():
        status = "converged"
    return Solution(state.weights.reshape(shape), status, len(history) - 1, history)
