"""NumPy files: NPZ in the layouts of a split or an unsplit table, and NPY; never pickles."""

from __future__ import annotations

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray
from scipy import sparse

from gramless.base.errors import DataFileError
from gramless.datasets.files import (
    faults,
    open_bytes,
    plain_path,
    read_unpacked,
    without_compression,
)
from gramless.datasets.limits import ReadLimits
from gramless.datasets.table import Table, as_floats

CSR_PARTS = ("data", "indices", "indptr", "shape")

IN_CHUNKS = "Read it in chunks by open_chunks."

_ENDINGS = ("", "_train", "_test")
_ARRAYS = {f"{kind}{ending}" for kind in "Xy" for ending in _ENDINGS} | {
    f"X{ending}_{part}" for ending in _ENDINGS for part in CSR_PARTS
}

_HEADERS = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
}

LAYOUTS = "X, y or X_train, y_train, X_test, y_test"

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
    where = plain_path(path)
    limits = limits or ReadLimits()
    with _opened(where, limits) as (file, held):
        arrays = _arrays(where, file, held, limits)
    first = first_ending(where, arrays)
    roles = {"train": first, "test": "_test"} if first else {"all": first}
    tables = {
        role: _table(where, arrays, ending)
        for role, ending in roles.items()
        if _has(arrays, "X" + ending)
    }
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
    where = plain_path(path)
    limits = limits or ReadLimits()
    with _opened(where, limits) as (file, held):
        if file.read(4) == b"PK\x03\x04":
            raise DataFileError(f"{where} is an NPZ file; name it .npz.")
        file.seek(0)
        with numpy_faults(where):
            shape, _, dtype = read_header(file)
            needed = held + array_bytes(shape, dtype)
            limits.check_memory(where, f"an array of shape {shape}", needed, IN_CHUNKS)
            file.seek(0)
            array = npy_format.read_array(file, allow_pickle=False)
    matrix = array[:, None] if array.ndim == 1 else array
    return Table(matrix=checked_matrix(where, "the array", matrix), source=str(where))


@contextmanager
def _opened(path: Path, limits: ReadLimits) -> Iterator[tuple[IO[bytes], int]]:
    """Open a file that can be sought in; also tell what it holds in memory, all if compressed."""
    if without_compression(path.name) == path.name:
        with open_bytes(path) as file:
            yield file, 0
    else:
        # Zip archives are read by seeking, which decompressors do by reading all again.
        with faults(path):
            content = read_unpacked(path, limits)
            yield content, content.getbuffer().nbytes


def open_archive(path: Path, file: IO[bytes]) -> zipfile.ZipFile:
    """Open an NPZ file."""
    if file.read(6) == b"\x93NUMPY":
        raise DataFileError(f"{path} is one array, not an NPZ file; name it .npy.")
    with numpy_faults(path):
        return zipfile.ZipFile(file)


