"""Directions along which targets vary, beside axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import KernelRegressor
from gramless.base.deadline import Deadline
from gramless.base.reporting import Reporter
from gramless.features.binning import GivenBinning
from gramless.features.hybrid import JoinedMaps
from gramless.features.projected import ProjectedMap
from gramless.inspection import shapley_values
from gramless.losses import Squared
from gramless.model_selection.alpha import mean_loss
from gramless.model_selection.config import EFFORTS
from gramless.model_selection.data import Data
from gramless.model_selection.metric_learning import _GaussianFit, _Sample, learned_projection
from gramless.model_selection.search import Search
from gramless.model_selection.search_space import SearchSpace
from gramless.preprocessing.scaling import Scaler

Array = NDArray[np.float64]
N_ROWS, N_INPUTS = 3000, 6
X = np.random.default_rng(0).normal(size=(N_ROWS, N_INPUTS)) * [1.0, 10.0, 1.0, 1.0, 1.0, 0.1]
SCALER = Scaler.fit("standard", X)
AXES = np.random.default_rng(1).normal(size=(N_INPUTS, 2)) / np.sqrt(N_INPUTS)
SPLIT = np.arange(2400), np.arange(2400, N_ROWS)
TURNED = np.sin(2.0 * (X / SCALER.unit) @ AXES).sum(axis=1)
ALONG_AXES = np.abs(X / SCALER.unit).sum(axis=1)


def search_of(y: Array, weight: Array | None = None, **given: Any) -> Search:
    data = Data(X, y, weight, mean_loss(Squared()), True, **given)
    space = SearchSpace(("both",), None, None, "equal")
    return Search(data, GivenBinning(), space, 0, 2, Reporter(), Deadline())


def distances(projection: Array, rows: Array) -> Array:
    moved = rows @ projection
    return np.asarray(np.square(moved[:, None] - moved).sum(axis=2))


def test_the_metric_is_the_mean_outer_product_of_gradients() -> None:
    """Against derivatives by differences of the fitted function."""
    sample = _Sample(X / SCALER.unit, TURNED[:, None], np.ones(N_ROWS))
    fit = _GaussianFit.of(sample, sample, np.diag([1.0, 0.5, 1.0, 1.0, 2.0, 1.0]))
    rows, step = sample.rows[:600] @ fit.projection, 1e-5

    def predicted(moved: Array) -> Array:
        squares = np.square(moved[:, None] - fit.landmarks).sum(axis=2)
        return np.asarray(np.exp(-0.5 * squares / fit.bandwidth**2) @ fit.weights[:, 0])

    ways = step * np.eye(N_INPUTS)
    slopes = [(predicted(rows + way) - predicted(rows - way)) / (2 * step) for way in ways]
    outer = np.array(slopes) @ np.array(slopes).T
    own = fit.directions(sample)
    found = np.linalg.solve(fit.projection, own)
    np.testing.assert_allclose(found @ found.T, outer / np.trace(outer), atol=1e-4)


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 1.5, N_ROWS)])
def test_directions_are_found(weight: Array | None) -> None:
    found = learned_projection(search_of(TURNED, weight), SPLIT, SCALER, np.ones(N_INPUTS), 0.9)
    assert found is not None
    scaled = found * SCALER.unit[:, None]
    inside = np.linalg.qr(AXES)[0]
    # Nearly all of the metric lies in the two directions that matter.
    assert np.square(inside.T @ scaled).sum() > 0.9 * np.square(scaled).sum()


def test_units_do_not_matter() -> None:
    """Rows are as far apart whatever an input is measured in."""
    one = learned_projection(search_of(TURNED), SPLIT, SCALER, np.ones(N_INPUTS), 0.9)
    rows = X * 8.0
    search = search_of(TURNED)
    data = Data(rows, TURNED, None, search.data.score, True)
    other = Search(data, GivenBinning(), search.space, 0, 2, Reporter(), Deadline())
    again = learned_projection(other, SPLIT, Scaler.fit("standard", rows), np.ones(N_INPUTS), 0.9)
    assert one is not None
    assert again is not None
    np.testing.assert_allclose(distances(again, rows[:50]), distances(one, X[:50]), rtol=1e-6)


def test_axes_are_kept_where_directions_predict_no_better() -> None:
    assert learned_projection(search_of(ALONG_AXES), SPLIT, SCALER, np.ones(N_INPUTS), 0.9) is None


def test_tables_without_directions_are_left_alone() -> None:
    ones = np.ones(N_INPUTS)
    few = SPLIT[0][:500], SPLIT[1]
    assert learned_projection(search_of(TURNED), few, SCALER, ones, 0.9) is None
    assert learned_projection(search_of(TURNED), SPLIT, SCALER, np.eye(N_INPUTS)[0], 0.9) is None
    rising = search_of(TURNED)
    rising.rising = np.eye(N_INPUTS, dtype=np.intp)[0]
    assert learned_projection(rising, SPLIT, SCALER, ones, 0.9) is None
    categorical = Scaler.fit("standard", np.rint(X), categorical=np.arange(N_INPUTS) == 2)
    assert learned_projection(search_of(TURNED), SPLIT, categorical, ones, 0.9) is None


def test_samples_may_have_no_weight() -> None:
    """Only the last row has one, which the training rows do not hold."""
    weight = np.eye(N_ROWS)[-1]
    found = learned_projection(search_of(TURNED, weight), SPLIT, SCALER, np.ones(N_INPUTS), 0.9)
    assert found is None or np.isfinite(found).all()


def test_constant_targets_have_no_directions() -> None:
    search = search_of(np.ones(N_ROWS))
    assert learned_projection(search, SPLIT, SCALER, np.ones(N_INPUTS), 0.9) is None


def test_no_number_of_threads_changes_a_bit() -> None:
    found = []
    for n_jobs in (1, 3):
        search = search_of(TURNED)
        search.n_jobs = n_jobs
        found.append(learned_projection(search, SPLIT, SCALER, np.ones(N_INPUTS), 0.9))
    assert found[0] is not None
    np.testing.assert_array_equal(found[0], found[1])


def test_default_models_have_no_kernels_along_directions() -> None:
    assert EFFORTS[3].projection_max_error_ratio == 0.0
    assert learned_projection(search_of(TURNED), SPLIT, SCALER, np.ones(N_INPUTS), 0.0) is None


@pytest.fixture(scope="module")
def turned() -> KernelRegressor:
    return KernelRegressor(effort=4, random_state=0).fit(X[:2600], TURNED[:2600])


@pytest.mark.slow
def test_thorough_fits_measure_distances_along_directions(turned: KernelRegressor) -> None:
    assert isinstance(turned.features_, JoinedMaps)
    assert [type(part) for part in turned.features_.maps_[1:]] == [ProjectedMap]
    plain = KernelRegressor(random_state=0).fit(X[:2600], TURNED[:2600])
    errors = [1.0 - model.score(X[2600:], TURNED[2600:]) for model in (turned, plain)]
    assert errors[0] < 0.85 * errors[1]


@pytest.mark.slow
def test_contributions_along_directions_add_up(turned: KernelRegressor) -> None:
    found = shapley_values(turned, X[2600:2620], X[:20])
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, turned.predict(X[2600:2620]), atol=1e-10)
