"""NPZ, NPY and Parquet files, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gramless.base.errors import DataFileError, InputError
from gramless.datasets.files import open_bytes, without_compression
from gramless.datasets.limits import ReadLimits
from gramless.datasets.npz import (
    CSR_PARTS,
    array_names,
    check_lengths,
    check_parts,
    check_whole,
    checked_labels,
    checked_matrix,
    first_ending,
    numpy_faults,
    open_archive,
    read_header,
)
from gramless.datasets.parquet import parquet_batches
from gramless.datasets.pieces import Pieces
from gramless.datasets.table import Table

_PIECE_BYTES = 1 << 24
_MOST_ROWS = 1 << 16
_HEAD_ROWS = 200
_NONZERO_BYTES = 12


def parquet_pieces(path: Path) -> Pieces:
    """Open a Parquet file; its first 200 rows say which columns are text.

    Parameters
    ----------
    path : Path
        Not compressed as a whole.

    Returns
    -------
    Pieces
    """
    _refuse_compressed(path)
    n_rows, tables = parquet_batches(path, _HEAD_ROWS)
    head = next(tables)
    most = _piece_rows(8 * head.shape[1])
    return Pieces(head, lambda: parquet_batches(path, most)[1], n_rows)


def npz_pieces(path: Path, limits: ReadLimits) -> Pieces:
    """Open the training rows of an NPZ file in any layout that ``read_npz`` knows.

    Parameters
    ----------
    path : Path
        Not compressed as a whole; its arrays may be.
    limits : ReadLimits

    Returns
    -------
    Pieces
    """
    _refuse_compressed(path)
    return _array_pieces(path, limits, lambda: _open_npz(path, limits))


def npy_pieces(path: Path, labels: Path | None, limits: ReadLimits) -> Pieces:
    """Open an NPY file, with labels in another one or none.

    Parameters
    ----------
    path : Path
        Plain, then it is mapped into memory, or compressed.
    labels : Path or None
    limits : ReadLimits

    Returns
    -------
    Pieces
    """
    return _array_pieces(path, limits, lambda: _open_npy(path, labels))


class _StoredRows:
    """An array in NumPy's format whose rows are read from the first to the last."""

    def __init__(self, path: Path, name: str, file: IO[bytes]) -> None:
        self.path, self.name, self._file = path, name, file
        with numpy_faults(path):
            self.shape, by_columns, self.dtype = read_header(file)
            if self.dtype.hasobject:
                raise ValueError("objects need pickle")
        if by_columns and sum(size > 1 for size in self.shape) > 1:
            raise InputError(
                f"{path}: {name} is stored column by column and cannot be read by rows; save "
                "numpy.ascontiguousarray of it."
            )

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def row_bytes(self) -> int:
        return prod(self.shape[1:]) * self.dtype.itemsize

    def read(self, n_rows: int) -> NDArray[Any]:
        """Return the next rows."""
        wanted = n_rows * self.row_bytes
        with numpy_faults(self.path):
            content = self._file.read(wanted)
        if len(content) < wanted:
            raise DataFileError(
                f"{self.path} is cut off: {self.name} ends early. Copy or make it again."
            )
        return np.frombuffer(content, self.dtype).reshape(n_rows, *self.shape[1:]).copy()


