"""Kernels that random grids can represent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gramless.kernels.base import FloatArray, Kernel, bandwidth_vector

# Points further apart than the width of a grid are in different bins. So the lower bound does not
# change kernel values at larger distances, and keeps bin numbers within 64 bits. The upper bound
# changes a value at distance t by less than t * 2**-60, and keeps widths finite in single
# precision.
MIN_WIDTH = 2.0**-40
MAX_WIDTH = 2.0**60
_MIN_DIVISOR = 2.0**-1021  # the inverse of much smaller numbers is infinite


@dataclass(frozen=True)
class BinningKernel(Kernel):
    """A kernel whose profile is a mixture of hats, so that random grids can represent it.

    Two points at distance t are in the same bin of a grid of width w and uniform shift with
    probability ``max(0, 1 - t/w)``, which is a hat. A profile k that is convex, decreasing, 1 at 0
    and 0 at infinity is the mean of hats whose width has the density ``w k''(w)`` (Rahimi & Recht
    2007, section 4 and Lemma 1), or the distribution function ``F(w) = 1 - k(w) + w k'(w)``.

    A subclass implements ``profile`` and ``_draw_widths``.
    """

    @abstractmethod
    def _draw_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        """Draw widths at bandwidth 1; they may be 0 or infinite."""

    def sample_widths(self, generator: np.random.Generator, size: tuple[int, ...]) -> FloatArray:
        """Draw widths at bandwidth 1, in ``[2**-40, 2**60]``; the last axis is over inputs."""
        return np.clip(self._draw_widths(generator, size), MIN_WIDTH, MAX_WIDTH)

    def sample_grid(
        self, generator: np.random.Generator, bandwidth: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """Draw the widths and shifts (n_inputs,) of one grid, in units of the inputs.

        Bins are ``floor((x_j - shift_j) / width_j)``, with shifts in ``[0, width)``. Ignored inputs
        have an infinite bandwidth, an infinite width and a shift of 0. All widths are drawn first,
        then all shifts, so that another bandwidth stretches the same grid.
        """
        widths, shifts = self.sample_grids([generator], 1, bandwidth)
        return widths[0], shifts[0]

    def sample_grids(
        self, generators: Iterable[np.random.Generator], n_grids: int, bandwidth: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """Draw widths and shifts (n_grids, n_inputs), each grid by one of the generators."""
        scale = bandwidth_vector(bandwidth, np.size(bandwidth))
        widths, shares = np.empty((2, n_grids, len(scale)))
        for grid_widths, grid_shares, generator in zip(widths, shares, generators, strict=True):
            grid_widths[:] = self._draw_widths(generator, scale.shape)
            grid_shares[:] = generator.random(scale.shape)
        np.clip(widths, MIN_WIDTH, MAX_WIDTH, out=widths)
        with np.errstate(over="ignore"):
            widths *= scale
        np.maximum(widths, _MIN_DIVISOR, out=widths)
        shifts = np.multiply(shares, widths, out=np.zeros_like(shares), where=np.isfinite(widths))
        return widths, shifts
