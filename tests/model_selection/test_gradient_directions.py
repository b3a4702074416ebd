"""Directions along which models of grids vary, for other grids."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor, load, save
from gramless.base.deadline import Deadline
from gramless.base.reporting import Reporter
from gramless.features.binning import GivenBinning
from gramless.features.hybrid import parts_of
from gramless.losses import Squared
from gramless.model_selection.alpha import mean_loss
from gramless.model_selection.config import EFFORTS, SearchConfig
from gramless.model_selection.data import Data
from gramless.model_selection.gradient_directions import _GridModel, gradient_directions
from gramless.model_selection.growth import GrownGrids, grow
from gramless.model_selection.search import Search
from gramless.model_selection.search_space import SearchSpace

Array = NDArray[np.float64]
N_ROWS, N_INPUTS = 2500, 5
UNITS = np.array([1.0, 10.0, 1.0, 1.0, 0.1])
X = np.random.default_rng(0).normal(size=(N_ROWS, N_INPUTS)) * UNITS
AXES = np.linalg.qr(np.random.default_rng(1).normal(size=(N_INPUTS, 2)))[0]
SPLIT = np.arange(2000), np.arange(2000, N_ROWS)
TURNED = np.sin(2.0 * (X / UNITS) @ AXES).sum(axis=1)
CONFIG = SearchConfig(most_grids=48, proposals=48, kept_a_round=8)


def search_of(y: Array, n_jobs: int = 2, **given: Any) -> Search:
    data = Data(X, y, None, mean_loss(Squared()), True, **given)
    space = SearchSpace(("both",), None, None, "equal")
    return Search(data, GivenBinning(), space, 0, n_jobs, Reporter(), Deadline())


def grown(search: Search) -> GrownGrids:
    scaler = search.data.scaler("both")
    return grow(search.data, SPLIT, scaler, Squared(), CONFIG, seed=0, n_jobs=search.n_jobs)


@pytest.fixture(scope="module")
def turned() -> tuple[Search, GrownGrids]:
    search = search_of(TURNED)
    return search, grown(search)


def directions(found: tuple[Search, GrownGrids], most: int = 3, split: Any = SPLIT) -> Any:
    search, grids = found
    return gradient_directions(search, split, search.data.scaler("both"), grids, most)


def test_finite_differences_are_those_of_all_predictions(turned: tuple[Search, GrownGrids]) -> None:
    search, grids = turned
    scaler = search.data.scaler("both")
    model = _GridModel.fit(search, SPLIT, scaler, grids)
    rows = X[:200]
    for j in range(N_INPUTS):
        ends = []
        for step in (-0.5, 0.5):
            moved = rows.copy()
            moved[:, j] += step * scaler.unit[j]
            moved[:, j] = moved[:, j].clip(scaler.knots[j, 0], scaler.knots[j, -1])
            ends.append(model.binning.rows_matrix(scaler.rows(moved)).matvec(model.weights))
        found = model.finite_differences(rows, j)[:, 0]
        np.testing.assert_allclose(found, ends[1] - ends[0], atol=1e-12)
        assert np.abs(found).max() > 0.0


def test_directions_are_found(turned: tuple[Search, GrownGrids]) -> None:
    found = directions(turned)
    assert found is not None
    assert found.shape[0] == 2 * N_INPUTS
    assert not found[N_INPUTS:].any()
    scaled = found[:N_INPUTS] * UNITS[:, None]
    inside = np.square(AXES.T @ scaled).sum(axis=0) / np.square(scaled).sum(axis=0)
    assert inside[:2].min() > 0.8


def test_tables_without_directions_are_left_alone(turned: tuple[Search, GrownGrids]) -> None:
    grids = turned[1]
    assert directions(turned, most=0) is None
    assert directions(turned, split=(SPLIT[0][:500], SPLIT[1])) is None
    rising = search_of(TURNED)
    rising.rising = np.eye(N_INPUTS, dtype=np.intp)[0]
    assert directions((rising, grids)) is None
    categorical = search_of(TURNED, categorical=np.arange(N_INPUTS) > 0)
    assert directions((categorical, grids)) is None


def test_single_inputs_are_no_directions() -> None:
    alone = search_of(np.sin(3.0 * X[:, 0]))
    assert directions((alone, grown(alone))) is None
    constant = search_of(np.ones(N_ROWS))
    assert directions((constant, grown(constant))) is None


def test_no_number_of_threads_changes_a_bit(turned: tuple[Search, GrownGrids]) -> None:
    np.testing.assert_array_equal(
        directions((search_of(TURNED, 1), turned[1])), directions((search_of(TURNED, 3), turned[1]))
    )


def test_growth_divides_combinations(turned: tuple[Search, GrownGrids]) -> None:
    search, plain = turned
    projection = directions(turned)
    scaler = search.data.scaler("both")
    found = grow(
        search.data, SPLIT, scaler, Squared(), CONFIG, seed=1, n_jobs=2, projection=projection
    )
    assert found.grids.divides_combinations.any()
    assert found.score < 0.8 * plain.score
    both = plain.projected(projection)
    assert both.grids.n_features == found.grids.n_features == 2 * N_INPUTS
    assert found.projected(projection) is found


def test_default_models_divide_no_combinations() -> None:
    assert EFFORTS[3].n_directions == 0


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


def test_files_and_later_fits_keep_combinations(thorough: KernelRegressor, tmp_path: Path) -> None:
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
def test_classes_have_directions_too() -> None:
    y = TURNED > 0.0
    model = KernelClassifier(effort=4, n_grids=48, random_state=0).fit(X[:2000], y[:2000])
    assert parts_of(model.features_)[0].grids.divides_combinations.any()
    plain = KernelClassifier(n_grids=96, random_state=0).fit(X[:2000], y[:2000])
    assert model.score(X[2000:], y[2000:]) > plain.score(X[2000:], y[2000:])
