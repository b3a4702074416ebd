"""One door to streams: files larger than memory, shuffled on a disk."""

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
from gramless.base.random import RandomState, seed_from
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
    random_state: RandomState = 0,
    max_labels: int = 10_000,
    report: Callable[[str], None] | None = None,
    **options: Any,
) -> RowSource:
    r"""Open a file that is larger than memory as a stream of shuffled rows.

    The file is read twice: for its labels and length, then to deal its rows at random to files on
    the disk, from which every epoch is read in an order of its own.

    Parameters
    ----------
    path : str or path-like
        CSV, TSV, LIBSVM (plain or compressed), Parquet, Arrow IPC, NPZ or NPY: see
        :func:`~gramless.datasets.open_chunks`.
    target : str or int, optional
        The column of targets: by default as everywhere, ``target``, ``label``, ``class`` or ``y``,
        else the last.
    folder : path-like, optional
        Where the shuffled rows are kept, and found again next time. By default a temporary
        folder that goes with the stream; if the process is killed, with the next such stream.
    disk_bytes : int, optional
        What the shuffled rows may take on the disk: by default nine tenths of what is free there.
    random_state : int, RandomState or None, default=0
        Of the order.
    max_labels : int, default=10000
        Different texts that the target may hold.
    report : callable, optional
        Given a line for every chunk that has been read.
    **options
        Of ``open_chunks``: ``format``, ``delimiter``, ``header``, ``n_features``, ``limits``, ...

    Returns
    -------
    RowSource
        For ``fit_stream``. A tenth of the rows, at most 4,096, is held out for evaluation. Its
        ``names`` are those of the columns, None where the file has none.

    Raises
    ------
    InputError, DataFileError
        As ``open_chunks``; for NaN and empty labels, naming the row; if the folder holds
        something else; if the shuffled rows need more than ``disk_bytes``, before they are
        written.

    Notes
    -----
    ``4 n_features + 8`` bytes of disk a row.

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
    seen = _look(_counted(table, "counting", report), max_labels)
    chunks = _counted(table, "shuffling", report, seen.n_rows)
    place = None if folder is None else Path(folder)
    source = _shuffled(chunks, place, seen, random_state, disk_bytes)
    source.names, source.target_name = _own_names(table.names), table.target_name
    labels = seen.labels
    return source if labels is None else MappedSource(source, lambda y: labels[y.astype(np.intp)])


def _counted(
    chunks: Iterable[Chunk], what: str, report: Callable[[str], None] | None, of: int | None = None
) -> Iterator[Chunk]:
    """Pass chunks on, and tell how many rows have passed."""
    n_rows = 0
    for X, y in chunks:
        yield X, y
        n_rows += len(y)
        if report is not None:
            report(f"{what}, {n_rows:,} {'' if of is None else f'of {of:,} '}rows")


def _own_names(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return names of columns unless the reader has made them up: x1, x2, ..."""
    if names is None or all(re.fullmatch(r"x\d+", name) for name in names):
        return None
    return names


@dataclass(frozen=True)
class _Seen:
    """What a first look at a file finds: its labels, None where they are numbers, and its rows."""

    labels: AnyArray | None
    n_rows: int
    checksum: int


def _look(chunks: Iterable[Chunk], max_labels: int) -> _Seen:
    found: set[str] = set()
    n_rows, sums = 0, [0, 0, 0, 0]
    for X, y in chunks:
        is_text = y.dtype.kind in "OU"
        if is_text and len(found) <= max_labels:
            found.update(y.tolist())
            if "" in found:
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
        whole = (p if isinstance(p, bytes) else np.ascontiguousarray(p).data for p in parts)
        sums = [zlib.crc32(part, old) for part, old in zip(whole, sums, strict=True)]
    if len(found) > max_labels:
        raise InputError(
            f"the target holds more than {max_labels:,} different texts; name another column as "
            f"target."
        )
    labels = np.array(sorted(found), dtype=object) if found else None
    return _Seen(labels, n_rows, zlib.crc32(repr(sums).encode()))


def _shuffled(
    chunks: Iterable[Chunk],
    folder: Path | None,
    seen: _Seen,
    random_state: RandomState,
    disk_bytes: int | None,
) -> ShardSource:
    """Shuffle rows in a folder, or find them there; by default in one that goes with the source."""
    if folder is None:
        folder, remove = temporary_folder()
        try:
            source = _shuffled(chunks, folder, seen, random_state, disk_bytes)
        except BaseException:
            remove()
            raise
        # No TemporaryDirectory, which warns where it is not closed.
        weakref.finalize(source, remove)
        return source
    origin = {"rows": seen.n_rows, "checksum": seen.checksum}
    if (folder / MANIFEST).exists():
        found = ShardSource.open(folder)
        if found.origin != origin:
            raise InputError(
                f"{str(folder)!r} holds the rows of another file; name another folder, or remove "
                f"it."
            )
        return found
    labels = seen.labels
    if labels is not None:
        chunks = ((X, np.searchsorted(labels, y).astype(np.float64)) for X, y in chunks)
    return external_shuffle(
        chunks,
        folder,
        seed=seed_from(random_state),
        n_held_out=default_held_out(seen.n_rows),
        n_rows=seen.n_rows,
        origin=origin,
        disk_bytes=disk_bytes,
    )
