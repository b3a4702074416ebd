"""Matrices of bins whose codes are in a temporary file, for data larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from gramless.base.arrays import padded_rows, readonly
from gramless.base.errors import InputError
from gramless.base.lazy_rows import BlockFile, MappedBlock
from gramless.base.memory import fit_memory_limit, large_array_budget, should_store_codes
from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.matrices.base import Rows, Vector, row_weights_of
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.codes import CodePiece, PlainBins
from gramless.matrices.row_lists import RowLists

BLOCK_BYTES = 1 << 25  # bytes of codes that are mapped at a time
# A block may take this fraction of the large-array budget; it is copied before it is written.
_BLOCK_SHARE = 0.25
_MIN_ROWS, _MAX_ROWS = 1 << 12, 1 << 17  # per block


def rows_of_block(n_grids: int) -> int:
    """Return the number of rows per block of a file of codes, a multiple of 4,096.

    Blocks are smaller if ``memory_budget`` is below 256 MB.

    Examples
    --------
    >>> rows_of_block(16), rows_of_block(640)
    (131072, 24576)
    """
    n_bytes = BLOCK_BYTES
    if fit_memory_limit() is not None:
        n_bytes = min(n_bytes, int(_BLOCK_SHARE * large_array_budget()))
    rows = n_bytes // (2 * max(1, n_grids)) // _MIN_ROWS * _MIN_ROWS
    return min(max(rows, _MIN_ROWS), _MAX_ROWS)


def code_file(n_bytes: float) -> BlockFile:
    return BlockFile("codes", "raise memory_budget, or lower n_grids", n_bytes)


class StoredBinnedMatrix(PlainBins):
    """A :class:`BinnedMatrix` of training rows whose codes are stored in a file.

    Products read the file one block of rows at a time. They equal those of a matrix in memory to
    the last bit, because responses do not depend on other rows and sums are added in the same
    order.

    Parameters
    ----------
    blocks : list of MappedBlock
        Codes of consecutive rows. No code is 0.
    offsets : array (n_grids + 1,) of int
        First column of each grid.
    scale : float
        The value of every non-zero.

    Notes
    -----
    Some 32 MB of the file are mapped at a time. A product reads all codes once, at the speed of
    memory if the operating system has cached the file, else at the speed of the disk.
    """

    def __init__(
        self,
        blocks: list[MappedBlock],
        offsets: IntArray,
        *,
        scale: float,
        n_jobs: int | None = None,
    ) -> None:
        self.code_blocks = blocks
        self.offsets = np.asarray(offsets, np.int64)
        self.scale, self.n_jobs = float(scale), n_jobs
        self._ends = np.cumsum([0, *(block.n_rows for block in blocks)]).tolist()

    @property
    def shape(self) -> tuple[int, int]:
        return self._ends[-1], int(self.offsets[-1])

    @property
    def nbytes(self) -> int:
        sizes = (block.n_rows * block.dtype.itemsize for block in self.code_blocks)
        return self.n_grids * sum(sizes)

    def _matvec(self, w: Vector, out: Vector) -> None:
        for rows, part in self._parts():
            part.matvec(w, out[rows])

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        out[...] = 0.0
        self._add_rmatvec(v, out)

    def _add_rmatvec(self, v: Vector, out: Vector) -> None:
        for rows, part in self._parts():
            part.add_rmatvec(v[rows], out)

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        return self.rmatvec(row_weights_of(self, weights)) * self.scale

    def row_gram(self) -> FloatArray:
        return self.loaded().row_gram()

    def loaded(self) -> BinnedMatrix:
        return self._block(self._load_rows(np.arange(self.shape[0])))

    def _code_pieces(self, first: int, last: int) -> Iterator[CodePiece]:
        n_rows, n_bins = self.shape[0], np.diff(self.offsets)
        for a in range(first, last, 4):
            b = min(a + 4, last)
            codes = np.empty((b - a, n_rows), self._widest_dtype)
            for (start, stop), block in zip(pairwise(self._ends), self.code_blocks, strict=True):
                codes[:, start:stop] = block.columns[a:b]
                block.release_pages()
            yield readonly(codes.reshape(-1)), n_rows, n_bins[a:b], 0, b - a

    def bin_counts(self) -> FloatArray:
        counts = np.zeros(self.shape[1])
        for _, part in self._parts():
            counts += part.bin_counts()
        return counts

    def take_rows(self, rows: Rows) -> PlainBins:
        """Return the matrix of some rows, in the same file if they are a slice of step 1.

        Other rows are copied to memory, or to another file if :func:`should_store_codes`.
        """
        n_rows = self.shape[0]
        if isinstance(rows, slice) and rows.step in (None, 1):
            first, last, _ = rows.indices(n_rows)
            blocks = [
                block.part(max(first - a, 0), min(last, b) - a)
                for block, (a, b) in zip(self.code_blocks, pairwise(self._ends), strict=True)
                if first < b and a < last
            ]
            return self._copy_with(blocks, self.offsets)
        indices = np.arange(n_rows)[rows]
        if not should_store_codes(len(indices) * self._row_bytes):
            return self._block(self._load_rows(indices))
        file = code_file(len(indices) * self._row_bytes)
        parts = row_blocks(len(indices), rows_of_block(self.n_grids))
        for a, b in parts:
            file.append(self._load_rows(indices[a:b]))
        return self._copy_with(file.blocks(), self.offsets)

    def _load_rows(self, indices: IntArray) -> AnyArray:
        codes = padded_rows((self.n_grids, len(indices)), self._widest_dtype)
        for (a, b), block in zip(pairwise(self._ends), self.code_blocks, strict=True):
            in_block = np.flatnonzero((indices >= a) & (indices < b))
            if len(in_block) > 0:
                columns = block.columns
                for r in range(self.n_grids):
                    codes[r, in_block] = columns[r, indices[in_block] - a]
                block.release_pages()
        return codes

    def first_grids(self, n_grids: int) -> StoredBinnedMatrix:
        """Return the matrix of the first grids, whose codes are copied to another file."""
        file = code_file(n_grids * self.nbytes // max(1, self.n_grids))
        for block in self.code_blocks:
            file.append(block.columns[:n_grids])
            block.release_pages()
        return self._copy_with(file.blocks(), self.offsets[: n_grids + 1])

    def _list_rows(self) -> RowLists:
        raise InputError(
            "an L1 penalty and coordinate descent over grids need the rows of every bin in memory, "
            "but the codes exceed memory_budget: raise it, or use l1_ratio=0 and solver='auto'."
        )

    def _copy_with(self, blocks: list[MappedBlock], offsets: IntArray) -> StoredBinnedMatrix:
        return StoredBinnedMatrix(blocks, offsets, scale=self.scale, n_jobs=self.n_jobs)

    @property
    def _widest_dtype(self) -> np.dtype[np.generic]:
        return max((block.dtype for block in self.code_blocks), key=lambda kind: kind.itemsize)

    @property
    def _row_bytes(self) -> int:
        return self.n_grids * self._widest_dtype.itemsize

    def tocsr(self) -> sp.csr_array:
        return sp.vstack([part.tocsr() for _, part in self._parts()], format="csr")

    def _parts(self) -> Iterator[tuple[slice, BinnedMatrix]]:
        """Yield slices of the rows and their matrices, each valid until the next is yielded."""
        for (a, b), block in zip(pairwise(self._ends), self.code_blocks, strict=True):
            yield slice(a, b), self._block(block.columns)
            block.release_pages()

    def _block(self, codes: AnyArray) -> BinnedMatrix:
        return BinnedMatrix(
            codes, self.offsets, scale=self.scale, has_unseen=False, n_jobs=self.n_jobs
        )
