"""Progress of long work: one record to a logger and a callback, or to standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

LOGGER = logging.getLogger("gramless")


@dataclass(frozen=True)
class Progress:
    """One step of long work, as told to callbacks."""

    stage: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)


ProgressCallback = Callable[[Progress], object]
"""Called with each record; what it returns is ignored."""


class Reporter:
    """Sends the progress of one fit to everyone who listens.

    Each fit has a reporter of its own and hands it down, so that fits which run at once
    never mix their callbacks. Every record also goes to the logger ``gramless`` at level
    INFO, as ``record.progress``; ``record.owner`` names the sender. With ``verbose``, records
    that no handler of the logger takes are written to standard error.

    Examples
    --------
    >>> report = Reporter("KernelRegressor", lambda progress: print(progress.message))
    >>> report("search", "alpha 1.0e-03 -> 0.05", alpha=1e-3, score=0.05)
    alpha 1.0e-03 -> 0.05
    """

    def __init__(
        self, owner: str = "", callback: ProgressCallback | None = None, verbose: bool = False
    ) -> None:
        self.owner, self.callback = owner, callback
        self._stream: logging.Handler | None = None
        if verbose:
            # Not a handler of the shared logger, which would show other fits' lines too.
            self._stream = logging.StreamHandler(sys.stderr)
            self._stream.setFormatter(logging.Formatter("[%(owner)s] %(message)s"))

    def __call__(self, stage: str, message: str, /, **details: object) -> None:
        """Report that a stage has come so far."""
        progress = Progress(stage, message, details)
        extra = {"progress": progress, "owner": self.owner}
        record = LOGGER.makeRecord(
            LOGGER.name, logging.INFO, __file__, 0, message, (), None, extra=extra
        )
        is_enabled = LOGGER.isEnabledFor(logging.INFO)
        if is_enabled:
            LOGGER.handle(record)
        if self._stream is not None and not (is_enabled and LOGGER.hasHandlers()):
            self._stream.handle(record)
        if self.callback is not None:
            self.callback(progress)
