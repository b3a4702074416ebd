"""Shrinkage of predictions towards a constant where few rows show no clear gain over it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from gramless.base.types import FloatArray
from gramless.losses import OUTLIER_BOUND, Loss
from gramless.model_selection.alpha import Goal
from gramless.model_selection.search import Search
from gramless.model_selection.selected import SelectedModel, Shrinkage
from gramless.model_selection.splits import ROWS_OF_ONE_SPLIT

# One-sided. It is far below 5 % because the rows that are tested have chosen among some 50 models.
_LEVEL = 0.001
_NO_DOUBT = 0.05  # F is then 20 times its critical value
_LEAST_DEGREES = 0.5  # fewer say nothing, and their quantiles overflow
_FACTORS = np.linspace(0.0, 1.0, 21)


def shrink_to_constant(selected: SelectedModel, search: Search, goal: Goal) -> SelectedModel:
    """Return the model with factors that shrink its predictions towards the best constant.

    This is for regression with fewer than 300 rows and no given alpha; each row must have been held
    back once. How far predictions are shrunk depends on these rows, see :func:`shrinkage_factors`.
    So does how far beyond the range of an input they depend on it: by the length of that range if
    there is no doubt about the gain, less otherwise.
    """
    data, result, loss = search.data, selected.validation, selected.loss
    n_rows = data.rows.shape[0]
    if result is None or n_rows >= ROWS_OF_ONE_SPLIT or len(np.unique(result.rows)) < n_rows:
        return selected
    # Only regression has a free constant.
    if not data.intercept or search.space.alpha is not None:
        return selected
    weights = np.ones(n_rows) if data.sample_weight is None else data.sample_weight
    constants = np.zeros_like(data.targets)
    for training, others in search.splits():
        constants[others] = loss.initial_constant(data.targets[training], weights[training])
    rows = result.rows
    counts = None if data.count_unit is None else data.row_counts(rows)
    # Whole weights beside given folds count rows, which are as good as repeated.
    is_count = counts is not None and np.allclose(counts, np.rint(counts))
    n_effective = float(counts.sum()) if counts is not None and is_count else None
    held_back = result.raw, constants[rows], data.targets[rows], weights[rows]
    factors, doubts = shrinkage_factors(loss, *held_back, n_effective)
    doubt = float(np.max(doubts, where=factors > 0.0, initial=_NO_DOUBT))
    raw = constants[rows] + factors * (result.raw - constants[rows])
    score, own_loss = goal.scored(data, raw, rows)
    constant, scaler = loss.initial_constant(data.targets, weights), selected.scaler
    if isinstance(data.rows, np.ndarray):
        scaler = scaler.limited(data.rows, _NO_DOUBT / doubt)
    return replace(
        selected,
        scaler=scaler,
        validation=replace(result, raw=raw, score=score, loss=own_loss),
        shrinkage=Shrinkage(factors, constant),
    )


def shrinkage_factors(
    loss: Loss,
    raw: FloatArray,
    constants: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    n_effective: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the factors by which deviations of predictions from a constant are multiplied.

    Parameters
    ----------
    loss : Loss
        The loss of raw predictions; its outputs are not coupled.
    raw, constants, targets : arrays (n_rows,) or (n_rows, n_outputs)
        Raw predictions of held-back rows, the best constant of the rows that these were fitted to,
        and the targets.
    weights : array (n_rows,)
        Sample weights.
    n_effective : float, optional
        For how many rows these stand; Kish's ``(sum w)^2 / sum w^2`` by default.

    Returns
    -------
    factors : array () or (n_outputs,)
        Between 0 and 1, and 0 where the gain over the constant could be chance.
    doubts : array of the same shape
        Between 0 and 1: ``c / F`` of the notes, 1 where the gain could be chance.

    Notes
    -----
    With the squared loss, the best factor s leaves the share ``1 - r^2`` of the constant's loss.
    ``F = (n - 1) r^2 / (1 - r^2)`` is the square of a t-statistic with n - 1 degrees of freedom if
    targets are normal and independent of the predictions, however these are distributed. The
    result is ``s (1 - c / F)``, or 0 if that is negative, where c is the critical value of F. The
    share left of a loss that grows linearly with the error is squared first. With a robust loss,
    targets and predictions count as at most ``OUTLIER_BOUND`` away from the constant.

    Examples
    --------
    >>> from gramless.losses import Squared
    >>> targets = np.array([-2.0, -1.0, 0.0, 0.0, 1.0, 2.0])
    >>> shrinkage_factors(Squared(), 2.0 * targets, np.zeros(6), targets, np.ones(6))
    (array(0.5), array(0.))
    >>> mixed = targets[[5, 2, 0, 1, 3, 4]]
    >>> shrinkage_factors(Squared(), mixed, np.zeros(6), targets, np.ones(6))
    (array(0.), array(1.))
    """
    share = weights / weights.sum()
    deviations = raw - constants
    if loss.robust:
        # Outliers, and rows beside them, would hide the gain in all others.
        targets = np.clip(targets, constants - OUTLIER_BOUND, constants + OUTLIER_BOUND)
        deviations = np.clip(deviations, -OUTLIER_BOUND, OUTLIER_BOUND)
    losses = np.array([share @ loss.value(constants + s * deviations, targets) for s in _FACTORS])
    best, least = _FACTORS[losses.argmin(axis=0)], losses.min(axis=0)
    left = np.divide(least, losses[0], out=np.ones_like(least), where=losses[0] > 0.0)
    left = left**2 if loss.straight else left
    degrees = (1.0 / float(share @ share) if n_effective is None else n_effective) - 1.0
    if degrees < _LEAST_DEGREES:
        return np.zeros_like(best), np.ones_like(best)
    unclear = stdtrit(degrees, 1.0 - _LEVEL) ** 2 * left
    doubts = unclear / np.maximum(unclear, degrees * (1.0 - left))
    return np.asarray(best * (1.0 - doubts)), np.asarray(doubts)
