"""Approximations of kernels at several sizes: which sizes, budgets, costs and errors."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.estimators.features import named_map
from gramless.features.registry import FEATURE_MAPS
from harness import approximations
from harness.approximations import Chosen, Outcome, Split, choose, climb, measure, sizes, template

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(360, 2))
NUMBERS = np.sin(2 * X[:, 0]) + X[:, 1]
CLASSES = np.where(NUMBERS > 0, "above", "below")
TRAIN, TEST = slice(0, 240), slice(240, 360)
SETTINGS = {"scaling": "standard", "bandwidth": 1.0, "alpha": 1e-4}


def split_of(y=NUMBERS):
    task = "regression" if y is NUMBERS else "classification"
    return Split(X[TRAIN], y[TRAIN], X[TEST], y[TEST], task)


def given(split, name="binning"):
    """Return a method with settings, so that nothing is searched."""
    features = template(name, split, 0, None)
    model = split.estimator(features.sketch(8), **SETTINGS).fit(split.X, split.y)
    return Chosen(name, features, *SETTINGS.values(), 0.1, model)


def judged(error, seconds=1.0, n_bytes=10, method="binning", size=8):
    return Outcome(method, size, "grids", 9, n_bytes, seconds, 0.1, error)


@pytest.fixture
def as_dear_as_large(monkeypatch):
    """Let fits take a second a hundred grids, so that budgets of time can be tested."""

    def timed(chosen, size, split, k):
        return judged(1.0 / size, seconds=size / 100, method=chosen.method, size=size)

    monkeypatch.setattr(approximations, "_fit_once", timed)


def test_an_outcome_is_that_of_the_estimator_with_the_settings_chosen():
    split = split_of()
    outcome = measure(given(split), 32, split, 1)
    model = KernelRegressor(RandomBinning(n_grids=32, random_state=0), calibrate=False, **SETTINGS)
    model.fit(X[TRAIN], NUMBERS[TRAIN])
    errors = model.predict(X[TEST]) - NUMBERS[TEST]
    assert outcome.error == np.sqrt(np.mean(errors**2)) / NUMBERS[TEST].std()
    assert outcome.n_columns == model.features_.offsets_[-1]
    assert outcome.n_bytes == model.features_.rows_matrix(model.scaler_.rows(X[TRAIN])).nbytes


def test_the_choice_is_that_of_the_search_and_sees_no_test_rows():
    split = split_of(CLASSES)
    found = choose("binning", template("binning", split, 0, None), split)
    model = KernelClassifier(
        RandomBinning(n_grids=96),
        grids="random",
        relevance="equal",
        calibrate=False,
        random_state=0,
    ).fit(X[TRAIN], CLASSES[TRAIN])
    assert (found.bandwidth, found.alpha) == (model.bandwidth_, model.alpha_)
    assert found.scaling == model.settings_.scaling


def test_errors_of_classes_are_shares():
    split = split_of(CLASSES)
    share = measure(given(split), 32, split, 1).error * 120
    assert share == pytest.approx(round(share), abs=1e-9)
    assert share < 18


def test_every_method_learns():
    for name in FEATURE_MAPS:
        split = split_of()
        outcomes = list(climb(given(split, name), split, 1, "memory", 400_000))
        assert min(outcome.error for outcome in outcomes) < 0.35
        counted = [outcome.n_bytes for outcome in outcomes]
        assert counted == sorted(counted)


def test_sizes_double_until_the_next_costs_too_much(as_dear_as_large, monkeypatch):
    split = split_of()

    def tried(by, budget):
        return [outcome.size for outcome in climb(given(split), split, 1, by, budget)]

    assert tried("time", 1.0) == [8, 16, 32, 64]
    assert tried("time", 1e-9) == [8]
    assert tried("memory", 19) == [8]
    monkeypatch.setattr(approximations, "large_array_budget", lambda: 19)
    assert tried("time", 1e9) == [8]


def test_seeds_follow_each_other_and_are_averaged():
    split = split_of()
    chosen = given(split)
    alone = [approximations._fit_once(chosen, 8, split, k).error for k in range(3)]
    assert len(set(alone)) == 3
    assert measure(chosen, 8, split, 3).error == pytest.approx(np.mean(alone))


def test_natural_ends():
    maps = {name: named_map(name, (100, 2), 1, None, 0, 1) for name in FEATURE_MAPS}
    assert list(sizes(maps["nystrom"], 100)) == [32, 64, 100]
    assert list(sizes(maps["nystrom"], 20)) == [20]
    assert list(sizes(maps["exact"], 100)) == [100]
    for name, first in (("binning", 8), ("smooth", 8), ("fourier", 32)):
        assert list(islice(sizes(maps[name], 10), 3)) == [first, 2 * first, 4 * first]
