"""The display of a run of steps, and its orderly end by Ctrl-C."""

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

from gramless.base.formatting import duration
from gramless.cli.report import Report, facts, number

if TYPE_CHECKING:
    from gramless.streaming.doubly_stochastic import Step
    from gramless.streaming.training_loop import Evaluation

_RECENT = 20  # number of steps over which speed is measured
_SILENCE = 30.0  # seconds without validation after which a line is due


class Interruption:
    """Ctrl-C as a request to stop after the step.

    It ends the process at once if it comes twice, or before steps have ``begun``.
    """

    def __init__(self) -> None:
        self.begun = self.requested = False

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Take Ctrl-C as a request in the meantime; where it is ignored it stays so."""
        # Shells have background runs ignore it: it is meant for what runs in front.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            yield
            return
        before = signal.signal(signal.SIGINT, self._take)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _take(self, signum: int, frame: FrameType | None) -> None:
        # Nothing is printed here: the signal may come in the middle of another line.
        if self.requested or not self.begun:
            raise KeyboardInterrupt
        self.requested = True


class RunDisplay:
    """Shows the steps of a run, as a panel on a terminal and as lines elsewhere.

    ``error`` describes an error on held-back rows in words.
    """

    def __init__(
        self,
        report: Report,
        max_steps: int,
        time_budget: float | None,
        error: Callable[[float], str],
        interruption: Interruption,
    ) -> None:
        self._report, self._max_steps, self._error = report, max_steps, error
        self._time_budget, self._interruption = time_budget, interruption
        self._started = self._last_line = time.perf_counter()
        self._pace = Pace()
        self._held = ""
        self._facts: dict[str, str] = {}
        self._step = 0
        self._spinner = Spinner("dots", "preparing: scale of the inputs, bandwidth ...")

    def shown(self) -> contextlib.AbstractContextManager[object]:
        """Show the run on a terminal, while it lasts."""
        if not self._has_panel:
            return contextlib.nullcontext()
        console: Console = self._report.err
        return Live(
            get_renderable=self._panel, console=console, transient=True, refresh_per_second=4
        )

    @property
    def _has_panel(self) -> bool:
        # A dumb terminal shows no panel: lines say the same there.
        console: Console = self._report.err
        return console.is_terminal and not console.is_dumb_terminal

    def after(self, step: Step, evaluation: Evaluation | None, batch_rows: int) -> None:
        """Show a step and, if there was one, its validation on held-back rows."""
        now = time.perf_counter()
        self._pace.add(step.n_blocks, now)
        self._step = step.iteration
        if evaluation is not None:
            self._held = f"loss {number(evaluation.loss)}, {self._error(evaluation.error)}"
        speed, left = "not known yet", "not known yet"
        if (pace := self._pace.steps_a_second()) is not None:
            seconds = self._pace.left(self._max_steps - step.iteration)
            if self._time_budget is not None:
                seconds = min(seconds, max(0.0, self._started + self._time_budget - now))
            # Three digits of the speed mean something.
            speed = f"{float(f'{batch_rows * pace:.3g}'):,.0f} rows/s"
            left = f"up to {duration(seconds)}"
        self._facts = {
            "blocks": f"{step.n_blocks:,}",
            "batch loss": number(step.loss),
            "held back": self._held or "not judged yet",
            "speed": speed,
            "left": left,
        }
        is_due = evaluation is not None or now - self._last_line > _SILENCE
        if is_due and not self._has_panel:
            self._last_line = now
            line = "; ".join(f"{name}: {value}" for name, value in self._facts.items())
            self._report.note(f"step {step.iteration:,} of {self._max_steps:,}; {line}")

    def _panel(self) -> RenderableType:
        if not self._facts:
            return self._spinner
        bar = Table.grid(padding=(0, 1))
        done = ProgressBar(total=self._max_steps, completed=self._step, width=40)
        bar.add_row("training", done, f"{self._step:,} of {self._max_steps:,} steps")
        notice = "interrupted: this step is finished and all saved; Ctrl-C again ends at once"
        return Group(bar, facts(self._facts), *([notice] if self._interruption.requested else []))


class Pace:
    """The cost of recent steps by the number of blocks, and so the cost of the rest.

    Examples
    --------
    >>> pace = Pace()
    >>> for blocks, now in [(1, 0.0), (2, 2.0), (3, 5.0)]:
    ...     pace.add(blocks, now)
    >>> pace.left(2), pace.steps_a_second()
    (9.0, 0.4)
    """

    def __init__(self) -> None:
        self._blocks: list[int] = []
        self._ends: list[float] = []

    def add(self, n_blocks: int, now: float) -> None:
        """Take note of a step that has ended, and of the blocks it leaves."""
        self._blocks.append(n_blocks)
        self._ends.append(now)

    def steps_a_second(self) -> float | None:
        """Return how fast the last steps were; None before the second."""
        # When the first step began is not known.
        steps = min(_RECENT, len(self._ends) - 1)
        return steps / (self._ends[-1] - self._ends[-1 - steps]) if steps > 0 else None

    def left(self, steps: int) -> float:
        """Return the seconds of so many steps more, if blocks go on as in the later half."""
        recent, middle = min(_RECENT, len(self._ends) - 1), (len(self._ends) - 1) // 2
        of_block = (self._ends[-1] - self._ends[-1 - recent]) / sum(self._blocks[-recent:])
        last = self._blocks[-1]
        growth = (last - self._blocks[middle]) / (len(self._blocks) - 1 - middle)
        return of_block * (steps * last + growth * steps * (steps + 1) / 2)
