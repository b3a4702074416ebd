"""Reservoir sampling with draws that depend only on the index of each row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gramless.base.random import stream
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.datasets.pieces import Chunk, join
from gramless.preprocessing.rows import Rows


def row_draws(seed: int, purpose: str, row_indices: IntArray, block_size: int = 4096) -> FloatArray:
    """Return one uniform draw per row, determined by the seed, the purpose and the row index alone.

    Draws are in [0, 1). ``row_indices`` must increase. Each block of ``block_size`` consecutive
    indices has its own random generator.
    """
    blocks, starts = np.unique(row_indices // block_size, return_index=True)
    parts = np.split(row_indices, starts[1:])
    draws = [
        stream(seed, purpose, block).random(block_size)[part - block * block_size]
        for block, part in zip(blocks.tolist(), parts[: len(blocks)], strict=True)
    ]
    return np.concatenate(draws) if draws else np.empty(0)


class Reservoir:
    """A uniform sample of the rows of a stream: the ``size`` rows with the smallest draws."""

    def __init__(self, size: int, seed: int, purpose: str) -> None:
        self.size, self.seed, self.purpose = size, seed, purpose
        self._draws: FloatArray = np.empty(0)
        self._row_indices: IntArray = np.empty(0, np.int64)
        self._kept: Chunk | None = None

    def add(
        self, X: Rows, y: AnyArray, row_indices: IntArray
    ) -> tuple[BoolArray, tuple[Rows, AnyArray, IntArray]]:
        """Sample from the next rows.

        Return a mask of the new rows that were sampled, and the previously sampled rows that they
        evicted, with their targets and row indices.
        """
        draws = row_draws(self.seed, self.purpose, row_indices)
        if self._kept is None:
            self._kept = X[:0], y[:0]
        n_kept = len(self._draws)
        # Most rows of a long stream exceed the largest kept draw; skip them before joining.
        limit = self._draws.max(initial=0.0) if n_kept == self.size else 1.0
        candidates: NDArray[np.intp] = np.flatnonzero(draws < limit)
        pool_X, pool_y = join([self._kept, (X[candidates], y[candidates])])
        pool_draws = np.concatenate([self._draws, draws[candidates]])
        pool_indices = np.concatenate([self._row_indices, row_indices[candidates]])
        chosen = np.zeros(len(pool_draws), dtype=bool)
        chosen[np.argsort(pool_draws, kind="stable")[: self.size]] = True
        places = np.flatnonzero(~chosen[:n_kept])
        evicted = pool_X[places], pool_y[places], pool_indices[places]
        self._kept = pool_X[chosen], pool_y[chosen]
        self._draws, self._row_indices = pool_draws[chosen], pool_indices[chosen]
        is_in_sample = np.zeros(len(draws), dtype=bool)
        is_in_sample[candidates] = chosen[n_kept:]
        return is_in_sample, evicted

    def rows(self) -> Chunk:
        """Return the sample in the order of the stream; :meth:`add` must have been called."""
        assert self._kept is not None
        return self._kept
