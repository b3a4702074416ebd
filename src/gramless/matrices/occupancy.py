"""How many rows the bins of a matrix hold."""

from __future__ import annotations

import numpy as np

from gramless.base.errors import InputError
from gramless.base.types import FloatArray
from gramless.matrices.binned import BinnedMatrix


def fullest_shares(matrix: BinnedMatrix) -> FloatArray:
    """Return the share of the rows in the fullest bin of each grid (RB16, Definition 1).

    ``nu_r = max over bins b of grid r of (rows in b) / n_rows``, at any scale of the matrix. Rows
    in bins never seen count in ``n_rows`` alone; a grid without bins has 0. One pass over the
    codes.

    Examples
    --------
    >>> codes = np.array([[1, 2, 1, 1], [0, 1, 0, 2]], np.uint8)
    >>> fullest_shares(BinnedMatrix(codes, np.array([0, 2, 4])))
    array([0.75, 0.25])
    """
    if matrix.shape[0] == 0:
        raise InputError("BinnedMatrix: shares of the rows need at least one row.")
    # At scale 1 the sums are counts: whole numbers, without rounding.
    ones = BinnedMatrix(
        matrix.codes,
        matrix.offsets,
        scale=1.0,
        has_unseen=matrix.has_unseen,
        n_jobs=matrix.n_jobs,
    )
    counts = ones.rmatvec(np.ones(matrix.shape[0]))
    fullest = np.zeros(matrix.n_grids)
    # A grid without bins has no fullest one, and reduceat would take its neighbour's.
    occupied = np.diff(matrix.offsets) > 0
    if occupied.any():
        fullest[occupied] = np.maximum.reduceat(counts, matrix.offsets[:-1][occupied])
    return fullest / matrix.shape[0]