class _MappedRows:
    """An array in a plain file, mapped into memory, whose rows are read one after the other."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array, self._done = array, 0
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self.row_bytes = prod(array.shape[1:]) * array.itemsize

    def read(self, n_rows: int) -> NDArray[Any]:
        """Return the next rows."""
        start, self._done = self._done, self._done + n_rows
        return np.array(self._array[start : self._done])


class _StoredCsr:
    """A CSR matrix in the members of an NPZ file, read from the first row to the last."""

    ndim = 2

    def __init__(
        self, path: Path, name: str, members: dict[str, _StoredRows], limits: ReadLimits
    ) -> None:
        self.path, self.name, self._members, self._limits = path, name, members, limits
        self._done = 0
        check_whole(path, name, {part: each.dtype for part, each in members.items()})
        if members["shape"].shape != (2,):
            raise self._fault(f"its shape has {prod(members['shape'].shape)} numbers")
        shape = members["shape"].read(2)
        if shape.min() < 0:
            raise self._fault(f"its shape is {shape}")
        self.shape, self.dtype = (int(shape[0]), int(shape[1])), members["data"].dtype
        sizes = {part: members[part].shape for part in CSR_PARTS[:3]}
        if sizes["indptr"] != (self.shape[0] + 1,) or sizes["indices"] != sizes["data"]:
            raise self._fault("its parts do not fit each other")
        if members["indptr"].read(1)[0] != 0:
            raise self._fault("its first row does not begin at 0")
        self.row_bytes = _NONZERO_BYTES * prod(sizes["data"]) // max(1, self.shape[0])

    def read(self, n_rows: int) -> Any:
        """Return the next rows."""
        ends = self._members["indptr"].read(n_rows)
        pointers = np.concatenate([[0], ends.astype(np.int64) - self._done])
        beyond = self._done + int(pointers[-1]) > prod(self._members["data"].shape)
        if beyond or np.any(np.diff(pointers) < 0):
            raise self._fault("its rows do not follow each other")
        self._done += int(pointers[-1])
        what = f"{n_rows:,} rows of {int(pointers[-1]):,} numbers"
        self._limits.check_memory(self.path, what, 2 * _NONZERO_BYTES * int(pointers[-1]))
        data, indices = (self._members[part].read(int(pointers[-1])) for part in CSR_PARTS[:2])
        try:
            rows = sparse.csr_matrix((data, indices, pointers), shape=(n_rows, self.shape[1]))
            rows.check_format(full_check=True)
        except (ValueError, TypeError, OverflowError, IndexError) as fault:
            raise self._fault(str(fault)) from fault
        return rows

    def _fault(self, what: str) -> DataFileError:
        return DataFileError(f"{self.path}: {self.name} is not a CSR matrix ({what}).")


_Rows: TypeAlias = _StoredRows | _MappedRows | _StoredCsr
_Labels: TypeAlias = _StoredRows | _MappedRows | None
_Opened: TypeAlias = AbstractContextManager[tuple[_Rows, _Labels]]


def _array_pieces(path: Path, limits: ReadLimits, opened: Callable[[], _Opened]) -> Pieces:
    with opened() as (X, y):
        checked_matrix(path, "X", X)
        row_bytes = X.row_bytes + (y.row_bytes if y else 0)
        limits.check_memory(path, "a row", 2 * row_bytes)
        if y is not None:
            checked_labels(path, "y", np.empty((0, *y.shape[1:]) if y.shape else (), y.dtype))
            check_lengths(path, "", y.shape[0], X.shape[0])
        n_rows, most = X.shape[0], _piece_rows(row_bytes)
        head = _table(path, X, y, 1)

    def read() -> Iterator[Table]:
        with opened() as (X, y):
            for start in range(0, n_rows, most):
                yield _table(path, X, y, min(most, n_rows - start))

    return Pieces(head, read, n_rows)


def _table(path: Path, X: _Rows, y: _Labels, n_rows: int) -> Table:
    target = None if y is None else checked_labels(path, "y", y.read(n_rows))
    return Table(matrix=X.read(n_rows), target=target, source=str(path))


@contextmanager
def _open_npz(path: Path, limits: ReadLimits) -> Iterator[tuple[_Rows, _Labels]]:
    with open_bytes(path) as file, open_archive(path, file) as archive:
        names = array_names(archive)
        ending = first_ending(path, names)

        def member(name: str) -> _StoredRows:
            with numpy_faults(path):
                content = archive.open(f"{name}.npy")
            return _StoredRows(path, name, content)

        X: _Rows
        name = f"X{ending}"
        if name in names:
            X = member(name)
        else:
            check_parts(path, names, name)
            parts = {part: member(f"{name}_{part}") for part in CSR_PARTS}
            X = _StoredCsr(path, name, parts, limits)
        yield X, member(f"y{ending}") if f"y{ending}" in names else None


@contextmanager
def _open_npy(path: Path, labels: Path | None) -> Iterator[tuple[_Rows, _Labels]]:
    with ExitStack() as stack:
        X = stack.enter_context(_one_array(path, "the array", as_table=True))
        yield X, None if labels is None else stack.enter_context(_one_array(labels, "the labels"))


@contextmanager
def _one_array(
    path: Path, name: str, as_table: bool = False
) -> Iterator[_StoredRows | _MappedRows]:
    if without_compression(path.name) == path.name:
        with numpy_faults(path):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise DataFileError(f"{path} is an NPZ file; name it .npz.")
        yield _MappedRows(array[:, None] if as_table and array.ndim == 1 else array)
    else:
        with open_bytes(path) as file:
            rows = _StoredRows(path, name, file)
            if as_table and rows.ndim == 1:
                rows.shape = (*rows.shape, 1)
            yield rows
            # Decompressors compare checksums at the end of the data only.
            while file.read(_PIECE_BYTES):
                pass


def _refuse_compressed(path: Path) -> None:
    if without_compression(path.name) != path.name:
        raise InputError(
            f"{path} is compressed as a whole and cannot be read in pieces; unpack it first."
        )


def _piece_rows(row_bytes: int) -> int:
    return max(1, min(_MOST_ROWS, _PIECE_BYTES // max(1, row_bytes)))
