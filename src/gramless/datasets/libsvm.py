"""Reader of LIBSVM text, with lines of the form ``label index:value index:value ...``."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from scipy import sparse

from gramless.base.errors import DataFileError, InputError
from gramless.base.numeric import is_whole
from gramless.base.types import FloatArray
from gramless.datasets.files import (
    detect_encoding,
    iter_line_blocks,
    open_bytes,
    open_plain,
    plain_path,
    shorten,
)
from gramless.datasets.limits import ReadLimits
from gramless.datasets.pieces import Pieces, join
from gramless.datasets.table import Table

MAX_INDEX = 2**31 - 2  # the number of columns must be an int32

ZeroBased = bool | Literal["auto"]
Rows = tuple[sparse.csr_matrix, FloatArray]


def read_libsvm(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    limits: ReadLimits | None = None,
) -> tuple[sparse.csr_matrix, FloatArray]:
    r"""Read LIBSVM text into a CSR matrix and labels.

    Comments after ``#`` and ``qid:`` pairs are ignored. ``DataFileError`` is raised for invalid
    lines, such as those with several labels or with indices that do not increase or lie beyond
    ``n_features``, and for files without rows.

    Parameters
    ----------
    path : str or path-like
        Plain or compressed (``.gz``, ``.bz2``, ``.xz``).
    n_features : int, default=None
        Number of columns; by default just enough for the largest index in the file. Set it so that
        training and test files agree.
    zero_based : bool or "auto", default="auto"
        Whether the first column has index 0. With ``"auto"``, it does if index 0 occurs in the
        file. Set it if the first column may be empty in a test file.
    limits : ReadLimits, default=None
        Limits on memory and size; by default ``ReadLimits()``.

    Returns
    -------
    X : CSR matrix of shape (n_rows, n_features)
        float64, sorted indices.
    y : ndarray of shape (n_rows,)
        float64.

    Notes
    -----
    Reading takes about 0.3 microseconds and 12 bytes per non-zero. Memory holds the result and one
    block of text, and twice the result for a moment at the end.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "two.libsvm")
    ...     _ = path.write_text("1 1:0.5 3:2\n-1 2:1  # a comment\n")
    ...     X, y = read_libsvm(path)
    >>> X.toarray(), y
    (array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]]), array([ 1., -1.]))
    """
    where, limits = plain_path(path), limits or ReadLimits()
    _check_parameters(n_features, zero_based)
    blocks, n_bytes = [], 0
    for X, y in _iter_blocks(where, limits):
        blocks.append((X, y))
        n_bytes += csr_bytes(X) + y.nbytes
        # Twice, for the blocks and their concatenation.
        limits.check_memory(where, "a table of the rows so far", 2 * n_bytes)
    first, width, _ = _find_columns(where, blocks, n_features, zero_based)
    parts = [(_shift_indices(where, X, first, width), y) for X, y in blocks]
    del blocks
    return join(parts)


def libsvm_pieces(
    path: Path, n_features: int | None, zero_based: ZeroBased, limits: ReadLimits
) -> Pieces:
    """Open LIBSVM text; this reads the file once if the columns are not fully specified."""
    _check_parameters(n_features, zero_based)
    n_rows = None
    if n_features is None or zero_based == "auto":
        first, width, n_rows = _find_columns(
            path, _iter_blocks(path, limits), n_features, zero_based
        )
    else:
        first, width = int(not zero_based), n_features

    def read() -> Iterator[Table]:
        for X, y in _iter_blocks(path, limits):
            yield Table(matrix=_shift_indices(path, X, first, width), target=y, source=str(path))

    head = Table(matrix=sparse.csr_matrix((1, width)), target=np.zeros(1), source=str(path))
    return Pieces(head, read, n_rows)


def _check_parameters(n_features: int | None, zero_based: ZeroBased) -> None:
    if zero_based not in (True, False, "auto"):
        raise InputError(f"zero_based must be True, False or 'auto', got {zero_based!r}.")
    if n_features is not None and not is_whole(n_features, 1):
        raise InputError(f"n_features must be a positive integer or None, got {n_features!r}.")


def _find_columns(
    path: Path, blocks: Iterable[Rows], n_features: int | None, zero_based: ZeroBased
) -> tuple[int, int, int]:
    """Return the index of the first column, the number of columns and the number of rows."""
    lowest: list[int] = []
    end = n_rows = 0
    for X, y in blocks:
        n_rows += len(y)
        end = max(end, X.shape[1])
        if X.nnz:
            lowest.append(int(X.indices.min()))
    if not lowest and n_features is None:
        raise DataFileError(f"{path} has labels but no index:value pair; is it LIBSVM text?")
    first = 0 if zero_based is True or (zero_based == "auto" and 0 in lowest) else 1
    return first, end - first if n_features is None else n_features, n_rows


def csr_bytes(X: sparse.csr_matrix) -> int:
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def _iter_blocks(path: Path, limits: ReadLimits) -> Iterator[Rows]:
    """Yield CSR blocks with the indices of the file; raise DataFileError if there are no rows."""
    detect_encoding(path)  # raises DataFileError for binary data
    n_lines = n_rows = 0
    with open_bytes(path, limits) as file:
        for block in iter_line_blocks(file, path, limits, b"\n"):
            X, y = _parse(path, block, n_lines)
            n_lines += block.count(b"\n")
            n_rows += len(y)
            if len(y):
                yield X, y
    if n_rows == 0:
        raise DataFileError(f"{path} has no rows; copy or download it again.")


def _parse(path: Path, block: bytes, n_before: int) -> Rows:
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(block), zero_based=True)
    except (ValueError, OverflowError, IndexError) as error:
        for number, line in enumerate(block.split(b"\n"), start=n_before + 1):
            if problem := _find_problem(line):
                raise DataFileError(f"{path}, line {number}: {problem}") from error
        raise DataFileError(f"{path} is not LIBSVM text: {error}") from error
    indices, indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sparse.csr_matrix((X.data, indices, indptr), shape=X.shape), y


def _find_problem(line: bytes, first: int = 0, last: int = MAX_INDEX) -> str | None:
    """Return the error of a line, or None; indices may go from ``first`` to ``last``."""
    words = line.split(b"#", 1)[0].decode("latin-1").split()
    if not words:
        return None
    label, pairs = words[0], words[1:]
    if ":" in label:
        return f"the label is missing before {shorten(label)}."
    if "," in label and all(_can_convert(float, part) for part in label.split(",")):
        return f"several labels ({shorten(label)}); keep one per row: several are not supported."
    if not _can_convert(float, label):
        return f"the label {shorten(label)} is not a number."
    previous = -1
    for pair in pairs[1:] if pairs and pairs[0].startswith("qid") else pairs:
        index, colon, value = pair.partition(":")
        if not colon or not _can_convert(int, index) or not _can_convert(float, value):
            return f"{shorten(pair)} is not index:value with a whole index and a number."
        if not 0 <= int(index) <= MAX_INDEX:
            return f"index {shorten(index)} is outside 0 to {MAX_INDEX}."
        if not first <= int(index) <= last:
            remedy = (
                "zero_based=True" if int(index) < first else f"n_features={int(index) + 1 - first}"
            )
            return f"index {index} is outside {first} to {last}; say {remedy}, or correct the line."
        if int(index) <= previous:
            return f"index {index} after {previous}; sort the indices and drop doubles."
        previous = int(index)
    return None


def _shift_indices(path: Path, X: sparse.csr_matrix, first: int, width: int) -> sparse.csr_matrix:
    last = width + first - 1
    if X.nnz and (X.indices.min() < first or X.indices.max() > last):
        # The block does not keep its lines, so the file is read again to locate the error.
        with open_plain(path) as file:
            for number, line in enumerate(file, start=1):
                if problem := _find_problem(line, first, last):
                    raise DataFileError(f"{path}, line {number}: {problem}")
        raise DataFileError(f"{path} changed while it was read; read it again.")
    return sparse.csr_matrix((X.data, X.indices - first, X.indptr), shape=(X.shape[0], width))


def _can_convert(convert: Callable[[str], object], word: str) -> bool:
    try:
        convert(word)
    except ValueError:
        return False
    return True
