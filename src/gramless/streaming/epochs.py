"""Positions in an endless sequence of epochs, each shuffled anew."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from gramless.base.errors import InputError
from gramless.base.types import IntArray
from gramless.datasets.pieces import Chunk


def epoch_parts(start: int, stop: int, n_rows: int) -> list[tuple[int, int, int]]:
    """Split a range of positions into ``(epoch, first, last + 1)`` within epochs."""
    if not 0 <= start <= stop:
        raise InputError(f"Rows {start} to {stop} cannot be read; give 0 <= start <= stop.")
    epochs = range(start // n_rows, -(-stop // n_rows)) if stop > start else []
    return [
        (epoch, max(start - epoch * n_rows, 0), min(stop - epoch * n_rows, n_rows))
        for epoch in epochs
    ]


class GroupReader:
    """Read rows that are ordered group by group while holding one group in memory.

    ``sizes(epoch)`` are those of an epoch's groups, ``load(epoch, k)`` returns the k-th, shuffled.
    """

    def __init__(self, sizes: Callable[[int], IntArray], load: Callable[[int, int], Chunk]) -> None:
        self._ends = lru_cache(maxsize=2)(lambda epoch: np.cumsum(sizes(epoch)))
        self._load = load
        self._held: tuple[tuple[int, int], Chunk] | None = None

    def read(self, epoch: int, start: int, stop: int) -> list[Chunk]:
        """Return copies of the rows at these positions of an epoch, one chunk per group."""
        ends = self._ends(epoch)
        chunks = []
        k = int(np.searchsorted(ends, start, side="right"))
        while start < stop:
            first = int(ends[k - 1]) if k else 0
            last = min(stop, int(ends[k]))
            if self._held is None or self._held[0] != (epoch, k):
                self._held = None  # Or two groups would be in memory at once.
                self._held = (epoch, k), self._load(epoch, k)
            X, y = self._held[1]
            inside = slice(start - first, last - first)
            chunks.append((X[inside].copy(), y[inside].copy()))
            start, k = last, k + 1
        return chunks
