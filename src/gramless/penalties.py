"""Penalties on the weights."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gramless.base.arrays import inner
from gramless.base.errors import InputError
from gramless.base.types import FloatArray


class Penalty(ABC):
    """``l1 |w|_1 + l2/2 |w|^2`` over all but the last ``n_free`` rows of ``w``.

    A subclass is a frozen dataclass that defines either ``l1_ratio`` or both ``l1`` and ``l2``.

    Attributes
    ----------
    alpha : float
        The strength of the penalty, not negative.
    n_free : int
        Number of rows at the end of ``w``, such as the intercept, that are not penalised.
    l1_ratio : float
        Share of ``alpha`` that multiplies absolute values, from 0 to 1.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Half(Penalty):
    ...     alpha: float
    ...     n_free: int = 0
    ...     l1 = 0.0
    ...
    ...     @property
    ...     def l2(self):
    ...         return 0.5 * self.alpha
    >>> Half(2.0).value(np.array([3.0]))
    4.5
    """

    alpha: float
    n_free: int
    l1_ratio: float

    @property
    def l1(self) -> float:
        """The factor of the absolute values."""
        return self.alpha * self.l1_ratio

    @property
    def l2(self) -> float:
        """The factor of half the squares."""
        return self.alpha * (1.0 - self.l1_ratio)

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha < np.inf:
            raise InputError(f"alpha must be a finite number, not negative; got {self.alpha!r}.")

    def scaled(self, factor: float) -> Self:
        """Return the penalty with ``alpha`` multiplied by ``factor``."""
        return replace(self, alpha=factor * self.alpha)  # type: ignore[type-var]

    def value(self, w: FloatArray) -> float:
        """Return ``l1 |w|_1 + l2/2 |w|^2`` over the penalised rows.

        Parameters
        ----------
        w : array (n_columns,) or (n_columns, K)
            Weights.
        """
        penalised = w[: len(w) - self.n_free]
        l1_part = self.l1 * float(np.abs(penalised).sum()) if self.l1 else 0.0
        return l1_part + (0.5 * self.l2 * inner(penalised, penalised) if self.l2 else 0.0)

    def prox(self, w: FloatArray, step: float) -> FloatArray:
        """Return ``argmin_v step * value(v) + |v - w|^2 / 2``.

        Parameters
        ----------
        w : array (n_columns,) or (n_columns, K)
            Weights.
        step : float
            Step size.
        """
        shrunken = np.sign(w) * np.maximum(np.abs(w) - step * self._fill_penalised(w, self.l1), 0.0)
        # Adding 0 turns -0 into 0.
        return shrunken / (1.0 + step * self.diagonal(w)) + 0.0

    def gradient(self, w: FloatArray) -> FloatArray:
        """Return ``l2 * w``, zero in free rows. It is the whole gradient if ``l1`` is 0.

        Parameters
        ----------
        w : array (n_columns,) or (n_columns, K)
            Weights.
        """
        return w * self.diagonal(w)

    def diagonal(self, w: FloatArray) -> FloatArray:
        """Return the diagonal of the Hessian of the squares, shaped to multiply ``w``."""
        return self._fill_penalised(w, self.l2)

    def distance(self, w: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return the KKT residual of each weight, given the gradient of the mean loss.

        It is the distance of ``-gradient`` from the subdifferential, and zero in all weights only
        at the minimum.
        """
        smooth_part, l1 = gradient + self.gradient(w), self._fill_penalised(w, self.l1)
        at_zero = np.maximum(np.abs(smooth_part) - l1, 0.0)
        return np.where(w == 0.0, at_zero, np.abs(smooth_part + l1 * np.sign(w)))

    def _fill_penalised(self, w: FloatArray, strength: float) -> FloatArray:
        """Return ``strength`` for penalised rows and 0 for free rows, shaped to multiply ``w``."""
        rows = np.full((len(w),) + (1,) * (w.ndim - 1), strength)
        rows[len(w) - self.n_free :] = 0.0
        return rows


@dataclass(frozen=True)
class L2(Penalty):
    """``alpha/2 |w|^2`` (RB16, equation 1).

    Parameters
    ----------
    alpha : float
        Strength, not negative. The penalty in RB16's equation (8) is ``n_samples`` times this.
    n_free : int, default=0
        Number of rows at the end of ``w``, such as the intercept, that are not penalised.

    Examples
    --------
    >>> L2(2.0, n_free=1).value(np.array([3.0, 100.0]))
    9.0
    """

    alpha: float
    n_free: int = 0
    l1_ratio = 0.0


@dataclass(frozen=True)
class L1(Penalty):
    """``alpha |w|_1``, which leaves most weights at exactly zero (RB16, equation 23).

    Parameters
    ----------
    alpha : float
        Strength, not negative.
    n_free : int, default=0
        Number of rows at the end of ``w``, such as the intercept, that are not penalised.

    Examples
    --------
    >>> L1(0.5).value(np.array([3.0, -1.0]))
    2.0
    >>> L1(0.5).prox(np.array([3.0, -0.2]), step=1.0)
    array([2.5, 0. ])
    """

    alpha: float
    n_free: int = 0
    l1_ratio = 1.0


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """``alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)`` (Zou & Hastie 2005).

    Parameters
    ----------
    alpha : float
        Strength, not negative.
    l1_ratio : float, default=0.5
        Share of ``alpha`` that multiplies absolute values, from 0 (L2) to 1 (L1).
    n_free : int, default=0
        Number of rows at the end of ``w``, such as the intercept, that are not penalised.

    Examples
    --------
    >>> ElasticNet(1.0, l1_ratio=0.5).value(np.array([2.0]))
    2.0
    """

    alpha: float
    l1_ratio: float = 0.5
    n_free: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.l1_ratio <= 1.0:
            raise InputError(f"l1_ratio must lie between 0 and 1, got {self.l1_ratio!r}.")
