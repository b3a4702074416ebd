"""The peak memory of this process, as counted by the operating system."""

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
_POLL_SECONDS = 0.005  # Used if the system does not allow the peak to be reset.


def peak_memory() -> float:
    """Return the peak resident set size of this process in bytes, NaN if it is unknown.

    On Linux this is ``VmHWM``, which :func:`reset_peak` resets. The ``ru_maxrss`` of ``getrusage``
    would also include the memory that the parent had when it started this process.

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
    peak = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    # macOS counts bytes, other systems kilobytes.
    return peak if sys.platform == "darwin" else 1024.0 * peak


def reset_peak() -> None:
    """Reset the peak to the memory that the process has now.

    Raises
    ------
    OSError
        If the system has no peak that can be reset, or does not permit it.
    """
    _RESET.write_text("5", encoding="ascii")


def reset_and_read_peak() -> float:
    """Reset the peak and return the memory of this process in bytes."""
    reset_peak()
    return peak_memory()


class PeakMemory:
    """The peak memory of this process in bytes, above its memory at construction.

    On Linux this is the kernel's peak, reset at construction, or the maximum of frequent samples
    if resetting is forbidden. On other systems it is the growth of the peak of the process, which
    is too small if the process had more memory earlier; NaN if the system does not report it.

    Examples
    --------
    >>> peak = PeakMemory()
    >>> block = bytearray(b"1" * 50_000_000)
    >>> del block
    >>> peak.bytes() > 40_000_000
    True
    """

    def __init__(self) -> None:
        release_free_memory()
        self._read, self._reset = _reader_and_reset()
        self._reset()
        self._peak = 0.0
        self._baseline = self._read()

    def bytes(self) -> float:
        """Return the peak so far in bytes."""
        self._peak = max(self._peak, self._read() - self._baseline)
        return self._peak

    @contextmanager
    def ignoring(self) -> Iterator[None]:
        """Ignore memory that is allocated and freed inside the block."""
        self.bytes()
        try:
            yield
        finally:
            # Freed memory that stays in the heap of the process would count as used.
            release_free_memory()
            self._reset()


def release_free_memory() -> None:
    """Return freed memory to the system, so that it no longer counts for this process."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return


def _reader_and_reset() -> tuple[Callable[[], float], Callable[[], None]]:
    """Return functions that read the peak and that reset it to the current memory."""
    if not _STATUS.exists():
        return peak_memory, lambda: None
    try:
        reset_peak()
    except OSError:
        sampler = _Sampler()
        return sampler.read, sampler.reset
    return peak_memory, reset_peak


def _status(name: str) -> float:
    lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    return 1024.0 * int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


class _Sampler:
    """Samples the memory of this process from a background thread."""

    def __init__(self) -> None:
        self._peak = _status("VmRSS")
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        pause = threading.Event()
        while not pause.wait(_POLL_SECONDS):
            self._peak = max(self._peak, _status("VmRSS"))

    def read(self) -> float:
        self._peak = max(self._peak, _status("VmRSS"))
        return self._peak

    def reset(self) -> None:
        self._peak = _status("VmRSS")
