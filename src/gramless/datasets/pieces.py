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
    """A file of rows that is read in pieces.

    ``head`` has a few rows, with the columns of all pieces; ``read`` returns a new iterator over
    all rows in order; ``n_rows`` is None if only reading can tell.
    """

    head: Table
    read: Callable[[], Iterator[Table]]
    n_rows: int | None = None


class RowBuffer:
    """A queue of rows."""

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
        """Return the oldest rows, copied only if they come from several chunks."""
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
    """Cut chunks of any sizes into chunks of ``n_rows`` rows and a last one with the rest."""
    buffer = RowBuffer()
    for X, y in chunks:
        buffer.add(X, y)
        while buffer.n_rows >= n_rows:
            yield buffer.take(n_rows)
    if buffer.n_rows:
        yield buffer.take(buffer.n_rows)


def join(chunks: list[Chunk]) -> Chunk:
    """Concatenate chunks; a single one is returned as it is."""
    if len(chunks) == 1:
        return chunks[0]
    rows = [X for X, _ in chunks]
    stacked = sparse.vstack(rows, format="csr") if sparse.issparse(rows[0]) else None
    X = np.concatenate(rows) if stacked is None else stacked
    return X, np.concatenate([y for _, y in chunks])
