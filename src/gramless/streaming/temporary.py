"""Temporary folders, which a later process removes if their process was killed."""

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

    def _belongs_to_user(entry: os.DirEntry[str]) -> bool:
        return True
else:
    import fcntl

    _NO_LINKS = os.O_NOFOLLOW

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _belongs_to_user(entry: os.DirEntry[str]) -> bool:
        return entry.stat(follow_symlinks=False).st_uid == os.getuid()


def temporary_folder() -> tuple[Path, Callable[[], None]]:
    """Create a folder and return it, with a function that removes it.

    The function does nothing in a forked child. This process holds a lock on a file in the folder,
    and the system releases the lock when the process ends, even if it is killed. Before creating a
    folder, this removes the folders of this user that no process has locked.
    """
    remove_abandoned_folders()
    for _ in range(_ATTEMPTS):
        try:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            descriptor = _lock_folder(folder)
        except OSError as error:
            raise DataFileError(
                f"no temporary folder can be made ({error}); name one with folder=."
            ) from error
        if descriptor is not None:
            return folder, partial(_remove_if_owner, folder, descriptor, os.getpid())
    raise DataFileError(
        f"no file in {tempfile.gettempdir()!r} can be locked; name a folder with folder=."
    )


def remove_abandoned_folders() -> None:
    """Remove this user's temporary folders that no process has locked; links are not followed."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with suppress(OSError):
                is_folder = entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False)
                if is_folder and _belongs_to_user(entry):
                    _remove_unless_locked(Path(entry.path))


def _lock_folder(folder: Path) -> int | None:
    """Lock a new folder; return the descriptor, or None if another process is removing it."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileNotFoundError:
        return None
    try:
        _lock(descriptor)
        is_locked = (folder / LOCK).exists()
    except (BlockingIOError, PermissionError):
        is_locked = False
    except OSError:
        # The file system has no locks, so no other process can lock and remove the folder.
        is_locked = True
    if is_locked:
        return descriptor
    os.close(descriptor)
    return None


def _remove_unless_locked(folder: Path) -> None:
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | _NO_LINKS)
    except FileNotFoundError:
        # Its process was killed before it locked the folder, or will create another folder.
        folder.rmdir()
        return
    try:
        _lock(descriptor)
    except OSError:
        os.close(descriptor)
    else:
        _remove(folder, descriptor)


def _remove_if_owner(folder: Path, descriptor: int, owner: int) -> None:
    with suppress(OSError):
        if os.getpid() == owner:
            _remove(folder, descriptor)


def _remove(folder: Path, descriptor: int) -> None:
    """Remove a locked folder, the lock file last."""
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
