"""Progress of long work: one record to a logger and callbacks, or to standard error."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gramless.base.errors import InputError

LOGGER = logging.getLogger("gramless")


@dataclass(frozen=True)
class Progress:
    """One step of long work, as told to callbacks.

    Attributes
    ----------
    stage : str
        "search", "alpha", "size", "growth", "validation", "solve", "final fit" and others.
    message : str
        For people.
    details : mapping
        What the message tells, as plain data; the solver's record of an iteration.
    number : int
        Steps of this stage so far, from 1.
    seconds : float
        Since the work began.
    """

    stage: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)
    number: int = 1
    seconds: float = 0.0

    @property
    def score(self) -> float | None:
        """What the step scored on rows held back, less is better; None where it scored nothing."""
        return self.details.get("score")


ProgressCallback = Callable[[Progress], object]
"""Called with each record; where it returns True, the record's stage ends as soon as it can."""
Callbacks = ProgressCallback | Sequence[ProgressCallback] | None


class Reporter:
    """Sends the progress of one fit to everyone who listens.

    Each fit has a reporter of its own and hands it down, so that fits which run at once
    never mix their callbacks. Every record also goes to the logger ``gramless`` at level
    INFO, as ``record.progress``; ``record.owner`` names the sender. With ``verbose``, records
    that no handler of the logger takes are written to standard error.

    Examples
    --------
    >>> report = Reporter("KernelRegressor", [lambda progress: print(progress.message)])
    >>> report("search", "alpha 1.0e-03 -> 0.05", alpha=1e-3, score=0.05)
    alpha 1.0e-03 -> 0.05
    """

    def __init__(
        self,
        owner: str = "",
        callbacks: Callbacks = None,
        verbose: bool = False,
    ) -> None:
        self.owner = owner
        self.callbacks = _listed(owner, callbacks)
        self.ended: set[str] = set()
        self._numbers: Counter[str] = Counter()
        self._begun = time.perf_counter()
        self._stream: logging.Handler | None = None
        if verbose:
            # Not a handler of the shared logger, which would show other fits' lines too.
            self._stream = logging.StreamHandler(sys.stderr)
            self._stream.setFormatter(logging.Formatter("[%(owner)s] %(message)s"))

    @property
    def tells_details(self) -> bool:
        """Whether someone listens to :meth:`detail`."""
        return bool(self.callbacks) or LOGGER.isEnabledFor(logging.DEBUG)

    def __call__(self, stage: str, message: str, /, **details: object) -> None:
        """Report that a stage has come so far."""
        self._tell(logging.INFO, stage, message, details)

    def detail(self, stage: str, message: str, /, **details: object) -> None:
        """Report one of many small steps: to callbacks, and to the logger at level DEBUG."""
        self._tell(logging.DEBUG, stage, message, details)

    def _tell(self, level: int, stage: str, message: str, details: dict[str, object]) -> None:
        self._numbers[stage] += 1
        seconds = time.perf_counter() - self._begun
        progress = Progress(stage, message, details, self._numbers[stage], seconds)
        extra = {"progress": progress, "owner": self.owner}
        record = LOGGER.makeRecord(LOGGER.name, level, __file__, 0, message, (), None, extra=extra)
        is_enabled = LOGGER.isEnabledFor(level)
        if is_enabled:
            LOGGER.handle(record)
        taken = level < logging.INFO or (is_enabled and LOGGER.hasHandlers())
        if self._stream is not None and not taken:
            self._stream.handle(record)
        # All are told, also of a stage that one of them ends.
        if any([callback(progress) is True for callback in self.callbacks]):
            self.ended.add(stage)


def _listed(owner: str, callbacks: Callbacks) -> tuple[ProgressCallback, ...]:
    """Return callbacks as a tuple; refuse what cannot be called."""
    if callbacks is None:
        return ()
    found = (callbacks,) if callable(callbacks) else tuple(callbacks)
    for callback in found:
        if not callable(callback):
            raise InputError(
                f"{owner}: callbacks must be functions of one record, such as "
                f"lambda progress: print(progress.message); got {callback!r}."
            )
    return found
