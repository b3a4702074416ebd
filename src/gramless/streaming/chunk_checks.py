"""Validation of the chunks of a stream, and blocks of sizes that do not depend on the chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gramless.base.errors import InputError
from gramless.base.types import AnyArray, TableLike
from gramless.datasets.pieces import Chunk, regroup
from gramless.preprocessing.rows import Rows, normalise_rows

Batch = tuple[TableLike, ArrayLike]  # rows and targets as users pass them


def is_sparse(X: object) -> TypeGuard[Any]:
    return bool(sp.issparse(X))


@dataclass(frozen=True)
class BlockSizes:
    """Upper limits on the blocks in which a stream is processed."""

    dense_bytes: int = 1 << 25  # of rows in an array of float64
    dense_rows: int = 1 << 16
    sparse_rows: int = 1 << 14


def check_chunk(
    chunk: object, index: int, n_features: int | None = None, earlier: Chunk | None = None
) -> Chunk:
    """Return the rows of a chunk as an array or CSR, and its targets as an array.

    Raise InputError if the chunk is invalid, does not have ``n_features`` columns, or differs from
    an earlier chunk in being sparse, in the number of outputs or in having text as targets.
    """
    what = f"Chunk {index:,} of the stream"
    if not isinstance(chunk, tuple | list) or len(chunk) != 2:
        raise InputError(f"{what} must be a pair (X, y), got {type(chunk).__name__}.")
    X: Rows = normalise_rows(chunk[0]) if is_sparse(chunk[0]) else np.asarray(chunk[0])
    y = np.asarray(chunk[1])
    check_pair(X, y, f"{what}: ")
    if n_features is not None and X.shape[1] != n_features:
        raise InputError(
            f"{what} has {X.shape[1]} columns, not the {n_features} of the stream; give every "
            "chunk the same columns."
        )
    if earlier is not None and is_sparse(earlier[0]) != is_sparse(X):
        raise InputError(f"{what}: some chunks are sparse and some are dense; give one form.")
    if earlier is not None and (
        earlier[1].shape[1:] != y.shape[1:]
        or (earlier[1].dtype.kind in "OUS") != (y.dtype.kind in "OUS")
    ):
        raise InputError(
            f"{what} has targets of type {y.dtype} and {y.shape[1:] or 1} outputs, unlike those "
            f"before: {earlier[1].dtype}, {earlier[1].shape[1:] or 1}. Give every chunk the same."
        )
    return X, y


def check_pair(X: Rows, y: AnyArray, what: str = "") -> None:
    """Raise InputError if rows are not a table of numbers with one target for each row."""
    if X.ndim != 2 or X.dtype.kind not in "biuf" or X.shape[1] == 0:
        raise InputError(
            f"{what}X must be a table of numbers (n_rows, n_features), got {X.dtype} of shape "
            f"{X.shape}."
        )
    if y.ndim not in (1, 2) or len(y) != X.shape[0]:
        raise InputError(
            f"{what}y must hold one target per row, got shape {y.shape} for {X.shape[0]} rows."
        )


def regroup_chunks(
    chunks: Iterable[Batch], dense: bool = False, sizes: BlockSizes | None = None
) -> Iterator[Chunk]:
    """Validate chunks and regroup their rows into blocks of equal length.

    The length depends only on the width of the rows and on whether they are sparse. If ``dense``,
    the caller will convert CSR rows to arrays, so their blocks are as short as those of arrays.
    Raise InputError if a chunk is invalid or the stream has no rows.
    """
    sizes = sizes or BlockSizes()
    checked = _checked_chunks(chunks)
    first = next(checked, None)
    if first is None:
        raise InputError("The stream has no rows; give it at least one.")
    n_rows = max(1, min(sizes.dense_rows, sizes.dense_bytes // (8 * max(1, first[0].shape[1]))))
    if is_sparse(first[0]) and not dense:
        n_rows = sizes.sparse_rows
    return regroup(chain([first], checked), n_rows)


def _checked_chunks(chunks: Iterable[Batch]) -> Iterator[Chunk]:
    earlier = n_features = None
    for index, chunk in enumerate(chunks):
        X, y = check_chunk(chunk, index, n_features, earlier)
        n_features = X.shape[1]
        if len(y):
            earlier = earlier or (X[:0], y[:0])
            yield X, y


def check_finite(X: Rows, y: AnyArray, first: int) -> None:
    """Raise InputError if rows or targets contain NaN or infinity.

    ``first`` is the index of the first row in the stream.
    """
    values = X.data if is_sparse(X) else X
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        at = int(np.flatnonzero(~np.isfinite(values).ravel())[0])
        if is_sparse(X):
            row, column = int(np.searchsorted(X.indptr, at, side="right")) - 1, X.indices[at]
        else:
            row, column = divmod(at, X.shape[1])
        raise InputError(
            f"Row {first + row:,} of the stream (from 0) has {values.ravel()[at]} in column "
            f"{int(column)}; fill gaps and drop infinities first."
        )
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y.reshape(len(y), -1)).all(axis=1))[0])
        raise InputError(
            f"The target of row {first + row:,} of the stream (from 0) is not a finite number; "
            "drop the row."
        )
