"""The constants and bounds of DSG16's Theorems 3 and 4, and ratios of complexities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def noise_factor(new: int, old: int, step: float = np.inf) -> float:
    """Return ``(C_1 / C_0)^2`` of Theorem 4 for UDSG with G = ``new`` and U = ``old``.

    Examples
    --------
    >>> noise_factor(new=1, old=1), noise_factor(new=1, old=0)
    (3.0, 1.0)
    """
    last = 2 * old * (old - 1) / (new * step)
    return 1 + 2 * old / (new + old) + 2 * old**2 / (new * (new + old)) + last


def complexity_ratio(new: int, old: int) -> float:
    """Return DSG16's r (Section 4.1.2): the complexity of UDSG relative to that of DSG.

    It is ``(G + 2 U) / (G + U)``: the ratio of the steps to the same bound, ``1 + 2 U / G``, times
    the share of steps that add a block, ``G / (G + U)``.

    Examples
    --------
    >>> complexity_ratio(new=1, old=1)
    1.5
    """
    return (new + 2 * old) / (new + old)


def features_ratio(new: int, old: int) -> float:
    """Return the features that UDSG computes relative to DSG to reach the same bound.

    A step computes all features so far, so the features of t steps grow as ``t^2 G / (G + U)``.
    DSG16's r counts the ratio of steps once; here it is squared.

    Examples
    --------
    >>> features_ratio(new=1, old=1)
    4.5
    """
    return noise_factor(new, old) ** 2 * new / (new + old)


@dataclass(frozen=True)
class Assumptions:
    """The constants of Assumption 2 and of the schedule ``gamma_t = theta / t``, for one output."""

    alpha: float  # lambda
    theta: float
    smoothness: float  # L
    slope_bound: float  # M
    norm: float = 0.0  # of f* in the kernel's space; 0 gives lower ends of S and of the bound
    kappa: float = 1.0  # largest k(x, y)
    phi: float = 1.0  # largest product of features of one frequency: 2 as the paper scales them

    def constants(self, step: float = np.inf, new: int = 1, old: int = 0) -> tuple[float, float]:
        """Return C_0 and S_0 of Theorem 3, or C_1 and S_1 of Theorem 4 if ``old`` is above 0."""
        spread = 2 * (self.kappa + self.phi) * self.slope_bound * self.theta
        C = spread * np.sqrt(noise_factor(new, old, step))
        Z = 2 * self.alpha * self.theta - 1
        Q = np.sqrt(2 * self.kappa) * self.smoothness * C * self.theta
        drift = Z * self.kappa * (1 + self.theta * self.alpha) ** 2
        drift *= (self.theta * self.slope_bound) ** 2
        return float(C), max(self.norm, float((Q + np.sqrt(Q**2 + drift)) / Z))

    def bound(self, step: float, new: int = 1, old: int = 0) -> float:
        """Return the bound on the mean of ``|f_(t+1)(x) - f*(x)|^2`` after ``step`` steps."""
        C, S = self.constants(step, new, old)
        return (2 * C**2 + 2 * self.kappa * S**2) / step
