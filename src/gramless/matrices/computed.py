"""Dense features that are computed when needed and kept as far as memory allows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from gramless.base.errors import InputError
from gramless.base.memory import memory_for, memory_limit
from gramless.base.numeric import is_whole
from gramless.base.threads import cached_property, in_place, map_blocks
from gramless.base.types import AnyArray
from gramless.matrices.base import Rows
from gramless.matrices.chunked import ChunkedMatrix

# Fraction of a memory limit set by the user that one matrix may keep. Three matrices can be in use
# at once: of training rows, of validation rows and of a sample.
_LIMITED_SHARE = 1 / 3


class ComputedMatrix(ChunkedMatrix):
    """A matrix whose rows are computed from rows of inputs, such as Fourier features.

    The first chunks of rows are computed once and kept, as many as fit into ``budget``. The other
    chunks are computed in every pass.

    Parameters
    ----------
    rows : array or sparse array (n_rows, ...)
        Inputs; anything that has a shape and can be indexed by slices.
    compute : callable
        ``compute(rows[a:b], out)`` writes features into ``out``, which is C-contiguous and of
        ``dtype``. It is called from pool threads, with BLAS in one thread. The features of a row
        must not depend on other rows.
    n_columns : int
        Number of features.
    dtype : dtype, default=float32
        float32 or float64.
    budget : int, optional
        Bytes of the chunks that are kept. By default half of the free memory, or a third of the
        limit that the user set.
    n_jobs : int, optional
        Number of threads; None means every processor.
    """

    def __init__(
        self,
        rows: AnyArray | sp.csr_array | sp.csr_matrix,
        compute: Callable[..., None],
        n_columns: int,
        *,
        dtype: DTypeLike = np.float32,
        budget: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        kind = cast("np.dtype[np.floating]", np.dtype(dtype))
        _check(n_columns, kind, budget)
        self.rows, self.compute, self.n_jobs = rows, compute, n_jobs
        self._n_columns, self._dtype, self._budget = int(n_columns), kind, budget
        n_rows, row_bytes = rows.shape[0], self._n_columns * kind.itemsize
        limit = _default_budget(n_rows * row_bytes) if budget is None else int(budget)
        full_chunks = limit // max(1, row_bytes * self.chunk_rows) * self.chunk_rows
        self._n_kept = n_rows if n_rows * row_bytes <= limit else full_chunks
        n_chunks = -(-self._n_kept // self.chunk_rows)
        self._chunk_locks = [threading.Lock() for _ in range(n_chunks)]
        self._is_computed = [False] * n_chunks

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.rows.shape[0]), self._n_columns

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return self._dtype

    @property
    def stored(self) -> float:
        return self._n_kept / self.shape[0] if self.shape[0] else 1.0

    def chunk(self, start: int, stop: int, scratch: AnyArray | None = None) -> AnyArray:
        pieces = self._cut(start, stop)
        if stop <= self._n_kept:
            map_blocks(self._keep, pieces, self.n_jobs)
            return self._kept[start:stop]
        shape = (stop - start, self._n_columns)
        out = np.empty(shape, self._dtype) if scratch is None else scratch[: stop - start]

        def fill(a: int, b: int) -> None:
            part = out[a - start : b - start]
            if b <= self._n_kept:
                self._keep(a, b)
                part[...] = self._kept[a:b]
            else:
                self.compute(self.rows[a:b], part)

        map_blocks(fill, pieces, self.n_jobs)
        return out

    def take_rows(self, rows: Rows) -> ComputedMatrix:
        return ComputedMatrix(
            self.rows[rows],
            self.compute,
            self._n_columns,
            dtype=self._dtype,
            budget=self._budget,
            n_jobs=self.n_jobs,
        )

    def _keep(self, start: int, stop: int) -> None:
        """Compute the kept chunk that contains the rows, unless it has been computed."""
        k = start // self.chunk_rows
        with self._chunk_locks[k], in_place():
            if not self._is_computed[k]:
                a = k * self.chunk_rows
                b = min(a + self.chunk_rows, self._n_kept)
                self.compute(self.rows[a:b], self._kept[a:b])
                self._is_computed[k] = True

    @cached_property
    def _kept(self) -> AnyArray:
        return np.empty((self._n_kept, self._n_columns), self._dtype)

    def _cut(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Split a range of rows at the starts of chunks."""
        step = self.chunk_rows
        edges = [start, *range(start - start % step + step, stop, step), stop]
        return list(pairwise(edges)) if stop > start else []


def _default_budget(n_bytes: int) -> int:
    budget = memory_for(n_bytes)
    return int(_LIMITED_SHARE * budget) if memory_limit() is not None else budget


def _check(n_columns: object, dtype: np.dtype[np.floating], budget: object) -> None:
    if dtype not in (np.float32, np.float64):
        raise InputError(f"ComputedMatrix: dtype must be float32 or float64, got {dtype}.")
    for name, value in (("n_columns", n_columns), ("budget", budget)):
        if not is_whole(value, 0) and not (name == "budget" and value is None):
            raise InputError(
                f"ComputedMatrix: {name} must be an integer, at least 0; got {value!r}."
            )
