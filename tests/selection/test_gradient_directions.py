"""Directions along which models of grids vary, for other grids."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor, load, save
from gramless.features.hybrid import parts_of
from gramless.losses import Squared
from gramless.selection.config import SearchConfig
from gramless.selection.gradient_directions import _GridModel, gradient_directions
from gramless.selection.growth import GrownGrids, grow
from gramless.selection.task import SelectionTask

from .tasks import make_task

Array = NDArray[np.float64]
N_ROWS, N_INPUTS = 2500, 5
UNITS = np.array([1.0, 10.0, 1.0, 1.0, 0.1])
X = np.random.default_rng(0).normal(size=(N_ROWS, N_INPUTS)) * UNITS
AXES = np.linalg.qr(np.random.default_rng(1).normal(size=(N_INPUTS, 2)))[0]
SPLIT = np.arange(2000), np.arange(2000, N_ROWS)
TURNED = np.sin(2.0 * (X / UNITS) @ AXES).sum(axis=1)
CONFIG = SearchConfig(most_grids=48, proposals=48, kept_a_round=8)


def task_of(y: Array, **options: Any) -> SelectionTask:
    return make_task(X, y, **{"split": SPLIT, "n_jobs": 2, **options})


def grown(task: SelectionTask) -> GrownGrids:
    loss, n_jobs = task.goal.loss, task.n_jobs
    return grow(task.data, task.split, task.scaler, loss, CONFIG, seed=0, n_jobs=n_jobs)


@pytest.fixture(scope="module")
def turned() -> GrownGrids:
    return grown(task_of(TURNED))


def test_finite_differences_equal_those_of_predictions(turned: GrownGrids) -> None:
    task = task_of(TURNED)
    model, scaler = _GridModel.fit(task, turned), task.scaler
    rows = X[:200]
    for j in range(N_INPUTS):
        ends = []
        for step in (-0.5, 0.5):
            moved = rows.copy()
            moved[:, j] += step * scaler.unit[j]
            moved[:, j] = moved[:, j].clip(scaler.knots[j, 0], scaler.knots[j, -1])
            ends.append(model.binning.rows_matrix(scaler.rows(moved)).matvec(model.weights))
        result = model.finite_differences(rows, j)[:, 0]
        np.testing.assert_allclose(result, ends[1] - ends[0], atol=1e-12)
        assert np.abs(result).max() > 0.0


def test_directions_span_those_along_which_targets_vary(turned: GrownGrids) -> None:
    result = gradient_directions(task_of(TURNED), turned, 3)
    assert result.shape[0] == 2 * N_INPUTS
    assert not result[N_INPUTS:].any()
    scaled = result[:N_INPUTS] * UNITS[:, None]
    inside = np.square(AXES.T @ scaled).sum(axis=0) / np.square(scaled).sum(axis=0)
    assert inside[:2].min() > 0.8


@pytest.mark.parametrize(
    "options",
    [
        {"split": (SPLIT[0][:500], SPLIT[1])},
        {"monotone": np.eye(N_INPUTS, dtype=np.intp)[0]},
        {"categorical": np.arange(N_INPUTS) > 0},
    ],
    ids=["few rows", "monotone", "categories"],
)
def test_few_rows_monotone_inputs_and_categories_have_no_directions(
    turned: GrownGrids, options: dict[str, Any]
) -> None:
    assert gradient_directions(task_of(TURNED, **options), turned, 3) is None
    assert gradient_directions(task_of(TURNED), turned, 0) is None


def test_single_inputs_and_constant_targets_have_no_directions() -> None:
    for targets in (np.sin(3.0 * X[:, 0]), np.ones(N_ROWS)):
        task = task_of(targets)
        assert gradient_directions(task, grown(task), 3) is None


def test_number_of_threads_does_not_change_directions(turned: GrownGrids) -> None:
    one, many = (gradient_directions(task_of(TURNED, n_jobs=n), turned, 3) for n in (1, 3))
    np.testing.assert_array_equal(one, many)


def test_growth_divides_combinations(turned: GrownGrids) -> None:
    task = task_of(TURNED)
    projection = gradient_directions(task, turned, 3)
    options = {"seed": 1, "n_jobs": 2, "projection": projection}
    result = grow(task.data, SPLIT, task.scaler, Squared(), CONFIG, **options)
    assert result.grids.divides_combinations.any()
    assert result.score < 0.8 * turned.score
    both = turned.projected(projection)
    assert both.grids.n_features == result.grids.n_features == 2 * N_INPUTS
    assert result.projected(projection) is result
    assert len(result.worth) == 2 * N_INPUTS + projection.shape[1]
    assert result.relevance(N_INPUTS).shape == (N_INPUTS,)


@pytest.fixture(scope="module")
def thorough() -> KernelRegressor:
    return KernelRegressor(effort=4, n_grids=64, random_state=0).fit(X[:2000], TURNED[:2000])


@pytest.mark.slow
def test_thorough_fits_divide_combinations(thorough: KernelRegressor) -> None:
    grids = parts_of(thorough.features_)[0].grids
    assert 0 < np.count_nonzero(grids.divides_combinations) <= 64
    assert not grids.divides_combinations.all()
    plain = KernelRegressor(n_grids=128, random_state=0).fit(X[:2000], TURNED[:2000])
    errors = [1.0 - model.score(X[2000:], TURNED[2000:]) for model in (thorough, plain)]
    assert errors[0] < 0.5 * errors[1]


def test_saved_and_warm_started_models_keep_combinations(
    thorough: KernelRegressor, tmp_path: Path
) -> None:
    save(thorough, tmp_path / "model")
    expected = thorough.predict(X)
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(thorough))):
        np.testing.assert_array_equal(again.predict(X), expected)
    model = pickle.loads(pickle.dumps(thorough)).set_params(warm_start=True)
    model.fit(X, TURNED)
    assert parts_of(model.features_)[0].grids.divides_combinations.any()
    assert model.score(X[2000:], TURNED[2000:]) > thorough.score(X[2000:], TURNED[2000:])
    before = model.score(X, TURNED)
    assert model.partial_fit(X[:100], TURNED[:100]).score(X, TURNED) > 0.9 * before


@pytest.mark.slow
def test_directions_improve_classification() -> None:
    y = TURNED > 0.0
    model = KernelClassifier(effort=4, n_grids=48, random_state=0).fit(X[:2000], y[:2000])
    assert parts_of(model.features_)[0].grids.divides_combinations.any()
    plain = KernelClassifier(n_grids=96, random_state=0).fit(X[:2000], y[:2000])
    assert model.score(X[2000:], y[2000:]) > plain.score(X[2000:], y[2000:])
