"""How much model selection may take: grids that fit into memory, rows that choose, time left."""

from __future__ import annotations

import scipy.sparse as sp

from gramless.base.deadline import Deadline
from gramless.base.memory import memory_budget
from gramless.base.reporting import Reporter
from gramless.features.grids import bytes_of_grid
from gramless.model_selection.data import Data

LEAST_TO_GROW = 5
"""Rows without which no grids can be grown at all."""
LEAST_ROWS = 300
"""With fewer rows grids are drawn, not grown, unless asked for."""
MOST_COLUMNS = 256
"""With more inputs too: a few at a time say little."""
_ROWS_PER_OUTPUT = 30
"""With fewer rows a class or output too."""
_MOST_WORK, _LEAST_GROWN = 1 << 28, 192
"""Rows times outputs times grids; so many grids are grown whatever the rows."""
_BYTES_PER_CODE = 2
"""More a row and grid where bins are many."""
_MOST_TARGETS, _LEAST_SAMPLE = 1 << 20, 500
"""Rows times outputs of a sample, and rows whatever the outputs."""
_MOST_WIDTHS, _LEAST_DRAWN = 1 << 22, 16
"""Grids are drawn dozens of times in a search, with a width for each input: of thousands of inputs
fewer are drawn."""


class Budget:
    """The time and memory that a selection may take, and what they cut short.

    Parameters
    ----------
    shape : (n_rows, n_inputs)
    deadline : Deadline
    report : Reporter
    """

    def __init__(self, shape: tuple[int, int], deadline: Deadline, report: Reporter) -> None:
        self.shape, self.deadline, self.report = shape, deadline, report
        self.limits: list[str] = []

    def has_time(self, share: float, what: str) -> bool:
        """Tell whether less than a share of the time is spent; remember what it cut short."""
        if not self.deadline.beyond(share):
            return True
        self._note(f"time: {what} was cut short")
        return False

    def affordable(self, n_grids: int) -> int:
        """Return as many grids as there is memory for; remember if they are fewer."""
        most = affordable_grids(*self.shape, memory_budget())
        if n_grids > most:
            self._note(f"memory: {most} grids instead of {n_grids}")
        return min(n_grids, most)

    def _note(self, limit: str) -> None:
        if limit not in self.limits:
            self.limits.append(limit)
            self.report("limit", limit)


def can_grow(data: Data) -> bool:
    """Tell whether grids can be grown on these rows, and whether that may pay."""
    n_rows, n_inputs = data.rows.shape
    enough = n_rows >= max(LEAST_ROWS, _ROWS_PER_OUTPUT * data.n_outputs)
    return not sp.issparse(data.rows) and enough and n_inputs <= MOST_COLUMNS


def worth_growing(n_rows: int, n_outputs: int, most: int) -> int:
    """Return how many grids to grow at most.

    Examples
    --------
    >>> worth_growing(10_000, 1, 640), worth_growing(60_000, 20, 640)
    (640, 223)
    """
    return min(most, max(_MOST_WORK // (n_rows * n_outputs), _LEAST_GROWN))


def most_drawn(n_inputs: int) -> int:
    """Return how many random grids over so many inputs are worth drawing at most.

    Examples
    --------
    >>> most_drawn(300), most_drawn(30_000), most_drawn(1_000_000)
    (13981, 139, 16)
    """
    return max(_MOST_WIDTHS // n_inputs, _LEAST_DRAWN)


def sampled_rows(most: int, n_outputs: int) -> int:
    """Return how many rows choose what to fit to so many outputs, ``most`` unless these are many.

    Examples
    --------
    >>> sampled_rows(8000, 100), sampled_rows(8000, 1000), sampled_rows(8000, 10_000)
    (8000, 1048, 500)
    """
    return min(most, max(_MOST_TARGETS // n_outputs, _LEAST_SAMPLE))


def affordable_grids(n_rows: int, n_inputs: int, budget: int) -> int:
    """Return how many grids fit into so many bytes, at least one.

    Examples
    --------
    >>> affordable_grids(1_000_000, 10, budget=4_000_000_000)
    993
    """
    return max(1, budget // (_BYTES_PER_CODE * n_rows + bytes_of_grid(n_rows, n_inputs)))
