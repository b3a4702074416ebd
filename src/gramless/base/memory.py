"""The memory budget: how much a fit may use, and checks before large arrays are allocated."""

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

VARIABLE = "GRAMLESS_MEMORY_LIMIT"  # environment variable: bytes for a fit, as 4e9 or "4GB"
# Share of large arrays in a fit: the rest is for blocks of rows, samples and solver state.
_ARRAYS_SHARE = 0.5
_CODES_SHARE = 0.4  # of the memory for large arrays; larger arrays of codes go to the disk
_FREE_IF_UNKNOWN = 4 << 30
_ALWAYS_FREE = 8 << 20
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
# Set by limited_memory: the user's memory_budget of the running fit, and the share of a user's
# limit that is for large arrays.
_fit_limit: ContextVar[int | None] = ContextVar("memory", default=None)
_limit_share: ContextVar[float] = ContextVar("share", default=1.0)
_PROCESS_CGROUPS, _CGROUP_ROOT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
# Control groups of version 2 and version 1, by their name in /proc/self/cgroup: the folder below
# the root, the files of the limit and the use, and the entry of memory.stat for the file cache.
_CGROUP_FILES = {
    "": ("", "memory.max", "memory.current", "inactive_file"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def memory_budget() -> int:
    """Return how many bytes large arrays may take together.

    Without a limit by the user (:func:`memory_limit`), this is half of :func:`free_memory`. With
    one, it is half of the limit in fits of kernel estimators, which need the rest for other data,
    and all of it otherwise.
    """
    limit = memory_limit()
    n_bytes = _ARRAYS_SHARE * free_memory() if limit is None else _limit_share.get() * limit
    return max(1, int(n_bytes))


def memory_limit() -> int | None:
    """Return the bytes that a fit may take, or None if the user gave no limit.

    The limit is that of :func:`limited_memory`, or else that of the environment variable
    ``GRAMLESS_MEMORY_LIMIT``. ``InputError`` is raised if the variable is not a number of bytes.
    """
    text = os.environ.get(VARIABLE)
    if _fit_limit.get() is not None or not text:
        return _fit_limit.get()
    try:
        return parse_bytes(text)
    except InputError as error:
        raise InputError(f"{VARIABLE}: {error}") from error


@contextmanager
def limited_memory(n_bytes: int | None) -> Iterator[None]:
    """Limit the fit of a kernel estimator in this thread to ``n_bytes``.

    With None, the limit of an enclosing :func:`limited_memory` stays.
    """
    limit_token = _fit_limit.set(_fit_limit.get() if n_bytes is None else n_bytes)
    share_token = _limit_share.set(_ARRAYS_SHARE)
    try:
        yield
    finally:
        _limit_share.reset(share_token)
        _fit_limit.reset(limit_token)


def given_memory() -> int | None:
    """Return the limit set by :func:`limited_memory`, or None."""
    return _fit_limit.get()


def release_freed_memory() -> None:
    """Return freed memory to the system if a user gave a limit and the C library is glibc.

    The allocator of glibc keeps memory that threads free: after some phases of a fit, twice as much
    as is in use.
    """
    if memory_limit() is not None:
        with suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)


def outgrows_memory(n_bytes: float) -> bool:
    """Return whether ``memory_budget`` is so small that an array of codes must go to the disk."""
    return _fit_limit.get() is not None and n_bytes > _CODES_SHARE * memory_budget()


def parse_bytes(size: object) -> int:
    """Return a number of bytes from a number or a text such as "4GB", "500 MB" or "1.5e9".

    Raises ``InputError`` unless there is at least one byte.

    Examples
    --------
    >>> parse_bytes("4GB"), parse_bytes("0.5 MB"), parse_bytes(1000)
    (4000000000, 500000, 1000)
    """
    number = as_float(size)
    if isinstance(size, str):
        match = re.fullmatch(r"([0-9._]+(?:e\+?[0-9]+)?)\s*([kmgt]?)(i?)b?", size.strip().lower())
        # "1.2.3" matches and is no number.
        with suppress(ValueError):
            thousand = 1024 if match and match[3] else 1000
            number = float(match[1]) * thousand ** _POWERS[match[2]] if match else number
    if not 1 <= number < 2.0**63:
        raise InputError(f'a number of bytes such as 4e9 or "4GB" is needed, got {size!r}.')
    return int(number)


def memory_for(needed: float) -> int:
    """Return :func:`memory_budget`, or 8 MB if this is enough and the user gave no limit.

    Reading the free memory takes a third of a millisecond, half of the time to predict one row.
    """
    is_little = needed <= _ALWAYS_FREE and memory_limit() is None
    return _ALWAYS_FREE if is_little else memory_budget()


def free_memory() -> int:
    """Return how many bytes can be allocated without swapping, at least 1.

    This is the minimum of the memory that the system reports as available, the rest of the control
    group's limit (in a container), and the rest of the process limits on address space and data
    (``ulimit -v``, ``ulimit -d``).
    """
    # Each source that works is better than the one before it. macOS has only the first.
    free = _FREE_IF_UNKNOWN
    with suppress(AttributeError, ValueError, OSError):
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    with suppress(AttributeError, ValueError, OSError):
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, StopIteration, ValueError):
        free = _available_memory()
    return max(min([free, *_free_in_cgroups(), *_free_in_process_limits()]), 1)


