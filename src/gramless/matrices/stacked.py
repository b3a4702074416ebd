"""Feature matrices side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from gramless.base.cached import cached_property
from gramless.base.errors import InputError
from gramless.matrices.base import (
    ColumnBlock,
    FeatureMatrix,
    RowFunction,
    Vector,
    check_out,
    into,
    operand,
    weighing,
)
from gramless.matrices.row_lists import RowLists
from gramless.matrices.slabs import Columns, SlabMatrix


def _of_slabs(name: str) -> Callable[[Any], bool]:
    """Return whether the matrix inside has a method that only matrices without zeros have."""
    return lambda stacked: hasattr(stacked.matrix, name)


class WithIntercept:
    """A matrix with one more column, of ones, at its end.

    It has ``column_gram``, ``pull_back`` and ``normal_product`` where the matrix has them.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)

    Examples
    --------
    >>> import numpy as np
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> Z = WithIntercept(BinnedMatrix(np.array([[1, 2]], np.uint8), np.array([0, 2])))
    >>> Z.matvec(np.array([1.0, 2.0, 10.0]))
    array([11., 12.])
    >>> hasattr(Z, "column_gram")
    False
    """

    def __init__(self, matrix: FeatureMatrix) -> None:
        self.matrix: Any = matrix

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns + 1)."""
        n_rows, n_columns = self.matrix.shape
        return n_rows, n_columns + 1

    def matvec(self, w: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z @ w[:-1] + w[-1]``."""
        result: Vector = self.matrix.matvec(w[:-1], out)
        result += w[-1]
        return result

    def rmatvec(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z.T @ v`` and the sum of ``v`` below it."""
        if out is None:
            out = np.empty((self.shape[1], *v.shape[1:]))
        self.matrix.rmatvec(v, out[:-1])
        out[-1] = v.sum(axis=0)
        return out

    def add_rmatvec(self, v: Vector, out: Vector) -> None:
        """Add ``Z.T @ v`` and the sum of ``v`` to ``out``."""
        self.matrix.add_rmatvec(v, out[:-1])
        out[-1] += v.sum(axis=0)

    def row_gram(self) -> NDArray[np.float64]:
        """Return the matrix's own, and 1 everywhere."""
        gram: NDArray[np.float64] = self.matrix.row_gram()
        gram += 1.0
        return gram

    def gram_diagonal(self, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the matrix's diagonal and the sum of the weights."""
        total = self.shape[0] if weights is None else weights.sum()
        return np.append(self.matrix.gram_diagonal(weights), total)

    @available_if(_of_slabs("column_gram"))
    def column_gram(
        self,
        weights: NDArray[np.float64] | None = None,
        columns: Columns | None = None,
        out: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Do as ``SlabMatrix.column_gram``, the column of ones included.

        Notes
        -----
        One more pass over the rows, for the sums of the columns. Of all columns it
        takes no more memory than without the ones; of some, the result twice.
        """
        n_own = self.matrix.shape[1]
        numbers = np.arange(n_own + 1)[slice(None) if columns is None else columns]
        own, ones = np.flatnonzero(numbers < n_own), np.flatnonzero(numbers == n_own)
        gram = np.empty((len(numbers), len(numbers))) if out is None else out
        check_out(self, gram, (len(numbers), len(numbers)))
        if columns is None:
            self.matrix.column_gram(weights, out=gram[:-1, :-1])
        else:
            gram[np.ix_(own, own)] = self.matrix.column_gram(weights, numbers[own])
        of_rows = np.ones(self.shape[0]) if weights is None else np.asarray(weights, np.float64)
        sums = self.matrix.rmatvec(of_rows)[numbers[own]]
        gram[np.ix_(own, ones)] = sums[:, None]
        gram[np.ix_(ones, own)] = sums
        gram[np.ix_(ones, ones)] = of_rows.sum()
        return gram

    @available_if(_of_slabs("pull_back"))
    def pull_back(self, w: Vector, function: RowFunction, out: Vector | None = None) -> Vector:
        """Do as ``SlabMatrix.pull_back``, the column of ones included: 8 bytes a row and output."""
        w = operand(self, w, self.shape[1], "w")
        values = np.empty((self.shape[0], *w.shape[1:]))

        def shifted(rows: slice, responses: Vector) -> Vector:
            responses += w[-1]
            values[rows] = function(rows, responses)
            return values[rows]

        result = np.empty(w.shape)
        self.matrix.pull_back(w[:-1], shifted, result[:-1])
        result[-1] = values.sum(axis=0)
        return into(self, out, result)

    @available_if(_of_slabs("normal_product"))
    def normal_product(self, w: Vector, row_weights: Vector, out: Vector | None = None) -> Vector:
        """Do as ``SlabMatrix.normal_product``, the column of ones included."""
        return self.pull_back(w, weighing(self, row_weights, np.ndim(w)), out)

    def blocks(self) -> Iterator[ColumnBlock]:
        """Yield the matrix's blocks; the column of ones belongs to none."""
        return self.matrix.blocks()

    @cached_property
    def row_lists(self) -> RowLists:
        """The matrix's own, if it has any, and a last group of ones."""
        own: RowLists = self.matrix.row_lists
        return own.with_ones()

    def take_rows(self, rows: NDArray[np.integer] | slice) -> WithIntercept:
        """Return the matrix of some rows."""
        return WithIntercept(self.matrix.take_rows(rows))

    def tocsr(self) -> sp.csr_array:
        """Return the matrix's own CSR and the column of ones: one more non-zero a row."""
        ones = sp.csr_array(np.ones((self.shape[0], 1)))
        return sp.hstack([self.matrix.tocsr(), ones], format="csr")


class SideBySide:
    """The columns of several matrices over the same rows, as one matrix.

    Hybrid features (Rahimi & Recht 2007, section 6): their kernel is the sum of the
    parts' kernels, times the squares of the scales. It has ``column_gram``, ``pull_back``
    and ``normal_product`` where all parts are matrices of slabs, and ``row_lists`` where
    all parts have them.

    Parameters
    ----------
    parts : sequence of FeatureMatrix (n_rows, ...)
        At least one.
    scales : sequence of float, optional
        What each part is multiplied with; 1 by default.

    Attributes
    ----------
    parts : list of FeatureMatrix
        What is side by side in a part stands here itself.
    scales : list of float

    Raises
    ------
    InputError
        Without parts, where their rows differ in number, or if scales do not fit.

    Notes
    -----
    Products cost what those of the parts cost, one part after the other, and a vector of
    responses more.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.matrices.dense import DenseMatrix
    >>> bins = BinnedMatrix(np.array([[1, 2]], np.uint8), np.array([0, 2]))
    >>> Z = SideBySide([bins, DenseMatrix(np.array([[3.0], [4.0]]))], scales=[1.0, 10.0])
    >>> Z.matvec(np.array([1.0, 2.0, 1.0]))
    array([31., 42.])
    """

    def __init__(
        self,
        parts: Sequence[FeatureMatrix],
        scales: Sequence[float] | NDArray[np.float64] | None = None,
    ) -> None:
        given = [1.0] * len(parts) if scales is None else [float(scale) for scale in scales]
        if not parts or len(given) != len(parts):
            raise InputError(
                f"SideBySide: needs at least one matrix, and a scale for each; got {len(parts)} "
                f"matrices and {len(given)} scales."
            )
        rows = [part.shape[0] for part in parts]
        if len(set(rows)) > 1:
            raise InputError(f"SideBySide: the matrices must have the same rows, got {rows}.")
        self.parts: list[FeatureMatrix] = []
        self.scales: list[float] = []
        for part, scale in zip(parts, given, strict=True):
            if isinstance(part, SideBySide):
                self.parts += part.parts
                self.scales += [scale * own for own in part.scales]
            else:
                self.parts.append(part)
                self.scales.append(scale)
        widths = [part.shape[1] for part in self.parts]
        self._bounds = [0, *np.cumsum(widths).tolist()]

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns), of all parts."""
        return self.parts[0].shape[0], self._bounds[-1]

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts)  # type: ignore[attr-defined]

    def matvec(self, w: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z @ w``.

        Parameters
        ----------
        w : array (n_columns,) or (n_columns, K)
        out : array (n_rows,) or (n_rows, K), optional
            Written over and returned.

        Returns
        -------
        array (n_rows,) or (n_rows, K) of float64
        """
        w = operand(self, w, self.shape[1], "w")
        result = np.zeros((self.shape[0], *w.shape[1:]))
        for columns, part, scale in self._placed():
            result += part.matvec(scale * w[columns])
        return into(self, out, result)

    def rmatvec(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z.T @ v``.

        Parameters
        ----------
        v : array (n_rows,) or (n_rows, K)
        out : array (n_columns,) or (n_columns, K), optional
            Written over and returned.

        Returns
        -------
        array (n_columns,) or (n_columns, K) of float64
        """
        v = operand(self, v, self.shape[0], "v")
        result = np.empty((self.shape[1], *v.shape[1:]))
        for columns, part, scale in self._placed():
            part.rmatvec(v, out=result[columns])
            result[columns] *= scale
        return into(self, out, result)

    def add_rmatvec(self, v: Vector, out: Vector) -> None:
        """Add ``Z.T @ v`` to ``out``, a C-contiguous array of float64."""
        v = operand(self, v, self.shape[0], "v")
        check_out(self, out, (self.shape[1], *v.shape[1:]))
        for columns, part, scale in self._placed():
            part.add_rmatvec(scale * v, out[columns])

    def row_gram(self) -> NDArray[np.float64]:
        """Return ``Z @ Z.T``: the sum of the parts', times the squares of the scales."""
        gram = np.zeros((self.shape[0], self.shape[0]))
        for _, part, scale in self._placed():
            gram += scale**2 * part.row_gram()
        return gram

    def gram_diagonal(self, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the diagonal of ``Z.T @ diag(weights) @ Z``."""
        diagonals = [scale**2 * part.gram_diagonal(weights) for _, part, scale in self._placed()]
        return np.concatenate(diagonals)

    @cached_property
    def matrix(self) -> Any:
        """All parts as one matrix of slabs, without the scales, or None where a part is none."""
        parts = [part for part in self.parts if isinstance(part, SlabMatrix)]
        return _JoinedSlabs(parts) if len(parts) == len(self.parts) else None

    @available_if(_of_slabs("column_gram"))
    def column_gram(
        self,
        weights: NDArray[np.float64] | None = None,
        columns: Columns | None = None,
        out: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Do as ``SlabMatrix.column_gram``."""
        gram: NDArray[np.float64] = self.matrix.column_gram(weights, columns, out)
        scales = self._column_scales()[slice(None) if columns is None else columns]
        for row, scale in zip(gram, scales, strict=True):
            row *= scale * scales
        return gram

    @available_if(_of_slabs("pull_back"))
    def pull_back(self, w: Vector, function: RowFunction, out: Vector | None = None) -> Vector:
        """Do as ``SlabMatrix.pull_back``."""
        w = operand(self, w, self.shape[1], "w")
        scales = self._column_scales().reshape(-1, *[1] * (w.ndim - 1))
        return into(self, out, scales * self.matrix.pull_back(scales * w, function))

    @available_if(_of_slabs("normal_product"))
    def normal_product(self, w: Vector, row_weights: Vector, out: Vector | None = None) -> Vector:
        """Do as ``SlabMatrix.normal_product``."""
        return self.pull_back(w, weighing(self, row_weights, np.ndim(w)), out)

    def blocks(self) -> Iterator[ColumnBlock]:
        """Yield the parts' blocks, scaled."""
        for columns, part, scale in self._placed():
            for block in part.blocks():
                matrix = block.matrix if scale == 1.0 else SideBySide([block.matrix], [scale])
                start = columns.start
                yield ColumnBlock(start + block.start, start + block.stop, matrix)

    @cached_property
    def row_lists(self) -> RowLists:
        """The parts' own, one after the other, if all have some: their bytes once more."""
        lists: list[RowLists] = [part.row_lists for part in self.parts]  # type: ignore[attr-defined]
        starts = zip(lists, self._bounds[:-1], strict=True)
        offsets = [own.offsets[:-1] + start for own, start in starts]
        scaled = zip(lists, self.scales, strict=True)
        return RowLists(
            offsets=np.append(np.concatenate(offsets), self.shape[1]),
            values=np.concatenate([scale * own.values for own, scale in scaled]),
            parts=lists[0].parts,
            rows=np.concatenate([own.rows for own in lists]),
            bounds=np.concatenate([own.bounds for own in lists], axis=1),
        )

    def take_rows(self, rows: NDArray[np.integer] | slice) -> SideBySide:
        """Return the matrix of some rows, columns unchanged."""
        return SideBySide([part.take_rows(rows) for part in self.parts], self.scales)

    def tocsr(self) -> sp.csr_array:
        """Return the matrix as SciPy CSR of float64: 12 bytes a non-zero (16 beyond 2^31)."""
        parts = [scale * part.tocsr() for _, part, scale in self._placed()]
        return sp.hstack(parts, format="csr")

    def _placed(self) -> Iterator[tuple[slice, FeatureMatrix, float]]:
        """Yield each part with its columns and its scale."""
        bounds = pairwise(self._bounds)
        for (start, stop), part, scale in zip(bounds, self.parts, self.scales, strict=True):
            yield slice(start, stop), part, scale

    def _column_scales(self) -> NDArray[np.float64]:
        return np.repeat(self.scales, np.diff(self._bounds))


class _JoinedSlabs(SlabMatrix):
    """Slabs of several matrices side by side, copied into one array."""

    def __init__(self, parts: Sequence[SlabMatrix]) -> None:
        self.parts = parts
        self.n_jobs = parts[0].n_jobs
        self._bounds = [0, *np.cumsum([part.shape[1] for part in parts]).tolist()]

    @property
    def shape(self) -> tuple[int, int]:
        return self.parts[0].shape[0], self._bounds[-1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*(part.dtype for part in self.parts))

    def slab(self, start: int, stop: int, scratch: NDArray[Any] | None = None) -> NDArray[Any]:
        shape = (stop - start, self.shape[1])
        out = np.empty(shape, self.dtype) if scratch is None else scratch[: stop - start]
        for (a, b), part in zip(pairwise(self._bounds), self.parts, strict=True):
            out[:, a:b] = part.slab(start, stop)
        return out

    def take_rows(self, rows: NDArray[np.integer] | slice) -> SideBySide:
        return SideBySide([part.take_rows(rows) for part in self.parts])
