"""The doubly stochastic estimators: any loss, strategy and kernel, and what they approach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.kernel_ridge import KernelRidge

from gramless import DoublyStochasticClassifier, DoublyStochasticRegressor
from gramless.estimators.streamed import StreamDefaults
from gramless.kernels import Gaussian, Laplacian, Matern
from gramless.streaming.step_sizes import InverseTime
from gramless.streaming.strategies import Checking, Uniform

from .streamed_models import (
    FAST,
    NEW,
    THREE,
    TWO,
    Array,
    N,
    X,
    classifier,
    regressor,
    same_run,
    y,
)

pytestmark = pytest.mark.filterwarnings("error")


# Losses, strategies, options.


STRATEGIES = ["checking", "uniform", "grow", Checking(1, np.inf), Uniform(2, 1)]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_regressor_fits_with_every_strategy(strategy: Any) -> None:
    loss, update = ("squared", "gradient") if isinstance(strategy, str) else ("huber", "newton")
    model = regressor(strategy=strategy, loss=loss, update=update, max_steps=40).fit(X, y)
    assert model.score(X, y) > 0.75
    assert model.n_iter_ == len(model.history_["loss"]) <= 40
    n_blocks = model.history_["n_blocks"]
    assert n_blocks[-1] == n_blocks.max()
    if strategy == "grow":
        assert (n_blocks == np.arange(1, 41)).all()
    if strategy == "uniform":
        assert n_blocks[-1] == 20


@pytest.mark.parametrize(
    ("loss", "strategy", "targets"),
    [
        ("logistic", "checking", TWO),
        ("squared", "checking", THREE),
        ("squared_hinge", "checking", TWO),
        ("hinge", "checking", THREE),
        ("logistic", "uniform", THREE),
        ("logistic", "grow", TWO),
    ],
)
def test_classifier_fits_with_every_loss(loss: str, strategy: str, targets: Array) -> None:
    update = "gradient" if targets is TWO else "newton"
    model = classifier(strategy=strategy, loss=loss, update=update).fit(X, targets)
    assert model.score(X, targets) > 0.8
    shape = (N,) if targets is TWO else (N, 3)
    responses = model.decision_function(X)
    assert responses.shape == shape
    chosen = (responses > 0).astype(int) if targets is TWO else responses.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), chosen)


def test_fit_intercept_and_average_combine() -> None:
    for fit_intercept in [True, False]:
        for average in [True, False]:
            options = {"fit_intercept": fit_intercept, "average": average, "max_steps": 80}
            targets = y - y.mean() + (7.0 if fit_intercept else 0.0)
            model = regressor(**options).fit(X, targets)
            assert model.score(X, targets) > 0.8
            assert bool(model.constant_.any()) == fit_intercept
            assert classifier(**options).fit(X, THREE).score(X, THREE) > 0.85


class NewtonForSmallBlocks(DoublyStochasticRegressor):
    """Takes Newton steps for blocks of at most 32 frequencies."""

    _defaults = StreamDefaults(max_newton_columns=64)


def test_auto_update_is_newton_for_small_blocks_and_newton_learns_faster() -> None:
    options = regressor(max_steps=5).get_params()
    few = NewtonForSmallBlocks(**options | {"block_size": 32})
    many = NewtonForSmallBlocks(**options | {"block_size": 33})
    for model, name in ((few, "newton"), (many, "gradient")):
        same_run(model.fit(X, y), clone(model).set_params(update=name).fit(X, y))
    one, other = (regressor(update=name, max_steps=8) for name in ("newton", "gradient"))
    assert one.fit(X, y).score(X, y) > other.fit(X, y).score(X, y) + 0.03


def test_intercept_models_class_imbalance() -> None:
    rare = np.where(y > 1.8, "rare", "common")
    model = classifier(loss="logistic", max_steps=100).fit(X, rare)
    np.testing.assert_allclose(
        model.predict_proba(X).mean(axis=0)[1], (rare == "rare").mean(), rtol=0.3
    )


def test_outputs_are_scaled_separately() -> None:
    Y = np.column_stack([y, -3.0 * y, X[:, 1] + 1e6])
    model = regressor(max_steps=40).fit(X, Y)
    result = model.predict(NEW)
    assert result.shape == (150, 3)
    assert model.score(X, Y) > 0.75
    np.testing.assert_allclose(result[:, 1], -3.0 * result[:, 0], atol=1e-4)
    assert regressor().fit(X, y[:, None]).predict(NEW).shape == (150, 1)


LABELS = {
    "text": np.array(["no", "perhaps", "yes"])[THREE],
    "object text": np.array(["no", "perhaps", "yes"], dtype=object)[THREE],
    "int8": THREE.astype(np.int8) - 1,
    "floats": THREE * 2.0,
    "bool": y > 0,
    "list": TWO.tolist(),
}


def test_predict_returns_labels_of_the_given_type() -> None:
    for kind in LABELS:
        targets = LABELS[kind]
        model = classifier().fit(X, targets)
        np.testing.assert_array_equal(model.classes_, np.unique(targets))
        assert model.predict(X).dtype == model.classes_.dtype
        assert model.score(X, targets) > 0.85
        if kind in ("object text", "list"):
            plain = classifier().fit(X, np.unique(targets, return_inverse=True)[1])
            np.testing.assert_array_equal(model.weights_, plain.weights_)


def test_probabilities_sum_to_one_and_agree_with_predict() -> None:
    for targets in (TWO, THREE):
        model = classifier(max_steps=60).fit(X, targets)
        result = model.predict_proba(NEW)
        assert result.shape == (150, len(model.classes_))
        np.testing.assert_allclose(result.sum(axis=1), 1.0, rtol=1e-12)
        assert (result >= 0).all()
        np.testing.assert_array_equal(model.classes_[result.argmax(axis=1)], model.predict(NEW))
        np.testing.assert_allclose(np.exp(model.predict_log_proba(NEW)), result)
        chances = model.predict_proba(X)[np.arange(N), targets]
        assert -np.log(chances).mean() < 0.5
    far = model.predict_log_proba(np.full((1, 3), 1e30))
    assert np.isfinite(far).all()


def test_only_logistic_loss_has_probabilities() -> None:
    for loss in ["squared", "squared_hinge", "hinge"]:
        model = classifier(loss=loss).fit(X, TWO)
        for name in ("predict_proba", "predict_log_proba"):
            assert not hasattr(model, name)
            with pytest.raises(AttributeError, match=rf"{name}|logistic"):
                getattr(model, name)


# Kernel, bandwidth, components, penalty, schedule.


def test_regressor_fits_with_every_kernel() -> None:
    for kernel in ["gaussian", "laplacian", Matern(2.5), Laplacian()]:
        assert regressor(kernel=kernel, max_steps=40).fit(X, y).score(X, y) > 0.7


def test_bandwidth_may_be_number_vector_or_name() -> None:
    deviations = X.std(axis=0)
    model = regressor(bandwidth=1.5, patience=None).fit(X, y)
    np.testing.assert_allclose(model.preparation_.units, 1.5 * deviations)
    vector = [1.0, 2.0, np.inf]
    model = regressor(bandwidth=vector, patience=None).fit(X, y)
    np.testing.assert_allclose(model.preparation_.units, vector * deviations)
    other = NEW.copy()
    other[:, 2] += 100.0
    np.testing.assert_array_equal(model.predict(other), model.predict(NEW))
    for options in ({"bandwidth": "median"}, {"bandwidth": "auto"}):
        model = regressor(**options).fit(X, y)
        assert model.score(X, y) > 0.75
    assert "median" in model.reason_
    model = regressor(bandwidth=1.5, scaling="none").fit(X, y)
    np.testing.assert_array_equal(model.preparation_.units, np.full(3, 1.5))


def test_auto_scaling_standardizes_only_if_units_differ() -> None:
    stretched = X * [1.0, 1.0, 1e4]
    chosen = DoublyStochasticRegressor(**FAST).fit(stretched, y)
    assert "standard" in chosen.reason_
    rng = np.random.default_rng(1)
    noisy = np.column_stack([X, 0.01 * rng.normal(size=(N, 40))])
    chosen = DoublyStochasticRegressor(**FAST).fit(noisy, y)
    assert "none" in chosen.reason_


def test_n_components_projects_rows_and_keeps_the_score() -> None:
    for form in [np.asarray, sp.csr_array]:
        mixed = X @ np.random.default_rng(1).normal(size=(3, 5))
        wide = np.column_stack([X, mixed, np.ones(N)]) + 3.0
        model = DoublyStochasticRegressor(**{**FAST, "n_components": 3}).fit(form(wide), y)
        assert model.preparation_.projection.components.shape == (9, 3)
        assert model.score(form(wide), y) > 0.7
        turned = regressor(n_components=3, max_steps=60).fit(X, y)
        plain = regressor(scaling="none", max_steps=60).fit(X, y)
        assert abs(turned.score(X, y) - plain.score(X, y)) < 0.1
        fewer = DoublyStochasticRegressor(**{**FAST, "n_components": 9}).fit(wide, y)
        assert fewer.preparation_.projection.components.shape == (9, 3)


def test_given_alpha_and_schedule_are_used() -> None:
    schedule = InverseTime(3.0, 2.0)
    model = regressor(alpha=0.02, schedule=schedule, strategy="grow").fit(X, y)
    assert (model.alpha_, model.schedule_) == (0.02, schedule)
    np.testing.assert_allclose(model.history_["step"], 3.0 / np.arange(3, 28))
    model = regressor(alpha="auto", patience=None).fit(X, y)
    np.testing.assert_allclose(model.alpha_, 0.1 / N)
    np.testing.assert_allclose(model.schedule_.theta * model.alpha_, 1.5)
    strong = regressor(alpha=10.0, update="gradient").fit(X, y + 3.0)
    np.testing.assert_allclose(strong.predict(NEW), y.mean() + 3.0, atol=0.2)


def test_cdsg_line_search_lengthens_steps_of_existing_blocks() -> None:
    model = DoublyStochasticClassifier(
        **{**FAST, "max_steps": 40, "bandwidth": "median", "scaling": "none"},
        strategy="cdsg", update="gradient", fit_intercept=False, average=False, patience=None,
    ).fit(X, y > y.mean())  # fmt: skip
    history = model.history_
    ratio = history["step"] / [model.schedule_.step(int(t)) for t in history["iteration"]]
    is_new = np.diff(history["n_blocks"], prepend=0) > 0
    np.testing.assert_allclose(ratio[is_new], 1.0)
    assert (ratio[~is_new] > 1.0).all()
    assert ratio.max() > 1.5
    # Of the last step, not of the best evaluation, nor averaged.
    assert len(model.weights_) == 2 * model.block_size_ * history["n_blocks"][-1]
    assert not model.evaluations_


# What they approach.


@pytest.mark.parametrize("strategy", ["uniform", pytest.param("checking", marks=pytest.mark.slow)])
def test_fit_converges_to_exact_ridge_regression(strategy: str) -> None:
    rows, targets = X[:200], y[:200] - y[:200].mean()
    alpha, width = 0.02, 1.5
    exact = KernelRidge(alpha=200 * alpha, kernel="rbf", gamma=0.5 / width**2).fit(rows, targets)
    expected = exact.predict(NEW)
    errors = []
    for steps in (50, 400):
        model = DoublyStochasticRegressor(
            **{**FAST, "max_steps": steps, "bandwidth": width, "alpha": alpha, "block_size": 64},
            scaling="none", fit_intercept=False, patience=None, strategy=strategy,
        ).fit(rows, targets)  # fmt: skip
        errors.append(float(np.abs(model.predict(NEW) - expected).mean()))
    assert errors[1] < 0.03 * expected.std()
    assert errors[1] < 0.6 * errors[0]


def test_fit_converges_to_exact_ridge_regression_with_intercept() -> None:
    rows, targets = X[:200], y[:200] + 5.0 * (X[:200, 0] > 0)
    alpha, width = 0.02, 1.5
    gram = Gaussian().gram(rows / width)
    inverse = np.linalg.inv(gram + 200 * alpha * np.eye(200))
    constant = inverse.sum(axis=0) @ targets / inverse.sum()
    ahead = Gaussian().gram(NEW / width, rows / width)
    expected = ahead @ inverse @ (targets - constant) + constant
    model = DoublyStochasticRegressor(
        **{**FAST, "max_steps": 500, "bandwidth": width, "alpha": alpha, "block_size": 64},
        scaling="none", patience=None, update="gradient",
    ).fit(rows, targets)  # fmt: skip
    assert np.abs(model.predict(NEW) - expected).mean() < 0.03 * expected.std()


@pytest.mark.parametrize(
    ("load", "least"),
    [
        (load_iris, 0.9),
        (load_breast_cancer, 0.93),
        pytest.param(load_digits, 0.93, marks=pytest.mark.slow),
    ],
)
def test_default_classifier_scores_on_toy_data(load: Any, least: float) -> None:
    rows, labels = load(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(labels))
    train, test = order[::2], order[1::2]
    model = DoublyStochasticClassifier(random_state=0, max_steps=60, block_size=64)
    assert model.fit(rows[train], labels[train]).score(rows[test], labels[test]) > least


def test_default_regressor_scores_on_diabetes() -> None:
    rows, targets = load_diabetes(return_X_y=True)
    model = DoublyStochasticRegressor(random_state=0, max_steps=60, block_size=64)
    assert model.fit(rows[::2], targets[::2]).score(rows[1::2], targets[1::2]) > 0.4
