"""Training rows in arrays, in memory or mapped from files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.base.threads import row_blocks
from gramless.datasets.pieces import Chunk, join
from gramless.streaming.orders import GroupReader, Recent, epoch_parts, shuffled

MOST_PERMUTED = 4_000_000
MOST_PERMUTED_BYTES = 1 << 30
"""Tables of at most so many rows and bytes are put in order row by row, larger ones in runs."""

GROUP_RUNS = 128
RUN_ROWS = 256

_RUN_BYTES = 1 << 20
_LEAST_RUN_ROWS = 16
_CHUNK_BYTES = 1 << 25
_CHUNK_ROWS = 1 << 16


class ArraySource:
    """Training rows in an array, a memory-mapped file or a CSR matrix.

    Every epoch is an order of its own, a function of the seed and the epoch, in which each row
    occurs once. Up to 4 million rows of at most 1 GiB together are permuted. Larger tables are
    read in runs of 256 neighbouring rows (fewer where they are more than 1 MB): the runs are put
    in random order and mixed 128 at a time, so that a file is read in sequential pieces. The
    order is the same whether the rows are in memory or in a file.

    Parameters
    ----------
    X : ndarray, memmap or CSR matrix (n, n_features)
        Neither copied nor changed in type.
    y : array-like (n,) or (n, n_outputs)
        Numbers or labels.
    seed : int
    n_held_out : int, default=0
        Rows drawn at random that are kept back.
    shuffle : bool, default=True
        False reads every epoch in the given order.

    Attributes
    ----------
    n_features, n_rows : int

    Raises
    ------
    InputError
        If X is no table of numbers, y does not fit, or no row is left to train on.

    Notes
    -----
    Holds 16 bytes a row where rows are permuted, else a group of runs: at most 128 MB.

    Examples
    --------
    >>> source = ArraySource(np.arange(6.0).reshape(3, 2), np.array([0, 1, 2]), seed=0)
    >>> sorted(source.read(0, 3)[1].tolist()), source.read(2, 4)[0].shape
    ([0, 1, 2], (2, 2))
    """

    def __init__(
        self, X: Any, y: Any, *, seed: int, n_held_out: int = 0, shuffle: bool = True
    ) -> None:
        self._X, self._y = _check_arrays(X, y)
        self.seed, self.shuffle = seed, shuffle
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
        self._permutes = self.n_rows <= MOST_PERMUTED and n_bytes <= MOST_PERMUTED_BYTES
        self._orders = Recent(self._permuted)
        runs = max(_LEAST_RUN_ROWS, _RUN_BYTES // self._row_bytes)
        self._run_rows = min(RUN_ROWS, runs)
        self._run_orders = Recent(self._permuted_runs)
        self._groups = GroupReader(self._group_sizes, self._load_group)

    def read(self, start: int, stop: int) -> Chunk:
        """Return rows of the endless order.

        Parameters
        ----------
        start, stop : int
            Positions; position ``p`` is in epoch ``p // n_rows``.

        Returns
        -------
        X : ndarray or CSR (stop - start, n_features)
        y : ndarray
        """
        chunks: list[Chunk] = []
        for epoch, first, last in epoch_parts(start, stop, self.n_rows):
            if not self.shuffle:
                chunks.append(self._given(first, last))
            elif self._permutes:
                chunks.append(self._taken(self._orders(epoch)[first:last]))
            else:
                chunks += self._groups.read(epoch, first, last)
        return join(chunks) if chunks else self._taken(slice(0, 0))

    def chunks(self) -> Iterator[Chunk]:
        """Yield the training rows once, in the given order, at most 32 MB at a time."""
        most = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // self._row_bytes))
        for start, stop in row_blocks(self.n_rows, most):
            yield self._given(start, stop)

    def held_out(self) -> Chunk:
        """Return the rows kept back, in the given order."""
        return self._taken(self._held)

    def _permuted(self, epoch: int) -> NDArray[np.intp]:
        return self._place(shuffled(self.seed, "rows", epoch, self.n_rows))

    def _place(self, training: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return where training rows, counted without those held out, are in X."""
        before = self._held - np.arange(len(self._held))
        return training + np.searchsorted(before, training, side="right")

    def _given(self, start: int, stop: int) -> Chunk:
        """Return neighbouring training rows."""
        first, last = self._place(np.array([start, stop - 1])).tolist()
        X, y = self._taken(slice(first, last + 1))
        held = self._held[slice(*np.searchsorted(self._held, [first, last + 1]))] - first
        if len(held) == 0:
            return X, y
        kept = np.delete(np.arange(len(y)), held)
        return X[kept], y[kept]

    def _taken(self, rows: Any) -> Chunk:
        """Return rows of X and y; what is mapped from a file is read here, once."""
        X, y = self._X[rows], self._y[rows]
        X = np.array(X) if isinstance(X, np.memmap) else X
        return X, np.array(y) if isinstance(y, np.memmap) else y

    def _permuted_runs(self, epoch: int) -> NDArray[np.intp]:
        n_runs = -(-self.n_rows // self._run_rows)
        return shuffled(self.seed, "runs", epoch, n_runs)

    def _group_sizes(self, epoch: int) -> NDArray[np.int64]:
        runs = self._run_orders(epoch)
        sizes = np.minimum(self.n_rows - runs * self._run_rows, self._run_rows)
        return np.add.reduceat(sizes, np.arange(0, len(runs), GROUP_RUNS))

    def _load_group(self, epoch: int, k: int) -> Chunk:
        runs = np.sort(self._run_orders(epoch)[k * GROUP_RUNS : (k + 1) * GROUP_RUNS])
        starts = (runs * self._run_rows).tolist()
        X, y = join([self._given(a, min(a + self._run_rows, self.n_rows)) for a in starts])
        n_groups = -(-len(self._run_orders(epoch)) // GROUP_RUNS)
        order = shuffled(self.seed, "rows of runs", epoch * n_groups + k, len(y))
        return X[order], y[order]


def _check_arrays(X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
    if sp.issparse(X) and X.format != "csr":
        raise InputError(f"X must be dense or CSR, got a {X.format} matrix; give X.tocsr().")
    rows = X if sp.issparse(X) or isinstance(X, np.ndarray) else np.asarray(X)
    labels = y if isinstance(y, np.ndarray) else np.asarray(y)
    if rows.ndim != 2 or rows.dtype.kind not in "biuf" or rows.shape[1] == 0:
        raise InputError(
            f"X must be a table of numbers (n_rows, n_features), got {rows.dtype} of shape "
            f"{rows.shape}."
        )
    if labels.ndim not in (1, 2) or labels.shape[0] != rows.shape[0]:
        raise InputError(
            f"y must hold one target a row, got shape {labels.shape} for {rows.shape[0]} rows."
        )
    return rows, labels


def _row_bytes(X: Any) -> int:
    if sp.issparse(X):
        return max(1, 12 * int(X.nnz) // max(1, X.shape[0]))
    return int(X.shape[1]) * int(X.dtype.itemsize)
