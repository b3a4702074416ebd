"""Estimators with losses other than the squared one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss

from gramless import KernelClassifier, KernelRegressor, RandomBinning, load, save
from gramless.base.errors import InputError
from gramless.losses import Huber, Logistic, Multinomial, Poisson, SmoothPinball, SquaredHinge

CLASS_LOSSES = ["squared", "squared_hinge", "logistic"]
GIVEN = {"bandwidth": 4.0, "alpha": 1e-4, "scaling": "standard", "random_state": 0}


def labelled(n_classes: int, n_rows: int = 900):
    return make_classification(
        n_rows, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=1
    )


def small(kind, **options):
    return kind(RandomBinning(n_grids=64), **{**GIVEN, **options})


@pytest.mark.parametrize(
    ("n_classes", "loss"),
    [
        *((2, loss) for loss in CLASS_LOSSES),
        (3, "logistic"),
        *(pytest.param(3, loss, marks=pytest.mark.slow) for loss in CLASS_LOSSES[:2]),
    ],
)
def test_every_loss_classifies(n_classes, loss):
    X, y = labelled(n_classes)
    n_grids = 64 if n_classes == 2 else 192
    model = KernelClassifier(loss=loss, n_grids=n_grids, random_state=0).fit(X[:700], y[:700])
    assert model.score(X[700:], y[700:]) > 0.8
    assert model.status_ == "converged"


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", ["logistic", Logistic()])
def test_probabilities_add_up_and_agree_with_predictions(n_classes, loss):
    X, y = labelled(n_classes)
    model = small(KernelClassifier, loss=loss).fit(X[:700], y[:700])
    found = model.predict_proba(X[700:])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(X[700:]))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X[700:])), found)
    assert isinstance(model.loss_, Multinomial if n_classes > 2 else Logistic)


@pytest.mark.slow
def test_probabilities_are_calibrated_where_the_truth_is_known():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (12_000, 2))
    truth = 1 / (1 + np.exp(-2 * X[:, 0] - np.sin(2 * X[:, 1])))
    y = rng.random(len(X)) < truth
    model = KernelClassifier(loss="logistic", grids="random", random_state=0).fit(
        X[:10_000], y[:10_000]
    )
    found = model.predict_proba(X[10_000:])[:, 1]
    assert np.sqrt(np.mean((found - truth[10_000:]) ** 2)) < 0.06
    best = log_loss(y[10_000:], truth[10_000:])
    assert log_loss(y[10_000:], found) < best + 0.015


def test_only_the_logistic_loss_has_probabilities_of_its_own():
    X, y = labelled(2)
    model = small(KernelClassifier, calibrate=False).fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(X)
    assert hasattr(KernelClassifier(loss="logistic"), "predict_proba")


@pytest.mark.parametrize("loss", CLASS_LOSSES)
def test_class_weights_are_sample_weights(loss):
    X, y = labelled(2)
    one = small(KernelClassifier, loss=loss, class_weight={0: 1.0, 1: 5.0}, tol=1e-8).fit(X, y)
    other = small(KernelClassifier, loss=loss, tol=1e-8).fit(X, y, np.where(y == 1, 5.0, 1.0))
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)


def test_balanced_classes_find_more_of_the_rare_one():
    X, y = make_classification(
        3000, 6, n_informative=4, weights=[0.95], class_sep=0.4, random_state=0
    )
    plain = small(KernelClassifier, alpha=1e-2).fit(X[:2000], y[:2000])
    fair = small(KernelClassifier, alpha=1e-2, class_weight="balanced").fit(X[:2000], y[:2000])
    rare = X[2000:][y[2000:] == 1]
    assert fair.predict(rare).mean() > plain.predict(rare).mean() + 0.1


@pytest.mark.parametrize("weights", [{0: -1.0}, {0: 0.0}, {0: np.nan}])
def test_wrong_class_weights(weights):
    X, y = labelled(2, 100)
    with pytest.raises(InputError, match="class_weight"):
        small(KernelClassifier, class_weight=weights).fit(X, y)


def contaminated(n_rows: int):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n_rows, 2))
    truth = np.sin(2 * X[:, 0]) + X[:, 1]
    y = truth + 0.1 * rng.normal(size=n_rows)
    y[rng.random(n_rows) < 0.08] += 25.0
    return X, y, truth


@pytest.mark.parametrize(
    "loss",
    ["huber", *(pytest.param(loss, marks=pytest.mark.slow) for loss in ("median", Huber(0.05)))],
)
def test_robust_losses_withstand_outliers(loss):
    X, y, truth = contaminated(4000)
    errors = {}
    for kind in ("squared", loss):
        model = KernelRegressor(loss=kind, grids="random", n_grids=64, random_state=0)
        model.fit(X[:3000], y[:3000])
        errors[kind] = np.abs(model.predict(X[3000:]) - truth[3000:]).mean()
    assert errors[loss] < 0.3 * errors["squared"]


@pytest.mark.parametrize(
    "quantile", [0.1, *(pytest.param(q, marks=pytest.mark.slow) for q in (0.5, 0.9))]
)
def test_quantiles_are_those_of_the_noise(quantile):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (9000, 1))
    y = X[:, 0] + rng.exponential(size=len(X))
    model = KernelRegressor(loss=SmoothPinball(quantile), grids="random", random_state=0)
    model.fit(X[:6000], y[:6000])
    assert abs((y[6000:] <= model.predict(X[6000:])).mean() - quantile) < 0.04


def test_several_outputs_with_another_loss():
    X, y, _ = contaminated(2000)
    both = np.column_stack([y, -2 * y])
    model = small(KernelRegressor, loss="huber", tol=1e-8).fit(X, both)
    alone = small(KernelRegressor, loss="huber", tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.predict(X)[:, 0], alone.predict(X), atol=1e-4)
    np.testing.assert_allclose(model.predict(X)[:, 1], -2 * model.predict(X)[:, 0], atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        (KernelClassifier, "huber"),
        (KernelRegressor, "logistic"),
        (KernelClassifier, Huber()),
        (KernelRegressor, SquaredHinge()),
        (KernelRegressor, 3),
        (KernelRegressor, None),
        (KernelClassifier, []),
    ],
)
def test_losses_of_the_other_kind_are_refused(kind, loss):
    X, y = labelled(2, 60)
    with pytest.raises(InputError, match="loss must be one of"):
        kind(loss=loss).fit(X, y)


@pytest.mark.parametrize("solver", ["pcg", "cg", "gmres"])
def test_solvers_of_squares_refuse_other_losses(solver):
    X, y = labelled(2, 60)
    with pytest.raises(InputError, match="squared loss"):
        KernelClassifier(loss="logistic", solver=solver).fit(X, y)


@pytest.mark.parametrize("solver", ["pcg", "root", "jacobi", "cg", "gmres", "newton"])
def test_solvers_of_squares_agree(solver):
    X, y = labelled(2)
    model = small(KernelClassifier, solver=solver, tol=1e-9, max_iter=2000).fit(X, y)
    usual = small(KernelClassifier, tol=1e-9, max_iter=2000).fit(X, y)
    assert model.status_ == "converged"
    np.testing.assert_allclose(model.decision_function(X), usual.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_saved_models_predict_the_same_bits(tmp_path, loss, n_classes):
    X, y = labelled(n_classes)
    model = small(KernelClassifier, loss=loss).fit(X, y)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.loss_ == model.loss_
    if loss == "logistic":
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("loss", CLASS_LOSSES)
def test_threads_change_no_bit(loss):
    X, y = labelled(3)
    models = [small(KernelClassifier, loss=loss, n_jobs=n).fit(X, y) for n in (1, 2, 3)]
    for model in models[1:]:
        assert model.coef_.tobytes() == models[0].coef_.tobytes()


@pytest.mark.slow
def test_alpha_is_searched_with_the_loss_itself():
    X, y = labelled(2)
    model = KernelClassifier(loss="logistic", grids="random", random_state=0).fit(X, y)
    squares = KernelClassifier(grids="random", random_state=0).fit(X, y)
    assert len(model.search_) > len(squares.search_)
    given = KernelClassifier(loss="logistic", alpha=1e-3, grids="random", random_state=0).fit(X, y)
    assert given.alpha_ == 1e-3


# Counts.


def counted(n_rows: int, n_outputs: int = 1):
    """Return rows, the means of their counts, and the counts."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n_rows, 4))
    mean = np.exp(1.0 + 2.0 * X[:, 0] * np.sign(X[:, 1]))
    mean = mean if n_outputs == 1 else np.column_stack([mean, 100.0 * mean])
    return X, mean, rng.poisson(mean)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_counts_are_fitted_through_their_link(n_outputs, tmp_path):
    X, mean, y = counted(5000, n_outputs)
    model = KernelRegressor(loss="poisson", random_state=0).fit(X[:3000], y[:3000])
    assert model.settings_.grids == "grown"
    assert isinstance(model.loss_, Poisson)
    assert set(np.argsort(-model.relevance_)[:2]) == {0, 1}
    X, mean, y = X[3000:], mean[3000:], y[3000:]
    found = model.predict(X)
    assert (found > 0).all()
    assert np.mean(np.log(found / mean) ** 2) < 0.1 * np.var(np.log(mean), axis=0).min()
    lower, upper = model.predict_interval(X, coverage=0.8)
    assert (lower >= 0).all()
    inside = (lower <= y) & (y <= upper)
    np.testing.assert_allclose(inside.mean(axis=0), 0.8, atol=0.06)
    # Small and large means alike: intervals grow with the mean.
    few = mean.reshape(len(X), -1)[:, 0] < np.e
    for own in (few, ~few):
        np.testing.assert_allclose(inside[own].mean(axis=0), 0.8, atol=0.15)
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), found)


