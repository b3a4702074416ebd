"""How much each input moves the prediction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gramless.base.numeric import in_range
from gramless.base.random import stream
from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray
from gramless.features.base import DifferentiableMap, FeatureMap
from gramless.matrices.base import Vector

_ROWS_AT_ONCE = 256
_LEAST = 0.05
_POWER = 0.75


def learned_relevance(
    feature_map: FeatureMap,
    weights: Vector,
    rows: AnyArray,
    steps: NDArray[np.float64],
    categorical: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Return the root mean squared change of the prediction when one input moves.

    The diagonal of the average gradient outer product. Where the features have no
    derivatives, by finite differences: bins have no derivative, and those with a window jump at
    their edges, so the step is of the size of their widths. A category moves to that of another
    row. ``rows`` are a sample; ``steps`` (n_features,) say how far each input moves, infinite for
    one that the features ignore.

    The root mean square of what is returned is 1, to the power 3/4, none under a twentieth of the
    largest: a finite sample overstates the differences. Takes the features of
    ``2 * n_features * n_rows`` rows, or a gradient of each row.
    """
    told_apart = np.zeros(len(steps), bool) if categorical is None else categorical
    if isinstance(feature_map, DifferentiableMap):
        change = _by_gradients(feature_map, weights, rows, steps)
        moved = np.flatnonzero(told_apart)
    else:
        change, moved = np.zeros(len(steps)), np.flatnonzero(told_apart | np.isfinite(steps))
    change[moved] = _by_moving(feature_map, weights, rows, steps, told_apart, moved)
    size = np.sqrt(change)
    if not size.max() > 0:
        return np.ones(len(steps))
    size = np.maximum(size, _LEAST * size.max())
    return (size / np.sqrt(np.mean(size**2))) ** _POWER


def _by_gradients(
    feature_map: DifferentiableMap, weights: Vector, rows: AnyArray, steps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return twice the mean squared change along each input's derivative."""
    change, points = np.zeros(len(steps)), np.asarray(rows, np.float64)
    used = np.where(np.isfinite(steps), steps, 0.0)
    # Powers of two multiply without rounding: squares of huge steps and tiny slopes are no numbers.
    size = np.exp2(np.minimum(np.floor(np.log2(np.where(used > 0, used, 1.0))), 1023.0))
    for a, b in row_blocks(len(rows), _ROWS_AT_ONCE):
        slopes = feature_map.gradients(points[a:b], weights)
        scaled = slopes.reshape(b - a, len(steps), -1) * size[:, None]
        change += (scaled**2).sum(axis=(0, 2))
    n_numbers = len(rows) * (1 if weights.ndim == 1 else weights.shape[1])
    return 2.0 * (used / size) ** 2 * change / n_numbers


def _by_moving(
    feature_map: FeatureMap,
    weights: Vector,
    rows: AnyArray,
    steps: NDArray[np.float64],
    told_apart: NDArray[np.bool_],
    inputs: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Return the mean squared changes as some inputs move one way and the other, added up."""
    here = feature_map.rows_matrix(rows).matvec(weights)
    moved = np.array(rows, np.float64)
    order = stream(0, "rows of other categories").permutation(len(rows))
    change = np.zeros(len(inputs))
    for k, j in enumerate(inputs):
        column = moved[:, j].copy()
        with np.errstate(over="ignore"):
            others = in_range(np.array([column + steps[j], column - steps[j]]))
        if told_apart[j]:
            others = column[[order, order[::-1]]]
        for other in others:
            moved[:, j] = other
            there = feature_map.rows_matrix(moved).matvec(weights)
            change[k] += float(np.mean((there - here) ** 2))
        moved[:, j] = column
    return change
