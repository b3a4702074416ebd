"""The known data sets: their sizes, the addresses of their files, and how to read these."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gramless.base.errors import DataFileError
from gramless.base.types import AnyArray
from gramless.datasets.delimited import read_csv
from gramless.datasets.files import plain_path
from gramless.datasets.libsvm import libsvm_pieces, read_libsvm
from gramless.datasets.limits import ReadLimits
from gramless.datasets.pieces import Chunk, join
from gramless.datasets.table import Table

Task = Literal["binary", "multiclass", "regression"]
Loader = Literal["libsvm", "sparse-libsvm", "letter", "kddcup99"]


@dataclass(frozen=True)
class RemoteFile:
    """One file to download; without a known checksum, it is trusted at its first use."""

    url: str
    sha256: str | None = None

    @property
    def name(self) -> str:
        """The file name in the data folder."""
        return unquote(urlsplit(self.url).path).rpartition("/")[2]


@dataclass(frozen=True)
class KnownSet:
    """A known data set.

    ``n_rows`` counts the rows of the training file. If there is no test file, the last
    ``n_test_rows`` of them are the official test set. Without ``train`` the data set cannot be
    downloaded, and only ``NAME.npz`` is accepted.
    """

    name: str
    task: Task
    n_rows: int
    n_columns: int
    description: str
    train: RemoteFile | None = None
    test: RemoteFile | None = None
    n_test_rows: int = 0
    loader: Loader = "libsvm"


def _read_known() -> dict[str, KnownSet]:
    entries = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    for entry in entries.values():
        entry |= {k: RemoteFile(**entry[k]) for k in ("train", "test") if k in entry}
    return {name: KnownSet(name, **entry) for name, entry in entries.items()}


KNOWN = _read_known()


def read_original(known: KnownSet, train: Path, test: Path | None) -> tuple[Chunk, Chunk | None]:
    """Return the training and test rows in the published files of a known data set."""
    if known.loader == "letter":
        return _letter(train), None
    if known.loader == "kddcup99":
        paths = [path for path in (train, test) if path is not None]
        tables, labels = zip(*map(_kddcup99, paths), strict=True)
        parts = list(zip(_one_hot(tables), labels, strict=True))
        return parts[0], parts[1] if len(parts) > 1 else None
    return _libsvm(known, train), _libsvm(known, test) if test is not None else None


def _libsvm(known: KnownSet, path: Path) -> Chunk:
    if known.loader == "sparse-libsvm":
        return read_libsvm(path, n_features=known.n_columns, zero_based=False)
    # Converting block by block keeps only one block in sparse form beside the dense result.
    tables = libsvm_pieces(plain_path(path), known.n_columns, False, ReadLimits()).read()
    rows = ((sparse.csr_matrix(table.matrix).toarray(), table.target) for table in tables)
    return join([(X.astype(np.float32), np.asarray(y)) for X, y in rows])


def _letter(path: Path) -> Chunk:
    X, y, _ = read_csv(path, header=False).split_target("x1")
    if (
        not isinstance(X, Table)
        or X.categorical
        or not all(len(c) == 1 and "A" <= c <= "Z" for c in y.astype(str))
    ):
        raise DataFileError(f"{path} is not letter-recognition.data: a letter, then numbers.")
    return np.asarray(X, np.float32), np.array([ord(c) - ord("A") for c in y])


def _kddcup99(path: Path) -> tuple[Table, AnyArray]:
    X, y, _ = read_csv(path, header=False).split_target(-1)
    if not isinstance(X, Table) or not X.categorical or y.dtype.kind != "O":
        raise DataFileError(f"{path} is not a KDD Cup 99 file: words among numbers, then a label.")
    return X, (y != "normal.").astype(np.int64)


def _one_hot(tables: Sequence[Table]) -> list[NDArray[np.float32]]:
    """One-hot encode the text columns, with the sorted levels of all tables together."""
    blocks: list[list[NDArray[np.float32]]] = [[] for _ in tables]
    for name in tables[0].names or ():
        columns = [table.column(name) for table in tables]
        if all(column.dtype.kind != "O" for column in columns):
            encoded = [column[:, None] for column in columns]
        else:
            words = [column.astype(str) for column in columns]
            levels = np.unique(np.concatenate(words))
            encoded = [column[:, None] == levels for column in words]
        for block, new in zip(blocks, encoded, strict=True):
            block.append(new.astype(np.float32))
    return [np.concatenate(block, axis=1) for block in blocks]
