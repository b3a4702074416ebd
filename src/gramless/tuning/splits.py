"""Rows held back to judge a choice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gramless.base.random import stream

Split = tuple[NDArray[np.intp], NDArray[np.intp]]

_VALIDATION_SHARE = 0.25
_FOLDS = 4
_ENOUGH_FOR_ONE_SPLIT = 4000


def holdout_splits(n_rows: int, size: int, seed: int) -> list[Split]:
    """Draw rows without replacement and cut them into training and validation parts.

    Parameters
    ----------
    n_rows : int
        Rows there are.
    size : int
        Rows to draw, at most ``n_rows``.
    seed : int

    Returns
    -------
    list of (training rows, validation rows)
        One split, a quarter held back, from 4,000 drawn rows on; four folds of
        the drawn rows below, where a quarter would say too little.

    Examples
    --------
    >>> [(len(a), len(b)) for a, b in holdout_splits(100_000, 8000, seed=0)]
    [(6000, 2000)]
    >>> [(len(a), len(b)) for a, b in holdout_splits(400, 8000, seed=0)]
    [(300, 100), (300, 100), (300, 100), (300, 100)]
    """
    drawn = stream(seed, "holdout").permutation(n_rows)[:size]
    folds = np.array_split(drawn, _FOLDS)
    n_splits = 1 if len(drawn) >= _ENOUGH_FOR_ONE_SPLIT else _FOLDS
    return [
        (np.sort(np.concatenate(folds[:k] + folds[k + 1 :])), np.sort(folds[k]))
        for k in range(n_splits)
    ]
