"""Estimators on whitened inputs: what they learn, their files, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.inspection import permutation_importance

from gramless import (
    DoublyStochasticRegressor,
    FeatureDecomposition,
    KernelClassifier,
    KernelPCA,
    KernelRegressor,
    SpectralClustering,
    load,
    save,
    two_sample_test,
)
from gramless.base.errors import InputError
from gramless.inspection import shapley_values
from gramless.inspection.explanation import model_grid_use
from gramless.portable import PortableModel

RNG = np.random.default_rng(0)
SOURCES = RNG.normal(size=(700, 4))
X: NDArray[np.float64] = SOURCES @ RNG.normal(size=(4, 4)) * [1.0, 1e3, 1e-3, 1.0] + 5.0
Y = np.sin(2.0 * SOURCES[:, 0]) + SOURCES[:, 1]
GIVEN = {"bandwidth": 2.0, "alpha": 1e-3, "n_grids": 128, "random_state": 0}


def fitted(**options: Any) -> KernelRegressor:
    return KernelRegressor(**{**GIVEN, "scaling": "whiten", **options}).fit(X[:500], Y[:500])


def test_whitening_improves_the_score_on_mixed_inputs() -> None:
    whitened, standard = fitted(), fitted(scaling="standard")
    assert whitened.score(X[500:], Y[500:]) > standard.score(X[500:], Y[500:]) + 0.1
    searched = fitted(bandwidth="auto", alpha="auto")
    assert searched.settings_.scaling == "whiten"
    assert searched.score(X[500:], Y[500:]) > 0.9


def test_saved_models_predict_the_same(tmp_path: Path) -> None:
    for features in ["binning", "smooth", "fourier", "nystrom"]:
        model = KernelClassifier(features, scaling="whiten", random_state=0).fit(
            X[:300], Y[:300] > 0
        )
        save(model, tmp_path / "m")
        expected = model.decision_function(X)
        np.testing.assert_array_equal(load(tmp_path / "m").decision_function(X), expected)


def test_portable_models_predict_the_same(tmp_path: Path) -> None:
    for dtype in [np.float32, np.float64]:
        rows = X.astype(dtype)
        model = KernelRegressor(scaling="whiten", **GIVEN).fit(rows, Y)
        save(model, tmp_path / "m")
        predicted = PortableModel(tmp_path / "m").predict(rows)
        np.testing.assert_allclose(predicted, model.predict(rows), rtol=1e-12, atol=1e-12)


def test_streams_are_whitened_and_reduced(tmp_path: Path) -> None:
    options = {"random_state": 0, "max_steps": 20, "block_size": 32, "batch_size": 200}
    model = DoublyStochasticRegressor(scaling="whiten", bandwidth=1.5, **options).fit(X, Y)
    rows = model.preparation_.unit_rows(X)
    np.testing.assert_allclose(np.cov(rows.T), np.eye(4) / 1.5**2, atol=0.02)
    save(model, tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict(X), model.predict(X))
    two = DoublyStochasticRegressor(scaling="whiten", n_components=2, **options).fit(X, Y)
    assert two.preparation_.unit_rows(X).shape == (700, 2)


def test_unsupervised_estimators_may_whiten() -> None:
    for estimator in [KernelPCA, FeatureDecomposition, SpectralClustering]:
        model = estimator(scaling="whiten", random_state=0).fit(X[:200])
        assert model.scaler_.kind == "whiten"
        assert list(getattr(model, "ignored_columns_", [])) == []


def test_two_sample_test_accepts_whitening() -> None:
    assert two_sample_test(X[:200], X[200:400], scaling="whiten", random_state=0).p_value > 0.01


def test_whitening_rejects_learned_relevance_and_grown_grids() -> None:
    for options in [{"relevance": "learned"}, {"grids": "grown"}]:
        with pytest.raises(InputError, match="scaling='whiten' combines the inputs"):
            KernelRegressor(scaling="whiten", **options).fit(X, Y)


def test_whitening_rejects_missing_values_and_monotone_inputs() -> None:
    gaps = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
    with pytest.raises(InputError, match="some are categories"):
        KernelRegressor(scaling="whiten", **GIVEN).fit(gaps, Y)
    with pytest.raises(InputError, match="monotonic_cst is for grown grids"):
        KernelRegressor(scaling="whiten", monotonic_cst=[1, 0, 0, 0]).fit(X, Y)


def test_whitened_models_have_permutation_importances_but_no_shapley_values() -> None:
    model = fitted()
    with pytest.raises(InputError, match="use permutation_importance"):
        shapley_values(model, X[:5])
    assert not hasattr(model, "feature_importances_")
    assert (permutation_importance(model, X[500:], Y[500:]).importances_mean > 0).all()
    use = model_grid_use(model, X[:50])
    np.testing.assert_allclose(use.share, 1.0)
