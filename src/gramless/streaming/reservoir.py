"""Reservoir sampling with draws that depend only on the number of each row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gramless.base.random import stream
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.datasets.pieces import Chunk, join
from gramless.preprocessing.rows import Rows


def row_draws(
    seed: int, purpose: str, numbers: IntArray, draws_per_stream: int = 4096
) -> FloatArray:
    """Return a uniform number in [0, 1) for each row, which depends only on the row's number.

    ``numbers`` must increase. Each run of ``draws_per_stream`` numbers has a separate random
    stream.
    """
    blocks, starts = np.unique(numbers // draws_per_stream, return_index=True)
    parts = np.split(numbers, starts[1:])
    draws = [
        stream(seed, purpose, block).random(draws_per_stream)[part - block * draws_per_stream]
        for block, part in zip(blocks.tolist(), parts[: len(blocks)], strict=True)
    ]
    return np.concatenate(draws) if draws else np.empty(0)


class Reservoir:
    """A uniform sample of the rows of a stream: those with the smallest draws."""

    def __init__(self, size: int, seed: int, purpose: str) -> None:
        self.size, self.seed, self.purpose = size, seed, purpose
        self._draws: FloatArray = np.empty(0)
        self._numbers: IntArray = np.empty(0, np.int64)
        self._kept: Chunk | None = None

    def add(
        self, X: Rows, y: AnyArray, numbers: IntArray
    ) -> tuple[BoolArray, tuple[Rows, AnyArray, IntArray]]:
        """Add the next rows; return which are in the sample, and the rows that left it."""
        draws = row_draws(self.seed, self.purpose, numbers)
        if self._kept is None:
            self._kept = X[:0], y[:0]
        n_kept = len(self._draws)
        # Most rows of a long stream exceed the largest kept draw; skip them before joining.
        limit = self._draws.max(initial=0.0) if n_kept == self.size else 1.0
        candidates: NDArray[np.intp] = np.flatnonzero(draws < limit)
        pool_X, pool_y = join([self._kept, (X[candidates], y[candidates])])
        pool_draws = np.concatenate([self._draws, draws[candidates]])
        pool_numbers = np.concatenate([self._numbers, numbers[candidates]])
        chosen = np.zeros(len(pool_draws), dtype=bool)
        chosen[np.argsort(pool_draws, kind="stable")[: self.size]] = True
        out = np.flatnonzero(~chosen[:n_kept])
        dropped = pool_X[out], pool_y[out], pool_numbers[out]
        self._kept = pool_X[chosen], pool_y[chosen]
        self._draws, self._numbers = pool_draws[chosen], pool_numbers[chosen]
        is_in_sample = np.zeros(len(draws), dtype=bool)
        is_in_sample[candidates] = chosen[n_kept:]
        return is_in_sample, dropped

    def rows(self) -> Chunk:
        """Return the sample in the order of the stream, after at least one call of :meth:`add`."""
        assert self._kept is not None
        return self._kept
