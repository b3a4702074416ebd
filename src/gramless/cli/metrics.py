"""How good predictions are, in numbers that people know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_CONFUSION = 12


def regression_metrics(y: NDArray[Any], predicted: NDArray[Any]) -> dict[str, float]:
    """Compare predicted numbers with the truth.

    Parameters
    ----------
    y, predicted : ndarray (n_rows,)

    Returns
    -------
    dict
        ``rmse``, ``rmse_std`` (relative to the standard deviation of ``y``),
        ``mae`` and ``r2``; NaN where a constant ``y`` leaves them undefined.

    Examples
    --------
    >>> import numpy as np
    >>> regression_metrics(np.array([0.0, 2.0]), np.array([0.0, 1.0]))["r2"]
    0.5
    """
    import numpy as np

    errors = predicted - y
    mean_square, variance = np.mean(errors**2), np.var(y)
    relative = mean_square / variance if variance > 0 else np.nan
    return {
        "rmse": float(np.sqrt(mean_square)),
        "rmse_std": float(np.sqrt(relative)),
        "mae": float(np.mean(np.abs(errors))),
        "r2": float(1.0 - relative),
    }


def classification_metrics(y: NDArray[Any], predicted: NDArray[Any]) -> dict[str, Any]:
    """Compare predicted classes with the truth.

    Parameters
    ----------
    y, predicted : ndarray (n_rows,)
        Labels of one type.

    Returns
    -------
    dict
        ``error``, ``accuracy``, ``balanced_accuracy`` (the mean recall of the
        classes in ``y``), ``classes`` (a list of dicts with ``rows``,
        ``precision``, ``recall`` and ``f1``) and, for at most 12 classes,
        ``confusion`` (a row a true class).

    Examples
    --------
    >>> import numpy as np
    >>> found = classification_metrics(np.array([0, 0, 1]), np.array([0, 1, 1]))
    >>> found["balanced_accuracy"], found["confusion"]
    (0.75, [[1, 1], [0, 1]])
    """
    import numpy as np
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    labels = np.unique(np.concatenate([y, predicted]))
    parts = precision_recall_fscore_support(y, predicted, labels=labels, zero_division=0.0)
    classes = [
        {
            "class": label.item() if hasattr(label, "item") else label,
            "rows": int(n),
            "precision": float(precision),
            "recall": float(recall),
            "f1": float(f1),
        }
        for label, precision, recall, f1, n in zip(labels, *parts, strict=True)
    ]
    accuracy = float(np.mean(y == predicted))
    recalls = [entry["recall"] for entry in classes if entry["rows"]]
    found = {
        "error": 1.0 - accuracy,
        "accuracy": accuracy,
        "balanced_accuracy": float(np.mean(recalls)),
        "classes": classes,
    }
    if len(labels) <= MAX_CONFUSION:
        found["confusion"] = confusion_matrix(y, predicted, labels=labels).tolist()
    return found


def probability_metrics(truth: NDArray[Any], probabilities: NDArray[Any]) -> dict[str, Any]:
    """Judge predicted probabilities.

    Parameters
    ----------
    truth : ndarray (n_rows,) of int
        Column of each row's true class; -1 for a class that the model does not know.
    probabilities : ndarray (n_rows, n_classes)

    Returns
    -------
    dict
        ``log_loss`` (natural logarithm, probabilities no smaller than 1e-15),
        ``brier`` (mean squared distance to the truth, summed over the classes)
        and ``reliability``: rows by the probability of the predicted class, in
        tenths (``low`` to ``high``), with its mean (``predicted``) and how often
        it was right (``observed``).

    Examples
    --------
    >>> import numpy as np
    >>> found = probability_metrics(np.array([0, 1]), np.array([[0.75, 0.25], [0.75, 0.25]]))
    >>> found["brier"], found["reliability"]
    (0.625, [{'low': 0.7, 'high': 0.8, 'rows': 2, 'predicted': 0.75, 'observed': 0.5}])
    """
    import numpy as np

    known = truth >= 0
    rows = np.arange(len(truth))
    given = np.where(known, probabilities[rows, truth], 0.0)
    squares = (probabilities**2).sum(axis=1) - 2.0 * given + 1.0
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    tenth = np.minimum((confidence * 10.0).astype(int), 9)
    return {
        "log_loss": float(-np.log(np.maximum(given, 1e-15)).mean()),
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


def alike(y: NDArray[Any], classes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return true labels and a model's classes as values of one type.

    A file may hold as text or as 1.0 what was an integer or a truth value in
    the table that the model was fitted to.

    Parameters
    ----------
    y : ndarray (n_rows,)
    classes : ndarray (n_classes,)

    Returns
    -------
    y, classes : ndarrays
        As numbers if both are, else as text.

    Examples
    --------
    >>> import numpy as np
    >>> alike(np.array(["True", "False"], object), np.array([False, True]))
    (array(['True', 'False'], dtype='<U5'), array(['False', 'True'], dtype='<U5'))
    """
    import numpy as np

    from gramless.preprocessing.columns import labels

    if y.dtype.kind in "iuf" and classes.dtype.kind in "biuf":
        return y, classes.astype(y.dtype if classes.dtype.kind == "b" else classes.dtype)
    return np.array([*labels(y)], dtype=np.str_), np.array([*labels(classes)], dtype=np.str_)


def class_metrics(model: Any, X: Any, y: Any, predicted: Any) -> dict[str, Any]:
    """Compare a classifier's predictions, and its probabilities if it has any, with the truth.

    Parameters
    ----------
    model : classifier
        Fitted.
    X : rows
    y, predicted : arrays (n_rows,)
        Known and predicted labels.
    """
    import numpy as np

    truth, classes = alike(y, model.classes_)
    found = classification_metrics(truth, classes[np.searchsorted(model.classes_, predicted)])
    if hasattr(model, "predict_proba"):
        columns = {str(label): k for k, label in enumerate(classes)}
        known = np.array([columns.get(str(label), -1) for label in truth])
        found |= probability_metrics(known, model.predict_proba(X))
    return found
