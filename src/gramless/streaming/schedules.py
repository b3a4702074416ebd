"""How steps fall along the iterations, and what step a problem bears."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramless.base.errors import InputError


@dataclass(frozen=True)
class InverseTime:
    """``gamma_t = theta / (t + delay)``, t from 1.

    DSG16's Theorem 3 wants ``theta alpha`` between 1 and 2. With no delay the first steps are
    far longer than a problem bears; a delay changes nothing in the long run.

    Parameters
    ----------
    theta : float
    delay : float, default=0.0
        In iterations.

    Examples
    --------
    >>> [InverseTime(theta=3.0, delay=1.0).step(t) for t in (1, 2)]
    [1.5, 1.0]
    """

    theta: float
    delay: float = 0.0

    def __post_init__(self) -> None:
        if not (0.0 < self.theta < np.inf and 0.0 <= self.delay < np.inf):
            raise InputError(
                f"InverseTime: theta must be positive and delay not negative, got "
                f"theta={self.theta!r}, delay={self.delay!r}."
            )

    def step(self, iteration: int) -> float:
        """Return the step of an iteration, from 1."""
        return self.theta / (iteration + self.delay)
