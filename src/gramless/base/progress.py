"""Progress of a fit: records for callbacks and the logger, the time budget, and early ends."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from gramless.base.errors import InputError

if TYPE_CHECKING:  # the help of the command line imports this module, and should not import NumPy
    from gramless.base.types import FloatArray

LOGGER = logging.getLogger("gramless")


@dataclass(frozen=True)
class Progress:
    """One step of a fit, as passed to callbacks.

    Attributes
    ----------
    stage : str
        "search", "alpha", "size", "growth", "validation", "solve", "final fit" and others.
    message : str
        One line of text.
    details : mapping
        The content of the message as plain data.
    number : int
        Number of the step within its stage, from 1.
    seconds : float
        Time since the start of the fit.
    """

    stage: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)
    number: int = 1
    seconds: float = 0.0

    @property
    def score(self) -> float | None:
        """Score on validation rows, lower is better; None if the step has no score."""
        return self.details.get("score")


# If a callback returns True, the stage of the record ends as soon as possible.
ProgressCallback = Callable[[Progress], object]
Callbacks = ProgressCallback | Sequence[ProgressCallback] | None


class Reporter:
    """Sends the progress of one fit to its callbacks and the logger.

    Each fit passes its own reporter down the calls, so that concurrent fits do not mix their
    callbacks. Every step also goes to the logger ``gramless``, at level INFO or, from
    :meth:`detail`, DEBUG. ``record.progress`` is the step and ``record.owner`` the name of the
    estimator. With ``verbose``, steps of level INFO are written to standard error if no handler of
    the logger receives them.

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
        functions = () if callbacks is None else callbacks
        functions = (functions,) if callable(functions) else tuple(functions)
        for callback in functions:
            if not callable(callback):
                raise InputError(
                    f"{owner}: callbacks must be functions of one record, such as "
                    f"lambda progress: print(progress.message); got {callback!r}."
                )
        self.callbacks: tuple[ProgressCallback, ...] = functions
        self.ended: set[str] = set()
        self._numbers: Counter[str] = Counter()
        self._started = time.perf_counter()
        self._stream: logging.Handler | None = None
        if verbose:
            # A handler of the shared logger would also show the lines of other fits.
            self._stream = logging.StreamHandler(sys.stderr)
            self._stream.setFormatter(logging.Formatter("[%(owner)s] %(message)s"))

    @property
    def has_listeners(self) -> bool:
        """Return whether callbacks or the logger would receive a step from :meth:`detail`."""
        return bool(self.callbacks) or LOGGER.isEnabledFor(logging.DEBUG)

    def __call__(self, stage: str, message: str, /, **details: object) -> None:
        self._send(logging.INFO, stage, message, details)

    def detail(self, stage: str, message: str, /, **details: object) -> None:
        """Report one of many small steps, which the logger gets at level DEBUG."""
        self._send(logging.DEBUG, stage, message, details)

    def _send(self, level: int, stage: str, message: str, details: dict[str, object]) -> None:
        self._numbers[stage] += 1
        seconds = time.perf_counter() - self._started
        progress = Progress(stage, message, details, self._numbers[stage], seconds)
        extra = {"progress": progress, "owner": self.owner}
        record = LOGGER.makeRecord(LOGGER.name, level, __file__, 0, message, (), None, extra=extra)
        is_enabled = LOGGER.isEnabledFor(level)
        if is_enabled:
            LOGGER.handle(record)
        is_shown = is_enabled and LOGGER.hasHandlers()
        if self._stream is not None and level >= logging.INFO and not is_shown:
            self._stream.handle(record)
        # The list makes sure that all callbacks are called, even after one returned True.
        if any([callback(progress) is True for callback in self.callbacks]):
            self.ended.add(stage)


@dataclass(frozen=True)
class Deadline:
    """A time budget in seconds, counted from the creation of the object; None means no limit."""

    seconds: float | None = None
    started: float = field(default_factory=time.perf_counter)

    def is_past(self, share: float) -> bool:
        """Return whether more than this fraction of the budget is spent; False if no limit."""
        return self.seconds_left(share) < 0.0

    def seconds_left(self, share: float) -> float:
        """Return the seconds until this fraction of the budget is spent.

        They are negative after that time, and infinite if there is no limit.
        """
        if self.seconds is None:
            return inf
        return share * self.seconds - (time.perf_counter() - self.started)

    def watch(self, share: float) -> Watch | None:
        """Return a solver callback that stops at this fraction of the budget; None if no limit."""
        return None if self.seconds is None else Watch(lambda step: self.is_past(share))


@dataclass(frozen=True)
class Watch:
    """A solver callback that decides after each iteration whether to stop.

    The decision depends on the number of the iteration and, after iterations 1, 2, 4, 8 and so on,
    also on the weights. In other iterations solvers may pass None instead of the weights, because
    some solvers need a matrix product to compute them.

    Attributes
    ----------
    stops : callable
        Gets the number of each iteration; returns whether to stop.
    ends : callable, optional
        Gets the weights after iterations 2**k from ``first`` on; returns whether to stop.
    first : int, default=1
        The first iteration after which ``ends`` is called.
    """

    stops: Callable[[int], bool]
    ends: Callable[[Any], bool] | None = None
    first: int = 1

    def needs_weights(self, iteration: int) -> bool:
        # The bits of 2**k and 2**k - 1 are disjoint.
        is_due = iteration >= self.first and iteration & (iteration - 1) == 0
        return self.ends is not None and is_due

    def __call__(self, iteration: int, weights: FloatArray | None) -> bool:
        ends = self.ends if self.needs_weights(iteration) else None
        return self.stops(iteration) or (ends is not None and ends(weights))
