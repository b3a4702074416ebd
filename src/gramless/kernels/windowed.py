"""Kernels of weighted bins: exact values, and the grids and windows that represent them."""

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
from gramless.base.numeric import in_range
from gramless.kernels.base import FloatArray, Kernel, positive_number
from gramless.kernels.gridded import BinningKernel

WindowName = Literal["parabola", "cosine"]

_MEAN_WIDTH = 2.0
"""At bandwidth 1, as that of the Laplacian."""
_LEAST_SHAPE, _MOST_SHAPE = 2.0, 1000.0

_FEW_INPUTS, _SHAPE_FOR_FEW, _SHAPE_FOR_MANY = 10, 30.0, 8.0
_MOST_DEPTH = 0.8
_SPREAD = 8.0
"""Mean fourth power of a value, of all inputs together, that still leaves most grids a say."""

_NEGLIGIBLE = 1e-17
_KNOTS = 4096
_PANELS, _NODES = 8, 32
_COSINE_TERMS = 14


@dataclass(frozen=True)
class GammaHats(BinningKernel):
    """Hats whose widths follow a Gamma distribution of mean 2: bins of widths that vary little.

    Widths are ``w = 2 G / shape``, G Gamma of that shape, and the profile is their mean hat:
    with ``x = t shape / 2`` and Q the regularised upper incomplete Gamma function,
    ``E max(0, 1 - t/w) = Q(shape, x) - x Q(shape - 1, x) / (shape - 1)``. Shape 2 is the
    Laplacian. Source: Rahimi & Recht 2007, section 4, for this distribution.

    Parameters
    ----------
    shape : float, default=30.0
        From 2 to 1,000; widths have the standard deviation ``2 / sqrt(shape)``.

    Examples
    --------
    >>> GammaHats(shape=2.0).gram([[0.0]], [[1.0]], bandwidth=2.0).round(4)
    array([[0.6065]])
    """

    name: ClassVar[str] = "gamma_hats"
    shape: float = 30.0

    def __post_init__(self) -> None:
        vars(self).update(shape=_checked_shape(self.shape, "GammaHats"))

    def profile(self, distance: FloatArray) -> FloatArray:
        shape = self.shape
        x = in_range(np.asarray(distance) * (shape / _MEAN_WIDTH))
        tail = special.gammaincc(shape - 1.0, x)
        mean: FloatArray = special.gammaincc(shape, x) - x * tail / (shape - 1.0)
        return np.maximum(mean, 0.0)

    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        return generator.gamma(self.shape, _MEAN_WIDTH / self.shape, size)


