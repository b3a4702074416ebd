"""Readers of NPY files and of NPZ files with one table or a training and a test part."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy_format
from scipy import sparse

from gramless.base.arrays import as_floats
from gramless.base.errors import DataFileError, GramlessError, InputError
from gramless.base.types import AnyArray
from gramless.datasets.files import (
    check_uncompressed,
    convert_errors,
    is_compressed,
    open_bytes,
    open_plain,
    plain_path,
    read_unpacked,
)
from gramless.datasets.limits import ReadLimits
from gramless.datasets.pieces import Pieces
from gramless.datasets.table import Table

_CSR_PARTS = ("data", "indices", "indptr", "shape")
_IN_CHUNKS = "Read it in chunks by open_chunks."

_NONZERO_BYTES = 12  # bytes per stored value of a CSR matrix plus its index

_HEADERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


def read_npz(path: str | Path, *, limits: ReadLimits | None = None) -> dict[str, Table]:
    """Read an NPZ file.

    Booleans and integers of 8 or 16 bits become float32, wider integers float64. ``DataFileError``
    is raised for Python objects, because loading them can run code.

    Parameters
    ----------
    path : str or Path
        A file with the arrays ``X_train, y_train, X_test, y_test`` or ``X, y``; ``y`` may be
        missing. The arrays of a sparse ``X`` are ``X_data, X_indices, X_indptr, X_shape`` (or
        ``X_train_data`` and so on). Other arrays are ignored.
    limits : ReadLimits, default=None
        Limits on memory and size; by default ``ReadLimits()``.

    Returns
    -------
    dict of str to Table
        ``{"train": ..., "test": ...}`` or ``{"train": ...}`` or ``{"all": ...}``, each with its
        target.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "two.npz"), X=np.eye(2), y=[0, 1])
    ...     parts = read_npz(Path(folder, "two.npz"))
    >>> parts["all"].split_target()[1]
    array([0, 1])
    """
    where, limits = plain_path(path), limits or ReadLimits()
    with ExitStack() as stack:
        file: IO[bytes]
        if is_compressed(where):
            # ZIP needs random access; seeking back in a compressed stream decompresses from the
            # start.
            with convert_errors(where):
                file = read_unpacked(where, limits)
            needed = len(file.getbuffer())
        else:
            file, needed = stack.enter_context(open_plain(where)), 0
        archive = stack.enter_context(_open_archive(where, file))
        suffix = _find_training_suffix(where, archive)
        suffixes = {"train": suffix, "test": "_test"} if suffix else {"all": suffix}
        parts = {
            name: _StoredTable.from_archive(where, archive, part_suffix, limits)
            for name, part_suffix in suffixes.items()
            if name != "test" or _has_array(archive, "X_test")
        }
        for part in parts.values():
            for array in [part.X, part.y] if part.y else [part.X]:
                needed += array.memory_bytes
                what = f"{array.name} of shape {array.shape}"
                limits.check_memory(where, what, needed, _IN_CHUNKS)
        tables = {name: part.read(part.n_rows) for name, part in parts.items()}
    if len({table.shape[1] for table in tables.values()}) > 1:
        raise DataFileError(f"{where}: X_train and X_test differ in their number of columns.")
    return tables


def read_npy(path: str | Path, *, limits: ReadLimits | None = None) -> Table:
    """Read an NPY file that holds one table of numbers.

    Parameters
    ----------
    path : str or Path
        An array of shape (n_rows, n_columns), or (n_rows,) for one column.
    limits : ReadLimits, default=None
        Limits on memory and size; by default ``ReadLimits()``.

    Returns
    -------
    Table
        Columns x1, x2, ...

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "two.npy"), np.eye(2))
    ...     read_npy(Path(folder, "two.npy")).column("x2")
    array([0., 1.])
    """
    where, limits = plain_path(path), limits or ReadLimits()
    with _open_array(where, "the array", limits) as rows:
        what = f"an array of shape {rows.shape}"
        limits.check_memory(where, what, rows.memory_bytes, _IN_CHUNKS)
        part = _StoredTable(where, rows, None)
        return part.read(part.n_rows)


def npz_pieces(path: Path, limits: ReadLimits) -> Pieces:
    """Open the training rows of an NPZ file in any layout of :func:`read_npz`."""
    check_uncompressed(path)

    @contextmanager
    def open_rows() -> Iterator[_StoredTable]:
        with open_plain(path) as file, _open_archive(path, file) as archive:
            suffix = _find_training_suffix(path, archive)
            yield _StoredTable.from_archive(path, archive, suffix, limits)

    return _open_pieces(path, limits, open_rows)


def npy_pieces(path: Path, labels: Path | None, limits: ReadLimits) -> Pieces:
    """Open an NPY file of training rows, with labels in another NPY file if ``labels`` is given."""

    @contextmanager
    def open_rows() -> Iterator[_StoredTable]:
        with ExitStack() as stack:
            X = stack.enter_context(_open_array(path, "the array", limits, mapped=True))
            y = None
            if labels is not None:
                y = stack.enter_context(_open_array(labels, "the labels", limits, mapped=True))
            yield _StoredTable(path, X, y)

    return _open_pieces(path, limits, open_rows)


def _open_pieces(
    path: Path, limits: ReadLimits, open_rows: Callable[[], AbstractContextManager[_StoredTable]]
) -> Pieces:
    with open_rows() as rows:
        limits.check_memory(path, "a row", 2 * rows.row_bytes)
        n_rows, block_rows = rows.n_rows, limits.rows_of_block(rows.row_bytes)
        head = rows.read(1)

    def read() -> Iterator[Table]:
        with open_rows() as rows:
            for start in range(0, n_rows, block_rows):
                yield rows.read(min(block_rows, n_rows - start))

    return Pieces(head, read, n_rows)


class _StoredRows:
    """An array in NumPy's format; each call of :meth:`read` returns the next rows.

    ``memory_bytes`` includes the copy that converts integers to floats.
    """

    def __init__(self, path: Path, name: str, file: IO[bytes]) -> None:
        self.path, self.name, self._file = path, name, file
        self._mapped: AnyArray | None = None
        with _convert_numpy_errors(path):
            version = npy_format.read_magic(file)
            if version not in _HEADERS:
                raise ValueError(f"version {version} of the format")
            self.shape, by_columns, self.dtype = _HEADERS[version](file)
            if self.dtype.hasobject:
                raise ValueError("objects need pickle")
            # NumPy's parser of headers accepts negative sizes and arrays larger than memory.
            is_shape = all(type(size) is int and size >= 0 for size in self.shape)
            if not is_shape or self.dtype.itemsize == 0:
                raise ValueError(f"no array of {self.dtype} has the shape {str(self.shape)[:60]}")
            array_bytes = prod(size for size in self.shape if size) * self.dtype.itemsize
            if array_bytes > np.iinfo(np.intp).max:
                raise ValueError(f"an array of the shape {str(self.shape)[:60]} exceeds any memory")
        self.by_columns = by_columns and sum(size > 1 for size in self.shape) > 1
        self.row_bytes = prod(self.shape[1:]) * self.dtype.itemsize
        is_integer = self.dtype.kind in "biu"
        copy_itemsize = as_floats(np.empty(0, self.dtype)).itemsize if is_integer else 0
        self.memory_bytes = prod(self.shape) * (self.dtype.itemsize + copy_itemsize)

    def map(self) -> None:
        """Map an uncompressed file into memory, to read rows of a Fortran-ordered array."""
        with _convert_numpy_errors(self.path):
            self._mapped = np.load(self.path, mmap_mode="r", allow_pickle=False)

    def read(self, n_rows: int) -> AnyArray:
        if self._mapped is not None:
            rows, self._mapped = np.split(self._mapped, [n_rows])
            return np.array(rows)
        if self.by_columns and n_rows != self.shape[0]:
            raise InputError(
                f"{self.path}: {self.name} is stored column by column and cannot be read by rows; "
                "save numpy.ascontiguousarray of it."
            )
        with _convert_numpy_errors(self.path):
            content = bytearray(n_rows * self.row_bytes)
            view, done = memoryview(content), 0
            # A megabyte at a time, because members of archives copy what they read.
            while n_read := self._file.readinto(view[done : done + (1 << 20)]):  # type: ignore[attr-defined]
                done += n_read
        if done < len(content):
            raise DataFileError(
                f"{self.path} is cut off: {self.name} ends early. Copy or make it again."
            )
        flat = np.frombuffer(content, self.dtype)
        return flat.reshape((n_rows, *self.shape[1:]), order="F" if self.by_columns else "C")


class _StoredCsr:
    """A CSR matrix in an NPZ file; each call of :meth:`read` returns the next rows."""

    def __init__(
        self, path: Path, name: str, members: Mapping[str, _StoredRows], limits: ReadLimits
    ) -> None:
        self.path, self.name, self._members, self._limits = path, name, members, limits
        self._done = 0
        for part in _CSR_PARTS[1:]:
            dtype = members[part].dtype
            self._require(dtype.kind in "iu", f"{name}_{part} must hold whole numbers, got {dtype}")
        self.memory_bytes = sum(member.memory_bytes for member in members.values())
        n_numbers = prod(members["shape"].shape)
        self._require(members["shape"].shape == (2,), f"its shape has {n_numbers} numbers")
        shape = members["shape"].read(2)
        self._require(shape.min() >= 0, f"its shape is {shape}")
        self.shape, self.dtype = (int(shape[0]), int(shape[1])), members["data"].dtype
        data, indices, ends = (members[part].shape for part in _CSR_PARTS[:3])
        lengths_match = ends == (self.shape[0] + 1,) and indices == data
        self._require(lengths_match, "its parts do not match its shape")
        self._require(members["indptr"].read(1)[0] == 0, "indptr does not start at 0")
        self.row_bytes = _NONZERO_BYTES * prod(data) // max(1, self.shape[0])

    def read(self, n_rows: int) -> sparse.csr_matrix:
        ends = self._members["indptr"].read(n_rows)
        pointers = np.concatenate([[0], ends.astype(np.int64) - self._done])
        n_numbers = int(pointers[-1])
        self._done += n_numbers
        n_stored = prod(self._members["data"].shape)
        are_ordered = self._done <= n_stored and np.all(np.diff(pointers) >= 0)
        self._require(are_ordered, "indptr decreases or exceeds the number of stored values")
        what = f"{n_rows:,} rows of {n_numbers:,} numbers"
        self._limits.check_memory(self.path, what, 2 * _NONZERO_BYTES * n_numbers)
        data, indices = (self._members[part].read(n_numbers) for part in _CSR_PARTS[:2])
        try:
            rows = sparse.csr_matrix((data, indices, pointers), shape=(n_rows, self.shape[1]))
            rows.check_format(full_check=True)
        except (ValueError, TypeError, OverflowError, IndexError) as error:
            raise self._error(str(error)) from error
        return rows

    def _require(self, condition: bool | np.bool_, complaint: str) -> None:
        if not condition:
            raise self._error(complaint)

    def _error(self, complaint: str) -> DataFileError:
        return DataFileError(f"{self.path}: {self.name} is not a CSR matrix ({complaint}).")


class _StoredTable:
    def __init__(
        self, path: Path, X: _StoredRows | _StoredCsr, y: _StoredRows | None, suffix: str = ""
    ) -> None:
        if len(X.shape) != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
            raise DataFileError(
                f"{path}: {X.name} must be a table of numbers with rows and columns, got "
                f"{X.dtype} of shape {X.shape}."
            )
        if y is not None and (len(y.shape) not in (1, 2) or y.dtype.kind not in "biufUS"):
            raise DataFileError(
                f"{path}: y{suffix} must hold one number or word per row, got {y.dtype} of shape "
                f"{y.shape}."
            )
        if y is not None and y.shape[0] != X.shape[0]:
            raise DataFileError(
                f"{path}: y{suffix} has {y.shape[0]} labels for {X.shape[0]} rows of X{suffix}."
            )
        self.path, self.X, self.y = path, X, y
        self.n_rows = X.shape[0]
        self.row_bytes = X.row_bytes + (y.row_bytes if y else 0)

    @classmethod
    def from_archive(
        cls, path: Path, archive: zipfile.ZipFile, suffix: str, limits: ReadLimits
    ) -> _StoredTable:
        """Open ``X{suffix}``, dense or CSR, and, if present, ``y{suffix}``."""
        names = archive.namelist()

        def member(name: str) -> _StoredRows:
            with _convert_numpy_errors(path):
                content = archive.open(f"{name}.npy")
            return _StoredRows(path, name, content)

        name = f"X{suffix}"
        y = member(f"y{suffix}") if f"y{suffix}.npy" in names else None
        if f"{name}.npy" in names:
            return cls(path, member(name), y, suffix)
        if any(f"{name}_{part}.npy" not in names for part in _CSR_PARTS):
            raise DataFileError(
                f"{path}: sparse {name} needs {name}_data, _indices, _indptr, _shape."
            )
        members = {part: member(f"{name}_{part}") for part in _CSR_PARTS}
        return cls(path, _StoredCsr(path, name, members, limits), y, suffix)

    def read(self, n_rows: int) -> Table:
        """Return the next rows; labels in one column become a vector, and text becomes str."""
        y = None if self.y is None else self.y.read(n_rows)
        if y is not None and y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y is not None and y.dtype.kind in "US":
            y = y.astype(str).astype(object)
        return Table(matrix=self.X.read(n_rows), target=y, source=str(self.path))


@contextmanager
def _open_array(
    path: Path, name: str, limits: ReadLimits, mapped: bool = False
) -> Iterator[_StoredRows]:
    with open_bytes(path, limits) as file:
        if file.peek(4)[:4] == b"PK\x03\x04":
            raise DataFileError(f"{path} is an NPZ file; name it .npz.")
        rows = _StoredRows(path, name, file)
        if len(rows.shape) == 1:
            rows.shape = (*rows.shape, 1)
        if mapped and rows.by_columns and not is_compressed(path):
            rows.map()
        yield rows
        # Decompressors verify checksums only at the end of the data.
        while is_compressed(path) and file.read(1 << 20):
            pass


def _open_archive(path: Path, file: IO[bytes]) -> zipfile.ZipFile:
    if file.read(6) == b"\x93NUMPY":
        raise DataFileError(f"{path} is one array, not an NPZ file; name it .npy.")
    with _convert_numpy_errors(path):
        return zipfile.ZipFile(file)


def _has_array(archive: zipfile.ZipFile, name: str) -> bool:
    return not {f"{name}.npy", f"{name}_data.npy"}.isdisjoint(archive.namelist())


def _find_training_suffix(path: Path, archive: zipfile.ZipFile) -> str:
    """Return the suffix in the names of the training rows: ``"_train"``, or ``""`` if unsplit."""
    suffix = "_train" if _has_array(archive, "X_train") else ""
    if not _has_array(archive, "X" + suffix):
        names = sorted(n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy"))
        raise DataFileError(
            f"{path} holds {', '.join(names) or 'nothing'}; X, y or X_train, y_train, X_test, "
            "y_test are needed."
        )
    return suffix


@contextmanager
def _convert_numpy_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (GramlessError, MemoryError):
        raise
    # The parsers of NumPy and zipfile raise a dozen classes of errors for a damaged header.
    except Exception as error:
        if "pickle" in str(error):
            raise DataFileError(
                f"{path} holds Python objects or no NumPy data at all; objects are refused "
                "because loading them can run code. Save plain arrays with numpy.savez."
            ) from error
        raise DataFileError(
            f"{path} is damaged or not a NumPy file ({error}); copy or make it again."
        ) from error