def array_names(archive: zipfile.ZipFile) -> set[str]:
    """Return the names of the arrays in an NPZ file."""
    return {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read what an array in NumPy's format says of itself.

    Returns
    -------
    shape : tuple of int
    by_columns : bool
    dtype : dtype
    """
    version = npy_format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format")
    shape, by_columns, dtype = _HEADERS[version](file)
    return shape, by_columns, dtype


def array_bytes(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    """Return the memory of an array and of its copy as floats, if one will be made."""
    copied = as_floats(np.empty(0, dtype)).itemsize if dtype.kind in "biu" else 0
    return prod(shape) * (dtype.itemsize + copied)


def _arrays(
    path: Path, file: IO[bytes], needed: int, limits: ReadLimits
) -> dict[str, NDArray[Any]]:
    """Read the arrays of an NPZ file that tables are made of."""
    with open_archive(path, file) as archive, numpy_faults(path):
        names = sorted(array_names(archive))
        first_ending(path, names)
        wanted = [f"{name}.npy" for name in names if name in _ARRAYS]
        for name in wanted:
            with archive.open(name) as member:
                shape, _, dtype = read_header(member)
            needed += array_bytes(shape, dtype)
            limits.check_memory(path, f"{name} of shape {shape}", needed, IN_CHUNKS)
        found = {}
        for name in wanted:
            with archive.open(name) as member:
                array = npy_format.read_array(member, allow_pickle=False)
            found[name.removesuffix(".npy")] = array
        return found


@contextmanager
def numpy_faults(path: Path) -> Iterator[None]:
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


def first_ending(path: Path, names: Collection[str]) -> str:
    """Return what the names of the training rows end in: ``"_train"``, or nothing if unsplit.

    Raises
    ------
    DataFileError
        If there are none.
    """
    ending = "_train" if _has(names, "X_train") else ""
    if not _has(names, "X" + ending):
        listing = ", ".join(sorted(names)) or "nothing"
        raise DataFileError(f"{path} holds {listing}; {LAYOUTS} are needed.")
    return ending


def _has(arrays: Collection[str], name: str) -> bool:
    return name in arrays or f"{name}_data" in arrays


def _table(path: Path, arrays: dict[str, NDArray[Any]], ending: str) -> Table:
    X = _matrix(path, arrays, "X" + ending)
    y = arrays.get("y" + ending)
    if y is not None:
        y = checked_labels(path, "y" + ending, y)
        check_lengths(path, ending, len(y), X.shape[0])
    return Table(matrix=X, target=y, source=str(path))


def check_parts(path: Path, names: Collection[str], name: str) -> None:
    """Refuse a sparse matrix of which a part is missing."""
    if any(f"{name}_{part}" not in names for part in CSR_PARTS):
        raise DataFileError(f"{path}: sparse {name} needs {name}_data, _indices, _indptr, _shape.")


def check_whole(path: Path, name: str, dtypes: Mapping[str, np.dtype[Any]]) -> None:
    """Refuse a sparse matrix whose indices, pointers or shape are no whole numbers."""
    for part in CSR_PARTS[1:]:
        if dtypes[part].kind not in "iu":
            raise DataFileError(
                f"{path}: {name} is not a CSR matrix ({name}_{part} must hold whole numbers, got "
                f"{dtypes[part]})."
            )


def check_lengths(path: Path, ending: str, n_labels: int, n_rows: int) -> None:
    """Refuse labels that are more or fewer than the rows."""
    if n_labels != n_rows:
        raise DataFileError(
            f"{path}: y{ending} has {n_labels} labels for {n_rows} rows of X{ending}."
        )


def _matrix(path: Path, arrays: dict[str, NDArray[Any]], name: str) -> Any:
    if name in arrays:
        return checked_matrix(path, name, arrays[name])
    check_parts(path, arrays, name)
    data, indices, indptr, shape = (arrays[f"{name}_{part}"] for part in CSR_PARTS)
    check_whole(path, name, {part: arrays[f"{name}_{part}"].dtype for part in CSR_PARTS})
    try:
        n_rows, n_columns = (int(size) for size in np.asarray(shape))
        X = sparse.csr_matrix((data, indices, indptr), shape=(n_rows, n_columns))
        X.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError, IndexError) as fault:
        raise DataFileError(f"{path}: {name} is not a CSR matrix ({fault}).") from fault
    checked_matrix(path, name, X)
    return X


def checked_matrix(path: Path, name: str, matrix: Any) -> Any:
    """Return a table of numbers as it is; refuse anything else."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf" or 0 in matrix.shape:
        raise DataFileError(
            f"{path}: {name} must be a table of numbers with rows and columns, got "
            f"{matrix.dtype} of shape {matrix.shape}."
        )
    return matrix


def checked_labels(path: Path, name: str, y: NDArray[Any]) -> NDArray[Any]:
    """Return labels as numbers or an object array of str, one column of them as a vector."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim not in (1, 2) or y.dtype.kind not in "biufUS":
        raise DataFileError(
            f"{path}: {name} must hold one number or word a row, got {y.dtype} of shape {y.shape}."
        )
    return y.astype(str).astype(object) if y.dtype.kind in "US" else y
