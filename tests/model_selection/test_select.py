"""The model that rows held back choose: grown grids, with smooth kernels or not, or random ones."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import RandomBinning
from gramless.base.deadline import Deadline
from gramless.base.errors import InputError
from gramless.base.memory import VARIABLE
from gramless.base.reporting import Reporter
from gramless.features.binning import GivenBinning
from gramless.features.hybrid import JoinedMaps
from gramless.losses import Logistic, Loss, Multinomial, Squared
from gramless.matrices.base import Vector
from gramless.matrices.codes import bytes_of_grid
from gramless.matrices.scaled_bins import plain_matrix, unscaled_weights
from gramless.model_selection.alpha import Goal, mean_loss
from gramless.model_selection.budget import Budget
from gramless.model_selection.config import SearchConfig
from gramless.model_selection.data import Data
from gramless.model_selection.search import Search
from gramless.model_selection.search_space import SearchSpace
from gramless.model_selection.select import select_grown, select_random
from gramless.model_selection.selected import SelectedModel
from gramless.model_selection.splits import held_back_splits

Array = NDArray[np.float64]

GROWN = SearchConfig(
    most_grids=24,
    proposals=64,
    stages=(16,),
    n_landmarks=0,
    tries_trend=False,
    dropped_share=0.0,
    quick_rows=0,
)
SMOOTH = replace(GROWN, n_landmarks=120, most_grids=64, stages=(32,))


def draw(n_rows: int = 1200, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n_rows, 4))


def smooth_targets(X: Array) -> Array:
    y = np.sin(X[:, 0] + X[:, 1]) + 0.5 * X[:, 2]
    return (y - y.mean()) / y.std()


def stepped_targets(X: Array) -> Array:
    return (
        np.sign(X[:, 0])
        + 0.5 * (X[:, 1] > 0.5)
        + 0.1 * np.random.default_rng(5).normal(size=len(X))
    )


def parts(
    X: Array,
    y: Vector,
    loss: Loss | None = None,
    l1_ratio: float = 0.0,
    seconds: float | None = None,
    weight: Array | None = None,
    **choices: Any,
) -> tuple[Search, Goal, Budget]:
    loss = loss or Squared()
    score = mean_loss(loss)
    options = {"scalings": ("standard",), "bandwidth": None, "alpha": None, "relevance": "equal"}
    search = Search(
        Data(X, y, weight, score, True),
        RandomBinning(n_grids=24, random_state=0),
        SearchSpace(**{**options, **choices}),
        0,
        2,
        Reporter(),
        Deadline(seconds),
    )
    return search, Goal(loss, l1_ratio, score), Budget(X.shape, search.deadline, search.report)


def grown(X: Array, y: Vector, config: SearchConfig = GROWN, **more: Any) -> SelectedModel:
    return select_grown(*parts(X, y, **more), config)


def drawn(X: Array, y: Vector, validates: bool = True, **more: Any) -> SelectedModel:
    return select_random(*parts(X, y, **more), validates)


GIVEN = {"bandwidth": np.asarray(2.0), "alpha": 1e-2, "n_grids": 24}


def matrix_twin(found: SelectedModel, X: Array) -> Array:
    rows = found.scaler.rows(X[found.order])
    return found.feature_map.rows_matrix(rows).tocsr().toarray()


# Grown grids.


@pytest.fixture(scope="module")
def stepped() -> SelectedModel:
    X = draw()
    return grown(X, stepped_targets(X))


def test_what_is_selected(stepped: SelectedModel) -> None:
    X = draw()
    assert isinstance(stepped.feature_map, GivenBinning)
    assert sorted(np.asarray(stepped.order)) == list(range(len(X)))
    plain = plain_matrix(stepped.matrix)
    np.testing.assert_array_equal(plain.tocsr().toarray(), matrix_twin(stepped, X))
    assert (stepped.settings.grids, stepped.settings.alpha) == ("grown", stepped.alpha)
    assert stepped.bandwidth is None
    assert set(np.argsort(-stepped.relevance)[:2]) == {0, 1}
    assert stepped.growth[-1]["n_grids"] == 24
    assert stepped.limits == []


def test_rows_held_back_were_not_grown_on(stepped: SelectedModel) -> None:
    found, (training, held_back) = stepped.validation, held_back_splits(1200, 0)[0]
    assert found is not None
    np.testing.assert_array_equal(found.rows, held_back)
    np.testing.assert_array_equal(stepped.order, np.concatenate([training, held_back]))
    X = draw()
    y = stepped_targets(X)
    other = y.copy()
    other[held_back] = other[held_back][::-1]
    # With one stage and a given penalty there is nothing that they decide.
    config = replace(GROWN, stages=())
    plain, changed = (grown(X, targets, config, alpha=1e-3) for targets in (y, other))
    assert plain.validation is not None
    assert changed.validation is not None
    assert plain.growth[0]["alpha"] == pytest.approx(changed.growth[0]["alpha"], rel=4)
    np.testing.assert_array_equal(plain.matrix.tocsr().indices, changed.matrix.tocsr().indices)
    np.testing.assert_array_equal(plain.validation.raw, changed.validation.raw)
    assert changed.validation.score > plain.validation.score


def test_the_penalty_beside_the_summed_losses_is_kept(stepped: SelectedModel) -> None:
    found = stepped.validation
    assert found is not None
    assert stepped.alpha * 1200 == pytest.approx(found.alpha)


def test_trials_are_recorded_as_plain_data(stepped: SelectedModel) -> None:
    found = stepped.validation
    assert found is not None
    assert json.loads(json.dumps(stepped.trials)) == stepped.trials
    assert {trial["stage"] for trial in stepped.trials} == {"validation"}
    assert {trial["grids"] for trial in stepped.trials} == {"grown"}
    # The first fit, then a path from it.
    own = [trial for trial in stepped.trials if trial["alpha"] * 960 == pytest.approx(found.alpha)]
    assert found.score in [trial["score"] for trial in own]
    assert len(stepped.trials) >= 3


def test_a_penalty_that_is_given_is_taken() -> None:
    X = draw()
    found = grown(X, stepped_targets(X), alpha=0.02)
    assert found.alpha == found.settings.alpha == 0.02
    assert [trial["alpha"] for trial in found.trials] == pytest.approx([0.02] * len(found.trials))


def test_a_number_of_grids_that_is_given_is_the_most() -> None:
    X = draw()
    assert grown(X, stepped_targets(X), n_grids=5).growth[-1]["n_grids"] == 5


def test_grids_of_several_seeds_stand_side_by_side(stepped: SelectedModel) -> None:
    X = draw()
    both = grown(X, stepped_targets(X), replace(GROWN, n_seeds=2))
    one = matrix_twin(stepped, X)
    joined = matrix_twin(both, X)
    assert (joined > 0).sum(axis=1).tolist() == [48] * 1200
    # The first 24 grids are those of one seed.
    np.testing.assert_array_equal(joined[:, : one.shape[1]] > 0, one > 0)
    assert both.growth[0]["score"] == stepped.growth[0]["score"]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes(n_classes: int) -> None:
    X = draw()
    classes = np.digitize(stepped_targets(X), [-0.4, 0.9][: n_classes - 1])
    columns = np.where(classes[:, None] == np.arange(n_classes), 1.0, -1.0)
    if n_classes == 2:
        found, shape = grown(X, columns[:, 1], loss=Logistic()), (240,)
    else:
        found, shape = grown(X, columns, loss=Multinomial()), (240, 3)
    assert found.validation is not None
    assert found.validation.raw.shape == shape
    assert found.validation.score < 0.5 * np.log(n_classes)


# Smooth kernels beside them.


def test_a_smooth_function_gets_a_smooth_kernel() -> None:
    X = draw()
    y = smooth_targets(X)
    plain, found = grown(X, y, replace(SMOOTH, n_landmarks=0)), grown(X, y, SMOOTH)
    assert isinstance(found.feature_map, JoinedMaps)
    assert len(found.feature_map.maps_) == 1 + len(SMOOTH.smooth_lengths)
    assert plain.validation is not None
    assert found.validation is not None
    assert found.validation.score < 0.8 * plain.validation.score
    # New rows are predicted by the features that the fit knew, which rounded the smooth ones.
    rows, weights = found.scaler.rows(X[found.order]), found.validation.weights[:-1]  # type: ignore[index]
    natural = unscaled_weights(found.matrix, weights)
    fitted, dense = found.matrix.matvec(weights), np.asarray(rows)
    bins, *smooth = found.feature_map.maps_
    parts = [bins.transform(dense).toarray(), *(own.transform(dense) for own in smooth)]
    rounded = [parts[0], *(own.astype(np.float32) for own in parts[1:])]
    np.testing.assert_allclose(np.hstack(rounded) @ natural, fitted, atol=1e-9)
    np.testing.assert_allclose(np.hstack(parts) @ natural, fitted, atol=2e-7)
    assert len(found.validation.weights) == found.matrix.shape[1] + 1  # type: ignore[arg-type]


def test_targets_without_noise_are_solved_closely() -> None:
    """A tolerance that is good for noise ends paths where next to no error is left."""
    X = draw()
    found = grown(X, smooth_targets(X), SMOOTH)
    assert found.validation is not None
    Z, y = found.matrix.tocsr().toarray(), smooth_targets(X)[found.order]
    Z = np.column_stack([Z, np.ones(1200)])
    ridge = np.diag(np.append(np.full(Z.shape[1] - 1, found.validation.alpha), 0.0))
    exact = np.linalg.solve(Z[:960].T @ Z[:960] + ridge, Z[:960].T @ y[:960])
    least = 0.5 * np.mean((Z[960:] @ exact - y[960:]) ** 2)
    assert found.validation.score == pytest.approx(least, rel=0.2)
    assert found.validation.alpha < 0.02


def test_a_stepped_function_is_not_harmed() -> None:
    X = draw()
    y = stepped_targets(X)
    plain, found = grown(X, y, replace(SMOOTH, n_landmarks=0)), grown(X, y, SMOOTH)
    assert plain.validation is not None
    assert found.validation is not None
    assert found.validation.score <= plain.validation.score


def test_noise_gets_none() -> None:
    rng = np.random.default_rng(0)
    found = grown(draw(), rng.normal(size=1200), SMOOTH)
    assert isinstance(found.feature_map, GivenBinning)


def test_constant_targets_get_none() -> None:
    found = grown(draw(), np.zeros(1200), SMOOTH)
    assert isinstance(found.feature_map, GivenBinning)
    assert found.validation is not None
    assert found.validation.score == 0.0
    np.testing.assert_array_equal(found.relevance, np.ones(4))


def test_fewer_landmarks_than_are_worth_their_time_are_not_tried() -> None:
    X = draw()
    found = grown(X, smooth_targets(X), replace(SMOOTH, n_landmarks=99))
    assert isinstance(found.feature_map, GivenBinning)


# Groups, budgets.


def matched(n_sets: int) -> tuple[Array, Array, NDArray[np.intp]]:
    """Return cases, each with two controls that share all inputs but the first."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(n_sets), 3)
    y = np.where(np.arange(len(groups)) % 3 == 0, 1.0, -1.0)
    X = np.column_stack([0.8 * y + rng.normal(size=len(y)), rng.normal(size=(n_sets, 4))[groups]])
    order = rng.permutation(len(y))
    return X[order], y[order], groups[order]


