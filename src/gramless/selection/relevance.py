"""The relevance of each input, measured by the change of predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gramless.base.numeric import in_range
from gramless.base.random import stream
from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray
from gramless.features.base import DifferentiableMap, FeatureMap
from gramless.matrices.base import Vector

_BLOCK_ROWS = 256
# A finite sample exaggerates differences of relevance, so they are limited and shrunk.
_MIN_RELATIVE_RELEVANCE, _SHRINKING_POWER = 0.05, 0.75


def learned_relevance(
    feature_map: FeatureMap,
    weights: Vector,
    rows: AnyArray,
    steps: NDArray[np.float64],
    categorical: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Return the root mean squared change of predictions when one input changes.

    For differentiable features this is the diagonal of the average gradient outer product, and
    takes one gradient per row. Other features use finite differences, with steps of the size of
    bins, and take the features of ``2 * n_features * n_rows`` rows. A category changes to the
    category of another row.

    Parameters
    ----------
    rows : array (n_rows, n_features)
        A sample of the rows.
    steps : array (n_features,)
        The change of each input, infinite if the features ignore it.

    Returns
    -------
    array (n_features,)
        Changes with root mean square 1, at least a twentieth of the largest, to the power 3/4.
    """
    is_category = np.zeros(len(steps), bool) if categorical is None else categorical
    if isinstance(feature_map, DifferentiableMap):
        change = _squared_derivatives(feature_map, weights, rows, steps)
        inputs = np.flatnonzero(is_category)
    else:
        change, inputs = np.zeros(len(steps)), np.flatnonzero(is_category | np.isfinite(steps))
    change[inputs] = _squared_differences(feature_map, weights, rows, steps, is_category, inputs)
    size = np.sqrt(change)
    if not size.max() > 0:
        return np.ones(len(steps))
    size = np.maximum(size, _MIN_RELATIVE_RELEVANCE * size.max())
    return (size / np.sqrt(np.mean(size**2))) ** _SHRINKING_POWER


def _squared_derivatives(
    feature_map: DifferentiableMap, weights: Vector, rows: AnyArray, steps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return twice the mean squared product of derivative and step for each input."""
    change, points = np.zeros(len(steps)), np.asarray(rows, np.float64)
    used = np.where(np.isfinite(steps), steps, 0.0)
    # Scaling by a power of two is exact, and avoids overflow in squares of huge steps.
    size = np.exp2(np.minimum(np.floor(np.log2(np.where(used > 0, used, 1.0))), 1023.0))
    for a, b in row_blocks(len(rows), _BLOCK_ROWS):
        slopes = feature_map.gradients(points[a:b], weights)
        scaled = slopes.reshape(b - a, len(steps), -1) * size[:, None]
        change += (scaled**2).sum(axis=(0, 2))
    n_numbers = len(rows) * (1 if weights.ndim == 1 else weights.shape[1])
    return 2.0 * (used / size) ** 2 * change / n_numbers


def _squared_differences(
    feature_map: FeatureMap,
    weights: Vector,
    rows: AnyArray,
    steps: NDArray[np.float64],
    is_category: NDArray[np.bool_],
    inputs: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Return the sum of the mean squared changes for a step up and a step down of each input."""
    before = feature_map.rows_matrix(rows).matvec(weights)
    changed = np.array(rows, np.float64)
    order = stream(0, "rows of other categories").permutation(len(rows))
    change = np.zeros(len(inputs))
    for k, j in enumerate(inputs):
        column = changed[:, j].copy()
        with np.errstate(over="ignore"):
            others = in_range(np.array([column + steps[j], column - steps[j]]))
        if is_category[j]:
            others = column[[order, order[::-1]]]
        for other in others:
            changed[:, j] = other
            after = feature_map.rows_matrix(changed).matvec(weights)
            change[k] += float(np.mean((after - before) ** 2))
        changed[:, j] = column
    return change
