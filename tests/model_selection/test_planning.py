"""What is fitted: grown grids, random ones or both, and what budgets of time and memory cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.base.errors import InputError
from gramless.features.binning import GivenBinning
from gramless.features.binning import RandomBinning as RandomFeatures
from gramless.features.grids import bytes_of_grid
from gramless.matrices.base import Vector
from gramless.model_selection import planning
from gramless.model_selection.amounts import (
    LEAST_GROWN,
    LEAST_ROWS,
    LEAST_TO_GROW,
    MOST_COLUMNS,
    MOST_GROWN,
    affordable_grids,
    can_grow,
    number_of_grids,
)
from gramless.model_selection.data import Data

Array = NDArray[np.float64]


def friedman(n_rows: int = 1500, seed: int = 0) -> tuple[Array, Array]:
    """Return rows of 20 inputs of which five matter."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 20))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, y + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n_rows)


def regressor(**options: Any) -> KernelRegressor:
    return KernelRegressor(**{"n_grids": 48, "random_state": 0, "n_jobs": 2, **options})


def short(**options: Any) -> KernelRegressor:
    """Return a machine that is quick to fit, for what accuracy has no part in."""
    return regressor(**{"n_grids": 8, **options})


def narrow(n_rows: int = LEAST_ROWS) -> tuple[Array, Array]:
    """Return the inputs that matter, for what the others have no part in."""
    X, y = friedman(n_rows)
    return X[:, :5], y


@pytest.fixture(autouse=True, scope="module")
def few_grids_are_many() -> Iterator[None]:
    """Let rules stop at numbers of grids that are quick to fit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "number_of_grids", lambda n_rows, n_outputs: 160)
        patch.setattr(planning, "number_beside", lambda n_rows, n_outputs: 256)
        yield


Table = Callable[[int], tuple[Array, Array]]


@cache
def fitted(table: Table, n_rows: int, **options: Any) -> KernelRegressor:
    """Return a machine that several tests look at."""
    return regressor(**options).fit(*table(n_rows))


def data_of(X: Any) -> Data:
    return Data(X, np.zeros(X.shape[0]), None, lambda z, y, weight: 0.0, True)


def kinds(model: KernelRegressor) -> set[str]:
    return {trial["grids"] for trial in model.search_}


# What is better.


def test_grown_grids_where_few_inputs_matter() -> None:
    X, y = friedman(3000)
    model = regressor(relevance="equal").fit(X[:1500], y[:1500])
    assert model.settings_.grids == "grown"
    assert isinstance(model.features_, GivenBinning)
    assert kinds(model) >= {"grown", "random"}
    random = regressor(grids="random", relevance="equal").fit(X[:1500], y[:1500])
    assert 1 - model.score(X[1500:], y[1500:]) < 0.6 * (1 - random.score(X[1500:], y[1500:]))


def radial(n_rows: int, seed: int = 0) -> tuple[Array, Array]:
    """Return targets that all of 20 inputs have a part in, together."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 20)) * rng.gamma(2.0, size=(n_rows, 1))
    return X, np.cos(0.5 * np.linalg.norm(X, axis=1))


def test_random_grids_help_where_all_inputs_matter_together() -> None:
    model, grown = fitted(radial, 1500), fitted(radial, 1500, grids="grown")
    assert model.settings_.grids == "random"
    assert kinds(model) == {"grown", "random"}
    new = radial(1500, seed=1)
    assert model.score(*new) > grown.score(*new) + 0.02
    assert len(model.growth_) > 0


def screened(monkeypatch: pytest.MonkeyPatch, **options: Any) -> KernelRegressor:
    """Return a machine for which 500 rows say what 1,000 are many for."""
    monkeypatch.setattr(planning, "_PART_ROWS", 500)
    monkeypatch.setattr(planning, "_MANY_ROWS", 2)
    return regressor(**options)


def test_of_many_rows_a_part_shows_that_random_grids_do_not_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = friedman(1500)
    model = screened(monkeypatch, n_grids="auto").fit(X, y)
    tried = [trial["n_rows"] for trial in model.search_ if trial["grids"] == "random"]
    assert tried[-1] == 500
    assert model.settings_.grids == "grown"
    alone = regressor(n_grids="auto", grids="grown").fit(X, y)
    np.testing.assert_array_equal(model.predict(X), alone.predict(X))