def check_memory(what: str, needed: float, remedy: str) -> None:
    """Raise ``InputError`` if more bytes are needed than :func:`memory_budget` allows.

    Parameters
    ----------
    what : str
        The start of the message, which names what needs memory: ``"Nystrom: 10 landmarks"``.
    needed : float
        Bytes.
    remedy : str
        The advice in the message, such as ``"lower n_components"``.
    """
    budget = memory_for(needed)
    if needed > budget:
        is_limited = memory_limit() is not None
        if _fit_limit.get() is not None:
            whole, more = "memory_budget", "raise memory_budget"
        elif is_limited:
            whole, more = VARIABLE, f"raise {VARIABLE}"
        else:
            whole, more = "the free memory", f"set the environment variable {VARIABLE}"
        part = "all" if is_limited and _limit_share.get() == 1.0 else "half"
        # 0.5 % more, because rounding to three digits must not fall below what is needed.
        enough = 1.005 * needed / _limit_share.get()
        raise InputError(
            f"{what} would need {_bytes_text(needed)} of memory, and {_bytes_text(budget)} may be "
            f"used, {part} of {whole}: {remedy}, or {more} to at least {_bytes_text(enough)}."
        )


def _bytes_text(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:,.3g} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:,.3g} MB"


if sys.platform == "win32":

    class _MemoryStatus(ctypes.Structure):
        """``MEMORYSTATUSEX`` of Windows."""

        _fields_: ClassVar = [
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((f"bytes_{k}", ctypes.c_ulonglong) for k in range(7)),
        ]

    def _available_memory() -> int:
        status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
        if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
            raise OSError("GlobalMemoryStatusEx failed")
        return int(status.bytes_1)
else:

    def _available_memory() -> int:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        available = next(line for line in lines if line.startswith("MemAvailable:"))
        return 1024 * int(available.split()[1])


def _free_in_cgroups() -> list[int]:
    """Return the bytes left in each control group of this process that has a limit."""
    free = []
    with suppress(OSError, ValueError):
        for line in _PROCESS_CGROUPS.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in _CGROUP_FILES:
                continue
            below_root, limit_file, use_file, cache_entry = _CGROUP_FILES[controllers]
            group = Path(path.lstrip("/"))
            # The limits of enclosing groups hold too.
            for part in (group, *group.parents):
                folder = _CGROUP_ROOT / below_root / part
                # A group without a limit has no such file, or the file holds "max".
                with suppress(OSError, ValueError):
                    limit = int((folder / limit_file).read_text(encoding="ascii"))
                    used = int((folder / use_file).read_text(encoding="ascii"))
                    entries = (folder / "memory.stat").read_text(encoding="ascii").split("\n")
                    # The system drops cached pages of files when memory runs short.
                    cached = sum(
                        int(entry.split()[1])
                        for entry in entries
                        if entry.startswith(f"{cache_entry} ")
                    )
                    free.append(max(limit - used + cached, 0))
    return free


def _free_in_process_limits() -> list[int]:
    """Return the bytes left by each limit of address space and data that is set."""
    try:
        import resource
    except ImportError:  # Windows
        return []
    # statm lists the address space first, and data with stack sixth.
    used = [0] * 6
    with suppress(AttributeError, OSError, ValueError):
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
        used = [int(n_pages) * os.sysconf("SC_PAGE_SIZE") for n_pages in pages]
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    pairs = zip(limits, (used[0], used[5]), strict=True)
    return [max(limit - use, 0) for limit, use in pairs if limit != resource.RLIM_INFINITY]
