"""Kernels of the Euclidean distance, with their distributions of frequencies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from gramless.base.errors import KernelError
from gramless.kernels import distributions
from gramless.kernels.base import FloatArray, positive_number
from gramless.kernels.spectral import RadialKernel

_LARGEST_NU = 100.0
# Every Matern profile is 0 in float64 from here on, in units of bandwidth / sqrt(2 nu).
_FAR = 1e4


@dataclass(frozen=True)
class Gaussian(RadialKernel):
    """The Gaussian kernel, ``exp(-r**2 / 2)``: the smoothest; no random binning.

    With one bandwidth ``s`` for all inputs it is ``exp(-||x - y||^2 / (2 s^2))``, and its
    frequencies are standard normal (Rahimi & Recht 2007, Figure 1). It is concave near 0, hence no
    mixture of hats (the same, section 4).

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
    """The Matérn kernel: as rough or smooth as ``nu`` says.

    ``2**(1 - nu) / Gamma(nu) * z**nu * K_nu(z)`` at ``z = sqrt(2 nu) r``, with the modified Bessel
    function ``K_nu``; for ``nu`` 1/2 it is ``exp(-r)``, for 3/2 ``(1 + z) exp(-z)``, for 5/2
    ``(1 + z + z**2 / 3) exp(-z)``. Functions it likes have derivatives up to order ``nu``. Its
    frequencies have the multivariate t distribution of ``2 nu`` degrees of freedom: normal vectors
    times ``sqrt(nu / G)`` with ``G`` a Gamma variable of shape ``nu``. Source: Rasmussen &
    Williams, *Gaussian Processes for Machine Learning*, 2006, equations (4.14) to (4.17).

    Parameters
    ----------
    nu : float, default=1.5
        Above 0, at most 100.

    Examples
    --------
    >>> Matern(nu=0.5).gram([[0.0, 0.0]], [[3.0, 4.0]], bandwidth=5.0).round(4)
    array([[0.3679]])
    """

    name: ClassVar[str] = "matern"
    nu: float = 1.5

    def __post_init__(self) -> None:
        nu = positive_number(self.nu, "Matern", "nu")
        if nu > _LARGEST_NU:
            raise KernelError(f"Matern needs nu in (0, 100], got {nu}: use Gaussian().")
        vars(self).update(nu=nu)

    def profile(self, distance: FloatArray) -> FloatArray:
        z = np.minimum(math.sqrt(2.0 * self.nu) * np.asarray(distance), _FAR)
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
    """The rational quadratic kernel, ``(1 + r**2 / (2 alpha))**-alpha``: Gaussians of many widths.

    It is the mean of ``exp(-G r**2 / 2)`` over a Gamma variable ``G`` of shape ``alpha`` and mean
    1, so its frequencies are normal vectors times ``sqrt(G)``. Source: Rasmussen & Williams,
    *Gaussian Processes for Machine Learning*, 2006, equations (4.19) and (4.20).

    Parameters
    ----------
    alpha : float, default=1.0
        Above 0; small means a heavy tail, large the Gaussian.

    Examples
    --------
    >>> RationalQuadratic(alpha=1.0).gram([[0.0, 0.0]], [[1.0, 1.0]])
    array([[0.5]])
    """

    name: ClassVar[str] = "rational_quadratic"
    alpha: float = 1.0

    def __post_init__(self) -> None:
        vars(self).update(alpha=positive_number(self.alpha, "RationalQuadratic", "alpha"))

    def profile(self, distance: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            squares = 0.5 * np.square(distance) / self.alpha
        return np.exp(-self.alpha * np.log1p(squares))

    def n_uniforms(self, n_inputs: int) -> int:
        return 1

    def radii(self, uniforms: FloatArray) -> FloatArray:
        return np.sqrt(distributions.gamma(uniforms[:, 0], self.alpha) / self.alpha)


def _bessel_profile(z: FloatArray, nu: float) -> FloatArray:
    # Where the Bessel function overflows, z is so small that two terms of its series are exact.
    near = 1.0 - z * z / (4.0 * max(nu - 1.0, 1.0))
    bessel = special.kve(nu, z)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = nu * np.log(0.5 * z) + np.log(bessel) - z
    values = np.exp(logarithm + (math.log(2.0) - math.lgamma(nu)))
    return np.where(np.isfinite(bessel), np.minimum(values, 1.0), near)
