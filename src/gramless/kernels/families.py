"""The kernels with a name: closed profiles and, but for the Gaussian, closed laws of widths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from gramless.base.errors import KernelError
from gramless.kernels.base import BinningKernel, FloatArray, Kernel, positive_number


@dataclass(frozen=True)
class Laplacian(BinningKernel):
    """The Laplacian kernel, profile ``exp(-t)``; the usual choice for random binning.

    ``k'' = exp(-t)``, so widths have density ``w exp(-w)``: Gamma with shape 2 and scale 1
    (Rahimi & Recht 2007, section 4).

    Examples
    --------
    >>> Laplacian().gram([[0.0]], [[1.0]], bandwidth=2.0).round(4)
    array([[0.6065]])
    """

    name: ClassVar[str] = "laplacian"

    def profile(self, distance: FloatArray) -> FloatArray:
        """Evaluate ``exp(-t)``."""
        return np.exp(-distance)

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        return generator.gamma(2.0, size=size)

    def _gram_at_unit_bandwidth(self, rows: FloatArray, others: FloatArray) -> FloatArray:
        distances: FloatArray = cdist(rows, others, "cityblock")
        return np.exp(-distances)


@dataclass(frozen=True)
class ExponentialPower(BinningKernel):
    """The stretched exponential kernel, profile ``exp(-t**power)``; rougher than the Laplacian.

    Put ``s = w**p`` in ``F(w) = 1 - k(w) + w k'(w)``: ``F = 1 - exp(-s) - p s exp(-s)``, whose
    derivative in ``s`` is ``(1 - p) exp(-s) + p s exp(-s)``. So ``s`` is Gamma with shape 2 with
    probability ``p``, else with shape 1, and ``w = s**(1/p)``. Source: Lemma 1 of Rahimi & Recht
    2007 applied to this profile.

    Parameters
    ----------
    power : float, default=0.5
        In ``(0, 1]``; above 1 the profile is not convex. 1 is the Laplacian.

    Raises
    ------
    KernelError
        If ``power`` is outside ``(0, 1]``.

    Examples
    --------
    >>> ExponentialPower(power=0.5).gram([[0.0]], [[4.0]]).round(4)
    array([[0.1353]])
    """

    name: ClassVar[str] = "exponential_power"
    power: float = 0.5

    def __post_init__(self) -> None:
        power = positive_number(self.power, "ExponentialPower", "power")
        if power > 1.0:
            raise KernelError(
                f"ExponentialPower needs power in (0, 1], got {power}: above 1 the profile "
                "exp(-t**power) is not convex at 0."
            )
        object.__setattr__(self, "power", power)

    def profile(self, distance: FloatArray) -> FloatArray:
        """Evaluate ``exp(-t**power)``."""
        return np.exp(-(distance**self.power))

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        shape = np.where(generator.random(size) < self.power, 2.0, 1.0)
        with np.errstate(over="ignore"):
            return generator.standard_gamma(shape) ** (1.0 / self.power)


@dataclass(frozen=True)
class InversePower(BinningKernel):
    """The inverse power kernel, profile ``(1 + t)**-power``; its tail is heavy.

    Widths have density ``q (q + 1) w (1 + w)**-(q + 2)``, the beta prime law with shapes 2 and
    ``q``: the ratio of a Gamma variable of shape 2 to one of shape ``q``. Source: Lemma 1 of
    Rahimi & Recht 2007 applied to this profile.

    Parameters
    ----------
    power : float, default=1.0
        Above 0.

    Raises
    ------
    KernelError
        If ``power`` is not a number above 0.

    Examples
    --------
    >>> InversePower(power=2.0).gram([[0.0]], [[1.0]])
    array([[0.25]])
    """

    name: ClassVar[str] = "inverse_power"
    power: float = 1.0

    def __post_init__(self) -> None:
        power = positive_number(self.power, "InversePower", "power")
        object.__setattr__(self, "power", power)

    def profile(self, distance: FloatArray) -> FloatArray:
        """Evaluate ``(1 + t)**-power``."""
        return (1.0 + distance) ** -self.power

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        numerator = generator.standard_gamma(2.0, size=size)
        with np.errstate(divide="ignore", over="ignore"):
            return numerator / generator.standard_gamma(self.power, size=size)


@dataclass(frozen=True)
class Hat(BinningKernel):
    """The hat kernel, profile ``max(0, 1 - t)``: every grid has the bandwidth as its width.

    Source: Rahimi & Recht 2007, section 4.

    Examples
    --------
    >>> Hat().gram([[0.0]], [[0.5], [2.0]])
    array([[0.5, 0. ]])
    """

    name: ClassVar[str] = "hat"

    def profile(self, distance: FloatArray) -> FloatArray:
        """Evaluate ``max(0, 1 - t)``."""
        return np.maximum(0.0, 1.0 - distance)

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        return np.ones(size)


@dataclass(frozen=True)
class Mixture(BinningKernel):
    """A weighted mean of one-dimensional profiles, taken in each input on its own.

    ``profile(t) = sum_i weights_i profile_i(t / scales_i) / sum_i weights_i``. A width is drawn
    from profile ``i`` with probability proportional to its weight and multiplied by its scale.
    A draw costs as much as one from every profile.

    Parameters
    ----------
    kernels : sequence of BinningKernel
        At least one.
    weights : sequence of float
        One above 0 a kernel; only their proportions matter.
    scales : sequence of float, default=()
        One above 0 a kernel, in units of the bandwidth; empty means 1 for each.

    Raises
    ------
    KernelError
        If a kernel has no random binning, or weights or scales do not fit the kernels.

    Examples
    --------
    A kernel of two length scales, one ten times the other:

    >>> mixture = Mixture([Laplacian(), Laplacian()], weights=[1, 3], scales=[1, 10])
    >>> mixture.gram([[0.0]], [[1.0]]).round(4)
    array([[0.7706]])
    """

    name: ClassVar[str] = "mixture"
    kernels: Sequence[BinningKernel]
    weights: Sequence[float]
    scales: Sequence[float] = ()

    def __post_init__(self) -> None:
        kernels = tuple(self.kernels)
        for kernel in kernels:
            if not isinstance(kernel, BinningKernel):
                raise KernelError(
                    f"Mixture takes kernels that have random binning, such as Laplacian(); "
                    f"got {kernel!r}."
                )
        object.__setattr__(self, "kernels", kernels)
        object.__setattr__(self, "weights", self._one_per_kernel(self.weights, "weights"))
        scales = tuple(self.scales) or (1.0,) * len(kernels)
        object.__setattr__(self, "scales", self._one_per_kernel(scales, "scales"))

    def _one_per_kernel(self, values: Sequence[float], parameter: str) -> tuple[float, ...]:
        checked = tuple(
            positive_number(value, "Mixture", f"each of its {parameter}") for value in values
        )
        if not checked or len(checked) != len(self.kernels):
            raise KernelError(
                f"Mixture needs at least one kernel and as many {parameter}: got "
                f"{len(self.kernels)} kernels and {len(checked)} {parameter}."
            )
        return checked

    def profile(self, distance: FloatArray) -> FloatArray:
        """Evaluate the weighted mean of the profiles."""
        parts = zip(self.kernels, self._shares(), self.scales, strict=True)
        total = np.zeros(np.shape(distance))
        for kernel, share, scale in parts:
            total += share * kernel.profile(distance / scale)
        return total

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        chosen = generator.choice(len(self.kernels), size=size, p=self._shares())
        widths = np.empty(size)
        for i, (kernel, scale) in enumerate(zip(self.kernels, self.scales, strict=True)):
            drawn = scale * kernel.sample_widths(generator, size)
            widths = np.where(chosen == i, drawn, widths)
        return widths

    def _shares(self) -> FloatArray:
        weights = np.array(self.weights, dtype=np.float64)
        shares: FloatArray = weights / weights.sum()
        return shares


@dataclass(frozen=True)
class Gaussian(Kernel):
    """The Gaussian kernel, profile ``exp(-t**2 / 2)``: exact values only, no random binning.

    With one bandwidth ``s`` for all inputs it is ``exp(-||x - y||^2 / (2 s^2))``. It is concave
    near 0, hence no mixture of hats (Rahimi & Recht 2007, section 4).

    Examples
    --------
    >>> Gaussian().gram([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.3679]])
    """

    name: ClassVar[str] = "gaussian"
    no_binning_because: ClassVar[str] = (
        "its profile exp(-t^2/2) is not convex at 0, so delta*k''(delta) is not a probability law"
    )

    def profile(self, distance: FloatArray) -> FloatArray:
        """Evaluate ``exp(-t**2 / 2)``."""
        return np.exp(-0.5 * distance**2)

    def _gram_at_unit_bandwidth(self, rows: FloatArray, others: FloatArray) -> FloatArray:
        squares: FloatArray = cdist(rows, others, "sqeuclidean")
        return np.exp(-0.5 * squares)