@pytest.mark.parametrize("select", [grown, drawn])
def test_groups_are_not_parted(select: Any) -> None:
    X, y, groups = matched(500)
    options = {} if select is grown else GIVEN
    found = select(X, y, **options).validation
    fitted = np.setdiff1d(np.arange(len(y)), found.rows)
    assert 250 < len(found.rows) < 350
    assert len(np.intersect1d(groups[fitted], groups[found.rows])) == 0


def test_a_spent_budget_leaves_a_model_and_notes() -> None:
    X = draw()
    found = grown(X, smooth_targets(X), SMOOTH, seconds=1e-9)
    assert found.limits == [
        "time: at most 16 grids",
        "time: growth was cut short",
        "time: the trial of smooth kernels was cut short",
    ]
    assert found.growth[-1]["n_grids"] == GROWN.kept_a_round
    assert isinstance(found.feature_map, GivenBinning)
    assert len(found.trials) <= 3


def test_a_budget_of_days_changes_nothing(stepped: SelectedModel) -> None:
    X = draw()
    found = grown(X, stepped_targets(X), seconds=1e9)
    assert (found.alpha, found.limits) == (stepped.alpha, [])
    np.testing.assert_array_equal(found.matrix.tocsr().indices, stepped.matrix.tocsr().indices)


