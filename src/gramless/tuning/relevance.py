"""How much each input moves the prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.random import stream
from gramless.matrices.base import Vector

_LEAST = 0.05
_POWER = 0.75


def learned_relevance(
    feature_map: Any,
    weights: Vector,
    rows: NDArray[Any],
    steps: NDArray[np.float64],
    categorical: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Return the root mean squared change of the prediction when one input moves.

    The diagonal of the average gradient outer product, by finite differences:
    random bins have no derivative, so the step is of the size of their widths.
    A category moves to that of another row.

    Parameters
    ----------
    feature_map : feature map
        Fitted; ``rows_matrix(rows)`` gives its features.
    weights : array (D,) or (D, K)
    rows : array (n_rows, n_features)
        A sample of the rows.
    steps : array (n_features,)
        How far each input moves, up and down.
    categorical : array (n_features,) of bool, optional

    Returns
    -------
    array (n_features,)
        With root mean square 1, to the power 3/4, none under a twentieth of the
        largest: a finite sample overstates the differences.

    Notes
    -----
    Bins ``2 * n_features * n_rows`` rows.
    """
    here = feature_map.rows_matrix(rows).matvec(weights)
    moved = np.array(rows, np.float64)
    change = np.zeros(rows.shape[1])
    order = stream(0, "rows of other categories").permutation(len(rows))
    for j, step in enumerate(steps):
        column = moved[:, j].copy()
        others = (column + step, column - step)
        if categorical is not None and categorical[j]:
            others = (column[order], column[order[::-1]])
        for other in others:
            moved[:, j] = other
            there = feature_map.rows_matrix(moved).matvec(weights)
            change[j] += float(np.mean((there - here) ** 2))
        moved[:, j] = column
    size = np.sqrt(change)
    if not size.max() > 0:
        return np.ones(len(steps))
    size = np.maximum(size, _LEAST * size.max())
    return (size / np.sqrt(np.mean(size**2))) ** _POWER
