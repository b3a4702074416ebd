"""Warnings about validation rows that are unlike the training rows."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, stdtrit

from gramless.base.state import StatefulEstimator
from gramless.base.types import BoolArray, FloatArray, IntArray
from gramless.estimators.steps import Selection
from gramless.losses import Loss
from gramless.preprocessing.rows import Rows
from gramless.selection.data import Data
from gramless.selection.validation import ValidationResult

_FALSE_ALARMS = 1e-3  # probability of a warning for rows of one distribution
_MUCH_WORSE = 1.25  # ratio of mean losses; fits to noise are a little worse than a constant
# Rows are far outside if their median distance from the training range exceeds this fraction of the
# range. Rows of a later time usually lie closer.
_FAR = 0.5
_COLUMNS_SHOWN = 3
_USUAL_CAUSE = (
    "This usually happens because a Pipeline transforms X but not eval_set: give X_val and y_val, "
    "and make the pipeline with transform_input=['X_val']."
)


def warn_of_validation_rows(model: StatefulEstimator, selection: Selection) -> None:
    """Warn if the validation rows that a user gave are unlike the training rows.

    They are if most of them lie outside the range of the training rows, or if they are predicted
    clearly worse than by a constant.
    """
    data, result = selection.data, selection.selected.validation
    if data.n_validation == 0:
        return
    sources = selection.inputs.sources(model.n_features_in_)
    names = vars(model).get("feature_names_in_", np.arange(model.n_features_in_))
    columns = [repr(name) for name in names[np.unique(sources[_suspicious_inputs(data)])].tolist()]
    reason = None
    if columns:
        more = (
            "" if len(columns) <= _COLUMNS_SHOWN else f" and {len(columns) - _COLUMNS_SHOWN} more"
        )
        reason = (
            f"most validation rows lie outside the range of the training rows in the "
            f"column{'s' if len(columns) > 1 else ''} {', '.join(columns[:_COLUMNS_SHOWN])}{more}"
        )
    elif result is not None:
        reason = _loss_above_constant(data, selection.goal.loss, result)
    if reason is not None:
        warnings.warn(f"{type(model).__name__}: {reason}. {_USUAL_CAUSE}", stacklevel=4)


def _suspicious_inputs(data: Data) -> BoolArray:
    """Return which inputs of validation rows are suspiciously far from the training rows."""
    numeric = np.ones(data.rows.shape[1], bool)
    if sp.issparse(data.rows):
        return ~numeric
    if data.categorical is not None:
        numeric &= ~data.categorical
    outside, far = _outside(data.rows[: data.n_fitted], data.rows[data.n_fitted :], numeric)
    # A few columns may have new values for good reasons, such as the time of later rows.
    return outside if 2 * outside.sum() > numeric.sum() else outside & far


def _loss_above_constant(data: Data, loss: Loss, result: ValidationResult) -> str | None:
    """Return a message if a constant predicts clearly better, or None."""
    counts = data.weights_of(data.fitted)
    counts = np.ones(data.n_fitted) if counts is None else counts
    constant = loss.initial_constant(data.targets[data.fitted], counts)
    if not np.isfinite(constant).all():
        return None
    targets, weight = data.targets[result.rows], data.counts_of(result.rows)
    losses = loss.by_row(result.raw, targets)
    by_constant = loss.by_row(np.broadcast_to(constant, result.raw.shape), targets)
    mean, mean_by_constant = (np.average(x, weights=weight) for x in (losses, by_constant))
    if mean <= _MUCH_WORSE * mean_by_constant or not _is_positive(losses - by_constant, weight):
        return None
    return (
        f"validation rows are predicted worse than by a constant, with a mean loss of {mean:.3g} "
        f"in place of {mean_by_constant:.3g}"
    )


def _outside(training: Rows, later: Rows, numeric: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Return in which columns most validation rows are outside, and far outside, the range."""
    outside, far = np.zeros((2, len(numeric)), bool)
    n_columns = max(int(numeric.sum()), 1)
    fewest = _fewest_outside(len(training), len(later), _FALSE_ALARMS / n_columns)
    for j in np.flatnonzero(numeric).tolist():
        low, high = float(training[:, j].min()), float(training[:, j].max())
        values = later[:, j].astype(np.float64)
        # A constant column has no range, and no influence.
        if low == high:
            continue
        beyond = np.maximum(low - values, values - high)
        count = int((beyond > 0.0).sum())
        outside[j] = count >= fewest and 2 * count > len(values)
        far[j] = np.median(beyond) > _FAR * (high - low)
    return outside, far


def _fewest_outside(n_training: int, n_later: int, probability: float) -> float:
    """Return the smallest number of later rows outside the range with less than ``probability``.

    The probability is for rows of one distribution.
    """
    # The k most extreme of all rows, of which a are at the lower end, are later rows with
    # probability (m)_k / (n + m)_k in falling factorials, for each of the k + 1 values of a.
    k = np.arange(1, n_later + 1)
    n, m = n_training, n_later
    log_ratio = gammaln(m + 1) - gammaln(m - k + 1) - gammaln(n + m + 1) + gammaln(n + m - k + 1)
    rare: IntArray = k[np.log(k + 1) + log_ratio < np.log(probability)]
    return float(rare[0]) if len(rare) else np.inf


def _is_positive(differences: FloatArray, weight: FloatArray | None) -> bool:
    """Return whether the mean of paired differences is above 0, by a t-test."""
    weight = np.ones(len(differences)) if weight is None else weight
    n = weight.sum() ** 2 / (weight**2).sum()
    if n < 2.0:
        return False
    mean = np.average(differences, weights=weight)
    error = np.sqrt(np.average((differences - mean) ** 2, weights=weight) / (n - 1.0))
    return bool(mean > stdtrit(n - 1.0, 1.0 - _FALSE_ALARMS) * error)
