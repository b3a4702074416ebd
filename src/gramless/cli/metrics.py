"""Metrics of predictions."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    mean_absolute_error,
    precision_recall_fscore_support,
)

from gramless.base.columns import labels
from gramless.base.state import Json
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.estimators.classifier import KernelClassifier
from gramless.estimators.doubly_stochastic import DoublyStochasticClassifier
from gramless.estimators.targets import ClassEncoder

Classifier: TypeAlias = KernelClassifier | DoublyStochasticClassifier

MAX_CONFUSION = 12  # classes; a larger confusion matrix would not be readable
_MIN_PROBABILITY = 1e-15  # lower bound of probabilities in the log loss


def has_probabilities(model: object) -> bool:
    return hasattr(model, "predict_proba")


def regression_metrics(y: AnyArray, predicted: AnyArray) -> dict[str, float]:
    """Return metrics of predicted numbers.

    ``rmse_std`` is ``rmse`` divided by the standard deviation of ``y``; it and ``r2`` are NaN if
    ``y`` is constant.
    """
    mean_square, variance = np.mean((predicted - y) ** 2), np.var(y)
    relative = mean_square / variance if variance > 0 else np.nan
    return {
        "rmse": float(np.sqrt(mean_square)),
        "rmse_std": float(np.sqrt(relative)),
        "mae": float(mean_absolute_error(y, predicted)),
        "r2": float(1.0 - relative),
    }


def classification_metrics(y: AnyArray, predicted: AnyArray) -> dict[str, Json]:
    """Return metrics of predicted classes, which have the same type as the true ones.

    ``balanced_accuracy`` is the mean recall of the classes in ``y``. ``classes`` has ``rows``,
    ``precision``, ``recall`` and ``f1`` of each class. ``confusion``, with one row per true class,
    is included if there are at most 12 classes.

    Examples
    --------
    >>> metrics = classification_metrics(np.array([0, 0, 1]), np.array([0, 1, 1]))
    >>> metrics["balanced_accuracy"], metrics["confusion"]
    (0.75, [[1, 1], [0, 1]])
    """
    names = np.unique(np.concatenate([y, predicted]))
    parts = precision_recall_fscore_support(y, predicted, labels=names, zero_division=0.0)
    precision, recall, f1, rows = (part.tolist() for part in parts)
    keys = ("class", "rows", "precision", "recall", "f1")
    table = zip(names.tolist(), rows, precision, recall, f1, strict=True)
    accuracy = float(accuracy_score(y, predicted))
    metrics = {
        "error": 1.0 - accuracy,
        "accuracy": accuracy,
        "balanced_accuracy": float(np.mean([r for r, n in zip(recall, rows, strict=True) if n])),
        "classes": [dict(zip(keys, line, strict=True)) for line in table],
    }
    if len(names) <= MAX_CONFUSION:
        metrics["confusion"] = confusion_matrix(y, predicted, labels=names).tolist()
    return metrics


def probability_metrics(truth: IntArray, probabilities: FloatArray) -> dict[str, Json]:
    """Return metrics of predicted probabilities of shape (n_rows, n_classes).

    ``truth`` has the column of each row's class, or -1 for a class that was not in the training
    table; scikit-learn's scores do not allow such classes. ``log_loss`` clips probabilities to at
    least 1e-15; ``brier`` is the mean over rows of the squared distance to the true classes, summed
    over the classes. ``reliability`` groups the rows by tenths of the probability of the predicted
    class (``low`` to ``high``), and has its mean (``predicted``) and the share of correct
    predictions (``observed``).
    """
    of_truth = np.where(truth >= 0, probabilities[np.arange(len(truth)), truth], 0.0)
    squares = (probabilities**2).sum(axis=1) - 2.0 * of_truth + 1.0
    confidence, is_right = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    tenth = np.minimum((confidence * 10.0).astype(int), 9)
    return {
        "log_loss": float(-np.log(np.maximum(of_truth, _MIN_PROBABILITY)).mean()),
        "brier": float(squares.mean()),
        "reliability": [
            {
                "low": float(k / 10),
                "high": float((k + 1) / 10),
                "rows": int(np.count_nonzero(tenth == k)),
                "predicted": float(confidence[tenth == k].mean()),
                "observed": float(is_right[tenth == k].mean()),
            }
            for k in np.unique(tenth)
        ],
    }


def comparable_labels(y: AnyArray, classes: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return true labels and a model's classes as values of one type.

    An integer or boolean label of the training table may be text or 1.0 in another file. Both
    results are numbers if both arguments are numeric, otherwise text.
    """
    if y.dtype.kind in "iuf" and classes.dtype.kind in "biuf":
        return y, classes.astype(y.dtype if classes.dtype.kind == "b" else classes.dtype)
    return np.array([*labels(y)], dtype=np.str_), np.array([*labels(classes)], dtype=np.str_)


def class_numbers(y: AnyArray, classes: AnyArray) -> IntArray:
    """Return the index of each true label among a model's classes, -1 for an unknown one."""
    truth, known = comparable_labels(y, classes)
    columns = {str(label): k for k, label in enumerate(known)}
    return np.array([columns.get(str(label), -1) for label in truth])


def class_metrics(
    model: Classifier, y: AnyArray, predicted: AnyArray, probabilities: FloatArray | None
) -> dict[str, Json]:
    truth, classes = comparable_labels(y, model.classes_)
    numbers = ClassEncoder(model.classes_).class_numbers(predicted)
    metrics = classification_metrics(truth, classes[numbers])
    if probabilities is not None:
        metrics |= probability_metrics(class_numbers(y, model.classes_), probabilities)
    return metrics