def test_of_many_rows_a_part_shows_that_random_grids_help(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = radial(1500)
    model = screened(monkeypatch, n_grids="auto").fit(X, y)
    tried = [trial["n_rows"] for trial in model.search_ if trial["grids"] == "random"]
    assert tried[-2:] == [500, 1200]
    assert model.settings_.grids in ("random", "both")
    np.testing.assert_array_equal(model.predict(X), fitted(radial, 1500, n_grids="auto").predict(X))


def paused(monkeypatch: pytest.MonkeyPatch, **options: Any) -> KernelRegressor:
    """Return a machine that asks after its first grids what growth is worth."""
    monkeypatch.setattr(planning, "_LEAST_TO_PAUSE", 500)
    return regressor(n_grids="auto", **options)


def test_growth_that_does_not_help_random_grids_is_not_gone_on_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, new = fitted(radial, 1500, n_grids="auto"), radial(1500, seed=1)
    model = paused(monkeypatch).fit(*radial(1500))
    assert model.settings_.grids == "random"
    assert [stage["n_grids"] for stage in model.growth_] == [40, 80]
    assert whole.growth_[-1]["n_grids"] > 80
    assert 1 - model.score(*new) < 1.05 * (1 - whole.score(*new))


def test_growth_that_helps_is_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = friedman(1500)
    whole = regressor(n_grids="auto").fit(X, y)
    model = paused(monkeypatch).fit(X, y)
    assert next(trial["size"] for trial in model.search_ if trial["grids"] == "grown") == 80
    assert len(model.growth_) == len(whole.growth_) > 2
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))


def test_growth_does_not_pause_where_a_budget_says_what_it_is_worth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = radial(1500)
    whole = fitted(radial, 1500, n_grids="auto")
    model = paused(monkeypatch, time_budget=1e6).fit(X, y)
    assert len(model.growth_) == len(whole.growth_)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=1e-6, atol=1e-9)


def test_noise_is_predicted_as_hardly_more_than_its_mean() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 20)), 5.0 + rng.normal(size=3000)
    model = regressor(n_grids=96).fit(X[:1000], y[:1000])
    assert np.mean((model.predict(X[1000:]) - 5.0) ** 2) < 0.05


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_of_a_given_number_the_better_kind_is_taken(seed: int) -> None:
    model = regressor(random_state=seed).fit(*radial(1500, seed))
    finals = {t["grids"]: t["score"] for t in model.search_ if t["n_rows"] == 1200}
    assert set(finals) == {"grown", "random"}
    assert finals[model.settings_.grids] == min(finals.values())
    assert len(model.features_.n_bins_) == 48


# When grids are grown at all.


@pytest.mark.parametrize(
    ("shape", "grown"),
    [
        ((LEAST_ROWS, 3), True),
        ((LEAST_ROWS - 1, 3), False),
        ((LEAST_ROWS, MOST_COLUMNS), True),
        ((LEAST_ROWS, MOST_COLUMNS + 1), False),
    ],
)
def test_rows_and_inputs_that_may_pay(shape: tuple[int, int], grown: bool) -> None:
    assert can_grow(data_of(np.zeros(shape))) == grown
    assert not can_grow(data_of(sp.csr_array(shape)))


@pytest.mark.parametrize(
    "options",
    [
        {"bandwidth": 2.0},
        {"alpha": 1e-3},
        {"scaling": "standard"},
        {"features": RandomBinning(n_grids=8)},
        {"l1_ratio": 0.5},
        {"grids": "random"},
    ],
    ids=str,
)
def test_what_is_decided_leaves_random_grids(options: dict[str, Any]) -> None:
    model = short().set_params(**options).fit(*narrow())
    assert isinstance(model.features_, RandomFeatures)
    assert model.settings_.grids == "random"
    assert model.growth_ == []
    assert kinds(model) == {"random"}


def test_few_rows_take_random_grids() -> None:
    model = short().fit(*narrow(LEAST_ROWS - 1))
    assert isinstance(model.features_, RandomFeatures)


def test_grown_grids_want_dense_rows() -> None:
    X, y = narrow()
    with pytest.raises(InputError, match="grids='grown' needs dense rows"):
        short(grids="grown").fit(sp.csr_array(X), y)
    short().fit(sp.csr_array(X), y)


def test_grown_grids_want_a_few_rows() -> None:
    X, y = friedman(1000)
    few = LEAST_TO_GROW - 1
    with pytest.raises(InputError, match=f"at least {LEAST_TO_GROW}"):
        regressor(grids="grown").fit(X[:few], y[:few])
    model = regressor(grids="grown", n_grids=8).fit(X[: few + 1], y[: few + 1])
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("grids", ["both", "Grown", None, 3])
def test_other_grids_are_refused(grids: Any) -> None:
    with pytest.raises(InputError, match="grids must be 'auto', 'random' or 'grown'"):
        regressor(grids=grids).fit(*friedman(1000))


def test_a_given_alpha_is_used() -> None:
    X, y = friedman(1000)
    weak, strong = (regressor(grids="grown", alpha=alpha).fit(X, y) for alpha in (1e-6, 1.0))
    # Held-back rows are judged with the alpha of fewer rows, and all rows are fitted to with it.
    assert weak.alpha_ == pytest.approx(1e-6)
    assert strong.alpha_ == pytest.approx(1.0)
    assert strong.predict(X).std() < 0.5 * weak.predict(X).std()


@pytest.mark.parametrize("grids", ["grown", "auto"])
def test_a_given_number_of_grids_is_the_most(grids: str) -> None:
    model = regressor(grids=grids, n_grids=19).fit(*narrow())
    assert len(model.features_.n_bins_) == 19


