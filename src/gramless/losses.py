"""Losses, pointwise in the raw prediction ``z``; averaged by the objective, never here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


class Loss(Protocol):
    """A loss ``L(z, y)`` with its first two derivatives in ``z``."""

    name: ClassVar[str]
    smoothness: ClassVar[float]

    def value(self, z: Values, y: Values) -> Values:
        """Return ``L(z, y)``, elementwise."""

    def gradient(self, z: Values, y: Values) -> Values:
        """Return ``dL/dz``, elementwise."""

    def curvature(self, z: Values, y: Values) -> Values:
        """Return ``d2L/dz2``, elementwise; never above ``smoothness``."""


@dataclass(frozen=True)
class Squared:
    """``L(z, y) = (z - y)^2 / 2`` (RB16, section 3.2: beta = 1).

    Examples
    --------
    >>> import numpy as np
    >>> Squared().value(np.array([3.0]), np.array([1.0]))
    array([2.])
    """

    name: ClassVar[str] = "squared"
    smoothness: ClassVar[float] = 1.0

    def value(self, z: Values, y: Values) -> Values:
        """Return ``(z - y)^2 / 2``."""
        return 0.5 * (z - y) ** 2

    def gradient(self, z: Values, y: Values) -> Values:
        """Return ``z - y``."""
        return z - y

    def curvature(self, z: Values, y: Values) -> Values:
        """Return ones."""
        return np.ones_like(z)
