"""Common metrics of predictions."""

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

MAX_CONFUSION = 12
_LEAST_PROBABILITY = 1e-15


def has_probabilities(model: object) -> bool:
    """Tell whether a fitted model predicts probabilities, by scikit-learn's convention."""
    return hasattr(model, "predict_proba")


def regression_metrics(y: AnyArray, predicted: AnyArray) -> dict[str, float]:
    """Compare predicted numbers with the truth.

    ``rmse_std`` is relative to the standard deviation of ``y``; it and ``r2`` are NaN for a
    constant ``y``.
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
    """Compare predicted classes with true ones of the same type.

    ``balanced_accuracy`` is the mean recall of the classes in ``y``; ``classes`` has ``rows``,
    ``precision``, ``recall`` and ``f1`` of each; ``confusion``, one row per true class, is there
    for at most 12 classes.

    Examples
    --------
    >>> found = classification_metrics(np.array([0, 0, 1]), np.array([0, 1, 1]))
    >>> found["balanced_accuracy"], found["confusion"]
    (0.75, [[1, 1], [0, 1]])
    """
    names = np.unique(np.concatenate([y, predicted]))
    parts = precision_recall_fscore_support(y, predicted, labels=names, zero_division=0.0)
    precision, recall, f1, rows = (part.tolist() for part in parts)
    keys = ("class", "rows", "precision", "recall", "f1")
    table = zip(names.tolist(), rows, precision, recall, f1, strict=True)
    accuracy = float(accuracy_score(y, predicted))
    found = {
        "error": 1.0 - accuracy,
        "accuracy": accuracy,
        "balanced_accuracy": float(np.mean([r for r, n in zip(recall, rows, strict=True) if n])),
        "classes": [dict(zip(keys, line, strict=True)) for line in table],
    }
    if len(names) <= MAX_CONFUSION:
        found["confusion"] = confusion_matrix(y, predicted, labels=names).tolist()
    return found


def probability_metrics(truth: IntArray, probabilities: FloatArray) -> dict[str, Json]:
    """Evaluate predicted probabilities of shape (n_rows, n_classes).

    ``truth`` has the column of each row's class, -1 for a class that the model does not know, which
    scikit-learn's scores refuse. ``log_loss`` takes probabilities of at least 1e-15; ``brier`` is
    the squared distance to the truth, summed over the classes. ``reliability`` groups the rows by
    the probability of the predicted class in tenths (``low`` to ``high``), with its mean
    (``predicted``) and how often it was right (``observed``).
    """
    given = np.where(truth >= 0, probabilities[np.arange(len(truth)), truth], 0.0)
    squares = (probabilities**2).sum(axis=1) - 2.0 * given + 1.0
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    tenth = np.minimum((confidence * 10.0).astype(int), 9)
    return {
        "log_loss": float(-np.log(np.maximum(given, _LEAST_PROBABILITY)).mean()),
        "brier": float(squares.mean()),
        "reliability": [
            {
                "low": float(k / 10),
                "high": float((k + 1) / 10),
                "rows": int(np.count_nonzero(tenth == k)),
                "predicted": float(confidence[tenth == k].mean()),
                "observed": float(right[tenth == k].mean()),
            }
            for k in np.unique(tenth)
        ],
    }


def comparable_labels(y: AnyArray, classes: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return true labels and a model's classes as values of one type.

    A file may hold as text or as 1.0 what was an integer or a truth value in the training table:
    both become numbers if both are numeric, otherwise text.
    """
    if y.dtype.kind in "iuf" and classes.dtype.kind in "biuf":
        return y, classes.astype(y.dtype if classes.dtype.kind == "b" else classes.dtype)
    return np.array([*labels(y)], dtype=np.str_), np.array([*labels(classes)], dtype=np.str_)


def class_numbers(y: AnyArray, classes: AnyArray) -> IntArray:
    """Return the number of each true label among a model's classes, -1 for an unknown one."""
    truth, known = comparable_labels(y, classes)
    columns = {str(label): k for k, label in enumerate(known)}
    return np.array([columns.get(str(label), -1) for label in truth])


def class_metrics(
    model: Classifier, y: AnyArray, predicted: AnyArray, probabilities: FloatArray | None
) -> dict[str, Json]:
    """Compare a classifier with the truth: what it predicts, and probabilities if there are any."""
    truth, classes = comparable_labels(y, model.classes_)
    numbers = ClassEncoder(model.classes_).class_numbers(predicted)
    found = classification_metrics(truth, classes[numbers])
    if probabilities is not None:
        found |= probability_metrics(class_numbers(y, model.classes_), probabilities)
    return found
