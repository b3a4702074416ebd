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
# Fraction of the limit available to large arrays; the rest covers row blocks, samples and solver
# state.
_ARRAYS_SHARE = 0.5
# An array of codes that needs more than this fraction of the large-array budget goes to the disk.
_CODES_SHARE = 0.4
_FREE_IF_UNKNOWN = 4 << 30  # bytes, if the system reports no memory size
_ALWAYS_FREE = 8 << 20  # requests up to this many bytes are granted without a look at free memory
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
# Both are set by limit_fit_memory: the memory_budget parameter of the running fit, and the fraction
# of the user's limit that large arrays may take.
_fit_limit: ContextVar[int | None] = ContextVar("memory", default=None)
_limit_share: ContextVar[float] = ContextVar("share", default=1.0)
_PROCESS_CGROUPS, _CGROUP_ROOT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
# Control groups of version 2 and version 1, by their name in /proc/self/cgroup: the folder below
# the root, the files of the limit and the use, and the entry of memory.stat for the file cache.
_CGROUP_FILES = {
    "": ("", "memory.max", "memory.current", "inactive_file"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def large_array_budget() -> int:
    """Return how many bytes all large arrays together may take.

    If the user gave no limit (:func:`user_memory_limit`), this is half of :func:`free_memory`. If
    the user gave one, it is half of the limit inside :func:`limit_fit_memory`, because fits of
    kernel estimators need the other half for other data, and the whole limit elsewhere.
    """
    limit = user_memory_limit()
    n_bytes = _ARRAYS_SHARE * free_memory() if limit is None else _limit_share.get() * limit
    return max(1, int(n_bytes))


def user_memory_limit() -> int | None:
    """Return the number of bytes that a fit may take, or None if the user gave no limit.

    The limit is that of :func:`limit_fit_memory`, or else that of the environment variable
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
def limit_fit_memory(n_bytes: int | None) -> Iterator[None]:
    """Limit the memory of a kernel estimator's fit in this thread to ``n_bytes``.

    With None, the limit of an enclosing :func:`limit_fit_memory` stays. In either case, large
    arrays may take half of a user's limit.
    """
    limit_token = _fit_limit.set(_fit_limit.get() if n_bytes is None else n_bytes)
    share_token = _limit_share.set(_ARRAYS_SHARE)
    try:
        yield
    finally:
        _limit_share.reset(share_token)
        _fit_limit.reset(limit_token)


def fit_memory_limit() -> int | None:
    return _fit_limit.get()


def release_freed_memory() -> None:
    """Return freed memory to the system if a user gave a limit and the C library is glibc.

    The allocator of glibc keeps memory that threads have freed. After some phases of a fit, it
    keeps twice as much as is in use.
    """
    if user_memory_limit() is not None:
        with suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)


def should_store_codes(n_bytes: float) -> bool:
    """Return whether an array of codes of this size should be written to disk.

    The result is always False without a ``memory_budget`` parameter.
    """
    return _fit_limit.get() is not None and n_bytes > _CODES_SHARE * large_array_budget()


def parse_bytes(size: object) -> int:
    """Return a number of bytes from a number or a text such as "4GB", "500 MB" or "1.5e9".

    Raises ``InputError`` if the text cannot be parsed, or if the number is below 1, at least
    2**63 or NaN.

    Examples
    --------
    >>> parse_bytes("4GB"), parse_bytes("0.5 MB"), parse_bytes(1000)
    (4000000000, 500000, 1000)
    """
    number = as_float(size)
    if isinstance(size, str):
        match = re.fullmatch(r"([0-9._]+(?:e\+?[0-9]+)?)\s*([kmgt]?)(i?)b?", size.strip().lower())
        # The pattern also matches text such as "1.2.3", which float() rejects.
        with suppress(ValueError):
            thousand = 1024 if match and match[3] else 1000
            number = float(match[1]) * thousand ** _POWERS[match[2]] if match else number
    if not 1 <= number < 2.0**63:
        raise InputError(f'a number of bytes such as 4e9 or "4GB" is needed, got {size!r}.')
    return int(number)


def large_array_budget_for(needed: float) -> int:
    """Return :func:`large_array_budget`, but skip the look at free memory for small requests.

    If the user gave no limit and ``needed`` is at most 8 MB, the result is 8 MB. Reading the free
    memory takes a third of a millisecond, which is half of the time to predict one row.
    """
    is_small = needed <= _ALWAYS_FREE and user_memory_limit() is None
    return _ALWAYS_FREE if is_small else large_array_budget()


def free_memory() -> int:
    """Return how many bytes can be allocated without swapping, at least 1.

    This is the minimum of three amounts: the memory that the system reports as available, what is
    left of the limits of the control groups (in a container), and what is left of the process
    limits on address space and data (``ulimit -v``, ``ulimit -d``). If the system does not report
    available memory, the first amount is half of the physical memory, or 4 GiB if that is unknown.
    """
    # Each source is more accurate than the one before it. macOS has only the first.
    free = _FREE_IF_UNKNOWN
    with suppress(AttributeError, ValueError, OSError):
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    with suppress(AttributeError, ValueError, OSError):
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, StopIteration, ValueError):
        free = _available_memory()
    return max(min([free, *_free_in_cgroups(), *_free_in_process_limits()]), 1)


def check_memory(what: str, needed: float, remedy: str) -> None:
    """Raise ``InputError`` if more bytes are needed than :func:`large_array_budget` allows.

    Parameters
    ----------
    what : str
        The start of the message, which names what needs memory: ``"Nystrom: 10 landmarks"``.
    needed : float
        Bytes.
    remedy : str
        The advice in the message, such as ``"lower n_components"``.
    """
    budget = large_array_budget_for(needed)
    if needed > budget:
        is_limited = user_memory_limit() is not None
        if _fit_limit.get() is not None:
            whole, more = "memory_budget", "raise memory_budget"
        elif is_limited:
            whole, more = VARIABLE, f"raise {VARIABLE}"
        else:
            whole, more = "the free memory", f"set the environment variable {VARIABLE}"
        part = "all" if is_limited and _limit_share.get() == 1.0 else "half"
        # 0.5 % is added, because rounding to three digits must not fall below what is needed.
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
    """Return the bytes left below each limit that is set on address space or data."""
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
