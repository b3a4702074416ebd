"""Test the sizes, budgets, costs and errors of kernel approximations."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.estimators.features import named_map
from gramless.features.registry import FEATURE_MAPS
from harness import approximations
from harness.approximations import (
    Outcome,
    Split,
    TunedMethod,
    measure,
    measure_sizes,
    sizes,
    template,
    tune,
)

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(360, 2))
NUMBERS = np.sin(2 * X[:, 0]) + X[:, 1]
CLASSES = np.where(NUMBERS > 0, "above", "below")
TRAIN, TEST = slice(0, 240), slice(240, 360)
SETTINGS = {"scaling": "standard", "bandwidth": 1.0, "alpha": 1e-4}


def split_of(y=NUMBERS):
    task = "regression" if y is NUMBERS else "classification"
    return Split(X[TRAIN], y[TRAIN], X[TEST], y[TEST], task)


def without_search(split, name="binning"):
    """Return a method with fixed settings."""
    features = template(name, split, 0, None)
    model = split.estimator(features.sketch(8), **SETTINGS).fit(split.X, split.y)
    return TunedMethod(name, features, *SETTINGS.values(), 0.1, model)


@pytest.fixture
def seconds_by_size(monkeypatch):
    """Let a fit take one second per 100 grids, so that time budgets can be tested."""

    def fit_once(tuned, size, split, k):
        return Outcome(tuned.method, size, "grids", 9, 10, size / 100, 0.1, 1.0 / size)

    monkeypatch.setattr(approximations, "_fit_once", fit_once)


def test_outcome_equals_that_of_the_estimator_with_these_settings():
    split = split_of()
    outcome = measure(without_search(split), 32, split, 1)
    model = KernelRegressor(RandomBinning(n_grids=32, random_state=0), calibrate=False, **SETTINGS)
    model.fit(X[TRAIN], NUMBERS[TRAIN])
    errors = model.predict(X[TEST]) - NUMBERS[TEST]
    assert outcome.error == np.sqrt(np.mean(errors**2)) / NUMBERS[TEST].std()
    assert outcome.n_columns == model.features_.offsets_[-1]
    assert outcome.n_bytes == model.features_.rows_matrix(model.scaler_.rows(X[TRAIN])).nbytes


def test_tune_selects_as_the_estimator_does_from_training_rows():
    split = split_of(CLASSES)
    tuned = tune("binning", template("binning", split, 0, None), split)
    model = KernelClassifier(
        RandomBinning(n_grids=96),
        grids="random",
        relevance="equal",
        calibrate=False,
        random_state=0,
    ).fit(X[TRAIN], CLASSES[TRAIN])
    assert (tuned.bandwidth, tuned.alpha) == (model.bandwidth_, model.alpha_)
    assert tuned.scaling == model.settings_.scaling


def test_error_of_classes_is_the_misclassification_rate():
    split = split_of(CLASSES)
    n_wrong = measure(without_search(split), 32, split, 1).error * 120
    assert n_wrong == pytest.approx(round(n_wrong), abs=1e-9)
    assert n_wrong < 18


def test_every_method_learns():
    for name in FEATURE_MAPS:
        split = split_of()
        outcomes = list(measure_sizes(without_search(split, name), split, 1, "memory", 400_000))
        assert min(outcome.error for outcome in outcomes) < 0.35
        n_bytes = [outcome.n_bytes for outcome in outcomes]
        assert n_bytes == sorted(n_bytes)


def test_sizes_double_until_the_next_costs_too_much(seconds_by_size, monkeypatch):
    split = split_of()
    tuned = without_search(split)

    def measured_sizes(by, budget):
        return [outcome.size for outcome in measure_sizes(tuned, split, 1, by, budget)]

    assert measured_sizes("time", 1.0) == [8, 16, 32, 64]
    assert measured_sizes("time", 1e-9) == [8]
    assert measured_sizes("memory", 19) == [8]
    monkeypatch.setattr(approximations, "large_array_budget", lambda: 19)
    assert measured_sizes("time", 1e9) == [8]


def test_errors_are_averaged_over_consecutive_seeds():
    split = split_of()
    tuned = without_search(split)
    errors = [approximations._fit_once(tuned, 8, split, k).error for k in range(3)]
    assert len(set(errors)) == 3
    assert measure(tuned, 8, split, 3).error == pytest.approx(np.mean(errors))


def test_largest_sizes():
    maps = {name: named_map(name, (100, 2), 1, None, 0, 1) for name in FEATURE_MAPS}
    assert list(sizes(maps["nystrom"], 100)) == [32, 64, 100]
    assert list(sizes(maps["nystrom"], 20)) == [20]
    assert list(sizes(maps["exact"], 100)) == [100]
    for name, first in (("binning", 8), ("smooth", 8), ("fourier", 32)):
        assert list(islice(sizes(maps[name], 10), 3)) == [first, 2 * first, 4 * first]
