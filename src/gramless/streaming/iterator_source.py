"""Training rows that come in batches, from an iterator or a function that makes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gramless.base.errors import InputError
from gramless.datasets.pieces import Chunk, RowBuffer, join
from gramless.streaming.passes import check_chunk

Batches = Iterable[tuple[Any, Any]] | Callable[[], Iterable[tuple[Any, Any]]]


class StreamEnded(Exception):
    """An iterator of batches has no more rows."""


class IteratorSource:
    """Training rows from an iterable of batches of any sizes, read one after the other.

    Parameters
    ----------
    batches : iterable of (X, y), or callable that returns one
        A callable is called, and an iterable that can be iterated anew (a list, a
        ``ChunkedTable``) is iterated anew, for every epoch. An iterator is read once.
    n_features : int, default=None
        Taken from the first batch by default.
    n_held_out : int, default=0
        The first rows of every epoch, which are kept back.

    Attributes
    ----------
    n_features : int
        The first batch is fetched to find it.
    n_rows : int or None
        Rows of the first epoch without those held out; None before its end, unless the
        batches have an ``n_rows`` that tells.

    Raises
    ------
    InputError
        If a batch is no table of numbers, or there are no rows beyond those held out.

    Notes
    -----
    Holds the batch that is being read and the rows asked for. Nothing is shuffled: a step takes
    rows as they come.

    Examples
    --------
    >>> import numpy as np
    >>> batches = [(np.eye(2), [0, 1]), (np.eye(2), [2, 3])]
    >>> source = IteratorSource(batches)
    >>> source.read(0, 3)[1], source.read(3, 6)[1], source.n_rows
    (array([0, 1, 2]), array([3, 0, 1]), 4)
    """

    def __init__(
        self, batches: Batches, *, n_features: int | None = None, n_held_out: int = 0
    ) -> None:
        if not callable(batches) and not hasattr(batches, "__iter__"):
            raise InputError(
                f"batches must be an iterable of (X, y) or a function that returns one, got "
                f"{type(batches).__name__}."
            )
        if n_held_out < 0:
            raise InputError(f"n_held_out must be at least 0, got {n_held_out}.")
        self._batches, self._n_features, self._n_held_out = batches, n_features, n_held_out
        self._once = not callable(batches) and iter(batches) is batches
        self._number = self._position = self._n_taken = 0
        self._buffer = RowBuffer()
        self._empty: Chunk | None = None
        self._held: Chunk | None = None
        self._rows: Iterator[tuple[Any, Any]] | None = None
        known = None if self._once else getattr(batches, "n_rows", None)
        self.n_rows: int | None = None if known is None else known - n_held_out

    @property
    def n_features(self) -> int:
        """Return the number of columns, from the first batch."""
        if self._n_features is None:
            self._begin()
        assert self._n_features is not None
        return self._n_features

    def read(self, start: int, stop: int) -> Chunk:
        """Return the next rows.

        Parameters
        ----------
        start, stop : int
            Positions; ``start`` is where the last call stopped, or later: rows between are
            read and thrown away.

        Returns
        -------
        X : ndarray or CSR (stop - start, n_features)
            Fewer rows where an iterator ends.
        y : ndarray

        Raises
        ------
        StreamEnded
            If an iterator has no rows left.
        InputError
            If ``start`` is before the last ``stop``.
        """
        if not self._position <= start <= stop:
            raise InputError(
                f"Rows {start} to {stop} of a stream cannot be read after row {self._position}; "
                "streams go forwards only. Make a new source to begin again."
            )
        self._begin()
        while self._position < start:
            self._position += len(self._take(start - self._position)[1])
        chunks: list[Chunk] = []
        while self._position < stop:
            try:
                chunks.append(self._take(stop - self._position))
            except StreamEnded:
                if not chunks:
                    raise
                break
            self._position += len(chunks[-1][1])
        assert self._empty is not None
        return join(chunks) if chunks else self._empty

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows of one epoch as they come, without those held out.

        Raises
        ------
        InputError
            If the rows come from an iterator, which can be read only once.
        """
        if self._once:
            raise InputError(
                "An iterator of batches can be read only once, and this needs a pass of its "
                "own; give a function that returns a new iterator, or a list."
            )
        skip = self._n_held_out
        for number, chunk in enumerate(self._anew()):
            rows, labels = self._checked(chunk, number)
            if skip < len(labels):
                yield (rows[skip:], labels[skip:]) if skip else (rows, labels)
            skip = max(0, skip - len(labels))

    def held_out(self) -> Chunk:
        """Return the first rows, which are kept back."""
        self._begin()
        assert self._held is not None
        return self._held

    def _anew(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._batches() if callable(self._batches) else self._batches)

    def _begin(self) -> None:
        """Open the first epoch, unless that is done."""
        if self._held is None:
            self._held = self._open_epoch()

    def _open_epoch(self) -> Chunk:
        """Begin an epoch; return the rows it holds out."""
        # Nothing is left of an epoch that could not be opened.
        self._rows, self._number, self._buffer = self._anew(), 0, RowBuffer()
        while self._buffer.n_rows <= self._n_held_out:
            if not self._fetch():
                raise InputError(
                    f"The stream has {self._buffer.n_rows} rows and {self._n_held_out} are held "
                    "out: none is left. Give more rows; a function must return a new iterator "
                    "each time."
                )
        if self._n_held_out == 0:
            assert self._empty is not None
            return self._empty
        return self._buffer.take(self._n_held_out)

    def _fetch(self) -> bool:
        """Put the next batch into the buffer; tell whether there was one."""
        assert self._rows is not None
        batch = next(self._rows, None)
        if batch is None:
            return False
        self._buffer.add(*self._checked(batch, self._number))
        self._number += 1
        return True

    def _checked(self, batch: Any, number: int) -> Chunk:
        X, y = check_chunk(batch, number, self._n_features, self._empty)
        self._n_features = int(X.shape[1])
        if self._empty is None:
            self._empty = X[:0], y[:0]
        return X, y

    def _take(self, most: int) -> Chunk:
        """Return at most so many rows, at least one."""
        while self._buffer.n_rows == 0:
            if not self._fetch():
                self.n_rows = self._n_taken if self.n_rows is None else self.n_rows
                if self._once:
                    raise StreamEnded(f"The stream ended after {self._position:,} rows.")
                self._open_epoch()
        chunk = self._buffer.take(min(most, self._buffer.n_rows))
        self._n_taken += len(chunk[1])
        return chunk
