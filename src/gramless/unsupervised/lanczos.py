"""Leading singular triplets of a feature matrix by a block Lanczos method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from gramless.base.errors import InputError
from gramless.base.memory import check_memory
from gramless.base.random import stream
from gramless.base.threads import one_blas_thread
from gramless.base.types import AnyArray, FloatArray
from gramless.matrices.base import FeatureMatrix
from gramless.unsupervised import tall_arrays as tall
from gramless.unsupervised.tall_arrays import svd

# Columns of a block beyond the requested vectors, so that the last of these converge too.
_EXTRA_COLUMNS = 2
_COLUMN_MULTIPLE = 4  # products are fastest per vector if their number is a multiple of this
_MAX_BLOCKS = 8  # blocks of a basis before it is restarted from its best vectors
_KEPT_BLOCKS = 2  # blocks of best vectors kept at a restart
_NEGLIGIBLE = 1e-13  # directions below this fraction of the largest eigenvalue are rounding errors
# Directions that a second orthogonalisation changes by more than this are orthonormalised again.
_MAX_CORRECTION = 1e-8
_MIN_VALUE = 1e-10  # singular values below this fraction of the largest count as zero
_MIN_SINGLE_TOL = 3e-5  # smaller residuals need products in double precision
_TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class SingularTriplets:
    """The leading singular triplets of a matrix A of n rows and D columns.

    ``left`` (n, k) and ``right`` (D, k) have orthonormal columns; ``singular_values`` (k,) are in
    descending order. ``residuals`` (k,) are norms relative to the largest singular value, computed
    in double precision: of ``A.T @ left - right * singular_values`` if the matrix has at least as
    many rows as columns, else of ``A @ right - left * singular_values``. The other of these two is
    zero up to rounding errors. There are fewer triplets than requested if the rank of the matrix is
    lower. ``converged`` is True if all residuals met the tolerance within ``n_iter`` products with
    blocks of vectors, or if the vectors of all blocks span an invariant subspace. In each column of
    ``right``, the entry with the largest absolute value is positive.
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
        """Return the leading triplets by block Lanczos steps on ``A.T @ A`` or ``A @ A.T``.

        Parameters
        ----------
        matrix : FeatureMatrix
            Features of the rows.
        n_components : int
            Number of singular triplets.
        tol : float, default=1e-4
            Tolerance for the residuals. The error of a singular value is then about ``tol**2``
            divided by its gap to the other values, all relative to the largest value.
        max_iter : int, default=200
            Maximum number of products of A and A.T with a block of vectors. A block has
            ``n_components + 2`` vectors or up to 3 more, so that the result has multiple singular
            values with their multiplicity.
        seed : int, default=0
            Seed of the first block.

        Raises
        ------
        InputError
            If ``n_components`` is out of range, or if the vectors take too much memory.

        Notes
        -----
        The method uses the smaller of ``A.T @ A`` and ``A @ A.T``. If the features are bins and
        ``tol`` is at least 3e-5, products and bases are in single precision; if the resulting
        vectors do not meet the tolerance, steps in double precision continue from them.
        Eigenvectors are computed in a basis of eight blocks, which is restarted from the best
        vectors (Wu & Simon 2000, "Thick-restart Lanczos method", in blocks). Singular values below
        about 1e-8 of the largest are not exact. Bases and products take
        ``8 min(n, D) + 3 (n + D)`` numbers times the width of a block.

        Examples
        --------
        >>> from gramless.matrices.dense import DenseMatrix
        >>> rows = np.random.default_rng(0).normal(size=(50, 8))
        >>> triplets = SingularTriplets.of(DenseMatrix(rows), 3)
        >>> exact = np.linalg.svd(rows, compute_uv=False)
        >>> bool(np.allclose(triplets.singular_values, exact[:3]))
        True
        """
        if not 1 <= n_components <= max(1, min(matrix.shape)):
            raise InputError(
                f"SingularTriplets: n_components must be from 1 to {min(matrix.shape)}, the "
                f"shorter side of a matrix of shape {matrix.shape}; got {n_components}."
            )
        width = -(-(n_components + _EXTRA_COLUMNS) // _COLUMN_MULTIPLE) * _COLUMN_MULTIPLE
        check_memory(
            f"SingularTriplets: {n_components} components of a matrix of shape {matrix.shape}",
            8.0 * width * (_MAX_BLOCKS * min(matrix.shape) + 3 * sum(matrix.shape)),
            "ask for fewer components",
        )
        exact, single = _Side(matrix, _DOUBLE), matrix.to_single()
        uses_single = single is not matrix and tol >= _MIN_SINGLE_TOL
        sides = [_Side(single, _SINGLE), exact] if uses_single else [exact]
        with one_blas_thread():
            draws = stream(seed, "decomposition").random((exact.other_size, width)) - 0.5
            block, n_iter, converged = sides[0].to_shorter(draws), 0, False
            for side in sides:
                if n_iter < max_iter and not converged:
                    basis = _Basis(side, min(width, exact.size), block)
                    n_iter += basis.extend_until(n_components, tol, max_iter - n_iter)
                    leading = basis.leading(n_components)
                    short, values, long, residuals = _triplets(exact, leading)
                    is_accurate = len(values) == n_components and bool((residuals <= tol).all())
                    # A basis in single precision may only seem to be complete.
                    converged = is_accurate or (side is exact and basis.is_complete)
                    if not converged:
                        block = basis.leading(width)
        left, right = (short, long) if exact.is_wide else (long, short)
        largest = np.abs(right).argmax(axis=0)
        signs = np.sign(right[largest, np.arange(len(largest))])
        return cls(left * signs, values, right * signs, residuals, n_iter, converged)


@dataclass(frozen=True)
class _Precision:
    """The precision of products with a Gram matrix, relative to its largest eigenvalue.

    Directions below ``negligible`` are rounding errors, and residuals have an error of ``error``.
    ``dtype`` is that of the basis. ``directions(block, min_value, n_jobs)`` orthonormalises a
    block, as :func:`~gramless.unsupervised.tall_arrays.directions` does.
    """

    negligible: float
    error: float
    dtype: type[np.floating]
    directions: Callable[[AnyArray, float, int | None], tuple[AnyArray, FloatArray]]


_DOUBLE = _Precision(_NEGLIGIBLE, 0.0, np.float64, tall.directions)
_SINGLE = _Precision(1e-6, 2e-6, np.float32, tall.directions_by_gram)


class _Side:
    """Products with a matrix, in the precision of the matrix.

    ``to_longer`` maps vectors of the shorter side to the longer side, ``to_shorter`` the reverse.
    """

    def __init__(self, matrix: FeatureMatrix, precision: _Precision) -> None:
        n_rows, n_columns = matrix.shape
        self.is_wide, self.n_jobs = n_rows < n_columns, matrix.n_jobs
        self.size, self.other_size = min(matrix.shape), max(matrix.shape)
        self.precision = precision
        products: list[Callable[[FloatArray], FloatArray]] = [matrix.matvec, matrix.rmatvec]
        self.to_longer, self.to_shorter = products[:: -1 if self.is_wide else 1]


class _Basis:
    """A Lanczos basis: orthonormal ``vectors`` Q of the shorter side, and the next block.

    With the Gram matrix G of that side, ``G @ Q = Q @ projected + following @ link``. The next
    block ``following`` is orthonormal and orthogonal to Q. It is empty if Q spans an invariant
    subspace.
    """

    def __init__(self, side: _Side, width: int, start: FloatArray) -> None:
        self._side, self._width = side, width
        n_columns = min(_MAX_BLOCKS * width, side.size + width)
        self._storage = np.empty((side.size, n_columns), side.precision.dtype)
        self.projected = np.empty((0, 0))
        _, self.following, link = self._split(start)
        self.link = link[:, :0]

    @property
    def vectors(self) -> FloatArray:
        return self._storage[:, : len(self.projected)]

    def extend(self) -> None:
        """Add the next block to the basis, and compute the one after it."""
        n_new = self.following.shape[1]
        if len(self.projected) + n_new > self._storage.shape[1]:
            # The storage is full: continue from the best vectors.
            values, rotation = self._eigenvectors(_KEPT_BLOCKS * self._width)
            kept = tall.times(self.vectors, rotation, self._side.n_jobs)
            self._storage[:, : len(values)] = kept
            self.projected, self.link = np.diag(values**2), self.link @ rotation
        n_old = len(self.projected)
        image = self._side.to_shorter(self._side.to_longer(self.following))
        self._storage[:, n_old : n_old + n_new] = self.following
        self.projected = np.pad(self.projected, (0, n_new))
        along, self.following, link = self._split(image)
        self.projected[:, n_old:] = along
        self.projected[n_old:, :n_old] = along[:n_old].T
        self.link = np.hstack([np.zeros((len(link), n_old)), link])

    @property
    def is_complete(self) -> bool:
        return self.following.shape[1] == 0

    def extend_until(self, n_components: int, tol: float, max_blocks: int) -> int:
        """Add blocks until the leading vectors meet a tolerance; return the number of blocks."""
        for n_added in range(1, max_blocks + 1):
            if self.is_complete:
                return n_added - 1
            self.extend()
            values, rotation = self._eigenvectors(n_components)
            # The residual of an eigenvector of G, divided by the singular value, is the residual
            # of the triplet.
            residuals = _relative(self.link @ rotation, values * values[:1])
            errors = self._side.precision.error * values[:1] / np.maximum(values, _TINY)
            # Residuals are uncertain by these errors, so they must meet the tolerance with this
            # margin. Residuals below the errors cannot be reduced in this precision.
            if (
                len(values) == n_components
                and (residuals <= np.maximum(tol - errors, errors)).all()
            ):
                return n_added
        return max_blocks

    def leading(self, n_vectors: int) -> FloatArray:
        """Return the leading approximate eigenvectors (size, m), orthonormal in float64."""
        vectors = tall.times(self.vectors, self._eigenvectors(n_vectors)[1], self._side.n_jobs)
        return tall.directions_by_gram(vectors.astype(np.float64), 0.0, self._side.n_jobs)[0]

    def _eigenvectors(self, n_vectors: int) -> tuple[FloatArray, FloatArray]:
        """Return the roots of the leading eigenvalues of ``projected``, and eigenvectors (s, m)."""
        squares, rotation = np.linalg.eigh((self.projected + self.projected.T) / 2.0)
        values = np.sqrt(np.maximum(squares[::-1][:n_vectors], 0.0))
        return values, rotation[:, ::-1][:, :n_vectors]

    def _split(self, block: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Split a block into parts along Q and orthogonal to Q; the block is overwritten.

        Returns ``along``, an orthonormal P orthogonal to Q, and ``link``, such that the block was
        ``Q @ along + P @ link``. Directions that are rounding errors are dropped.
        """
        n_jobs, vectors, precision = self._side.n_jobs, self.vectors, self._side.precision
        block = block.astype(precision.dtype, copy=False)
        # Rounding errors are relative to the largest eigenvalue so far, which the largest entry of
        # the projected matrix approximates.
        size = max(float(np.linalg.norm(block)), float(np.abs(self.projected).max(initial=0.0)))
        along = tall.inner(vectors, block, n_jobs)
        tall.subtract_times(block, vectors, along, n_jobs)
        q, link = precision.directions(block, precision.negligible * size, n_jobs)
        # There are at most as many directions as Q leaves; more would be rounding errors.
        n_remaining = max(0, self._side.size - vectors.shape[1])
        q, link = q[:, :n_remaining], link[:n_remaining]
        # The first orthogonalisation leaves errors relative to the part that it subtracted.
        again = tall.inner(vectors, q, n_jobs)
        tall.subtract_times(q, vectors, again, n_jobs)
        along += again @ link
        if np.abs(again).max(initial=0.0) > _MAX_CORRECTION:
            q, rotation = precision.directions(q, 0.0, n_jobs)
            link = rotation @ link
        return along, q, link


def _triplets(
    side: _Side, vectors: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return vectors of the shorter side, values, vectors of the longer side, and residuals.

    ``vectors`` are orthonormal approximations of the vectors of the shorter side.
    """
    long, factor = tall.qr(side.to_longer(vectors), side.n_jobs)
    u, values, vt = svd(factor)
    kept = values > _MIN_VALUE * values[:1].sum()
    u, values, v = u[:, kept], values[kept], vt.T[:, kept]
    short, long = tall.times(vectors, v, side.n_jobs), tall.times(long, u, side.n_jobs)
    remainders = side.to_shorter(long)
    remainders -= short * values
    return short, values, long, _relative(remainders, values[:1])


def _relative(remainders: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the norms of the columns of remainders (m, k) divided by ``sizes``, (k,) or (1,)."""
    norms: FloatArray = np.linalg.norm(remainders, axis=0) / np.maximum(sizes, _TINY)
    return norms
