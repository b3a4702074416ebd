"""External shuffle: streams larger than memory, distributed at random to shards on a disk."""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import chain
from math import prod
from numbers import Integral
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import DataFileError, InputError
from gramless.base.files import open_replacement
from gramless.base.formatting import format_bytes
from gramless.base.random import stream
from gramless.base.state import Json
from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.datasets.files import convert_errors
from gramless.datasets.pieces import Chunk, join
from gramless.preprocessing.rows import Rows
from gramless.streaming.chunk_checks import (
    Batch,
    BlockSizes,
    check_finite,
    is_sparse,
    regroup_chunks,
)
from gramless.streaming.reservoir import Reservoir, row_draws
from gramless.streaming.sources import GroupReader, split_by_epoch

# A shard is called a pile in the names of files, manifest fields and random streams, and the
# manifest is spool.json. These names belong to the format of the folders: changing one makes older
# folders unreadable or reorders their rows.
MANIFEST = "spool.json"
VERSION = 1
ROW_TYPE, TARGET_TYPE = np.dtype("<f4"), np.dtype("<f8")

_CHUNK_BYTES = 1 << 25

Float32Array = NDArray[np.float32]


@dataclass(frozen=True)
class ShuffleSizes:
    """Sizes and limits of an external shuffle."""

    shard_rows: int = 65_536  # per shard, on average; about as many rows are in memory at a time
    default_n_shards: int = 256  # if the number of rows is unknown
    max_sparse_columns: int = 20_000  # wider sparse rows are an error, because shards are dense
    max_disk_share: float = 0.9  # default disk limit, as a share of free space
    blocks: BlockSizes = field(default_factory=BlockSizes)

    def __post_init__(self) -> None:
        if self.shard_rows < 1:
            raise InputError(f"shard_rows must be at least 1, got {self.shard_rows}.")


