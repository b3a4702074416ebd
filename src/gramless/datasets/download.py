"""Downloads that arrive whole or not at all, and checksums that are kept."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from gramless.base.errors import DataFileError, InputError

Progress = Callable[[str, int, int | None], None]

_CHUNK = 1 << 18
_TIMEOUT_SECONDS = 30.0
_SCHEMES = ("https", "http", "file")


def fetch_file(
    url: str, target: Path, sha256: str | None = None, progress: Progress | None = None
) -> None:
    """Download a file under a temporary name, check it, then rename it at once.

    Parameters
    ----------
    url : str
        ``https``, ``http`` or ``file``.
    target : Path
        Where it goes; its folder is made.
    sha256 : str, default=None
        What it must hash to. None accepts what comes and records its
        checksum for :func:`verify`.
    progress : callable, default=None
        Called as ``progress(name, bytes_done, bytes_total_or_None)``.

    Raises
    ------
    InputError
        For any other kind of URL.
    DataFileError
        If it cannot be reached, breaks off, or has another checksum; nothing
        is left behind then.
    """
    if urlsplit(url).scheme not in _SCHEMES:
        raise InputError(f"Only {', '.join(_SCHEMES)} addresses are downloaded, got {url!r}.")
    scratch = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        scratch = Path(name)
        with os.fdopen(handle, "wb") as file:
            found = _receive(url, file, target.name, progress)
        _compare(f"what {url} sent", found, sha256)
        os.replace(scratch, target)
    except (OSError, http.client.HTTPException) as fault:
        raise DataFileError(
            f"{url} could not be downloaded ({fault}). Check the network and try again, or "
            f"put the file at {target}."
        ) from fault
    finally:
        if scratch is not None:
            scratch.unlink(missing_ok=True)
    if sha256 is None:
        _record(target, found)


def verify(path: Path, sha256: str | None = None) -> None:
    """Check a local file against its checksum, known or recorded.

    Without a known checksum the first use is trusted: what the file hashes to
    is recorded beside it as ``NAME.sha256`` and holds ever after.

    Parameters
    ----------
    path : Path
    sha256 : str, default=None

    Raises
    ------
    DataFileError
        If the file differs from what is known or recorded.

    Notes
    -----
    Reads the whole file, about a second a gigabyte.
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
        _check_redirect(url, answer)
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


def _check_redirect(url: str, answer: Any) -> None:
    """Refuse to be led from a safe address to an unsafe one."""
    asked, final = urlsplit(url).scheme, urlsplit(answer.geturl()).scheme
    if final not in (asked, "https"):
        raise DataFileError(f"{url} redirects to a {final} address, which is refused.")


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
