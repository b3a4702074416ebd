"""A stopwatch with phases, and median times of functions that are called alternately."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median

import numpy as np

from gramless.base.threads import available_cpus, map_blocks

SETTLING_SECONDS = 0.15


class StopWatch:
    """A stopwatch that measures phases and can be paused.

    Phases can be nested; the time of an inner phase also counts for the outer one. The stopwatch
    can be paused inside a phase.

    Parameters
    ----------
    now : callable, default=time.perf_counter
        Returns the current time in seconds.

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
        self._paused_seconds = 0.0
        self._paused_at: float | None = None
        self._done: dict[str, float] = {}
        self._open: dict[str, float] = {}
        self._started = now()

    def total(self) -> float:
        """Return the seconds counted so far, inside and outside phases."""
        now = self._now() if self._paused_at is None else self._paused_at
        return now - self._started - self._paused_seconds

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time inside the block for this phase.

        Parameters
        ----------
        name : str
            A phase nested in one of the same name is ignored.
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
        """Pause the stopwatch inside the block."""
        self._paused_at = self._now()
        try:
            yield
        finally:
            self._paused_seconds += self._now() - self._paused_at
            self._paused_at = None

    def seconds(self) -> dict[str, float]:
        """Return the seconds so far: the total, and each phase, including open ones."""
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
    """Return the median seconds of each function, calling all of them in each repetition.

    The speed of a shared machine changes from one second to the next. Alternating calls, in
    reversed order in every second repetition, spread a slow moment over all functions.

    Parameters
    ----------
    runs : mapping of str to callable
    repeats : int
    warm_up : bool, default=True
        Whether to call each function once before timing, so that it is compiled.
    before : callable, default=None
        Called with each function right before that is timed.

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
    return {name: median(times) for name, times in seconds.items()}


def settle(seconds: float = SETTLING_SECONDS) -> None:
    """Keep every core busy for ``seconds``, so that timings do not depend on what ran before.

    Idle threads of BLAS and OpenMP spin for about a tenth of a second before they sleep, and slow
    down whatever runs next. Sleeping instead would let a shared machine schedule other work.
    """
    end = time.perf_counter() + seconds

    def work(number: float) -> None:
        numbers = np.full(4096, number)
        while time.perf_counter() < end:
            np.sqrt(numbers, out=numbers)

    map_blocks(work, [(float(k),) for k in range(available_cpus())], None)


def settled(run: Callable[[], object]) -> None:
    """Settle, then call a function once, so that caches and the heap are as in a loop of calls."""
    settle()
    run()
