"""How busy other programs keep the machine while something is measured."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STATISTICS = Path("/proc/stat")
_IDLE = slice(3, 5)
"""Of the times since the machine's start: nothing to do, and waiting for a disk."""
_AT_WORK = 7
"""Times that are this machine's own; what follows is other machines', or counted before."""


class OtherPrograms:
    """Counts the cores that other programs keep busy, from when it is made.

    Examples
    --------
    >>> others = OtherPrograms()
    >>> others.cores() >= 0.0 or not _STATISTICS.exists()
    True
    """

    def __init__(self) -> None:
        self._since, self._before = time.monotonic(), self._seconds()

    def cores(self) -> float:
        """Return how many they were on average; NaN where the system does not tell.

        Of this process and those that it has started and seen the end of, nothing is counted.
        """
        elapsed = time.monotonic() - self._since
        # In this order NaN stays.
        return max((self._seconds() - self._before) / elapsed, 0.0)

    def _seconds(self) -> float:
        """Return seconds of all cores since the machine's start, but not this process's."""
        try:
            times = [float(word) for word in _STATISTICS.read_text().split("\n", 1)[0].split()[1:]]
        except OSError:
            return float("nan")
        busy = sum(times[:_AT_WORK]) - sum(times[_IDLE])
        return busy / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])
