"""Tables that are read in pieces, and regrouping of rows into chunks of equal size."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import sparse

from gramless.base.types import AnyArray
from gramless.datasets.table import Matrix, Table

Chunk: TypeAlias = tuple[Matrix, AnyArray]  # rows, dense or CSR, and their labels


@dataclass(frozen=True)
class Pieces:
    head: Table  # the first rows, with the columns of all pieces
    read: Callable[[], Iterator[Table]]  # returns a new iterator over all rows in order
    n_rows: int | None = None  # None if it is unknown before reading


class RowBuffer:
    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._start = 0
        self.n_rows = 0

    def add(self, X: Matrix, y: AnyArray) -> None:
        if len(y):
            self._chunks.append((X, y))
            self.n_rows += len(y)

    def take(self, n_rows: int) -> Chunk:
        """Remove and return the oldest rows, from 1 to all ``n_rows`` of the buffer.

        A whole chunk is returned as it was added, and a part of a dense chunk as a view. Rows of
        several chunks and parts of CSR chunks are copied.
        """
        parts: list[Chunk] = []
        self.n_rows -= n_rows
        while n_rows:
            X, y = self._chunks[0]
            # The chunk stays whole and only the start of its remaining rows moves, because slices
            # of CSR are copies.
            start, stop = self._start, min(self._start + n_rows, len(y))
            is_whole = start == 0 and stop == len(y)
            parts.append((X, y) if is_whole else (X[start:stop], y[start:stop]))
            n_rows -= stop - start
            self._start = stop
            if stop == len(y):
                self._chunks.popleft()
                self._start = 0
        return join(parts)


def regroup(chunks: Iterable[Chunk], n_rows: int) -> Iterator[Chunk]:
    """Yield the rows of chunks of any size in chunks of ``n_rows``; the last may be smaller."""
    buffer = RowBuffer()
    for X, y in chunks:
        buffer.add(X, y)
        while buffer.n_rows >= n_rows:
            yield buffer.take(n_rows)
    if buffer.n_rows:
        yield buffer.take(buffer.n_rows)


def join(chunks: list[Chunk]) -> Chunk:
    """Concatenate at least one chunk; a single chunk is not copied."""
    if len(chunks) == 1:
        return chunks[0]
    rows = [X for X, _ in chunks]
    stacked = sparse.vstack(rows, format="csr") if sparse.issparse(rows[0]) else None
    X = np.concatenate(rows) if stacked is None else stacked
    return X, np.concatenate([y for _, y in chunks])
