"""Kernels that random grids represent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gramless.kernels.base import FloatArray, Kernel, bandwidth_vector

# A grid of width w decides nothing about points further apart than w, so raising widths to the
# smallest one changes no kernel value at distances above it, yet keeps bin numbers inside 64-bit
# integers. Lowering widths to the largest one moves a value at distance t by less than t * 2**-60,
# and keeps widths finite in single precision.
SMALLEST_WIDTH = 2.0**-40
LARGEST_WIDTH = 2.0**60
_LEAST_DIVISOR = 2.0**-1021
"""The inverse of what is smaller is infinite."""


@dataclass(frozen=True)
class BinningKernel(Kernel):
    """A kernel whose profile is a mixture of hats, so that random grids represent it.

    A grid of width ``w`` and uniform shift puts two points at distance ``t`` into one bin with
    probability ``max(0, 1 - t/w)``. A profile ``k`` that is convex, decreasing, 1 at 0 and 0 at
    infinity is the mean of these hats when the width has density ``w k''(w)`` (Rahimi & Recht 2007,
    section 4 and Lemma 1), that is, distribution function ``F(w) = 1 - k(w) + w k'(w)``.

    A subclass defines ``profile`` and ``_draw_widths``.
    """

    @abstractmethod
    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        """Draw widths at bandwidth 1; overflow to infinity and underflow to 0 are allowed."""

    def sample_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        """Draw grid widths at bandwidth 1 in ``[2**-40, 2**60]``; the last axis is one grid's."""
        return np.clip(self._draw_widths(generator, size), SMALLEST_WIDTH, LARGEST_WIDTH)

    def sample_grid(
        self, generator: np.random.Generator, bandwidth: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """Draw the widths and shifts (n_inputs,) of one grid, in units of the inputs.

        Bins are ``floor((x_j - shift_j) / width_j)``, with shifts in ``[0, width)``. An input whose
        bandwidth is infinite is ignored: its width is infinite and its shift 0. All widths are
        drawn first, then all shifts: the same stream at another bandwidth gives the same grid,
        stretched.
        """
        widths, shifts = self.sample_grids([generator], 1, bandwidth)
        return widths[0], shifts[0]

    def sample_grids(
        self, generators: Iterable[np.random.Generator], n_grids: int, bandwidth: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """Draw grids (n_grids, n_inputs), each as by :meth:`sample_grid` from its own generator."""
        scale = bandwidth_vector(bandwidth, np.size(bandwidth))
        widths, shares = np.empty((2, n_grids, len(scale)))
        for own, share, generator in zip(widths, shares, generators, strict=True):
            own[:] = self._draw_widths(generator, scale.shape)
            share[:] = generator.random(scale.shape)
        np.clip(widths, SMALLEST_WIDTH, LARGEST_WIDTH, out=widths)
        with np.errstate(over="ignore"):
            widths *= scale
        np.maximum(widths, _LEAST_DIVISOR, out=widths)
        shifts = np.multiply(shares, widths, out=np.zeros_like(shares), where=np.isfinite(widths))
        return widths, shifts
