"""The progress display of gramless stream, and its clean stop on Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table

from gramless.base.formatting import format_duration
from gramless.cli.report import Report, facts_table, short_number

if TYPE_CHECKING:
    from gramless.streaming.doubly_stochastic import Step
    from gramless.streaming.training_loop import Evaluation

_N_RECENT = 20  # number of recent steps over which the speed is measured
_MAX_SILENCE = 30.0  # print a line at least this often (seconds), even without an evaluation


class Interruption:
    """A request by Ctrl-C to stop after the current step.

    A second Ctrl-C, or one before ``has_begun`` is set at the first step, stops the
    process at once.
    """

    def __init__(self) -> None:
        self.has_begun = self.is_requested = False

    @contextlib.contextmanager
    def catch_interrupts(self) -> Iterator[None]:
        """Treat Ctrl-C as a request inside the context, unless the process ignores it."""
        # Shells make background jobs ignore Ctrl-C, which is meant for the foreground job.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            yield
            return
        before = signal.signal(signal.SIGINT, self._request)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _request(self, signum: int, frame: FrameType | None) -> None:
        # Nothing is printed here, because the signal may come in the middle of another line.
        if self.is_requested or not self.has_begun:
            raise KeyboardInterrupt
        self.is_requested = True


class RunDisplay:
    """Shows the steps of a run, as a panel on a terminal and as lines elsewhere.

    ``format_error`` formats a validation error for display.
    """

    def __init__(
        self,
        report: Report,
        max_steps: int,
        time_budget: float | None,
        format_error: Callable[[float], str],
        interruption: Interruption,
    ) -> None:
        self._report, self._max_steps, self._format_error = report, max_steps, format_error
        self._time_budget, self._interruption = time_budget, interruption
        self._started = self._last_line = time.perf_counter()
        self._pace = Pace()
        self._evaluation = ""
        self._facts: dict[str, str] = {}
        self._step = 0
        self._spinner = Spinner("dots", "preparing: scale of the inputs, bandwidth ...")

    def open_panel(self) -> contextlib.AbstractContextManager[object]:
        if not self._has_panel:
            return contextlib.nullcontext()
        console: Console = self._report.err
        return Live(
            get_renderable=self._panel, console=console, transient=True, refresh_per_second=4
        )

    @property
    def _has_panel(self) -> bool:
        # A dumb terminal cannot redraw a panel; it gets lines instead.
        console: Console = self._report.err
        return console.is_terminal and not console.is_dumb_terminal

    def update(self, step: Step, evaluation: Evaluation | None, batch_rows: int) -> None:
        now = time.perf_counter()
        self._pace.add(step.n_blocks, now)
        self._step = step.iteration
        if evaluation is not None:
            self._evaluation = (
                f"loss {short_number(evaluation.loss)}, {self._format_error(evaluation.error)}"
            )
        speed = remaining = "not known yet"
        if (steps_per_second := self._pace.steps_per_second()) is not None:
            seconds = self._pace.seconds_left(self._max_steps - step.iteration)
            if self._time_budget is not None:
                seconds = min(seconds, max(0.0, self._started + self._time_budget - now))
            # More than three digits would suggest a precision that the speed does not have.
            speed = f"{float(f'{batch_rows * steps_per_second:.3g}'):,.0f} rows/s"
            remaining = f"up to {format_duration(seconds)}"
        self._facts = {
            "blocks": f"{step.n_blocks:,}",
            "batch loss": short_number(step.loss),
            "validation": self._evaluation or "no evaluation yet",
            "speed": speed,
            "left": remaining,
        }
        is_due = evaluation is not None or now - self._last_line > _MAX_SILENCE
        if is_due and not self._has_panel:
            self._last_line = now
            line = "; ".join(f"{name}: {value}" for name, value in self._facts.items())
            self._report.log(f"step {step.iteration:,} of {self._max_steps:,}; {line}")

    def _panel(self) -> RenderableType:
        if not self._facts:
            return self._spinner
        bar = Table.grid(padding=(0, 1))
        done = ProgressBar(total=self._max_steps, completed=self._step, width=40)
        bar.add_row("training", done, f"{self._step:,} of {self._max_steps:,} steps")
        notice = "interrupted: saving after this step; press Ctrl-C again to stop at once"
        return Group(
            bar, facts_table(self._facts), *([notice] if self._interruption.is_requested else [])
        )


class Pace:
    """Estimates the remaining time from the recent time per feature block.

    Examples
    --------
    >>> pace = Pace()
    >>> for blocks, now in [(1, 0.0), (2, 2.0), (3, 5.0)]:
    ...     pace.add(blocks, now)
    >>> pace.seconds_left(2), pace.steps_per_second()
    (9.0, 0.4)
    """

    def __init__(self) -> None:
        self._blocks: list[int] = []
        self._ends: list[float] = []

    def add(self, n_blocks: int, now: float) -> None:
        self._blocks.append(n_blocks)
        self._ends.append(now)

    def steps_per_second(self) -> float | None:
        """Return the speed of the last steps; None before the second step."""
        # The start of the first step is unknown.
        steps = min(_N_RECENT, len(self._ends) - 1)
        return steps / (self._ends[-1] - self._ends[-1 - steps]) if steps > 0 else None

    def seconds_left(self, steps: int) -> float:
        """Estimate the seconds for ``steps`` more steps, after at least two steps.

        The number of blocks is assumed to keep growing as over the second half of the steps so far.
        """
        # The time of a step is proportional to the number of blocks, because it uses all of them.
        recent, middle = min(_N_RECENT, len(self._ends) - 1), (len(self._ends) - 1) // 2
        seconds_per_block = (self._ends[-1] - self._ends[-1 - recent]) / sum(self._blocks[-recent:])
        last = self._blocks[-1]
        growth = (last - self._blocks[middle]) / (len(self._blocks) - 1 - middle)
        return seconds_per_block * (steps * last + growth * steps * (steps + 1) / 2)
