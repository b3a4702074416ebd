"""Rows with a wrong number of columns, for every part of a fitted model that takes rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from campaigns.fitted import ESTIMATORS, MAPS, OTHERS, X, Y, fit, rows_for
from gramless.base.errors import InputError
from gramless.datasets import Table
from gramless.estimators.inputs import RowInputs
from gramless.preprocessing.imputer import Imputer
from gramless.preprocessing.scaling import Scaler
from gramless.streaming.bandwidth_selection import Preparation
from gramless.streaming.principal_components import Projection
from gramless.uncertainty.calibration import Calibration

PROMISE = (
    "a fitted model, and every part that can be reached from it, raises InputError for rows with "
    "another number of columns"
)
_METHODS = (
    *("transform", "feature_matrix", "rows_matrix", "compute", "gradients", "predict"),
    *("predict_proba", "predict_log_proba", "decision_function", "predict_interval"),
    *("predict_set", "predict with deviations", "score", "partial_fit", "rows", "apply"),
    *("project", "unit_rows", "log_probabilities", "probabilities"),
)
_WIDTHS: dict[str, Callable[[int], int]] = {
    "one less": lambda d: d - 1,
    "one more": lambda d: d + 1,
    "a single one": lambda d: 1,
}
_FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "rows": lambda rows: rows,
    "columns": np.asfortranarray,
    "single precision": lambda rows: rows.astype(np.float32),
    "whole numbers": lambda rows: rows.astype(np.int32),
    "sparse": sp.csr_array,
}
_KINDS = (*ESTIMATORS, *MAPS, *OTHERS)
# Cases per kind of model, more than the combinations of its parts, methods, widths and forms.
_CASES_PER_KIND = 400
FULL, SHORT = _CASES_PER_KIND * len(_KINDS), 2 * len(_KINDS)
SECONDS = 120.0
MEMORY = 1 << 30
ENVIRONMENTS: dict[str, dict[str, str]] = {"plain": {}}


def check(number: int, seed: int) -> str:
    """Call a method of a part of a model with rows of a wrong width, in one form."""
    kind = _KINDS[number % len(_KINDS)]
    calls = _calls(kind)
    call = number // len(_KINDS) + 17 * seed
    part, method, width, form = calls[call % len(calls)]
    rows = rows_for(part, 20) if part is fit_once(kind) else None
    if isinstance(rows, Table):
        wrong_rows: Any = _other_columns(rows, width)
    else:
        wrong_rows = _FORMS[form](
            np.random.default_rng(call).normal(size=(20, _WIDTHS[width](_width(part))))
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _call(part, method, wrong_rows)
        except InputError:
            return "refused"
    raise AssertionError(f"{kind}: {type(part).__name__}.{method} took {width} columns, {form}")


@cache
def fit_once(kind: str) -> Any:
    return fit(kind)


@cache
def _calls(kind: str) -> list[tuple[Any, str, str, str]]:
    """Return all combinations of part, method, width and form of a model."""
    return [
        (part, method, width, form)
        for part in _parts(fit_once(kind), set())
        for method in _METHODS
        if hasattr(part, method.partition(" ")[0]) and _has(part, method)
        for width in _WIDTHS
        if _WIDTHS[width](_width(part)) not in (0, _width(part))
        for form in _FORMS
        if form != "sparse" or not isinstance(part, Calibration)  # Responses are never sparse.
    ]


def _has(part: Any, method: str) -> bool:
    if method == "predict with deviations":
        return getattr(part, "posterior_", None) is not None
    if method in ("predict_interval", "predict_set"):
        return getattr(part, "errors_", None) is not None
    return method != "partial_fit" or hasattr(part, "run_") or "_training" in vars(part)


def _parts(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yield an object, and objects of this library reachable by attributes, if they take rows."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _parts(item, seen)
    if not type(value).__module__.startswith("gramless.") or id(value) in seen:
        return
    seen.add(id(value))
    # Parameters are not fitted parts.
    params = value.get_params(deep=False) if hasattr(value, "get_params") else {}
    if _width(value):
        yield value
    for name, attribute in vars(value).items():
        if name not in params and not name.startswith("_"):
            yield from _parts(attribute, seen)


def _width(part: Any) -> int:
    """Return the number of columns that a part takes, or 0 if it takes no rows."""
    if isinstance(part, Scaler):
        return len(part.unit) // (2 if part.kind == "both" else 1)
    if isinstance(part, (Imputer, Projection, Preparation)):
        inner = getattr(part, "projection", None) or part
        return len(vars(inner).get("fill", vars(inner).get("mean", vars(inner).get("units"))))
    if isinstance(part, Calibration):
        return part.n_responses
    if isinstance(part, RowInputs):
        return 0
    for name in ("n_features_in_", "bandwidth_", "widths_"):
        if hasattr(part, name):
            value = getattr(part, name)
            return int(value if name == "n_features_in_" else np.shape(value)[-1])
    return 0


def _call(part: Any, method: str, rows: Any) -> None:
    if method == "compute":
        part.compute(rows, np.empty((rows.shape[0], part.n_features_out)))
    elif method == "gradients":
        part.gradients(rows, np.ones(part.n_features_out))
    elif method == "predict with deviations":
        part.predict(rows, return_std=True)
    elif method in ("score", "partial_fit"):
        targets = part.classes_[np.arange(20) % 2] if hasattr(part, "classes_") else Y[:20]
        getattr(part, method)(rows, targets)
    else:
        getattr(part, method)(rows)


def _other_columns(table: Table, width: str) -> Table:
    columns = {name: table.column(name) for name in table.names}
    if width == "one more":
        columns["f"] = X[: len(columns["a"]), 0]
    kept = {"one less": list(columns)[:-1], "a single one": ["a"]}.get(width, list(columns))
    return Table({name: columns[name] for name in kept})
