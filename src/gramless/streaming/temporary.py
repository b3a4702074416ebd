"""Temporary folders, removed by their owner or, if that was killed, by the next one."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from gramless.base.errors import DataFileError

PREFIX = "gramless-rows-"
LOCK = "owner.lock"

_ATTEMPTS = 20

if sys.platform == "win32":
    import msvcrt

    _NO_LINKS = 0

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _is_own(entry: os.DirEntry[str]) -> bool:
        return True
else:
    import fcntl

    _NO_LINKS = os.O_NOFOLLOW

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _is_own(entry: os.DirEntry[str]) -> bool:
        return entry.stat(follow_symlinks=False).st_uid == os.getuid()


def temporary_folder() -> tuple[Path, Callable[[], None]]:
    """Create a folder, and a function that removes it, which does nothing in a forked child.

    The owner holds a lock on a file in the folder, which the system releases however the process
    ends: the next one removes folders whose owners are gone.
    """
    remove_abandoned()
    for _ in range(_ATTEMPTS):
        try:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            descriptor = _held(folder)
        except OSError as fault:
            raise DataFileError(
                f"no temporary folder can be made ({fault}); name one by folder=."
            ) from fault
        if descriptor is not None:
            return folder, partial(_remove_own, folder, descriptor, os.getpid())
    raise DataFileError(
        f"no file in {tempfile.gettempdir()!r} can be locked; name a folder by folder=."
    )


def remove_abandoned() -> None:
    """Remove this user's temporary folders whose owners are gone, without following links."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with suppress(OSError):
                is_folder = entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False)
                if is_folder and _is_own(entry):
                    _remove_unless_held(Path(entry.path))


def _held(folder: Path) -> int | None:
    """Lock a new folder and return the lock; None if another process takes it for abandoned."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileNotFoundError:
        return None
    try:
        _lock(descriptor)
        held = (folder / LOCK).exists()
    except (BlockingIOError, PermissionError):
        held = False
    except OSError:
        # The file system has no locks, so that no process can take the folder for abandoned.
        held = True
    if held:
        return descriptor
    os.close(descriptor)
    return None


def _remove_unless_held(folder: Path) -> None:
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | _NO_LINKS)
    except FileNotFoundError:
        # The owner was killed, or has not locked the folder yet and will make another: it is empty.
        folder.rmdir()
        return
    try:
        _lock(descriptor)
    except OSError:
        os.close(descriptor)
    else:
        _remove(folder, descriptor)


def _remove_own(folder: Path, descriptor: int, owner: int) -> None:
    with suppress(OSError):
        if os.getpid() == owner:
            _remove(folder, descriptor)


def _remove(folder: Path, descriptor: int) -> None:
    """Remove a folder whose lock is held, the lock file last."""
    try:
        for path in folder.iterdir():
            if path.name != LOCK:
                path.unlink()
        # Windows cannot remove open files.
        with suppress(PermissionError):
            (folder / LOCK).unlink()
    finally:
        os.close(descriptor)
    (folder / LOCK).unlink(missing_ok=True)
    folder.rmdir()
