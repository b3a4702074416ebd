"""Approximations of kernels side by side: error against size, seconds and bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from statistics import mean, median
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gramless.base.errors import GramlessError, InputError
from gramless.base.memory import memory_budget
from gramless.base.types import AnyArray, FloatArray
from gramless.estimators.classifier import KernelClassifier
from gramless.estimators.features import named_map
from gramless.estimators.regressor import KernelRegressor
from gramless.features.base import SizedMap
from gramless.features.exact import ExactKernel
from gramless.features.fourier import RandomFourier
from gramless.features.registry import FEATURE_MAPS
from gramless.inspection.explanation import Rows, shape_of, take_rows

By = Literal["time", "memory"]
Estimator: TypeAlias = KernelClassifier | KernelRegressor

_FIRST_SIZES = {"n_grids": 8, "n_components": 32, "block_rows": 64}
_GROWTH = 2.0
"""Factor by which the next size costs more, at least."""
_FEW_ROWS = 64
_LEAST_SEARCH = 1e-3


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

    def as_dict(self) -> dict[str, object]:
        """Return the choices as plain data."""
        return {
            "method": self.method,
            "kernel": self.feature_map.check_parameters().to_config(),
            "scaling": self.scaling,
            "bandwidth": np.asarray(self.bandwidth).tolist(),
            "alpha": self.alpha,
            "seconds": self.seconds,
            "limits": self.model.limits_,
        }


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


@dataclass(frozen=True)
class Reached:
    """The least time and the least memory, each by itself, with which a method was good enough.

    Both are None if it was not at any size.
    """

    method: str
    seconds: float | None
    n_bytes: int | None


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of a comparison, which :func:`compare` returns.

    Attributes
    ----------
    by : {"time", "memory"}
        What methods are compared at.
    budget : float
        In seconds of a fit or in bytes of its features, as ``by`` says.
    chosen : list of Chosen
        Scaling, bandwidth and penalty of each method.
    outcomes : list of Outcome
        Sorted by size within each method; the last one may exceed the budget.
    left_out : dict
        Why a method was not tried, or not to the end.

    Examples
    --------
    >>> Comparison("time", 1.0, [], [], {"exact": "20,001 rows"}).best()
    []
    """

    by: By
    budget: float
    chosen: list[Chosen]
    outcomes: list[Outcome]
    left_out: dict[str, str]

    def of(self, method: str) -> list[Outcome]:
        """Return one method's outcomes by increasing size."""
        return [outcome for outcome in self.outcomes if outcome.method == method]

    def best(self) -> list[Outcome]:
        """Return the most accurate outcome of each method within the budget, best first."""
        found = []
        for chosen in self.chosen:
            within = [o for o in self.of(chosen.method) if o.cost(self.by) <= self.budget]
            found += [min(within, key=lambda o: o.error)] if within else []
        return sorted(found, key=lambda outcome: outcome.error)

    def to_reach(self, error: float) -> list[Reached]:
        """Return what each method needed for an error of at most ``error``.

        Parameters
        ----------
        error : float
            In the units of the outcomes.
        """
        found = []
        for chosen in self.chosen:
            good = [outcome for outcome in self.of(chosen.method) if outcome.error <= error]
            seconds = min((outcome.seconds for outcome in good), default=None)
            n_bytes = min((outcome.n_bytes for outcome in good), default=None)
            found.append(Reached(chosen.method, seconds, n_bytes))
        return found


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


