"""The selected model: its features, and how its weights are rounded and shrunk."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from gramless.base.numeric import rounded_to_multiples
from gramless.base.types import FloatArray, IntArray
from gramless.features.base import FeatureMap
from gramless.features.expansion import KernelExpansion
from gramless.losses import OUTLIER_BOUND, Loss
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.row_products import SingleRowProducts
from gramless.matrices.weighted import remove_factors, unscale_weights
from gramless.preprocessing.scaling import Scaler
from gramless.selection.data import Data
from gramless.selection.goal import Goal
from gramless.selection.splits import MIN_ROWS_TO_VALIDATE_ONCE, Split
from gramless.selection.task import Hyperparameters, SelectionTask
from gramless.selection.validation import ValidationResult

Order = IntArray | slice

MAX_LOSS_INCREASE = 1e-3  # relative increase of the validation loss allowed by rounding weights
# Finest rounding step, relative to the largest weight. Steps as fine as single precision need no
# validation.
_FINEST_STEP = 2.0**-22
_HALVINGS = 6  # bisections of the powers of two between the finest step and the largest weight
# Level of the one-sided test of shrinkage. It is far below 5 % because the same held-back rows were
# used to choose among about 50 models.
_LEVEL = 0.001
_NEGLIGIBLE_DOUBT = 0.05  # F is then 20 times its critical value
# With fewer degrees of freedom, nothing can be tested and quantiles overflow.
_MIN_DEGREES = 0.5
_FACTORS = np.linspace(0.0, 1.0, 21)


@dataclass(frozen=True, kw_only=True, eq=False)
class Shrinkage:
    """Factors by which deviations of raw predictions from a constant are multiplied, by output."""

    factors: FloatArray
    constant: FloatArray

    def applied_to(self, weights: Vector) -> Vector:
        """Return the weights of shrunk predictions, with the intercept last."""
        shrunk = self.factors * weights
        shrunk[-1] += (1.0 - self.factors) * self.constant
        return shrunk


@dataclass(frozen=True, kw_only=True, eq=False)
class AddedKernel:
    """A kernel machine that is added to the predictions of the features, times a ``factor``."""

    expansion: KernelExpansion
    weights: Vector
    factor: float


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectedModel:
    """The selected feature map, evaluated on all rows, and the settings of the final fit.

    Attributes
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
        Features of the rows of the final fit in ``order``, without the intercept's column; bins
        are scaled by the prior deviations of their weights.
    bandwidth : float, array or None
        The bandwidth of random features, in units of the scaled inputs.
    validation : ValidationResult or None
        The result of a fit without the validation rows, whose weights are a start for the final
        fit.
    growth, trials : list of dict
        The stages of growth, and everything that was tried.
    limits : list of str
        What a budget of time or memory cut short.
    weights : array (n_columns,) or (n_columns, K), optional
        The weights of the final fit with the intercept last, if selection has made that fit.
    start : array of the same shape, optional
        Weights of an earlier fit, from which the final fit starts if ``validation`` is None.
    signs : array (n_grids,), optional
        The direction of monotone weights along the input of each grid, see :class:`Goal`.
    rounding_step : float
        Weights are rounded to multiples of this, see :func:`coarsest_step`; 0 keeps all digits.
    count_power : float
        How prior deviations of bins depend on their rows, see :func:`prior_deviations`.
    shrinkage : Shrinkage, optional
        How predictions are shrunk towards a constant after the final fit.
    added : AddedKernel, optional
        The kernel machine that is added to the predictions of the final fit.
    products : SingleRowProducts, optional
        The same features with row products in single precision, if trials had them.
    """

    scaler: Scaler
    feature_map: FeatureMap
    matrix: FeatureMatrix
    order: Order = field(repr=False)
    settings: Hyperparameters
    bandwidth: Any = None
    relevance: FloatArray = field(repr=False)
    validation: ValidationResult | None
    growth: list[dict[str, float]] = field(repr=False, default_factory=list)
    trials: list[dict[str, Any]] = field(repr=False)
    limits: list[str]
    loss: Loss
    weights: Vector | None = field(default=None, repr=False)
    start: Vector | None = field(default=None, repr=False)
    signs: IntArray | None = field(default=None, repr=False)
    rounding_step: float = 0.0
    count_power: float = 0.0
    shrinkage: Shrinkage | None = None
    added: AddedKernel | None = None
    products: SingleRowProducts | None = field(default=None, repr=False)

    @property
    def alpha(self) -> float:
        return self.settings.alpha


def final_rows(data: Data, order: Order, matrix: FeatureMatrix) -> tuple[Order, FeatureMatrix]:
    if data.n_validation == 0 or isinstance(order, slice):
        return order, matrix
    return order[: data.n_fitted], matrix.take_rows(slice(0, data.n_fitted))


def coarsest_step(
    goal: Goal, data: Data, matrix: FeatureMatrix, split: Split, weights: Vector | None
) -> float:
    """Return the largest step such that weights may be rounded to its multiples.

    Rounded weights must not raise the mean loss of the validation rows by more than a thousandth,
    two standard errors included. The finest step that is tried, ``2**-22`` times the largest
    weight, is used even if no step meets this condition. Weights smaller than half a step become
    zero, and their bins are dropped.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
        Features of the training rows of the split, then of its validation rows, without the
        intercept's column.
    weights : array (n_columns,) or (n_columns, K)
        Weights of a fit to the training rows, with the intercept last if there is one; None after
        cross-validation. Weights of scaled bins are converted to those of the bins themselves.

    Returns
    -------
    float
        0 if all weights are 0, or none are given.

    Notes
    -----
    Takes seven products of the features of the validation rows.
    """
    if weights is None:
        return 0.0
    weights, matrix = unscale_weights(matrix, weights), remove_factors(matrix)
    n, n_bound = len(split[0]), matrix.shape[1]
    others = data.matrix(matrix.take_rows(slice(n, n + len(split[1]))))
    largest = float(np.abs(weights[:n_bound]).max())
    if largest == 0.0:
        return 0.0
    counts, targets = data.counts_of(split[1]), data.targets[split[1]]
    counts = np.ones(len(split[1])) if counts is None else counts
    losses = goal.loss.by_row(others.matvec(weights), targets)
    mean_loss = abs(float(np.average(losses, weights=counts)))
    rounded = weights.copy()

    def is_fine(step: float) -> bool:
        if mean_loss == 0.0:
            return False
        rounded_to_multiples(weights[:n_bound], step, matrix.n_jobs, out=rounded[:n_bound])
        increases = goal.loss.by_row(others.matvec(rounded), targets) - losses
        mean = np.average(increases, weights=counts)
        error = np.sqrt(np.average((increases - mean) ** 2, weights=counts) / len(increases))
        return float(mean + 2.0 * error) / mean_loss <= MAX_LOSS_INCREASE

    low, high = np.log2(_FINEST_STEP), 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_fine(largest * 2.0**middle) else (low, middle)
    return largest * float(2.0**low)


def shrink_to_constant(selected: SelectedModel, task: SelectionTask) -> SelectedModel:
    """Return the model with factors that shrink its predictions towards the best constant.

    The model is returned unchanged unless this is regression with fewer than 300 rows and no given
    alpha, and each row was held back at least once. The held-back rows determine how far
    predictions are shrunk, see :func:`shrinkage_factors`. For dense rows they also determine how
    far predictions extrapolate before inputs are clipped: by the length of the range if the gain is
    certain, less otherwise.
    """
    data, result, loss = task.data, selected.validation, selected.loss
    n_rows = data.rows.shape[0]
    if (
        result is None
        or n_rows >= MIN_ROWS_TO_VALIDATE_ONCE
        or len(np.unique(result.rows)) < n_rows
    ):
        return selected
    # Only regression has a free constant.
    if not data.intercept or task.fixed.alpha is not None:
        return selected
    weights = np.ones(n_rows) if data.sample_weight is None else data.sample_weight
    constants = np.zeros_like(data.targets)
    for training, others in task.held_back.splits:
        constants[others] = loss.initial_constant(data.targets[training], weights[training])
    rows = result.rows
    counts = None if data.count_unit is None else data.row_counts(rows)
    # If all sample weights are whole numbers, they count repeated rows.
    is_count = counts is not None and np.allclose(counts, np.rint(counts))
    n_effective = float(counts.sum()) if counts is not None and is_count else None
    held_back = result.raw, constants[rows], data.targets[rows], weights[rows]
    factors, doubts = shrinkage_factors(loss, *held_back, n_effective)
    doubt = float(np.max(doubts, where=factors > 0.0, initial=_NEGLIGIBLE_DOUBT))
    raw = constants[rows] + factors * (result.raw - constants[rows])
    score, own_loss = task.goal.scored(data, raw, rows)
    constant, scaler = loss.initial_constant(data.targets, weights), selected.scaler
    if isinstance(data.rows, np.ndarray):
        scaler = scaler.limited(data.rows, _NEGLIGIBLE_DOUBT / doubt)
    return replace(
        selected,
        scaler=scaler,
        validation=replace(result, raw=raw, score=score, loss=own_loss),
        shrinkage=Shrinkage(factors=factors, constant=constant),
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
        Raw predictions of held-back rows, the best constant of the training rows of each
        prediction, and the targets.
    weights : array (n_rows,)
        Sample weights.
    n_effective : float, optional
        The effective number of rows; Kish's ``(sum w)^2 / sum w^2`` by default.

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
    result is ``s (1 - c / F)``, or 0 if that is negative, where c is the critical value of F. With
    a loss that grows linearly with the error, the share ``1 - r^2`` is squared first. With a
    robust loss, targets and predictions are clipped to ``OUTLIER_BOUND`` around the constant.

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
        # Outliers and the rows near them would hide the gain in all other rows.
        targets = np.clip(targets, constants - OUTLIER_BOUND, constants + OUTLIER_BOUND)
        deviations = np.clip(deviations, -OUTLIER_BOUND, OUTLIER_BOUND)
    losses = np.array([share @ loss.value(constants + s * deviations, targets) for s in _FACTORS])
    best, least = _FACTORS[losses.argmin(axis=0)], losses.min(axis=0)
    unexplained = np.divide(least, losses[0], out=np.ones_like(least), where=losses[0] > 0.0)
    unexplained = unexplained**2 if loss.is_piecewise_linear else unexplained
    degrees = (1.0 / float(share @ share) if n_effective is None else n_effective) - 1.0
    if degrees < _MIN_DEGREES:
        return np.zeros_like(best), np.ones_like(best)
    # Both F and its critical value are multiplied by the unexplained share, which may be 0.
    critical = stdtrit(degrees, 1.0 - _LEVEL) ** 2 * unexplained
    doubts = critical / np.maximum(critical, degrees * (1.0 - unexplained))
    return np.asarray(best * (1.0 - doubts)), np.asarray(doubts)
