"""Streams from files larger than memory, with rows that are shuffled on a disk."""

from __future__ import annotations

import os
import re
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gramless.base.errors import InputError
from gramless.base.random import RandomStateLike, seed_from
from gramless.base.types import AnyArray
from gramless.datasets.pieces import Chunk
from gramless.datasets.readers import open_chunks
from gramless.streaming.external_shuffle import MANIFEST, ShardSource, external_shuffle
from gramless.streaming.sources import MappedSource, RowSource, default_held_out
from gramless.streaming.temporary import temporary_folder


def open_stream(
    path: str | os.PathLike[str],
    *,
    target: str | int | None = None,
    folder: str | os.PathLike[str] | None = None,
    disk_bytes: int | None = None,
    random_state: RandomStateLike = 0,
    max_labels: int = 10_000,
    report: Callable[[str], None] | None = None,
    **options: Any,
) -> RowSource:
    r"""Open a file that is larger than memory as a stream of shuffled rows.

    The file is read twice: first for its labels and length, then to write its rows in random order
    to files on the disk. Each epoch reads these files in a new order.

    Parameters
    ----------
    path : str or path-like
        CSV, TSV, LIBSVM (plain or compressed), Parquet, Arrow IPC, NPZ or NPY: see
        :func:`~gramless.datasets.open_chunks`.
    target : str or int, optional
        The column of targets. By default, the column named ``target``, ``label``, ``class`` or
        ``y``, otherwise the last one.
    folder : path-like, optional
        Folder for the shuffled rows. Later calls with the same file reuse them as they are, and
        ignore ``random_state`` and ``disk_bytes``. By default, a temporary folder that is removed
        with the stream. If the process is killed, the next such stream removes it.
    disk_bytes : int, optional
        Limit on the disk space of the shuffled rows, by default nine tenths of the free space.
    random_state : int, RandomState or None, default=0
        Seed of the order.
    max_labels : int, default=10000
        Maximum number of different texts in the target.
    report : callable, optional
        Called with a line of text after each chunk.
    **options
        Options of ``open_chunks``: ``format``, ``delimiter``, ``header``, ``n_features``,
        ``limits``, ...

    Returns
    -------
    RowSource
        A source for ``fit_stream``. A tenth of the rows, at most 4,096, is held out for
        evaluation. ``names`` are the names of the columns, or None if the file has none or all of
        them are of the form x1, x2, ...

    Raises
    ------
    InputError, DataFileError
        For the reasons of ``open_chunks``; if a row has NaN, a number too large for float32 or an
        empty label; if sparse rows have more than 20,000 columns; if the target has more than
        ``max_labels`` different texts; if the folder holds the rows of another file or
        cannot be written; or if the shuffled rows need more than ``disk_bytes``, before they are
        written.

    Notes
    -----
    The shuffled rows take ``4 n_features + 8`` bytes each on disk.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = Path(place, "pets.csv")
    ...     _ = file.write_text("weight,age,label\n" + "4.5,3,cat\n30,7,dog\n" * 10)
    ...     stream = open_stream(file)
    ...     X, y = stream.read(0, 4)
    >>> stream.n_rows, X.shape, set(y.tolist()) <= {"cat", "dog"}
    (18, (4, 2), True)
    """
    table = open_chunks(path, target=target, **options)
    scan = _scan(_report_rows(table, "counting", report), max_labels)
    chunks = _report_rows(table, "shuffling", report, scan.n_rows)
    place = None if folder is None else Path(folder)
    source = _shuffle_or_reuse(chunks, place, scan, random_state, disk_bytes)
    names = table.names
    # The reader names columns x1, x2, ... if the file has no names.
    if names is None or all(re.fullmatch(r"x\d+", name) for name in names):
        names = None
    source.names, source.target_name = names, table.target_name
    labels = scan.labels
    return source if labels is None else MappedSource(source, lambda y: labels[y.astype(np.intp)])


def _report_rows(
    chunks: Iterable[Chunk], what: str, report: Callable[[str], None] | None, of: int | None = None
) -> Iterator[Chunk]:
    """Yield the chunks, and report the number of rows so far."""
    n_rows = 0
    for X, y in chunks:
        yield X, y
        n_rows += len(y)
        if report is not None:
            report(f"{what}, {n_rows:,} {'' if of is None else f'of {of:,} '}rows")


@dataclass(frozen=True)
class _Scan:
    labels: AnyArray | None  # None if targets are numbers
    n_rows: int
    checksum: int


def _scan(chunks: Iterable[Chunk], max_labels: int) -> _Scan:
    labels: set[str] = set()
    # Checksums of the numbers, of their columns and numbers per row if rows are sparse, and of the
    # targets.
    n_rows, sums = 0, [0, 0, 0, 0]
    for X, y in chunks:
        is_text = y.dtype.kind in "OU"
        if is_text and len(labels) <= max_labels:
            labels.update(y.tolist())
            if "" in labels:
                row = n_rows + int(np.flatnonzero(y == "")[0])
                raise InputError(
                    f"Row {row:,} of the stream (from 0) has no label; remove such rows."
                )
        n_rows += len(y)
        text = "\n".join([*y.tolist(), ""]).encode() if is_text else y
        if isinstance(X, np.ndarray):
            parts = (X, b"", b"", text)
        else:
            parts = (X.data, X.indices, np.diff(X.indptr), text)
        buffers = (p if isinstance(p, bytes) else np.ascontiguousarray(p).data for p in parts)
        sums = [zlib.crc32(part, crc) for part, crc in zip(buffers, sums, strict=True)]
    if len(labels) > max_labels:
        raise InputError(
            f"the target holds more than {max_labels:,} different texts; name another column as "
            f"target."
        )
    sorted_labels = np.array(sorted(labels), dtype=object) if labels else None
    return _Scan(sorted_labels, n_rows, zlib.crc32(repr(sums).encode()))


def _shuffle_or_reuse(
    chunks: Iterable[Chunk],
    folder: Path | None,
    scan: _Scan,
    random_state: RandomStateLike,
    disk_bytes: int | None,
) -> ShardSource:
    """Shuffle rows into a folder, or reuse its rows if they are of the same file.

    Without ``folder``, they go to a temporary folder, which is removed with the source.
    """
    if folder is None:
        folder, remove = temporary_folder()
        try:
            source = _shuffle_or_reuse(chunks, folder, scan, random_state, disk_bytes)
        except BaseException:
            remove()
            raise
        # A TemporaryDirectory would warn if it is not closed.
        weakref.finalize(source, remove)
        return source
    origin = {"rows": scan.n_rows, "checksum": scan.checksum}
    if (folder / MANIFEST).exists():
        shards = ShardSource.open(folder)
        if shards.origin != origin:
            raise InputError(
                f"{str(folder)!r} holds the rows of another file; name another folder, or remove "
                f"it."
            )
        return shards
    labels = scan.labels
    if labels is not None:
        chunks = ((X, np.searchsorted(labels, y).astype(np.float64)) for X, y in chunks)
    return external_shuffle(
        chunks,
        folder,
        seed=seed_from(random_state),
        n_held_out=default_held_out(scan.n_rows),
        n_rows=scan.n_rows,
        origin=origin,
        disk_bytes=disk_bytes,
    )
