"""``feature_importances_`` and the rows that models keep for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel

from gramless import KernelClassifier, KernelRegressor, load, save

X = np.random.default_rng(0).normal(size=(1200, 4))
Y = 2.0 * X[:, 0] + np.abs(X[:, 2])
FAST = {"effort": 1, "random_state": 0}


@pytest.fixture(scope="module")
def model() -> KernelRegressor:
    return KernelRegressor(**FAST).fit(X, Y)


def test_importances_sum_to_one_and_rank_inputs(model: KernelRegressor) -> None:
    result = model.feature_importances_
    assert result.sum() == pytest.approx(1.0)
    assert result.argsort()[::-1][:2].tolist() == [0, 2]
    assert result[[1, 3]].max() < 0.05
    with pytest.raises(NotFittedError):
        _ = KernelRegressor().feature_importances_
    chooser = SelectFromModel(model, prefit=True, importance_getter="feature_importances_")
    chosen = chooser.set_params(threshold=0.1).transform(X)
    np.testing.assert_array_equal(chosen, X[:, [0, 2]])


def test_outputs_count_equally_and_constant_ones_have_no_importance() -> None:
    both = KernelRegressor(**FAST).fit(X, np.column_stack([1000.0 * X[:, 0], X[:, 1]]))
    np.testing.assert_allclose(both.feature_importances_[:2], 0.5, atol=0.05)
    flat = KernelRegressor(**FAST).fit(X, np.ones(1200))
    assert not flat.feature_importances_.any()


def test_background_holds_training_rows(model: KernelRegressor, tmp_path: Path) -> None:
    assert model.background_ is not None
    assert model.background_.shape == (200, 4)
    assert {tuple(row) for row in model.background_.tolist()} <= {tuple(row) for row in X.tolist()}
    save(model, tmp_path / "model.gramless")
    loaded = load(tmp_path / "model.gramless")
    np.testing.assert_array_equal(loaded.feature_importances_, model.feature_importances_)
    small = KernelRegressor(**FAST).fit(X[:100], Y[:100])
    np.testing.assert_array_equal(small.background_, X[:100])


def test_background_is_sampled_by_weight() -> None:
    weight = np.where(X[:, 0] > 1, 1e3, 1.0)
    weight[X[:, 1] > 2] = 0.0
    model = KernelClassifier(**FAST).fit(X, Y > 1, weight)
    assert model.background_ is not None
    assert np.mean(model.background_[:, 0] > 1) > 0.9
    assert model.background_[:, 1].max() <= 2
