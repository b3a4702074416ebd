"""Known data sets by name, read from a local folder or downloaded and checked.

``python -m harness.data_sets`` lists them; ``python -m harness.data_sets NAME --download``
downloads one.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import http.client
import os
import re
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import numpy as np

from gramless.base.errors import DataFileError, InputError
from gramless.base.files import open_replacement
from gramless.base.types import AnyArray
from gramless.datasets.files import strip_compression
from gramless.datasets.numpy_files import read_npz
from gramless.datasets.pieces import Chunk
from gramless.datasets.table import Matrix
from harness.known_sets import KNOWN, KnownSet, RemoteFile, Task, read_original

TEST_SHARE = 0.2

Progress = Callable[[str, int, int | None], None]

_CHUNK_BYTES = 1 << 18
_TIMEOUT_SECONDS = 30.0
_SCHEMES = ("https", "http", "file")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Training and test rows of one learning task.

    Parameters
    ----------
    X_train, X_test : ndarray or CSR matrix of shape (n_rows, n_columns)
        float32 or float64.
    y_train, y_test : ndarray of shape (n_rows,)
        float64 for regression; int64 or object arrays of str for classes.
    task : {"binary", "multiclass", "regression"}
    name : str
        Name passed to :func:`load`.

    Examples
    --------
    >>> rows, labels = np.eye(2), np.array([0, 1])
    >>> Dataset(rows, labels, rows, labels, "binary", "tiny")
    Dataset('tiny', binary, 2 + 2 rows x 2 columns)
    """

    X_train: Matrix
    y_train: AnyArray
    X_test: Matrix
    y_test: AnyArray
    task: Task
    name: str

    def __repr__(self) -> str:
        (n_train, n_columns), n_test = self.X_train.shape, self.X_test.shape[0]
        rows = f"{n_train:,} + {n_test:,} rows x {n_columns:,} columns"
        return f"Dataset({self.name!r}, {self.task}, {rows})"


def labels_for(task: Task, y: AnyArray) -> AnyArray:
    """Return targets as float64 for regression, and integer class labels as int64."""
    if task == "regression":
        return y.astype(np.float64, copy=False)
    if y.dtype.kind == "f":
        whole = y.astype(np.int64) if np.isfinite(y).all() else y
        return whole if np.array_equal(whole, y) else y
    return y.astype(np.int64, copy=False) if y.dtype.kind in "biu" else y


def guess_task(y: AnyArray) -> Task:
    """Return the likely task: regression for floats with more than two distinct values."""
    n_values = len(np.unique(y))
    if n_values == 2:
        return "binary"
    return "regression" if y.dtype.kind == "f" or y.ndim > 1 else "multiclass"


