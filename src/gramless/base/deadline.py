"""Time budgets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from gramless.base.types import FloatArray


@dataclass(frozen=True)
class Deadline:
    """A time budget in seconds that starts when this is made; None is no limit."""

    seconds: float | None = None
    started: float = field(default_factory=time.perf_counter)

    def beyond(self, share: float) -> bool:
        """Tell whether more than this fraction of the budget is spent."""
        return self.left(share) < 0.0

    def left(self, share: float) -> float:
        """Return the seconds until this fraction of the budget is spent; infinite without one."""
        if self.seconds is None:
            return inf
        return share * self.seconds - (time.perf_counter() - self.started)

    def watch(self, share: float) -> Watch | None:
        """Return a solver callback that stops there; None without a limit."""
        return None if self.seconds is None else Watch(lambda step: self.beyond(share))


@dataclass(frozen=True)
class Watch:
    """A callback of solvers that looks at few weights or none, as they may cost a product.

    ``stops`` gets the number of each iteration; ``ends``, if there is one, the weights after
    iterations 2**k, from ``first`` on. Each tells whether to stop. Weights are None where they are
    not looked at.
    """

    stops: Callable[[int], bool]
    ends: Callable[[Any], bool] | None = None
    first: int = 1

    def looks(self, iteration: int) -> bool:
        """Tell whether the weights of an iteration are looked at."""
        is_due = iteration >= self.first and iteration & (iteration - 1) == 0
        return self.ends is not None and is_due

    def __call__(self, iteration: int, weights: FloatArray | None) -> bool:
        """Tell whether to stop."""
        ends = self.ends if self.looks(iteration) else None
        return self.stops(iteration) or (ends is not None and ends(weights))
