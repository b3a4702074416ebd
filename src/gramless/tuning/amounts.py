"""How many grids are worth their time, and fit into memory."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gramless.tuning.data import Data

LEAST_TO_GROW = 5
LEAST_ROWS = 1000
"""With fewer rows grids are drawn, not grown, unless asked for."""
_ROWS_AN_OUTPUT = 200
"""With fewer rows a class or output too."""
MOST_COLUMNS = 256
"""With more inputs too: a few at a time say little."""
MOST_GROWN, LEAST_GROWN = 960, 256
_CODE_BYTES = 4
"""A row and grid at most."""
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


def affordable_grids(n_rows: int, budget: int) -> int:
    """Return how many grids' bin numbers fit into so many bytes, at least one.

    Examples
    --------
    >>> affordable_grids(1_000_000, budget=4_000_000_000)
    1000
    """
    return max(1, budget // (_CODE_BYTES * n_rows))
