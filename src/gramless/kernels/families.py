"""Kernels that are products of a profile over the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from gramless.base.errors import KernelError
from gramless.kernels import distributions
from gramless.kernels.base import FloatArray, check_positive_number
from gramless.kernels.gridded import BinningKernel
from gramless.kernels.spectral import SpectralKernel


@dataclass(frozen=True)
class Laplacian(BinningKernel, SpectralKernel):
    """The Laplacian kernel, with the profile ``exp(-t)``; the usual choice for random binning.

    Since ``k'' = exp(-t)``, widths have the density ``w exp(-w)``, which is Gamma of shape 2 and
    scale 1 (Rahimi & Recht 2007, section 4). Frequencies are Cauchy in each input (ibid., Figure
    1).

    Examples
    --------
    >>> Laplacian().gram([[0.0]], [[1.0]], bandwidth=2.0).round(4)
    array([[0.6065]])
    """

    name: ClassVar[str] = "laplacian"

    def profile(self, distance: FloatArray) -> FloatArray:
        return np.exp(-distance)

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        return generator.gamma(2.0, size=size)

    def _gram_at_unit_bandwidth(self, rows: FloatArray, others: FloatArray) -> FloatArray:
        distances: FloatArray = cdist(rows, others, "cityblock")
        np.negative(distances, out=distances)
        return np.exp(distances, out=distances)

    def _frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        return distributions.cauchy(normals)


@dataclass(frozen=True)
class ExponentialPower(BinningKernel, SpectralKernel):
    """The stretched exponential kernel, with the profile ``exp(-t**power)``.

    It is rougher than the Laplacian. With ``s = w**p`` in ``F(w) = 1 - k(w) + w k'(w)``, ``F = 1 -
    exp(-s) - p s exp(-s)``, whose derivative in s is ``(1 - p) exp(-s) + p s exp(-s)``. So s is
    Gamma of shape 2 with probability p, else of shape 1, and ``w = s**(1/p)`` (Lemma 1 of Rahimi &
    Recht 2007, applied to this profile).

    The profile is also the mean of ``exp(-S t)`` over positive stable S of index ``power``. So the
    frequency in an input is such a draw times a Cauchy draw, and needs two uniforms.

    Parameters
    ----------
    power : float, default=0.5
        In ``(0, 1]``, because the profile is not convex above 1. 1 is the Laplacian.

    Examples
    --------
    >>> ExponentialPower(power=0.5).gram([[0.0]], [[4.0]]).round(4)
    array([[0.1353]])
    """

    name: ClassVar[str] = "exponential_power"
    power: float = 0.5

    def __post_init__(self) -> None:
        power = check_positive_number(self.power, "ExponentialPower", "power")
        if power > 1.0:
            raise KernelError(
                f"ExponentialPower needs power in (0, 1], got {power}: above 1 it is not convex."
            )
        vars(self).update(power=power)

    def profile(self, distance: FloatArray) -> FloatArray:
        return np.exp(-(distance**self.power))

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        shape = np.where(generator.random(size) < self.power, 2.0, 1.0)
        with np.errstate(over="ignore"):
            return generator.standard_gamma(shape) ** (1.0 / self.power)

    def n_uniforms(self, n_inputs: int) -> int:
        return 2 * n_inputs

    def _frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        angles, heights = np.split(uniforms, 2, axis=1)
        stable = distributions.positive_stable(angles, heights, self.power)
        return stable * distributions.cauchy(normals)


@dataclass(frozen=True)
class InversePower(BinningKernel, SpectralKernel):
    """The inverse power kernel, with the profile ``(1 + t)**-power`` and its heavy tail.

    Widths have the density ``q (q + 1) w (1 + w)**-(q + 2)`` for a power q, which is the beta prime
    distribution of shapes 2 and q: the ratio of a Gamma variable of shape 2 to one of shape q
    (Lemma 1 of Rahimi & Recht 2007, applied to this profile).

    The profile is also the mean of ``exp(-G t)`` over a Gamma variable G of shape q. So the
    frequency in an input is such a draw times a Cauchy draw, and needs one uniform.

    Parameters
    ----------
    power : float, default=1.0
        A positive number.

    Examples
    --------
    >>> InversePower(power=2.0).gram([[0.0]], [[1.0]])
    array([[0.25]])
    """

    name: ClassVar[str] = "inverse_power"
    power: float = 1.0

    def __post_init__(self) -> None:
        vars(self).update(power=check_positive_number(self.power, "InversePower", "power"))

    def profile(self, distance: FloatArray) -> FloatArray:
        return (1.0 + distance) ** -self.power

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        numerator = generator.standard_gamma(2.0, size=size)
        with np.errstate(divide="ignore", over="ignore"):
            return numerator / generator.standard_gamma(self.power, size=size)

    def n_uniforms(self, n_inputs: int) -> int:
        return n_inputs

    def _frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        return distributions.gamma(uniforms, self.power) * distributions.cauchy(normals)


@dataclass(frozen=True)
class Cauchy(SpectralKernel):
    """The Cauchy kernel, with the profile ``1 / (1 + t**2)``: smooth at 0, with a heavy tail.

    ``k(x, y) = prod_j 1 / (1 + (x_j - y_j)^2 / s_j^2)`` for bandwidths s. Frequencies have the
    Laplace distribution with density ``exp(-|w|) / 2`` in each input (Rahimi & Recht 2007, Figure
    1, whose kernel has an additional factor of 2).

    Examples
    --------
    >>> Cauchy().gram([[0.0, 0.0]], [[1.0, 2.0]]).round(4)
    array([[0.1]])
    """

    name: ClassVar[str] = "cauchy"
    no_binning_because: ClassVar[str] = (
        "its profile 1/(1 + t^2) is not convex at 0, so delta*k''(delta) is not a probability "
        "distribution"
    )

    def profile(self, distance: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return 1.0 / (1.0 + np.square(distance))

    def _frequencies(self, normals: FloatArray, uniforms: FloatArray) -> FloatArray:
        return distributions.laplace(normals)


@dataclass(frozen=True)
class Hat(BinningKernel):
    """The hat kernel, with the profile ``max(0, 1 - t)``.

    The width of every grid is the bandwidth (Rahimi & Recht 2007, section 4).

    Examples
    --------
    >>> Hat().gram([[0.0]], [[0.5], [2.0]])
    array([[0.5, 0. ]])
    """

    name: ClassVar[str] = "hat"
    no_fourier_because: ClassVar[str] = (
        "the distribution of its frequencies, (1 - cos w) / (pi w^2), has no closed inverse"
    )

    def profile(self, distance: FloatArray) -> FloatArray:
        return np.maximum(0.0, 1.0 - distance)

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        return np.ones(size)
