"""Products with blocks of random features by torch, on a GPU or another device."""

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
from gramless.features.fourier import Panels, limit_for_sums
from gramless.preprocessing.rows import Rows, check_width
from gramless.streaming.feature_blocks import (
    LANES,
    Float32Array,
    FrequencyBlocks,
    GroupCache,
)

Tensor: TypeAlias = Any  # a torch.Tensor; torch need not be installed
# The first row, last row + 1, and a dense or sparse tensor of these rows.
Tile: TypeAlias = tuple[int, int, Tensor]


class TorchProducts:
    """Products by features that torch computes in tiles.

    Results are those of :class:`~gramless.streaming.feature_blocks.CpuProducts` up to the rounding
    of float32 (TF32 is switched off); the bits depend on the device. Frequencies are drawn on the
    processor and copied to the device. Cached frequencies take at most ``budget`` bytes there; the
    rows, two groups of blocks and about 70 MB of features come in addition. ``device`` is a name of
    torch, such as ``"cuda:1"``.
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
        try:
            import torch
        except ImportError as error:
            raise MissingDependencyError(
                "TorchProducts needs torch, which is not installed: pip install gramless[torch]."
            ) from error
        self._torch: ModuleType = torch
        try:
            # Only the creation of a tensor shows whether the device can be used.
            self._device: object = torch.zeros(1, device=device).device
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"torch cannot use device={device!r} ({reason}); use 'cpu'."
            ) from error
        self._cache = _FrequencyCache(blocks, budget, self._send)
        self._no_panels = Panels(np.empty((0, blocks.n_inputs, LANES), np.float32))
        self._scale = 1.0 / np.sqrt(blocks.size)

    def prepare(self, X: Rows) -> list[Tile]:
        """Return tiles of rows in units of the bandwidth, on the device."""
        check_width(type(self).__name__, X, self.blocks.n_inputs)
        blocks = row_blocks(X.shape[0], self.tile_rows)
        return [(a, b, self._tile(X[a:b])) for a, b in blocks]

    def responses(
        self, rows: list[Tile], weights: Sequence[Float32Array], n_blocks: int
    ) -> FloatArray:
        n_outputs, group_blocks = weights[0].shape[1], self.blocks.group_blocks
        shape = rows[-1][1], n_outputs
        total = self._torch.zeros(shape, dtype=self._torch.float64, device=self._device)
        with _full_precision(self._torch):
            for group in range(-(-n_blocks // group_blocks)):
                n_frequencies = self.blocks.size * min(
                    group_blocks, n_blocks - group * group_blocks
                )
                (cached,) = self._cache.groups(range(group, group + 1), n_blocks)
                frequencies = cached[:n_frequencies]
                group_weights = self._send(weights[group][: 2 * len(frequencies)])
                for first, last in row_blocks(len(frequencies), self.tile_frequencies):
                    # Columns alternate between cosines and sines.
                    w = group_weights[2 * first : 2 * last]
                    for a, b, tile in rows:
                        cosines, sines = self._features(tile, frequencies[first:last])
                        total[a:b] += cosines @ w[0::2] + sines @ w[1::2]
        return self._receive(total)

    def gradient(self, rows: list[Tile], block: int, slopes: FloatArray) -> FloatArray:
        size, torch = self.blocks.size, self._torch
        frequencies = self._send(_to_float32(self.blocks.draw(block)))
        slopes_on_device = self._send(slopes.astype(np.float32))
        total = torch.zeros((2 * size, slopes.shape[1]), dtype=torch.float64, device=self._device)
        with _full_precision(torch):
            for first, last in row_blocks(size, self.tile_frequencies):
                for a, b, tile in rows:
                    cosines, sines = self._features(tile, frequencies[first:last])
                    total[2 * first : 2 * last : 2] += cosines.T @ slopes_on_device[a:b]
                    total[2 * first + 1 : 2 * last : 2] += sines.T @ slopes_on_device[a:b]
        return self._receive(total)

    def moments(self, rows: list[Tile], block: int) -> FloatArray:
        n_columns, torch = 2 * self.blocks.size, self._torch
        frequencies = self._send(_to_float32(self.blocks.draw(block)))
        total = torch.zeros((n_columns, n_columns), dtype=torch.float64, device=self._device)
        with _full_precision(torch):
            for _, _, tile in rows:
                features = torch.stack(self._features(tile, frequencies), dim=2).flatten(1)
                total += features.T @ features
        return self._receive(total) * self._scale

    def _features(self, tile: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cosines and sines of a tile of rows, without their scale."""
        angles = tile @ frequencies.T
        return angles.cos(), angles.sin_()

    def _tile(self, X: Rows) -> Tensor:
        """Return rows in units of the bandwidth, on the device."""
        is_sparse = sp.issparse(X) and not self.center.any()
        buffer = self._no_panels.buffer(X.shape[0], sparse=is_sparse)
        prepared = self._no_panels.prepare(X, self.center, self.inverse, buffer)
        if not isinstance(prepared, tuple):
            return self._send(prepared[: X.shape[0]])
        indptr, columns, values = prepared
        positions = np.stack([np.repeat(np.arange(X.shape[0]), np.diff(indptr)), columns])
        return self._torch.sparse_coo_tensor(
            *(self._send(positions.astype(np.int64)), self._send(values), X.shape),
            is_coalesced=True,
            check_invariants=False,
        )

    def _send(self, array: AnyArray) -> Tensor:
        return self._torch.tensor(array, device=self._device)

    def _receive(self, total: Tensor) -> FloatArray:
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

    def _allocate(self) -> Tensor:
        return self._send(np.empty(self._shape, np.float32))

    def _write(self, group: Tensor, k: int, frequencies: FloatArray) -> None:
        size = self.blocks.size
        group[k * size : (k + 1) * size] = self._send(_to_float32(frequencies))


def _to_float32(frequencies: FloatArray) -> Float32Array:
    """Return frequencies in float32, with the limits of the loops of the processor."""
    return limit_for_sums(frequencies, np.dtype(np.float32)).astype(np.float32)


@contextmanager
def _full_precision(torch: ModuleType) -> Iterator[None]:
    """Multiply float32 in full precision and without gradients, whatever the settings of torch."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