def test_counts_on_random_grids():
    X, mean, y = counted(1500)
    model = KernelRegressor(loss="poisson", grids="random", n_grids=64, random_state=0)
    found = model.fit(X[:900], y[:900]).predict(X[900:])
    assert (found > 0).all()
    assert np.mean(np.log(found / mean[900:]) ** 2) < 0.5 * np.var(np.log(mean))


@pytest.mark.parametrize(
    ("targets", "said"),
    [([-1.0, 2.0, 3.0], "not negative"), ([0.0, 0.0, 0.0], "not all 0")],
)
def test_targets_that_are_no_counts_are_refused(targets, said):
    with pytest.raises(InputError, match=said):
        KernelRegressor(loss="poisson").fit(np.eye(3), targets)


def test_a_half_without_events_does_not_stop_growth():
    X, _, y = counted(1500)
    y = np.where(np.arange(1500) % 300 == 0, 1.0 + y, 0.0)
    model = KernelRegressor(loss="poisson", random_state=0, n_grids=16, effort=1).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


# The loss of classifiers by default.


def test_classes_are_fitted_by_the_logistic_loss_where_grids_are_grown():
    X, y = labelled(2, 1100)
    options = {"n_grids": 24, "effort": 1, "random_state": 0}
    model = KernelClassifier(**options).fit(X, y)
    assert isinstance(model.loss_, Logistic)
    bare = KernelClassifier(calibrate=False, **options).fit(X, y)
    assert bare.calibration_ is None
    assert bare.errors_ is None
    np.testing.assert_array_equal(bare.decision_function(X), model.decision_function(X))
    likely = 1.0 / (1.0 + np.exp(-bare.decision_function(X)))
    np.testing.assert_allclose(bare.predict_proba(X)[:, 1], likely)
    with pytest.raises(InputError, match="calibrate=True"):
        bare.predict_set(X)
    for other in ({"grids": "random"}, {"solver": "pcg"}):
        assert KernelClassifier(**options, **other).fit(X, y).loss_.name == "squared"
    assert isinstance(KernelClassifier(**options).fit(*labelled(3, 1100)).loss_, Multinomial)


def test_probabilities_are_promised_where_they_are_sure():
    assert hasattr(KernelClassifier(), "predict_proba")
    assert not hasattr(KernelClassifier(calibrate=False), "predict_proba")
    assert hasattr(KernelClassifier(loss=Multinomial(), calibrate=False), "predict_proba")


def test_class_weights_count_where_grids_are_grown():
    # Probabilities are calibrated on a fifth of the rows: a share of 0.14 is known to 0.012 there.
    X, y = labelled(2, 4500)
    y = y * (np.arange(4500) % 4 == 0)
    options = {"n_grids": 24, "effort": 1, "random_state": 0}
    plain = KernelClassifier(**options).fit(X, y).predict_proba(X)[:, 1].mean()
    fair = KernelClassifier(class_weight="balanced", **options).fit(X, y)
    assert plain == pytest.approx(y.mean(), abs=0.03)
    assert fair.predict_proba(X)[:, 1].mean() > 2.0 * plain
