"""Seconds that a trainer spends, by phase; time in which others work is not counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StopWatch:
    """The clock that trainers are given.

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
