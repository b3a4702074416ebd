"""Which method suits a table: quick fits on a sample of its rows, and what they say."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.multiclass import type_of_target

from gramless.base.errors import InputError
from gramless.base.random import RandomState, seed_from, stream
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.datasets.table import take_rows
from gramless.estimators.classifier import KernelClassifier
from gramless.estimators.inputs import RowInputs
from gramless.estimators.regressor import KernelRegressor
from gramless.features.nystrom import Nystrom
from gramless.inspection.explanation import Rows, shape_of
from gramless.preprocessing.rows import Rows as NumberRows

MOST_ROWS, MOST_TEST_ROWS, MOST_SMOOTH_ROWS = 3000, 2000, 2000
"""Of a sample: to fit, to judge by, and to fit support vector machines and Nyström features."""
_LANDMARKS = 300
"""As many as show whether Gaussian kernels suit a table; a thousand take three times as long."""
_FEW_ROWS, _SPLITS, _TEST_SHARE = 1500, 3, 0.25
"""Below so many rows several splits judge, each by a quarter of the rows."""
_LEAST_ROWS = 40
_HUGE = 1e100
"""Columns with larger values are divided by the largest of them."""
_FEW_VALUES = 20
"""Whole numbers of at most so many values are classes, if nothing else is said."""
_MOST_COLUMNS = 2000
"""Dense columns, of which methods without an own treatment of sparse rows make a copy."""
_MOST_CATEGORIES = 200
_NOISE, _LONG = 0.9, 600.0
"""The least error from which it is said that little can be predicted; seconds that are long."""
_LEVEL = 2.0
"""Standard errors: who is no further behind cannot be told from the least error."""
_NEAR = 1.1
"""Methods are told apart in words where one has a tenth more error than the other."""
OURS = ("gramless, effort=1", "gramless", "gramless, Nyström")
METHODS = ("linear model", "boosted trees", "RBF support vectors", *OURS)
_SMOOTH = ("RBF support vectors", "gramless, Nyström")
_LOCAL = ("boosted trees", "gramless, effort=1", "gramless")


@dataclass(frozen=True)
class Method:
    """A method that is tried, unfitted; n rows take about ``n**growth`` times as long as one."""

    name: str
    code: str
    estimator: BaseEstimator
    growth: float = 1.0
    most_rows: int | None = None


@dataclass(frozen=True)
class Trial:
    """What a method did on the sample.

    ``error`` is the share of wrong classes, or the RMSE over the standard deviation of the targets;
    ``behind`` is by how many standard errors, of the mean over the test rows, its loss is above the
    least. ``fit_seconds`` are of the sample's ``n_rows``; ``all_rows_seconds`` extrapolates them
    to the whole table.
    """

    method: str
    code: str
    n_rows: int
    error: float
    behind: float
    fit_seconds: float
    predict_seconds: float
    all_rows_seconds: float


@dataclass(frozen=True, eq=False)
class Recommendation:
    """What :func:`recommend` found.

    Attributes
    ----------
    method, code : str
        The method that suits best, and the expression that makes it.
    estimator : estimator
        It, unfitted. Those of gramless take the table as it is; others rows of numbers, in which
        categories are codes.
    gramless_code : str
        The best of gramless, which another method may have beaten; empty where none was tried.
    reasons : list of str
        Sentences, the decisive one first.
    trials : list of Trial
        By increasing error.
    task : str
    n_rows, n_features : int
        Of the whole table.
    """

    method: str
    code: str
    estimator: BaseEstimator = field(repr=False)
    gramless_code: str
    reasons: list[str]
    trials: list[Trial]
    task: str
    n_rows: int
    n_features: int

    def __str__(self) -> str:
        rows = [("", "error", "seconds", f"of {self.n_rows:,} rows")]
        for one in self.trials:
            times = f"{one.fit_seconds:.2g}", f"{one.all_rows_seconds:.2g}"
            rows.append((one.method, f"{one.error:.4g}", *times))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if i else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        return "\n".join([self.code, *(f"- {reason}" for reason in self.reasons), *lines])


def recommend(
    X: Rows,
    y: ArrayLike,
    *,
    task: str = "auto",
    methods: Sequence[str] | None = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> Recommendation:
    """Say which method suits a table, and why, by quick fits on a sample of its rows.

    A linear model, support vector machines with a Gaussian kernel, boosted trees (LightGBM where it
    is installed, else scikit-learn's) and three fits of gramless learn from at most 3,000 rows, and
    up to 2,000 others judge them. Of those whose errors are within two standard errors of the
    least, the one is taken whose fit to all rows would be done first. That may not be gramless.

    Parameters
    ----------
    X : array-like, sparse matrix, data frame or Table (n_samples, n_features)
        Rows of the table.
    y : array-like (n_samples,)
        Numbers or labels.
    task : {"auto", "regression", "classification"}, default="auto"
        "auto" takes text, truth values, two values and up to 20 whole numbers for classes.
    methods : sequence of str, optional
        What to try, of ``METHODS``; all by default.
    random_state : int, RandomState or None, default=0
        Decides which rows are drawn, and is the seed of every method.
    n_jobs : int or None, default=None
        Threads of gramless; None means every processor.
    report : callable, optional
        Called with a line of text before each fit.

    Returns
    -------
    Recommendation

    Raises
    ------
    InputError
        If rows are fewer than 40, targets are not one column, or a parameter is wrong.

    Notes
    -----
    Some ten seconds on two cores, whatever the number of rows. The sample says what is best for so
    many rows; methods that follow every detail gain most by more. Rows are drawn at random: where
    rows come in time or in groups, judge with ``cv`` of the estimators.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> tried = ["linear model", "gramless, effort=1"]
    >>> found = recommend(X, X @ [1.0, 2.0, 0.5], methods=tried)
    >>> found.method
    'linear model'
    """
    seed = seed_from(random_state)
    if methods is not None and not 0 < len(set(methods)) == len(set(methods) & set(METHODS)):
        raise InputError(f"recommend: methods must be some of {METHODS}, got {methods!r}.")
    n_rows, n_features = shape_of(X)
    targets = _targets(y, n_rows)
    task = _task(targets, task)
    splits = list(_splits(targets, task, seed))
    sample = np.unique(np.concatenate([rows for split in splits for rows in split]))
    rows, categorical = _numbers(take_rows(X, sample), targets[sample], task)
    places = [tuple(np.searchsorted(sample, part) for part in split) for split in splits]
    known: dict[str, tuple[FloatArray, Trial]] = {}
    tried = [
        method
        for method in methods_for(task, categorical, seed, n_jobs, sp.issparse(rows))
        if methods is None or method.name in methods
    ]
    for method in tried:
        report(method.name)
        known[method.name] = _judged(method, rows, targets[sample], task, places, n_rows)
    trials = _ranked(known)
    best = _choose(trials)
    estimator = next(method.estimator for method in tried if method.name == best.method)
    ours = [one for one in trials if one.method in OURS]
    own = _choose(ours) if ours else None
    reasons = list(_reasons(best, own, trials, task, n_rows))
    if sp.issparse(rows):
        dense = "trees and Gaussian kernels, which make them dense, are not tried"
        reasons.append(f"Rows are sparse: {dense}.")
    return Recommendation(
        best.method,
        best.code,
        estimator,
        own.code if own else "",
        reasons,
        trials,
        task,
        n_rows,
        n_features,
    )


def _judged(
    method: Method,
    rows: NumberRows,
    targets: AnyArray,
    task: str,
    splits: list[tuple[IntArray, ...]],
    n_rows: int,
) -> tuple[FloatArray, Trial]:
    """Return the loss of each test row, and the trial."""
    parts, seconds, predicting, fitted = [], 0.0, 0.0, 0
    for train, test in splits:
        own = train[: method.most_rows]
        model = clone(method.estimator)
        started = time.perf_counter()
        with warnings.catch_warnings():
            # A method to compare with need not converge.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows[own], targets[own])
        done = time.perf_counter()
        predicted, truth = model.predict(rows[test]), targets[test]
        seconds, predicting = seconds + done - started, predicting + time.perf_counter() - done
        fitted += len(own)
        if task == "classification":
            parts.append((predicted != truth).astype(np.float64))
        else:
            parts.append(np.asarray((predicted - truth) ** 2 / targets.var()))
    losses = np.concatenate(parts)
    mean, seconds, fitted = float(losses.mean()), seconds / len(splits), fitted // len(splits)
    trial = Trial(
        method.name,
        method.code,
        fitted,
        mean if task == "classification" else float(np.sqrt(mean)),
        0.0,
        seconds,
        predicting / len(splits),
        seconds * max(1.0, n_rows / fitted) ** method.growth,
    )
    return losses, trial


def methods_for(
    task: str, categorical: BoolArray, seed: int, n_jobs: int | None, is_sparse: bool
) -> Iterator[Method]:
    """Yield what is tried of rows of numbers, some of whose columns are categories.

    The cheapest method comes first.
    """
    classes = task == "classification"
    kernel = KernelClassifier if classes else KernelRegressor
    linear, trees, svm = (
        ("LogisticRegression(max_iter=1000)", "HistGradientBoostingClassifier", "SVC")
        if classes
        else ("RidgeCV(np.logspace(-3, 3, 7))", "HistGradientBoostingRegressor", "SVR")
    )
    last = LogisticRegression(max_iter=1000) if classes else RidgeCV(np.logspace(-3, 3, 7))
    estimator = make_pipeline(_prepared(categorical, is_sparse), last)
    yield Method("linear model", f"make_pipeline(StandardScaler(), {linear})", estimator)
    if not is_sparse and len(categorical) <= _MOST_COLUMNS:
        if find_spec("lightgbm"):
            trees = "LGBMClassifier" if classes else "LGBMRegressor"
        yield Method("boosted trees", f"{trees}()", _trees(classes, categorical, seed))
        code = f"make_pipeline(StandardScaler(), {svm}(C=..., gamma=...))"
        machine = _svm(classes, categorical, seed)
        yield Method("RBF support vectors", code, machine, 2.0, MOST_SMOOTH_ROWS)
    mask: BoolArray | str = categorical if categorical.any() else "auto"
    ours = partial(kernel, categorical_features=mask, random_state=seed, n_jobs=n_jobs)
    name = kernel.__name__
    yield Method("gramless, effort=1", f"{name}(effort=1)", ours(effort=1))
    yield Method("gramless", f"{name}()", ours())
    if not is_sparse:
        smooth = ours(features=Nystrom(n_components=_LANDMARKS))
        yield Method("gramless, Nyström", f'{name}("nystrom")', smooth, most_rows=MOST_SMOOTH_ROWS)


def _prepared(categorical: BoolArray, is_sparse: bool = False) -> BaseEstimator:
    """Return what makes columns of like size of numbers, and a column of each category."""
    if not categorical.any():
        return StandardScaler(with_mean=not is_sparse)
    codes = OneHotEncoder(handle_unknown="ignore", max_categories=_MOST_CATEGORIES)
    return ColumnTransformer(
        [("codes", codes, categorical), ("numbers", StandardScaler(), ~categorical)]
    )


def _svm(classes: bool, categorical: BoolArray, seed: int) -> BaseEstimator:
    machine = SVC() if classes else SVR(epsilon=0.05)
    name = type(machine).__name__.lower()
    widths = np.array([0.3, 1.0]) / max(1, len(categorical))
    grid = {f"{name}__C": [1.0, 10.0, 100.0], f"{name}__gamma": widths}
    folds = ShuffleSplit(1, test_size=_TEST_SHARE, random_state=seed)
    search = GridSearchCV(make_pipeline(_prepared(categorical), machine), grid, cv=folds)
    return search if classes else TransformedTargetRegressor(search, transformer=StandardScaler())


def _trees(classes: bool, categorical: BoolArray, seed: int) -> BaseEstimator:
    n_codes = int(categorical.sum())
    codes = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=_MOST_CATEGORIES
    )
    first = ColumnTransformer([("codes", codes, categorical)], remainder="passthrough")
    if find_spec("lightgbm"):
        import lightgbm

        kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
        given: dict[str, Any] = {"categorical_feature": list(range(n_codes))} if n_codes else {}
        return make_pipeline(first, kind(random_state=seed, verbose=-1, **given))
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return make_pipeline(first, kind(categorical_features=range(n_codes), random_state=seed))


def _targets(y: ArrayLike, n_rows: int) -> AnyArray:
    targets = np.asarray(y)
    if targets.ndim != 1 or len(targets) != n_rows:
        raise InputError(
            f"recommend: y must be one target a row, {n_rows:,} in one column; got an array of "
            f"shape {targets.shape}."
        )
    if n_rows < _LEAST_ROWS:
        raise InputError(
            f"recommend: {n_rows} rows are too few to judge methods by; give {_LEAST_ROWS} or more."
        )
    return targets


def _task(y: AnyArray, asked: str) -> str:
    if asked not in ("auto", "regression", "classification"):
        raise InputError(
            f"recommend: task must be 'auto', 'regression' or 'classification', got {asked!r}."
        )
    numbers = y.dtype.kind in "iuf"
    if numbers and not np.isfinite(y).all():
        raise InputError("recommend: y holds missing or infinite numbers; drop those rows.")
    if asked == "auto":
        continuous = numbers and type_of_target(y).startswith("continuous")
        many = numbers and len(np.unique(y)) > _FEW_VALUES
        two = len(np.unique(y)) == 2
        asked = "regression" if (continuous and not two) or many else "classification"
    if asked == "regression" and (not numbers or y.std() == 0):
        raise InputError("recommend: regression needs numbers in y that are not all equal.")
    if asked == "classification" and len(np.unique(y)) < 2:
        raise InputError("recommend: y holds one class; classification needs at least two.")
    return asked


def _splits(y: AnyArray, task: str, seed: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield numbers of rows to fit and to judge by, of which each class has its share."""
    generator = stream(seed, "recommendation")
    few = len(y) < _FEW_ROWS
    for _ in range(_SPLITS if few else 1):
        order = generator.permutation(len(y))
        n_test = min(MOST_TEST_ROWS, int(_TEST_SHARE * len(y)))
        test, train = order[:n_test], order[n_test : n_test + MOST_ROWS]
        if task == "classification":
            # Each class has rows to fit, those of rare ones before others.
            missing = np.setdiff1d(np.unique(y[order]), np.unique(y[train]))
            extra = [order[y[order] == label][:1] for label in missing]
            train = np.concatenate([*extra, train])
            test = test[~np.isin(test, train)]
        yield train, test


def _numbers(X: Rows, y: AnyArray, task: str) -> tuple[NumberRows, BoolArray]:
    """Return the rows as numbers without gaps, and which of their columns are categories."""
    owner = KernelClassifier() if task == "classification" else KernelRegressor()
    inputs, rows, _ = RowInputs.fit(owner, X, y, "auto", {})
    mask = np.zeros(rows.shape[1], bool) if inputs.categorical is None else inputs.categorical
    if not sp.issparse(rows):
        # Squares of huge values overflow in some methods; units matter to none.
        sizes = np.abs(rows).max(axis=0, initial=0.0)
        if sizes.max(initial=0.0) > _HUGE:
            rows = rows / np.where(sizes > _HUGE, sizes, 1.0)
    return rows, mask


def _ranked(known: dict[str, tuple[FloatArray, Trial]]) -> list[Trial]:
    """Return the trials by increasing error, with how far each is behind the first."""
    least = min((losses for losses, _ in known.values()), key=lambda losses: losses.mean())
    found = []
    for losses, trial in known.values():
        more = losses - least
        spread = float(more.std() / np.sqrt(len(more)))
        behind = float(more.mean()) / spread if spread > 0.0 else 0.0
        found.append(replace(trial, behind=behind))
    return sorted(found, key=attrgetter("error"))


def _choose(trials: list[Trial]) -> Trial:
    """Return the quickest of those whose errors cannot be told from the least."""
    level = [one for one in trials if one.behind <= trials[0].behind + _LEVEL]
    return min(level, key=lambda one: one.all_rows_seconds)


def _reasons(
    best: Trial, own: Trial | None, trials: list[Trial], task: str, n_rows: int
) -> Iterator[str]:
    """Yield sentences that say why, the decisive one first."""
    least = trials[0]
    measure = "wrong" if task == "classification" else "of the standard deviation"
    if best is least:
        yield f"It has the least error on held-back rows: {best.error:.3g} {measure}."
    else:
        yield (
            f"Its error, {best.error:.3g} {measure}, cannot be told from the least, "
            f"{least.error:.3g} of {least.method}, and it would be done with all rows in "
            f"{best.all_rows_seconds:.2g} s instead of {least.all_rows_seconds:.2g}."
        )
    if own and best is not own:
        yield (
            f"Of gramless take {own.code}: {own.error:.3g} in {own.fit_seconds:.2g} s instead of "
            f"{best.error:.3g} in {best.fit_seconds:.2g}."
        )
    if task == "regression" and least.error > _NOISE:
        yield "Hardly anything can be predicted: all methods are near the mean of the targets."
    else:
        yield from _shape_of_truth({one.method: one for one in trials})
    if best.all_rows_seconds > _LONG:
        yield (
            f"All {n_rows:,} rows would take some {best.all_rows_seconds / 60:.0f} minutes; "
            "time_budget= keeps a fit of gramless within its seconds."
        )


def _shape_of_truth(trials: dict[str, Trial]) -> Iterator[str]:
    """Yield what the errors of the methods say about the truth."""
    linear = trials.get("linear model")
    if linear is not None and linear.behind <= _LEVEL and len(trials) > 1:
        yield "The truth seems linear: nothing predicts better than a linear model."
        return
    smooth, local = (
        min(
            (trials[name] for name in names if name in trials),
            key=attrgetter("error"),
            default=None,
        )
        for names in (_SMOOTH, _LOCAL)
    )
    if smooth is None or local is None:
        return
    of_local, of_smooth = (f"{one.method} ({one.error:.3g})" for one in (local, smooth))
    if smooth.error * _NEAR < local.error:
        yield f"The truth seems smooth: {of_smooth} predicts better than {of_local}."
    elif local.error * _NEAR < smooth.error:
        yield (
            f"The truth has steps, or depends on a few columns at a time: {of_local} predicts "
            f"better than {of_smooth}."
        )
    else:
        yield f"Neither steps nor smoothness stand out: {of_local} and {of_smooth} are near."
