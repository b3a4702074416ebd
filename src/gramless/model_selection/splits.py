"""Rows held back: from the trials of a search, and from all choices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gramless.base.random import stream

Split = tuple[NDArray[np.intp], NDArray[np.intp]]

_VALIDATION_SHARE = 0.25
_FOLDS = 4
_ENOUGH_FOR_ONE_SPLIT = 4000

MOST_HELD_BACK = 20_000
_JUDGING_SHARE, _SMALL_SHARE = 0.2, 0.1
_ENOUGH_TO_JUDGE = 2000
_TURNS = 5
_ENOUGH_FOR_ONE_TURN = 500
_ENOUGH_TO_ALIGN = 256


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


def held_back_splits(n_rows: int, seed: int) -> list[Split]:
    """Cut rows into a part to fit and a part to judge: once, or in turns where they are few.

    Parameters
    ----------
    n_rows : int
    seed : int

    Returns
    -------
    list of (training rows, held-back rows)
        A fifth of up to 10,000 rows is held back, a tenth of many, at most 20,000; of
        fewer than 500 rows each once, in five turns.

    Examples
    --------
    >>> [(len(a), len(b)) for a, b in held_back_splits(5000, seed=0)]
    [(4000, 1000)]
    >>> [(len(a), len(b)) for a, b in held_back_splits(100, seed=0)]
    [(80, 20), (80, 20), (80, 20), (80, 20), (80, 20)]
    """
    order = stream(seed, "held back").permutation(n_rows)
    if n_rows >= _ENOUGH_FOR_ONE_TURN:
        few = min(_JUDGING_SHARE * n_rows, max(_ENOUGH_TO_JUDGE, _SMALL_SHARE * n_rows))
        parts = [order[: min(int(few), MOST_HELD_BACK)]]
    else:
        parts = np.array_split(order, _TURNS)
    return [_parted(n_rows, part) for part in parts if len(part) > 0]


def _parted(n_rows: int, part: NDArray[np.intp]) -> Split:
    """Return all other rows and those of the part, in order."""
    held_back = np.zeros(n_rows, bool)
    held_back[part] = True
    return np.flatnonzero(~held_back), np.flatnonzero(held_back)


def half_of(n_rows: int) -> int:
    """Return how many rows the first of two halves has.

    A multiple of four from 256 rows on: where the codes of the second half begin, loops that
    take four rows at once lose no time.

    Examples
    --------
    >>> half_of(7), half_of(1003)
    (3, 500)
    """
    return n_rows // 2 if n_rows < _ENOUGH_TO_ALIGN else n_rows // 8 * 4
