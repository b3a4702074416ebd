"""Directions along which targets vary, compared with axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import KernelRegressor
from gramless.features.hybrid import JoinedMaps
from gramless.features.projected import ProjectedMap
from gramless.inspection import shapley_values
from gramless.preprocessing.scaling import Scaler
from gramless.selection.config import SearchConfig
from gramless.selection.metric_learning import _GaussianFit, _Sample, learned_projection

from .tasks import make_task

Array = NDArray[np.float64]
N_ROWS, N_INPUTS = 3000, 6
X = np.random.default_rng(0).normal(size=(N_ROWS, N_INPUTS)) * [1.0, 10.0, 1.0, 1.0, 1.0, 0.1]
SCALER = Scaler.fit("standard", X)
AXES = np.random.default_rng(1).normal(size=(N_INPUTS, 2)) / np.sqrt(N_INPUTS)
SPLIT = np.arange(2400), np.arange(2400, N_ROWS)
TURNED = np.sin(2.0 * (X / SCALER.unit) @ AXES).sum(axis=1)
ALONG_AXES = np.abs(X / SCALER.unit).sum(axis=1)


CONFIG = SearchConfig(projection_max_error_ratio=0.9)


def projection_of(
    y: Array, fineness: Array | None = None, rows: Array = X, scaler: Scaler = SCALER, **more: Any
) -> Array | None:
    task = make_task(rows, y, **{"config": CONFIG, "split": SPLIT, "n_jobs": 2, **more})
    return learned_projection(task, scaler, np.ones(N_INPUTS) if fineness is None else fineness)


def distances(projection: Array, rows: Array) -> Array:
    moved = rows @ projection
    return np.asarray(np.square(moved[:, None] - moved).sum(axis=2))


def test_metric_is_the_mean_outer_product_of_gradients() -> None:
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
    directions = fit.directions(sample)
    result = np.linalg.solve(fit.projection, directions)
    np.testing.assert_allclose(result @ result.T, outer / np.trace(outer), atol=1e-4)


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 1.5, N_ROWS)])
def test_projection_spans_directions_along_which_targets_vary(weight: Array | None) -> None:
    result = projection_of(TURNED, weight=weight)
    scaled = result * SCALER.unit[:, None]
    inside = np.linalg.qr(AXES)[0]
    # Nearly all of the metric lies in the two directions that matter.
    assert np.square(inside.T @ scaled).sum() > 0.9 * np.square(scaled).sum()


def test_units_of_inputs_do_not_change_distances() -> None:
    """Rows are as far apart whatever an input is measured in."""
    rows = X * 8.0
    one = projection_of(TURNED)
    again = projection_of(TURNED, rows=rows, scaler=Scaler.fit("standard", rows))
    np.testing.assert_allclose(distances(again, rows[:50]), distances(one, X[:50]), rtol=1e-6)


def test_projection_is_omitted_if_it_predicts_no_better() -> None:
    assert projection_of(ALONG_AXES) is None
    assert projection_of(np.ones(N_ROWS)) is None


def test_few_rows_monotone_inputs_and_categories_have_no_projection() -> None:
    assert projection_of(TURNED, split=(SPLIT[0][:500], SPLIT[1])) is None
    assert projection_of(TURNED, np.eye(N_INPUTS)[0]) is None
    assert projection_of(TURNED, monotone=np.eye(N_INPUTS, dtype=np.intp)[0]) is None
    assert projection_of(TURNED, config=SearchConfig()) is None
    categorical = Scaler.fit("standard", np.rint(X), categorical=np.arange(N_INPUTS) == 2)
    assert projection_of(TURNED, scaler=categorical) is None


def test_samples_without_weight_give_finite_projections() -> None:
    """Only the last row has one, which the training rows do not hold."""
    result = projection_of(TURNED, weight=np.eye(N_ROWS)[-1])
    assert result is None or np.isfinite(result).all()


def test_number_of_threads_does_not_change_the_projection() -> None:
    one, many = (projection_of(TURNED, n_jobs=n_jobs) for n_jobs in (1, 3))
    np.testing.assert_array_equal(one, many)


@pytest.fixture(scope="module")
def turned() -> KernelRegressor:
    return KernelRegressor(effort=4, random_state=0).fit(X[:2600], TURNED[:2600])


@pytest.mark.slow
def test_projection_reduces_the_error_of_thorough_fits(turned: KernelRegressor) -> None:
    assert isinstance(turned.features_, JoinedMaps)
    assert [type(part) for part in turned.features_.maps_[1:]] == [ProjectedMap]
    plain = KernelRegressor(random_state=0).fit(X[:2600], TURNED[:2600])
    errors = [1.0 - model.score(X[2600:], TURNED[2600:]) for model in (turned, plain)]
    assert errors[0] < 0.85 * errors[1]


@pytest.mark.slow
def test_shapley_values_of_projections_sum_to_the_prediction(turned: KernelRegressor) -> None:
    result = shapley_values(turned, X[2600:2620], X[:20])
    total = result.values.sum(axis=1) + result.base_values
    np.testing.assert_allclose(total, turned.predict(X[2600:2620]), atol=1e-10)
