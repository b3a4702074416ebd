"""Penalties on the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError

Weights = NDArray[np.float64]


class Penalty(Protocol):
    """A penalty of the weights; the last ``n_free`` rows of ``w`` are left alone."""

    n_free: int

    def value(self, w: Weights) -> float:
        """Return the penalty of ``w``, summed over its outputs."""

    def prox(self, w: Weights, step: float) -> Weights:
        """Return ``argmin_v step * value(v) + |v - w|^2 / 2``."""


@dataclass(frozen=True)
class L2:
    """``alpha/2 |w|^2`` (RB16, equation 1).

    Parameters
    ----------
    alpha : float
        Not negative. RB16's equation (8) writes ``n_samples`` times this.
    n_free : int, default=0
        How many rows at the end of ``w``, such as the intercept, go unpenalised.

    Examples
    --------
    >>> import numpy as np
    >>> L2(2.0, n_free=1).value(np.array([3.0, 100.0]))
    9.0
    """

    alpha: float
    n_free: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha < np.inf:
            raise InputError(f"alpha must be a finite number, not negative; got {self.alpha!r}.")

    def value(self, w: Weights) -> float:
        """Return ``alpha/2 |w|^2`` over the penalised rows."""
        kept = w[: len(w) - self.n_free]
        return 0.5 * self.alpha * float(np.vdot(kept, kept))

    def prox(self, w: Weights, step: float) -> Weights:
        """Return ``w / (1 + step * alpha)``, free rows unchanged."""
        return w / (1.0 + step * self.diagonal(w))

    def gradient(self, w: Weights) -> Weights:
        """Return ``alpha * w``, zero on free rows."""
        return w * self.diagonal(w)

    def diagonal(self, w: Weights) -> Weights:
        """Return the Hessian's diagonal, shaped to multiply ``w``."""
        diagonal = np.full((len(w),) + (1,) * (w.ndim - 1), self.alpha)
        diagonal[len(w) - self.n_free :] = 0.0
        return diagonal
