"""Orders of rows: epochs, each shuffled anew, read from positions of one endless sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.datasets.pieces import Chunk

T = TypeVar("T")


class Recent(Generic[T]):
    """Things made for an epoch, the last two of them kept.

    Parameters
    ----------
    make : callable
        From the epoch to the thing.

    Examples
    --------
    >>> squares = Recent(lambda epoch: epoch**2)
    >>> squares(3), squares(4)
    (9, 16)
    """

    def __init__(self, make: Callable[[int], T]) -> None:
        self._make = make
        self._made: dict[int, T] = {}

    def __call__(self, epoch: int) -> T:
        """Return the thing of this epoch."""
        if epoch not in self._made:
            if len(self._made) == 2:
                del self._made[next(iter(self._made))]
            self._made[epoch] = self._make(epoch)
        return self._made[epoch]


def shuffled(seed: int, purpose: str, block: int, n: int) -> NDArray[np.intp]:
    """Return a random order of ``range(n)``, a function of ``(seed, purpose, block)``.

    Examples
    --------
    >>> sorted(shuffled(0, "example", 7, 4).tolist())
    [0, 1, 2, 3]
    """
    return stream(seed, purpose, block).permutation(n)


def epoch_parts(start: int, stop: int, n_rows: int) -> list[tuple[int, int, int]]:
    """Cut positions of the endless sequence into ``(epoch, first, last + 1)`` within epochs.

    Raises
    ------
    InputError
        If the positions are negative or go backwards.

    Examples
    --------
    >>> epoch_parts(8, 21, 10)
    [(0, 8, 10), (1, 0, 10), (2, 0, 1)]
    """
    if not 0 <= start <= stop:
        raise InputError(f"Rows {start} to {stop} cannot be read; give 0 <= start <= stop.")
    epochs = range(start // n_rows, -(-stop // n_rows)) if stop > start else []
    return [
        (epoch, max(start - epoch * n_rows, 0), min(stop - epoch * n_rows, n_rows))
        for epoch in epochs
    ]


class GroupReader:
    """Reads rows that are ordered group by group, holding one group in memory.

    Parameters
    ----------
    sizes : callable
        From an epoch to the sizes of its groups, in their order.
    load : callable
        From an epoch and a position in that order to the group's rows and targets, mixed.
    """

    def __init__(
        self, sizes: Callable[[int], NDArray[np.int64]], load: Callable[[int, int], Chunk]
    ) -> None:
        self._ends = Recent(lambda epoch: np.cumsum(sizes(epoch)))
        self._load = load
        self._held: tuple[int, int] | None = None
        self._group: Chunk | None = None

    def read(self, epoch: int, start: int, stop: int) -> list[Chunk]:
        """Return the rows at positions of one epoch, a copy for each group that holds some."""
        ends = self._ends(epoch)
        chunks = []
        k = int(np.searchsorted(ends, start, side="right"))
        while start < stop:
            first = int(ends[k - 1]) if k else 0
            last = min(stop, int(ends[k]))
            X, y = self._loaded(epoch, k)
            inside = slice(start - first, last - first)
            chunks.append((X[inside].copy(), y[inside].copy()))
            start, k = last, k + 1
        return chunks

    def _loaded(self, epoch: int, k: int) -> Chunk:
        if self._group is None or self._held != (epoch, k):
            self._group = None
            self._group = self._load(epoch, k)
            self._held = epoch, k
        return self._group
