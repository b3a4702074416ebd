"""Random features of one kernel: what is chosen, how many there are, and how they are validated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import Nystrom, RandomBinning, RandomFourier
from gramless.base.errors import InputError
from gramless.base.memory import VARIABLE
from gramless.losses import Logistic, Loss, Squared
from gramless.matrices.base import Vector
from gramless.selection.candidate import FittedFeatures
from gramless.selection.candidates.random_features import (
    MIN_ROWS_TO_SEARCH,
    RandomFeatures,
    has_open_settings,
)
from gramless.selection.splits import Split, validation_splits
from gramless.selection.task import SelectionTask
from gramless.solvers.objective import BYTES_PER_WEIGHT

from .tasks import make_task

Array = NDArray[np.float64]


def draw(n_rows: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n_rows)
    return X, (y - y.mean()) / y.std()


def task_of(n_rows: int, **options: Any) -> SelectionTask:
    return make_task(*draw(n_rows), **options)


def fitted(task: SelectionTask) -> FittedFeatures:
    return RandomFeatures().fit(task, None)


MANY = RandomBinning(n_grids=256, random_state=0)
WIDE = {"bandwidth": np.asarray(2.0)}
GIVEN: dict[str, Any] = {**WIDE, "alpha": 1e-2, "n_grids": 24}
CLOSED: dict[str, Any] = {**WIDE, "alpha": 1e-3}


# What is chosen.


def test_search_needs_an_open_setting_and_enough_rows() -> None:
    n_rows = MIN_ROWS_TO_SEARCH
    assert has_open_settings(task_of(n_rows))
    assert not has_open_settings(task_of(n_rows - 1))
    assert has_open_settings(task_of(n_rows - 1, split=validation_splits(n_rows - 1, 0)[0]))
    assert not has_open_settings(task_of(n_rows, **GIVEN))
    assert has_open_settings(task_of(n_rows, **WIDE))
    assert has_open_settings(task_of(n_rows, alpha=1e-2))
    assert has_open_settings(task_of(n_rows, **GIVEN, scalings=("standard", "quantile")))


def test_given_settings_are_fitted_to_all_rows_without_trials() -> None:
    task = task_of(300, validates=False, **GIVEN)
    result = fitted(task)
    assert task.trials == []
    assert result.validation is None
    assert result.order == slice(None)
    assert (result.settings.alpha, result.settings.scaling, result.bandwidth) == (
        1e-2,
        "standard",
        2.0,
    )
    assert result.feature_map.size == 24
    X = task.data.rows
    np.testing.assert_allclose(result.feature_map.bandwidth, 2.0 * X.std(axis=0), rtol=1e-9)
    np.testing.assert_array_equal(result.relevance, np.ones(3))
    expected = result.feature_map.rows_matrix(result.scaler.rows(X))
    np.testing.assert_array_equal(result.matrix.tocsr().toarray(), expected.tocsr().toarray())


def test_few_rows_use_default_settings() -> None:
    task = task_of(30, validates=False)
    result = fitted(task)
    assert task.trials == []
    assert result.settings.alpha == 1e-3
    assert result.settings.bandwidth is not None


def test_search_scales_the_penalty_to_all_rows() -> None:
    task = task_of(300, validates=False)
    result = fitted(task)
    assert {trial.stage for trial in task.trials} == {"search"}
    assert result.settings.bandwidth in {trial.settings.bandwidth for trial in task.trials}
    penalties = [trial.settings.alpha * trial.n_rows for trial in task.trials]
    assert np.isclose(result.settings.alpha * 300, penalties).any()


@pytest.mark.parametrize(("loss", "l1_ratio"), [(Logistic(), 0.0), (Squared(), 0.5)])
def test_other_losses_and_sparse_fits_search_alpha(loss: Loss, l1_ratio: float) -> None:
    X, y = draw(200)
    options = {"loss": loss, "l1_ratio": l1_ratio, "validates": False}
    for given, stages in (({}, {"search", "alpha"}), ({"alpha": 1e-2}, {"search"})):
        task = make_task(X, np.sign(y), **options, **given)
        fitted(task)
        assert {trial.stage for trial in task.trials} == stages


# How many grids.


def sizes(task: SelectionTask) -> list[int]:
    return [trial.size for trial in task.trials if trial.stage == "size"]


def test_grids_are_doubled_while_the_score_improves() -> None:
    task = task_of(3000, feature_map=MANY, validates=False, **CLOSED)
    result, tried = fitted(task), sizes(task)
    assert tried == [64 * 2**k for k in range(len(tried))]
    assert 2 <= len(tried) <= 3
    assert result.feature_map.size == tried[-1]
    scores = [trial.score for trial in task.trials if trial.stage == "size"]
    assert scores[-1] > 0.98 * scores[-2] or tried[-1] == 256


@pytest.mark.parametrize(
    "given",
    [{"n_grids": 256}, {"l1_ratio": 0.5}, {"feature_map": RandomFourier(n_components=64)}],
    ids=["given", "sparse", "waves"],
)
def test_given_sizes_are_not_searched(given: dict[str, Any]) -> None:
    task = task_of(2600, **{"feature_map": MANY, "validates": False, **CLOSED, **given})
    result = fitted(task)
    assert sizes(task) == []
    assert result.feature_map.size == (64 if "feature_map" in given else 256)


def test_exhausted_time_budget_tries_one_size_and_is_noted() -> None:
    task = task_of(2600, feature_map=MANY, seconds=1e-9, validates=False, **WIDE)
    result = fitted(task)
    assert sizes(task) == [16]
    assert result.feature_map.size == 16
    assert task.budget.limits == ["time: search was cut short", "time: at most 16 grids"]


def test_memory_of_weights_limits_the_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = draw(600)
    options = {"bandwidth": np.asarray(0.3), "alpha": 1e-2, "validates": False}
    task = make_task(X, np.outer(y, np.ones(40)), feature_map=MANY, **options)
    plenty = fitted(task).feature_map.size
    assert task.budget.limits == []
    monkeypatch.setenv(VARIABLE, str(80 * 600 * 40 + BYTES_PER_WEIGHT * 40 * 5000))
    result = fitted(make_task(X, task.data.targets, feature_map=MANY, **options))
    assert result.matrix.shape[1] < 6500
    assert result.feature_map.size < plenty


# How they are validated.

MAPS = [
    RandomBinning(n_grids=24, random_state=0),
    RandomFourier(n_components=64, random_state=0),
    Nystrom(n_components=30, random_state=0),
]


def turns(result: Any, targets: Vector, splits: list[Split]) -> list[tuple[Vector, Vector]]:
    ends = np.cumsum([len(held_back) for _, held_back in splits])[:-1]
    rows, raw = np.split(result.rows, ends), np.split(result.raw, ends)
    return [(z, targets[part]) for z, part in zip(raw, rows, strict=True)]


@pytest.mark.parametrize(
    ("feature_map", "n_rows"), [(MAPS[0], 600), (MAPS[1], 60), (MAPS[2], 600), (MAPS[0], 60)]
)
def test_validation_ignores_targets_held_back(feature_map: Any, n_rows: int) -> None:
    """Each is predicted by a fit that knows neither its target nor, but for bins, its inputs."""
    X, y = draw(n_rows)
    splits = validation_splits(n_rows, 0)
    assert len(splits) == (5 if n_rows == 60 else 1)
    held_back = splits[0][1]

    def raw(targets: Array) -> Array:
        task = make_task(X, targets, feature_map=feature_map, **GIVEN)
        result = fitted(task).validation
        assert len(np.unique(result.rows)) == len(result.rows) == sum(len(b) for _, b in splits)
        assert result.score == pytest.approx(
            np.mean([task.goal.score(*part, None) for part in turns(result, targets, splits)])
        )
        return result.raw[np.isin(result.rows, held_back)]

    other = y.copy()
    other[held_back] = 100.0
    np.testing.assert_array_equal(raw(y), raw(other))
    assert np.mean((raw(y) - y[held_back]) ** 2) < 0.7


def test_many_rows_are_validated_on_one_split() -> None:
    task = task_of(600, **WIDE)
    actual = fitted(task)
    training, held_back = validation_splits(600, 0)[0]
    np.testing.assert_array_equal(actual.order, np.concatenate([training, held_back]))
    rows = np.asarray(actual.scaler.rows(task.data.rows[actual.order]))
    expected = actual.feature_map.rows_matrix(rows).tocsr().toarray()
    np.testing.assert_array_equal(actual.matrix.tocsr().toarray(), expected)
    result = actual.validation
    np.testing.assert_array_equal(result.rows, held_back)
    assert actual.settings.alpha * 600 == pytest.approx(result.alpha)
    stages = [trial.stage for trial in task.trials]
    assert set(stages) == {"search", "validation"}
    assert stages.count("validation") == 1
    # Bins that no row of the fit is in have no weight.
    has_rows = expected[: len(training)].sum(axis=0) > 0
    assert not has_rows.all()
    np.testing.assert_array_equal(result.weights[:-1][~has_rows], 0.0)


def test_few_rows_are_cross_validated() -> None:
    task = task_of(60, **GIVEN)
    actual = fitted(task)
    result = actual.validation
    assert result.weights is None
    assert actual.is_cross_validated
    assert sorted(result.rows) == list(range(60))
    assert result.alpha == pytest.approx(60 * 1e-2)
    # The features of the model are those of all rows.
    assert actual.order == slice(None)
    rows = np.asarray(actual.scaler.rows(task.data.rows))
    expected = actual.feature_map.rows_matrix(rows).tocsr().toarray()
    np.testing.assert_array_equal(actual.matrix.tocsr().toarray(), expected)


def test_validation_needs_two_rows() -> None:
    one = np.ones((1, 4)), np.ones(1)
    with pytest.raises(InputError, match="at least 2 rows"):
        fitted(make_task(*one, **GIVEN))
    assert fitted(make_task(*one, validates=False, **GIVEN)).validation is None
