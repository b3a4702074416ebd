"""Bin numbers of all rows, (n_grids, n_rows): some rows of them, and their matrix as SciPy CSR."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.arrays import padded_rows
from gramless.base.threads import map_blocks, row_blocks
from gramless.matrices.base import Rows

_TASK_NUMBERS = 1 << 18
_FEW = 8


def csr_of(
    codes: NDArray[np.unsignedinteger],
    offsets: NDArray[np.int64],
    seen: NDArray[np.bool_],
    values: NDArray[np.float64],
) -> sp.csr_array:
    """Return codes (n_grids, n_rows) as SciPy CSR.

    Parameters
    ----------
    codes : array (n_grids, n_rows) of unsigned integers
    offsets : array (n_grids + 1,) of int64
    seen : array (n_rows, n_grids) of bool
        Which are non-zeros.
    values : array (n_nonzeros,)
        Of these, row by row.

    Returns
    -------
    csr_array (n_rows, offsets[-1])
    """
    columns = codes.T.astype(np.int64) + (offsets[:-1] - 1)
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(seen, axis=1))])
    shape = (codes.shape[1], int(offsets[-1]))
    index = np.int32 if max(int(indptr[-1]), shape[1]) < 2**31 else np.int64
    return sp.csr_array((values, columns[seen].astype(index), indptr.astype(index)), shape=shape)


def taken(per_grid: NDArray[Any], rows: Rows, n_jobs: int | None) -> NDArray[Any]:
    """Return some rows of an array (n_grids, n_rows), each grid's side by side in memory."""
    # Without a grid, take would not see whether the rows exist.
    if isinstance(rows, slice) or len(per_grid) == 0:
        return per_grid[:, rows]
    numbers = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
    result = padded_rows((len(per_grid), len(numbers)), per_grid.dtype)
    # Of several grids, which are not in one piece, NumPy copies all rows before it takes any.
    few = _FEW * len(numbers) < per_grid.shape[1]

    def take(a: int, b: int) -> None:
        if few:
            for g in range(a, b):
                result[g] = per_grid[g].take(numbers)
        else:
            # Indexing with an array would leave the grids interleaved: another pass over all.
            result[a:b] = np.take(per_grid[a:b], numbers, axis=1)

    grids = max(1, _TASK_NUMBERS // max(1, len(numbers)))
    map_blocks(take, row_blocks(len(per_grid), grids), n_jobs)
    return result
