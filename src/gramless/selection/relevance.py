"""The relevance of each input, measured by how much predictions change with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gramless.base.numeric import clip_infinities
from gramless.base.random import stream
from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray
from gramless.features.base import DifferentiableMap, FeatureMap
from gramless.matrices.base import Vector

_BLOCK_ROWS = 256
# A finite sample exaggerates differences of relevance, so their ratio is limited and shrunk.
_MIN_RELATIVE_RELEVANCE, _SHRINKING_POWER = 0.05, 0.75


def learned_relevance(
    feature_map: FeatureMap,
    weights: Vector,
    rows: AnyArray,
    steps: NDArray[np.float64],
    categorical: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Return the root mean squared change of predictions when one input changes.

    For differentiable features, the relevance is based on the diagonal of the average gradient
    outer product, and takes one gradient per row. Other features use finite differences with the
    given ``steps``, and take the features of ``2 * n_features * n_rows`` rows. Categorical inputs
    of either kind of features change to the categories of other rows.

    Parameters
    ----------
    rows : array (n_rows, n_features)
        A sample of the rows.
    steps : array (n_features,)
        The change of each input, infinite if the features ignore it.

    Returns
    -------
    array (n_features,)
        Root mean squared changes, floored at 1/20 of the largest, scaled to root mean square 1,
        then raised to the power 3/4. All ones if no input changes the predictions.
    """
    is_category = np.zeros(len(steps), bool) if categorical is None else categorical
    if isinstance(feature_map, DifferentiableMap):
        squared_changes = _squared_derivatives(feature_map, weights, rows, steps)
        inputs = np.flatnonzero(is_category)
    else:
        squared_changes = np.zeros(len(steps))
        inputs = np.flatnonzero(is_category | np.isfinite(steps))
    squared_changes[inputs] = _squared_differences(
        feature_map, weights, rows, steps, is_category, inputs
    )
    rms_change = np.sqrt(squared_changes)
    if not rms_change.max() > 0:
        return np.ones(len(steps))
    rms_change = np.maximum(rms_change, _MIN_RELATIVE_RELEVANCE * rms_change.max())
    return (rms_change / np.sqrt(np.mean(rms_change**2))) ** _SHRINKING_POWER


def _squared_derivatives(
    feature_map: DifferentiableMap, weights: Vector, rows: AnyArray, steps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the expected squared changes for a step up and a step down of each input.

    To first order, each of the two is the mean squared product of derivative and step.
    """
    squares, points = np.zeros(len(steps)), np.asarray(rows, np.float64)
    used = np.where(np.isfinite(steps), steps, 0.0)
    # Scaling by a power of two is exact, and avoids overflow in squares of huge steps.
    scale = np.exp2(np.minimum(np.floor(np.log2(np.where(used > 0, used, 1.0))), 1023.0))
    for a, b in row_blocks(len(rows), _BLOCK_ROWS):
        gradients = feature_map.gradients(points[a:b], weights)
        scaled = gradients.reshape(b - a, len(steps), -1) * scale[:, None]
        squares += (scaled**2).sum(axis=(0, 2))
    n_numbers = len(rows) * (1 if weights.ndim == 1 else weights.shape[1])
    # The factor 2 counts the step up and the step down, as _squared_differences does.
    return 2.0 * (used / scale) ** 2 * squares / n_numbers


def _squared_differences(
    feature_map: FeatureMap,
    weights: Vector,
    rows: AnyArray,
    steps: NDArray[np.float64],
    is_category: NDArray[np.bool_],
    inputs: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Return the sum of the mean squared changes for a step up and a step down of each input.

    Categorical inputs take the categories of the rows in a random order and its reverse instead.
    """
    before = feature_map.rows_matrix(rows).matvec(weights)
    changed = np.array(rows, np.float64)
    order = stream(0, "rows of other categories").permutation(len(rows))
    squared_changes = np.zeros(len(inputs))
    for k, j in enumerate(inputs):
        column = changed[:, j].copy()
        with np.errstate(over="ignore"):
            others = clip_infinities(np.array([column + steps[j], column - steps[j]]))
        if is_category[j]:
            others = column[[order, order[::-1]]]
        for other in others:
            changed[:, j] = other
            after = feature_map.rows_matrix(changed).matvec(weights)
            squared_changes[k] += float(np.mean((after - before) ** 2))
        changed[:, j] = column
    return squared_changes
