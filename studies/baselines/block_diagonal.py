"""Block-diagonal feature matrices, and ridge regression on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.threads import map_blocks, one_blas_thread
from gramless.base.types import AnyArray, FloatArray
from gramless.matrices.base import ColumnBlock, FeatureMatrix, Rows, Vector, row_weights_of
from gramless.matrices.dense import DenseMatrix
from gramless.penalties import L2
from gramless.solvers.base import RIDGE, Capabilities, MatrixNeed, Solver
from gramless.solvers.direct import Cholesky
from gramless.solvers.objective import Callback, Problem, Solution

RowNumbers = NDArray[np.intp]


class BlockDiagonalMatrix(FeatureMatrix):
    """A matrix that is block-diagonal once its rows are put in order.

    ``parts`` has the row indices (m,) of each block and its values (m, c) in float64 or float32,
    which are not copied. Each row is in at most one block; other rows are zero. The columns of
    successive blocks follow each other. Products use BLAS with one thread per block; float32 values
    are converted to float64 block by block.
    """

    def __init__(
        self, parts: Sequence[tuple[RowNumbers, AnyArray]], n_rows: int, n_jobs: int | None = None
    ) -> None:
        self.parts = [(np.asarray(rows, np.intp), np.asarray(array)) for rows, array in parts]
        self.n_jobs = n_jobs
        for rows, array in self.parts:
            fits = array.ndim == 2 and rows.shape == array.shape[:1]
            if not fits or array.dtype not in (np.float64, np.float32):
                raise InputError(
                    f"BlockDiagonalMatrix: a block needs rows (m,) and numbers (m, c) of float64 "
                    f"or float32; got {rows.shape} and {array.shape} of {array.dtype}."
                )
        edges = np.cumsum([0, *(array.shape[1] for _, array in self.parts)]).tolist()
        self._columns = [slice(a, b) for a, b in pairwise(edges)]
        self._shape = int(n_rows), int(edges[-1])
        self._block, self._place = self._places()

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for _, array in self.parts)

    def diagonal_blocks(self) -> Iterator[tuple[RowNumbers, slice, AnyArray]]:
        """Yield the row indices, the columns and the values (m, c) of each block."""
        for (rows, array), columns in zip(self.parts, self._columns, strict=True):
            yield rows, columns, array

    def _matvec(self, w: Vector, out: Vector) -> None:
        out[...] = 0.0

        def multiply(rows: RowNumbers, columns: slice, block: AnyArray) -> None:
            out[rows] = block @ w[columns]

        self._map(multiply)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        def multiply(rows: RowNumbers, columns: slice, block: AnyArray) -> None:
            out[columns] = block.T @ v[rows]

        self._map(multiply)

    def row_gram(self) -> FloatArray:
        result = np.zeros((self.shape[0], self.shape[0]))

        def multiply(rows: RowNumbers, columns: slice, block: AnyArray) -> None:
            result[np.ix_(rows, rows)] = block @ block.T

        self._map(multiply)
        return result

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        of_rows = row_weights_of(self, weights)
        result = np.empty(self.shape[1])

        def add_up(rows: RowNumbers, columns: slice, block: AnyArray) -> None:
            result[columns] = (block**2).T @ of_rows[rows]

        self._map(add_up)
        return result

    def blocks(self) -> Iterator[ColumnBlock]:
        for part, columns in zip(self.parts, self._columns, strict=True):
            if columns.stop > columns.start:
                matrix = BlockDiagonalMatrix([part], self.shape[0], self.n_jobs)
                yield ColumnBlock(columns.start, columns.stop, matrix)

    def take_rows(self, rows: Rows) -> BlockDiagonalMatrix:
        block, place = self._block[rows], self._place[rows]
        order = np.argsort(block, kind="stable")
        edges = np.searchsorted(block[order], np.arange(len(self.parts) + 1))
        new_rows = [order[a:b] for a, b in pairwise(edges)]
        parts = [
            (indices, array[place[indices]])
            for indices, (_, array) in zip(new_rows, self.parts, strict=True)
        ]
        return BlockDiagonalMatrix(parts, len(block), self.n_jobs)

    def tocsr(self) -> sp.csr_array:
        if not self.parts:
            return sp.csr_array(self.shape)
        blocks = [sp.coo_array(array) for _, array in self.parts]
        stacked = sp.block_diag(blocks, "csr", np.float64)
        rows = np.concatenate([rows for rows, _ in self.parts])
        places = rows, np.arange(len(rows))
        order = sp.csr_array((np.ones(len(rows)), places), (self.shape[0], len(rows)))
        return sp.csr_array(order @ stacked)

    def _places(self) -> tuple[RowNumbers, RowNumbers]:
        """Return the block of each row, ``n_blocks`` if it has none, and its position there."""
        n_rows, n_blocks = self.shape[0], len(self.parts)
        block, place = np.full(n_rows, n_blocks), np.zeros(n_rows, np.intp)
        n_placed = 0
        for k, (rows, _) in enumerate(self.parts):
            if len(rows) and not 0 <= rows.min() <= rows.max() < n_rows:
                raise InputError(f"BlockDiagonalMatrix: block {k} has rows beyond 0 to {n_rows}.")
            block[rows], place[rows] = k, np.arange(len(rows))
            n_placed += len(rows)
        if n_placed != np.count_nonzero(block < n_blocks):
            raise InputError("BlockDiagonalMatrix: a row is in two blocks, or twice in one.")
        return block, place

    def _map(self, function: Callable[[RowNumbers, slice, AnyArray], None]) -> None:
        """Call a function with the rows, the columns and the float64 values of every block."""

        def call(rows: RowNumbers, columns: slice, array: AnyArray) -> None:
            function(rows, columns, np.asarray(array, np.float64))

        with one_blas_thread():
            map_blocks(call, self.diagonal_blocks(), self.n_jobs)


@dataclass(frozen=True)
class BlockCholesky(Solver):
    """Ridge regression on a :class:`BlockDiagonalMatrix` with one factorisation per block.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Number of threads, each for some of the blocks. Results do not depend on it.
    """

    n_jobs: int | None = None
    capabilities: ClassVar[Capabilities] = replace(
        RIDGE,
        matrix=MatrixNeed(
            "a BlockDiagonalMatrix",
            lambda matrix: isinstance(matrix, BlockDiagonalMatrix),
            "Use Cholesky.",
        ),
    )

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise a squared-loss problem; ``start`` and ``callback`` are not used."""
        self.check_problem(problem)
        assert isinstance(problem.matrix, BlockDiagonalMatrix)
        weights = np.zeros(problem.weights_shape)

        def solve_block(rows: RowNumbers, columns: slice, block: AnyArray) -> None:
            share = float(problem.row_weights[rows].sum())
            if share > 0.0 and block.size:
                # The loss of the subproblem is a mean over the block, so its penalty is scaled.
                part = Problem(
                    DenseMatrix(block),
                    problem.targets[rows],
                    L2(problem.penalty.l2 / share),
                    sample_weight=problem.row_weights[rows],
                )
                weights[columns] = Cholesky(1).solve(part).weights

        with one_blas_thread():
            map_blocks(solve_block, problem.matrix.diagonal_blocks(), self.n_jobs)
        return Solution(weights, "converged", 1)
