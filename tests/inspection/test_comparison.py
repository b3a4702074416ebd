"""Comparisons of approximations: sizes, budgets, costs, and what they come to."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.base.errors import InputError
from gramless.datasets import Table
from gramless.estimators.features import named_map
from gramless.features.exact import ExactKernel
from gramless.features.registry import FEATURE_MAPS
from gramless.inspection import comparison
from gramless.inspection.comparison import (
    Chosen,
    Comparison,
    Outcome,
    Reached,
    compare,
    sizes,
    why_left_out,
)

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(360, 2))
NUMBERS = np.sin(2 * X[:, 0]) + X[:, 1]
CLASSES = np.where(NUMBERS > 0, "above", "below")
TRAIN, TEST = slice(0, 240), slice(240, 360)


def run(y=NUMBERS, rows=X, **options):
    task = "regression" if y is NUMBERS else "classification"
    parts = (rows[TRAIN], y[TRAIN], rows[TEST], y[TEST])
    return compare(*parts, **{"task": task, "by": "memory", "methods": ["binning"], **options})


def judged(error, seconds=1.0, n_bytes=10, method="binning", size=8):
    return Outcome(method, size, "grids", 9, n_bytes, seconds, 0.1, error)


SETTINGS = {"scaling": "standard", "bandwidth": 1.0, "alpha": 1e-4}


@pytest.fixture
def given(monkeypatch):
    """Give every method its settings, so that nothing is searched."""

    def choose(method, feature_map, split, seconds):
        model = split.estimator(feature_map.sketch(8), **SETTINGS).fit(split.X, split.y)
        return Chosen(method, feature_map, *SETTINGS.values(), 0.1, model)

    monkeypatch.setattr(comparison, "choose", choose)


@pytest.fixture
def as_dear_as_large(given, monkeypatch):
    """Let fits take a second a hundred grids, so that budgets of time can be tested."""

    def timed(chosen, size, split, k):
        return judged(1.0 / size, seconds=size / 100, method=chosen.method, size=size)

    monkeypatch.setattr(comparison, "_fit_once", timed)


def test_an_outcome_is_that_of_the_estimator_with_the_settings_chosen(given):
    found = run(budget=24_000)
    outcome = found.outcomes[2]
    model = KernelRegressor(
        RandomBinning(n_grids=32, random_state=0),
        calibrate=False,
        **SETTINGS,
    ).fit(X[TRAIN], NUMBERS[TRAIN])
    errors = model.predict(X[TEST]) - NUMBERS[TEST]
    assert outcome.size == 32
    assert outcome.error == np.sqrt(np.mean(errors**2)) / NUMBERS[TEST].std()
    assert outcome.n_columns == model.features_.offsets_[-1]
    assert outcome.n_bytes == model.features_.rows_matrix(model.scaler_.rows(X[TRAIN])).nbytes


def test_the_choice_is_that_of_the_search_and_sees_no_test_rows():
    found = run(CLASSES, budget=2000).chosen[0]
    model = KernelClassifier(
        RandomBinning(n_grids=96),
        grids="random",
        relevance="equal",
        calibrate=False,
        random_state=0,
    ).fit(X[TRAIN], CLASSES[TRAIN])
    assert (found.bandwidth, found.alpha) == (model.bandwidth_, model.alpha_)
    assert found.scaling == model.settings_.scaling
    assert found.as_dict()["kernel"] == {"name": "laplacian"}


def test_errors_of_classes_are_shares(given):
    found = run(CLASSES, budget=30_000)
    shares = [outcome.error * 120 for outcome in found.outcomes]
    np.testing.assert_allclose(shares, np.round(shares), atol=1e-9)
    assert found.best()[0].error < 0.15


@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_every_method_learns(name, given):
    found = run(methods=[name], budget=400_000)
    assert found.left_out == {}
    assert [outcome.method for outcome in found.outcomes] == [name] * len(found.outcomes)
    assert min(outcome.error for outcome in found.outcomes) < 0.35
    counted = [outcome.n_bytes for outcome in found.outcomes]
    assert counted == sorted(counted)


def test_sizes_double_until_the_next_costs_too_much(as_dear_as_large):
    by_time = run(by="time", budget=1.0)
    assert [outcome.size for outcome in by_time.outcomes] == [8, 16, 32, 64]
    assert [outcome.size for outcome in run(by="time", budget=1e-9).outcomes] == [8]
    bytes_of = [outcome.n_bytes for outcome in run(by="memory", budget=19).outcomes]
    assert bytes_of == [10]


def test_memory_ends_what_time_allows(as_dear_as_large, monkeypatch):
    monkeypatch.setattr(comparison, "memory_budget", lambda: 19)
    assert len(run(by="time", budget=1e9).outcomes) == 1


def test_seeds_follow_each_other_and_are_averaged(given):
    one, two = (run(budget=4000, random_state=seed) for seed in (0, 0))
    assert one.outcomes[0].error == two.outcomes[0].error
    other = run(budget=4000, random_state=1)
    assert other.outcomes[0].error != one.outcomes[0].error
    several = run(budget=4000, n_seeds=3)
    errors = [run(budget=4000, random_state=seed).outcomes[0].error for seed in (0, 1, 2)]
    assert several.outcomes[0].error == pytest.approx(np.mean(errors))


def test_threads_change_no_error(given):
    one, two = (run(budget=20_000, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert [o.error for o in one.outcomes] == [o.error for o in two.outcomes]


def test_natural_ends():
    maps = {name: named_map(name, (100, 2), 1, None, 0, 1) for name in FEATURE_MAPS}
    assert list(sizes(maps["nystrom"], 100)) == [32, 64, 100]
    assert list(sizes(maps["nystrom"], 20)) == [20]
    assert list(sizes(maps["blocks"], 130)) == [64, 128, 130]
    assert list(sizes(maps["exact"], 100)) == [100]
    for name, first in (("binning", 8), ("smooth", 8), ("fourier", 32)):
        assert list(islice(sizes(maps[name], 10), 3)) == [first, 2 * first, 4 * first]


def test_too_many_rows_for_the_exact_kernel(monkeypatch):
    assert why_left_out(ExactKernel(max_rows=10), 10) is None
    assert "11 rows" in why_left_out(ExactKernel(max_rows=10), 11)
    assert why_left_out(RandomBinning(), 10**9) is None
    monkeypatch.setattr(comparison, "template", lambda *_: ExactKernel(max_rows=100))
    found = run(methods=["exact"])
    assert found.outcomes == found.chosen == found.best() == []
    assert found.left_out == {"exact": "240 rows; ExactKernel takes at most 100"}


def test_what_a_method_cannot_do_is_told(monkeypatch):
    def refuse(*_):
        raise InputError("no such rows")

    monkeypatch.setattr(comparison, "choose", refuse)
    assert run().left_out == {"binning": "no such rows"}


def test_what_a_size_cannot_do_is_told_beside_the_others(given, monkeypatch):
    def climb(chosen, *_):
        yield judged(0.5, method=chosen.method)
        raise InputError("too many alike")

    monkeypatch.setattr(comparison, "climb", climb)
    found = run(methods=["binning", "fourier"])
    assert found.left_out == dict.fromkeys(["binning", "fourier"], "too many alike")
    assert [outcome.method for outcome in found.outcomes] == ["binning", "fourier"]


def test_other_tables(given):
    frame = Table({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "up", "down").astype(object)})
    parts = frame.take_rows(TRAIN), NUMBERS[TRAIN], frame.take_rows(TEST), NUMBERS[TEST]
    options = {"task": "regression", "methods": ["binning"], "by": "memory", "budget": 2000}
    assert np.isfinite(compare(*parts, **options).outcomes[0].error)
    assert np.isfinite(run(rows=sp.csr_array(X), budget=2000).outcomes[0].error)


def test_targets_may_be_lists(given):
    parts = X[TRAIN], CLASSES[TRAIN].tolist(), X[TEST], CLASSES[TEST].tolist()
    options = {"task": "classification", "methods": ["binning"], "by": "memory", "budget": 2000}
    assert (
        compare(*parts, **options).outcomes[0].error == run(CLASSES, budget=2000).outcomes[0].error
    )


def test_progress_is_reported(given):
    lines = []
    run(budget=1, report=lines.append)
    assert lines[0] == "binning, search"
    assert lines[1].startswith("binning, 8 grids, error 0.")


def found_of(*outcomes, by="time", budget=2.0):
    chosen = [
        Chosen(name, RandomBinning(), "standard", 1.0, 1.0, 1.0, None)
        for name in dict.fromkeys(outcome.method for outcome in outcomes)
    ]
    return Comparison(by, budget, chosen, list(outcomes), {})


def test_the_best_within_the_budget():
    good, better = judged(0.3, seconds=1.0), judged(0.2, seconds=3.0, n_bytes=1)
    other, dear = judged(0.1, method="fourier"), judged(0.05, seconds=9.0, method="nystrom")
    assert found_of(good, better, other, dear).best() == [other, good]
    assert found_of(good, better, by="memory", budget=5).best() == [better]


def test_what_an_error_costs():
    outcomes = [judged(0.3, 1.0, 90), judged(0.2, 3.0, 50), judged(0.2, 2.0, 70), judged(0.4)]
    found = found_of(*outcomes)
    assert found.to_reach(0.2) == [Reached("binning", 2.0, 50)]
    assert found.to_reach(0.3) == [Reached("binning", 1.0, 50)]
    assert found.to_reach(0.1) == [Reached("binning", None, None)]
    both = found_of(*outcomes, judged(0.1, method="fourier"))
    assert [one.method for one in both.to_reach(0.2)] == ["binning", "fourier"]


WRONG = {
    "method": ({"methods": ["binning", "forest"]}, "methods must be some of"),
    "none": ({"methods": []}, "methods must be some of"),
    "task": ({"task": "ranking"}, "task must be 'classification' or 'regression'"),
    "by": ({"by": "luck"}, "by must be 'time' or 'memory'"),
    "budget": ({"budget": 0.0}, "a budget above 0"),
    "nan": ({"budget": np.nan}, "a budget above 0"),
    "seeds": ({"n_seeds": 0}, "at least one seed"),
    "half a seed": ({"n_seeds": 1.5}, "at least one seed"),
    "one method": ({"methods": "binning"}, "methods must be some of .* got 'binning'"),
    "search": ({"search_budget": 0.0}, "search_budget must be None or at least"),
    "gap": ({"y": np.where(X[:, 0] > 1, np.nan, 1.0), "task": "regression"}, "finite numbers"),
    "text": ({"y": CLASSES, "task": "regression"}, "regression needs finite numbers"),
    "too few": ({"y": CLASSES[:300]}, "y_test holds 60 targets for 120 rows"),
    "targets": ({"rows": X, "y": np.ones(360), "task": "regression"}, "are all equal"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options(name):
    options, said = WRONG[name]
    with pytest.raises(InputError, match=said):
        run(**options)


def test_an_empty_part():
    for few, judges in ((slice(None), slice(0)), (slice(1), slice(None))):
        with pytest.raises(InputError, match="a row to judge by"):
            compare(X[few], NUMBERS[few], X[judges], NUMBERS[judges], task="regression")
