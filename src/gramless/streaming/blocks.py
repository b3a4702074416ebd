"""Blocks of random frequencies, drawn again from their numbers whenever they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.random import words
from gramless.base.threads import map_blocks
from gramless.features.fourier import Panels, half_turns
from gramless.kernels import SpectralKernel
from gramless.loops import trig
from gramless.loops.normals import normals_of

_GROUP_FREQUENCIES = 2048
_GROUP_NUMBERS = 1 << 22
LANES = trig.PANEL_BYTES // 4
"""Frequencies a panel, in float32."""


@dataclass(frozen=True)
class FrequencyBlocks:
    """An endless sequence of blocks of frequencies of a kernel, a function of the seed alone.

    Parameters
    ----------
    kernel : SpectralKernel
    seed : int
    size : int
        Frequencies a block: F in DSG16.
    n_inputs : int

    Examples
    --------
    >>> from gramless.kernels import Gaussian
    >>> blocks = FrequencyBlocks(Gaussian(), seed=0, size=4, n_inputs=3)
    >>> blocks.draw(7).shape
    (4, 3)
    >>> bool((blocks.draw(7) == blocks.draw(7)).all())
    True
    """

    kernel: SpectralKernel
    seed: int
    size: int
    n_inputs: int

    def draw(self, block: int) -> NDArray[np.float64]:
        """Return the frequencies (size, n_inputs) of a block, at bandwidth 1.

        Notes
        -----
        Some 6 ns a number and what the kernel takes; any block costs the same. The normals have
        the same bits on every machine, and so have frequencies of the Gaussian; other laws are as
        equal as SciPy's functions are.
        """
        normals = np.empty((self.size, self.n_inputs))
        drawn = words(self.seed, "normals of blocks", block, normals.size)
        normals_of(drawn, normals.reshape(-1))
        uniforms = np.empty((self.size, self.kernel.n_uniforms(self.n_inputs)))
        drawn = words(self.seed, "uniforms of blocks", block, uniforms.size)
        uniforms[:] = (drawn >> np.uint64(11)).reshape(uniforms.shape) * 2.0**-53
        return self.kernel.frequencies(normals, uniforms)

    @property
    def group_blocks(self) -> int:
        """How many blocks are kept and multiplied together."""
        fit = min(_GROUP_FREQUENCIES, _GROUP_NUMBERS // self.n_inputs) // self.size
        return max(1, fit)

    @property
    def group_columns(self) -> int:
        """How many features a group of blocks has: a cosine and a sine a frequency."""
        return 2 * self.size * self.group_blocks


class PanelCache:
    """The frequencies of groups of blocks as the loops want them, kept within a budget.

    Parameters
    ----------
    blocks : FrequencyBlocks
    budget : int
        Bytes. Groups beyond it are drawn again each time.
    n_jobs : int or None, default=None
    """

    def __init__(self, blocks: FrequencyBlocks, budget: int, n_jobs: int | None = None) -> None:
        self.blocks, self.n_jobs = blocks, n_jobs
        n_panels = -(-blocks.size * blocks.group_blocks // LANES)
        self._shape = (n_panels, blocks.n_inputs, LANES)
        self._n_kept = max(0, budget) // (4 * int(np.prod(self._shape)))
        self._kept: dict[int, NDArray[np.float32]] = {}
        self._n_drawn: dict[int, int] = {}

    def panels(self, groups: range, n_blocks: int) -> list[Panels]:
        """Return the frequencies of some groups, of which there are ``n_blocks`` blocks in all."""
        most = self.blocks.group_blocks
        found, missing = [], []
        drawn: dict[int, int] = {}
        for group in groups:
            array, n_drawn = self._array(group)
            n_wanted = min(most, n_blocks - group * most)
            missing += [(array, group * most, k) for k in range(n_drawn, n_wanted)]
            if group in self._kept:
                drawn[group] = max(n_drawn, n_wanted)
            found.append(Panels(array))
        map_blocks(self._write, missing, self.n_jobs)
        # Only now: an interruption leaves blocks that are not written.
        self._n_drawn |= drawn
        return found

    def _array(self, group: int) -> tuple[NDArray[np.float32], int]:
        """Return where the panels of a group stand, and how many of its blocks are there."""
        if group in self._kept:
            return self._kept[group], self._n_drawn.get(group, 0)
        array = np.zeros(self._shape, np.float32)
        if group < self._n_kept:
            self._kept[group] = array
        return array, 0

    def _write(self, array: NDArray[Any], first: int, k: int) -> None:
        """Write block ``first + k`` as number k of its group."""
        size = self.blocks.size
        panel, lane = np.divmod(np.arange(k * size, (k + 1) * size), LANES)
        array[panel, :, lane] = half_turns(self.blocks.draw(first + k), array.dtype)
