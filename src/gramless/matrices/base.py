"""The interface of every feature matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError

Vector = NDArray[np.float64]
"""(n,) or (n, K): one or K right-hand sides at once."""


@dataclass(frozen=True)
class ColumnBlock:
    """Columns ``start:stop`` of a matrix, as a matrix of their own."""

    start: int
    stop: int
    matrix: FeatureMatrix


class FeatureMatrix(Protocol):
    """An N x D matrix known by its products; it need not be stored."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""

    def matvec(self, w: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z @ w``: (D,) or (D, K) to (N,) or (N, K)."""

    def rmatvec(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z.T @ v``: (N,) or (N, K) to (D,) or (D, K)."""

    def add_rmatvec(self, v: Vector, out: Vector) -> None:
        """Add ``Z.T @ v`` to ``out``, a C-contiguous array of float64."""

    def row_gram(self) -> NDArray[np.float64]:
        """Return ``Z @ Z.T``, (N, N): for a few rows."""

    def gram_diagonal(self, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the diagonal of ``Z.T @ diag(weights) @ Z``, shape (D,)."""

    def blocks(self) -> Iterator[ColumnBlock]:
        """Yield the column blocks: one a grid, a Fourier block or a landmark slab."""

    def take_rows(self, rows: NDArray[np.integer] | slice) -> FeatureMatrix:
        """Return the matrix of some rows, columns unchanged."""

    def tocsr(self) -> sp.csr_array:
        """Return the matrix as SciPy CSR of float64: 12 bytes a non-zero (16 beyond 2^31)."""


def operand(matrix: FeatureMatrix, vector: Vector, length: int, name: str) -> Vector:
    """Return what a matrix is to be multiplied with as C-contiguous float64, or say what is wrong.

    Raises
    ------
    InputError
        Unless ``vector`` is (length,) or (length, K).
    """
    vector = np.asarray(vector, np.float64, order="C")
    if vector.ndim not in (1, 2) or vector.shape[0] != length:
        raise InputError(
            f"{type(matrix).__name__} of shape {matrix.shape}: {name} must have {length} rows and "
            f"at most two dimensions, got shape {vector.shape}."
        )
    return vector


def into(matrix: FeatureMatrix, out: Vector | None, result: Vector) -> Vector:
    """Return ``result``, written into ``out`` if that is another array.

    Raises
    ------
    InputError
        If ``out`` has another shape.
    """
    if out is None or out is result:
        return result
    check_out(matrix, out, result.shape)
    out[...] = result
    return out


def check_out(matrix: FeatureMatrix, out: Vector, shape: tuple[int, ...]) -> None:
    """Raise ``InputError`` unless ``out`` has the shape of a product."""
    if out.shape != shape:
        raise InputError(f"{type(matrix).__name__}: out must have shape {shape}, got {out.shape}.")