def external_shuffle(
    chunks: Iterable[Batch],
    folder: Path,
    *,
    seed: int,
    n_held_out: int = 0,
    n_rows: int | None = None,
    origin: dict[str, int] | None = None,
    disk_bytes: int | None = None,
    sizes: ShuffleSizes | None = None,
) -> ShardSource:
    """Shuffle a stream of dense or CSR rows with numerical targets on a disk.

    Each row goes to a random shard. The files depend only on the seed and the rows, not on the
    chunks, which are read once. The remains of an interrupted shuffle in the folder are removed;
    a finished shuffle there raises InputError. DataFileError is raised if the folder cannot be
    written.

    ``n_rows`` may be approximate; if it is None, there are 256 shards of any size. ``origin``
    identifies the source of the rows. ``disk_bytes`` limits the size of all shards, by default to
    nine tenths of the free space.

    Disk use is ``4 n_features + 8 n_outputs`` bytes per row. Memory use is the current chunk, three
    blocks of at most 32 MB, and the held-out rows.
    """
    sizes = sizes or ShuffleSizes()
    if n_held_out < 0:
        raise InputError(f"n_held_out must be at least 0, got {n_held_out}.")
    if disk_bytes is not None and (
        isinstance(disk_bytes, bool) or not isinstance(disk_bytes, Integral) or disk_bytes < 0
    ):
        raise InputError(f"disk_bytes must be a whole number of bytes, got {disk_bytes!r}.")
    folder = Path(folder)
    with _convert_write_errors(folder):
        if (folder / MANIFEST).exists():
            raise InputError(
                f"{folder} holds a finished shuffle; read it with ShardSource.open, or remove the "
                "folder."
            )
        folder.mkdir(parents=True, exist_ok=True)
        # The files of an interrupted shuffle: shards are appended to, so these must go.
        for pattern in ("pile-*.rows", "pile-*.targets", "held-out.rows", "held-out.targets"):
            for path in folder.glob(pattern):
                path.unlink()
        free = shutil.disk_usage(folder).free
    n_shards = sizes.default_n_shards
    if n_rows is not None:
        n_shards = max(1, -(-n_rows // sizes.shard_rows))
    max_bytes = int(sizes.max_disk_share * free) if disk_bytes is None else disk_bytes
    shards = [Shard(f"pile-{k:05}") for k in range(n_shards)]
    held = Reservoir(n_held_out, seed, "held out of piles")
    writer = _ShardWriter(folder, seed, shards, held, n_rows or 0, max_bytes)
    for X, y in regroup_chunks(chunks, dense=True, sizes=sizes.blocks):
        writer.add(*_convert_for_storage(X, y, writer.n_rows, sizes.max_sparse_columns))
    writer.finish(sizes.shard_rows, origin)
    return ShardSource.open(folder)


@dataclass
class Shard:
    """A file of rows and a file of their targets on the disk, with checksums."""

    name: str
    n_rows: int = 0
    rows_crc: int = 0
    targets_crc: int = 0

    def paths(self, folder: Path) -> tuple[Path, Path]:
        return folder / f"{self.name}.rows", folder / f"{self.name}.targets"

    def append(self, folder: Path, X: Float32Array, y: FloatArray) -> None:
        rows, targets = X.tobytes(), y.tobytes()
        for path, content in zip(self.paths(folder), (rows, targets), strict=True):
            with open(path, "ab") as file:
                file.write(content)
        self.rows_crc = zlib.crc32(rows, self.rows_crc)
        self.targets_crc = zlib.crc32(targets, self.targets_crc)
        self.n_rows += len(y)

    def load(self, folder: Path, n_features: int, outputs: tuple[int, ...]) -> Chunk:
        rows_path, targets_path = self.paths(folder)
        X = _read_array(rows_path, ROW_TYPE, (self.n_rows, n_features), self.rows_crc)
        return X, _read_array(targets_path, TARGET_TYPE, (self.n_rows, *outputs), self.targets_crc)

    def check_sizes(self, folder: Path, n_features: int, outputs: tuple[int, ...]) -> None:
        """Raise DataFileError if a file is missing or has another length, without reading it."""
        widths = n_features * ROW_TYPE.itemsize, prod(outputs) * TARGET_TYPE.itemsize
        for path, width in zip(self.paths(folder), widths, strict=True):
            with convert_errors(path):
                size = path.stat().st_size
            if size != self.n_rows * width:
                raise _damage_error(path, f"it has {size:,} bytes, not {self.n_rows * width:,}")


@dataclass
class _ShardWriter:
    """A writer of rows to random shards, within a limit of bytes on the disk."""

    folder: Path
    seed: int
    shards: list[Shard]
    held: Reservoir
    expected_rows: int
    disk_bytes: int
    n_rows: int = 0
    n_features: int = 0
    outputs: tuple[int, ...] = ()

    def add(self, X: Float32Array, y: FloatArray) -> None:
        self.n_features, self.outputs = X.shape[1], y.shape[1:]
        row_indices = np.arange(self.n_rows, self.n_rows + len(y))
        self.n_rows += len(y)
        n_rows, row_bytes = max(self.n_rows, self.expected_rows), X[:1].nbytes + y[:1].nbytes
        # Check against the expected row count, to fail before anything is written.
        if n_rows * row_bytes > self.disk_bytes:
            raise InputError(
                f"{n_rows:,} shuffled rows of {row_bytes:,} bytes need "
                f"{format_bytes(n_rows * row_bytes)} on disk, but the limit is "
                f"{format_bytes(self.disk_bytes)} in {str(self.folder)!r}: "
                "name a folder on a larger disk with folder=, free some space, or raise the limit "
                "with disk_bytes=."
            )
        is_held, evicted = self.held.add(X, y, row_indices)
        self._append(*evicted)
        self._append(X[~is_held], y[~is_held], row_indices[~is_held])

    def _append(self, X: Float32Array, y: FloatArray, row_indices: IntArray) -> None:
        draws = row_draws(self.seed, "piles", row_indices)
        shards = (draws * len(self.shards)).astype(np.intp)
        order = np.argsort(shards, kind="stable")
        X, y = X[order], y[order]
        used, starts = np.unique(shards[order], return_index=True)
        bounds = np.append(starts, len(y)).tolist()
        with _convert_write_errors(self.folder):
            for k, start, stop in zip(used.tolist(), bounds[:-1], bounds[1:], strict=True):
                self.shards[k].append(self.folder, X[start:stop], y[start:stop])

    def finish(self, shard_rows: int, origin: dict[str, int] | None) -> None:
        shards = [shard for shard in self.shards if shard.n_rows]
        if not shards:
            raise InputError(f"All {self.n_rows} rows of the stream are held out; hold out fewer.")
        held = Shard("held-out")
        with _convert_write_errors(self.folder):
            if self.held.size:
                held.append(self.folder, *self.held.rows())
            manifest = {
                "version": VERSION,
                "origin": origin,
                "seed": self.seed,
                "n_features": self.n_features,
                "outputs": self.outputs,
                "pile_rows": shard_rows,
                "held_out": asdict(held),
                "piles": [asdict(shard) for shard in shards],
            }
            # A folder without a manifest is unfinished, so the manifest is written last.
            with open_replacement(self.folder / MANIFEST) as file:
                file.write(json.dumps(manifest, indent=1).encode())


def _convert_for_storage(
    X: Rows, y: AnyArray, first: int, max_sparse_columns: int
) -> tuple[Float32Array, FloatArray]:
    """Return rows and targets in the types of the files; ``first`` is the index of row 0."""
    if y.dtype.kind not in "biuf":
        raise InputError(f"Targets to shuffle must be numbers, got {y.dtype}; encode labels first.")
    if is_sparse(X):
        if X.shape[1] > max_sparse_columns:
            raise InputError(
                f"Sparse rows of {X.shape[1]:,} columns are too wide to be written as arrays (at "
                f"most {max_sparse_columns:,}); reduce the inputs first."
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


@contextmanager
def _convert_write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataFileError(
            f"{folder} cannot be written ({error}); free some space or choose another folder."
        ) from error


class ShardSource:
    """Training rows in a folder that ``external_shuffle`` has written.

    Each epoch visits the shards in a new order and permutes the rows of each, both determined by
    the seed and the epoch. Consecutive shards with at most ``shard_rows`` rows together form a
    group and are read together; a larger shard is a group by itself. One group is in memory, and
    briefly a second copy while its rows are permuted. Checksums are verified when a shard is read.
    ``checksum`` covers all rows, targets and their order. ``names`` and ``target_name`` are not in
    the folder; callers that know them set them.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Json]) -> None:
        self.folder = folder
        self.seed, self.n_features = int(manifest["seed"]), int(manifest["n_features"])
        self.origin = manifest.get("origin")
        content = json.dumps(manifest, sort_keys=True).encode()
        self.checksum = hashlib.blake2b(content, digest_size=16).hexdigest()
        self.names: tuple[str, ...] | None = None
        self.target_name: str | None = None
        self._outputs = tuple(int(k) for k in manifest["outputs"])
        self._held = Shard(**manifest["held_out"])
        shards = [Shard(**shard) for shard in manifest["piles"]]
        self._groups = _group_small_shards(shards, int(manifest["pile_rows"]))
        self._sizes = np.array([sum(shard.n_rows for shard in group) for group in self._groups])
        self.n_rows = int(self._sizes.sum())
        if min(self.n_features, *self._sizes) < 1:
            raise ValueError("a shard without rows")
        self._orders = lru_cache(maxsize=2)(
            lambda epoch: stream(self.seed, "order of piles", epoch).permutation(len(self._groups))
        )
        self._reader = GroupReader(
            lambda epoch: self._sizes[self._orders(epoch)], self._load_shuffled_group
        )

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a folder of ``external_shuffle``.

        Raise DataFileError if the manifest is invalid, or a file is missing or of another size.
        """
        folder = Path(folder)
        path = folder / MANIFEST
        with convert_errors(path):
            content = path.read_bytes()
        try:
            manifest = json.loads(content)
            if manifest["version"] != VERSION:
                raise ValueError(f"version {manifest['version']}")
            source = cls(folder, manifest)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise _damage_error(path, str(error)) from error
        held = [source._held] if source._held.n_rows else []
        for shard in chain(held, *source._groups):
            shard.check_sizes(folder, source.n_features, source._outputs)
        return source

    def read(self, start: int, stop: int) -> Chunk:
        """Return the training rows at these positions of the endless sequence of epochs.

        Position ``p`` is in epoch ``p // n_rows``.
        """
        parts = split_by_epoch(start, stop, self.n_rows)
        chunks = [chunk for part in parts for chunk in self._reader.read(*part)]
        return join(chunks) if chunks else self._no_rows()

    def chunks(self) -> Iterator[Chunk]:
        """Yield every training row once, shard by shard, in chunks of at most 32 MB."""
        n_rows = max(1, _CHUNK_BYTES // (self.n_features * ROW_TYPE.itemsize))
        for shard in chain(*self._groups):
            X, y = self._load(shard)
            for start, stop in row_blocks(len(y), n_rows):
                yield X[start:stop], y[start:stop]

    def held_out(self) -> Chunk:
        """Return the held-out rows in the order of the stream."""
        return self._load(self._held) if self._held.n_rows else self._no_rows()

    def _load(self, shard: Shard) -> Chunk:
        return shard.load(self.folder, self.n_features, self._outputs)

    def _no_rows(self) -> Chunk:
        return np.empty((0, self.n_features), np.float32), np.empty((0, *self._outputs))

    def _load_shuffled_group(self, epoch: int, k: int) -> Chunk:
        group = int(self._orders(epoch)[k])
        X, y = join([self._load(shard) for shard in self._groups[group]])
        block = epoch * len(self._groups) + group
        order = stream(self.seed, "rows of piles", block).permutation(len(y))
        return X[order], y[order]


def _group_small_shards(shards: list[Shard], shard_rows: int) -> list[list[Shard]]:
    groups: list[list[Shard]] = []
    n_rows = 0
    for shard in shards:
        if not groups or n_rows + shard.n_rows > shard_rows:
            groups.append([])
            n_rows = 0
        groups[-1].append(shard)
        n_rows += shard.n_rows
    return groups


def _read_array(
    path: Path, dtype: np.dtype[np.generic], shape: tuple[int, ...], checksum: int
) -> AnyArray:
    with convert_errors(path):
        values = np.fromfile(path, dtype)
    if values.size != prod(shape):
        raise _damage_error(path, f"it has {values.size:,} numbers, not {prod(shape):,}")
    if zlib.crc32(values.data) != checksum:
        raise _damage_error(path, "its checksum is wrong")
    return values.reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def _damage_error(path: Path, what: str) -> DataFileError:
    return DataFileError(
        f"{path} is damaged ({what}); remove its folder and shuffle the rows again."
    )
