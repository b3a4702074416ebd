"""NumPy files: NPZ in the layouts of a split or an unsplit table, and NPY; never pickles."""

from __future__ import annotations

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np
from numpy.lib import format as npy_format
from scipy import sparse

from gramless.base.errors import DataFileError, InputError
from gramless.base.types import AnyArray
from gramless.datasets.files import (
    faults,
    is_compressed,
    open_bytes,
    open_plain,
    plain_path,
    read_unpacked,
    refuse_compressed,
)
from gramless.datasets.limits import ReadLimits
from gramless.datasets.pieces import Pieces
from gramless.datasets.table import Table, as_floats

_CSR_PARTS = ("data", "indices", "indptr", "shape")

_IN_CHUNKS = "Read it in chunks by open_chunks."

_LAYOUTS = "X, y or X_train, y_train, X_test, y_test"

# Bytes of a stored number of a CSR matrix and of its index.
_NONZERO_BYTES = 12

_HEADERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}

# A damaged header reaches NumPy's parser, which fails in all of these ways.
_FAULTS = (
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    OSError,
    SyntaxError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
)


def read_npz(path: str | Path, *, limits: ReadLimits | None = None) -> dict[str, Table]:
    """Read an NPZ file.

    Parameters
    ----------
    path : str or Path
        Holds ``X_train, y_train, X_test, y_test`` or ``X, y``; ``y`` may be
        missing. A sparse ``X`` is held as ``X_data, X_indices, X_indptr,
        X_shape`` (or ``X_train_data`` and so on). Other arrays are ignored.
    limits : ReadLimits, default=None
        What reading may take; by default ``ReadLimits()``.

    Returns
    -------
    dict of str to Table
        ``{"train": ..., "test": ...}``, the latter if it is there, or
        ``{"all": ...}``, each with its own target.

    Raises
    ------
    DataFileError
        If arrays are missing, damaged, pickled, do not fit each other, or are
        beyond the limits.

    Notes
    -----
    Small integers become float32, others float64: mostly a copy of the data.

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
        if is_compressed(where):
            # Zip archives are read by seeking, which decompressors do by reading all again.
            with faults(where):
                content = read_unpacked(where, limits)
            archive, needed = _archive(where, content), len(content.getbuffer())
        else:
            file = stack.enter_context(open_plain(where))
            archive, needed = _archive(where, file), 0
        stack.enter_context(archive)
        first = _first_ending(where, _names(archive))
        endings = {"train": first, "test": "_test"} if first else {"all": first}
        parts = {
            role: (ending, *_members(where, archive, ending, limits))
            for role, ending in endings.items()
            if _has(_names(archive), f"X{ending}")
        }
        for _, X, y in parts.values():
            for array in (X, y):
                if array is not None:
                    needed += array.n_bytes
                    what = f"{array.name} of shape {array.shape}"
                    limits.check_memory(where, what, needed, _IN_CHUNKS)
        tables = {role: _whole(where, *part) for role, part in parts.items()}
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
        What reading may take; by default ``ReadLimits()``.

    Returns
    -------
    Table
        Columns x1, x2, ...

    Raises
    ------
    DataFileError
        If the file is damaged, pickled, holds no such array, or is beyond the
        limits.
    """
    where, limits = plain_path(path), limits or ReadLimits()
    with _one_array(where, "the array", limits) as rows:
        what = f"an array of shape {rows.shape}"
        limits.check_memory(where, what, rows.n_bytes, _IN_CHUNKS)
        return _whole(where, "", rows.as_table(), None)


def npz_pieces(path: Path, limits: ReadLimits) -> Pieces:
    """Open the training rows of an NPZ file in any layout that ``read_npz`` knows."""
    refuse_compressed(path)
    return _pieces(path, limits, lambda: _open_npz(path, limits))


def npy_pieces(path: Path, labels: Path | None, limits: ReadLimits) -> Pieces:
    """Open an NPY file, with labels in another one or none."""
    return _pieces(path, limits, lambda: _open_npy(path, labels, limits))


# Arrays in files.


class _StoredRows:
    """An array in NumPy's format whose rows are read from the first to the last."""

    def __init__(self, path: Path, name: str, file: IO[bytes]) -> None:
        self.path, self.name, self._file = path, name, file
        with _numpy_faults(path):
            version = npy_format.read_magic(file)
            if version not in _HEADERS:
                raise ValueError(f"version {version} of the format")
            self.shape, by_columns, self.dtype = _HEADERS[version](file)
            if self.dtype.hasobject:
                raise ValueError("objects need pickle")
        self.by_columns = by_columns and sum(size > 1 for size in self.shape) > 1

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def row_bytes(self) -> int:
        return prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def n_bytes(self) -> int:
        """Memory of the array and of its copy as floats, if one will be made."""
        integers = self.dtype.kind in "biu"
        copied = as_floats(np.empty(0, self.dtype)).itemsize if integers else 0
        return prod(self.shape) * (self.dtype.itemsize + copied)

    def as_table(self) -> _StoredRows:
        """Return it with one column if it has rows alone."""
        if self.ndim == 1:
            self.shape = (*self.shape, 1)
        return self

    def read(self, n_rows: int) -> AnyArray:
        """Return the next rows."""
        if self.by_columns and n_rows != self.shape[0]:
            raise InputError(
                f"{self.path}: {self.name} is stored column by column and cannot be read by rows; "
                "save numpy.ascontiguousarray of it."
            )
        with _numpy_faults(self.path):
            content = bytearray(n_rows * self.row_bytes)
            view, done = memoryview(content), 0
            while done < len(content):
                # Files within files make a copy of what they read.
                n_read = self._file.readinto(view[done : done + (1 << 20)])  # type: ignore[attr-defined]
                if not n_read:
                    break
                done += n_read
        if done < len(content):
            raise DataFileError(
                f"{self.path} is cut off: {self.name} ends early. Copy or make it again."
            )
        flat = np.frombuffer(content, self.dtype)
        return flat.reshape((n_rows, *self.shape[1:]), order="F" if self.by_columns else "C")


