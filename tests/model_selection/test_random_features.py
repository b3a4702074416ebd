"""Random features: as given, searched, or by rule where rows are few; how many, and how good."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import Nystrom, RandomBinning, RandomFourier
from gramless.base.deadline import Deadline
from gramless.base.memory import VARIABLE
from gramless.base.reporting import Reporter
from gramless.losses import Logistic, Loss, Squared
from gramless.matrices.base import Vector
from gramless.matrices.codes import bytes_of_grid
from gramless.model_selection.alpha import Goal, mean_loss
from gramless.model_selection.budget import Budget
from gramless.model_selection.data import Data
from gramless.model_selection.random_features import (
    ENOUGH_TO_SEARCH,
    RandomFeatures,
    _validated_apart,
    choose_random,
    fitted_in_memory,
    is_open,
    validate_random,
)
from gramless.model_selection.search import Search
from gramless.model_selection.search_space import SearchSpace
from gramless.model_selection.splits import Split, held_back_splits
from gramless.solvers.objective import BYTES_A_WEIGHT

Array = NDArray[np.float64]


def draw(n_rows: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n_rows)
    return X, (y - y.mean()) / y.std()


def parts(
    X: Array,
    y: Vector,
    template: Any = None,
    loss: Loss | None = None,
    l1_ratio: float = 0.0,
    deadline: Deadline | None = None,
    **choices: Any,
) -> tuple[Search, Goal, Budget]:
    loss = loss or Squared()
    score = mean_loss(loss)
    template = template or RandomBinning(n_grids=256, random_state=0)
    options = {"scalings": ("standard",), "bandwidth": None, "alpha": None, "relevance": "equal"}
    search = Search(
        Data(X, y, None, score, True),
        template,
        SearchSpace(**{**options, **choices}),
        0,
        1,
        Reporter(),
        deadline or Deadline(),
    )
    return search, Goal(loss, l1_ratio, score), Budget(X.shape, search.deadline, search.report)


def chosen(X: Array, y: Vector, *arguments: Any, **more: Any) -> tuple[RandomFeatures, Search]:
    search, goal, budget = parts(X, y, *arguments, **more)
    return choose_random(search, goal, held_back_splits(len(X), 0)[0], budget), search


GIVEN = {"bandwidth": np.asarray(2.0), "alpha": 1e-2, "n_grids": 24}


# What is chosen.


def test_what_is_open() -> None:
    X, y = draw(ENOUGH_TO_SEARCH)
    assert is_open(parts(X, y)[0])
    assert not is_open(parts(X[1:], y[1:])[0])
    assert not is_open(parts(X, y, **GIVEN)[0])
    assert is_open(parts(X, y, bandwidth=GIVEN["bandwidth"])[0])
    assert is_open(parts(X, y, alpha=1e-2)[0])
    assert is_open(parts(X, y, **GIVEN, scalings=("standard", "quantile"))[0])


def test_what_is_given_is_taken() -> None:
    X, y = draw(300)
    template = RandomBinning(n_grids=24, random_state=0)
    found, search = chosen(X, y, template, **GIVEN)
    assert search.trials == []
    assert (found.settings.alpha, found.settings.scaling) == (1e-2, "standard")
    assert found.bandwidth == 2.0
    assert found.template.size == 24
    np.testing.assert_allclose(found.template.bandwidth, 2.0 * X.std(axis=0), rtol=1e-9)
    np.testing.assert_array_equal(found.relevance, np.ones(3))


def test_few_rows_take_the_rule() -> None:
    X, y = draw(30)
    found, search = chosen(X, y)
    assert search.trials == []
    assert found.settings.alpha == 1e-3
    assert found.settings.bandwidth is not None


def test_a_search_chooses_for_all_rows() -> None:
    X, y = draw(300)
    found, search = chosen(X, y)
    assert {trial.stage for trial in search.trials} == {"search"}
    assert found.settings.bandwidth in {trial.settings.bandwidth for trial in search.trials}
    fitted = [trial.settings.alpha * trial.n_rows for trial in search.trials]
    assert np.isclose(found.settings.alpha * 300, fitted).any()


@pytest.mark.parametrize(("loss", "l1_ratio"), [(Logistic(), 0.0), (Squared(), 0.5)])
def test_other_losses_and_penalties_have_their_own_path(loss: Loss, l1_ratio: float) -> None:
    X, y = draw(200)
    template = RandomBinning(n_grids=24, random_state=0)
    _, search = chosen(X, np.sign(y), template, loss=loss, l1_ratio=l1_ratio)
    assert {trial.stage for trial in search.trials} == {"search", "alpha"}
    given = {"loss": loss, "l1_ratio": l1_ratio, "alpha": 1e-2}
    _, search = chosen(X, np.sign(y), template, **given)
    assert {trial.stage for trial in search.trials} == {"search"}


# How many grids.


def sizes(search: Search) -> list[int]:
    return [trial.size for trial in search.trials if trial.stage == "size"]


def test_grids_are_doubled_while_that_helps() -> None:
    X, y = draw(3000)
    found, search = chosen(X, y, bandwidth=GIVEN["bandwidth"], alpha=1e-3)
    tried = sizes(search)
    assert tried == [64 * 2**k for k in range(len(tried))]
    assert 2 <= len(tried) <= 3
    assert found.template.size == tried[-1]
    scores = [trial.score for trial in search.trials if trial.stage == "size"]
    assert scores[-1] > 0.98 * scores[-2] or tried[-1] == 256


@pytest.mark.parametrize(
    "given",
    [{"n_grids": 256}, {"l1_ratio": 0.5}, {"template": RandomFourier(n_components=64)}],
)
def test_sizes_that_are_not_open_are_not_asked_for(given: dict[str, Any]) -> None:
    X, y = draw(2600)
    options = {"bandwidth": np.asarray(2.0), "alpha": 1e-3, **given}
    found, search = chosen(X, y, **options)
    assert sizes(search) == []
    assert found.template.size == (64 if "template" in given else 256)


def test_a_spent_budget_asks_for_one_size() -> None:
    X, y = draw(2600)
    options = {"bandwidth": np.asarray(2.0), "alpha": 1e-3}
    found, search = chosen(X, y, deadline=Deadline(1e-9), **options)
    assert sizes(search) == [16]
    assert found.template.size == 16


def test_a_search_that_is_cut_short_says_so() -> None:
    X, y = draw(100)
    search, goal, budget = parts(X, y, deadline=Deadline(1e-9))
    choose_random(search, goal, held_back_splits(100, 0)[0], budget)
    assert budget.limits == ["time: search was cut short", "time: at most 16 grids"]


def test_weights_of_many_outputs_limit_the_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = draw(600)
    given = {"bandwidth": np.asarray(0.3), "alpha": 1e-2}
    search, goal, _ = parts(X, np.outer(y, np.ones(40)), **given)
    budget = Budget(X.shape, search.deadline, search.report, 40)
    split = held_back_splits(600, 0)[0]
    plenty = choose_random(search, goal, split, budget).template.size
    assert budget.limits == []
    monkeypatch.setenv(VARIABLE, str(80 * 600 * 40 + BYTES_A_WEIGHT * 40 * 5000))
    found = choose_random(search, goal, split, budget)
    _, matrix = fitted_in_memory(found, search, budget, slice(None))
    assert matrix.shape[1] < 6500
    assert len(list(matrix.blocks())) < plenty
    assert "memory: grids whose weights of 40 outputs fit" in budget.limits


def test_memory_limits_the_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = draw(300)
    monkeypatch.setenv(VARIABLE, str(12 * (600 + bytes_of_grid(300, 3))))
    search, goal, budget = parts(X, y, **GIVEN)
    found = choose_random(search, goal, held_back_splits(300, 0)[0], budget)
    assert found.template.size == 12
    assert budget.limits == ["memory: 12 grids instead of 256"]


# How good they are.

MAPS = [
    RandomBinning(n_grids=24, random_state=0),
    RandomFourier(n_components=64, random_state=0),
    Nystrom(n_components=30, random_state=0),
]


@pytest.mark.parametrize("template", MAPS, ids=["bins", "fourier", "nystrom"])
@pytest.mark.parametrize("n_rows", [60, 600])
def test_rows_held_back_are_never_in_the_fit(template: Any, n_rows: int) -> None:
    """Each is predicted by a fit that knows neither its target nor, but for bins, its inputs."""
    X, y = draw(n_rows)
    splits = held_back_splits(n_rows, 0)
    assert len(splits) == (5 if n_rows == 60 else 1)
    found = chosen(X, y, template, **GIVEN)[0]
    held_back = splits[0][1]

    def raw(targets: Array) -> Array:
        search, goal, budget = parts(X, targets, template, **GIVEN)
        result, *_ = validate_random(found, search, goal, splits, budget)
        turn = np.isin(result.rows, held_back)
        assert len(np.unique(result.rows)) == len(result.rows) == sum(len(b) for _, b in splits)
        assert result.score == pytest.approx(
            np.mean([goal.score(*part, None) for part in turns(result, targets, splits)])
        )
        return result.raw[turn]

    other = y.copy()
    other[held_back] = 100.0
    np.testing.assert_array_equal(raw(y), raw(other))
    assert np.mean((raw(y) - y[held_back]) ** 2) < 0.7


def turns(result: Any, targets: Array, splits: list[Split]) -> list[tuple[Array, Array]]:
    ends = np.cumsum([len(held_back) for _, held_back in splits])[:-1]
    rows, raw = np.split(result.rows, ends), np.split(result.raw, ends)
    return [(z, targets[own]) for z, own in zip(raw, rows, strict=True)]


def test_bins_of_all_rows_are_kept_where_rows_are_split_once() -> None:
    X, y = draw(600)
    found, search = chosen(X, y, MAPS[0], **GIVEN)
    splits = held_back_splits(600, 0)
    _, goal, budget = parts(X, y)
    result, feature_map, matrix = validate_random(found, search, goal, splits, budget)
    assert feature_map is not None
    assert matrix is not None
    rows = np.asarray(found.scaler.rows(X[np.concatenate(splits[0])]))
    expected = feature_map.rows_matrix(rows)
    np.testing.assert_array_equal(matrix.tocsr().toarray(), expected.tocsr().toarray())
    assert result.weights is not None
    assert len(result.weights) == matrix.shape[1] + 1
    # Bins that no row of the fit is in have no weight.
    fitted = np.asarray(matrix.tocsr()[: len(splits[0][0])].sum(axis=0)).ravel() > 0
    assert not fitted.all()
    np.testing.assert_array_equal(result.weights[:-1][~fitted], 0.0)


def test_in_turns_there_are_no_weights() -> None:
    X, y = draw(60)
    found, search = chosen(X, y, MAPS[0], **GIVEN)
    _, goal, budget = parts(X, y)
    splits = held_back_splits(60, 0)
    result, feature_map, matrix = validate_random(found, search, goal, splits, budget)
    assert result.weights is None
    assert sorted(result.rows) == list(range(60))
    # Bins of all rows are learned once: rows held back fall into bins without weight.
    _, expected = found.fitted(search.data, slice(None), None)
    np.testing.assert_array_equal(matrix.codes, expected.codes)
    np.testing.assert_array_equal(feature_map.rows_matrix(X).codes, expected.codes)
    for split in splits:
        alone = _validated_apart(found, search, goal, split, 60 * 1e-2)
        raw = result.raw[np.isin(result.rows, split[1])]
        np.testing.assert_allclose(raw, alone.raw, atol=0.02 * np.abs(alone.raw).max())
    assert result.alpha == pytest.approx(60 * 1e-2)
