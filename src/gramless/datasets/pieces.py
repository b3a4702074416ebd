"""Rows that arrive in pieces: kept, joined and cut to another size."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import sparse

from gramless.base.types import AnyArray
from gramless.datasets.table import Matrix, Table

Chunk: TypeAlias = tuple[Matrix, AnyArray]
"""Rows, dense or CSR, and their labels."""


@dataclass(frozen=True)
class Pieces:
    """A file of rows that is read piece by piece.

    ``head`` holds a few rows, which show the columns that all pieces have; ``read`` returns a new
    iterator over all rows in their order; ``n_rows`` is None where only reading tells.
    """

    head: Table
    read: Callable[[], Iterator[Table]]
    n_rows: int | None = None


class RowBuffer:
    """Rows that have arrived and are not yet taken, first come, first served.

    Examples
    --------
    >>> buffer = RowBuffer()
    >>> buffer.add(np.eye(3), np.array([1, 2, 3]))
    >>> buffer.take(2)[1], buffer.n_rows
    (array([1, 2]), 1)
    """

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._start = 0
        self.n_rows = 0

    def add(self, X: Matrix, y: AnyArray) -> None:
        """Keep rows; they are not copied."""
        if len(y):
            self._chunks.append((X, y))
            self.n_rows += len(y)

    def take(self, n_rows: int) -> Chunk:
        """Return the oldest rows, copied only where they are put together from several chunks."""
        taken: list[Chunk] = []
        self.n_rows -= n_rows
        while n_rows:
            X, y = self._chunks[0]
            # The start is kept instead of the rest of the chunk: CSR slices are copies.
            start, stop = self._start, min(self._start + n_rows, len(y))
            whole = start == 0 and stop == len(y)
            taken.append((X, y) if whole else (X[start:stop], y[start:stop]))
            n_rows -= stop - start
            self._start = stop
            if stop == len(y):
                self._chunks.popleft()
                self._start = 0
        return join(taken)


def regroup(chunks: Iterable[Chunk], n_rows: int) -> Iterator[Chunk]:
    """Cut chunks of any sizes into chunks of ``n_rows`` rows and a last one of what is left.

    Examples
    --------
    >>> chunks = [(np.eye(3), np.array([1, 2, 3])), (np.eye(3), np.array([4, 5, 6]))]
    >>> [y.tolist() for X, y in regroup(chunks, 4)]
    [[1, 2, 3, 4], [5, 6]]
    """
    buffer = RowBuffer()
    for X, y in chunks:
        buffer.add(X, y)
        while buffer.n_rows >= n_rows:
            yield buffer.take(n_rows)
    if buffer.n_rows:
        yield buffer.take(buffer.n_rows)


def join(chunks: list[Chunk]) -> Chunk:
    """Return chunks as one; a single one as it is.

    Examples
    --------
    >>> X, y = join([(np.eye(2), np.array([1, 2])), (np.eye(2), np.array([3, 4]))])
    >>> X.shape, y.tolist()
    ((4, 2), [1, 2, 3, 4])
    """
    if len(chunks) == 1:
        return chunks[0]
    rows = [X for X, _ in chunks]
    stacked = sparse.vstack(rows, format="csr") if sparse.issparse(rows[0]) else None
    X = np.concatenate(rows) if stacked is None else stacked
    return X, np.concatenate([y for _, y in chunks])
