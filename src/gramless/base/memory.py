"""How much memory there is to use."""

from __future__ import annotations

import os
from pathlib import Path

_SHARE = 0.5
_UNKNOWN = 4 << 30


def memory_budget() -> int:
    """Return bytes that large arrays may take together: half of what is free.

    Examples
    --------
    >>> memory_budget() > 0
    True
    """
    return int(_SHARE * free_memory())


def free_memory() -> int:
    """Return the bytes that can be taken without swapping, at least 1.

    Examples
    --------
    >>> free_memory() > 0
    True
    """
    try:
        free = _available()
    except (OSError, StopIteration, ValueError):
        free = _pages()
    return max(free, 1)


def _available() -> int:
    """Return what Linux says can be used without swapping."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])


def _pages() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN
