"""The interface of every feature matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError

Vector = NDArray[np.float64]
"""(n,) or (n, K): one or K right-hand sides at once."""

RowFunction = Callable[[slice, Vector], Vector]
"""Of a slice of the rows and their responses, which it may write over."""


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


class DenseColumns(FeatureMatrix, Protocol):
    """A matrix without zeros, whose columns may be multiplied with each other.

    ``hasattr(matrix, "column_gram")`` tells whether a matrix is one, for matrices made
    of others too.
    """

    def column_gram(
        self,
        weights: NDArray[np.float64] | None = None,
        columns: NDArray[np.integer] | slice | None = None,
        out: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Return ``Z.T @ diag(weights) @ Z``, of all columns or some."""

    def pull_back(self, w: Vector, function: RowFunction, out: Vector | None = None) -> Vector:
        """Return ``Z.T @ function(rows, Z @ w)`` in one pass over the rows."""

    def normal_product(self, w: Vector, row_weights: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z.T @ (row_weights * (Z @ w))`` in one pass over the rows."""


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


def weighing(matrix: FeatureMatrix, row_weights: Vector, n_dimensions: int) -> RowFunction:
    """Return the function of rows and responses that multiplies these by weights of the rows.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
    row_weights : array (n_rows,) or (n_rows, K)
    n_dimensions : int
        Of the responses: 1 or 2.

    Raises
    ------
    InputError
        If the weights do not fit.
    """
    weights = operand(matrix, row_weights, matrix.shape[0], "row_weights")
    if weights.ndim > n_dimensions:
        raise InputError(
            f"{type(matrix).__name__}: row_weights of shape {weights.shape} need a w of two "
            f"dimensions."
        )
    weights = weights[:, None] if weights.ndim < n_dimensions else weights

    def weigh(rows: slice, responses: Vector) -> Vector:
        responses *= weights[rows]
        return responses

    return weigh


def weights_of_rows(
    matrix: FeatureMatrix, weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Return one weight a row, 1 by default."""
    checked = operand(
        matrix, np.ones(matrix.shape[0]) if weights is None else weights, matrix.shape[0], "weights"
    )
    if checked.ndim != 1:
        raise InputError(
            f"{type(matrix).__name__}: weights must be one number a row, got shape {checked.shape}."
        )
    return checked


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


def is_room(out: Vector, shape: tuple[int, ...]) -> bool:
    """Tell whether the loops can write a result of some shape into ``out``."""
    usable = out.dtype == np.float64 and out.flags.c_contiguous and out.flags.writeable
    return bool(usable and out.shape == shape)


def check_room(matrix: FeatureMatrix, out: Vector, shape: tuple[int, ...]) -> None:
    """Raise ``InputError`` unless the loops can add a result of some shape to ``out``."""
    if not is_room(out, shape):
        raise InputError(
            f"{type(matrix).__name__}: add_rmatvec needs a writable C-contiguous float64 array of "
            f"shape {shape}, got {out.dtype} of shape {out.shape}."
        )
