"""Leading singular vectors of a feature matrix, from its products with blocks of vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from gramless.base.decompositions import svd
from gramless.base.errors import InputError
from gramless.base.memory import check_memory
from gramless.base.random import stream
from gramless.base.threads import one_blas_thread
from gramless.base.types import AnyArray, FloatArray
from gramless.matrices.base import FeatureMatrix
from gramless.unsupervised import tall_arrays as tall

_MORE_COLUMNS = 2
"""Vectors of a block beyond those that are asked for, at least: the last ones then converge too."""
_COLUMNS_AT_ONCE = 4  # products take a multiple of so many vectors in the least time for each
_MOST_BLOCKS = 8  # blocks of a basis before it is restarted from its best vectors
_KEPT_BLOCKS = 2  # blocks of best vectors from which it is restarted
_NEGLIGIBLE = 1e-13  # directions below this fraction of what they were made of are rounding errors
_SLIGHT = 1e-8  # orthonormal directions that lose parts up to this length stay so to the last digit
_LEAST_VALUE = 1e-10  # singular values below this fraction of the largest count as zero
_LEAST_TOL_OF_SINGLE = 3e-5  # of a tolerance: residuals below need products in double precision
_TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class SingularTriplets:
    """The leading singular triplets of a matrix A of n rows and D columns.

    ``left`` (n, k) and ``right`` (D, k) have orthonormal columns; ``singular_values`` (k,) fall.
    ``residuals`` (k,) are norms relative to the largest singular value: of
    ``A.T @ left - right * singular_values`` where the matrix has as many rows as columns or more,
    else of ``A @ right - left * singular_values``; measured, in double precision. The other of
    these two is zero but for rounding errors. There are fewer triplets than asked for where the
    rank of the matrix is lower.
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
        Of ``A.T @ A`` and ``A @ A.T`` it takes the smaller. Where ``tol`` is 3e-5 or more, products
        and bases of bins are in single precision; only if the vectors that they lead to do not meet
        the tolerance, steps in double precision go on from these. Eigenvectors are sought in a
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
        exact, single = _Side(matrix, _DOUBLE), matrix.to_single()
        is_faster = single is not matrix and tol >= _LEAST_TOL_OF_SINGLE
        sides = [_Side(single, _SINGLE), exact] if is_faster else [exact]
        with one_blas_thread():
            draws = stream(seed, "decomposition").random((exact.other_size, width)) - 0.5
            block, n_iter, converged = sides[0].back(draws), 0, False
            for side in sides:
                if n_iter < max_iter and not converged:
                    basis = _Basis(side, min(width, exact.size), block)
                    n_iter += basis.extend_until(n_components, tol, max_iter - n_iter)
                    found = _triplets(exact, basis.leading(n_components))
                    here, values, there, residuals = found
                    met = len(values) == n_components and bool((residuals <= tol).all())
                    converged = met or (side is exact and basis.is_complete)
                    if not converged:
                        block = basis.leading(width)
        left, right = (here, there) if exact.is_wide else (there, here)
        largest = np.abs(right).argmax(axis=0)
        signs = np.sign(right[largest, np.arange(len(largest))])
        return cls(left * signs, values, right * signs, residuals, n_iter, converged)


@dataclass(frozen=True)
class _Precision:
    """How exact products with a Gram matrix are, relative to its largest eigenvalue.

    Directions below ``negligible`` are rounding errors; ``error`` counts beside a tolerance. A
    basis has ``dtype``, and ``directions`` finds those of a block.
    """

    negligible: float
    error: float
    dtype: type[np.floating]
    directions: Callable[[AnyArray, float, int | None], tuple[AnyArray, FloatArray]]


_DOUBLE = _Precision(_NEGLIGIBLE, 0.0, np.float64, tall.directions)
_SINGLE = _Precision(1e-6, 2e-6, np.float32, tall.directions_by_gram)


class _Side:
    """The shorter side of a matrix: ``forth`` leads to the longer one, ``back`` from there."""

    def __init__(self, matrix: FeatureMatrix, precision: _Precision) -> None:
        n_rows, n_columns = matrix.shape
        self.is_wide, self.n_jobs = n_rows < n_columns, matrix.n_jobs
        self.size, self.other_size = min(matrix.shape), max(matrix.shape)
        self.precision = precision
        products: list[Callable[[FloatArray], FloatArray]] = [matrix.matvec, matrix.rmatvec]
        self.forth, self.back = products[:: -1 if self.is_wide else 1]