@pytest.mark.parametrize("select", [grown, drawn])
def test_memory_leaves_a_note(select: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X = draw()
    monkeypatch.setenv(VARIABLE, str(12 * (2400 + bytes_of_grid(1200, 4))))
    found = select(X, stepped_targets(X), **({} if select is grown else GIVEN))
    assert found.limits == ["memory: 12 grids instead of 24"]
    assert ((found.matrix.tocsr().toarray() != 0).sum(axis=1) == 12).all()


# Random features.


def test_random_features_are_validated_where_something_is_open() -> None:
    X = draw(600)
    found = drawn(X, smooth_targets(X), bandwidth=np.asarray(2.0))
    training, held_back = held_back_splits(600, 0)[0]
    np.testing.assert_array_equal(found.order, np.concatenate([training, held_back]))
    np.testing.assert_array_equal(found.matrix.tocsr().toarray(), matrix_twin(found, X))
    assert found.validation is not None
    np.testing.assert_array_equal(found.validation.rows, held_back)
    stages = [trial["stage"] for trial in found.trials]
    assert set(stages) == {"search", "validation"}
    assert stages.count("validation") == 1
    assert found.alpha * 600 == pytest.approx(found.validation.alpha)


def test_what_is_given_is_fitted_to_all_rows_at_once() -> None:
    X = draw(600)
    found = drawn(X, smooth_targets(X), validates=False, **GIVEN)
    assert found.validation is None
    assert found.trials == found.growth == []
    assert found.order == slice(None)
    assert (found.alpha, found.bandwidth) == (1e-2, 2.0)
    np.testing.assert_array_equal(found.matrix.tocsr().toarray(), matrix_twin(found, X))


def test_few_rows_are_held_back_in_turns() -> None:
    X = draw(60)
    found = drawn(X, smooth_targets(X), **GIVEN)
    assert found.validation is not None
    assert sorted(found.validation.rows) == list(range(60))
    assert found.validation.weights is None
    # The features of the model are those of all rows.
    assert found.order == slice(None)
    np.testing.assert_array_equal(found.matrix.tocsr().toarray(), matrix_twin(found, X))


@pytest.mark.slow
def test_an_l1_penalty_has_its_own_path() -> None:
    X = draw(520)
    found = drawn(X, smooth_targets(X), l1_ratio=0.5, bandwidth=np.asarray(2.0))
    assert {trial["stage"] for trial in found.trials} == {"search", "alpha", "validation"}
    assert found.validation is not None


def test_one_row_cannot_be_held_back() -> None:
    with pytest.raises(InputError, match="at least 2 rows"):
        drawn(np.ones((1, 4)), np.ones(1), **GIVEN)
    assert drawn(np.ones((1, 4)), np.ones(1), validates=False, **GIVEN).validation is None
