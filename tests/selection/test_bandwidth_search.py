"""The search, seen through the estimators: what it finds, respects and repeats."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.datasets.generators import friedman1
from gramless.selection.bandwidth_search import BandwidthSearch
from harness.waves import make_regression_like

from .tasks import make_task

Table = tuple[NDArray[np.float64], NDArray[np.float64]]


def regressor(n_grids: int = 16, **options: Any) -> KernelRegressor:
    return KernelRegressor(RandomBinning(n_grids=n_grids), **{"random_state": 0, **options})


@pytest.fixture(scope="module")
def small() -> Table:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(120, 3))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]


@pytest.fixture(scope="module")
def plain(small: Table) -> KernelRegressor:
    return regressor().fit(*small)


def waves(n_rows: int) -> Table:
    return make_regression_like(n_rows, 2, seed=1, dtype=np.float64)


def noisy(n_rows: int) -> Table:
    return friedman1(n_rows, 6, seed=3, noise=8.0)


@pytest.mark.slow
@pytest.mark.parametrize(("table", "slack"), [(waves, 1.1), (noisy, 1.03)])
def test_search_is_nearly_as_good_as_a_grid_of_settings(table: Any, slack: float) -> None:
    X, y = table(2600)
    fixed = {"scaling": "standard", "relevance": "equal", "n_grids": 96}
    result = regressor(**fixed).fit(X[:600], y[:600])
    spread, scores = result.scaler_.spread, {}
    alphas = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
    for factor, alpha in itertools.product(2.0 ** np.arange(-6, 4), alphas):
        model = regressor(**fixed, bandwidth=factor * spread, alpha=alpha)
        scores[factor, alpha] = 1 - model.fit(X[:600], y[:600]).score(X[600:], y[600:])
    best = min(scores, key=scores.__getitem__)
    assert 1 - result.score(X[600:], y[600:]) < slack * scores[best]
    if table is not noisy:  # There, a wide bandwidth and a strong penalty do the same.
        assert 1 / 4 <= result.bandwidth_ / (best[0] * spread) <= 4


def test_units_of_inputs_do_not_change_predictions(small: Table, plain: KernelRegressor) -> None:
    X, y = small
    scaled = regressor().fit(2.0**-20 * X, y)
    np.testing.assert_allclose(scaled.predict(2.0**-20 * X), plain.predict(X), rtol=1e-9)


def test_search_chooses_ranks_for_skewed_inputs() -> None:
    rng = np.random.default_rng(1)
    ranks = rng.uniform(size=(400, 2))
    y = np.sin(6 * ranks[:, 0]) + ranks[:, 1]
    model = regressor(n_grids=32).fit(np.exp(30 * ranks), y)
    assert model.scaler_.kind == "quantile"
    assert model.score(np.exp(30 * ranks), y) > 0.9


# What was decided is kept.


def test_given_bandwidth_is_kept(small: Table) -> None:
    for bandwidth in (0.7, np.float32(0.5), [1.0, 2.0, np.inf]):
        model = regressor(bandwidth=bandwidth).fit(*small)
        np.testing.assert_array_equal(model.bandwidth_, np.asarray(bandwidth, float))
    model = KernelRegressor(RandomBinning(n_grids=16, bandwidth=0.9), random_state=0).fit(*small)
    assert model.bandwidth_ == 0.9


def test_trials_record_only_bandwidths_that_they_used(small: Table) -> None:
    """None, or the given one in mean distances between rows, as for one that was searched."""
    model = regressor(bandwidth=0.7, scaling="standard").fit(*small)
    expected = pytest.approx(0.7 / model.scaler_.spread, rel=0.1)
    for bandwidth in (model.settings_.bandwidth, model.search_[0]["bandwidth"]):
        assert bandwidth is None or bandwidth == expected


def test_given_alpha_is_kept(small: Table) -> None:
    model = regressor(alpha=3e-4).fit(*small)
    assert model.alpha_ == model.settings_.alpha == 3e-4
    assert {trial["alpha"] for trial in model.search_} == {3e-4}


def test_given_scaling_is_kept(small: Table) -> None:
    for scaling in ("none", "quantile"):
        model = regressor(scaling=scaling).fit(*small)
        assert model.scaler_.kind == model.settings_.scaling == scaling
        assert {trial["scaling"] for trial in model.search_} == {scaling}


def test_equal_relevance_is_kept() -> None:
    X, y = friedman1(400, seed=1)
    model = regressor(relevance="equal").fit(X, y)
    assert {trial["relevance"] for trial in model.search_} == {"equal"}
    assert model.relevance_.tolist() == [1.0] * 10


def test_wide_sparse_rows_are_never_ranked(small: Table) -> None:
    X, y = small
    # Too wide to be fitted as an array.
    wide = sp.hstack([X * (X > 0), sp.csr_array((len(X), 5000))], format="csr")
    model = regressor().fit(wide, y)
    assert {trial["scaling"] for trial in model.search_} <= {"none", "standard"}


# Trials are recorded and reproducible.


def timeless(model: Any) -> list[dict[str, Any]]:
    return [{k: v for k, v in trial.items() if k != "seconds"} for trial in model.search_]


def test_number_of_threads_does_not_change_trials(small: Table, plain: KernelRegressor) -> None:
    first, again = plain, regressor(n_jobs=3).fit(*small)
    assert timeless(first) == timeless(again)
    np.testing.assert_array_equal(first.relevance_, again.relevance_)
    np.testing.assert_array_equal(first.weights_, again.weights_)


def test_search_returns_the_best_trial(small: Table) -> None:
    task = make_task(*small, relevance="auto", scalings=("standard", "quantile"))
    result = BandwidthSearch(task).run()
    best = min(task.trials, key=lambda trial: trial.score)
    assert {trial.settings.scaling for trial in task.trials} == {"standard", "quantile"}
    assert (result.scaling, result.bandwidth) == (best.settings.scaling, best.settings.bandwidth)


def test_seed_changes_the_search(small: Table, plain: KernelRegressor) -> None:
    assert timeless(plain) != timeless(regressor(random_state=1).fit(*small))


def test_trials_are_json_and_contain_the_chosen_settings(
    small: Table, plain: KernelRegressor
) -> None:
    X, y = small
    for model in (
        plain,
        regressor(alpha=np.float32(1e-3), bandwidth=np.float32(1.0)).fit(X, y),
        KernelClassifier(RandomBinning(n_grids=16), random_state=0).fit(X, np.digitize(y, [-1, 1])),
    ):
        assert json.loads(json.dumps(model.search_)) == model.search_
        chosen = (model.settings_.scaling, model.settings_.bandwidth)
        tried = [t for t in model.search_ if (t["scaling"], t["bandwidth"]) == chosen]
        # All rows may want a little less penalty than those of a trial.
        assert any(0.5 <= model.alpha_ / t["alpha"] <= 1 for t in tried)
        for trial in model.search_:
            assert trial["score"] >= 0
            assert 0 < trial["n_rows"] < 120
            assert trial["size"] <= 16
            assert trial["curve"]


def test_noise_gives_no_trial_a_good_score() -> None:
    """Pure noise has nothing to find: no trial may look much better than the mean."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    model = regressor().fit(X, y)
    assert min(trial["score"] for trial in model.search_) > 0.85
    assert model.alpha_ >= 1e-4