@dataclass(frozen=True)
class Windowed(Kernel):
    """The kernel of bins weighted by a window, smoother than any kernel of plain bins.

    A row has the value ``f(u) / sqrt(integral of f^2)`` in its cell, u in [-1/2, 1/2) its place
    there. Two points at distance t in a grid of width w then have the product
    ``rho(t/w) = integral of f(u) f(u + t/w) / integral of f^2`` on the mean over the shifts, 0
    beyond the width. Widths are those of :class:`GammaHats`, and the profile is the mean of rho
    over them (Kapralov, Nouri, Razenshteyn, Velingker & Zandieh 2020, *Scaling up kernel ridge
    regression via locality sensitive hashing*). Its slope at 0 is that of plain bins of these
    widths, times ``f(1/2)^2 / integral of f^2``.

    Parameters
    ----------
    window : {"parabola", "cosine"}, default="parabola"
        ``1 - depth (2u)^2`` or ``1 - depth (1 - cos(2 pi u)) / 2``: 1 in the middle, and
        ``1 - depth`` at the edges. The cosine of depth 1 is Hann's window.
    depth : float, default=0.5
        From 0, plain bins, to 1. The deeper the smoother, but the more the weights of grids
        differ: see :attr:`fourth_moment` and :meth:`for_inputs`.
    shape : float, default=30.0
        Of the Gamma distribution of the widths, from 2 to 1,000; their mean is 2, whatever the
        shape.

    Examples
    --------
    >>> Windowed().gram([[0.0]], [[0.5], [1.5]]).round(4)
    array([[0.7842, 0.1715]])
    >>> Windowed(depth=0.0, shape=2.0).gram([[0.0]], [[1.0]], bandwidth=2.0).round(4)
    array([[0.6065]])
    """

    name: ClassVar[str] = "windowed"
    no_binning_because: ClassVar[str] = (
        "its bins have weights inside, which SmoothBinning gives them and plain bins lack"
    )
    no_fourier_because: ClassVar[str] = "it is meant for bins, those of SmoothBinning"
    window: WindowName = "parabola"
    depth: float = 0.5
    shape: float = 30.0

    def __post_init__(self) -> None:
        if self.window not in _WINDOWS:
            names = ", ".join(map(repr, _WINDOWS))
            raise KernelError(f"Windowed needs window to be one of {names}, got {self.window!r}.")
        flat = isinstance(self.depth, numbers.Real) and self.depth == 0
        depth = 0.0 if flat else positive_number(self.depth, "Windowed", "depth")
        if depth > 1.0:
            raise KernelError(f"Windowed needs depth in [0, 1], got {depth}: windows end at 0.")
        vars(self).update(depth=depth, shape=_checked_shape(self.shape, "Windowed"))

    @classmethod
    def for_inputs(cls, n_inputs: int) -> Self:
        """Return the kernel with the deepest window that suits a number of inputs.

        With many inputs a few grids would outweigh all others. The depth is such that the mean
        fourth power of a value is 8, and at most 0.8. The shape of the widths is 30 for up to 10
        inputs and 8 beyond. Ignored inputs and categories do not count.

        Examples
        --------
        >>> [round(Windowed.for_inputs(d).depth, 2) for d in (1, 8, 21, 100)]
        [0.8, 0.8, 0.49, 0.23]
        >>> Windowed.for_inputs(10).shape, Windowed.for_inputs(11).shape
        (30.0, 8.0)
        """
        if n_inputs < 0:
            raise InputError(f"Windowed.for_inputs needs a number of inputs, got {n_inputs!r}.")
        shape = _SHAPE_FOR_FEW if n_inputs <= _FEW_INPUTS else _SHAPE_FOR_MANY

        def beyond(depth: float) -> float:
            return n_inputs * math.log(cls(depth=depth).fourth_moment) - math.log(_SPREAD)

        if beyond(_MOST_DEPTH) <= 0.0:
            return cls(depth=_MOST_DEPTH, shape=shape)
        return cls(depth=float(optimize.brentq(beyond, 0.0, _MOST_DEPTH)), shape=shape)

    @property
    def grids(self) -> GammaHats:
        """The kernel of the grids that carry the windows: the same widths, no weights."""
        return GammaHats(self.shape)

    @property
    def coefficients(self) -> FloatArray:
        """Those of ``f(u) / sqrt(integral of f^2)`` in powers of ``u**2``, lowest first."""
        coefficients, overlap = _WINDOWS[self.window]
        return coefficients(self.depth) / math.sqrt(overlap(0.0, self.depth))

    @property
    def fourth_moment(self) -> float:
        """Mean fourth power of a value in one input, 1 for plain bins; of d inputs, its power d."""
        nodes, weights = np.polynomial.legendre.leggauss(2 * _COSINE_TERMS)
        values = np.polynomial.polynomial.polyval((nodes / 2.0) ** 2, self.coefficients)
        return float(weights @ values**4) / 2.0

    def profile(self, distance: FloatArray) -> FloatArray:
        spline, end = _table(self.window, self.depth, self.shape)
        root = np.sqrt(np.sqrt(np.minimum(np.asarray(distance) / end, 1.0)))
        values: FloatArray = spline(root)
        # The last cubic ends at 0 but for rounding, which differs from processor to processor.
        return np.maximum(values, 0.0)


def _parabola(depth: float) -> FloatArray:
    return np.array([1.0, -4.0 * depth])


