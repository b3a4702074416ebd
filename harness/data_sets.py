"""Known data sets by name: from a local folder, else downloaded and checked.

``python -m harness.data_sets`` lists them; ``python -m harness.data_sets NAME --download`` fetches
one.
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

_CHUNK = 1 << 18
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
        What the targets are.
    name : str
        Name under which it was loaded.

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
    """Return labels as float64 for regression, whole numbers as int64 for classes."""
    if task == "regression":
        return y.astype(np.float64, copy=False)
    if y.dtype.kind == "f":
        whole = y.astype(np.int64) if np.isfinite(y).all() else y
        return whole if np.array_equal(whole, y) else y
    return y.astype(np.int64, copy=False) if y.dtype.kind in "biu" else y


def guess_task(y: AnyArray) -> Task:
    """Return the task that labels suggest: floats of more than two values are measured."""
    n_values = len(np.unique(y))
    if n_values == 2:
        return "binary"
    return "regression" if y.dtype.kind == "f" or y.ndim > 1 else "multiclass"


@dataclass(frozen=True)
class DatasetInfo:
    """What :func:`available` says of one data set.

    Parameters
    ----------
    name, description : str
        What :func:`load` takes, and what the set is in a line.
    task : {"binary", "multiclass", "regression", ""}
        Empty where only the file says.
    present : bool
        Whether :func:`load` needs no network.

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
    """Return the folder in which data sets are kept, which need not exist.

    Parameters
    ----------
    folder : str or path-like, default=None
        By default the environment variable ``GRAMLESS_DATA``, else the platform's cache folder
        (``~/.cache/gramless`` on Linux). ``InputError`` if the user has no home folder.

    Examples
    --------
    >>> data_folder("tables").name
    'tables'
    """
    chosen = folder or os.environ.get("GRAMLESS_DATA")
    if chosen:
        return Path(chosen).expanduser()
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
    """List the data sets known, and every NPZ file in the folder, sorted by name.

    Only file names are looked at; nothing is read or downloaded.

    Parameters
    ----------
    folder : str or path-like, default=None
        As :func:`data_folder`.

    Examples
    --------
    >>> [info.task for info in available("no-such-folder") if info.name == "ijcnn1"]
    ['binary']
    """
    where = data_folder(folder)
    found = {path.stem for path in where.glob("*.npz")} if where.is_dir() else set()
    other = found - KNOWN.keys()
    infos = [DatasetInfo(name, "an NPZ file in the folder", "", present=True) for name in other]
    for known in KNOWN.values():
        files = [file for file in (known.train, known.test) if file is not None]
        complete = bool(files) and all(_local(where, file) for file in files)
        present = known.name in found or complete
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

    Looked for in this order: ``NAME.npz`` in the folder (arrays ``X_train, y_train, X_test,
    y_test`` or ``X, y``, or CSR parts), the original files in the folder, compressed or not, and
    the network. A file whose checksum is not known is trusted at its first use: the checksum is
    recorded beside it and checked ever after.

    Parameters
    ----------
    name : str
        See :func:`available`; any other ``NAME.npz`` in the folder will do.
    folder : str or path-like, default=None
        As :func:`data_folder`.
    download : bool, default=True
        Whether the network may be used.
    progress : callable, default=None
        Called while downloading as ``progress(file_name, bytes_done, bytes_total_or_None)``.

    Returns
    -------
    Dataset
        With the official split; without one, of the rows in the order
        ``numpy.random.RandomState(0).permutation(n)`` the last fifth is the test set.

    Raises
    ------
    InputError
        If the name is not known and no such NPZ file is in the folder.
    DataFileError
        If a file is damaged, has another checksum or number of rows than expected, or is absent
        and cannot be downloaded.

    Notes
    -----
    NPZ loads at the speed of the disk; LIBSVM text takes about 0.3 microseconds a number.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "mine.npz"), X=np.eye(10), y=np.arange(10) % 2)
    ...     load("mine", folder=folder)
    Dataset('mine', binary, 8 + 2 rows x 10 columns)
    """
    where, known = data_folder(folder), KNOWN.get(name)
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise InputError(f"{name!r} is not the name of a data set; see available().")
    if (where / f"{name}.npz").is_file():
        return _from_npz(name, where / f"{name}.npz", known)
    if known is None:
        close = difflib.get_close_matches(name, KNOWN, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(
            f"No data set {name!r} is known and {where} holds no {name}.npz.{hint} "
            "`python -m harness.data_sets` lists those that are known."
        )
    if known.train is None:
        raise DataFileError(f"{name} cannot be downloaded; put {name}.npz into {where}.")
    train = _obtain(where, known.train, download, progress)
    test = _obtain(where, known.test, download, progress) if known.test else None
    return _from_originals(known, *read_original(known, train, test))


def _local(folder: Path, file: RemoteFile) -> Path | None:
    for name in (file.name, strip_compression(file.name)):
        if (folder / name).is_file():
            return folder / name
    return None


def _obtain(folder: Path, file: RemoteFile, may_download: bool, progress: Progress | None) -> Path:
    """Return the checked local copy of a file, downloading it if that is allowed."""
    here = _local(folder, file)
    if here is not None:
        # The known checksum is that of the file as offered, compressed or not.
        verify(here, file.sha256 if here.name == file.name else None)
        return here
    target = folder / file.name
    if not may_download:
        raise DataFileError(
            f"{target} is not there and downloads are off; put {file.url} at that place, or "
            "allow downloads."
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
    """Check the sizes against what is known and make the split."""
    sizes = ("test", test, known.n_test_rows), ("training", train, known.n_rows)
    for role, part, expected in sizes:
        if part is not None and len(part[1]) != expected:
            raise DataFileError(
                f"The {role} file of {known.name} has {len(part[1]):,} rows, not {expected:,}: it "
                "is cut off or another file of that name. Delete it and load again."
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
    # The streams of NumPy's old generator are frozen for good, those of the new one are not.
    order = np.random.RandomState(0).permutation(len(y))
    train, test = np.split(order, [len(y) - round(TEST_SHARE * len(y))])
    if not len(train) or not len(test):
        raise DataFileError(f"{path} has {len(y)} rows, too few to split.")
    return (X[train], y[train]), (X[test], y[test])


# Downloads.


def fetch_file(
    url: str, target: Path, sha256: str | None = None, progress: Progress | None = None
) -> None:
    """Download a file and check it; one that fails, breaks off or is another leaves nothing behind.

    Without ``sha256`` the checksum is recorded for :func:`verify`.
    """
    if urlsplit(url).scheme not in _SCHEMES:
        raise InputError(f"Only {', '.join(_SCHEMES)} addresses are downloaded, got {url!r}.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_replacement(target) as file:
            found = _receive(url, file, target.name, progress)
            _compare(f"what {url} sent", found, sha256)
    except (OSError, http.client.HTTPException) as fault:
        raise DataFileError(
            f"{url} could not be downloaded ({fault}). Check the network and try again, or put "
            f"the file at {target}."
        ) from fault
    if sha256 is None:
        _record(target, found)


def verify(path: Path, sha256: str | None = None) -> None:
    """Check a local file against its checksum, known or recorded.

    Without a known checksum the first use is trusted: the hash is recorded as ``NAME.sha256``.
    """
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    beside = _beside(path)
    if sha256 is None and beside.is_file():
        sha256 = (beside.read_text(encoding="ascii", errors="replace").split() or [""])[0]
    if sha256 is None:
        _record(path, found)
    else:
        _compare(str(path), found, sha256)


def _receive(url: str, file: IO[bytes], name: str, progress: Progress | None) -> str:
    digest, done = hashlib.sha256(), 0
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
        final = urlsplit(answer.geturl()).scheme
        if final not in (urlsplit(url).scheme, "https"):
            raise DataFileError(f"{url} redirects to a {final} address, which is refused.")
        length = answer.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(name, done, total)
    if total is not None and done != total:
        raise DataFileError(f"{url} broke off after {done:,} of {total:,} bytes; try again.")
    return digest.hexdigest()


def _compare(what: str, found: str, wanted: str | None) -> None:
    if wanted is not None and found != wanted.lower():
        raise DataFileError(
            f"{what} has SHA-256 {found}, not {wanted} as expected: it is damaged or was "
            "changed. Delete the file, and its .sha256 beside it if you trust the new one, "
            "and load again."
        )


def _record(path: Path, digest: str) -> None:
    # A folder that may not be written to is no reason to refuse its data.
    with contextlib.suppress(OSError):
        _beside(path).write_text(f"{digest}  {path.name}\n", encoding="ascii")


def _beside(path: Path) -> Path:
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
