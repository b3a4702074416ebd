"""How busy other programs keep the machine during a measurement."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STATISTICS = Path("/proc/stat")
_IDLE = slice(3, 5)  # the columns "idle" and "iowait"
_N_TIMES = 7  # "steal" is time of other virtual machines; guest times are part of "user"


class OtherPrograms:
    """Measures how many cores other programs have kept busy since construction.

    Examples
    --------
    >>> others = OtherPrograms()
    >>> others.cores() >= 0.0 or not _STATISTICS.exists()
    True
    """

    def __init__(self) -> None:
        self._started, self._busy_at_start = time.monotonic(), self._busy_seconds()

    def cores(self) -> float:
        """Return the mean number of busy cores, or NaN if the system has no ``/proc/stat``.

        This process and the child processes that it has waited for do not count.
        """
        elapsed = time.monotonic() - self._started
        # max(NaN, 0) is NaN in this order only.
        return max((self._busy_seconds() - self._busy_at_start) / elapsed, 0.0)

    def _busy_seconds(self) -> float:
        """Return the busy seconds of all cores since boot, less those of this process."""
        try:
            times = [float(word) for word in _STATISTICS.read_text().split("\n", 1)[0].split()[1:]]
        except OSError:
            return float("nan")
        busy = sum(times[:_N_TIMES]) - sum(times[_IDLE])
        return busy / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])