@dataclass(frozen=True)
class DatasetInfo:
    """An entry of the list that :func:`available` returns.

    Parameters
    ----------
    name, description : str
        The name to pass to :func:`load`, and a description in one line.
    task : {"binary", "multiclass", "regression", ""}
        Empty for files that are not known data sets.
    present : bool
        Whether :func:`load` can read it without a download.

    Examples
    --------
    >>> [info.task for info in available() if info.name == "letter"]
    ['multiclass']
    """

    name: str
    description: str
    task: str
    present: bool


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of data sets, whether or not it exists.

    Parameters
    ----------
    folder : str or path-like, default=None
        By default the environment variable ``GRAMLESS_DATA``, else the platform's cache folder
        (``~/.cache/gramless`` on Linux).

    Raises
    ------
    InputError
        If the cache folder is needed but the user has no home folder.

    Examples
    --------
    >>> data_folder("tables").name
    'tables'
    """
    configured = folder or os.environ.get("GRAMLESS_DATA")
    if configured:
        return Path(configured).expanduser()
    try:
        home = Path.home()
    except RuntimeError:
        raise InputError(
            "you have no home folder for data sets: set the environment variable GRAMLESS_DATA to "
            "a folder for them, or HOME."
        ) from None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "gramless"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "gramless"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "gramless"


def available(folder: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """Return the known data sets and every other NPZ file in the folder, sorted by name.

    Only file names are checked; nothing is read or downloaded.

    Parameters
    ----------
    folder : str or path-like, default=None
        As :func:`data_folder`.

    Examples
    --------
    >>> [info.task for info in available("no-such-folder") if info.name == "ijcnn1"]
    ['binary']
    """
    directory = data_folder(folder)
    npz_names = {path.stem for path in directory.glob("*.npz")} if directory.is_dir() else set()
    infos = [
        DatasetInfo(name, "an NPZ file in the folder", "", present=True)
        for name in npz_names - KNOWN.keys()
    ]
    for known in KNOWN.values():
        files = [file for file in (known.train, known.test) if file is not None]
        has_originals = bool(files) and all(_find_local(directory, file) for file in files)
        present = known.name in npz_names or has_originals
        infos.append(DatasetInfo(known.name, known.description, known.task, present))
    return sorted(infos, key=lambda info: info.name.lower())


def load(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: Progress | None = None,
) -> Dataset:
    """Load a data set by name, split into training and test rows.

    The sources are tried in this order: ``NAME.npz`` in the folder (arrays ``X_train, y_train,
    X_test, y_test`` or ``X, y``, or CSR parts), the original files in the folder, compressed or
    not, and the network. A file without a known checksum is trusted at its first use; its checksum
    is then stored in ``NAME.sha256`` in the same folder and checked at every later use.

    Parameters
    ----------
    name : str
        A name that :func:`available` returns.
    folder : str or path-like, default=None
        As :func:`data_folder`.
    download : bool, default=True
        Whether the network may be used.
    progress : callable, default=None
        Called while downloading as ``progress(file_name, bytes_done, bytes_total_or_None)``.

    Returns
    -------
    Dataset
        With the official split if there is one. Otherwise the test set is the last fifth of the
        rows in the order ``numpy.random.RandomState(0).permutation(n)``.

    Raises
    ------
    InputError
        If the name is unknown and the folder has no such NPZ file.
    DataFileError
        If a file is damaged, has an unexpected checksum or number of rows, or is missing and
        cannot be downloaded.

    Notes
    -----
    NPZ loads at the speed of the disk; LIBSVM text takes about 0.3 microseconds per value.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "mine.npz"), X=np.eye(10), y=np.arange(10) % 2)
    ...     load("mine", folder=folder)
    Dataset('mine', binary, 8 + 2 rows x 10 columns)
    """
    directory, known = data_folder(folder), KNOWN.get(name)
    # The name becomes part of a path.
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise InputError(f"{name!r} is not the name of a data set; see available().")
    if (directory / f"{name}.npz").is_file():
        return _from_npz(name, directory / f"{name}.npz", known)
    if known is None:
        close = difflib.get_close_matches(name, KNOWN, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(
            f"{name!r} is not a known data set and {directory} contains no {name}.npz.{hint} "
            "`python -m harness.data_sets` lists the known ones."
        )
    if known.train is None:
        raise DataFileError(f"{name} cannot be downloaded; put {name}.npz into {directory}.")
    train = _obtain(directory, known.train, download, progress)
    test = _obtain(directory, known.test, download, progress) if known.test else None
    return _from_originals(known, *read_original(known, train, test))


def _find_local(folder: Path, file: RemoteFile) -> Path | None:
    for name in (file.name, strip_compression(file.name)):
        if (folder / name).is_file():
            return folder / name
    return None


def _obtain(folder: Path, file: RemoteFile, may_download: bool, progress: Progress | None) -> Path:
    """Return the verified local copy of a file, downloading it if permitted."""
    local = _find_local(folder, file)
    if local is not None:
        # The known checksum is of the published file, not of a copy that the user decompressed.
        verify(local, file.sha256 if local.name == file.name else None)
        return local
    target = folder / file.name
    if not may_download:
        raise DataFileError(
            f"{target} does not exist and downloads are off; put {file.url} there, or allow "
            "downloads."
        )
    fetch_file(file.url, target, file.sha256, progress)
    return target


def _from_npz(name: str, path: Path, known: KnownSet | None) -> Dataset:
    parts: list[Chunk] = []
    for role, table in read_npz(path).items():
        if table.target is None:
            raise DataFileError(f"{path} has no labels y{'' if role == 'all' else '_' + role}.")
        parts.append((table.matrix, table.target))
    task = known.task if known else guess_task(parts[0][1])
    train, test = parts if len(parts) == 2 else _random_split(*parts[0], path)
    return _dataset(name, task, train, test)


def _from_originals(known: KnownSet, train: Chunk, test: Chunk | None) -> Dataset:
    """Check the numbers of rows and split them if there is no test file."""
    sizes = ("test", test, known.n_test_rows), ("training", train, known.n_rows)
    for role, part, expected in sizes:
        if part is not None and len(part[1]) != expected:
            raise DataFileError(
                f"The {role} file of {known.name} has {len(part[1]):,} rows, not {expected:,}: it "
                "is incomplete or a different file. Delete it and load again."
            )
    X, y = train
    if test is None and known.n_test_rows:
        cut = len(y) - known.n_test_rows
        train, test = (X[:cut], y[:cut]), (X[cut:], y[cut:])
    elif test is None:
        train, test = _random_split(X, y, Path(known.name))
    return _dataset(known.name, known.task, train, test)


def _dataset(name: str, task: Task, train: Chunk, test: Chunk) -> Dataset:
    (X_train, y_train), (X_test, y_test) = train, test
    return Dataset(X_train, labels_for(task, y_train), X_test, labels_for(task, y_test), task, name)


def _random_split(X: Matrix, y: AnyArray, path: Path) -> tuple[Chunk, Chunk]:
    # NumPy guarantees the stream of RandomState, but not that of Generator.
    order = np.random.RandomState(0).permutation(len(y))
    train, test = np.split(order, [len(y) - round(TEST_SHARE * len(y))])
    if not len(train) or not len(test):
        raise DataFileError(f"{path} has {len(y)} rows, too few to split.")
    return (X[train], y[train]), (X[test], y[test])


# Downloads.


def fetch_file(
    url: str, target: Path, sha256: str | None = None, progress: Progress | None = None
) -> None:
    """Download a file and check it; a failed or wrong download leaves no file behind.

    Without ``sha256`` the checksum is recorded for :func:`verify`.
    """
    if urlsplit(url).scheme not in _SCHEMES:
        raise InputError(f"Only {', '.join(_SCHEMES)} addresses are downloaded, got {url!r}.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_replacement(target) as file:
            digest = _receive(url, file, target.name, progress)
            _check_digest(f"The download from {url}", digest, sha256)
    except (OSError, http.client.HTTPException) as error:
        raise DataFileError(
            f"{url} could not be downloaded ({error}). Check the network and try again, or put "
            f"the file at {target}."
        ) from error
    if sha256 is None:
        _record_digest(target, digest)


def verify(path: Path, sha256: str | None = None) -> None:
    """Raise DataFileError if a file does not have the given or the recorded checksum.

    Without either, the file is trusted and its checksum is recorded in ``NAME.sha256``.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    record = _digest_path(path)
    if sha256 is None and record.is_file():
        sha256 = (record.read_text(encoding="ascii", errors="replace").split() or [""])[0]
    if sha256 is None:
        _record_digest(path, digest)
    else:
        _check_digest(str(path), digest, sha256)


