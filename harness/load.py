"""How busy other programs keep the machine while something is measured."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STATISTICS = Path("/proc/stat")
_IDLE = slice(3, 5)  # the columns "idle" and "iowait"
_N_TIMES = 7  # the columns after these are of guests and other machines, or counted twice


class OtherPrograms:
    """The cores that other programs have kept busy since this object was made.

    Examples
    --------
    >>> others = OtherPrograms()
    >>> others.cores() >= 0.0 or not _STATISTICS.exists()
    True
    """

    def __init__(self) -> None:
        self._since, self._before = time.monotonic(), self._seconds()

    def cores(self) -> float:
        """Return their mean number, or NaN if the system does not have these statistics.

        This process, and the processes that it has started and waited for, do not count.
        """
        elapsed = time.monotonic() - self._since
        # max(NaN, 0) is NaN in this order only.
        return max((self._seconds() - self._before) / elapsed, 0.0)

    def _seconds(self) -> float:
        """Return the busy seconds of all cores since the machine's start, without this process."""
        try:
            times = [float(word) for word in _STATISTICS.read_text().split("\n", 1)[0].split()[1:]]
        except OSError:
            return float("nan")
        busy = sum(times[:_N_TIMES]) - sum(times[_IDLE])
        return busy / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])
