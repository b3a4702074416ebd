"""How much memory may be used, and refusing what needs more before it is taken."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import ClassVar

from gramless.base.errors import InputError
from gramless.base.numeric import as_float

VARIABLE = "GRAMLESS_MEMORY_LIMIT"
"""Environment variable: bytes that a fit may take, such as 4e9 or "4GB"."""
# Share of large arrays in a fit: the rest is for blocks of rows, samples and what solvers keep.
_ARRAYS_SHARE = 0.5
_UNKNOWN = 4 << 30
_LITTLE = 8 << 20
# Share of what large arrays may take together; larger arrays of codes lie on the disk.
_CODES_SHARE = 0.4
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_given: ContextVar[int | None] = ContextVar("memory", default=None)
"""The ``memory_budget`` of the fit that is running in this thread, None if it has none."""
_share: ContextVar[float] = ContextVar("share", default=1.0)
"""Share of a user's limit that large arrays may take in this thread."""
_OWN_GROUPS, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_GROUP_FILES = {
    "": ("", "memory.max", "memory.current", "inactive_file"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Where control groups of the second and of the first version say what they allow and use."""


def memory_budget() -> int:
    """Return how many bytes large arrays may take together.

    This is half of :func:`free_memory` unless the user gave a limit, :func:`memory_limit`. Kernel
    estimators may take half of the limit, because their fits hold much else; others all of it.
    """
    limit = memory_limit()
    bytes_left = _ARRAYS_SHARE * free_memory() if limit is None else _share.get() * limit
    return max(1, int(bytes_left))


def memory_limit() -> int | None:
    """Return the bytes that a fit may take, or None if the user gave no limit.

    The limit is that of :func:`limited_memory`, or else that of the environment variable
    ``GRAMLESS_MEMORY_LIMIT``. ``InputError`` is raised if the variable is not a number of bytes.
    """
    text = os.environ.get(VARIABLE)
    if _given.get() is not None or not text:
        return _given.get()
    try:
        return parse_bytes(text)
    except InputError as fault:
        raise InputError(f"{VARIABLE}: {fault}") from fault


@contextmanager
def limited_memory(n_bytes: int | None) -> Iterator[None]:
    """Fit a kernel estimator in this thread within ``n_bytes``, or None for no limit of its own."""
    given = _given.set(_given.get() if n_bytes is None else n_bytes)
    share = _share.set(_ARRAYS_SHARE)
    try:
        yield
    finally:
        _share.reset(share)
        _given.reset(given)


def given_memory() -> int | None:
    """Return the bytes that :func:`limited_memory` gives, None where it gives none."""
    return _given.get()


def is_limited() -> bool:
    """Return whether a user gave a limit, for this fit or for the process."""
    return memory_limit() is not None


def release_freed_memory() -> None:
    """Return freed memory to the system if a user gave a limit, where the C library can do that.

    The allocator of glibc keeps what threads free: twice as much as is in use, after some phases.
    """
    if is_limited():
        with suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)


def outgrows_memory(n_bytes: float) -> bool:
    """Return whether an array belongs on the disk because of an estimator's ``memory_budget``."""
    return _given.get() is not None and n_bytes > _CODES_SHARE * memory_budget()


def parse_bytes(size: object) -> int:
    """Return a number of bytes, given as such or as text: "4GB", "500 MB" or "1.5e9".

    Raises ``InputError`` unless there is at least one byte.

    Examples
    --------
    >>> parse_bytes("4GB"), parse_bytes("0.5 MB"), parse_bytes(1000)
    (4000000000, 500000, 1000)
    """
    number = as_float(size)
    if isinstance(size, str):
        found = re.fullmatch(r"([0-9._]+(?:e\+?[0-9]+)?)\s*([kmgt]?)(i?)b?", size.strip().lower())
        with suppress(ValueError):
            thousand = 1024 if found and found[3] else 1000
            number = float(found[1]) * thousand ** _POWERS[found[2]] if found else number
    if not 1 <= number < 2.0**63:
        raise InputError(f'a number of bytes such as 4e9 or "4GB" is needed, got {size!r}.')
    return int(number)


def memory_for(needed: float) -> int:
    """Return :func:`memory_budget`, or 8 MB where that is enough, without asking the system.

    To ask takes a third of a millisecond, half of what the prediction of a row takes.
    """
    is_little = needed <= _LITTLE and not is_limited()
    return _LITTLE if is_little else memory_budget()


def free_memory() -> int:
    """Return how many bytes can be taken without swapping, at least 1.

    This is the least of what the system says is available, what the control group of the process
    leaves (as in a container), and what its limits on address space and data leave (``ulimit -v``,
    ``ulimit -d``).
    """
    free = _UNKNOWN
    with suppress(AttributeError, ValueError, OSError):
        # macOS tells no more.
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    with suppress(AttributeError, ValueError, OSError):
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, StopIteration, ValueError):
        free = _available()
    return max(min([free, *_groups_leave(), *_process_limits_leave()]), 1)


def check_memory(what: str, needed: float, remedy: str) -> None:
    """Raise ``InputError`` if more bytes are needed than :func:`memory_budget` allows.

    The message starts with ``what`` needs the memory, such as ``"Nystrom: 10 landmarks"``, and ends
    with a remedy, such as ``"lower n_components"``.
    """
    budget = memory_for(needed)
    if needed > budget:
        if _given.get() is not None:
            whole, more = "memory_budget", "raise memory_budget"
        elif is_limited():
            whole, more = VARIABLE, f"raise {VARIABLE}"
        else:
            whole, more = "the free memory", f"set the environment variable {VARIABLE}"
        part = "all" if is_limited() and _share.get() == 1.0 else "half"
        # 0.5 % more, because three digits are shown.
        enough = 1.005 * needed / _share.get()
        raise InputError(
            f"{what} would need {_told(needed)} of memory, and {_told(budget)} may be used, {part} "
            f"of {whole}: {remedy}, or {more} to at least {_told(enough)}."
        )


def _told(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:,.3g} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:,.3g} MB"


