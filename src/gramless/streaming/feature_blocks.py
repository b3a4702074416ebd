"""Blocks of random Fourier features, which are drawn again on demand, and their products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import readonly
from gramless.base.random import raw_words
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import AnyArray, FloatArray
from gramless.features.fourier import Panels, to_half_turns
from gramless.kernels import SpectralKernel
from gramless.loops import trig
from gramless.loops.fourier_products import add_responses
from gramless.loops.normals import normals_of
from gramless.preprocessing.rows import Rows, check_width

LANES = trig.PANEL_BYTES // 4  # frequencies per panel, in float32

Float32Array: TypeAlias = NDArray[np.float32]
# The return value of BlockProducts.prepare; its type differs between classes.
PreparedRows: TypeAlias = Any
# Rows in units of the bandwidth: dense, or the three arrays of CSR.
UnitRows: TypeAlias = AnyArray | tuple[AnyArray, AnyArray, AnyArray]
Tile: TypeAlias = tuple[int, int, UnitRows]  # first row, last row + 1, and these rows
# An array or tensor that holds the frequencies of a group of blocks.
Group = TypeVar("Group")


@dataclass(frozen=True)
class FrequencyBlocks:
    """An endless sequence of blocks of a kernel's frequencies, determined by the seed."""

    kernel: SpectralKernel
    seed: int
    size: int  # frequencies per block: F in DSG16
    n_inputs: int
    # Blocks are stored and multiplied in groups of at least one block. A group has at most this
    # many frequencies, and frequencies times inputs, unless one block has more.
    group_frequencies: int = 2048
    max_group_elements: int = 1 << 22

    def draw(self, block: int) -> FloatArray:
        """Return the frequencies (size, n_inputs) of a block, at bandwidth 1.

        This takes about 6 ns per number, plus the time of the kernel. The normals have the same
        bits on every machine. Other distributions are as reproducible as SciPy's functions.
        """
        normals = np.empty((self.size, self.n_inputs))
        drawn = raw_words(self.seed, "normals of blocks", block, normals.size)
        normals_of(drawn, normals.reshape(-1))
        uniforms = np.empty((self.size, self.kernel.n_uniforms(self.n_inputs)))
        drawn = raw_words(self.seed, "uniforms of blocks", block, uniforms.size)
        uniforms[:] = (drawn >> np.uint64(11)).reshape(uniforms.shape) * 2.0**-53
        return self.kernel.frequencies(normals, uniforms)

    @property
    def group_blocks(self) -> int:
        max_frequencies = min(self.group_frequencies, self.max_group_elements // self.n_inputs)
        return max(1, max_frequencies // self.size)

    @property
    def group_columns(self) -> int:
        """Number of features per group: a cosine and a sine for each frequency."""
        return 2 * self.size * self.group_blocks


class GroupCache(ABC, Generic[Group]):
    """The frequencies of groups of blocks, cached within a budget of bytes."""

    def __init__(
        self, blocks: FrequencyBlocks, budget: int, group_elements: int, n_jobs: int | None
    ) -> None:
        self.blocks, self.n_jobs = blocks, n_jobs
        self._n_cached = max(0, budget) // (4 * group_elements)
        self._cached: dict[int, Group] = {}
        self._n_drawn: dict[int, int] = {}

    @abstractmethod
    def _allocate(self) -> Group: ...

    @abstractmethod
    def _write(self, group: Group, k: int, frequencies: FloatArray) -> None: ...

    def groups(self, group_indices: range, n_blocks: int) -> list[Group]:
        """Return the frequencies of groups of blocks, drawing those that are not cached.

        Only the first ``n_blocks`` blocks are drawn; the other entries of a group are undefined.
        """
        size = self.blocks.group_blocks
        groups, missing = [], []
        drawn: dict[int, int] = {}
        for index in group_indices:
            group = self._cached[index] if index in self._cached else self._allocate()
            n_drawn, n_wanted = self._n_drawn.get(index, 0), min(size, n_blocks - index * size)
            missing += [(group, index * size, k) for k in range(n_drawn, n_wanted)]
            if index < self._n_cached:
                self._cached[index], drawn[index] = group, max(n_drawn, n_wanted)
            groups.append(group)

        def draw(group: Group, first: int, k: int) -> None:
            self._write(group, k, self.blocks.draw(first + k))

        map_blocks(draw, missing, self.n_jobs)
        # The counts are updated last, because an interrupted call leaves some blocks unwritten.
        self._n_drawn |= drawn
        return groups


class PanelCache(GroupCache[Float32Array]):
    """A cache of frequencies in the memory layout that the compiled loops read."""

    def __init__(self, blocks: FrequencyBlocks, budget: int, n_jobs: int | None = None) -> None:
        n_panels = -(-blocks.size * blocks.group_blocks // LANES)
        self._shape = (n_panels, blocks.n_inputs, LANES)
        super().__init__(blocks, budget, prod(self._shape), n_jobs)

    def _allocate(self) -> Float32Array:
        return np.zeros(self._shape, np.float32)

    def _write(self, group: Float32Array, k: int, frequencies: FloatArray) -> None:
        size = self.blocks.size
        panel, lane = np.divmod(np.arange(k * size, (k + 1) * size), LANES)
        group[panel, :, lane] = to_half_turns(frequencies, group.dtype)


class BlockProducts(Protocol):
    """The products that training uses. Implementations agree up to rounding."""

    blocks: FrequencyBlocks

    def prepare(self, X: Rows) -> PreparedRows:
        """Return validated rows (n, n_inputs) in units of the bandwidth, for the other products."""

    def responses(
        self, rows: PreparedRows, weights: Sequence[Float32Array], n_blocks: int
    ) -> FloatArray:
        """Return the features of the first blocks times weights, (n, n_outputs).

        The weights are given in groups of blocks, each (group_columns, n_outputs).
        """

    def gradient(self, rows: PreparedRows, block: int, slopes: FloatArray) -> FloatArray:
        """Return the transposed features of a block times slopes, (2 size, n_outputs)."""

    def moments(self, rows: PreparedRows, block: int) -> FloatArray:
        """Return the transposed features of a block times the features, (2 size, 2 size)."""


@dataclass(frozen=True)
class TileSizes:
    """Sizes of the tiles and tasks of :class:`CpuProducts`."""

    rows: int = 96  # few enough that a tile of features stays in the cache of a core
    frequencies: int = 512
    moment_tiles: int = 8  # per task of :meth:`CpuProducts.moments`
    moment_tasks: int = 8  # tasks of ``moments`` whose results are in memory at the same time
    span_groups: int = 16  # maximum number of groups drawn in advance
    span_elements: int = 1 << 25  # maximum number of frequencies times inputs in these groups


class CpuProducts:
    """Products by features in float32 tiles, which are used while they are in the cache.

    The features of a block are the cosine and the sine, in adjacent columns, of the products of a
    row and the block's frequencies, times ``1/sqrt(size)``. Their inner product estimates the
    kernel, and is 1 for equal rows. DSG16's z also has the factor ``sqrt(2)``, with which the inner
    product would estimate twice the kernel.

    ``center`` is subtracted from rows (zeros if they are sparse), ``inverse`` is 1 / bandwidth, and
    ``budget`` limits the bytes of cached frequencies. A row and a frequency cost about
    ``0.4 + 0.018 n_inputs + 0.06 n_outputs`` ns of one core.
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
            buffer = empty.buffer(b - a, sparse=not isinstance(X, np.ndarray))
            return a, b, empty.prepare(X[a:b], self.center, self.inverse, buffer)

        return map_blocks(tile, row_blocks(X.shape[0], self.sizes.rows), self.n_jobs)

    def responses(
        self, rows: list[Tile], weights: Sequence[Float32Array], n_blocks: int
    ) -> FloatArray:
        n_groups = -(-n_blocks // self.blocks.group_blocks)
        n_columns = 2 * self.blocks.size * n_blocks
        group_elements = self.blocks.group_columns // 2 * self.blocks.n_inputs
        span_groups = min(self.sizes.span_groups, self.sizes.span_elements // group_elements)
        out = np.zeros((rows[-1][1], weights[0].shape[1]))
        with one_blas_thread():
            for first, last in row_blocks(n_groups, max(1, span_groups)):
                span = map(Panels, self._cache.groups(range(first, last), n_blocks))
                # The last group may be partly used.
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
        block = np.empty((tiles[-1][1] - start, 2 * size), np.float32)
        work = _Workspace(self.sizes.rows, self.sizes.frequencies)
        for a, b, tile in tiles:
            work.n_rows = b - a
            for columns, features in self._features(tile, panels, size, work):
                block[a - start : b - start, columns] = features
        moments: Float32Array = block.T @ block
        return moments

    def _add_responses(
        self, tile: UnitRows, parts: list[tuple[Panels, Float32Array]], out: FloatArray
    ) -> None:
        """Add the responses of a tile of rows, by groups of blocks, to ``out`` (n, n_outputs)."""
        work = _Workspace(len(out), self.sizes.frequencies)
        for panels, weights in parts:
            size = len(weights) // 2
            if not isinstance(tile, tuple):
                arrays = (work.starts, work.sums, work.features)
                weights = readonly(weights)
                add_responses(tile, panels.panels, size, self._scale, weights, arrays, out)
                continue
            for columns, features in self._features(tile, panels, size, work):
                out += features @ weights[columns]

    def _tile_gradient(self, tile: UnitRows, panels: Panels, slopes: Float32Array) -> Float32Array:
        n_rows, size = len(slopes), self.blocks.size
        work = _Workspace(n_rows, self.sizes.frequencies)
        gradient = np.empty((2 * size, slopes.shape[1]), np.float32)
        for columns, features in self._features(tile, panels, size, work):
            np.dot(features.T, slopes, out=gradient[columns])
        return gradient

    def _features(
        self, tile: UnitRows, panels: Panels, size: int, work: _Workspace
    ) -> Iterator[tuple[slice, Float32Array]]:
        """Yield the features of a tile of rows with their columns, some columns at a time."""
        for first, last in row_blocks(size, self.sizes.frequencies):
            chunk = Panels(panels.panels[first // LANES : -(-last // LANES)])
            chunk.project(tile, 0, work.starts, work.sums)
            shape = work.n_rows, 2 * (last - first)
            features = work.features[: prod(shape)].reshape(shape)
            trig.write_cosines_and_sines(work.sums, work.n_rows, self._scale, features, 0, 0)
            yield slice(2 * first, 2 * last), features


class _Workspace:
    """Arrays in which the features of a tile of rows are computed."""

    def __init__(self, n_rows: int, n_frequencies: int) -> None:
        # The width is not a power of two. Otherwise the sums of different rows would be stored in
        # the same few sets of the cache and evict each other.
        width = n_frequencies + LANES
        self.n_rows = n_rows
        self.starts = np.zeros(width, np.float32)
        self.sums = np.empty((n_rows + trig.GROUP_ROWS, width), np.float32)
        self.features = np.empty(n_rows * 2 * n_frequencies, np.float32)
