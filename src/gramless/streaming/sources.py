"""Sources of training rows: arrays, mapped files, and iterators of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray, IntArray, TableLike
from gramless.datasets.pieces import Chunk, RowBuffer, join
from gramless.preprocessing.rows import Rows
from gramless.streaming.chunk_checks import Batch, check_chunk, check_pair, is_sparse

Batches: TypeAlias = Iterable[Batch] | Callable[[], Iterable[Batch]]


@runtime_checkable
class RowSource(Protocol):
    """Training rows, in an endless order for steps, and in chunks for single passes."""

    @property
    def n_features(self) -> int:
        """Return the number of columns."""

    @property
    def n_rows(self) -> int | None:
        """Return the number of rows of an epoch, without held-out ones, or None if unknown."""

    def read(self, start: int, stop: int) -> tuple[Rows, AnyArray]:
        """Return rows ``start:stop`` of the endless order, across epochs if necessary."""

    def chunks(self) -> Iterator[tuple[Rows, AnyArray]]:
        """Yield every training row once, in small chunks."""

    def held_out(self) -> tuple[Rows, AnyArray]:
        """Return the held-out rows, or an empty chunk if there are none."""


@runtime_checkable
class NamedSource(Protocol):
    """A source with names of its columns."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Return the names, or None if there are none."""


@runtime_checkable
class NamedTarget(Protocol):
    """A source with the name of the column of its targets."""

    @property
    def target_name(self) -> str | None:
        """Return the name, or None if the column has none."""


@runtime_checkable
class CountedBatches(Protocol):
    """Batches with a number of rows, which may be None."""

    n_rows: int | None


def names_of(source: object) -> tuple[str, ...] | None:
    return source.names if isinstance(source, NamedSource) else None


def target_name_of(source: object) -> str | None:
    return source.target_name if isinstance(source, NamedTarget) else None


def default_held_out(n_rows: int) -> int:
    """Return the default number of held-out rows: a tenth, at most 4,096."""
    return min(4096, int(0.1 * n_rows))


@dataclass(frozen=True)
class MappedSource:
    """The rows of a source, with targets converted by a function."""

    source: RowSource
    convert: Callable[[AnyArray], AnyArray]

    @property
    def n_features(self) -> int:
        return self.source.n_features

    @property
    def n_rows(self) -> int | None:
        return self.source.n_rows

    @property
    def names(self) -> tuple[str, ...] | None:
        return names_of(self.source)

    @property
    def target_name(self) -> str | None:
        return target_name_of(self.source)

    def read(self, start: int, stop: int) -> tuple[Rows, AnyArray]:
        return self._convert_chunk(self.source.read(start, stop))

    def chunks(self) -> Iterator[tuple[Rows, AnyArray]]:
        return map(self._convert_chunk, self.source.chunks())

    def held_out(self) -> tuple[Rows, AnyArray]:
        return self._convert_chunk(self.source.held_out())

    def _convert_chunk(self, chunk: tuple[Rows, AnyArray]) -> tuple[Rows, AnyArray]:
        return chunk[0], self.convert(chunk[1])


