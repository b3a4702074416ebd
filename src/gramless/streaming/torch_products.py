"""Products with blocks of random features by torch, on a GPU or any other of its devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from gramless.base.errors import InputError, MissingDependencyError
from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray, FloatArray
from gramless.features.fourier import Panels, summable
from gramless.preprocessing.rows import Rows, check_width
from gramless.streaming.feature_blocks import (
    LANES,
    Float32Array,
    FrequencyBlocks,
    GroupCache,
)

Tensor: TypeAlias = Any
"""A ``torch.Tensor``; torch need not be installed."""
Tile: TypeAlias = tuple[int, int, Tensor]
"""First row, last row + 1, and a tensor of the rows between, dense or sparse."""


class TorchProducts:
    """Features computed by torch in tiles, and used at once.

    Results are those of :class:`~gramless.streaming.feature_blocks.CpuProducts` to the rounding of
    float32 (TF32 is switched off); the bits depend on the device. Frequencies are drawn on the
    processor and sent; those cached on the device take at most ``budget`` bytes. Besides, the
    device holds the rows, two groups of blocks and some 70 MB of features. ``device`` is named as
    in torch, such as ``"cuda:1"``.
    """

    def __init__(
        self,
        blocks: FrequencyBlocks,
        center: FloatArray,
        inverse: FloatArray,
        budget: int,
        device: str = "cpu",
        tile_rows: int = 4096,
        tile_frequencies: int = 2048,
    ) -> None:
        self.blocks, self.center, self.inverse = blocks, center, inverse
        self.tile_rows, self.tile_frequencies = tile_rows, tile_frequencies
        self._torch = _import_torch()
        self._device = _usable(self._torch, device)
        self._cache = _FrequencyCache(blocks, budget, self._send)
        self._no_panels = Panels(np.empty((0, blocks.n_inputs, LANES), np.float32))
        self._scale = 1.0 / np.sqrt(blocks.size)

    def prepare(self, X: Rows) -> list[Tile]:
        """Return tiles of rows in units of the bandwidth, on the device."""
        check_width(type(self).__name__, X, self.blocks.n_inputs)
        cuts = row_blocks(X.shape[0], self.tile_rows)
        return [(a, b, self._tile(X[a:b])) for a, b in cuts]

    def responses(
        self, rows: list[Tile], weights: Sequence[Float32Array], n_blocks: int
    ) -> FloatArray:
        n_outputs, most = weights[0].shape[1], self.blocks.group_blocks
        shape = rows[-1][1], n_outputs
        total = self._torch.zeros(shape, dtype=self._torch.float64, device=self._device)
        with _full_precision(self._torch):
            for group in range(-(-n_blocks // most)):
                n_frequencies = self.blocks.size * min(most, n_blocks - group * most)
                (room,) = self._cache.groups(range(group, group + 1), n_blocks)
                frequencies = room[:n_frequencies]
                sent = self._send(weights[group][: 2 * len(frequencies)])
                for first, last in row_blocks(len(frequencies), self.tile_frequencies):
                    own = sent[2 * first : 2 * last]
                    for a, b, tile in rows:
                        cosines, sines = self._features(tile, frequencies[first:last])
                        total[a:b] += cosines @ own[0::2] + sines @ own[1::2]
        return self._received(total)

    def gradient(self, rows: list[Tile], block: int, slopes: FloatArray) -> FloatArray:
        size, torch = self.blocks.size, self._torch
        frequencies = self._send(_single(self.blocks.draw(block)))
        sent = self._send(slopes.astype(np.float32))
        total = torch.zeros((2 * size, slopes.shape[1]), dtype=torch.float64, device=self._device)
        with _full_precision(torch):
            for first, last in row_blocks(size, self.tile_frequencies):
                for a, b, tile in rows:
                    cosines, sines = self._features(tile, frequencies[first:last])
                    total[2 * first : 2 * last : 2] += cosines.T @ sent[a:b]
                    total[2 * first + 1 : 2 * last : 2] += sines.T @ sent[a:b]
        return self._received(total)

    def moments(self, rows: list[Tile], block: int) -> FloatArray:
        n_columns, torch = 2 * self.blocks.size, self._torch
        frequencies = self._send(_single(self.blocks.draw(block)))
        total = torch.zeros((n_columns, n_columns), dtype=torch.float64, device=self._device)
        with _full_precision(torch):
            for _, _, tile in rows:
                features = torch.stack(self._features(tile, frequencies), dim=2).flatten(1)
                total += features.T @ features
        return self._received(total) * self._scale

    def _features(self, tile: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of a tile of rows, which are scaled in the end."""
        angles = tile @ frequencies.T
        return angles.cos(), angles.sin_()

    def _tile(self, X: Rows) -> Tensor:
        """Return a few rows in units of the bandwidth, on the device."""
        sparse = sp.issparse(X) and not self.center.any()
        room = self._no_panels.room(X.shape[0], sparse=sparse)
        prepared = self._no_panels.prepare(X, self.center, self.inverse, room)
        if not isinstance(prepared, tuple):
            return self._send(prepared[: X.shape[0]])
        indptr, columns, values = prepared
        places = np.stack([np.repeat(np.arange(X.shape[0]), np.diff(indptr)), columns])
        return self._torch.sparse_coo_tensor(
            *(self._send(places.astype(np.int64)), self._send(values), X.shape),
            is_coalesced=True,
            check_invariants=False,
        )

    def _send(self, array: AnyArray) -> Tensor:
        """Return a copy of an array on the device."""
        return self._torch.tensor(array, device=self._device)

    def _received(self, total: Tensor) -> FloatArray:
        """Return sums of features as an array, divided by ``sqrt(size)``."""
        scaled: FloatArray = self._scale * total.cpu().numpy()
        return scaled


class _FrequencyCache(GroupCache[Tensor]):
    """The frequencies of groups of blocks on the device, (frequencies, n_inputs) each."""

    def __init__(
        self, blocks: FrequencyBlocks, budget: int, send: Callable[[AnyArray], Tensor]
    ) -> None:
        self._send, self._shape = send, (blocks.size * blocks.group_blocks, blocks.n_inputs)
        super().__init__(blocks, budget, prod(self._shape), None)

    def _room(self) -> Tensor:
        return self._send(np.empty(self._shape, np.float32))

    def _write(self, room: Tensor, k: int, frequencies: FloatArray) -> None:
        size = self.blocks.size
        room[k * size : (k + 1) * size] = self._send(_single(frequencies))


def _single(frequencies: FloatArray) -> Float32Array:
    """Return frequencies in float32, limited like those of the processor's loops."""
    return summable(frequencies, np.dtype(np.float32)).astype(np.float32)


def _import_torch() -> ModuleType:
    try:
        import torch
    except ImportError as fault:
        raise MissingDependencyError(
            "TorchProducts needs torch, which is not installed: pip install gramless[torch]."
        ) from fault
    found: ModuleType = torch
    return found


def _usable(torch: ModuleType, device: str) -> object:
    """Return torch's device of a name, after a tensor has been created there."""
    try:
        return torch.zeros(1, device=device).device
    except (RuntimeError, AssertionError, NotImplementedError) as fault:
        reason = str(fault).splitlines()[0]
        raise InputError(f"torch cannot use device={device!r} ({reason}); use 'cpu'.") from fault


@contextmanager
def _full_precision(torch: ModuleType) -> Iterator[None]:
    """Multiply float32 in full precision, whatever the process allows, and record no gradients."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_float32_matmul_precision(before)