def test_validation_scores_are_weighted(small: Table) -> None:
    """Rows of noise that weigh next to nothing neither hide a signal nor count in the score."""
    X, y = small
    wild = np.arange(len(y)) % 2 == 1
    targets = np.where(wild, np.random.default_rng(6).normal(scale=3.0, size=len(y)), y)
    weight = np.where(wild, 1e-6, 1.0)
    plain = regressor().fit(X, targets)
    weighted = regressor().fit(X, targets, sample_weight=weight)
    best = [min(t["score"] for t in model.search_) for model in (weighted, plain)]
    assert best[0] < 0.5 < 0.9 < best[1]
    assert weighted.score(X[~wild], y[~wild]) > 0.8


def test_classes_may_be_missing_from_training_rows() -> None:
    X = np.random.default_rng(5).normal(size=(60, 2))
    y = np.zeros(60, int)
    y[7], y[33] = 1, 2
    model = KernelClassifier(RandomBinning(n_grids=16), random_state=0).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(X, y) > 0.9


def test_exhausted_time_budget_tries_one_setting_on_one_split(small: Table) -> None:
    X, y = small
    model = regressor(time_budget=1e-3, scaling="auto").fit(X, y)
    (trial,) = (trial for trial in model.search_ if trial["stage"] == "search")
    assert trial["n_iter"] == 1
    assert "time: search was cut short" in model.limits_