def _receive(url: str, file: IO[bytes], name: str, progress: Progress | None) -> str:
    """Write the content of a URL to a file and return its SHA-256."""
    digest, done = hashlib.sha256(), 0
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
        final_scheme = urlsplit(response.geturl()).scheme
        if final_scheme not in (urlsplit(url).scheme, "https"):
            raise DataFileError(f"{url} redirects to a {final_scheme} address, which is refused.")
        length = response.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        while chunk := response.read(_CHUNK_BYTES):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(name, done, total)
    if total is not None and done != total:
        raise DataFileError(f"{url} broke off after {done:,} of {total:,} bytes; try again.")
    return digest.hexdigest()


def _check_digest(what: str, digest: str, expected: str | None) -> None:
    if expected is not None and digest != expected.lower():
        raise DataFileError(
            f"{what} has SHA-256 {digest}, not {expected} as expected: it is damaged or was "
            "changed. Delete the file, and its .sha256 file too if you trust the new one, "
            "and load again."
        )


def _record_digest(path: Path, digest: str) -> None:
    # Data in a read-only folder can still be used.
    with contextlib.suppress(OSError):
        _digest_path(path).write_text(f"{digest}  {path.name}\n", encoding="ascii")


def _digest_path(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def main() -> None:
    """List the known data sets, or load one and print its size."""
    parser = argparse.ArgumentParser(prog="python -m harness.data_sets", description=main.__doc__)
    parser.add_argument("name", nargs="?", help="a data set to load; by default all are listed")
    parser.add_argument("--folder", help="by default GRAMLESS_DATA, else the cache folder")
    parser.add_argument("--download", action="store_true", help="fetch files that are not there")
    options = parser.parse_args()
    if options.name is not None:
        print(load(options.name, folder=options.folder, download=options.download))
        return
    print(f"in {data_folder(options.folder)}, with * if present:")
    for info in available(options.folder):
        mark = "*" if info.present else " "
        print(f"{mark} {info.name:24} {info.task:10} {info.description}")


if __name__ == "__main__":
    main()
