"""Products of rows with the features of blocks, tile by tile on the processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.features.fourier import Panels
from gramless.loops import trig
from gramless.loops.respond import add_responses
from gramless.preprocessing.rows import Rows, check_width
from gramless.streaming.blocks import LANES, FrequencyBlocks, PanelCache

_TILE_ROWS = 96
_MOMENT_TILES, _MOMENT_PARTS = 8, 8
"""Tiles a task, and tasks whose results are held at once."""
_CHUNK = 512
_SUMS_WIDTH = 528
"""No power of two, which would put the sums of all rows into one place of the cache."""
_SPAN, _SPAN_NUMBERS = 16, 1 << 25
"""Groups of blocks, and their numbers, that are drawn before rows meet them, at most."""


class BlockProducts(Protocol):
    """What training asks of the features; the processor's and torch's are alike to rounding.

    Attributes
    ----------
    blocks : FrequencyBlocks
    """

    blocks: FrequencyBlocks

    def prepare(self, X: Rows) -> Any:
        """Return validated rows (n, n_inputs) in units of the bandwidth, for the other products."""

    def responses(
        self, rows: Any, weights: Sequence[NDArray[np.float32]], n_blocks: int
    ) -> NDArray[np.float64]:
        """Return the features of the first blocks times weights.

        Parameters
        ----------
        rows : what ``prepare`` returned, of n rows
        weights : list of array (group_columns, n_outputs)
            By groups of blocks: see :attr:`FrequencyBlocks.group_blocks`.
        n_blocks : int

        Returns
        -------
        array (n, n_outputs)
        """

    def gradient(self, rows: Any, block: int, slopes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the transposed features of a block times slopes (n, n_outputs).

        Returns
        -------
        array (2 size, n_outputs)
        """

    def moments(self, rows: Any, block: int) -> NDArray[np.float64]:
        """Return the transposed features of a block times themselves, (2 size, 2 size)."""


