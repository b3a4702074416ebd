"""What one pass over the rows of a stream needs: checks, fixed blocks, draws by row number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.datasets.pieces import Chunk, join, regroup

_DRAWS = 4096
_BLOCK_BYTES = 1 << 25
_MOST_ROWS = 1 << 16
_SPARSE_ROWS = 1 << 14


def check_chunk(
    chunk: Any, number: int, n_features: int | None = None, like: Chunk | None = None
) -> Chunk:
    """Return rows and targets as arrays or CSR of one length.

    Parameters
    ----------
    chunk : pair of array-like or sparse matrix (n, n_features), array-like (n,) or (n, n_outputs)
    number : int
        Of the chunk, from 0, for messages.
    n_features : int or None, default=None
        Columns that it must have.
    like : pair of arrays or None, default=None
        An earlier chunk, whose form it must have: dense or sparse, and outputs.

    Returns
    -------
    X : ndarray or CSR
    y : ndarray

    Raises
    ------
    InputError
        If it is no pair of numbers and targets, or they do not fit.

    Examples
    --------
    >>> X, y = check_chunk(([[1, 2], [3, 4]], [0, 1]), 0, n_features=2)
    >>> X.shape, y.shape
    ((2, 2), (2,))
    """
    what = f"Chunk {number:,} of the stream"
    if not isinstance(chunk, tuple | list) or len(chunk) != 2:
        raise InputError(f"{what} must be a pair (X, y), got {type(chunk).__name__}.")
    X = _canonical(chunk[0]) if sp.issparse(chunk[0]) else np.asarray(chunk[0])
    y = np.asarray(chunk[1])
    if X.ndim != 2 or X.dtype.kind not in "biuf" or X.shape[1] == 0:
        raise InputError(
            f"{what}: X must be a table of numbers (n_rows, n_features), got {X.dtype} of "
            f"shape {X.shape}."
        )
    if y.ndim not in (1, 2) or len(y) != X.shape[0]:
        raise InputError(
            f"{what}: {X.shape[0]} rows, but targets of shape {y.shape}; give one a row."
        )
    if n_features is not None and X.shape[1] != n_features:
        raise InputError(
            f"{what} has {X.shape[1]} columns, not the {n_features} of the stream; give every "
            "chunk the same columns."
        )
    if like is not None and sp.issparse(like[0]) != sp.issparse(X):
        raise InputError(f"{what}: some chunks are sparse and some are dense; give one form.")
    if like is not None and (
        like[1].shape[1:] != y.shape[1:] or (like[1].dtype.kind in "OUS") != (y.dtype.kind in "OUS")
    ):
        raise InputError(
            f"{what} has targets of type {y.dtype} and {y.shape[1:] or 1} outputs, unlike those "
            f"before: {like[1].dtype}, {like[1].shape[1:] or 1}. Give every chunk the same."
        )
    return X, y


def _canonical(X: Any) -> Any:
    if X.format != "csr":
        return sp.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def fixed_blocks(chunks: Iterable[tuple[Any, Any]], dense: bool = False) -> Iterator[Chunk]:
    """Cut chunks of any sizes into blocks whose rows depend on their width alone.

    Parameters
    ----------
    chunks : iterable of (X, y)
        Checked here.
    dense : bool, default=False
        CSR blocks are as short as arrays, because they will be made arrays.

    Yields
    ------
    X : ndarray or CSR (n, n_features)
        Blocks of 32 MB as float64, at most 65,536 rows; CSR blocks of 16,384 rows.
    y : ndarray

    Raises
    ------
    InputError
        If there are no rows, or a chunk is no table.
    """
    checked = _checked(chunks)
    first = next(checked, None)
    if first is None:
        raise InputError("The stream has no rows; give it at least one.")
    most = max(1, min(_MOST_ROWS, _BLOCK_BYTES // (8 * max(1, first[0].shape[1]))))
    if sp.issparse(first[0]) and not dense:
        most = _SPARSE_ROWS
    return regroup(chain([first], checked), most)


def _checked(chunks: Iterable[tuple[Any, Any]]) -> Iterator[Chunk]:
    like = n_features = None
    for number, chunk in enumerate(chunks):
        X, y = check_chunk(chunk, number, n_features, like)
        n_features = X.shape[1]
        if len(y):
            like = like or (X[:0], y[:0])
            yield X, y


def check_finite(X: Any, y: NDArray[Any], first: int) -> None:
    """Refuse NaN and infinity, naming the row.

    Parameters
    ----------
    X : ndarray or CSR (n, n_features)
    y : ndarray
        Text is not looked at.
    first : int
        Number of the first row in the stream, from 0.

    Raises
    ------
    InputError
    """
    values = X.data if sp.issparse(X) else X
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        place = int(np.flatnonzero(~np.isfinite(values).ravel())[0])
        if sp.issparse(X):
            row, column = int(np.searchsorted(X.indptr, place, side="right")) - 1, X.indices[place]
        else:
            row, column = divmod(place, X.shape[1])
        raise InputError(
            f"Row {first + row:,} of the stream (from 0) has {values.ravel()[place]} in column "
            f"{int(column)}; fill gaps and drop infinities first."
        )
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y.reshape(len(y), -1)).all(axis=1))[0])
        raise InputError(
            f"The target of row {first + row:,} of the stream (from 0) is not a finite number; "
            "drop the row."
        )


def row_draws(seed: int, purpose: str, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return uniform numbers in [0, 1), one a row, that depend on the row's number alone.

    Parameters
    ----------
    seed : int
    purpose : str
    numbers : ndarray (n,) of int
        Increasing, from 0.

    Examples
    --------
    >>> whole = row_draws(0, "example", np.arange(10_000))
    >>> bool((row_draws(0, "example", np.array([5, 9000])) == whole[[5, 9000]]).all())
    True
    """
    blocks, starts = np.unique(numbers // _DRAWS, return_index=True)
    parts = np.split(numbers, starts[1:])
    draws = [
        stream(seed, purpose, block).random(_DRAWS)[part - block * _DRAWS]
        for block, part in zip(blocks.tolist(), parts[: len(blocks)], strict=True)
    ]
    return np.concatenate(draws) if draws else np.empty(0)


class Reservoir:
    """A sample of the rows of a stream, each equally likely: those with the smallest draws.

    Parameters
    ----------
    size : int
    seed : int
    purpose : str
        Of the draws.

    Examples
    --------
    >>> reservoir = Reservoir(2, seed=0, purpose="example")
    >>> taken, fallen = reservoir.add(np.eye(3), np.arange(3), np.arange(3))
    >>> int(taken.sum()), reservoir.rows()[1]
    (2, array([1, 2]))
    """

    def __init__(self, size: int, seed: int, purpose: str) -> None:
        self.size, self.seed, self.purpose = size, seed, purpose
        self._draws = np.empty(0)
        self._numbers = np.empty(0, np.int64)
        self._kept: Chunk | None = None

    def add(
        self, X: Any, y: NDArray[Any], numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], tuple[Any, NDArray[Any], NDArray[np.int64]]]:
        """Offer the next rows.

        Parameters
        ----------
        X : ndarray or CSR (n, n_features)
        y : ndarray (n,) or (n, n_outputs)
        numbers : ndarray (n,) of int
            Of the rows in the stream, from 0, consecutive.

        Returns
        -------
        taken : ndarray (n,) of bool
            Which of these rows are now in the sample.
        fallen : X, y, numbers
            Earlier rows that were in the sample and are no more.
        """
        draws = row_draws(self.seed, self.purpose, numbers)
        if self._kept is None:
            self._kept = X[:0], y[:0]
        n_kept = len(self._draws)
        # Most rows of a long stream have no chance: only the others are put beside the kept.
        least = self._draws.max(initial=0.0) if n_kept == self.size else 1.0
        hopeful = np.flatnonzero(draws < least)
        pool_X, pool_y = join([self._kept, (X[hopeful], y[hopeful])])
        pool_draws = np.concatenate([self._draws, draws[hopeful]])
        pool_numbers = np.concatenate([self._numbers, numbers[hopeful]])
        chosen = np.zeros(len(pool_draws), dtype=bool)
        chosen[np.argsort(pool_draws, kind="stable")[: self.size]] = True
        out = np.flatnonzero(~chosen[:n_kept])
        fallen = pool_X[out], pool_y[out], pool_numbers[out]
        self._kept = pool_X[chosen], pool_y[chosen]
        self._draws, self._numbers = pool_draws[chosen], pool_numbers[chosen]
        taken = np.zeros(len(draws), dtype=bool)
        taken[hopeful] = chosen[n_kept:]
        return taken, fallen

    def rows(self) -> Chunk:
        """Return the sample in the order of the stream, after at least one row was offered."""
        assert self._kept is not None
        return self._kept