if sys.platform == "win32":

    class _MemoryStatus(ctypes.Structure):
        """``MEMORYSTATUSEX`` of Windows."""

        _fields_: ClassVar = [
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((f"bytes_{k}", ctypes.c_ulonglong) for k in range(7)),
        ]

    def _available() -> int:
        """Return what Windows says is available of the physical memory."""
        status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
        if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
            raise OSError("GlobalMemoryStatusEx failed")
        return int(status.bytes_1)
else:

    def _available() -> int:
        """Return what Linux says can be used without swapping."""
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found = next(line for line in lines if line.startswith("MemAvailable:"))
        return 1024 * int(found.split()[1])


def _groups_leave() -> list[int]:
    """Return what the control groups of this process leave, of either version."""
    left = []
    with suppress(OSError, ValueError):
        for line in _OWN_GROUPS.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in _GROUP_FILES:
                continue
            below, *names = _GROUP_FILES[controllers]
            inside = Path(path.lstrip("/"))
            for part in (inside, *inside.parents):
                # Where there is no limit, there is no file, or it says "max".
                with suppress(OSError, ValueError):
                    left.append(_group_leaves(_GROUPS / below / part, *names))
    return left


def _group_leaves(folder: Path, limit: str, used: str, cached: str) -> int:
    """Return a limit less what is used; files in the cache can be dropped."""
    most, taken = (int((folder / name).read_text(encoding="ascii")) for name in (limit, used))
    lines = (folder / "memory.stat").read_text(encoding="ascii").split("\n")
    dropped = sum(int(line.split()[1]) for line in lines if line.startswith(f"{cached} "))
    return max(most - taken + dropped, 0)


def _process_limits_leave() -> list[int]:
    """Return what the limits of address space and of data leave, where they are set."""
    try:
        import resource
    except ImportError:
        return []
    # What the system tells: the address space first, data and stack sixth.
    used = [0] * 6
    with suppress(AttributeError, OSError, ValueError):
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
        used = [int(each) * os.sysconf("SC_PAGE_SIZE") for each in pages]
    most = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    pairs = zip(most, (used[0], used[5]), strict=True)
    return [max(a - b, 0) for a, b in pairs if a != resource.RLIM_INFINITY]
