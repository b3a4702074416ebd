"""Seconds: by phase, and medians of runs that take turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median

import numpy as np

from gramless.base.threads import available_cpus, map_blocks

SETTLING_SECONDS = 0.15


class StopWatch:
    """A clock by phases that can stand still.

    Phases may hold others, whose seconds count to both, and may be open while the clock
    stands still.

    Parameters
    ----------
    now : callable, default=time.perf_counter
        Returns seconds since whenever.

    Examples
    --------
    >>> seconds = iter([0.0, 1.0, 3.0, 10.0, 14.0, 15.0])
    >>> watch = StopWatch(lambda: next(seconds))
    >>> with watch.phase("solve"), watch.stopped():
    ...     pass
    >>> watch.seconds()
    {'total': 8.0, 'solve': 6.0}
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._lost = 0.0
        self._stopped_at: float | None = None
        self._done: dict[str, float] = {}
        self._open: dict[str, float] = {}
        self._started = now()

    def total(self) -> float:
        """Return the seconds counted so far, all phases and what lies between."""
        at = self._now() if self._stopped_at is None else self._stopped_at
        return at - self._started - self._lost

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens inside to this phase as well.

        Parameters
        ----------
        name : str
            A phase inside one of the same name adds nothing.
        """
        if name in self._open:
            yield
            return
        self._open[name] = self.total()
        try:
            yield
        finally:
            self._done[name] = self._done.get(name, 0.0) + self.total() - self._open.pop(name)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let the clock stand still meanwhile."""
        self._stopped_at = self._now()
        try:
            yield
        finally:
            self._lost += self._now() - self._stopped_at
            self._stopped_at = None

    def seconds(self) -> dict[str, float]:
        """Return the total and the phases so far, those that are open included."""
        total = self.total()
        phases = dict(self._done)
        for name, began in self._open.items():
            phases[name] = phases.get(name, 0.0) + total - began
        return {"total": total, **phases}


def interleaved(
    runs: Mapping[str, Callable[[], object]],
    repeats: int,
    *,
    warm_up: bool = True,
    before: Callable[[Callable[[], object]], object] | None = None,
) -> dict[str, float]:
    """Return the median seconds of each run; they take turns, in alternating order.

    Time differs from one second to the next on a shared machine: taking turns, a slow second
    hits all of them.

    Parameters
    ----------
    runs : mapping of str to callable
    repeats : int
    warm_up : bool, default=True
        Whether each is called once before, compilation included, outside the clock.
    before : callable, default=None
        Given each run when its turn comes, outside the clock.

    Examples
    --------
    >>> seconds = interleaved({"short": lambda: None, "long": lambda: time.sleep(0.01)}, 3)
    >>> seconds["short"] < 0.01 <= seconds["long"]
    True
    """
    if warm_up:
        for run in runs.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(repeats):
        for name in list(runs)[:: -1 if repeat % 2 else 1]:
            if before:
                before(runs[name])
            started = time.perf_counter()
            runs[name]()
            seconds[name].append(time.perf_counter() - started)
    return {name: median(own) for name, own in seconds.items()}


def settle(seconds: float = SETTLING_SECONDS) -> None:
    """Keep every processor busy for a while.

    Idle threads of BLAS and OpenMP wait for more work at full speed, a tenth of a second long, and
    take it from whatever comes next. While one merely sleeps, a shared machine goes elsewhere, and
    takes as long to come back.
    """
    until = time.perf_counter() + seconds

    def work(number: float) -> None:
        numbers = np.full(4096, number)
        while time.perf_counter() < until:
            np.sqrt(numbers, out=numbers)

    map_blocks(work, [(float(k),) for k in range(available_cpus())], None)


def settled(run: Callable[[], object]) -> None:
    """Settle, and call what is timed next: caches and free memory are as in a loop again."""
    settle()
    run()
