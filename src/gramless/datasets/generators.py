"""A synthetic regression problem of any size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.base.threads import map_blocks, row_blocks

Floats = NDArray[np.floating]

# Each block of rows has its own random stream: this number is part of the definition of the data.
BLOCK_ROWS = 65_536


def friedman1(
    n_rows: int,
    n_columns: int = 10,
    *,
    seed: int = 0,
    noise: float = 1.0,
    dtype: DTypeLike = np.float64,
    n_jobs: int | None = None,
) -> tuple[Floats, Floats]:
    """Generate Friedman's first regression problem, in which only five columns have an effect.

    ``y = 10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5 + noise``, with inputs uniform on [0,
    1).

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_columns : int, default=10
        At least 5.
    seed : int, default=0
        Seed of inputs and noise.
    noise : float, default=1.0
        Standard deviation of the normal noise.
    dtype : float32 or float64, default=float64
        Type of the inputs and of the targets.
    n_jobs : int, default=None
        Number of threads; the result does not depend on it.

    Returns
    -------
    X : ndarray of shape (n_rows, n_columns)
    y : ndarray of shape (n_rows,)

    References
    ----------
    J. Friedman, Multivariate adaptive regression splines, Annals of Statistics
    19 (1991), section 4.3.

    Examples
    --------
    >>> X, y = friedman1(100, seed=3, noise=0.0)
    >>> X.shape, bool(0 < y.min() < y.max() < 30)
    ((100, 10), True)
    """
    if n_columns < 5:
        raise InputError(f"friedman1 needs at least 5 columns, got {n_columns}.")

    def target(rows: Floats) -> Floats:
        total: Floats = 10 * np.sin(np.pi * rows[:, 0] * rows[:, 1])
        total += 20 * (rows[:, 2] - 0.5) ** 2 + 10 * rows[:, 3] + 5 * rows[:, 4]
        return total

    return make_table(n_rows, n_columns, seed, noise, dtype, n_jobs, target)


def make_table(
    n_rows: int,
    n_columns: int,
    seed: int,
    noise: float,
    dtype: DTypeLike,
    n_jobs: int | None,
    target: Callable[[Floats], Floats],
) -> tuple[Floats, Floats]:
    """Return uniform inputs and their targets with normal noise."""
    precision = np.dtype(dtype).type
    if n_rows < 1 or n_columns < 1 or not noise >= 0:
        raise InputError(
            "n_rows and n_columns must be at least 1 and noise not negative, got "
            f"{n_rows}, {n_columns} and {noise}."
        )
    if precision not in (np.float32, np.float64):
        raise InputError(f"dtype must be float32 or float64, got {precision.__name__}.")
    X, y = np.empty((n_rows, n_columns), precision), np.empty(n_rows, precision)

    def generate_block(start: int, stop: int) -> None:
        block = start // BLOCK_ROWS
        stream(seed, "rows", block).random(out=X[start:stop], dtype=precision)
        y[start:stop] = target(X[start:stop])
        if noise > 0:
            normal = stream(seed, "noise", block).standard_normal(stop - start, dtype=precision)
            y[start:stop] += precision(noise) * normal

    map_blocks(generate_block, row_blocks(n_rows, BLOCK_ROWS), n_jobs)
    return X, y
