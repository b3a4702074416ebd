"""What the doubly stochastic estimators refuse, and how they say so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from gramless.base.errors import InputError, KernelError
from gramless.streaming.step_sizes import InverseTime

from .streamed_models import (
    TWO,
    Array,
    N,
    X,
    classifier,
    regressor,
    y,
)

pytestmark = pytest.mark.filterwarnings("error")


def with_entry(array: Array, value: float) -> Array:
    changed = np.array(array, dtype=np.float64)
    changed.flat[5] = value
    return changed


BAD_ROWS: dict[str, tuple[Any, str]] = {
    "NaN": (with_entry(X, np.nan), "X contains NaN"),
    "infinity": (with_entry(X, np.inf), "X contains infinity"),
    "sparse NaN": (sp.csr_array(with_entry(X, np.nan)), "X contains NaN"),
    "no rows": (X[:0], "0 sample"),
    "no columns": (X[:, :0], "0 feature"),
    "one dimension": (X[:, 0], "Expected 2D array"),
    "text": (np.full((N, 3), "a"), "strings"),
    "complex": (X + 1j, "Complex data not supported"),
    "too few": (X[1:], r"inconsistent numbers of samples: \[239, 240\]"),
    "too large to square": (X * 1e200, "rescale"),
}


def test_fit_rejects_invalid_rows() -> None:
    for rows, message in BAD_ROWS.values():
        for model, targets in ((regressor(), y), (classifier(), TWO)):
            with pytest.raises((ValueError, TypeError), match=message):
                model.fit(rows, targets)


@pytest.fixture(scope="module")
def fitted() -> Any:
    return regressor().fit(X, y)


def test_predict_rejects_invalid_rows(fitted: Any) -> None:
    for kind in sorted(BAD_ROWS.keys() - {"too few", "too large to square"}):
        rows, message = BAD_ROWS[kind]
        with pytest.raises((ValueError, TypeError), match=message):
            fitted.predict(rows)


BAD_TARGETS: dict[str, tuple[Any, str]] = {
    "NaN": (with_entry(y, np.nan), "y contains NaN"),
    "infinity": (with_entry(y, np.inf), "y contains infinity"),
    "none": (None, "requires y"),
    "too few": (y[1:], "inconsistent numbers of samples"),
    "three dimensions": (np.zeros((N, 2, 2)), "dim 3"),
    "text": (np.full(N, "a"), "could not convert"),
    "complex": (y + 1j, "Complex data not supported"),
}


def test_regressor_rejects_invalid_targets() -> None:
    for targets, message in BAD_TARGETS.values():
        with pytest.raises(ValueError, match=message):
            regressor().fit(X, targets)


BAD_LABELS: dict[str, tuple[Any, str]] = {
    "measurements": (y, "Unknown label type: continuous"),
    "NaN": (np.where(np.arange(N) == 5, np.nan, 1.0), "NaN"),
    "two columns": (np.column_stack([TWO, TWO]), "multilabel|1d array|multioutput"),
    "one class": (np.zeros(N), r"DoublyStochasticClassifier.*one class.*0\.0"),
    "one class of text": (np.full(N, "a"), r"DoublyStochasticClassifier.*one class.*'a'"),
    "none": (None, "requires y"),
    "too few": (TWO[1:], "inconsistent numbers of samples"),
    "numbers among text": (np.array([1, "a"] * (N // 2), dtype=object), "type|str"),
}


def test_classifier_rejects_invalid_labels() -> None:
    for targets, message in BAD_LABELS.values():
        with pytest.raises((ValueError, TypeError), match=message):
            classifier().fit(X, targets)


BAD: dict[str, list[Any]] = {
    "loss": ["least squares", None, 3],
    "strategy": ["random", None, 1],
    "bandwidth": ["wide", 0.0, -1.0, np.nan, [1.0, 2.0], [1.0, 0.0, 1.0], None],
    "alpha": [0.0, 1e-300, -1.0, np.nan, np.inf, "small", None],
    "schedule": ["fast", 0.1, None, InverseTime(1e200)],
    "block_size": [0, -1, 2.0, "x", None, True],
    "batch_size": [0, 1.5, "x", None],
    "max_steps": [0, 2.5, None],
    "fit_intercept": ["yes", None, 2],
    "average": ["auto", None],
    "scaling": ["minmax", None, 1],
    "update": ["hessian", None, 1],
    "n_components": [0, 1.5, "x", 4],
    "patience": [0, -1, 1.5, "x"],
    "tol": [-0.1, 1.5, "x", None, np.nan],
    "time_budget": [-1.0, "x", np.nan],
    "cache_bytes": [-1, 0.5, None],
    "checkpoint": [3, "no such folder/file"],
    "checkpoint_seconds": [-1.0, "x", None],
    "device": [None, 3],
    "n_jobs": [0, 1.5, "x"],
}


def test_error_names_the_invalid_parameter() -> None:
    for name in BAD:
        for value in BAD[name]:
            for model, targets in ((regressor(), y), (classifier(), TWO)):
                model.set_params(**{name: value})
                with pytest.raises(InputError, match=name):
                    model.fit(X, targets)
                with pytest.raises(InputError, match=name):
                    model.partial_fit(X, targets)
                assert not hasattr(model, "weights_")


def test_unknown_kernels_are_rejected() -> None:
    for kernel in ["no such kernel", "hat", 3, None]:
        with pytest.raises((KernelError, InputError)):
            regressor(kernel=kernel).fit(X, y)


def test_newton_updates_need_an_intercept() -> None:
    with pytest.raises(InputError, match=r"update='newton' needs fit_intercept=True"):
        regressor(update="newton", fit_intercept=False).fit(X, y)


def test_every_parameter_is_covered_and_seeds_are_checked() -> None:
    others = {"kernel", "random_state", "verbose"}
    assert BAD.keys() | others == regressor().get_params().keys()
    for value in ("x", -1):
        with pytest.raises(ValueError, match=r"seed|Seed"):
            regressor(random_state=value).fit(X, y)


def test_unknown_device_is_rejected() -> None:
    with pytest.raises((InputError, ImportError), match=r"torch|device"):
        regressor(device="nonsense").fit(X, y)


def test_unfitted_estimator_raises_not_fitted_error() -> None:
    for name in ("predict", "decision_function", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(classifier(), name)(X)
