"""Time budgets, and solver callbacks that end an iteration early."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from gramless.base.types import FloatArray


@dataclass(frozen=True)
class Deadline:
    """A time budget in seconds, counted from the creation of the object; None is no limit."""

    seconds: float | None = None
    started: float = field(default_factory=time.perf_counter)

    def beyond(self, share: float) -> bool:
        """Return whether more than this fraction of the budget is spent."""
        return self.left(share) < 0.0

    def left(self, share: float) -> float:
        """Return the seconds until this fraction of the budget is spent, infinite if no limit."""
        if self.seconds is None:
            return inf
        return share * self.seconds - (time.perf_counter() - self.started)

    def watch(self, share: float) -> Watch | None:
        """Return a solver callback that stops at this fraction of the budget; None if no limit."""
        return None if self.seconds is None else Watch(lambda step: self.beyond(share))


@dataclass(frozen=True)
class Watch:
    """A solver callback that stops by the iteration number or, in few iterations, by the weights.

    Some solvers need a matrix product to compute the weights, so most iterations pass None instead.

    Attributes
    ----------
    stops : callable
        Gets the number of each iteration; returns whether to stop.
    ends : callable, optional
        Gets the weights after iterations 2**k; returns whether to stop.
    first : int, default=1
        The first iteration after which ``ends`` may be called.
    """

    stops: Callable[[int], bool]
    ends: Callable[[Any], bool] | None = None
    first: int = 1

    def needs_weights(self, iteration: int) -> bool:
        """Return whether the weights after an iteration are needed."""
        is_due = iteration >= self.first and iteration & (iteration - 1) == 0
        return self.ends is not None and is_due

    def __call__(self, iteration: int, weights: FloatArray | None) -> bool:
        """Return whether to stop."""
        ends = self.ends if self.needs_weights(iteration) else None
        return self.stops(iteration) or (ends is not None and ends(weights))
