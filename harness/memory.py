"""The memory that a process takes at its peak, as the operating system counts it."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_PERIOD = 0.005
"""Seconds between two looks where the system keeps no peak that can be set back."""


def peak_memory() -> float:
    """Return the largest resident set of this process, in bytes; NaN where nothing tells.

    Linux counts in ``ru_maxrss`` also what the parent held when it started this process; its
    own peak does not, and starts again at :func:`reset_peak`.

    Examples
    --------
    >>> peak_memory() > 1e6
    True
    """
    if _STATUS.exists():
        return _status("VmHWM")
    try:
        import resource
    except ImportError:
        return float("nan")
    most = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return most if sys.platform == "darwin" else 1024.0 * most


def reset_peak() -> None:
    """Let the peak start again from what the process holds now.

    Raises
    ------
    OSError
        Where the system keeps no such peak, or forbids it.
    """
    _RESET.write_text("5", encoding="ascii")


def begun_memory() -> float:
    """Return the memory that a process has, from which its peak is measured from now on."""
    reset_peak()
    return peak_memory()


class PeakMemory:
    """Bytes of this process at their peak, above what it had when this was made.

    On Linux the kernel's own peak, set back at the start; where that is forbidden, the largest of
    many looks. Elsewhere the growth of the process's peak, which is too little if the
    process had more before; NaN where the system says nothing.

    Examples
    --------
    >>> peak = PeakMemory()
    >>> block = bytearray(b"1" * 50_000_000)
    >>> del block
    >>> peak.bytes() > 40_000_000
    True
    """

    def __init__(self) -> None:
        give_back()
        self._read, self._reset = _means()
        self._reset()
        self._most = 0.0
        self._before = self._read()

    def bytes(self) -> float:
        """Return the peak so far, whole bytes."""
        self._most = max(self._most, self._read() - self._before)
        return self._most

    @contextmanager
    def ignoring(self) -> Iterator[None]:
        """Leave out what is allocated and freed meanwhile."""
        self.bytes()
        try:
            yield
        finally:
            # Memory freed into a hole of the heap stays with the process, and would be counted.
            give_back()
            self._reset()


def give_back() -> None:
    """Return freed memory to the system, so that it is not counted as taken already."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return


def _means() -> tuple[Callable[[], float], Callable[[], None]]:
    """Return how the peak is read, and how it is set back to what is taken now."""
    if not _STATUS.exists():
        return peak_memory, lambda: None
    try:
        reset_peak()
    except OSError:
        watcher = _Watcher()
        return watcher.read, watcher.set_back
    return peak_memory, reset_peak


def _status(name: str) -> float:
    lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    return 1024.0 * int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


class _Watcher:
    """Looks at the memory again and again, from a thread of its own."""

    def __init__(self) -> None:
        self._most = _status("VmRSS")
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(_PERIOD):
            self._most = max(self._most, _status("VmRSS"))

    def read(self) -> float:
        self._most = max(self._most, _status("VmRSS"))
        return self._most

    def set_back(self) -> None:
        self._most = _status("VmRSS")
