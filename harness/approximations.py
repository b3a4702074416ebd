"""Approximations of kernels side by side: error against size, seconds and bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Any, Literal, TypeAlias

import numpy as np

from gramless.base.memory import large_array_budget
from gramless.base.types import AnyArray, FloatArray
from gramless.datasets.table import take_rows
from gramless.estimators.classifier import KernelClassifier
from gramless.estimators.features import named_map
from gramless.estimators.regressor import KernelRegressor
from gramless.features.base import SizedMap
from gramless.features.exact import ExactKernel
from gramless.features.fourier import RandomFourier
from gramless.inspection.explanation import Rows, shape_of

By = Literal["time", "memory"]
Estimator: TypeAlias = KernelClassifier | KernelRegressor

_FIRST_SIZES = {"n_grids": 8, "n_components": 32}
_GROWTH = 2.0
"""Factor by which the next size costs more, at least."""
_FEW_ROWS = 64


@dataclass(frozen=True, eq=False)
class Chosen:
    """Hyperparameters that the search of one method found, at a middle size.

    ``feature_map`` is a template of which any size may be fitted, ``bandwidth`` is in units of the
    scaled inputs, and ``model`` is the fit at that size, which took ``seconds`` with the search.
    """

    method: str
    feature_map: SizedMap
    scaling: str
    bandwidth: float | FloatArray
    alpha: float
    seconds: float
    model: Estimator


@dataclass(frozen=True)
class Outcome:
    """The error and the costs of a method at one size.

    ``size`` counts grids, columns, landmarks or rows of a block, as ``unit`` says. ``n_bytes`` is
    what the features of all training rows take, stored in full. ``seconds`` (features and solver)
    and ``predict_seconds`` (test rows) are medians over the seeds; ``error``, their mean, is the
    share of wrong classes, or the RMSE over the targets' standard deviation.
    """

    method: str
    size: int
    unit: str
    n_columns: int
    n_bytes: int
    seconds: float
    predict_seconds: float
    error: float

    def cost(self, by: By) -> float:
        """Return seconds or bytes."""
        return self.seconds if by == "time" else float(self.n_bytes)


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows of a task, ``classification`` or ``regression``."""

    X: Rows
    y: AnyArray
    X_test: Rows
    y_test: AnyArray
    task: str

    def estimator(self, features: SizedMap, **settings: Any) -> Estimator:
        """Return an unfitted estimator with the seed and threads of the features."""
        kind = KernelClassifier if self.task == "classification" else KernelRegressor
        return kind(
            features,
            grids="random",
            relevance="equal",
            calibrate=False,
            random_state=features.random_state,
            n_jobs=features.n_jobs,
            **settings,
        )

    def error(self, predicted: AnyArray) -> float:
        """Return the share of wrong classes, or the RMSE over the targets' standard deviation."""
        if self.task == "classification":
            return float(np.mean(predicted != self.y_test))
        return float(np.sqrt(np.mean((predicted - self.y_test) ** 2)) / self.y_test.std())


def template(method: str, split: Split, seed: int, n_jobs: int | None) -> SizedMap:
    """Return the feature map of a method, of any size, for the inputs of a split."""
    return named_map(method, shape_of(split.X), 1, None, seed, n_jobs)


def choose(
    method: str, feature_map: SizedMap, split: Split, seconds: float | None = None
) -> Chosen:
    """Find scaling, bandwidth and alpha by the estimators' search, within ``seconds``."""
    started = time.perf_counter()
    middle = feature_map.sketch(feature_map.enough_to_search)
    model = split.estimator(middle, time_budget=seconds).fit(split.X, split.y)
    taken = time.perf_counter() - started
    found = (model.settings_.scaling, model.bandwidth_, model.alpha_)
    return Chosen(method, feature_map, *found, taken, model)


def climb(chosen: Chosen, split: Split, n_seeds: int, by: By, budget: float) -> Iterator[Outcome]:
    """Yield outcomes at doubling sizes, the first in any case, until the budget is reached."""
    if not ends_with_rows(chosen.feature_map):
        # Compiled loops are loaded on first use, and this size is cheap.
        _fit_once(chosen, next(sizes(chosen.feature_map, len(split.y))), split, 0)
    for size in sizes(chosen.feature_map, len(split.y)):
        outcome = measure(chosen, size, split, n_seeds)
        yield outcome
        if _GROWTH * outcome.cost(by) > budget or _GROWTH * outcome.n_bytes > large_array_budget():
            return


def sizes(feature_map: SizedMap, n_rows: int) -> Iterator[int]:
    """Yield a map's sizes in increasing order, up to the number of rows if that bounds them."""
    if not isinstance(feature_map, ExactKernel):
        size = _FIRST_SIZES[feature_map.size_name]
        while size < n_rows or not ends_with_rows(feature_map):
            yield size
            size *= 2
    yield n_rows


def ends_with_rows(feature_map: SizedMap) -> bool:
    """Tell whether a map can be no larger than the number of rows."""
    return not (feature_map.size_name == "n_grids" or isinstance(feature_map, RandomFourier))


def measure(chosen: Chosen, size: int, split: Split, n_seeds: int) -> Outcome:
    """Fit one size with the given hyperparameters, once for each seed."""
    runs = [_fit_once(chosen, size, split, k) for k in range(n_seeds)]
    return replace(
        runs[0],
        seconds=median(run.seconds for run in runs),
        predict_seconds=median(run.predict_seconds for run in runs),
        error=mean(run.error for run in runs),
    )


def scaled_rows(model: Estimator, X: Rows) -> AnyArray:
    """Return rows as the feature map of a fitted estimator takes them."""
    return model.scaler_.rows(model.inputs_.transform(model, X), model.n_jobs)


def _fit_once(chosen: Chosen, size: int, split: Split, k: int) -> Outcome:
    features: Any = chosen.feature_map
    if not isinstance(features, ExactKernel):
        features = features.resized(size)
        features.set_params(random_state=features.random_state + k)
    model = split.estimator(
        features, scaling=chosen.scaling, bandwidth=chosen.bandwidth, alpha=chosen.alpha
    )
    started = time.perf_counter()
    model.fit(split.X, split.y)
    fitted = time.perf_counter()
    predicted = model.predict(split.X_test)
    done = time.perf_counter()
    return Outcome(
        chosen.method,
        size,
        features.size_unit,
        model.features_.n_features_out,
        _bytes(model, split),
        fitted - started,
        done - fitted,
        split.error(predicted),
    )


def _bytes(model: Estimator, split: Split) -> int:
    """Extrapolate the bytes that the features of all rows take from those of a few."""
    n_rows, few = len(split.y), min(_FEW_ROWS, len(split.y) // 2)
    spread = np.linspace(0, n_rows - 1, 2 * few).astype(np.intp)
    rows = scaled_rows(model, take_rows(split.X, spread))
    one, two = (model.features_.rows_matrix(rows[:m]).nbytes for m in (few, 2 * few))
    return two + (two - one) * (n_rows - 2 * few) // few
