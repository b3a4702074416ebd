"""NumPy files: NPZ in the layouts of a split or an unsplit table, and NPY; never pickles."""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gramless.base.errors import DataFileError
from gramless.datasets.files import open_bytes, plain_path, without_compression
from gramless.datasets.table import Table

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
    MemoryError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_npz(path: str | Path) -> dict[str, Table]:
    """Read an NPZ file.

    Parameters
    ----------
    path : str or Path
        Holds ``X_train, y_train, X_test, y_test`` or ``X, y``; ``y`` may be
        missing. A sparse ``X`` is held as ``X_data, X_indices, X_indptr,
        X_shape`` (or ``X_train_data`` and so on). Other arrays are ignored.

    Returns
    -------
    dict of str to Table
        ``{"train": ..., "test": ...}``, the latter if it is there, or
        ``{"all": ...}``, each with its own target.

    Raises
    ------
    DataFileError
        If arrays are missing, damaged, pickled, or do not fit each other.

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
    arrays = _load(where)
    if not isinstance(arrays, dict):
        raise DataFileError(f"{where} is one array, not an NPZ file; name it .npy.")
    roles = {"train": "_train", "test": "_test"} if _has(arrays, "X_train") else {"all": ""}
    if not _has(arrays, "X" + next(iter(roles.values()))):
        listing = ", ".join(sorted(arrays)) or "nothing"
        raise DataFileError(f"{where} holds {listing}; {LAYOUTS} are needed.")
    tables = {
        role: _table(where, arrays, ending)
        for role, ending in roles.items()
        if _has(arrays, "X" + ending)
    }
    if len({table.shape[1] for table in tables.values()}) > 1:
        raise DataFileError(f"{where}: X_train and X_test differ in their number of columns.")
    return tables


def read_npy(path: str | Path) -> Table:
    """Read an NPY file that holds one table of numbers.

    Parameters
    ----------
    path : str or Path
        An array of shape (n_rows, n_columns), or (n_rows,) for one column.

    Returns
    -------
    Table
        Columns x1, x2, ...

    Raises
    ------
    DataFileError
        If the file is damaged, pickled or holds no such array.
    """
    where = plain_path(path)
    array = _load(where)
    if isinstance(array, dict):
        raise DataFileError(f"{where} is an NPZ file; name it .npz.")
    matrix = array[:, None] if array.ndim == 1 else array
    return Table(matrix=_checked(where, "the array", matrix), source=str(where))


def _load(path: Path) -> dict[str, NDArray[Any]] | NDArray[Any]:
    with open_bytes(path) as file:
        if without_compression(path.name) == path.name:
            return _load_from(path, file)
        # Zip archives are read by seeking, which decompressors do by reading all again.
        return _load_from(path, io.BytesIO(file.read()))


def _load_from(path: Path, file: IO[bytes]) -> dict[str, NDArray[Any]] | NDArray[Any]:
    try:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        return {name: loaded[name] for name in loaded.files}
    except _FAULTS as fault:
        if "pickle" in str(fault):
            raise DataFileError(
                f"{path} holds Python objects or no NumPy data at all; objects are refused "
                "because loading them can run code. Save plain arrays with numpy.savez."
            ) from fault
        raise DataFileError(
            f"{path} is damaged or not a NumPy file ({fault}); copy or make it again."
        ) from fault


def _has(arrays: dict[str, NDArray[Any]], name: str) -> bool:
    return name in arrays or f"{name}_data" in arrays


def _table(path: Path, arrays: dict[str, NDArray[Any]], ending: str) -> Table:
    X = _matrix(path, arrays, "X" + ending)
    y = arrays.get("y" + ending)
    if y is not None:
        y = _labels(path, "y" + ending, y)
        if len(y) != X.shape[0]:
            raise DataFileError(
                f"{path}: y{ending} has {len(y)} labels for {X.shape[0]} rows of X{ending}."
            )
    return Table(matrix=X, target=y, source=str(path))


def _matrix(path: Path, arrays: dict[str, NDArray[Any]], name: str) -> Any:
    if name in arrays:
        return _checked(path, name, arrays[name])
    parts = [arrays.get(f"{name}_{part}") for part in ("data", "indices", "indptr", "shape")]
    if any(part is None for part in parts):
        raise DataFileError(f"{path}: sparse {name} needs {name}_data, _indices, _indptr, _shape.")
    data, indices, indptr, shape = parts
    try:
        n_rows, n_columns = (int(size) for size in np.asarray(shape))
        X = sparse.csr_matrix((data, indices, indptr), shape=(n_rows, n_columns))
        X.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError, IndexError) as fault:
        raise DataFileError(f"{path}: {name} is not a CSR matrix ({fault}).") from fault
    _checked(path, name, X)
    return X


def _checked(path: Path, name: str, matrix: Any) -> Any:
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf" or 0 in matrix.shape:
        raise DataFileError(
            f"{path}: {name} must be a table of numbers with rows and columns, got "
            f"{matrix.dtype} of shape {matrix.shape}."
        )
    return matrix


def _labels(path: Path, name: str, y: NDArray[Any]) -> NDArray[Any]:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim not in (1, 2) or y.dtype.kind not in "biufUS":
        raise DataFileError(
            f"{path}: {name} must hold one number or word a row, got {y.dtype} of shape {y.shape}."
        )
    return y.astype(str).astype(object) if y.dtype.kind in "US" else y
