"""Error, time and memory of kernel approximations of increasing size."""

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

CostKind = Literal["time", "memory"]
Estimator: TypeAlias = KernelClassifier | KernelRegressor

_FIRST_SIZES = {"n_grids": 8, "n_components": 32}
_MIN_COST_GROWTH = 2.0  # Sizes double, so the next one costs at least twice as much.
_FEW_ROWS = 64


@dataclass(frozen=True, eq=False)
class TunedMethod:
    """A method with the hyperparameters selected by its search at a medium size.

    ``feature_map`` is unfitted and can be resized, ``bandwidth`` is in units of the scaled inputs,
    and ``model`` is the estimator fitted at the medium size. The search and that fit took
    ``seconds``.
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

    ``size`` counts grids, columns, landmarks or rows of a block; ``unit`` names which. ``n_bytes``
    is the size of the feature matrix of all training rows, if it is stored. ``seconds`` (features
    and solver) and ``predict_seconds`` (test rows) are medians over the seeds. ``error`` is the
    mean over the seeds of the misclassification rate, or of the RMSE divided by the standard
    deviation of the targets.
    """

    method: str
    size: int
    unit: str
    n_columns: int
    n_bytes: int
    seconds: float
    predict_seconds: float
    error: float

    def cost(self, kind: CostKind) -> float:
        """Return the training time in seconds, or the bytes of the features."""
        return self.seconds if kind == "time" else float(self.n_bytes)


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows; ``task`` is ``"classification"`` or ``"regression"``."""

    X: Rows
    y: AnyArray
    X_test: Rows
    y_test: AnyArray
    task: str

    def estimator(self, features: SizedMap, **settings: Any) -> Estimator:
        """Return an unfitted estimator with the seed and number of threads of the feature map."""
        estimator_class = KernelClassifier if self.task == "classification" else KernelRegressor
        return estimator_class(
            features,
            grids="random",
            relevance="equal",
            calibrate=False,
            random_state=features.random_state,
            n_jobs=features.n_jobs,
            **settings,
        )

    def error(self, predicted: AnyArray) -> float:
        """Return the misclassification rate, or the RMSE divided by the deviation of targets."""
        if self.task == "classification":
            return float(np.mean(predicted != self.y_test))
        return float(np.sqrt(np.mean((predicted - self.y_test) ** 2)) / self.y_test.std())


def template(method: str, split: Split, seed: int, n_jobs: int | None) -> SizedMap:
    """Return the feature map of a method for the inputs of a split, to be resized before a fit."""
    return named_map(method, shape_of(split.X), 1, None, seed, n_jobs)


def tune(
    method: str, feature_map: SizedMap, split: Split, seconds: float | None = None
) -> TunedMethod:
    """Select scaling, bandwidth and alpha by the estimators' own search, within ``seconds``."""
    started = time.perf_counter()
    medium_map = feature_map.sketch(feature_map.enough_to_search)
    model = split.estimator(medium_map, time_budget=seconds).fit(split.X, split.y)
    return TunedMethod(
        method,
        feature_map,
        model.settings_.scaling,
        model.bandwidth_,
        model.alpha_,
        time.perf_counter() - started,
        model,
    )


def measure_sizes(
    tuned: TunedMethod, split: Split, n_seeds: int, by: CostKind, budget: float
) -> Iterator[Outcome]:
    """Yield outcomes at doubling sizes, at least one, until the next would exceed the budget."""
    if not is_bounded_by_rows(tuned.feature_map):
        # Compiled loops are loaded on first use, and the first size is cheap.
        _fit_once(tuned, next(sizes(tuned.feature_map, len(split.y))), split, 0)
    for size in sizes(tuned.feature_map, len(split.y)):
        outcome = measure(tuned, size, split, n_seeds)
        yield outcome
        next_cost = _MIN_COST_GROWTH * outcome.cost(by)
        next_bytes = _MIN_COST_GROWTH * outcome.n_bytes
        if next_cost > budget or next_bytes > large_array_budget():
            return


def sizes(feature_map: SizedMap, n_rows: int) -> Iterator[int]:
    """Yield sizes for a map in increasing order, up to the number of rows if that bounds them."""
    if not isinstance(feature_map, ExactKernel):
        size = _FIRST_SIZES[feature_map.size_name]
        while size < n_rows or not is_bounded_by_rows(feature_map):
            yield size
            size *= 2
    yield n_rows


def is_bounded_by_rows(feature_map: SizedMap) -> bool:
    """Return whether the size of a map cannot exceed the number of rows."""
    return not (feature_map.size_name == "n_grids" or isinstance(feature_map, RandomFourier))


def measure(tuned: TunedMethod, size: int, split: Split, n_seeds: int) -> Outcome:
    """Fit one size with the selected hyperparameters, once for each seed."""
    runs = [_fit_once(tuned, size, split, k) for k in range(n_seeds)]
    return replace(
        runs[0],
        seconds=median(run.seconds for run in runs),
        predict_seconds=median(run.predict_seconds for run in runs),
        error=mean(run.error for run in runs),
    )


def scaled_rows(model: Estimator, X: Rows) -> AnyArray:
    """Return rows as a fitted estimator passes them to its feature map."""
    return model.scaler_.rows(model.inputs_.transform(model, X), model.n_jobs)


def _fit_once(tuned: TunedMethod, size: int, split: Split, k: int) -> Outcome:
    features: Any = tuned.feature_map
    if not isinstance(features, ExactKernel):
        features = features.resized(size)
        features.set_params(random_state=features.random_state + k)
    model = split.estimator(
        features, scaling=tuned.scaling, bandwidth=tuned.bandwidth, alpha=tuned.alpha
    )
    started = time.perf_counter()
    model.fit(split.X, split.y)
    fitted = time.perf_counter()
    predicted = model.predict(split.X_test)
    done = time.perf_counter()
    return Outcome(
        tuned.method,
        size,
        features.size_unit,
        model.features_.n_features_out,
        _feature_bytes(model, split),
        fitted - started,
        done - fitted,
        split.error(predicted),
    )


def _feature_bytes(model: Estimator, split: Split) -> int:
    """Extrapolate the bytes of the features of all rows from those of a few rows."""
    n_rows, few = len(split.y), min(_FEW_ROWS, len(split.y) // 2)
    indices = np.linspace(0, n_rows - 1, 2 * few).astype(np.intp)
    rows = scaled_rows(model, take_rows(split.X, indices))
    # Two sizes tell the bytes per row from the constant part.
    few_bytes, twice_bytes = (model.features_.rows_matrix(rows[:m]).nbytes for m in (few, 2 * few))
    return twice_bytes + (twice_bytes - few_bytes) * (n_rows - 2 * few) // few
