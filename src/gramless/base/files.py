"""Atomic writing of files: either the complete file appears, or none."""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gramless.base.errors import GramlessError, InputError

# A reader that is started together with the writer opens the pipe within this time.
_WAIT_FOR_READER_SECONDS = 5.0


@contextmanager
def open_replacement(target: Path) -> Iterator[IO[bytes]]:
    """Open a new file that replaces ``target`` once it is complete on the disk.

    A pipe or a device, such as /dev/null, is written to directly.
    """
    if target.exists() and not target.is_file():
        with open(target, "wb", opener=_open_pipe if target.is_fifo() else None) as file:
            yield file
        return
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with open(part, "xb") as file:
            if target.exists():
                shutil.copymode(target, part)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def open_for_writing(
    path: str | os.PathLike[str], name: str = "", error: type[GramlessError] = InputError
) -> Iterator[IO[bytes]]:
    """Open a file by :func:`open_replacement`, following links.

    An OSError, also one in the body of the ``with`` statement, is raised as ``error``. Its message
    contains ``name``, by default the path.
    """
    try:
        with open_replacement(Path(os.path.realpath(checked_name(path)))) as file:
            yield file
    except OSError as cause:
        raise error(
            f"{name or path} cannot be written ({reason_of(cause)}); make room or name another "
            "place. Nothing was changed."
        ) from cause


def checked_name(path: str | os.PathLike[str]) -> str:
    """Return a path as text; raise OSError if it has a NUL character."""
    text = os.fsdecode(path)
    if "\0" in text:
        raise OSError(errno.EINVAL, "the name has a NUL character", text.replace("\0", "\\0"))
    return text


def open_regular(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a file for reading; raise OSError for a pipe or a device instead of waiting for it."""
    name = checked_name(path)
    mode = os.stat(name).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.ESPIPE, "it is a pipe or a device; save what it holds to a file", name)
    return open(name, "rb")


def reason_of(error: OSError) -> str:
    """Return the system's reason for an error, without the name of the file."""
    return error.strerror or str(error)


def _open_pipe(path: str, flags: int) -> int:
    """Open a pipe for writing; raise OSError if no process reads it."""
    deadline = time.monotonic() + _WAIT_FOR_READER_SECONDS
    while True:
        try:
            descriptor = os.open(path, flags | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > deadline:
                raise OSError(errno.ENXIO, "nothing reads from this pipe", path) from None
            time.sleep(0.02)
        else:
            os.set_blocking(descriptor, True)
            return descriptor
