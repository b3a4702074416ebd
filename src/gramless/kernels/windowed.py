"""Kernels of weighted bins, with the grids and windows that represent them."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from scipy import optimize, special
from scipy.interpolate import CubicHermiteSpline, CubicSpline

from gramless.base.errors import InputError, KernelError
from gramless.base.numeric import clip_infinities
from gramless.kernels.base import FloatArray, Kernel, check_positive_number
from gramless.kernels.gridded import BinningKernel

WindowName = Literal["parabola", "cosine"]

_MEAN_WIDTH = 2.0  # mean width of grids at bandwidth 1, as for the Laplacian kernel
_MIN_SHAPE, _MAX_SHAPE = 2.0, 1000.0

# For for_inputs: the shape with up to _FEW_INPUTS inputs, the shape with more, and the maximum
# depth.
_FEW_INPUTS, _SHAPE_OF_FEW, _SHAPE_OF_MANY = 10, 30.0, 8.0
_MAX_DEPTH = 0.8
# Maximum of the mean fourth power of window values over all inputs. If it is larger, a few grids
# dominate.
_MAX_FOURTH_MOMENT = 8.0

_NEGLIGIBLE = 1e-17  # tail probabilities of widths
_KNOTS = 4096  # intervals of the spline of a profile
_PANELS, _NODES = 8, 32  # Gauss-Legendre quadrature: panels, and nodes per panel
_COSINE_TERMS = 14  # terms of the Taylor series


@dataclass(frozen=True)
class GammaHats(BinningKernel):
    """A mean of hats whose widths have a Gamma distribution of mean 2 and adjustable variance.

    Widths are ``w = 2 G / shape`` for a Gamma variable G of this shape. With ``x = t shape / 2``
    and the regularised upper incomplete Gamma function Q, the profile is ``E max(0, 1 - t/w) =
    Q(shape, x) - x Q(shape - 1, x) / (shape - 1)`` (Rahimi & Recht 2007, section 4, for this
    distribution). Shape 2 is the Laplacian.

    Parameters
    ----------
    shape : float, default=30.0
        From 2 to 1,000. The standard deviation of widths is ``2 / sqrt(shape)``.

    Examples
    --------
    >>> GammaHats(shape=2.0).gram([[0.0]], [[1.0]], bandwidth=2.0).round(4)
    array([[0.6065]])
    """

    name: ClassVar[str] = "gamma_hats"
    shape: float = 30.0

    def __post_init__(self) -> None:
        vars(self).update(shape=_check_shape(self.shape, "GammaHats"))

    def profile(self, distance: FloatArray) -> FloatArray:
        shape = self.shape
        x = clip_infinities(np.asarray(distance) * (shape / _MEAN_WIDTH))
        tail = special.gammaincc(shape - 1.0, x)
        mean: FloatArray = special.gammaincc(shape, x) - x * tail / (shape - 1.0)
        return np.maximum(mean, 0.0)

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        return generator.gamma(self.shape, _MEAN_WIDTH / self.shape, size)


@dataclass(frozen=True)
class Windowed(Kernel):
    """The kernel of bins that are weighted by a window, smoother than kernels of plain bins.

    A row has the value ``f(u) / sqrt(integral of f^2)`` in its cell, where f is the window and u in
    [-1/2, 1/2) the position in the cell. For two points at distance t and a grid of width w, the
    product of both values has the mean ``rho(t/w) = integral of f(u) f(u + t/w) / integral of f^2``
    over the shifts, and is 0 beyond the width. The profile is the mean of rho over the widths,
    which are those of :class:`GammaHats` (Kapralov, Nouri, Razenshteyn, Velingker & Zandieh 2020,
    *Scaling up kernel ridge regression via locality sensitive hashing*). Its slope at 0 is that of
    plain bins of the same widths times ``f(1/2)^2 / integral of f^2``.

    Parameters
    ----------
    window : {"parabola", "cosine"}, default="parabola"
        ``1 - depth (2u)^2`` or ``1 - depth (1 - cos(2 pi u)) / 2``. Both are 1 in the middle of a
        cell and ``1 - depth`` at its edges. The cosine of depth 1 is the Hann window.
    depth : float, default=0.5
        From 0, which means plain bins, to 1. A deeper window makes the kernel smoother, but the
        weights of grids vary more: see :attr:`fourth_moment` and :meth:`for_inputs`.
    shape : float, default=30.0
        Shape of the Gamma distribution of widths, from 2 to 1,000. Their mean is 2 for all shapes.

    Examples
    --------
    >>> Windowed().gram([[0.0]], [[0.5], [1.5]]).round(4)
    array([[0.7842, 0.1715]])
    >>> Windowed(depth=0.0, shape=2.0).gram([[0.0]], [[1.0]], bandwidth=2.0).round(4)
    array([[0.6065]])
    """

    name: ClassVar[str] = "windowed"
    no_binning_because: ClassVar[str] = (
        "its bins are weighted by a window, as in SmoothBinning, and plain bins are not"
    )
    no_fourier_because: ClassVar[str] = "it is a kernel of SmoothBinning only"
    window: WindowName = "parabola"
    depth: float = 0.5
    shape: float = 30.0

    def __post_init__(self) -> None:
        if self.window not in _WINDOWS:
            names = ", ".join(map(repr, _WINDOWS))
            raise KernelError(f"Windowed needs window to be one of {names}, got {self.window!r}.")
        is_flat = isinstance(self.depth, numbers.Real) and self.depth == 0
        depth = 0.0 if is_flat else check_positive_number(self.depth, "Windowed", "depth")
        if depth > 1.0:
            raise KernelError(f"Windowed needs depth in [0, 1], got {depth}: windows end at 0.")
        vars(self).update(depth=depth, shape=_check_shape(self.shape, "Windowed"))

    @classmethod
    def for_inputs(cls, n_inputs: int) -> Self:
        """Return the kernel with the deepest suitable window for a number of inputs.

        If windows were deeper, a few grids would dominate with many inputs. The depth is at most
        0.8, and such that the mean fourth power of the values is at most 8. The shape of the widths
        is 30 for up to 10 inputs, else 8. Do not count ignored and categorical inputs.

        Examples
        --------
        >>> [round(Windowed.for_inputs(d).depth, 2) for d in (1, 8, 21, 100)]
        [0.8, 0.8, 0.49, 0.23]
        >>> Windowed.for_inputs(10).shape, Windowed.for_inputs(11).shape
        (30.0, 8.0)
        """
        if n_inputs < 0:
            raise InputError(f"Windowed.for_inputs needs a number of inputs, got {n_inputs!r}.")
        shape = _SHAPE_OF_FEW if n_inputs <= _FEW_INPUTS else _SHAPE_OF_MANY

        def excess(depth: float) -> float:
            log_moment = n_inputs * math.log(cls(depth=depth).fourth_moment)
            return log_moment - math.log(_MAX_FOURTH_MOMENT)

        if excess(_MAX_DEPTH) <= 0.0:
            return cls(depth=_MAX_DEPTH, shape=shape)
        return cls(depth=float(optimize.brentq(excess, 0.0, _MAX_DEPTH)), shape=shape)

    @property
    def grids(self) -> GammaHats:
        """The kernel of plain bins of the same widths."""
        return GammaHats(self.shape)

    @property
    def coefficients(self) -> FloatArray:
        """Coefficients of ``f(u) / sqrt(integral of f^2)`` in powers of ``u**2``, lowest first."""
        coefficients, overlap = _WINDOWS[self.window]
        return coefficients(self.depth) / math.sqrt(overlap(0.0, self.depth))

    @property
    def fourth_moment(self) -> float:
        """Mean fourth power of window values over one input; 1 for plain bins."""
        nodes, weights = np.polynomial.legendre.leggauss(2 * _COSINE_TERMS)
        values = np.polynomial.polynomial.polyval((nodes / 2.0) ** 2, self.coefficients)
        return float(weights @ values**4) / 2.0

    def profile(self, distance: FloatArray) -> FloatArray:
        spline, end = _profile_spline(self.window, self.depth, self.shape)
        root = np.sqrt(np.sqrt(np.minimum(np.asarray(distance) / end, 1.0)))
        values: FloatArray = spline(root)
        # Rounding, which depends on the processor, can make the last values negative.
        return np.maximum(values, 0.0)


def _parabola_coefficients(depth: float) -> FloatArray:
    return np.array([1.0, -4.0 * depth])


def _overlap_of_parabolas(s: FloatArray | float, depth: float) -> FloatArray | float:
    # With the midpoint m of both points, f f is 1 - c (2 m^2 + s^2/2) + c^2 (m^2 - s^2/4)^2.
    c, h = 4.0 * depth, (1.0 - s) / 2.0
    linear = 4.0 / 3.0 * h**3 + s**2 * h
    square = 2.0 / 5.0 * h**5 - s**2 * h**3 / 3.0 + s**4 * h / 8.0
    return 2.0 * h - c * linear + c * c * square


def _cosine_coefficients(depth: float) -> FloatArray:
    powers = ((-1.0) ** k * (2.0 * math.pi) ** (2 * k) for k in range(_COSINE_TERMS))
    terms = [power / math.factorial(2 * k) for k, power in enumerate(powers)]
    coefficients: FloatArray = 0.5 * depth * np.array(terms)
    coefficients[0] += 1.0 - 0.5 * depth
    return coefficients


def _overlap_of_cosines(s: FloatArray | float, depth: float) -> FloatArray | float:
    # f = b + a cos(2 pi u). As functions of the midpoint of both points, all terms are cosines.
    a, b = 0.5 * depth, 1.0 - 0.5 * depth
    angle = 2.0 * math.pi * s
    constant = (1.0 - s) * (b * b + 0.5 * a * a * np.cos(angle))
    return constant + (a * b - 0.25 * a * a) * np.sin(angle) / math.pi


_Overlap = Callable[[FloatArray | float, float], FloatArray | float]
# Functions of the depth: the coefficients of a window in powers of u**2, and its overlap
# "integral of f(u) f(u + s)".
_WINDOWS: dict[str, tuple[Callable[[float], FloatArray], _Overlap]] = {
    "parabola": (_parabola_coefficients, _overlap_of_parabolas),
    "cosine": (_cosine_coefficients, _overlap_of_cosines),
}


@lru_cache(maxsize=64)
def _profile_spline(
    window: WindowName, depth: float, shape: float
) -> tuple[CubicHermiteSpline, float]:
    """Return a profile as a spline of the fourth root of ``distance / end``, and ``end``.

    The profile is 0 from ``end`` on.
    """
    scale = _MEAN_WIDTH / shape
    ends = scale * np.array(
        [special.gammaincinv(shape, _NEGLIGIBLE), special.gammainccinv(shape, _NEGLIGIBLE)]
    )
    # As a function of the root, the profile is smooth at 0 too.
    roots = np.linspace(0.0, 1.0, _KNOTS + 1)
    distances = ends[1] * roots**4
    values = _mean_overlap(distances, window, depth, shape, ends)
    values[0], values[-1] = 1.0, 0.0
    np.minimum.accumulate(values, out=values)
    secants = np.diff(values) * _KNOTS
    # Cubics are monotone if slopes are at most three times the secants (Fritsch & Carlson 1980).
    flattest = np.maximum(np.append(secants[0], secants), np.append(secants, secants[-1]))
    slopes = np.clip(CubicSpline(roots, values)(roots, 1), 3.0 * flattest, 0.0)
    return CubicHermiteSpline(roots, values, slopes), float(ends[1])


def _mean_overlap(
    distances: FloatArray, window: WindowName, depth: float, shape: float, ends: FloatArray
) -> FloatArray:
    """Return the mean overlap of windows over the widths between ``ends``."""
    _, overlap = _WINDOWS[window]
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    starts = np.arange(_PANELS)[:, None]
    nodes = ((starts + (nodes + 1.0) / 2.0) / _PANELS).ravel()
    weights = np.tile(weights / (2.0 * _PANELS), _PANELS)
    # The integral over the widths uses their logarithm as the variable, and starts at the distance,
    # because windows of smaller widths do not overlap.
    lower = np.log(np.maximum(distances, ends[0]))[:, None]
    length = math.log(ends[1]) - lower
    widths = np.exp(lower + length * nodes)
    gamma = widths * (shape / _MEAN_WIDTH)
    density = np.exp(shape * np.log(gamma) - gamma - special.gammaln(shape))
    overlaps = overlap(distances[:, None] / widths, depth) / overlap(0.0, depth)
    means: FloatArray = ((density * overlaps) @ weights) * length[:, 0]
    return means


def _check_shape(value: object, owner: str) -> float:
    shape = check_positive_number(value, owner, "shape")
    if not _MIN_SHAPE <= shape <= _MAX_SHAPE:
        raise KernelError(f"{owner} needs shape in [2, 1000], got {shape}.")
    return shape
