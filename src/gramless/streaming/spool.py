"""Streams larger than memory put in random order on a disk: piles, each a random sample."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import DataFileError, InputError
from gramless.base.files import replacing
from gramless.base.words import sized
from gramless.streaming.passes import Reservoir, check_finite, fixed_blocks, row_draws
from gramless.streaming.piles import (
    MANIFEST,
    ROW_TYPE,
    TARGET_TYPE,
    VERSION,
    Pile,
    PileSource,
)

__all__ = ["PILE_ROWS", "PileSource", "spool"]

PILE_ROWS = 65_536

_MOST_DENSE_COLUMNS = 20_000
_PILES_UNKNOWN = 256
_SHARE_OF_FREE = 0.9


def spool(
    chunks: Iterable[tuple[Any, Any]],
    folder: Path,
    *,
    seed: int,
    n_held_out: int = 0,
    pile_rows: int = PILE_ROWS,
    n_rows: int | None = None,
    origin: dict[str, int] | None = None,
    disk_bytes: int | None = None,
) -> PileSource:
    """Shuffle a stream of rows on a disk.

    Each row goes to one of several files at random, so that every file is a random sample of all
    rows. What is written depends on the seed and the rows alone, not on how they are chunked.

    Parameters
    ----------
    chunks : iterable of (X, y)
        Read once. X dense or CSR (n, n_features), y numbers (n,) or (n, n_outputs).
    folder : Path
        Made if it is not there. What an interrupted spool left in it is removed.
    seed : int
        Of the files' contents and of the order of every epoch.
    n_held_out : int, default=0
        Rows drawn at random that are kept back.
    pile_rows : int, default=65536
        Rows of a file, on average, which are in memory at a time.
    n_rows : int or None, default=None
        Rows of the stream, about. Without it there are 256 files, which are as large as the
        stream makes them.
    origin : dict or None, default=None
        Where the rows are from, in numbers: kept as the source's ``origin``.
    disk_bytes : int or None, default=None
        What the files may take together: by default nine tenths of what is free on their disk.

    Returns
    -------
    PileSource

    Raises
    ------
    InputError
        If the folder holds a finished spool, there are no rows to train on, rows are not
        finite numbers in the range of float32, or they need more than ``disk_bytes``: at the first
        row where ``n_rows`` tells.
    DataFileError
        If the folder cannot be written.

    Notes
    -----
    Writes ``4 n_features + 8`` bytes a row once. Holds the chunk that is being read, three times
    32 MB, and the rows held out.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = spool([(np.eye(4), np.arange(4.0))], Path(folder), seed=0)
    ...     sorted(source.read(0, 4)[1].tolist())
    [0.0, 1.0, 2.0, 3.0]
    """
    if pile_rows < 1 or n_held_out < 0:
        raise InputError(
            f"pile_rows must be at least 1 and n_held_out at least 0, got {pile_rows} and "
            f"{n_held_out}."
        )
    if disk_bytes is not None and (
        isinstance(disk_bytes, bool) or not isinstance(disk_bytes, Integral) or disk_bytes < 0
    ):
        raise InputError(f"disk_bytes must be a whole number of bytes, got {disk_bytes!r}.")
    n_piles = _PILES_UNKNOWN if n_rows is None else max(1, -(-n_rows // pile_rows))
    folder = Path(folder)
    with _writing(folder):
        _clear(folder)
        free = shutil.disk_usage(folder).free
    most = int(_SHARE_OF_FREE * free) if disk_bytes is None else disk_bytes
    writer = _Writer(folder, seed, n_piles, n_held_out, _Room(folder, n_rows or 0, most))
    for X, y in fixed_blocks(chunks, dense=True):
        writer.add(X, y)
    writer.finish(pile_rows, origin)
    return PileSource.open(folder)


@dataclass(frozen=True)
class _Room:
    """What the files of a spool may take on the disk.

    Parameters
    ----------
    folder : Path
    n_rows : int
        Rows that are expected, about.
    most : int
        Bytes.
    """

    folder: Path
    n_rows: int
    most: int

    def check(self, n_rows: int, row_bytes: int) -> None:
        """Refuse the rows so far, and those expected, if there is no room for them."""
        n_rows = max(n_rows, self.n_rows)
        if n_rows * row_bytes > self.most:
            raise InputError(
                f"{n_rows:,} shuffled rows of {row_bytes:,} bytes need {sized(n_rows * row_bytes)} "
                f"on the disk, but may take {sized(self.most)} in {str(self.folder)!r}: name a "
                "folder on a larger disk by folder=, free some room, or allow more by disk_bytes=."
            )


class _Writer:
    """Deals rows to piles."""

    def __init__(self, folder: Path, seed: int, n_piles: int, n_held_out: int, room: _Room) -> None:
        self._folder, self._seed, self._room = folder, seed, room
        self._piles = [Pile(f"pile-{k:05}") for k in range(n_piles)]
        self._held = Reservoir(n_held_out, seed, "held out of piles") if n_held_out else None
        self._n_seen = 0
        self._n_features = 0
        self._outputs: list[int] = []

    def add(self, X: Any, y: NDArray[Any]) -> None:
        rows, targets = _as_stored(X, y, self._n_seen)
        self._n_features, self._outputs = rows.shape[1], list(targets.shape[1:])
        numbers = np.arange(self._n_seen, self._n_seen + len(targets))
        self._n_seen += len(targets)
        self._room.check(self._n_seen, rows[:1].nbytes + targets[:1].nbytes)
        if self._held is not None:
            taken, fallen = self._held.add(rows, targets, numbers)
            self._deal(*fallen)
            rows, targets, numbers = rows[~taken], targets[~taken], numbers[~taken]
        self._deal(rows, targets, numbers)

    def _deal(
        self, X: NDArray[np.float32], y: NDArray[np.float64], numbers: NDArray[np.int64]
    ) -> None:
        draws = row_draws(self._seed, "piles", numbers)
        piles = (draws * len(self._piles)).astype(np.intp)
        order = np.argsort(piles, kind="stable")
        X, y = X[order], y[order]
        used, starts = np.unique(piles[order], return_index=True)
        bounds = np.append(starts, len(y)).tolist()
        with _writing(self._folder):
            for k, start, stop in zip(used.tolist(), bounds[:-1], bounds[1:], strict=True):
                self._piles[k].append(self._folder, X[start:stop], y[start:stop])

    def finish(self, pile_rows: int, origin: dict[str, int] | None) -> None:
        """Write what was held out and, last, the manifest."""
        piles = [pile for pile in self._piles if pile.n_rows]
        if not piles:
            raise InputError(f"All {self._n_seen} rows of the stream are held out; hold out fewer.")
        held = Pile("held-out")
        with _writing(self._folder):
            if self._held is not None:
                held.append(self._folder, *self._held.rows())
            manifest = {
                "version": VERSION,
                "origin": origin,
                "seed": self._seed,
                "n_features": self._n_features,
                "outputs": self._outputs,
                "pile_rows": pile_rows,
                "held_out": asdict(held),
                "piles": [asdict(pile) for pile in piles],
            }
            with replacing(self._folder / MANIFEST) as file:
                file.write(json.dumps(manifest, indent=1).encode())


def _as_stored(
    X: Any, y: NDArray[Any], first: int
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return rows and targets in the types in which they are written."""
    if y.dtype.kind not in "biuf":
        raise InputError(f"Targets of a spool must be numbers, got {y.dtype}; encode labels first.")
    if sp.issparse(X):
        if X.shape[1] > _MOST_DENSE_COLUMNS:
            raise InputError(
                f"Sparse rows of {X.shape[1]:,} columns are too wide to be written as arrays (at "
                f"most {_MOST_DENSE_COLUMNS:,}); reduce the inputs first."
            )
        X = X.toarray()
    check_finite(X, y, first)
    with np.errstate(over="ignore"):
        rows = X.astype(ROW_TYPE)
    too_large = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(too_large):
        raise InputError(
            f"Row {first + int(too_large[0]):,} of the stream (from 0) has a number too large "
            "for float32; rescale the inputs."
        )
    return rows, y.astype(TARGET_TYPE)


def _clear(folder: Path) -> None:
    """Make the folder, without what an interrupted spool left there."""
    if (folder / MANIFEST).exists():
        raise InputError(
            f"{folder} holds a finished spool; read it by PileSource.open, or remove the folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in ("pile-*.rows", "pile-*.targets", "held-out.rows", "held-out.targets"):
        for path in folder.glob(pattern):
            path.unlink()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise DataFileError(
            f"{folder} cannot be written ({fault}); free some room or choose another folder."
        ) from fault
