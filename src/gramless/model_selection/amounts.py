"""How many grids are worth their time, and fit into memory."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gramless.features.grids import bytes_of_grid
from gramless.model_selection.data import Data

LEAST_TO_GROW = 5
LEAST_ROWS = 1000
"""With fewer rows grids are drawn, not grown, unless asked for."""
_ROWS_AN_OUTPUT = 200
"""With fewer rows a class or output too."""
MOST_COLUMNS = 256
"""With more inputs too: a few at a time say little."""
MOST_GROWN, LEAST_GROWN = 960, 256
_WIDE_CODE_BYTES = 2
"""A row and grid more where bins are many."""
_MOST_TARGETS, _LEAST_SAMPLE = 1 << 20, 500
"""Rows times outputs of a sample, and rows whatever the outputs."""
_MOST_WIDTHS = 1 << 22
_LEAST_DRAWN = 16
"""Grids are drawn dozens of times in a search, with a width for each input: of thousands of inputs
fewer are drawn, but so many."""
_MOST_WORK = 1 << 27
"""Rows times outputs times grids of a kind, at most."""
_RANDOM_GRIDS = 256, 2048
"""That are tried beside grown ones, at least and at most."""


def can_grow(data: Data) -> bool:
    """Tell whether grids can be grown on these rows, and whether that may pay."""
    n_rows, n_inputs = data.rows.shape
    enough = n_rows >= max(LEAST_ROWS, _ROWS_AN_OUTPUT * data.n_outputs)
    return not sp.issparse(data.rows) and enough and n_inputs <= MOST_COLUMNS


def number_of_grids(n_rows: int, n_outputs: int) -> int:
    """Return how many grids to grow at most.

    Examples
    --------
    >>> number_of_grids(10_000, 1), number_of_grids(60_000, 10)
    (960, 256)
    """
    return int(np.clip(_MOST_WORK // (n_rows * n_outputs), LEAST_GROWN, MOST_GROWN))


def number_beside(n_rows: int, n_outputs: int) -> int:
    """Return how many random grids to try beside grown ones at most.

    Examples
    --------
    >>> number_beside(10_000, 1), number_beside(100_000, 2)
    (2048, 671)
    """
    return int(np.clip(_MOST_WORK // (n_rows * n_outputs), *_RANDOM_GRIDS))


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
    return max(1, budget // (_WIDE_CODE_BYTES * n_rows + bytes_of_grid(n_rows, n_inputs)))