def compare(
    X: Rows,
    y: ArrayLike,
    X_test: Rows,
    y_test: ArrayLike,
    *,
    task: str,
    methods: Sequence[str] = tuple(FEATURE_MAPS),
    by: By = "time",
    budget: float = 2.0,
    search_budget: float | None = None,
    n_seeds: int = 1,
    random_state: int = 0,
    n_jobs: int | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> Comparison:
    """Compare approximations of kernels at equal time or equal memory (RB16, Figure 5).

    Each method finds scaling, bandwidth and alpha once, by the search of the estimators at
    a middle size; relevance is equal and grids are random. Its size then doubles with
    these settings, until twice the cost of the last fit is more than the budget, or the
    method ends: landmarks at the number of rows, the exact kernel at once.

    Parameters
    ----------
    X, X_test : array, CSR matrix, data frame or Table (n_samples, n_features)
        Rows to learn from, and rows that judge.
    y, y_test : array-like (n_samples,)
        The test rows measure errors and decide nothing.
    task : {"classification", "regression"}
        Whether targets are classes or numbers.
    methods : sequence of str
        In ``FEATURE_MAPS``; by default all.
    by : {"time", "memory"}, default="time"
        Seconds of a fit with settings given, or bytes of the features of all its rows.
    budget : float, default=2.0
        Seconds or bytes.
    search_budget : float, optional
        Seconds after which a search tries nothing more.
    n_seeds : int, default=1
        Fits of each size.
    random_state : int, default=0
        The first seed, and that of the search.
    n_jobs : int or None
        Threads; None means every processor.
    report : callable
        Called with a line of text after each size.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        If a name, a number or the targets cannot be used.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(300, 2))
    >>> y = np.sin(X[:, 0])
    >>> parts = X[:200], y[:200], X[200:], y[200:]
    >>> options = {"methods": ["binning"], "by": "memory", "budget": 28_000}
    >>> found = compare(*parts, task="regression", **options)
    >>> [outcome.size for outcome in found.outcomes]
    [8, 16, 32, 64]
    """
    _check_options(task, methods, by, budget, search_budget, n_seeds)
    split = Split(X, np.asarray(y), X_test, np.asarray(y_test), task)
    _check_split(split)
    chosen: list[Chosen] = []
    outcomes: list[Outcome] = []
    left_out: dict[str, str] = {}
    for name in dict.fromkeys(methods):
        feature_map = template(name, split, random_state, n_jobs)
        reason = why_left_out(feature_map, len(split.y))
        if reason is not None:
            left_out[name] = reason
            continue
        report(f"{name}, search")
        try:
            chosen.append(choose(name, feature_map, split, search_budget))
            for outcome in climb(chosen[-1], split, n_seeds, by, budget):
                outcomes.append(outcome)
                report(f"{name}, {outcome.size:,} {outcome.unit}, error {outcome.error:.4g}")
        except GramlessError as fault:
            left_out[name] = str(fault)
    return Comparison(by, budget, chosen, outcomes, left_out)


def template(method: str, split: Split, seed: int, n_jobs: int | None) -> SizedMap:
    """Return the feature map of a method, of any size, for the inputs of a split."""
    return named_map(method, shape_of(split.X), 1, None, seed, n_jobs)


def why_left_out(feature_map: SizedMap, n_rows: int) -> str | None:
    """Return why a method cannot be used on so many rows, or None if it can."""
    if not isinstance(feature_map, ExactKernel) or n_rows <= feature_map.max_rows:
        return None
    return f"{n_rows:,} rows; ExactKernel takes at most {feature_map.max_rows:,}"


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
        if _GROWTH * outcome.cost(by) > budget or _GROWTH * outcome.n_bytes > memory_budget():
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
        model.features_._n_features_out,
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


def _check_options(
    task: str,
    methods: Sequence[str],
    by: str,
    budget: float,
    search_budget: float | None,
    n_seeds: int,
) -> None:
    if isinstance(methods, str) or not methods or not set(methods) <= set(FEATURE_MAPS):
        raise InputError(f"methods must be some of {', '.join(FEATURE_MAPS)}; got {methods!r}.")
    if task not in ("classification", "regression"):
        raise InputError(f"task must be 'classification' or 'regression', got {task!r}.")
    if by not in ("time", "memory"):
        raise InputError(f"by must be 'time' or 'memory', got {by!r}.")
    if not budget > 0 or not isinstance(n_seeds, Integral) or n_seeds < 1:
        raise InputError(
            f"compare needs a budget above 0 and at least one seed, got {budget!r} and {n_seeds!r}."
        )
    if search_budget is not None and not search_budget >= _LEAST_SEARCH:
        least = f"None or at least {_LEAST_SEARCH:g} seconds"
        raise InputError(f"compare: search_budget must be {least}, got {search_budget!r}.")


def _check_split(split: Split) -> None:
    if len(split.y) < 2 or len(split.y_test) == 0:
        raise InputError("compare needs two rows to learn from and a row to judge by.")
    for name, rows, targets in (("y", split.X, split.y), ("y_test", split.X_test, split.y_test)):
        n_rows, n_targets = shape_of(rows)[0], len(targets)
        if n_rows != n_targets:
            raise InputError(f"compare: {name} holds {n_targets:,} targets for {n_rows:,} rows.")
        is_finite = targets.dtype.kind in "biuf" and bool(np.isfinite(targets).all())
        if split.task == "regression" and not is_finite:
            raise InputError(f"compare: regression needs finite numbers, and {name} holds others.")
    if split.task == "regression" and not split.y_test.std() > 0:
        raise InputError("compare: the test targets are all equal; judge by others.")
