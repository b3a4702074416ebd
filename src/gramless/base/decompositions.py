"""Decompositions of small matrices with a fallback if LAPACK's fastest routine fails."""

from __future__ import annotations

import numpy as np

from gramless.base.types import FloatArray


def svd(matrix: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the reduced singular value decomposition of a finite matrix.

    LAPACK's divide and conquer, which NumPy uses, does not converge for a few finite matrices. QR
    iterations, which are several times slower, do.
    """
    try:
        return np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        import scipy.linalg

        result: tuple[FloatArray, FloatArray, FloatArray] = scipy.linalg.svd(
            matrix, full_matrices=False, lapack_driver="gesvd"
        )
        return result