class _MappedRows(_StoredRows):
    """An array in a plain file stored column by column, mapped into memory to be read by rows."""

    def __init__(self, rows: _StoredRows) -> None:
        vars(self).update(vars(rows))
        with _numpy_faults(self.path):
            self._array, self._done = np.load(self.path, mmap_mode="r", allow_pickle=False), 0

    def read(self, n_rows: int) -> AnyArray:
        """Return the next rows."""
        start, self._done = self._done, self._done + n_rows
        return np.array(self._array[start : self._done])


class _StoredCsr:
    """A CSR matrix in the members of an NPZ file, read from the first row to the last."""

    ndim = 2

    def __init__(
        self, path: Path, name: str, members: Mapping[str, _StoredRows], limits: ReadLimits
    ) -> None:
        self.path, self.name, self._members, self._limits = path, name, members, limits
        self._done = 0
        for part in _CSR_PARTS[1:]:
            if members[part].dtype.kind not in "iu":
                raise self._fault(
                    f"{name}_{part} must hold whole numbers, got {members[part].dtype}"
                )
        self.n_bytes = sum(member.n_bytes for member in members.values())
        if members["shape"].shape != (2,):
            raise self._fault(f"its shape has {prod(members['shape'].shape)} numbers")
        shape = members["shape"].read(2)
        if shape.min() < 0:
            raise self._fault(f"its shape is {shape}")
        self.shape, self.dtype = (int(shape[0]), int(shape[1])), members["data"].dtype
        sizes = {part: members[part].shape for part in _CSR_PARTS[:3]}
        if sizes["indptr"] != (self.shape[0] + 1,) or sizes["indices"] != sizes["data"]:
            raise self._fault("its parts do not fit each other")
        if members["indptr"].read(1)[0] != 0:
            raise self._fault("its first row does not begin at 0")
        self.row_bytes = _NONZERO_BYTES * prod(sizes["data"]) // max(1, self.shape[0])

    def read(self, n_rows: int) -> sparse.csr_matrix:
        """Return the next rows."""
        ends = self._members["indptr"].read(n_rows)
        pointers = np.concatenate([[0], ends.astype(np.int64) - self._done])
        beyond = self._done + int(pointers[-1]) > prod(self._members["data"].shape)
        if beyond or np.any(np.diff(pointers) < 0):
            raise self._fault("its rows do not follow each other")
        self._done += int(pointers[-1])
        what = f"{n_rows:,} rows of {int(pointers[-1]):,} numbers"
        self._limits.check_memory(self.path, what, 2 * _NONZERO_BYTES * int(pointers[-1]))
        data, indices = (self._members[part].read(int(pointers[-1])) for part in _CSR_PARTS[:2])
        try:
            rows = sparse.csr_matrix((data, indices, pointers), shape=(n_rows, self.shape[1]))
            rows.check_format(full_check=True)
        except (ValueError, TypeError, OverflowError, IndexError) as fault:
            raise self._fault(str(fault)) from fault
        return rows

    def _fault(self, what: str) -> DataFileError:
        return DataFileError(f"{self.path}: {self.name} is not a CSR matrix ({what}).")


_Inputs: TypeAlias = _StoredRows | _StoredCsr
_Labels: TypeAlias = _StoredRows | None


def _pieces(
    path: Path,
    limits: ReadLimits,
    opened: Callable[[], AbstractContextManager[tuple[_Inputs, _Labels]]],
) -> Pieces:
    with opened() as (X, y):
        row_bytes = X.row_bytes + (y.row_bytes if y else 0)
        limits.check_memory(path, "a row", 2 * row_bytes)
        _check(path, "", X, y)
        n_rows, most = X.shape[0], limits.rows_of_block(row_bytes)
        head = _table(path, "", X, y, 1)

    def read() -> Iterator[Table]:
        with opened() as (X, y):
            for start in range(0, n_rows, most):
                yield _table(path, "", X, y, min(most, n_rows - start))

    return Pieces(head, read, n_rows)


def _whole(path: Path, ending: str, X: _Inputs, y: _Labels) -> Table:
    _check(path, ending, X, y)
    return _table(path, ending, X, y, X.shape[0])