def _overlap_of_parabolas(s: FloatArray | float, depth: float) -> FloatArray | float:
    # About the middle m of both points f f is 1 - c (2 m^2 + s^2/2) + c^2 (m^2 - s^2/4)^2.
    c, h = 4.0 * depth, (1.0 - s) / 2.0
    linear = 4.0 / 3.0 * h**3 + s**2 * h
    square = 2.0 / 5.0 * h**5 - s**2 * h**3 / 3.0 + s**4 * h / 8.0
    return 2.0 * h - c * linear + c * c * square


def _cosine(depth: float) -> FloatArray:
    powers = ((-1.0) ** k * (2.0 * math.pi) ** (2 * k) for k in range(_COSINE_TERMS))
    terms = [power / math.factorial(2 * k) for k, power in enumerate(powers)]
    coefficients: FloatArray = 0.5 * depth * np.array(terms)
    coefficients[0] += 1.0 - 0.5 * depth
    return coefficients


def _overlap_of_cosines(s: FloatArray | float, depth: float) -> FloatArray | float:
    # f = b + a cos(2 pi u); about the middle all terms are cosines.
    a, b = 0.5 * depth, 1.0 - 0.5 * depth
    turn = 2.0 * math.pi * s
    whole = (1.0 - s) * (b * b + 0.5 * a * a * np.cos(turn))
    return whole + (a * b - 0.25 * a * a) * np.sin(turn) / math.pi


_Overlap = Callable[[FloatArray | float, float], FloatArray | float]
_WINDOWS: dict[str, tuple[Callable[[float], FloatArray], _Overlap]] = {
    "parabola": (_parabola, _overlap_of_parabolas),
    "cosine": (_cosine, _overlap_of_cosines),
}
"""Windows of any depth: as polynomials in ``u**2``, and ``integral of f(u) f(u + s)``."""


@lru_cache(maxsize=64)
def _table(window: WindowName, depth: float, shape: float) -> tuple[CubicHermiteSpline, float]:
    """Tabulate a profile over the fourth root of ``distance / end``, where it is smooth."""
    scale = _MEAN_WIDTH / shape
    ends = scale * np.array(
        [special.gammaincinv(shape, _NEGLIGIBLE), special.gammainccinv(shape, _NEGLIGIBLE)]
    )
    roots = np.linspace(0.0, 1.0, _KNOTS + 1)
    distances = ends[1] * roots**4
    values = _mean_overlap(distances, window, depth, shape, ends)
    values[0], values[-1] = 1.0, 0.0
    np.minimum.accumulate(values, out=values)
    secants = np.diff(values) * _KNOTS
    # Slopes up to three times a secant keep cubics from turning (Fritsch & Carlson 1980).
    flatter = np.maximum(np.append(secants[0], secants), np.append(secants, secants[-1]))
    slopes = np.clip(CubicSpline(roots, values)(roots, 1), 3.0 * flatter, 0.0)
    return CubicHermiteSpline(roots, values, slopes), float(ends[1])


def _mean_overlap(
    distances: FloatArray, window: WindowName, depth: float, shape: float, ends: FloatArray
) -> FloatArray:
    """Integrate the overlap over the logarithms of all widths between ``ends``."""
    _, overlap = _WINDOWS[window]
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    starts = np.arange(_PANELS)[:, None]
    nodes = ((starts + (nodes + 1.0) / 2.0) / _PANELS).ravel()
    weights = np.tile(weights / (2.0 * _PANELS), _PANELS)
    lower = np.log(np.maximum(distances, ends[0]))[:, None]
    length = math.log(ends[1]) - lower
    widths = np.exp(lower + length * nodes)
    gamma = widths * (shape / _MEAN_WIDTH)
    density = np.exp(shape * np.log(gamma) - gamma - special.gammaln(shape))
    overlaps = overlap(distances[:, None] / widths, depth) / overlap(0.0, depth)
    means: FloatArray = ((density * overlaps) @ weights) * length[:, 0]
    return means


def _checked_shape(value: object, owner: str) -> float:
    shape = positive_number(value, owner, "shape")
    if not _LEAST_SHAPE <= shape <= _MOST_SHAPE:
        raise KernelError(f"{owner} needs shape in [2, 1000], got {shape}.")
    return shape
