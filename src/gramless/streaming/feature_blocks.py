"""Blocks of random Fourier features, drawn again when needed, and products with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import readonly
from gramless.base.random import words
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import AnyArray, FloatArray
from gramless.features.fourier import Panels, half_turns
from gramless.kernels import SpectralKernel
from gramless.loops import trig
from gramless.loops.fourier_products import add_responses
from gramless.loops.normals import normals_of
from gramless.preprocessing.rows import Rows, check_width

LANES = trig.PANEL_BYTES // 4
"""Frequencies per panel, in float32."""

Float32Array: TypeAlias = NDArray[np.float32]
PreparedRows: TypeAlias = Any
"""Rows as the ``prepare`` of some products has returned them; each class has a form of its own."""
UnitRows: TypeAlias = AnyArray | tuple[AnyArray, AnyArray, AnyArray]
"""A few rows in units of the bandwidth: dense, or the three arrays of CSR."""
Tile: TypeAlias = tuple[int, int, UnitRows]
"""First row, last row + 1, and the rows between."""
Room = TypeVar("Room")
"""An array or tensor that holds the frequencies of a group of blocks."""


@dataclass(frozen=True)
class FrequencyBlocks:
    """An endless sequence of blocks of a kernel's frequencies, a function of the seed alone."""

    kernel: SpectralKernel
    seed: int
    size: int  # frequencies per block: F in DSG16
    n_inputs: int
    # Limits on the groups in which blocks are stored and multiplied, of at least one block.
    group_frequencies: int = 2048
    group_numbers: int = 1 << 22

    def draw(self, block: int) -> FloatArray:
        """Return the frequencies (size, n_inputs) of a block, at bandwidth 1.

        Some 6 ns per number and what the kernel takes. The normals have the same bits on every
        machine; distributions other than the Gaussian are as reproducible as SciPy's functions are.
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
        """Number of blocks per group."""
        fit = min(self.group_frequencies, self.group_numbers // self.n_inputs) // self.size
        return max(1, fit)

    @property
    def group_columns(self) -> int:
        """Number of features per group: a cosine and a sine for each frequency."""
        return 2 * self.size * self.group_blocks


class GroupCache(ABC, Generic[Room]):
    """Frequencies of groups of blocks, cached within a budget of bytes; others are drawn anew."""

    def __init__(
        self, blocks: FrequencyBlocks, budget: int, group_numbers: int, n_jobs: int | None
    ) -> None:
        self.blocks, self.n_jobs = blocks, n_jobs
        self._n_kept = max(0, budget) // (4 * group_numbers)
        self._kept: dict[int, Room] = {}
        self._n_drawn: dict[int, int] = {}

    @abstractmethod
    def _room(self) -> Room:
        """Return room for the frequencies of a group."""

    @abstractmethod
    def _write(self, room: Room, k: int, frequencies: FloatArray) -> None:
        """Write the k-th block of a group."""

    def groups(self, groups: range, n_blocks: int) -> list[Room]:
        """Return the frequencies of some groups if there are ``n_blocks`` blocks in all."""
        most = self.blocks.group_blocks
        found, missing = [], []
        drawn: dict[int, int] = {}
        for group in groups:
            room = self._kept[group] if group in self._kept else self._room()
            n_drawn, n_wanted = self._n_drawn.get(group, 0), min(most, n_blocks - group * most)
            missing += [(room, group * most, k) for k in range(n_drawn, n_wanted)]
            if group < self._n_kept:
                self._kept[group], drawn[group] = room, max(n_drawn, n_wanted)
            found.append(room)
        map_blocks(
            lambda room, first, k: self._write(room, k, self.blocks.draw(first + k)),
            *(missing, self.n_jobs),
        )
        # Only now, because an interruption leaves blocks unwritten.
        self._n_drawn |= drawn
        return found


class PanelCache(GroupCache[Float32Array]):
    """Cached frequencies in the layout of the loops."""

    def __init__(self, blocks: FrequencyBlocks, budget: int, n_jobs: int | None = None) -> None:
        n_panels = -(-blocks.size * blocks.group_blocks // LANES)
        self._shape = (n_panels, blocks.n_inputs, LANES)
        super().__init__(blocks, budget, prod(self._shape), n_jobs)

    def _room(self) -> Float32Array:
        return np.zeros(self._shape, np.float32)

    def _write(self, room: Float32Array, k: int, frequencies: FloatArray) -> None:
        size = self.blocks.size
        panel, lane = np.divmod(np.arange(k * size, (k + 1) * size), LANES)
        room[panel, :, lane] = half_turns(frequencies, room.dtype)


class BlockProducts(Protocol):
    """The products that training needs; those of the processor and of torch agree to rounding."""

    blocks: FrequencyBlocks

    def prepare(self, X: Rows) -> PreparedRows:
        """Return validated rows (n, n_inputs) in units of the bandwidth, for the other products."""

    def responses(
        self, rows: PreparedRows, weights: Sequence[Float32Array], n_blocks: int
    ) -> FloatArray:
        """Return the features of the first blocks times weights, (n, n_outputs).

        The weights come in groups of blocks, (group_columns, n_outputs) each.
        """

    def gradient(self, rows: PreparedRows, block: int, slopes: FloatArray) -> FloatArray:
        """Return the transposed features of a block times slopes, (2 size, n_outputs)."""

    def moments(self, rows: PreparedRows, block: int) -> FloatArray:
        """Return the transposed features of a block times themselves, (2 size, 2 size)."""


@dataclass(frozen=True)
class TileSizes:
    """Sizes of what :class:`CpuProducts` computes at once."""

    rows: int = 96  # of a tile of features, which stays in the cache of a core
    frequencies: int = 512
    moment_tiles: int = 8  # per task, when moments are computed
    moment_tasks: int = 8  # whose results are held at once
    span_groups: int = 16  # groups of blocks drawn in advance, at most
    span_numbers: int = 1 << 25  # numbers in these groups, at most


class CpuProducts:
    """Features computed in float32 tiles that stay in the cache, and used at once.

    The features of block k are the cosine and the sine of the products of a row with its
    frequencies, side by side, times ``1/sqrt(size)``: their inner product estimates the kernel,
    and is 1 for equal rows (DSG16's z with its two constants reconciled).

    ``center`` is subtracted from rows (zeros if they are sparse), ``inverse`` is 1 / bandwidth, and
    ``budget`` limits the bytes of cached frequencies. A row and a frequency cost some
    ``0.4 + 0.018 n_inputs + 0.06 n_outputs`` ns on one core.
    """

    def __init__(
        self,
        blocks: FrequencyBlocks,
        center: FloatArray,
        inverse: FloatArray,
        budget: int,
        n_jobs: int | None = None,
        sizes: TileSizes | None = None,
    ) -> None:
        self.blocks, self.n_jobs, self.sizes = blocks, n_jobs, sizes or TileSizes()
        self.center, self.inverse = center, inverse
        self._cache = PanelCache(blocks, budget, n_jobs)
        self._no_panels = Panels(np.empty((0, blocks.n_inputs, LANES), np.float32))
        self._scale = np.float32(1.0 / np.sqrt(blocks.size))

    def prepare(self, X: Rows) -> list[Tile]:
        """Return tiles of rows in units of the bandwidth."""
        check_width(type(self).__name__, X, self.blocks.n_inputs)

        def tile(a: int, b: int) -> Tile:
            empty = self._no_panels
            room = empty.room(b - a, sparse=not isinstance(X, np.ndarray))
            return a, b, empty.prepare(X[a:b], self.center, self.inverse, room)

        return map_blocks(tile, row_blocks(X.shape[0], self.sizes.rows), self.n_jobs)

    def responses(
        self, rows: list[Tile], weights: Sequence[Float32Array], n_blocks: int
    ) -> FloatArray:
        n_groups = -(-n_blocks // self.blocks.group_blocks)
        n_columns = 2 * self.blocks.size * n_blocks
        group_numbers = self.blocks.group_columns // 2 * self.blocks.n_inputs
        fitting = min(self.sizes.span_groups, self.sizes.span_numbers // group_numbers)
        out = np.zeros((rows[-1][1], weights[0].shape[1]))
        with one_blas_thread():
            for first, last in row_blocks(n_groups, max(1, fitting)):
                span = map(Panels, self._cache.groups(range(first, last), n_blocks))
                used = (w[: n_columns - g * len(w)] for g, w in enumerate(weights[:last]))
                parts = list(zip(span, list(used)[first:], strict=True))
                tasks = [(tile, parts, out[a:b]) for a, b, tile in rows]
                map_blocks(self._add_responses, tasks, self.n_jobs)
        return out

    def gradient(self, rows: list[Tile], block: int, slopes: FloatArray) -> FloatArray:
        size = self.blocks.size
        panels = Panels.of(self.blocks.draw(block), np.float32)
        single = slopes.astype(np.float32)
        tasks = [(tile, panels, single[a:b]) for a, b, tile in rows]
        with one_blas_thread():
            parts = map_blocks(self._tile_gradient, tasks, self.n_jobs)
        total = np.zeros((2 * size, slopes.shape[1]))
        for part in parts:
            total += part
        return total

    def moments(self, rows: list[Tile], block: int) -> FloatArray:
        panels = Panels.of(self.blocks.draw(block), np.float32)
        tasks = [(rows[a:b], panels) for a, b in row_blocks(len(rows), self.sizes.moment_tiles)]
        n_columns = 2 * self.blocks.size
        total = np.zeros((n_columns, n_columns))
        with one_blas_thread():
            for first, last in row_blocks(len(tasks), self.sizes.moment_tasks):
                for part in map_blocks(self._tile_moments, tasks[first:last], self.n_jobs):
                    total += part
        return total

    def _tile_moments(self, tiles: list[Tile], panels: Panels) -> Float32Array:
        size, start = self.blocks.size, tiles[0][0]
        whole = np.empty((tiles[-1][1] - start, 2 * size), np.float32)
        work = _Workspace(self.sizes.rows, self.sizes.frequencies)
        for a, b, tile in tiles:
            work.n_rows = b - a
            for columns, features in self._features(tile, panels, size, work):
                whole[a - start : b - start, columns] = features
        found: Float32Array = whole.T @ whole
        return found

    def _add_responses(
        self, tile: UnitRows, parts: list[tuple[Panels, Float32Array]], out: FloatArray
    ) -> None:
        """Add to ``out`` (n, n_outputs) the responses of groups of blocks at a tile of rows."""
        work = _Workspace(len(out), self.sizes.frequencies)
        for panels, weights in parts:
            size = len(weights) // 2
            if not isinstance(tile, tuple):
                arrays = (work.starts, work.sums, work.features)
                given = readonly(weights)
                add_responses(tile, panels.panels, size, self._scale, given, arrays, out)
                continue
            for columns, features in self._features(tile, panels, size, work):
                out += features @ weights[columns]

    def _tile_gradient(self, tile: UnitRows, panels: Panels, slopes: Float32Array) -> Float32Array:
        """Return the transposed features of a block times the slopes of a tile of rows."""
        n_rows, size = len(slopes), self.blocks.size
        work = _Workspace(n_rows, self.sizes.frequencies)
        found = np.empty((2 * size, slopes.shape[1]), np.float32)
        for columns, features in self._features(tile, panels, size, work):
            np.dot(features.T, slopes, out=found[columns])
        return found

    def _features(
        self, tile: UnitRows, panels: Panels, size: int, work: _Workspace
    ) -> Iterator[tuple[slice, Float32Array]]:
        """Yield the features of a tile of rows, some columns after the others."""
        for first, last in row_blocks(size, self.sizes.frequencies):
            chunk = Panels(panels.panels[first // LANES : -(-last // LANES)])
            chunk.project(tile, 0, work.starts, work.sums)
            shape = work.n_rows, 2 * (last - first)
            features = work.features[: prod(shape)].reshape(shape)
            trig.paired(work.sums, work.n_rows, self._scale, features, 0, 0)
            yield slice(2 * first, 2 * last), features


class _Workspace:
    """Arrays in which the features of a tile of rows are computed."""

    def __init__(self, n_rows: int, n_frequencies: int) -> None:
        # A width that is a power of two would map the sums of all rows to one place of the cache.
        width = n_frequencies + LANES
        self.n_rows = n_rows
        self.starts = np.zeros(width, np.float32)
        self.sums = np.empty((n_rows + trig.GROUP_ROWS, width), np.float32)
        self.features = np.empty(n_rows * 2 * n_frequencies, np.float32)