def _table(path: Path, ending: str, X: _Inputs, y: _Labels, n_rows: int) -> Table:
    labels = None if y is None else _checked_labels(path, f"y{ending}", y.read(n_rows))
    return Table(matrix=X.read(n_rows), target=labels, source=str(path))


def _check(path: Path, ending: str, X: _Inputs, y: _Labels) -> None:
    """Refuse anything but a table of numbers and labels that fit it."""
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise DataFileError(
            f"{path}: {X.name} must be a table of numbers with rows and columns, got {X.dtype} of "
            f"shape {X.shape}."
        )
    if y is not None:
        none = np.empty((0, *y.shape[1:]) if y.shape else (), y.dtype)
        _checked_labels(path, f"y{ending}", none)
        if y.shape[0] != X.shape[0]:
            raise DataFileError(
                f"{path}: y{ending} has {y.shape[0]} labels for {X.shape[0]} rows of X{ending}."
            )


def _checked_labels(path: Path, name: str, y: AnyArray) -> AnyArray:
    """Return labels as numbers or an object array of str, one column of them as a vector."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim not in (1, 2) or y.dtype.kind not in "biufUS":
        raise DataFileError(
            f"{path}: {name} must hold one number or word a row, got {y.dtype} of shape {y.shape}."
        )
    return y.astype(str).astype(object) if y.dtype.kind in "US" else y


# Files.


@contextmanager
def _open_npz(path: Path, limits: ReadLimits) -> Iterator[tuple[_Inputs, _Labels]]:
    with open_plain(path) as file, _archive(path, file) as archive:
        yield _members(path, archive, _first_ending(path, _names(archive)), limits)


@contextmanager
def _open_npy(
    path: Path, labels: Path | None, limits: ReadLimits
) -> Iterator[tuple[_Inputs, _Labels]]:
    with ExitStack() as stack:
        X = stack.enter_context(_one_array(path, "the array", limits, mapped=True))
        if labels is None:
            yield X.as_table(), None
        else:
            opened = _one_array(labels, "the labels", limits, mapped=True)
            yield X.as_table(), stack.enter_context(opened)


@contextmanager
def _one_array(
    path: Path, name: str, limits: ReadLimits, mapped: bool = False
) -> Iterator[_StoredRows]:
    with open_bytes(path, limits) as file:
        if file.peek(4)[:4] == b"PK\x03\x04":
            raise DataFileError(f"{path} is an NPZ file; name it .npz.")
        rows = _StoredRows(path, name, file)
        if mapped and rows.by_columns and not is_compressed(path):
            rows = _MappedRows(rows)
        yield rows
        # Decompressors compare checksums at the end of the data only.
        while is_compressed(path) and file.read(1 << 20):
            pass


def _archive(path: Path, file: IO[bytes]) -> zipfile.ZipFile:
    if file.read(6) == b"\x93NUMPY":
        raise DataFileError(f"{path} is one array, not an NPZ file; name it .npy.")
    with _numpy_faults(path):
        return zipfile.ZipFile(file)


def _names(archive: zipfile.ZipFile) -> set[str]:
    return {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}


def _has(names: Collection[str], name: str) -> bool:
    return name in names or f"{name}_data" in names


def _first_ending(path: Path, names: Collection[str]) -> str:
    """Return what the names of the training rows end in: ``"_train"``, or nothing if unsplit."""
    ending = "_train" if _has(names, "X_train") else ""
    if not _has(names, "X" + ending):
        listing = ", ".join(sorted(names)) or "nothing"
        raise DataFileError(f"{path} holds {listing}; {_LAYOUTS} are needed.")
    return ending


def _members(
    path: Path, archive: zipfile.ZipFile, ending: str, limits: ReadLimits
) -> tuple[_Inputs, _Labels]:
    """Open the inputs and labels whose names have this ending."""
    names = _names(archive)

    def member(name: str) -> _StoredRows:
        with _numpy_faults(path):
            content = archive.open(f"{name}.npy")
        return _StoredRows(path, name, content)

    X: _Inputs
    name = f"X{ending}"
    if name in names:
        X = member(name)
    else:
        if any(f"{name}_{part}" not in names for part in _CSR_PARTS):
            raise DataFileError(
                f"{path}: sparse {name} needs {name}_data, _indices, _indptr, _shape."
            )
        X = _StoredCsr(path, name, {part: member(f"{name}_{part}") for part in _CSR_PARTS}, limits)
    return X, member(f"y{ending}") if f"y{ending}" in names else None


@contextmanager
def _numpy_faults(path: Path) -> Iterator[None]:
    """Turn what NumPy and zipfile raise for a damaged or pickled file into DataFileError."""
    try:
        yield
    except _FAULTS as fault:
        if "pickle" in str(fault):
            raise DataFileError(
                f"{path} holds Python objects or no NumPy data at all; objects are refused "
                "because loading them can run code. Save plain arrays with numpy.savez."
            ) from fault
        raise DataFileError(
            f"{path} is damaged or not a NumPy file ({fault}); copy or make it again."
        ) from fault
