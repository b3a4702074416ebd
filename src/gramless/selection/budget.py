"""The time and memory of model selection, and how many rows and grids they allow."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from gramless.base.formatting import format_bytes
from gramless.base.memory import (
    check_memory,
    large_array_budget,
    large_array_budget_for,
    should_store_codes,
    user_memory_limit,
)
from gramless.base.progress import Deadline, Reporter
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.codes import bytes_of_codes, bytes_of_grid
from gramless.matrices.stored import StoredBinnedMatrix
from gramless.preprocessing.rows import Rows
from gramless.selection.config import SearchConfig
from gramless.selection.data import Data
from gramless.solvers.objective import BYTES_PER_WEIGHT

GROWTH_SHARE = 0.4  # growth stops after this fraction of the time budget
MIN_GROWTH_ROWS = 5  # with fewer rows, no grids can be grown at all
# Grids are either drawn at random or grown, which means chosen one by one to lower the loss. Unless
# the user asks for grown grids, they are drawn if one of the following limits is not met.
MIN_ROWS, MIN_ROWS_OF_CLASSES = 10, 60  # for regression, and for classification
_ROWS_PER_OUTPUT = 5  # minimum number of rows per class or output
MAX_COLUMNS = 4096  # maximum number of inputs, because each grid stores a width for every input
_NARROW = 256  # inputs; tables this narrow have a higher throughput
# Growth stops at this many rows times outputs times grids, and at this many grids per row, but not
# below the minimum number of grids. More grids for few rows would take half as long again, and
# lower the error by less than 1 %.
_MAX_WORK, _MIN_GROWN, _GRIDS_A_ROW = 1 << 28, 192, 0.75

# Bytes per row and grid (more if there are many bins), and per row and output in a solve.
_BYTES_PER_CODE, _BYTES_A_RESPONSE = 2, 80
# Bytes that are counted only if the user gave a memory limit: per bin, because tables of keys are
# enlarged and copied, and per row, for its target, response and position in orders.
_BYTES_A_BIN, _BYTES_A_ROW = 48, 48
# Bytes per row of growth: a row is scaled in two ways and to standard deviations, and two models
# keep predictions and derivatives. Memory must suffice for a minimum number of rows.
_GROWTH_BYTES_AN_INPUT, _GROWTH_BYTES_AN_OUTPUT, _MIN_AFFORDABLE_ROWS = 48, 48, 200
# If memory or time is short, validation rows are at most this fraction of the rows of growth.
_VALIDATION_SHARE = 0.25
# Bytes per number of dense features, and per number of the scaled rows, which are copied.
_FEATURE_BYTES, _TRIAL_BYTES_A_CELL = 4, 24
_SECONDS_A_DENSE_NUMBER = 4e-8  # upper bound, per number of dense features and output
_WIDE_BYTES_A_CELL = 10  # wide tables are copied whole when they are split and scaled
# Asking the system for free memory takes a third of a millisecond. Up to the number of columns that
# had room the last time, divided by this divisor, it is not asked again.
_CERTAIN_DIVISOR = 8
# A sample has at most this many rows times outputs, but not fewer than the minimum of rows.
_MAX_TARGETS, _MIN_SAMPLE = 1 << 20, 500
# A search draws grids dozens of times, and each grid has a width per input. Therefore grids times
# inputs are limited, but the number of grids has a minimum.
_MAX_WIDTHS, _MIN_DRAWN = 1 << 22, 16

# Speeds that any machine reaches: rows times outputs that a fit handles in a second, and rows times
# inputs of narrow and of wide tables.
_NUMBERS_A_SECOND, _CELLS_A_SECOND, _WIDE_CELLS_A_SECOND = 600_000, 5_000_000, 1_800_000
# Rows times outputs times grids that are allowed per second of the time budget, and the minimum
# number of grids. Solving that many takes a third of a second.
_PRODUCTS_A_SECOND, _MIN_IN_TIME = 20_000_000, 16
# Rows times outputs per second of the time budget. A round of growth, a trial of a search, and
# learning a calibration then take less than a tenth of a second.
_GROWN_A_SECOND, _SEARCHED_A_SECOND, _CALIBRATED_A_SECOND = 300_000, 25_000, 50_000


@dataclass(frozen=True)
class Cost:
    seconds: float = 0.0
    n_bytes: float = 0.0


class Budget:
    """The time and memory that a selection may take.

    ``limits`` are messages that say what was cut.

    ``shape`` is that of the rows that can be fitted in time, out of ``n_given`` rows.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        deadline: Deadline,
        report: Reporter,
        n_outputs: int = 1,
        n_given: int | None = None,
    ) -> None:
        self.shape, self.deadline, self.report = shape, deadline, report
        self.n_outputs = n_outputs
        self.limits: list[str] = []
        self._surely_fit = 0
        if n_given is not None and n_given > shape[0]:
            self._note(f"time: {shape[0]} of {n_given} rows")

    def has_time(self, share: float, what: str, seconds: float = 0.0) -> bool:
        """Return whether ``seconds`` are left of a share of the time; add a limit if not."""
        if self.deadline.seconds_left(share) >= seconds:
            return True
        self._note(f"time: {what} was cut short")
        return False

    def has_memory(self, n_bytes: float, what: str) -> bool:
        """Return whether ``n_bytes`` may be allocated; add a limit if not."""
        if n_bytes <= large_array_budget_for(n_bytes):
            return True
        self._note(f"memory: {what} was left out")
        return False

    def allows(self, what: str, cost: Cost, share: float) -> bool:
        """Return whether a trial fits into memory and a share of the time; add a limit if not."""
        return self.has_memory(cost.n_bytes, what) and self.has_time(share, what, cost.seconds)

    def cost_of_dense_features(self, n_numbers: int, width: int) -> Cost:
        """Return the cost of a trial of ``n_numbers`` dense features in single precision.

        The trial copies the scaled rows, which have ``width`` columns.
        """
        n_bytes = _TRIAL_BYTES_A_CELL * self.shape[0] * width + _FEATURE_BYTES * n_numbers
        return Cost(_SECONDS_A_DENSE_NUMBER * n_numbers * self.n_outputs, n_bytes)

    def most_columns(self) -> int:
        """Return the largest number of columns whose weights fit into memory, for all outputs.

        Raise ``InputError`` if the responses of several outputs alone would take too much.
        """
        n_responses, bytes_left = self.shape[0] * self.n_outputs, large_array_budget()
        if self.n_outputs > 1:
            check_memory(
                f"A fit of {self.n_outputs:,} outputs of {self.shape[0]:,} rows",
                _BYTES_A_RESPONSE * n_responses,
                "fit fewer rows, outputs or classes at once",
            )
            bytes_left -= _BYTES_A_RESPONSE * n_responses
        bytes_per_column = BYTES_PER_WEIGHT * self.n_outputs
        if user_memory_limit() is not None:
            bytes_per_column += _BYTES_A_BIN
        return max(1, bytes_left // bytes_per_column)

    def fits(self, n_columns: int) -> bool:
        """Return whether the weights of ``n_columns`` fit into memory; add a limit if not."""
        if n_columns <= self._surely_fit:
            return True
        most = self.most_columns()
        self._surely_fit = most // _CERTAIN_DIVISOR
        if n_columns <= most:
            return True
        self._note(f"memory: fewer grids, so that the weights of {self.n_outputs} outputs fit")
        return False

    def rows_to_search(self, n_grids: int) -> int:
        """Return how many rows may be used to search settings; add a limit if fewer than all.

        All rows may be used unless the user gave a memory limit.
        """
        n_rows = self.shape[0]
        if user_memory_limit() is None:
            return n_rows
        # With many inputs, every row occupies a separate bin in each grid.
        most = max(self.most_columns() // n_grids, _MIN_SAMPLE)
        if most < n_rows:
            self._note(f"memory: settings searched on at most {most} rows")
        return min(n_rows, most)

    def note_disk(self, matrix: FeatureMatrix) -> None:
        """Add a limit if the codes of a matrix are on disk."""
        if isinstance(matrix, StoredBinnedMatrix):
            self._note(f"memory: codes of {format_bytes(matrix.nbytes)} on the disk")

    def affordable(self, n_grids: int, cost: float = 1.0) -> int:
        """Return how many of ``n_grids`` memory and time allow; add a limit if fewer.

        ``cost`` is the time of a grid as a multiple of that of a grown one.
        """
        on_disk = should_store_codes(bytes_of_codes(self.shape[0], n_grids))
        most = affordable_grids(
            0 if on_disk else self.shape[0], self.shape[1], large_array_budget()
        )
        if n_grids > most:
            self._note(f"memory: {most} grids instead of {n_grids}")
        n_grids = min(n_grids, most)
        if self.deadline.seconds is None:
            return n_grids
        products = _PRODUCTS_A_SECOND * self.deadline.seconds
        most = max(_MIN_IN_TIME, int(products / (cost * self.shape[0] * self.n_outputs)))
        if n_grids > most:
            self._note(f"time: at most {most} grids")
        return min(n_grids, most)

    def within(self, config: SearchConfig) -> SearchConfig:
        """Return the configuration with as many rows of growth as time and memory allow."""
        (n_rows, n_inputs), rows = self.shape, config.growth_rows
        bytes_per_row = _GROWTH_BYTES_AN_INPUT * n_inputs + _BYTES_PER_CODE * config.most_grids
        bytes_per_row += _GROWTH_BYTES_AN_OUTPUT * self.n_outputs
        needed = min(n_rows, rows + config.validation_rows) * bytes_per_row
        if needed > (budget := large_array_budget_for(needed)):
            check_memory(
                f"Growth of grids over {n_inputs:,} inputs",
                _MIN_AFFORDABLE_ROWS * bytes_per_row,
                "give fewer columns",
            )
            rows = int(budget / ((1.0 + _VALIDATION_SHARE) * bytes_per_row))
            self._note(f"memory: grids grown on {rows} rows")
        if self.deadline.seconds is not None:
            most = int(_GROWN_A_SECOND * self.deadline.seconds / self.n_outputs)
            rows = min(rows, max(most, _MIN_SAMPLE))
        if rows == config.growth_rows:
            return config
        validation_rows = min(config.validation_rows, max(1, int(_VALIDATION_SHARE * rows)))
        return replace(config, growth_rows=rows, validation_rows=validation_rows)

    def calibration_rows(self, n_rows: int) -> slice:
        """Return the validation rows, evenly spaced, from which the errors are learned."""
        if self.deadline.seconds is None:
            return slice(None)
        most = max(_MIN_SAMPLE, int(_CALIBRATED_A_SECOND * self.deadline.seconds / self.n_outputs))
        return slice(None, None, max(1, -(-n_rows // most)))

    def _note(self, limit: str) -> None:
        if limit not in self.limits:
            self.limits.append(limit)
            self.report("limit", limit)


def rows_in_time(rows: Rows, n_outputs: int, seconds: float | None) -> int:
    """Return how many rows can be fitted in ``seconds``; None means all rows.

    The result is at least 500, or all rows if there are fewer.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.zeros((20_000, 40))
    >>> [rows_in_time(rows, k, seconds=2.0) for k in (1, 100)], rows_in_time(rows, 100, None)
    ([20000, 12000], 20000)
    """
    n_rows = rows.shape[0]
    if seconds is None:
        return n_rows
    n_cells = max(rows.nnz if sp.issparse(rows) else rows.size, 1)
    cells_a_second = _CELLS_A_SECOND if rows.shape[1] <= _NARROW else _WIDE_CELLS_A_SECOND
    shares = (
        _NUMBERS_A_SECOND * seconds / (n_rows * n_outputs),
        cells_a_second * seconds / n_cells,
    )
    return min(n_rows, max(int(min(shares) * n_rows), _MIN_SAMPLE))


def check_table(rows: Rows) -> None:
    """Raise ``InputError`` if the user's memory limit is too low for these rows.

    Dense rows in memory are counted only if they have more than 256 inputs.
    """
    n_rows, n_inputs = rows.shape
    if user_memory_limit() is None:
        return
    check_memory(f"A fit of {n_rows:,} rows", _BYTES_A_ROW * n_rows, "fit fewer rows")
    if isinstance(rows, np.ndarray) and n_inputs > _NARROW:
        check_memory(
            f"A table of {n_rows:,} rows and {n_inputs:,} columns",
            _WIDE_BYTES_A_CELL * n_rows * n_inputs,
            "give fewer columns or rows",
        )


def can_grow(data: Data, of_classes: bool) -> bool:
    """Return whether grids can be grown on these rows, and whether that may pay."""
    n_rows, n_inputs = data.rows.shape
    least = MIN_ROWS_OF_CLASSES if of_classes else MIN_ROWS
    enough = n_rows >= max(least, _ROWS_PER_OUTPUT * data.n_outputs)
    return not sp.issparse(data.rows) and enough and n_inputs <= MAX_COLUMNS


def max_grown_grids(n_rows: int, n_outputs: int, most: int) -> int:
    """Return the largest number of grids that are worth growing, at most ``most``.

    Examples
    --------
    >>> [max_grown_grids(*shape, 640) for shape in ((10_000, 1), (60_000, 20), (400, 1))]
    [640, 223, 300]
    """
    of_work, of_rows = _MAX_WORK // (n_rows * n_outputs), int(_GRIDS_A_ROW * n_rows)
    return min(most, max(min(of_work, of_rows), _MIN_GROWN))


def most_drawn(n_inputs: int) -> int:
    """Return how many random grids over ``n_inputs`` are worth drawing at most.

    Examples
    --------
    >>> most_drawn(300), most_drawn(30_000), most_drawn(1_000_000)
    (13981, 139, 16)
    """
    return max(_MAX_WIDTHS // n_inputs, _MIN_DRAWN)


def sampled_rows(most: int, n_outputs: int, seconds: float | None = None) -> int:
    """Return how many rows are sampled to search settings.

    There are at most ``most`` rows, and fewer for many outputs or few ``seconds``, but at least 500
    if ``most`` allows.

    Examples
    --------
    >>> sampled_rows(8000, 100), sampled_rows(8000, 1000), sampled_rows(8000, 10_000)
    (8000, 1048, 500)
    """
    targets = _MAX_TARGETS
    if seconds is not None:
        targets = min(targets, int(_SEARCHED_A_SECOND * seconds))
    return min(most, max(targets // n_outputs, _MIN_SAMPLE))


def affordable_grids(n_rows: int, n_inputs: int, budget: int) -> int:
    """Return how many grids fit into ``budget`` bytes, at least one.

    Examples
    --------
    >>> affordable_grids(1_000_000, 10, budget=4_000_000_000)
    993
    """
    return max(1, budget // (_BYTES_PER_CODE * n_rows + bytes_of_grid(n_rows, n_inputs)))
