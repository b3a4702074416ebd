"""Prior deviations of the weights of bins."""

from __future__ import annotations

import numpy as np
import pytest

from gramless import KernelRegressor
from gramless.estimators import final_fit
from gramless.losses import Logistic, Poisson, Squared
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.weighted import ScaledBins
from gramless.selection.bins import (
    count_power_of,
    prior_deviations,
    row_counts,
    scaled_by_priors,
)
from gramless.selection.config import EFFORTS, SearchConfig
from gramless.selection.data import Data
from gramless.selection.goal import Goal, mean_loss

from .tasks import make_task


def data(weights: list[float] | None = None, n_validation: int = 0) -> Data:
    given = {} if weights is None else {"weight": np.array(weights), "count_unit": 1.0}
    return make_task(np.zeros((4, 1)), np.arange(4.0), n_validation=n_validation, **given).data


BINS = BinnedMatrix(np.array([[1, 1, 1, 2]], np.uint8), np.array([0, 2]))


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_prior_deviations_fall_with_the_rows_of_a_bin(power: float) -> None:
    counts = np.array([1.0, 4.0, 40.0, 400.0])
    result = prior_deviations(counts, power)
    ratios = result[0] / result
    np.testing.assert_allclose(ratios, ((counts + 20) / 21) ** (power / 2), rtol=5e-4)
    np.testing.assert_allclose((counts * result**2).sum(), counts.sum(), rtol=1e-3)


def test_prior_deviations_of_empty_bins_are_finite() -> None:
    assert np.isfinite(prior_deviations(np.zeros(3), 0.5)).all()


def goal_of(**options: object) -> Goal:
    return Goal(**{"loss": Squared(), "l1_ratio": 0.0, "score": mean_loss(Squared()), **options})


def test_bins_are_scaled_by_the_training_rows() -> None:
    order = np.array([2, 0, 3, 1])
    for task_data, counts in [
        (data(), [3.0, 1.0]),
        (data([1.0, 2.0, 3.0, 6.0]), [10.0, 2.0]),
        (data(n_validation=1), [2.0, 1.0]),
    ]:
        result = scaled_by_priors(BINS, task_data, order, 0.5)
        assert isinstance(result, ScaledBins)
        np.testing.assert_array_equal(result.factors, prior_deviations(np.array(counts), 0.5))
        assert row_counts(task_data, order).sum() == sum(counts)


def test_dense_features_and_a_power_of_zero_are_not_scaled() -> None:
    dense = DenseMatrix(np.ones((4, 2)))
    assert scaled_by_priors(dense, data(), slice(None), 0.5) is dense
    assert scaled_by_priors(BINS, data(), slice(None), 0.0) is BINS


def test_count_power_is_zero_for_classes_sparse_and_monotone_fits() -> None:
    config = SearchConfig()
    assert count_power_of(goal_of(), config) == config.count_power > 0.0
    assert count_power_of(goal_of(loss=Poisson()), config) == config.count_power
    assert count_power_of(goal_of(loss=Logistic()), config) == 0.0
    assert count_power_of(goal_of(l1_ratio=0.5), config) == 0.0
    assert count_power_of(goal_of(signs=np.ones(1)), config) == 0.0


def waves(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows)


def test_gradient_vanishes_under_the_penalties_of_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient vanishes where each weight's penalty is over its prior variance."""
    X, y = waves(3000)
    # Stored weights are rounded, which would hide small mistakes.
    monkeypatch.setattr(final_fit, "rounded_to_multiples", lambda weights, steps, n_jobs: weights)
    model = KernelRegressor(effort=2, tol=1e-9, random_state=0).fit(X, y)
    bins, *others = (
        model.features_.maps_ if hasattr(model.features_, "maps_") else [model.features_]
    )
    rows = model.scaler_.rows(X)
    Z = bins.rows_matrix(rows)
    whole = np.hstack(
        [np.asarray(part.transform(rows)) for part in others] or [np.empty((3000, 0))]
    )
    counts = Z.rmatvec(np.ones(3000)) / Z.scale
    priors = prior_deviations(counts, EFFORTS[2].count_power)
    priors = np.append(priors, np.ones(whole.shape[1]))
    left = (y - model.predict(X)) / 3000
    gradient = (
        np.append(Z.rmatvec(left), whole.T @ left) - model.alpha_ * model.weights_ / priors**2
    )
    at_zero = np.append(Z.rmatvec(y - y.mean()), whole.T @ (y - y.mean())) / 3000
    assert np.linalg.norm(priors * gradient) < 1e-8 * np.linalg.norm(priors * at_zero)
