"""One door to every file format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from gramless.base.errors import DataFileError, InputError
from gramless.datasets.arff import read_arff
from gramless.datasets.csv_reader import read_csv
from gramless.datasets.files import detect_format, faults, plain_path
from gramless.datasets.libsvm import ZeroBased, read_libsvm
from gramless.datasets.limits import ReadLimits
from gramless.datasets.npz import read_npy, read_npz
from gramless.datasets.parquet import read_parquet
from gramless.datasets.table import Table


def read_table(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    part: Literal["train", "test"] = "train",
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    delimiter: str | None = None,
    header: bool | None = None,
    categorical: Sequence[str] = (),
    limits: ReadLimits | None = None,
) -> Table:
    r"""Read a table from a file of any known format.

    By ending: ``.csv .tsv .tab .data .txt`` (delimited text), ``.arff``,
    ``.parquet .pq``, ``.libsvm .svm .svmlight`` (LIBSVM text, also recognised by its
    content under any other or no ending), ``.npz``, ``.npy``; each also with
    ``.gz``, ``.bz2`` or ``.xz`` behind.

    Parameters
    ----------
    path : str or path-like
    format : str, default=None
        One of csv, tsv, arff, parquet, libsvm, npz, npy; overrides the ending.
    part : {"train", "test"}, default="train"
        Which part of an NPZ file that holds both.
    n_features : int, default=None
        LIBSVM: number of columns, so that training and test files agree.
    zero_based : bool or "auto", default="auto"
        LIBSVM: whether the first index is 0.
    delimiter : str, default=None
        Delimited text: one character, found by itself by default.
    header : bool, default=None
        Delimited text: whether the first row holds names, found by itself by
        default.
    categorical : sequence of str, default=()
        Delimited text: columns to keep as text though they look like numbers.
    limits : ReadLimits, default=None
        The length of a line, what compressed data may unpack to, and the memory
        that reading may take; by default ``ReadLimits()``.

    Returns
    -------
    Table
        See :meth:`Table.split_target` for inputs and labels.

    Raises
    ------
    DataFileError
        For every fault of the file, with its place and a remedy; for what is
        beyond the limits, with what was needed.
    InputError
        For a parameter that cannot be.
    MissingDependencyError
        Parquet without polars and pyarrow.

    Notes
    -----
    Linear in the size of the file; see the reader of each format.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("weight,age,label\n4.5,3,cat\n30,7,dog\n")
    ...     X, y, names = read_table(path).split_target()
    >>> X.shape, y, names
    ((2, 2), array(['cat', 'dog'], dtype=object), ('weight', 'age'))
    """
    if part not in ("train", "test"):
        raise InputError(f"part must be 'train' or 'test', got {part!r}.")
    where, limits = plain_path(path), limits or ReadLimits()
    kind = detect_format(where, format)
    with faults(where):
        if kind in ("csv", "tsv"):
            cut = "\t" if kind == "tsv" and delimiter is None else delimiter
            return read_csv(
                where, delimiter=cut, header=header, categorical=categorical, limits=limits
            )
        if kind == "libsvm":
            X, y = read_libsvm(where, n_features=n_features, zero_based=zero_based, limits=limits)
            return Table(matrix=X, target=y, source=str(where))
        if kind == "npz":
            return _part(where, part, limits)
        readers = {"arff": read_arff, "parquet": read_parquet, "npy": read_npy}
        return readers[kind](where, limits=limits)


def _part(path: Path, part: str, limits: ReadLimits) -> Table:
    parts = read_npz(path, limits=limits)
    wanted = "all" if part == "train" and "all" in parts else part
    if wanted not in parts:
        raise DataFileError(f"{path} has no test part: X_test and y_test are not in it.")
    return parts[wanted]