class _Basis:
    """Orthonormal ``vectors`` Q of the shorter side, and what follows them.

    With G the Gram matrix of that side, ``G @ Q = Q @ projected + following @ link``, where
    ``following`` is orthonormal, orthogonal to Q, and empty once nothing is left to find.
    """

    def __init__(self, side: _Side, width: int, start: FloatArray) -> None:
        self._side, self._width = side, width
        n_kept = min(_MOST_BLOCKS * width, side.size + width)
        self._room = np.empty((side.size, n_kept), side.precision.dtype)
        self.projected = np.empty((0, 0))
        _, self.following, link = self._split(start)
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
        image = self._side.back(self._side.forth(self.following))
        self._room[:, n_old : n_old + n_new] = self.following
        self.projected = np.pad(self.projected, (0, n_new))
        along, self.following, link = self._split(image)
        self.projected[:, n_old:] = along
        self.projected[n_old:, :n_old] = along[:n_old].T
        self.link = np.hstack([np.zeros((len(link), n_old)), link])

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to find."""
        return self.following.shape[1] == 0

    def extend_until(self, n_components: int, tol: float, most: int) -> int:
        """Add blocks until leading vectors meet a tolerance; return how many were added."""
        for n_added in range(1, most + 1):
            if self.is_complete:
                return n_added - 1
            self.extend()
            values, rotation = self._eigenvectors(n_components)
            residuals = _relative(self.link @ rotation, values * values[:1])
            errors = self._side.precision.error * values[:1] / np.maximum(values, _TINY)
            if (
                len(values) == n_components
                and (residuals <= np.maximum(tol - errors, errors)).all()
            ):
                return n_added
        return most

    def leading(self, most: int) -> FloatArray:
        """Return the leading approximate eigenvectors (size, m), orthonormal in float64."""
        found = tall.times(self.vectors, self._eigenvectors(most)[1], self._side.n_jobs)
        return tall.directions_by_gram(found.astype(np.float64), 0.0, self._side.n_jobs)[0]

    def _restart(self) -> None:
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
        n_jobs, vectors, precision = self._side.n_jobs, self.vectors, self._side.precision
        block = block.astype(precision.dtype, copy=False)
        # Eigenvalues found so far are exact to rounding errors of the largest.
        size = max(float(np.linalg.norm(block)), float(np.abs(self.projected).max(initial=0.0)))
        along = tall.inner(vectors, block, n_jobs)
        tall.subtract_times(block, vectors, along, n_jobs)
        q, link = precision.directions(block, precision.negligible * size, n_jobs)
        # Rounding errors are no directions of a space that Q fills.
        n_left = max(0, self._side.size - vectors.shape[1])
        q, link = q[:, :n_left], link[:n_left]
        # Once leaves errors as large as what cancels.
        again = tall.inner(vectors, q, n_jobs)
        tall.subtract_times(q, vectors, again, n_jobs)
        along += again @ link
        if np.abs(again).max(initial=0.0) > _SLIGHT:
            q, turned = precision.directions(q, 0.0, n_jobs)
            link = turned @ link
        return along, q, link


def _triplets(
    side: _Side, here: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return singular vectors of this side, values, vectors of the other side, and residuals.

    ``here`` are orthonormal vectors of this side, near to those sought.
    """
    there, factor = tall.qr(side.forth(here), side.n_jobs)
    u, values, vt = svd(factor)
    kept = values > _LEAST_VALUE * values[:1].sum()
    u, values, v = u[:, kept], values[kept], vt.T[:, kept]
    here, there = tall.times(here, v, side.n_jobs), tall.times(there, u, side.n_jobs)
    remainders = side.back(there)
    remainders -= here * values
    return here, values, there, _relative(remainders, values[:1])


def _relative(remainders: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the norms of the columns of remainders (m, k) over ``sizes``, (k,) or (1,)."""
    lengths: FloatArray = np.linalg.norm(remainders, axis=0) / np.maximum(sizes, _TINY)
    return lengths
