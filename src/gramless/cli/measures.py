"""The error measure of a model, and simple predictions to compare with."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge, TweedieRegressor
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from gramless.base.types import AnyArray, FloatArray, TableLike
from gramless.cli.metrics import class_numbers, has_probabilities, regression_metrics
from gramless.estimators.base import KernelMachine
from gramless.estimators.classifier import KernelClassifier
from gramless.estimators.targets import ClassEncoder
from gramless.inspection.explanation import Predictor
from gramless.losses import Huber, Loss, SmoothPinball, TweedieFamily

_MIN_VALUE = 1e-15  # lower bound of probabilities and means before their logarithm is taken
_MAX_INPUT = 1e100  # the squares of larger inputs may overflow
# Limits that keep the linear model cheap.
_N_FOLDS, _MAX_ROWS, _MAX_INPUTS, _MAX_CATEGORIES = 5, 10_000, 200, 50


@dataclass(frozen=True)
class Measure:
    """The error measure that corresponds to the loss of a model.

    ``losses(targets(y), predict(X))`` has one loss per row. ``shown`` converts a mean loss to the
    usual error, such as a mean square to its root. ``constant`` returns the best constant
    prediction, and ``constant_words`` its description. ``scores`` returns other metrics by name.
    ``linear`` is a linear model with a similar loss, or None if no such model is fast.
    """

    name: str
    predict: Predictor
    losses: Callable[[AnyArray, FloatArray], FloatArray]
    constant: Callable[[AnyArray], ArrayLike]
    constant_words: str
    scores: Callable[[AnyArray, FloatArray], dict[str, float]]
    linear: BaseEstimator | None = None
    targets: Callable[[AnyArray], AnyArray] = np.asarray
    shown: Callable[[float], float] = float

    def error(self, y: AnyArray, predicted: FloatArray) -> float:
        return self.shown(float(np.mean(self.losses(y, predicted))))

    def all_constant(self, y: AnyArray) -> FloatArray:
        best = np.asarray(self.constant(y))
        return np.broadcast_to(best, (len(y), *best.shape))


def measure_of(model: KernelMachine) -> Measure:
    if isinstance(model, KernelClassifier):
        return _class_measure(model)
    loss = model.loss_
    make: partial[Measure] = partial(Measure, predict=model.predict, scores=_score_numbers)
    if isinstance(loss, Huber) or (isinstance(loss, SmoothPinball) and loss.quantile == 0.5):
        return make(
            "mean absolute error",
            losses=lambda y, predicted: np.abs(y - predicted),
            constant=np.median,
            constant_words="the median",
            linear=Ridge(),
        )
    if isinstance(loss, SmoothPinball):
        return make(
            "pinball loss",
            losses=partial(_pinball_losses, loss.levels),
            constant=lambda y: np.quantile(y, loss.quantile),
            constant_words="the quantiles of all rows",
            scores=lambda y, predicted: {},
        )
    if loss.has_positive_means:
        return make(
            f"mean {loss.name.title()} deviance",
            losses=lambda y, mean: 2.0 * loss.value(np.log(np.maximum(mean, _MIN_VALUE)), y),
            constant=np.mean,
            constant_words="the mean",
            targets=partial(_checked_targets, loss),
            linear=TweedieRegressor(power=loss.power, link="log", alpha=1e-3, max_iter=200)
            if isinstance(loss, TweedieFamily)
            else None,
        )
    return make(
        "RMSE",
        losses=lambda y, predicted: (y - predicted) ** 2,
        constant=np.mean,
        constant_words="the mean",
        linear=Ridge(),
        shown=lambda loss: float(np.sqrt(loss)),
    )


def _score_numbers(y: AnyArray, predicted: FloatArray) -> dict[str, float]:
    metrics = regression_metrics(y, predicted)
    return {"mean absolute error": metrics["mae"], "R2": metrics["r2"]}


def _checked_targets(loss: Loss, y: AnyArray) -> AnyArray:
    loss.check_targets(y)
    return y


def _pinball_losses(levels: FloatArray, y: AnyArray, predicted: FloatArray) -> FloatArray:
    above = y[:, None] - predicted.reshape(len(y), -1)
    losses = np.maximum(levels * above, (levels - 1.0) * above)
    return np.asarray(losses.mean(axis=1))


def _class_measure(model: KernelClassifier) -> Measure:
    """Return the measure of a classifier; its targets are class indices, -1 if unknown."""
    n_classes = len(model.classes_)
    make: partial[Measure] = partial(
        Measure,
        targets=lambda y: class_numbers(y, model.classes_),
        linear=LogisticRegression(max_iter=500),
    )
    if has_probabilities(model):
        return make(
            "log loss",
            model.predict_proba,
            losses=_log_losses,
            constant=lambda y: np.bincount(y[y >= 0], minlength=n_classes) / len(y),
            constant_words="the shares of the classes",
            scores=_score_probabilities,
        )
    encoder = ClassEncoder(model.classes_)
    return make(
        "share of wrong classes",
        lambda X: encoder.class_numbers(model.predict(X)),
        losses=lambda y, predicted: (y != predicted).astype(np.float64),
        constant=lambda y: np.bincount(y[y >= 0], minlength=n_classes).argmax(),
        constant_words="the most frequent class",
        scores=lambda y, predicted: {},
    )


def _log_losses(y: AnyArray, probabilities: FloatArray) -> FloatArray:
    of_truth = np.where(y >= 0, probabilities[np.arange(len(y)), y], 0.0)
    return -np.log(np.maximum(of_truth, _MIN_VALUE))


def _score_probabilities(y: AnyArray, probabilities: FloatArray) -> dict[str, float]:
    # An unknown class (-1) selects the last row, which is zero without the last column.
    truth = np.eye(probabilities.shape[1] + 1)[y, :-1]
    scores = {
        "share of wrong classes": float(np.mean(probabilities.argmax(axis=1) != y)),
        "Brier score": float(((probabilities - truth) ** 2).sum(axis=1).mean()),
    }
    if probabilities.shape[1] == 2 and set(np.unique(y)) == {0, 1}:
        scores["area under the ROC curve"] = float(roc_auc_score(y, probabilities[:, 1]))
    return scores


def linear_predictions(
    measure: Measure, model: KernelMachine, X: TableLike, y: AnyArray
) -> FloatArray | None:
    """Return cross-validated predictions of a linear model.

    The linear model is fitted to these rows, because the model's training rows are unknown here.
    The result is None if the measure has no linear model, if there are more than 200 inputs or
    inputs beyond 1e100, or if there are too few rows or classes for five folds.
    """
    rows = model.inputs_.transform(model, X)
    if measure.linear is None or rows.shape[1] > _MAX_INPUTS:
        return None
    if sp.issparse(rows):
        rows = rows.toarray()
    if np.abs(rows).max(initial=0.0) > _MAX_INPUT:
        return None
    is_known = y >= 0 if is_classifier(measure.linear) else np.ones(len(y), bool)
    if is_known.sum() < 2 * _N_FOLDS:
        return None
    categorical = model.inputs_.categorical
    if categorical is None:
        categorical = np.zeros(rows.shape[1], bool)
    encoder = OneHotEncoder(handle_unknown="ignore", max_categories=_MAX_CATEGORIES)
    transformer = ColumnTransformer(
        [("codes", encoder, categorical), ("numbers", StandardScaler(), ~categorical)]
    )
    predicted = np.array(measure.all_constant(y), dtype=np.float64)
    for train, test in KFold(_N_FOLDS, shuffle=True, random_state=0).split(rows):
        train = train[is_known[train]][:_MAX_ROWS]
        if is_classifier(measure.linear) and len(np.unique(y[train])) < 2:
            return None
        with warnings.catch_warnings():
            # A baseline need not converge.
            warnings.simplefilter("ignore", ConvergenceWarning)
            linear = make_pipeline(transformer, clone(measure.linear)).fit(rows[train], y[train])
        if predicted.ndim == 2:
            predicted[test] = 0.0
            predicted[np.ix_(test, linear.classes_)] = linear.predict_proba(rows[test])
        else:
            predicted[test] = linear.predict(rows[test])
    return predicted
