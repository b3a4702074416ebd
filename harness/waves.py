"""A smooth regression problem of any size, cheap enough for scaling benchmarks."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from gramless.base.random import stream
from gramless.datasets.generators import Floats, make_table

MAX_RELEVANT = 12


def make_regression_like(
    n_rows: int,
    n_columns: int,
    *,
    seed: int = 0,
    noise: float = 0.1,
    dtype: DTypeLike = np.float32,
    n_jobs: int | None = None,
) -> tuple[Floats, Floats]:
    """Generate a smooth regression problem from waves in columns and in pairs of columns.

    The inputs are uniform on [0, 1). Each of the first 12 columns contributes a sine wave, and each
    neighbouring pair of them the product of its two waves; later columns are irrelevant. Without
    noise the target has mean 0 and variance 1.

    Parameters
    ----------
    n_rows, n_columns : int
        Shape of the table.
    seed : int, default=0
        Seed of all that is drawn.
    noise : float, default=0.1
        Standard deviation of the normal noise added to the target.
    dtype : float32 or float64, default=float32
        Type of X and y.
    n_jobs : int, default=None
        Number of threads; the numbers do not depend on it.

    Returns
    -------
    X : ndarray of shape (n_rows, n_columns)
    y : ndarray of shape (n_rows,)

    Notes
    -----
    About 5 nanoseconds per cell and thread. Memory holds the result and one block of rows per
    thread. A longer table begins with the rows of a shorter one, and X does not depend on
    ``noise``.

    Examples
    --------
    >>> X, y = make_regression_like(1000, 5, seed=1)
    >>> X.shape, y.dtype, bool((X[:10] == make_regression_like(10, 5, seed=1)[0]).all())
    ((1000, 5), dtype('float32'), True)
    """
    n_relevant = min(n_columns, MAX_RELEVANT)
    rng = stream(seed, "waves")
    frequency = rng.uniform(1.0, 2.5, MAX_RELEVANT) * np.pi
    shift = rng.uniform(0.0, 2.0 * np.pi, MAX_RELEVANT)
    end = frequency + shift
    mean = (np.cos(shift) - np.cos(end)) / frequency
    square = 0.5 - (np.sin(2 * end) - np.sin(2 * shift)) / (4 * frequency)
    spread = np.sqrt(square - mean**2)
    # Waves of mean 0 and variance 1 and the products of two are all uncorrelated.
    scale = 1.0 / np.sqrt(2 * n_relevant - 1)

    def target(rows: Floats) -> Floats:
        total = np.zeros(len(rows), dtype=rows.dtype)
        previous: Floats | None = None
        # Python floats leave float32 arrays float32.
        for j in range(n_relevant):
            wave = np.sin(rows[:, j] * float(frequency[j]) + float(shift[j]))
            wave = (wave - float(mean[j])) / float(spread[j])
            total += wave if previous is None else wave + wave * previous
            previous = wave
        return total * float(scale)

    return make_table(n_rows, n_columns, seed, noise, dtype, n_jobs, target)
