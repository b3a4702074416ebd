"""What happens between two things that are timed."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from gramless.base.threads import available_cpus, map_blocks

SECONDS = 0.15


def settle(seconds: float = SECONDS) -> None:
    """Keep every processor busy for a while.

    Idle threads of BLAS and OpenMP wait for more work at full speed, a tenth of a second long, and
    take it from whatever comes next. While one merely sleeps, a shared machine goes elsewhere, and
    takes as long to come back.
    """
    until = perf_counter() + seconds

    def work(number: float) -> None:
        numbers = np.full(4096, number)
        while perf_counter() < until:
            np.sqrt(numbers, out=numbers)

    map_blocks(work, [(float(k),) for k in range(available_cpus())], None)


def settled(run: Callable[[], object]) -> None:
    """Settle, and call what is timed next: caches and free memory are as in a loop again."""
    settle()
    run()