def split_by_epoch(start: int, stop: int, n_rows: int) -> list[tuple[int, int, int]]:
    """Split a range of positions into ``(epoch, first, last + 1)`` within epochs."""
    if not 0 <= start <= stop:
        raise InputError(f"Rows {start} to {stop} cannot be read; give 0 <= start <= stop.")
    epochs = range(start // n_rows, -(-stop // n_rows)) if stop > start else []
    return [
        (epoch, max(start - epoch * n_rows, 0), min(stop - epoch * n_rows, n_rows))
        for epoch in epochs
    ]


class GroupReader:
    """A reader of rows that are ordered by groups, with one group in memory.

    ``sizes(epoch)`` returns the sizes of an epoch's groups, and ``load(epoch, k)`` the shuffled
    rows of the k-th group.
    """

    def __init__(self, sizes: Callable[[int], IntArray], load: Callable[[int, int], Chunk]) -> None:
        self._ends = lru_cache(maxsize=2)(lambda epoch: np.cumsum(sizes(epoch)))
        self._load = load
        self._current: tuple[tuple[int, int], Chunk] | None = None

    def read(self, epoch: int, start: int, stop: int) -> list[Chunk]:
        """Return copies of the rows at these positions of an epoch, one chunk per group."""
        ends = self._ends(epoch)
        chunks = []
        k = int(np.searchsorted(ends, start, side="right"))
        while start < stop:
            first = int(ends[k - 1]) if k else 0
            last = min(stop, int(ends[k]))
            if self._current is None or self._current[0] != (epoch, k):
                self._current = None  # otherwise two groups would be in memory
                self._current = (epoch, k), self._load(epoch, k)
            X, y = self._current[1]
            rows = slice(start - first, last - first)
            chunks.append((X[rows].copy(), y[rows].copy()))
            start, k = last, k + 1
        return chunks


@dataclass(frozen=True)
class ReadingSizes:
    """Sizes of the pieces in which :class:`ArraySource` reads tables.

    Parameters
    ----------
    permuted_rows, permuted_bytes : int, default=4_000_000, 2**30
        Tables within both limits are permuted row by row. Larger ones are read in runs of
        neighbouring rows.
    run_rows, run_bytes : int, default=256, 2**20
        Maximum rows and bytes of a run.
    min_run_rows : int, default=16
        Minimum rows of a run, even if they exceed ``run_bytes``.
    group_runs : int, default=128
        Number of runs that are shuffled together.
    chunk_rows, chunk_bytes : int, default=65_536, 2**25
        Maximum rows and bytes of a chunk of a single pass.

    Examples
    --------
    >>> ReadingSizes(run_rows=1024).run_rows
    1024
    """

    permuted_rows: int = 4_000_000
    permuted_bytes: int = 1 << 30
    run_rows: int = 256
    run_bytes: int = 1 << 20
    min_run_rows: int = 16
    group_runs: int = 128
    chunk_rows: int = 1 << 16
    chunk_bytes: int = 1 << 25


class ArraySource:
    """Training rows in an array, a memory-mapped file or a CSR matrix.

    Every epoch is a permutation of the rows, determined by the seed and the epoch. Tables of up to
    4 million rows and 1 GiB are permuted row by row. Larger tables are read in runs of 256
    neighbouring rows, or fewer (but at least 16) if these take more than 1 MB. The runs are put in
    random order, and the rows of 128 runs at a time are shuffled, so a file is read in sequential
    pieces.

    Parameters
    ----------
    X : ndarray, memmap or CSR matrix (n, n_features)
        The rows, which are neither copied nor converted.
    y : array-like (n,) or (n, n_outputs)
        Numbers or labels.
    seed : int
        Seed of the order of the rows.
    n_held_out : int, default=0
        Number of rows, drawn at random, to hold out.
    shuffle : bool, default=True
        If False, every epoch has the given order.
    sizes : ReadingSizes, optional
        Sizes of the pieces that are read; the default suits most disks.

    Raises
    ------
    InputError
        If X is not a table of numbers, y does not fit, or all rows are held out.

    Notes
    -----
    Memory use is 16 bytes per row if rows are permuted, otherwise one group of runs: at most
    128 MB, unless 16 rows exceed 1 MB.

    Examples
    --------
    >>> source = ArraySource(np.arange(6.0).reshape(3, 2), np.array([0, 1, 2]), seed=0)
    >>> sorted(source.read(0, 3)[1].tolist()), source.read(2, 4)[0].shape
    ([0, 1, 2], (2, 2))
    """

    def __init__(
        self,
        X: TableLike,
        y: ArrayLike,
        *,
        seed: int,
        n_held_out: int = 0,
        shuffle: bool = True,
        sizes: ReadingSizes | None = None,
    ) -> None:
        if is_sparse(X) and X.format != "csr":
            raise InputError(f"X must be dense or CSR, got a {X.format} matrix; give X.tocsr().")
        self._X: Rows = X if is_sparse(X) or isinstance(X, np.ndarray) else np.asarray(X)
        self._y = y if isinstance(y, np.ndarray) else np.asarray(y)
        check_pair(self._X, self._y)
        self.seed, self.shuffle = seed, shuffle
        self._sizes = sizes = sizes or ReadingSizes()
        n = len(self._y)
        if not 0 <= n_held_out < n:
            raise InputError(
                f"{n_held_out} of {n} rows cannot be held out; hold out fewer than there are."
            )
        drawn = stream(seed, "held out").choice(n, n_held_out, replace=False)
        self._held = np.sort(drawn).astype(np.int64)
        self.n_features, self.n_rows = int(self._X.shape[1]), n - n_held_out
        self._row_bytes = _row_bytes(self._X)
        n_bytes = self.n_rows * self._row_bytes
        self._permutes = self.n_rows <= sizes.permuted_rows and n_bytes <= sizes.permuted_bytes
        self._orders = lru_cache(maxsize=2)(
            lambda epoch: self._row_indices(stream(seed, "rows", epoch).permutation(self.n_rows))
        )
        fitting_rows = max(sizes.min_run_rows, sizes.run_bytes // self._row_bytes)
        self._run_rows = min(sizes.run_rows, fitting_rows)
        self._run_orders = lru_cache(maxsize=2)(
            lambda epoch: stream(seed, "runs", epoch).permutation(-(-self.n_rows // self._run_rows))
        )
        self._groups = GroupReader(self._group_sizes, self._load_group)

    def read(self, start: int, stop: int) -> Chunk:
        """Return the training rows at these positions of the endless sequence of epochs.

        Position ``p`` is in epoch ``p // n_rows``.
        """
        chunks: list[Chunk] = []
        for epoch, first, last in split_by_epoch(start, stop, self.n_rows):
            if not self.shuffle:
                chunks.append(self._load_range(first, last))
            elif self._permutes:
                chunks.append(self._load(self._orders(epoch)[first:last]))
            else:
                chunks += self._groups.read(epoch, first, last)
        return join(chunks) if chunks else self._load(slice(0, 0))

    def chunks(self) -> Iterator[Chunk]:
        """Yield every training row once, in the given order, in chunks of at most 32 MB."""
        n_rows = min(self._sizes.chunk_rows, self._sizes.chunk_bytes // self._row_bytes)
        for start, stop in row_blocks(self.n_rows, max(1, n_rows)):
            yield self._load_range(start, stop)

    def held_out(self) -> Chunk:
        """Return the held-out rows in the given order."""
        return self._load(self._held)

    def _row_indices(self, training: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the row indices in X, given indices among the training rows."""
        n_training_before = self._held - np.arange(len(self._held))
        return training + np.searchsorted(n_training_before, training, side="right")

    def _load_range(self, start: int, stop: int) -> Chunk:
        """Return training rows ``start:stop`` in the given order."""
        first, last = self._row_indices(np.array([start, stop - 1])).tolist()
        X, y = self._load(slice(first, last + 1))
        held = self._held[slice(*np.searchsorted(self._held, [first, last + 1]))] - first
        training = np.delete(np.arange(len(y)), held)
        return (X[training], y[training]) if len(held) else (X, y)

    def _load(self, rows: slice | IntArray) -> Chunk:
        """Return rows of X and y, read from the disk once if they are memory-mapped."""
        X, y = self._X[rows], self._y[rows]
        X = np.array(X) if isinstance(X, np.memmap) else X
        return X, np.array(y) if isinstance(y, np.memmap) else y

    def _group_sizes(self, epoch: int) -> IntArray:
        runs = self._run_orders(epoch)
        sizes = np.minimum(self.n_rows - runs * self._run_rows, self._run_rows)
        return np.add.reduceat(sizes, np.arange(0, len(runs), self._sizes.group_runs))

    def _load_group(self, epoch: int, k: int) -> Chunk:
        order, size = self._run_orders(epoch), self._sizes.group_runs
        starts = (np.sort(order[k * size : (k + 1) * size]) * self._run_rows).tolist()
        X, y = join([self._load_range(a, min(a + self._run_rows, self.n_rows)) for a in starts])
        n_groups = -(-len(order) // size)
        shuffled = stream(self.seed, "rows of runs", epoch * n_groups + k).permutation(len(y))
        return X[shuffled], y[shuffled]


def _row_bytes(X: Rows) -> int:
    if is_sparse(X):
        return max(1, 12 * int(X.nnz) // max(1, X.shape[0]))
    return int(X.shape[1]) * int(X.dtype.itemsize)


class StreamEnded(Exception):
    """Raised when an iterator of batches has no more rows."""


class IteratorSource:
    """Training rows from an iterable of batches of any sizes, read one after the other.

    Parameters
    ----------
    batches : iterable of (X, y), or callable that returns one
        For every epoch, a callable is called again, and an iterable such as a list or a
        ``ChunkedTable`` is iterated again. An iterator is read once.
    n_features : int, default=None
        Number of columns, by default that of the first batch.
    n_held_out : int, default=0
        Number of rows at the start of every epoch to hold out.

    Attributes
    ----------
    n_features : int
        Number of columns. Without the parameter, it is that of the first batch, which is read.
    n_rows : int or None
        Number of rows of an epoch without those held out. It is None before the end of the first
        epoch, unless the batches have an attribute ``n_rows``.

    Raises
    ------
    InputError
        If a batch is not a table of numbers, or there are no rows beyond those held out.

    Notes
    -----
    The current batch and the requested rows are in memory. Rows are not shuffled.

    Examples
    --------
    >>> batches = [(np.eye(2), [0, 1]), (np.eye(2), [2, 3])]
    >>> source = IteratorSource(batches)
    >>> source.read(0, 3)[1], source.read(3, 6)[1], source.n_rows
    (array([0, 1, 2]), array([3, 0, 1]), 4)
    """

    def __init__(
        self, batches: Batches, *, n_features: int | None = None, n_held_out: int = 0
    ) -> None:
        if not callable(batches) and not isinstance(batches, Iterable):
            raise InputError(
                f"batches must be an iterable of (X, y) or a function that returns one, got "
                f"{type(batches).__name__}."
            )
        if n_held_out < 0:
            raise InputError(f"n_held_out must be at least 0, got {n_held_out}.")
        self._batches, self._n_features, self._n_held_out = batches, n_features, n_held_out
        self._is_iterator = not callable(batches) and iter(batches) is batches
        self._position = self._n_read = 0
        self._rows: Iterator[Chunk] = iter(())
        self._buffer = RowBuffer()
        self._empty: Chunk | None = None
        self._held: Chunk | None = None
        self.n_rows: int | None = None
        if (
            not self._is_iterator
            and isinstance(batches, CountedBatches)
            and batches.n_rows is not None
        ):
            self.n_rows = batches.n_rows - n_held_out

    @property
    def n_features(self) -> int:
        """Return the number of columns, by default that of the first batch."""
        if self._n_features is None:
            self._begin()
        assert self._n_features is not None
        return self._n_features

    def read(self, start: int, stop: int) -> Chunk:
        """Return rows ``start:stop``; fewer if an iterator ends.

        ``start`` must not be before the last ``stop``; rows between the two are read and dropped.
        Raises ``StreamEnded`` if an iterator has no more rows.
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
        """Yield the training rows of one epoch, in batches.

        Raises InputError for an iterator, which can be read only once.
        """
        if self._is_iterator:
            raise InputError(
                "An iterator of batches can be read only once, and this needs a separate pass; "
                "give a function that returns a new iterator, or a list."
            )
        skip = self._n_held_out
        for X, y in self._epoch():
            if skip < len(y):
                yield (X[skip:], y[skip:]) if skip else (X, y)
            skip = max(0, skip - len(y))

    def held_out(self) -> Chunk:
        """Return the held-out rows, the first ones of the first epoch."""
        return self._begin()

    def _epoch(self) -> Iterator[Chunk]:
        # Unlike a generator, a map can continue after a batch that raises an error.
        batches = self._batches() if callable(self._batches) else self._batches
        return map(self._check, batches, count())

    def _begin(self) -> Chunk:
        if self._held is None:
            self._held = self._open_epoch()
        return self._held

    def _open_epoch(self) -> Chunk:
        # Reset everything first, so that no rows remain of an epoch that cannot be opened.
        self._rows, self._buffer = self._epoch(), RowBuffer()
        while self._buffer.n_rows <= self._n_held_out:
            if not self._fetch():
                raise InputError(
                    f"The stream has {self._buffer.n_rows} rows and {self._n_held_out} are held "
                    "out: none is left. Give more rows; a function must return a new iterator "
                    "each time."
                )
        assert self._empty is not None
        return self._buffer.take(self._n_held_out) if self._n_held_out else self._empty

    def _fetch(self) -> bool:
        """Add the next batch to the buffer; return False if there is none."""
        chunk = next(self._rows, None)
        if chunk is not None:
            self._buffer.add(*chunk)
        return chunk is not None

    def _check(self, batch: Batch, index: int) -> Chunk:
        X, y = check_chunk(batch, index, self._n_features, self._empty)
        self._n_features = int(X.shape[1])
        self._empty = self._empty or (X[:0], y[:0])
        return X, y

    def _take(self, max_rows: int) -> Chunk:
        """Return between one and ``max_rows`` rows."""
        while self._buffer.n_rows == 0:
            if not self._fetch():
                self.n_rows = self._n_read if self.n_rows is None else self.n_rows
                if self._is_iterator:
                    raise StreamEnded(f"The stream ended after {self._position:,} rows.")
                self._open_epoch()
        chunk = self._buffer.take(min(max_rows, self._buffer.n_rows))
        self._n_read += len(chunk[1])
        return chunk
