"""The original files of the known data sets, as their publishers wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import DataFileError
from gramless.datasets.csv_reader import read_csv
from gramless.datasets.known import KnownSet
from gramless.datasets.libsvm import read_dense_libsvm, read_libsvm
from gramless.datasets.table import Table

Part = tuple[Any, NDArray[Any]]


def read_original(known: KnownSet, train: Path, test: Path | None) -> tuple[Part, Part | None]:
    """Read the original files of a known data set.

    Parameters
    ----------
    known : KnownSet
    train : Path
    test : Path or None

    Returns
    -------
    train : tuple of X and y
        X as float32 array, or as CSR matrix where the set is sparse.
    test : tuple of X and y, or None
        None if there is no test file.

    Raises
    ------
    DataFileError
        If a file is damaged or of another form.
    """
    if known.loader == "letter":
        return _letter(train), None
    if known.loader == "kddcup99":
        tables = [_kddcup99(path) for path in (train, test) if path is not None]
        parts = _one_hot(tables)
        return parts[0], parts[1] if len(parts) > 1 else None
    return _libsvm(known, train), _libsvm(known, test) if test is not None else None


def _libsvm(known: KnownSet, path: Path) -> Part:
    if known.loader == "sparse-libsvm":
        return read_libsvm(path, n_features=known.n_columns, zero_based=False)
    return read_dense_libsvm(path, known.n_columns)


def _letter(path: Path) -> Part:
    table = read_csv(path, header=False)
    X, y, _ = table.split_target("x1")
    if isinstance(X, Table) or not all(len(c) == 1 and "A" <= c <= "Z" for c in y.astype(str)):
        raise DataFileError(f"{path} is not letter-recognition.data: a letter, then numbers.")
    return X.astype(np.float32), np.array([ord(c) - ord("A") for c in y])


def _kddcup99(path: Path) -> tuple[Table, NDArray[Any]]:
    table = read_csv(path, header=False)
    X, y, _ = table.split_target(-1)
    if not isinstance(X, Table) or y.dtype.kind != "O":
        raise DataFileError(f"{path} is not a KDD Cup 99 file: words among numbers, then a label.")
    return X, (y != "normal.").astype(np.int64)


def _one_hot(tables: list[tuple[Table, NDArray[Any]]]) -> list[Part]:
    """Encode the text columns of all tables alike, levels in sorted order."""
    blocks: list[list[NDArray[np.float32]]] = [[] for _ in tables]
    for name in tables[0][0].names or ():
        columns = [table.column(name) for table, _ in tables]
        if all(column.dtype.kind != "O" for column in columns):
            for block, column in zip(blocks, columns, strict=True):
                block.append(column.astype(np.float32)[:, None])
            continue
        words = [column.astype(str) for column in columns]
        levels = np.unique(np.concatenate([np.unique(column) for column in words]))
        for block, column in zip(blocks, words, strict=True):
            block.append((column[:, None] == levels).astype(np.float32))
    return [
        (np.concatenate(block, axis=1), y) for block, (_, y) in zip(blocks, tables, strict=True)
    ]
