"""Kernels of the Euclidean distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from gramless.base.errors import KernelError
from gramless.kernels import distributions
from gramless.kernels.base import FloatArray, check_positive_number
from gramless.kernels.spectral import RadialKernel

_MAX_NU = 100.0
# All Matérn profiles are 0 in float64 at this distance, in units of bandwidth / sqrt(2 nu).
_MAX_DISTANCE = 1e4


@dataclass(frozen=True)
class Gaussian(RadialKernel):
    """The Gaussian kernel ``exp(-r**2 / 2)``, the smoothest kernel.

    With one bandwidth s for all inputs it is ``exp(-||x - y||^2 / (2 s^2))``. Its frequencies are
    standard normal (Rahimi & Recht 2007, Figure 1). It has no random binning, because it is concave
    near 0 and so not a mixture of hats (ibid., section 4).

    Examples
    --------
    >>> Gaussian().gram([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.3679]])
    """

    name: ClassVar[str] = "gaussian"
    no_binning_because: ClassVar[str] = (
        "its profile exp(-t^2/2) is not convex at 0, so delta*k''(delta) is not a probability "
        "distribution"
    )

    def profile(self, distance: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.exp(-0.5 * np.square(distance))

    @property
    def is_separable(self) -> bool:
        return True

    def radii(self, uniforms: FloatArray) -> FloatArray:
        return np.ones(len(uniforms))

    def _gram_at_unit_bandwidth(self, rows: FloatArray, others: FloatArray) -> FloatArray:
        squares: FloatArray = cdist(rows, others, "sqeuclidean")
        squares *= -0.5
        return np.exp(squares, out=squares)


@dataclass(frozen=True)
class Matern(RadialKernel):
    """The Matérn kernel, whose smoothness is the parameter ``nu``.

    It is ``2**(1 - nu) / Gamma(nu) * z**nu * K_nu(z)`` at ``z = sqrt(2 nu) r``, with the modified
    Bessel function ``K_nu``. For ``nu`` 1/2 it is ``exp(-r)``, for 3/2 ``(1 + z) exp(-z)``, for 5/2
    ``(1 + z + z**2 / 3) exp(-z)``. Functions of its Gaussian process have derivatives of all orders
    below ``nu``. Its frequencies have the multivariate t distribution of ``2 nu`` degrees of
    freedom: they are normal vectors times ``sqrt(nu / G)`` with a Gamma variable G of shape ``nu``.
    Source: Rasmussen & Williams, *Gaussian Processes for Machine Learning*, 2006, equations (4.14)
    to (4.17).

    Parameters
    ----------
    nu : float, default=1.5
        In ``(0, 100]``.

    Examples
    --------
    >>> Matern(nu=0.5).gram([[0.0, 0.0]], [[3.0, 4.0]], bandwidth=5.0).round(4)
    array([[0.3679]])
    """

    name: ClassVar[str] = "matern"
    nu: float = 1.5

    def __post_init__(self) -> None:
        nu = check_positive_number(self.nu, "Matern", "nu")
        if nu > _MAX_NU:
            raise KernelError(f"Matern needs nu in (0, 100], got {nu}: use Gaussian().")
        vars(self).update(nu=nu)

    def profile(self, distance: FloatArray) -> FloatArray:
        z = np.minimum(math.sqrt(2.0 * self.nu) * np.asarray(distance), _MAX_DISTANCE)
        if self.nu == 0.5:
            return np.exp(-z)
        if self.nu == 1.5:
            return (1.0 + z) * np.exp(-z)
        if self.nu == 2.5:
            return (1.0 + z + z * z / 3.0) * np.exp(-z)
        return _bessel_profile(z, self.nu)

    def n_uniforms(self, n_inputs: int) -> int:
        return 1

    def radii(self, uniforms: FloatArray) -> FloatArray:
        return np.sqrt(self.nu / distributions.gamma(uniforms[:, 0], self.nu))


@dataclass(frozen=True)
class RationalQuadratic(RadialKernel):
    """The rational quadratic kernel ``(1 + r**2 / (2 alpha))**-alpha``.

    It is a mixture of Gaussians of many widths: the mean of ``exp(-G r**2 / 2)`` over a Gamma
    variable G of shape ``alpha`` and mean 1. So its frequencies are normal vectors times
    ``sqrt(G)``. Source: Rasmussen & Williams, *Gaussian Processes for Machine Learning*, 2006,
    equations (4.19) and (4.20).

    Parameters
    ----------
    alpha : float, default=1.0
        A positive number. The smaller it is, the heavier is the tail; the limit of large numbers is
        the Gaussian.

    Examples
    --------
    >>> RationalQuadratic(alpha=1.0).gram([[0.0, 0.0]], [[1.0, 1.0]])
    array([[0.5]])
    """

    name: ClassVar[str] = "rational_quadratic"
    alpha: float = 1.0

    def __post_init__(self) -> None:
        vars(self).update(alpha=check_positive_number(self.alpha, "RationalQuadratic", "alpha"))

    def profile(self, distance: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            squares = 0.5 * np.square(distance) / self.alpha
        return np.exp(-self.alpha * np.log1p(squares))

    def n_uniforms(self, n_inputs: int) -> int:
        return 1

    def radii(self, uniforms: FloatArray) -> FloatArray:
        return np.sqrt(distributions.gamma(uniforms[:, 0], self.alpha) / self.alpha)


def _bessel_profile(z: FloatArray, nu: float) -> FloatArray:
    # If the Bessel function overflows, z is so small that two terms of its series are exact.
    near = 1.0 - z * z / (4.0 * max(nu - 1.0, 1.0))
    bessel = special.kve(nu, z)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = nu * np.log(0.5 * z) + np.log(bessel) - z
    values = np.exp(logarithm + (math.log(2.0) - math.lgamma(nu)))
    return np.where(np.isfinite(bessel), np.minimum(values, 1.0), near)
