"""Leading singular vectors of a feature matrix, from its products with blocks of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from gramless.base.errors import InputError
from gramless.base.memory import check_memory
from gramless.base.random import stream
from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray
from gramless.matrices.base import FeatureMatrix

_MORE_COLUMNS = 4
"""Vectors of a block beyond those that are asked for: the last ones then converge too."""
_MOST_BLOCKS = 5
"""Blocks of a basis before it is restarted from its best vectors."""
_NEGLIGIBLE = 1e-13
"""Directions below this fraction of the norm of what they were made of are rounding errors."""
_LEAST_VALUE = 1e-10
"""Singular values below this fraction of the largest count as zero."""


@dataclass(frozen=True, eq=False)
class FeatureDecomposition:
    """The leading singular triplets of a matrix of n rows and D columns.

    ``left`` (n, k) and ``right`` (D, k) have orthonormal columns; ``singular_values`` (k,) fall.
    ``residuals`` (k,) are the norms of ``A.T @ left - right * singular_values``, relative to the
    largest singular value; ``A @ right`` is ``left * singular_values`` but for rounding errors.
    There are fewer than asked for where the rank of the matrix is lower. ``converged`` says whether
    all residuals met the tolerance in ``n_iter`` products with blocks of vectors.
    """

    left: FloatArray
    singular_values: FloatArray
    right: FloatArray
    residuals: FloatArray
    n_iter: int
    converged: bool

    @classmethod
    def of(
        cls,
        matrix: FeatureMatrix,
        n_components: int,
        *,
        tol: float = 1e-4,
        max_iter: int = 200,
        seed: int = 0,
    ) -> Self:
        """Decompose a matrix by block Lanczos steps with restarts.

        Parameters
        ----------
        matrix : FeatureMatrix
        n_components : int
            Number of singular triplets.
        tol : float, default=1e-4
            Of the residuals. Singular values are then exact to about ``tol**2``, relative to their
            gaps.
        max_iter : int, default=200
            The most products ``A.T @ (A @ Q)`` with a block of ``n_components + 4`` vectors.
        seed : int, default=0
            Of the first block.

        Notes
        -----
        Holds two bases of five blocks, and some more: ``8 (n + D) (n_components + 4)`` numbers.

        Examples
        --------
        >>> from gramless.matrices.dense import DenseMatrix
        >>> rows = np.random.default_rng(0).normal(size=(50, 8))
        >>> found = FeatureDecomposition.of(DenseMatrix(rows), 3)
        >>> exact = np.linalg.svd(rows, compute_uv=False)
        >>> bool(np.allclose(found.singular_values, exact[:3]))
        True
        """
        if not 1 <= n_components <= max(1, min(matrix.shape)):
            raise InputError(
                f"FeatureDecomposition: n_components must be from 1 to {min(matrix.shape)}, the "
                f"shorter side of a matrix of shape {matrix.shape}; got {n_components}."
            )
        width = n_components + _MORE_COLUMNS
        check_memory(
            f"FeatureDecomposition: {n_components} components of a matrix of shape {matrix.shape}",
            8.0 * (_MOST_BLOCKS + 3) * width * sum(matrix.shape),
            "ask for fewer components",
        )
        with one_blas_thread():
            basis, n_iter, done = _Basis.started(matrix, width, seed), 0, False
            while not done and n_iter < max_iter and basis.following.shape[1] > 0:
                if basis.right.shape[1] >= _MOST_BLOCKS * width:
                    basis = basis.rotated(width)
                basis, n_iter = basis.extended(matrix), n_iter + 1
                values, residuals = basis.leading(n_components)
                done = len(values) == n_components and bool((residuals <= tol).all())
            converged = done or basis.following.shape[1] == 0
            values, residuals = basis.leading(n_components)
            found = basis.rotated(int((values > _LEAST_VALUE * values[:1].sum()).sum()))
        largest = np.abs(found.right).argmax(axis=0)
        signs = np.sign(found.right[largest, np.arange(len(largest))])
        left, right = found.left * signs, found.right * signs
        kept = slice(len(largest))
        return cls(left, values[kept], right, residuals[kept], n_iter, converged)


@dataclass(frozen=True, eq=False)
class _Basis:
    """Orthonormal ``left`` P (n, r) and ``right`` Q (D, s), and what follows them.

    ``A @ Q = P @ R`` and ``A.T @ P = Q @ R.T + following @ link``, where ``core`` R is small, and
    ``following`` (D, b) is orthonormal, orthogonal to Q, and empty once nothing is left to find.
    """

    left: FloatArray
    core: FloatArray
    right: FloatArray
    following: FloatArray
    link: FloatArray

    @classmethod
    def started(cls, matrix: FeatureMatrix, width: int, seed: int) -> _Basis:
        """Return an empty basis that is followed by a random block in the row space."""
        n_rows, n_columns = matrix.shape
        draws = stream(seed, "decomposition").normal(size=(n_rows, min(width, n_rows, n_columns)))
        following, link = _orthonormal(matrix.rmatvec(draws), np.empty((n_columns, 0)))
        left, right = np.empty((n_rows, 0)), np.empty((n_columns, 0))
        return cls(left, np.empty((0, 0)), right, following, link[:, :0])

    def extended(self, matrix: FeatureMatrix) -> _Basis:
        """Return the basis with the block that follows, there and back through the matrix."""
        image = matrix.matvec(self.following)
        new, corner = _orthonormal(image, self.left)
        (r, s), (n_new, width) = self.core.shape, corner.shape
        core = np.zeros((r + n_new, s + width))
        core[:r, :s], core[:r, s:], core[r:, s:] = self.core, self.left.T @ image, corner
        left, right = np.hstack([self.left, new]), np.hstack([self.right, self.following])
        back = matrix.rmatvec(new) if n_new > 0 else right[:, :0]
        following, own = _orthonormal(back, right)
        link = np.hstack([np.zeros((len(own), r)), own])
        return _Basis(left, core, right, following, link)

    def rotated(self, most: int) -> _Basis:
        """Return the basis of the leading approximate singular vectors alone; R is diagonal."""
        u, values, vt = np.linalg.svd(self.core, full_matrices=False)
        values = values[:most]
        u, v = u[:, : len(values)], vt.T[:, : len(values)]
        left, right = self.left @ u, self.right @ v
        return _Basis(left, np.diag(values), right, self.following, self.link @ u)

    def leading(self, n_components: int) -> tuple[FloatArray, FloatArray]:
        """Return leading singular values, and the relative norms of their residuals."""
        u, values, _ = np.linalg.svd(self.core, full_matrices=False)
        values = values[:n_components]
        lengths = np.linalg.norm(self.link @ u[:, : len(values)], axis=0)
        return values, lengths / max(values[:1].sum(), np.finfo(float).tiny)


def _orthonormal(block: FloatArray, others: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return an orthonormal Q and a link: ``Q @ link`` is the block's part orthogonal to others.

    Directions that are rounding errors are left out.
    """
    size = float(np.linalg.norm(block))
    # Twice: once leaves errors as large as what cancels.
    for _ in range(2):
        block = block - others @ (others.T @ block)
    q, r = np.linalg.qr(block)
    u, values, vt = np.linalg.svd(r, full_matrices=False)
    kept = values > _NEGLIGIBLE * size
    return q @ u[:, kept], values[kept, None] * vt[kept]