class CpuProducts:
    """Features computed in float32 tiles that stay in the cache, and used at once.

    The features of block k are the cosine and the sine of the products of a row with its
    frequencies, side by side, times ``1/sqrt(size)``: their inner product estimates the kernel,
    and is 1 for equal rows (DSG16's z with its two constants reconciled).

    Parameters
    ----------
    blocks : FrequencyBlocks
    center : array (n_inputs,)
        Subtracted from rows; zeros where rows are sparse.
    inverse : array (n_inputs,)
        1 / bandwidth.
    budget : int
        Bytes of frequencies kept.
    n_jobs : int or None, default=None
        Threads. Results do not depend on it.

    Notes
    -----
    A row and a frequency cost about ``2 n_inputs + 4 n_outputs`` operations and a sine and
    cosine: some ``0.4 + 0.018 n_inputs + 0.06 n_outputs`` ns on one core.
    """

    def __init__(
        self,
        blocks: FrequencyBlocks,
        center: NDArray[np.float64],
        inverse: NDArray[np.float64],
        budget: int,
        n_jobs: int | None = None,
    ) -> None:
        self.blocks, self.n_jobs = blocks, n_jobs
        self.center, self.inverse = center, inverse
        self._cache = PanelCache(blocks, budget, n_jobs)
        self._no_panels = Panels(np.empty((0, blocks.n_inputs, LANES), np.float32))
        self._scale = np.float32(1.0 / np.sqrt(blocks.size))

    def prepare(self, X: Rows) -> list[tuple[int, int, Any]]:
        """Return tiles of rows in units of the bandwidth: first row, last, numbers."""
        check_width(type(self).__name__, X, self.blocks.n_inputs)

        def tile(a: int, b: int) -> tuple[int, int, Any]:
            empty = self._no_panels
            room = empty.room(b - a, sparse=not isinstance(X, np.ndarray))
            return a, b, empty.prepare(X[a:b], self.center, self.inverse, room)

        return map_blocks(tile, row_blocks(X.shape[0], _TILE_ROWS), self.n_jobs)

    def responses(
        self,
        rows: list[tuple[int, int, Any]],
        weights: Sequence[NDArray[np.float32]],
        n_blocks: int,
    ) -> NDArray[np.float64]:
        """Return the features of the first blocks times weights, (n, n_outputs)."""
        n_groups = -(-n_blocks // self.blocks.group_blocks)
        n_columns = 2 * self.blocks.size * n_blocks
        group_numbers = self.blocks.group_columns // 2 * self.blocks.n_inputs
        span_groups = max(1, min(_SPAN, _SPAN_NUMBERS // group_numbers))
        out = np.zeros((rows[-1][1], weights[0].shape[1]))
        with one_blas_thread():
            for first, last in row_blocks(n_groups, span_groups):
                span = self._cache.panels(range(first, last), n_blocks)
                used = (w[: n_columns - g * len(w)] for g, w in enumerate(weights[:last]))
                parts = list(zip(span, list(used)[first:], strict=True))
                tasks = [(tile, parts, out[a:b]) for a, b, tile in rows]
                map_blocks(self._add_responses, tasks, self.n_jobs)
        return out

    def gradient(
        self, rows: list[tuple[int, int, Any]], block: int, slopes: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the transposed features of a block times slopes, (2 size, n_outputs)."""
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

    def moments(self, rows: list[tuple[int, int, Any]], block: int) -> NDArray[np.float64]:
        """Return the transposed features of a block times themselves, (2 size, 2 size)."""
        panels = Panels.of(self.blocks.draw(block), np.float32)
        tasks = [(rows[a:b], panels) for a, b in row_blocks(len(rows), _MOMENT_TILES)]
        n_columns = 2 * self.blocks.size
        total = np.zeros((n_columns, n_columns))
        with one_blas_thread():
            for first, last in row_blocks(len(tasks), _MOMENT_PARTS):
                for part in map_blocks(self._tile_moments, tasks[first:last], self.n_jobs):
                    total += part
        return total

    def _tile_moments(
        self, tiles: list[tuple[int, int, Any]], panels: Panels
    ) -> NDArray[np.float32]:
        """Return the moments of the features of a block over neighbouring tiles."""
        size, start = self.blocks.size, tiles[0][0]
        whole = np.empty((tiles[-1][1] - start, 2 * size), np.float32)
        room = _Room(_TILE_ROWS)
        for a, b, tile in tiles:
            room.n_rows = b - a
            for first in range(0, size, _CHUNK):
                n = min(_CHUNK, size - first)
                part = whole[a - start : b - start, 2 * first : 2 * (first + n)]
                part[:] = self._features(tile, panels, first, n, room)
        found: NDArray[np.float32] = whole.T @ whole
        return found

    def _add_responses(self, tile: Any, parts: list[tuple[Any, Any]], out: Any) -> None:
        """Add to ``out`` (n, n_outputs) what groups of blocks say of a tile of rows."""
        room = _Room(len(out))
        for panels, weights in parts:
            size = len(weights) // 2
            if not isinstance(tile, tuple):
                arrays = (room.starts, room.sums, room.features)
                add_responses(tile, panels.panels, size, self._scale, weights, arrays, out)
                continue
            for first in range(0, size, _CHUNK):
                n = min(_CHUNK, size - first)
                out += self._features(tile, panels, first, n, room) @ weights[2 * first :][: 2 * n]

    def _tile_gradient(self, tile: Any, panels: Panels, slopes: Any) -> NDArray[np.float32]:
        """Return the transposed features of a block times the slopes of a tile of rows."""
        n_rows, size = len(slopes), self.blocks.size
        room, found = _Room(n_rows), np.empty((2 * size, slopes.shape[1]), np.float32)
        for first in range(0, size, _CHUNK):
            n = min(_CHUNK, size - first)
            features = self._features(tile, panels, first, n, room)
            np.dot(features.T, slopes, out=found[2 * first : 2 * (first + n)])
        return found

    def _features(
        self, tile: Any, panels: Panels, first: int, n: int, room: _Room
    ) -> NDArray[np.float32]:
        """Return the features of a tile of rows for frequencies ``first : first + n``."""
        chunk = Panels(panels.panels[first // LANES : -(-(first + n) // LANES)])
        chunk.project(tile, 0, room.starts, room.sums)
        features = room.features[: room.n_rows * 2 * n].reshape(room.n_rows, 2 * n)
        trig.paired(room.sums, room.n_rows, self._scale, features, 0, 0)
        return features


class _Room:
    """Where the features of a tile of rows are computed."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.starts = np.zeros(_SUMS_WIDTH, np.float32)
        self.sums = np.empty((n_rows + trig.GROUP_ROWS, _SUMS_WIDTH), np.float32)
        self.features = np.empty(n_rows * 2 * _CHUNK, np.float32)
