"""Estimators on every kind of features."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from gramless import KernelClassifier, KernelRegressor, RandomBinning, SmoothBinning, load, save
from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.estimators.features import named_map
from gramless.features.base import SizedMap
from gramless.features.exact import ExactKernel
from gramless.features.fourier import RandomFourier
from gramless.features.hybrid import Hybrid
from gramless.features.nystrom import Nystrom
from gramless.features.registry import FEATURE_MAPS, map_class
from gramless.kernels import Laplacian, Windowed
from gramless.solvers.direct import Cholesky

NAMES = tuple(FEATURE_MAPS)
rng = stream(0, "features of estimators")
X = rng.normal(size=(400, 3))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.05 * rng.normal(size=400)
NEW = rng.normal(size=(200, 3))
TRUTH = np.sin(NEW[:, 0]) + 0.5 * NEW[:, 1] ** 2
LABELS = np.where(Y > 0.4, "high", "low")
SETTINGS = {"bandwidth": 2.0, "alpha": 1e-4, "scaling": "standard", "calibrate": False}


def small(name: str) -> SizedMap:
    """Return a map that is quick to fit."""
    feature_map = named_map(name, (400, 3), 1, None, seed=0, n_jobs=None)
    sizes = {"n_grids": 64, "n_components": 128}
    return feature_map.resized(sizes.get(feature_map.size_name, feature_map.size))


def test_regressor_learns_a_smooth_function():
    for name in NAMES:
        given = {"scaling": "standard", "relevance": "equal"}
        model = KernelRegressor(small(name), grids="random", **given, random_state=0).fit(X, Y)
        assert np.std(model.predict(NEW) - TRUTH) < 0.45 * np.std(TRUTH)
        assert model.settings_.grids == "random"


def test_classifier_learns_a_smooth_boundary():
    for name in NAMES:
        given = {"scaling": "standard", "relevance": "equal"}
        model = KernelClassifier(small(name), grids="random", **given, random_state=0).fit(
            X, LABELS
        )
        truth = np.where(TRUTH > 0.4, "high", "low")
        assert np.mean(model.predict(NEW) != truth) < 0.16
        probabilities = model.predict_proba(NEW)
        assert np.allclose(probabilities.sum(axis=1), 1.0)


def test_features_may_be_given_by_name():
    for name in NAMES:
        model = KernelRegressor(name, **SETTINGS, random_state=0).fit(X[:120], Y[:120])
        assert type(model.features_) is map_class(name)
        assert np.std(model.predict(NEW) - TRUTH) < 0.7 * np.std(TRUTH)


def test_number_of_threads_and_saving_do_not_change_predictions(tmp_path):
    for name in NAMES:
        one, three = (
            KernelRegressor(small(name), **SETTINGS, random_state=0, n_jobs=n_jobs).fit(X, Y)
            for n_jobs in (1, 3)
        )
        assert np.array_equal(three.predict(NEW), one.predict(NEW))
        save(one, tmp_path / "model.gramless")
        loaded = load(tmp_path / "model.gramless")
        assert np.array_equal(loaded.predict(NEW), one.predict(NEW))
        assert clone(loaded).get_params()["features"].get_params() == loaded.features.get_params()


OTHERS = {
    "structured": RandomFourier(n_components=64, sampling="structured"),
    "shifted": RandomFourier("laplacian", n_components=63, map="shifted"),
    "hybrid": Hybrid([("bins", RandomBinning(n_grids=16)), ("waves", RandomFourier("matern"))]),
    "narrow": SmoothBinning(Windowed(depth=0.25), n_grids=16, precision="float16"),
}


def test_saved_models_keep_every_kind_of_features(tmp_path):
    for kind in OTHERS:
        solver = {"structured": "cg", "shifted": Cholesky()}.get(kind, "auto")
        model = KernelRegressor(OTHERS[kind], **SETTINGS, solver=solver, random_state=0).fit(X, Y)
        save(model, tmp_path / "model.gramless")
        assert np.array_equal(load(tmp_path / "model.gramless").predict(NEW), model.predict(NEW))


def test_classifier_fits_other_losses():
    for k, name in enumerate(NAMES):
        loss = ("logistic", "squared_hinge")[k % 2]
        model = KernelClassifier(small(name), loss=loss, **SETTINGS, random_state=0).fit(X, LABELS)
        assert np.mean(model.predict(NEW) != np.where(TRUTH > 0.4, "high", "low")) < 0.25


def test_weighted_outputs_are_fitted_as_if_separately():
    for name in NAMES:
        both, weight = np.column_stack([Y, -2.0 * Y]), np.arange(400) % 3
        model = KernelRegressor(small(name), **SETTINGS, random_state=0)
        together = model.fit(X, both, sample_weight=weight).predict(NEW)
        kept = weight > 0
        one = clone(model).fit(X[kept], Y[kept], sample_weight=weight[kept]).predict(NEW)
        assert np.allclose(together[:, 0], one, atol=2e-2 * np.std(Y))
        assert np.allclose(together[:, 1], -2.0 * together[:, 0], atol=1e-2)


def test_standard_deviation_grows_away_from_the_rows():
    for name in NAMES:
        model = KernelRegressor(small(name), **SETTINGS, n_posterior=50, random_state=0).fit(X, Y)
        _, std = model.predict(np.array([[0.0, 0.0, 0.0], [50.0, 50.0, 50.0]]), return_std=True)
        assert np.isfinite(std).all()
        if not isinstance(model.features_, RandomFourier):
            assert std[0] < 0.5 * std[1]


def test_l1_penalty_makes_weights_zero():
    for kind in ["fourier", "nystrom"]:
        given = SETTINGS | {"alpha": 1e-2}
        model = KernelRegressor(small(kind), l1_ratio=1.0, **given, random_state=0).fit(X, Y)
        zeros = np.count_nonzero(model.weights_ == 0)
        assert zeros > 10
        assert model.sparsity_ == zeros / model.weights_.size


def test_hybrid_features_learn_a_smooth_function():
    parts = [small("binning"), small("fourier")]
    given = {"scaling": "standard", "relevance": "equal"}
    model = KernelRegressor(Hybrid(parts), grids="random", **given, random_state=0).fit(X, Y)
    assert np.std(model.predict(NEW) - TRUTH) < 0.4 * np.std(TRUTH)


def test_exact_kernel_agrees_with_all_landmarks_and_ridge_regression():
    given = SETTINGS | {"alpha": 1e-3}
    exact = KernelRegressor(ExactKernel(Laplacian()), **given, random_state=0, tol=1e-8).fit(X, Y)
    nystrom = KernelRegressor(Nystrom(Laplacian(), n_components=400), **given, random_state=0)
    expected = nystrom.set_params(tol=1e-8).fit(X, Y).predict(NEW)
    assert np.allclose(exact.predict(NEW), expected, atol=1e-3)
    assert np.allclose(exact.predict(NEW), ridge_by_hand(NEW, 1e-3), atol=1e-4)


def ridge_by_hand(new: np.ndarray, alpha: float) -> np.ndarray:
    """Kernel ridge regression with a free constant, by its bordered system."""
    unit = X.std(axis=0)
    K = Laplacian().gram(X / unit, bandwidth=2.0)
    n = len(X)
    system = np.block(
        [[K + n * alpha * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]]
    )
    solution = np.linalg.solve(system, np.append(Y, 0.0))
    return Laplacian().gram(new / unit, X / unit, bandwidth=2.0) @ solution[:n] + solution[n]


def test_invalid_features_are_rejected():
    with pytest.raises(InputError, match="unknown features 'cosine'"):
        KernelRegressor("cosine").fit(X, Y)
    with pytest.raises(InputError, match="n_grids is for features of bins"):
        KernelRegressor("fourier", n_grids=10).fit(X, Y)
    with pytest.raises(InputError, match="grids='grown' chooses bins"):
        KernelRegressor("fourier", grids="grown").fit(X, Y)
    with pytest.raises(InputError, match="feature map such as"):
        KernelRegressor(RandomFourier).fit(X, Y)


def test_one_to_five_rows_are_fitted():
    for name in NAMES:
        for rows in (1, 2, 5):
            model = KernelRegressor(name, random_state=0).fit(X[:rows], Y[:rows])
            assert np.isfinite(model.predict(NEW)).all()


def test_default_size_depends_on_the_rows():
    assert named_map("fourier", (10_000, 3), 1, None, 0, None).size == 4096
    assert named_map("nystrom", (10**8, 3), 1, None, 0, None).size == 512
    assert named_map("binning", (10**8, 3), 1, None, 0, None).size == 512
