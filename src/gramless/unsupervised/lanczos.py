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
from gramless.unsupervised import tall_arrays as tall

_MORE_COLUMNS = 2
"""Vectors of a block beyond those that are asked for, at least: the last ones then converge too."""
_COLUMNS_AT_ONCE = 4
"""Products take a multiple of so many vectors in the least time for each."""
_MOST_BLOCKS = 8
"""Blocks of a basis before it is restarted from its best vectors."""
_KEPT_BLOCKS = 2
"""Blocks of best vectors from which it is restarted."""
_NEGLIGIBLE = 1e-13
"""Directions below this fraction of what they were made of are rounding errors."""
_SLIGHT = 1e-8
"""Orthonormal directions that lose parts up to this length stay so to the last digit."""
_LEAST_VALUE = 1e-10
"""Singular values below this fraction of the largest count as zero."""


@dataclass(frozen=True, eq=False)
class SingularTriplets:
    """The leading singular triplets of a matrix A of n rows and D columns.

    ``left`` (n, k) and ``right`` (D, k) have orthonormal columns; ``singular_values`` (k,) fall.
    ``residuals`` (k,) are norms relative to the largest singular value: of
    ``A.T @ left - right * singular_values`` where the matrix has as many rows as columns or more,
    else of ``A @ right - left * singular_values``. The other of these two is zero but for rounding
    errors. There are fewer triplets than asked for where the rank of the matrix is lower.
    ``converged`` says whether all residuals met the tolerance in ``n_iter`` products with blocks
    of vectors.
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
        """Decompose a matrix by block Lanczos steps on ``A.T @ A`` or ``A @ A.T``.

        Parameters
        ----------
        matrix : FeatureMatrix
            Features of the rows.
        n_components : int
            Number of singular triplets.
        tol : float, default=1e-4
            Of the residuals. Singular values are then exact to about ``tol**2``, relative to their
            gaps.
        max_iter : int, default=200
            The most products there and back with a block of vectors, ``n_components + 2`` or up to
            3 more: a singular value that is repeated is found as often as it is there.
        seed : int, default=0
            Of the first block.

        Notes
        -----
        Of ``A.T @ A`` and ``A @ A.T`` it takes the smaller. Its eigenvectors are approximated in a
        basis of eight blocks, restarted from the best vectors (Wu & Simon 2000, "Thick-restart
        Lanczos method", in blocks); singular values below some 1e-8 of the largest are not exact.
        Bases and products take ``8 min(n, D) + 3 (n + D)`` numbers times the width of a block.

        Examples
        --------
        >>> from gramless.matrices.dense import DenseMatrix
        >>> rows = np.random.default_rng(0).normal(size=(50, 8))
        >>> found = SingularTriplets.of(DenseMatrix(rows), 3)
        >>> exact = np.linalg.svd(rows, compute_uv=False)
        >>> bool(np.allclose(found.singular_values, exact[:3]))
        True
        """
        if not 1 <= n_components <= max(1, min(matrix.shape)):
            raise InputError(
                f"SingularTriplets: n_components must be from 1 to {min(matrix.shape)}, the "
                f"shorter side of a matrix of shape {matrix.shape}; got {n_components}."
            )
        width = -(-(n_components + _MORE_COLUMNS) // _COLUMNS_AT_ONCE) * _COLUMNS_AT_ONCE
        check_memory(
            f"SingularTriplets: {n_components} components of a matrix of shape {matrix.shape}",
            8.0 * width * (_MOST_BLOCKS * min(matrix.shape) + 3 * sum(matrix.shape)),
            "ask for fewer components",
        )
        side = _Side(matrix)
        with one_blas_thread():
            basis, n_iter, done = _Basis(side, width, seed), 0, False
            while not done and n_iter < max_iter and basis.following.shape[1] > 0:
                basis.extend()
                n_iter += 1
                values, residuals = basis.leading(n_components)
                done = len(values) == n_components and bool((residuals <= tol).all())
            converged = done or basis.following.shape[1] == 0
            here, values, there, residuals = basis.triplets(n_components)
        left, right = (here, there) if side.is_wide else (there, here)
        largest = np.abs(right).argmax(axis=0)
        signs = np.sign(right[largest, np.arange(len(largest))])
        return cls(left * signs, values, right * signs, residuals, n_iter, converged)


class _Side:
    """The shorter side of a matrix: ``forth`` leads to the longer one, ``back`` from there."""

    def __init__(self, matrix: FeatureMatrix) -> None:
        n_rows, n_columns = matrix.shape
        self.is_wide, self.n_jobs = n_rows < n_columns, matrix.n_jobs
        self.size, self.other_size = min(matrix.shape), max(matrix.shape)
        self._matrix = matrix

    def forth(self, block: FloatArray) -> FloatArray:
        """Return ``A @ block``, or ``A.T @ block`` of a wide matrix."""
        return self._matrix.rmatvec(block) if self.is_wide else self._matrix.matvec(block)

    def back(self, block: FloatArray) -> FloatArray:
        """Return ``A.T @ block``, or ``A @ block`` of a wide matrix."""
        return self._matrix.matvec(block) if self.is_wide else self._matrix.rmatvec(block)

    def gram(self, block: FloatArray) -> FloatArray:
        """Return ``A.T @ (A @ block)``, or ``A @ (A.T @ block)`` of a wide matrix."""
        return self.back(self.forth(block))


class _Basis:
    """Orthonormal ``vectors`` Q of the shorter side, and what follows them.

    With G the Gram matrix of that side, ``G @ Q = Q @ projected + following @ link``, where
    ``following`` is orthonormal, orthogonal to Q, and empty once nothing is left to find.
    """

    def __init__(self, side: _Side, width: int, seed: int) -> None:
        self._side, self._width = side, width
        width = min(width, side.size)
        self._room = np.empty((side.size, min(_MOST_BLOCKS * width, side.size + width)))
        self.projected = np.empty((0, 0))
        draws = stream(seed, "decomposition").random((side.other_size, width)) - 0.5
        _, self.following, link = self._split(side.back(draws))
        self.link = link[:, :0]

    @property
    def vectors(self) -> FloatArray:
        """Q, (size, s)."""
        return self._room[:, : len(self.projected)]

    def extend(self) -> None:
        """Add the block that follows, and find the one that follows it."""
        n_new = self.following.shape[1]
        if len(self.projected) + n_new > self._room.shape[1]:
            self._restart()
        n_old = len(self.projected)
        image = self._side.gram(self.following)
        self._room[:, n_old : n_old + n_new] = self.following
        self.projected = np.pad(self.projected, (0, n_new))
        along, self.following, link = self._split(image)
        self.projected[:, n_old:] = along
        self.projected[n_old:, :n_old] = along[:n_old].T
        self.link = np.hstack([np.zeros((len(link), n_old)), link])

    def leading(self, n_components: int) -> tuple[FloatArray, FloatArray]:
        """Return leading singular values, and the relative norms of their residuals."""
        values, rotation = self._eigenvectors(n_components)
        return values, _residuals(self.link @ rotation, values)

    def triplets(self, n_components: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return singular vectors of this side, values, vectors of the other side, residuals."""
        n_jobs = self._side.n_jobs
        _, rotation = self._eigenvectors(n_components)
        here = tall.times(self.vectors, rotation, n_jobs)
        there, factor = tall.qr(self._side.forth(here), n_jobs)
        u, values, vt = np.linalg.svd(factor)
        kept = values > _LEAST_VALUE * values[:1].sum()
        u, values, v = u[:, kept], values[kept], vt.T[:, kept]
        residuals = _residuals(self.link @ rotation @ v, values)
        return tall.times(here, v, n_jobs), values, tall.times(there, u, n_jobs), residuals

    def _restart(self) -> None:
        """Keep the leading approximate eigenvectors alone."""
        values, rotation = self._eigenvectors(_KEPT_BLOCKS * self._width)
        kept = tall.times(self.vectors, rotation, self._side.n_jobs)
        self._room[:, : len(values)] = kept
        self.projected, self.link = np.diag(values**2), self.link @ rotation

    def _eigenvectors(self, most: int) -> tuple[FloatArray, FloatArray]:
        """Return the roots of the leading eigenvalues of ``projected``, and eigenvectors (s, m)."""
        squares, rotation = np.linalg.eigh((self.projected + self.projected.T) / 2.0)
        return np.sqrt(np.maximum(squares[::-1][:most], 0.0)), rotation[:, ::-1][:, :most]

    def _split(self, block: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Split a block into parts along Q and orthogonal to it; overwrite it.

        Returns ``along``, an orthonormal P orthogonal to Q, and ``link``, such that the block was
        ``Q @ along + P @ link``. Directions that are rounding errors are left out.
        """
        n_jobs, vectors = self._side.n_jobs, self.vectors
        # Eigenvalues found so far are exact to rounding errors of the largest.
        size = max(float(np.linalg.norm(block)), float(np.abs(self.projected).max(initial=0.0)))
        along = tall.inner(vectors, block, n_jobs)
        tall.subtract_times(block, vectors, along, n_jobs)
        q, r = tall.qr(block, n_jobs)
        u, values, vt = np.linalg.svd(r, full_matrices=False)
        kept = values > _NEGLIGIBLE * size
        q, link = tall.times(q, u[:, kept], n_jobs), values[kept, None] * vt[kept]
        # Once leaves errors as large as what cancels.
        again = tall.inner(vectors, q, n_jobs)
        tall.subtract_times(q, vectors, again, n_jobs)
        along += again @ link
        if np.abs(again).max(initial=0.0) > _SLIGHT:
            q, r = tall.qr(q, n_jobs)
            link = r @ link
        return along, q, link


def _residuals(remainders: FloatArray, values: FloatArray) -> FloatArray:
    """Return norms of residuals relative to the largest singular value.

    ``remainders`` (m, k) are those of eigenvectors of the Gram matrix.
    """
    least = np.finfo(float).tiny
    lengths = np.linalg.norm(remainders, axis=0)
    return lengths / np.maximum(values, least) / max(float(values[:1].sum()), least)
