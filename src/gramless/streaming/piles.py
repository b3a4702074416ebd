"""Piles of rows on a disk, each a random sample, read as one endless shuffled order."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import DataFileError
from gramless.base.threads import row_blocks
from gramless.datasets.files import faults
from gramless.datasets.pieces import Chunk, join
from gramless.streaming.orders import GroupReader, Recent, epoch_parts, shuffled

MANIFEST = "spool.json"
VERSION = 1
ROW_TYPE, TARGET_TYPE = np.dtype("<f4"), np.dtype("<f8")

_CHUNK_BYTES = 1 << 25


@dataclass
class Pile:
    """Rows on the disk: two files, of rows and of targets."""

    name: str
    n_rows: int = 0
    rows_crc: int = 0
    targets_crc: int = 0

    def paths(self, folder: Path) -> tuple[Path, Path]:
        """Return the files of rows and of targets."""
        return folder / f"{self.name}.rows", folder / f"{self.name}.targets"

    def append(self, folder: Path, X: NDArray[np.float32], y: NDArray[np.float64]) -> None:
        """Write more rows behind those there are."""
        rows, targets = X.tobytes(), y.tobytes()
        for path, content in zip(self.paths(folder), (rows, targets), strict=True):
            with open(path, "ab") as file:
                file.write(content)
        self.rows_crc = zlib.crc32(rows, self.rows_crc)
        self.targets_crc = zlib.crc32(targets, self.targets_crc)
        self.n_rows += len(y)

    def load(self, folder: Path, n_features: int, outputs: tuple[int, ...]) -> Chunk:
        """Return all rows and targets."""
        rows_path, targets_path = self.paths(folder)
        X = _read(rows_path, ROW_TYPE, (self.n_rows, n_features), self.rows_crc)
        return X, _read(targets_path, TARGET_TYPE, (self.n_rows, *outputs), self.targets_crc)

    def check_sizes(self, folder: Path, n_features: int, outputs: tuple[int, ...]) -> None:
        """Refuse files that are missing or of another length, without reading them."""
        widths = n_features * ROW_TYPE.itemsize, prod(outputs) * TARGET_TYPE.itemsize
        for path, width in zip(self.paths(folder), widths, strict=True):
            with faults(path):
                size = path.stat().st_size
            if size != self.n_rows * width:
                raise _damaged(path, f"it has {size:,} bytes, not {self.n_rows * width:,}")


class PileSource:
    """Training rows in a folder that ``spool`` has filled.

    Every epoch takes the piles in an order of its own, and the rows of each pile too: a function
    of the seed and the epoch in which each row occurs once. Piles smaller than ``pile_rows`` are
    taken together.

    Attributes
    ----------
    folder : Path
    seed : int
        Of the spool and of the orders.
    n_features, n_rows : int
        ``n_rows`` without those held out.
    origin : dict or None
        As ``spool`` was given it.
    checksum : str
        Of the rows, their targets and their order: of the checksums of the piles, and the seed.
    names : tuple of str or None
        Of the columns, where somebody sets them.

    Notes
    -----
    Holds one pile, twice for a moment. Checksums are checked whenever a pile is read.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.seed, self.n_features = int(manifest["seed"]), int(manifest["n_features"])
        self.origin = manifest.get("origin")
        content = json.dumps(manifest, sort_keys=True).encode()
        self.checksum = hashlib.blake2b(content, digest_size=16).hexdigest()
        self.names: tuple[str, ...] | None = None
        self._outputs = tuple(int(k) for k in manifest["outputs"])
        self._held = Pile(**manifest["held_out"])
        piles = [Pile(**pile) for pile in manifest["piles"]]
        self._groups = _grouped(piles, int(manifest["pile_rows"]))
        self._sizes = np.array([sum(pile.n_rows for pile in group) for group in self._groups])
        self.n_rows = int(self._sizes.sum())
        if min(self.n_features, *self._sizes) < 1:
            raise ValueError("a pile without rows")
        self._orders = Recent(self._order)
        self._reader = GroupReader(lambda epoch: self._sizes[self._orders(epoch)], self._mixed)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a folder that ``spool`` has filled.

        Parameters
        ----------
        folder : Path

        Returns
        -------
        PileSource

        Raises
        ------
        DataFileError
            If the folder holds no finished spool, or files are missing or of another length.
        """
        folder = Path(folder)
        path = folder / MANIFEST
        with faults(path):
            content = path.read_bytes()
        try:
            manifest = json.loads(content)
            if manifest["version"] != VERSION:
                raise ValueError(f"version {manifest['version']}")
            source = cls(folder, manifest)
        except (KeyError, TypeError, ValueError, OverflowError) as fault:
            raise _damaged(path, str(fault)) from fault
        held = [source._held] if source._held.n_rows else []
        for pile in chain(held, *source._groups):
            pile.check_sizes(folder, source.n_features, source._outputs)
        return source

    def read(self, start: int, stop: int) -> Chunk:
        """Return rows of the endless order.

        Parameters
        ----------
        start, stop : int
            Positions; position ``p`` is in epoch ``p // n_rows``.

        Returns
        -------
        X : ndarray (stop - start, n_features) of float32
        y : ndarray (stop - start,) or (stop - start, n_outputs) of float64

        Raises
        ------
        DataFileError
            If a pile is damaged.
        """
        parts = epoch_parts(start, stop, self.n_rows)
        chunks = [chunk for part in parts for chunk in self._reader.read(*part)]
        return join(chunks) if chunks else self._none()

    def chunks(self) -> Iterator[Chunk]:
        """Yield the training rows once, pile by pile, at most 32 MB at a time."""
        most = max(1, _CHUNK_BYTES // (self.n_features * ROW_TYPE.itemsize))
        for pile in chain(*self._groups):
            X, y = pile.load(self.folder, self.n_features, self._outputs)
            for start, stop in row_blocks(len(y), most):
                yield X[start:stop], y[start:stop]

    def held_out(self) -> Chunk:
        """Return the rows kept back, in the order of the stream."""
        if self._held.n_rows == 0:
            return self._none()
        return self._held.load(self.folder, self.n_features, self._outputs)

    def _none(self) -> Chunk:
        return np.empty((0, self.n_features), np.float32), np.empty((0, *self._outputs))

    def _order(self, epoch: int) -> NDArray[np.intp]:
        return shuffled(self.seed, "order of piles", epoch, len(self._groups))

    def _mixed(self, epoch: int, k: int) -> Chunk:
        group = int(self._orders(epoch)[k])
        piles = self._groups[group]
        X, y = join([pile.load(self.folder, self.n_features, self._outputs) for pile in piles])
        block = epoch * len(self._groups) + group
        order = shuffled(self.seed, "rows of piles", block, len(y))
        return X[order], y[order]


def _grouped(piles: list[Pile], pile_rows: int) -> list[list[Pile]]:
    """Put small piles together, as long as they have at most ``pile_rows`` rows."""
    groups: list[list[Pile]] = []
    n_rows = 0
    for pile in piles:
        if not groups or n_rows + pile.n_rows > pile_rows:
            groups.append([])
            n_rows = 0
        groups[-1].append(pile)
        n_rows += pile.n_rows
    return groups


def _read(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], checksum: int) -> NDArray[Any]:
    with faults(path):
        values = np.fromfile(path, dtype)
    if values.size != prod(shape):
        raise _damaged(path, f"it has {values.size:,} numbers, not {prod(shape):,}")
    if zlib.crc32(values.data) != checksum:
        raise _damaged(path, "its checksum is another")
    return values.reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def _damaged(path: Path, what: str) -> DataFileError:
    return DataFileError(f"{path} is damaged ({what}); remove its folder and spool the rows again.")
