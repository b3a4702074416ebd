"""Decompositions of small matrices that do not fail where LAPACK's fastest routine does."""

from __future__ import annotations

import numpy as np

from gramless.base.types import FloatArray


def svd(matrix: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the reduced singular value decomposition of a finite matrix.

    LAPACK's divide and conquer, which NumPy takes, does not converge for a few finite matrices;
    QR iterations, several times slower, then do.
    """
    try:
        return np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        import scipy.linalg

        found: tuple[FloatArray, FloatArray, FloatArray] = scipy.linalg.svd(
            matrix, full_matrices=False, lapack_driver="gesvd"
        )
        return found
