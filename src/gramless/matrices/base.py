"""The base class of every feature matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.threads import cached_property, one_blas_thread
from gramless.base.types import FloatArray
from gramless.matrices.row_lists import RowLists

Vector = FloatArray  # (n,) or (n, K): one or K right-hand sides

Rows = NDArray[np.integer] | NDArray[np.bool_] | slice

Columns = NDArray[np.integer] | slice

# A function of a slice of the rows and their responses, which it may overwrite.
RowFunction = Callable[[slice, Vector], Vector]


@dataclass(frozen=True)
class ColumnBlock:
    """Columns ``start:stop`` of a matrix, as a separate matrix."""

    start: int
    stop: int
    matrix: FeatureMatrix


class FeatureMatrix(ABC):
    """An N x D matrix defined by its products; its entries need not be stored.

    A subclass implements ``shape``, ``_matvec``, ``_rmatvec``, :meth:`gram_diagonal` and
    :meth:`take_rows`. All other methods follow from these; override a method if the form of the
    matrix allows a cheaper one. Attributes that begin with ``has_`` say which optional methods a
    matrix supports.

    Attributes
    ----------
    n_jobs : int or None
        Number of threads; None means every processor. Results do not depend on it.
    has_one_pass : bool
        Whether :meth:`pull_back` computes each row once.
    has_column_gram : bool
        Whether :meth:`column_gram` is supported. It is for dense matrices.
    has_row_lists : bool
        Whether :attr:`row_lists` is supported. It is for bins: a grid is a group of columns of
        which each row has at most one.
    has_row_products : bool
        Whether :meth:`row_products` costs less than :meth:`rmatvec` followed by :meth:`matvec`.

    Examples
    --------
    >>> class Identity(FeatureMatrix):
    ...     shape = (3, 3)
    ...
    ...     def _matvec(self, w, out):
    ...         out[...] = w
    ...
    ...     def _rmatvec(self, v, out):
    ...         out[...] = v
    ...
    ...     def gram_diagonal(self, weights=None):
    ...         return row_weights_of(self, weights)
    ...
    ...     def take_rows(self, rows):
    ...         raise NotImplementedError
    >>> Identity().matvec([1.0, 2.0, 3.0])
    array([1., 2., 3.])
    >>> Identity().row_gram()
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """

    n_jobs: int | None = None

    @property
    def has_one_pass(self) -> bool:
        return False

    @property
    def has_column_gram(self) -> bool:
        return False

    @property
    def has_row_lists(self) -> bool:
        return False

    @property
    def has_row_products(self) -> bool:
        return False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""

    @abstractmethod
    def _matvec(self, w: Vector, out: Vector) -> None:
        """Write ``Z @ w`` into ``out``; both are C-contiguous float64 of matching shapes."""

    @abstractmethod
    def _rmatvec(self, v: Vector, out: Vector) -> None:
        """Write ``Z.T @ v`` into ``out``; both are C-contiguous float64 of matching shapes."""

    @abstractmethod
    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        """Return the diagonal (D,) of ``Z.T @ diag(weights) @ Z``; weights are 1 by default."""

    @abstractmethod
    def take_rows(self, rows: Rows) -> FeatureMatrix:
        """Return the matrix of some rows, columns unchanged; a slice may share memory."""

    @property
    def nbytes(self) -> int:
        """Number of bytes that the matrix takes as it is stored."""
        return 8 * self.shape[0] * self.shape[1]

    def matvec(self, w: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z @ w``, (n_rows,) or (n_rows, K) for ``w`` (n_columns,) or (n_columns, K).

        If ``out`` is given, it is overwritten and returned. Raises ``InputError`` if the shape of
        ``w`` or ``out`` is wrong.
        """
        return self._product(
            self._matvec, as_operand(self, w, self.shape[1], "w"), self.shape[0], out
        )

    def rmatvec(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z.T @ v``, with the same options and checks as :meth:`matvec`."""
        v = as_operand(self, v, self.shape[0], "v")
        return self._product(self._rmatvec, v, self.shape[1], out)

    def add_rmatvec(self, v: Vector, out: Vector) -> None:
        """Add ``Z.T @ v`` to ``out``, a C-contiguous float64 array.

        Matrices of bins touch only the columns that have non-zeros.
        """
        v = as_operand(self, v, self.shape[0], "v")
        shape = self.shape[1], *v.shape[1:]
        if not is_writable(out, shape):
            raise InputError(
                f"{type(self).__name__}: add_rmatvec needs a writable C-contiguous float64 out "
                f"of shape {shape}, got {out.dtype} of shape {out.shape}."
            )
        self._add_rmatvec(v, out)

    def _add_rmatvec(self, v: Vector, out: Vector) -> None:
        """Add ``Z.T @ v`` to ``out``; both are C-contiguous float64 of matching shapes."""
        out += self.rmatvec(v)

    def add_matvec(self, w: Vector, scale: float, out: Vector) -> None:
        """Add ``scale * (Z @ w)`` to ``out``; both are C-contiguous float64."""
        product = self.matvec(w)
        out += product if scale == 1.0 else scale * product

    def pull_back(self, w: Vector, function: RowFunction, out: Vector | None = None) -> Vector:
        """Return ``Z.T @ function(rows, Z @ w)``.

        ``w`` is (n_columns,) or (n_columns, K). ``function(rows, responses)`` receives a slice of
        the rows and their responses (m,) or (m, K), which it may overwrite. It is called once with
        all rows or, if ``has_one_pass``, from pool threads with parts of the rows. ``out`` is as in
        :meth:`matvec`.
        """
        return self.rmatvec(function(slice(None), self.matvec(w)), out)

    def column_gram(
        self,
        weights: FloatArray | None = None,
        columns: Columns | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return ``Z.T @ diag(weights) @ Z``, exactly symmetric, for all or some columns.

        Weights (n_rows,) may be negative and are 1 by default; columns may be in any order.
        ``out`` (m, m) need not be contiguous.
        """
        raise InputError(f"{type(self).__name__} has no column_gram.")

    def row_products(
        self, v: Vector, rows: NDArray[np.intp] | None = None, *, single: bool = False
    ) -> Vector:
        """Return ``Z @ Z[rows].T @ v`` for ``v`` (m, K); ``rows`` are all rows by default.

        With ``single``, matrices with ``has_row_products`` may compute in single precision.
        """
        return self.matvec((self if rows is None else self.take_rows(rows)).rmatvec(v))

    @cached_property
    def row_lists(self) -> RowLists:
        """The rows of every column, computed once; they take another 2 or 4 bytes per non-zero."""
        return self._list_rows()

    def _list_rows(self) -> RowLists:
        raise InputError(f"{type(self).__name__} has no row_lists.")

    def unwhitened(self) -> FeatureMatrix | None:
        """Return the matrix of kernel values if this one holds them whitened, else None."""
        return None

    def to_single(self) -> FeatureMatrix:
        """Return a matrix that multiplies several columns at once in single precision.

        The result is this matrix itself if single precision would not be faster.
        """
        return self

    def row_factors(self) -> tuple[FeatureMatrix, FeatureMatrix]:
        """Return the cheapest ``A`` and ``B`` with ``A @ B.T = Z @ Z.T``."""
        return self, self

    def row_gram(self) -> FloatArray:
        """Return ``Z @ Z.T``, (n_rows, n_rows), exactly symmetric; meant for few rows."""
        columns = self.rmatvec(np.eye(self.shape[0]))
        with one_blas_thread():
            return columns.T @ columns

    def blocks(self) -> Iterator[ColumnBlock]:
        """Yield blocks of columns that form separate terms, such as grids; by default one block."""
        yield ColumnBlock(0, self.shape[1], self)

    def tocsr(self) -> sp.csr_array:
        """Return the matrix as SciPy CSR of float64.

        The result takes 12 bytes per non-zero, or 16 with more than 2^31 non-zeros or columns.
        """
        return sp.csr_array(self.matvec(np.eye(self.shape[1])))

    def toarray(self) -> FloatArray:
        """Return the dense matrix: 8 * n_rows * n_columns bytes, for tests and small data."""
        return self.tocsr().toarray()

    def _product(
        self,
        write: Callable[[Vector, Vector], None],
        vector: Vector,
        length: int,
        out: Vector | None,
    ) -> Vector:
        shape = (length, *vector.shape[1:])
        # Compiled loops would overwrite an operand that shares memory with ``out``.
        if out is not None and is_writable(out, shape) and not np.may_share_memory(out, vector):
            write(vector, out)
            return out
        result = np.empty(shape)
        write(vector, result)
        return copy_to_out(self, out, result)


class WrappedMatrix(FeatureMatrix):
    """Base class of matrices that wrap another one and use its shape and products by default."""

    def __init__(self, matrix: FeatureMatrix) -> None:
        self.matrix, self.n_jobs = matrix, matrix.n_jobs

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes

    def _matvec(self, w: Vector, out: Vector) -> None:
        self.matrix.matvec(w, out)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        self.matrix.rmatvec(v, out)

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        return self.matrix.gram_diagonal(weights)


def as_operand(matrix: FeatureMatrix, vector: Vector, length: int, name: str) -> Vector:
    """Return ``vector``, (length,) or (length, K), as a C-contiguous float64 array.

    Raises ``InputError`` if its shape is wrong.
    """
    vector = np.asarray(vector, np.float64, order="C")
    if vector.ndim not in (1, 2) or vector.shape[0] != length:
        raise InputError(
            f"{type(matrix).__name__} of shape {matrix.shape}: {name} must have {length} rows and "
            f"at most two dimensions, got shape {vector.shape}."
        )
    return vector


def row_weights_of(matrix: FeatureMatrix, weights: FloatArray | None) -> FloatArray:
    """Return one weight per row, 1 by default; raise InputError if the shape is wrong."""
    if weights is None:
        return np.ones(matrix.shape[0])
    weights = as_operand(matrix, weights, matrix.shape[0], "weights")
    if weights.ndim != 1:
        name = type(matrix).__name__
        raise InputError(f"{name}: weights must be one number per row, got shape {weights.shape}.")
    return weights


def copy_to_out(matrix: FeatureMatrix, out: Vector | None, result: Vector) -> Vector:
    """Return ``out`` with a copy of ``result``, or ``result`` itself if ``out`` is None."""
    if out is None:
        return result
    check_out(matrix, out, result.shape)
    out[...] = result
    return out


def check_out(matrix: FeatureMatrix, out: Vector, shape: tuple[int, ...]) -> None:
    """Raise InputError if ``out`` does not have the shape of the product."""
    if out.shape != shape:
        raise InputError(f"{type(matrix).__name__}: out must have shape {shape}, got {out.shape}.")


def is_writable(out: Vector, shape: tuple[int, ...]) -> bool:
    """Return whether compiled loops can write a result of the given shape into ``out``."""
    is_usable = out.dtype == np.float64 and out.flags.c_contiguous and out.flags.writeable
    return bool(is_usable and out.shape == shape)
