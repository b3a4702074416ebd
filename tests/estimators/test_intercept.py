"""Fits without a constant: raw predictions are 0 where all features are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gramless import DoublyStochasticRegressor, KernelRegressor, Nystrom, RandomFourier, load, save
from gramless.base.errors import InputError
from gramless.base.types import FloatArray
from gramless.distributed.samples import Moments
from gramless.estimators.targets import NumberEncoder
from gramless.losses import Huber, Poisson, Squared
from gramless.portable import PortableModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = 10.0 + np.sin(X[:, 0]) + 0.1 * RNG.normal(size=120)
FAR = np.full((2, 3), 1e4)
SMALL: dict[str, Any] = {
    "features": Nystrom(n_components=30),
    "bandwidth": 1.0,
    "alpha": 1e-4,
    "scaling": "standard",
    "random_state": 0,
}


def without(**params: Any) -> KernelRegressor:
    return KernelRegressor(fit_intercept=False, **params)


def test_predictions_far_from_all_rows_are_zero() -> None:
    for loss in ["squared", "huber", "absolute_error"]:
        model = without(**SMALL, loss=loss).fit(X, Y)
        assert model.predict(FAR).tolist() == [0.0, 0.0]
        assert model.intercept_ == 0.0
        assert np.abs(model.predict(X) - Y).mean() < 1.0


def test_log_link_predicts_one_far_from_all_rows() -> None:
    model = without(**SMALL, loss="poisson").fit(X, np.round(Y))
    assert model.predict(FAR).tolist() == [1.0, 1.0]
    assert model.predict(X).mean() == pytest.approx(10.0, rel=0.1)


def test_quantiles_far_from_all_rows_are_zero() -> None:
    model = without(**SMALL, loss="quantile", quantile=[0.2, 0.8], calibrate=True).fit(X, Y)
    assert model.predict(FAR).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_fit_is_ridge_regression_over_the_features() -> None:
    waves = RandomFourier(bandwidth=1.0, n_components=20, random_state=0)
    options = {**SMALL, "features": waves, "tol": 1e-8}
    weight = RNG.uniform(0.5, 2.0, size=120)
    model = without(**options).fit(X, Y, sample_weight=weight)
    Z = model.features_.transform(model.scaler_.rows(X))
    share = weight / weight.sum()
    gram = Z.T @ (share[:, None] * Z) + 1e-4 * np.eye(20)
    np.testing.assert_allclose(model.weights_, np.linalg.solve(gram, Z.T @ (share * Y)), rtol=1e-3)


def test_searched_and_grown_models_have_no_constant() -> None:
    for params in [{"effort": 1}, {"effort": 2}, {"grids": "random"}]:
        model = without(random_state=0, **params).fit(X, Y)
        assert model.intercept_ == 0.0
        assert model.score(X, Y) > 0.8
        assert "trend" not in type(model.features_).__name__.lower()


def test_partial_fit_and_warm_start_add_no_constant() -> None:
    model = without(**SMALL, warm_start=True).fit(X, Y)
    model.partial_fit(X, Y)
    assert model.intercept_ == 0.0
    model.fit(X, Y)
    assert model.predict(FAR).tolist() == [0.0, 0.0]


def test_posterior_draws_have_no_constant(tmp_path: Path) -> None:
    model = without(**SMALL, n_posterior=10).fit(X, Y)
    _, deviations = model.predict(FAR, return_std=True)
    assert len(model.posterior_.draws) == len(model.weights_)
    save(model, tmp_path / "model.gml")
    result = load(tmp_path / "model.gml").predict(FAR, return_std=True)[1]
    np.testing.assert_array_equal(result, deviations)


def test_saved_and_portable_models_predict_the_same(tmp_path: Path) -> None:
    model = without(random_state=0, effort=1).fit(X, Y)
    save(model, tmp_path / "model.gml")
    np.testing.assert_array_equal(load(tmp_path / "model.gml").predict(X), model.predict(X))
    portable = PortableModel(tmp_path / "model.gml")
    np.testing.assert_allclose(portable.predict(X), model.predict(X), rtol=1e-12)


def test_fit_intercept_must_be_boolean() -> None:
    with pytest.raises(InputError, match="fit_intercept"):
        KernelRegressor(fit_intercept="no").fit(X, Y)


def test_streamed_targets_are_not_centred() -> None:
    for loss in ["squared", "huber"]:
        model = DoublyStochasticRegressor(
            loss=loss,
            fit_intercept=False,
            bandwidth=1.0,
            max_steps=30,
            block_size=64,
            random_state=0,
        ).fit(X, Y)
        assert not model.constant_.any()
        assert not model.target_mean_.any()
        assert model.predict(X).mean() == pytest.approx(10.0, rel=0.1)


def test_encoded_targets_keep_their_zero() -> None:
    for loss in [Squared(), Huber(0.5), Poisson()]:
        for shape in [(50,), (50, 2)]:
            y: FloatArray = RNG.uniform(1.0, 9.0, size=shape)
            encoder = NumberEncoder.fit(y, None, loss, fit_intercept=False)
            ratio = encoder.encode(y) / y
            np.testing.assert_allclose(ratio, np.broadcast_to(ratio[0], ratio.shape))
            weights = RNG.normal(size=(4, *shape[1:]))
            decoded, constant = encoder.decode_weights(weights)
            assert not np.any(constant)
            np.testing.assert_allclose(encoder.encode_weights(decoded, constant), weights)


def test_encoder_from_moments_equals_encoder_from_targets() -> None:
    for loss in [Squared(), Poisson()]:
        y = RNG.uniform(1.0, 9.0, size=50)
        result = Moments.of(y, None).encoder(loss, fit_intercept=False)
        expected = NumberEncoder.fit(y, None, loss, fit_intercept=False)
        np.testing.assert_allclose(result.encode(y), expected.encode(y))
        assert not result.fits_intercept