@pytest.mark.parametrize(("ratio", "kind"), [(1.0, "grown"), (0.5, "grown"), (1.0, "random")])
def test_an_l1_penalty_forgets_bins(ratio: float, kind: str) -> None:
    X, y = narrow()
    model = regressor(grids=kind, l1_ratio=ratio, n_grids=24).fit(X, y)
    assert 0 < model.sparsity_ < 1
    assert len(model.coef_) == model.features_.offsets_[-1]
    assert model.score(X, y) > 0.5


# Numbers of grids.


def test_numbers_of_grids_by_rule() -> None:
    assert number_of_grids(1000, 1) == MOST_GROWN
    assert number_of_grids(10**7, 1) == LEAST_GROWN
    assert number_of_grids(200_000, 1) == (1 << 27) // 200_000
    assert number_of_grids(100_000, 2) == number_of_grids(200_000, 1)


@pytest.mark.parametrize("n_rows", [1, 999, 10**5])
def test_affordable_bin_numbers_fit(n_rows: int) -> None:
    budget = 10_000_000
    found, each = affordable_grids(n_rows, 5, budget), 2 * n_rows + bytes_of_grid(n_rows, 5)
    assert each * found <= budget < each * (found + 1)
    assert affordable_grids(10**9, 5, budget) == 1


# Budgets.


def test_memory_cuts_the_number_of_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = narrow()
    each = 2 * 1000 + bytes_of_grid(*X.shape)
    monkeypatch.setattr(planning, "memory_budget", lambda: 12 * each + 5)
    for grids in ("grown", "random", "auto"):
        model = regressor(grids=grids).fit(X, y)
        assert model.limits_ == ["memory: 12 grids instead of 48"]
        assert len(model.features_.n_bins_) <= 12
        assert model.score(X, y) > 0.3
    monkeypatch.setattr(planning, "memory_budget", lambda: 48 * each)
    assert regressor(grids="grown").fit(X, y).limits_ == []


@pytest.mark.parametrize("grids", ["auto", "grown", "random"])
def test_a_tiny_time_budget_still_predicts(grids: str) -> None:
    X, y = friedman(1500)
    model = regressor(grids=grids, time_budget=1e-3).fit(X, y)
    assert len(model.limits_) > 0
    assert all(limit.startswith("time: ") for limit in model.limits_)
    assert model.score(X, y) > 0.2
    lower, upper = model.predict_interval(X)
    assert (upper > lower).all()


def test_a_budget_of_days_changes_nothing() -> None:
    X, y = narrow()
    found, expected = short(time_budget=1e6).fit(X, y), fitted(narrow, LEAST_ROWS, n_grids=8)
    assert found.limits_ == expected.limits_ == []
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_a_search_that_is_cut_short_says_so() -> None:
    """The walk over bandwidths never happens."""
    X, y = narrow(1500)
    whole = short(grids="random").fit(X, y)
    cut = short(grids="random", time_budget=1e-3, tol=0.9).fit(X, y)
    assert len(cut.search_) < len(whole.search_)
    assert any("search" in limit for limit in cut.limits_)


@pytest.mark.parametrize("budget", [0.0, -1.0, np.nan, "soon"])
def test_budgets_that_are_none(budget: Any) -> None:
    with pytest.raises(InputError, match="time_budget"):
        regressor(time_budget=budget).fit(*friedman(1000))


# Other losses.


@pytest.mark.parametrize("loss", ["huber", pytest.param("median", marks=pytest.mark.slow)])
def test_scores_of_one_loss_are_compared(loss: str) -> None:
    """Whether random grids are worth a trial is asked in the units of the loss."""
    X, y = radial(1000)
    model = regressor(loss=loss, n_grids=24).fit(X, y)
    finals = {t["grids"]: t["score"] for t in model.search_ if t["n_rows"] == 800}
    assert set(finals) == {"grown", "random"}
    assert finals[model.settings_.grids] == min(finals.values())


@pytest.mark.parametrize(
    "loss",
    [
        "squared",
        *(pytest.param(loss, marks=pytest.mark.slow) for loss in ("logistic", "squared_hinge")),
    ],
)
def test_classes_of_few_inputs_are_grown(loss: str) -> None:
    X, y = friedman(2000)
    labels = np.digitize(y, [12.0, 17.0])
    model = KernelClassifier(loss=loss, n_grids=48, random_state=0, n_jobs=2)
    model.fit(X[:1000], labels[:1000])
    assert model.settings_.grids in ("grown", "both")
    assert model.score(X[1000:], labels[1000:]) > 0.75


def test_trials_say_what_they_cost() -> None:
    model = fitted(narrow, LEAST_ROWS, n_grids=8)
    for trial in model.search_:
        assert trial["size"] > 0
        assert trial["n_rows"] > 0


def targets_of(y: Vector) -> Vector:
    return np.column_stack([y, -2 * y + 1])


def test_two_outputs_share_grown_grids() -> None:
    X, y = friedman(2000)
    model = regressor(grids="grown").fit(X[:1000], targets_of(y)[:1000])
    predicted = model.predict(X[1000:])
    assert predicted.shape == (1000, 2)
    assert model.score(X[1000:], targets_of(y)[1000:]) > 0.75
    np.testing.assert_allclose(predicted[:, 1], 1 - 2 * predicted[:, 0], atol=0.5)
