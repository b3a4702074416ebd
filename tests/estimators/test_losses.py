"""Estimators with losses other than the squared one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss

from gramless import KernelClassifier, KernelRegressor, RandomBinning, load, save
from gramless.base.errors import InputError
from gramless.datasets import friedman1
from gramless.estimators.targets import weights_of_classes
from gramless.losses import (
    CumulativeLogistic,
    Gamma,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    SmoothPinball,
    SquaredHinge,
    Tweedie,
)

CLASS_LOSSES = ["squared", "squared_hinge", "logistic"]
SCALED = {"scaling": "standard", "relevance": "equal", "random_state": 0}
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
def test_classifier_fits_with_every_loss(n_classes, loss):
    X, y = labelled(n_classes)
    n_grids = 64 if n_classes == 2 else 192
    model = KernelClassifier(loss=loss, n_grids=n_grids, random_state=0).fit(X[:700], y[:700])
    assert model.score(X[700:], y[700:]) > 0.8
    assert model.status_ == "converged"


@pytest.mark.parametrize(("n_classes", "loss"), [(2, "logistic"), (3, Logistic())])
def test_probabilities_sum_to_one_and_agree_with_predict(n_classes, loss):
    X, y = labelled(n_classes)
    model = small(KernelClassifier, loss=loss).fit(X[:700], y[:700])
    result = model.predict_proba(X[700:])
    np.testing.assert_allclose(result.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[result.argmax(axis=1)], model.predict(X[700:]))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X[700:])), result)
    assert isinstance(model.loss_, Multinomial if n_classes > 2 else Logistic)


@pytest.mark.slow
def test_probabilities_are_close_to_the_true_ones():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (12_000, 2))
    truth = 1 / (1 + np.exp(-2 * X[:, 0] - np.sin(2 * X[:, 1])))
    y = rng.random(len(X)) < truth
    model = KernelClassifier(loss="logistic", grids="random", random_state=0).fit(
        X[:10_000], y[:10_000]
    )
    result = model.predict_proba(X[10_000:])[:, 1]
    assert np.sqrt(np.mean((result - truth[10_000:]) ** 2)) < 0.06
    best = log_loss(y[10_000:], truth[10_000:])
    assert log_loss(y[10_000:], result) < best + 0.015


def test_class_weights_equal_sample_weights():
    for loss in CLASS_LOSSES:
        X, y = labelled(2)
        one = small(KernelClassifier, loss=loss, class_weight={0: 1.0, 1: 5.0}, tol=1e-8).fit(X, y)
        other = small(KernelClassifier, loss=loss, tol=1e-8).fit(X, y, np.where(y == 1, 5.0, 1.0))
        np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-6)


def test_balanced_class_weights_predict_the_rare_class_more_often():
    X, y = make_classification(
        3000, 6, n_informative=4, weights=[0.95], class_sep=0.4, random_state=0
    )
    plain = small(KernelClassifier, alpha=1e-2).fit(X[:2000], y[:2000])
    fair = small(KernelClassifier, alpha=1e-2, class_weight="balanced").fit(X[:2000], y[:2000])
    rare = X[2000:][y[2000:] == 1]
    assert fair.predict(rare).mean() > plain.predict(rare).mean() + 0.1


def test_class_weights_must_be_positive():
    for weights in [{0: -1.0}, {0: 0.0}, {0: np.nan}]:
        X, y = labelled(2, 100)
        with pytest.raises(InputError, match="class_weight"):
            small(KernelClassifier, class_weight=weights).fit(X, y)


def test_class_weights_match_labels_of_any_spelling():
    for labels, spellings in [
        ([0, 1], [{0: 1, 1: 5}, {"0": 1, "1": 5}, {False: 1, True: 5}, {1.0: 5}, {"1.0": 5}]),
        (["0", "1"], [{"0": 1, "1": 5}, {0: 1, 1: 5}, {"1": 5}, {1.0: 5, 2: 7, "0": 1}]),
        ([False, True], [{False: 1, True: 5}, {0: 1, 1: 5}, {"False": 1, "True": 5}]),
        (["no", "yes"], [{"yes": 5}]),
        ([0.5, 1.5], [{1.5: 5}, {"1.5": 5}]),
    ]:
        for spelling in spellings:
            assert weights_of_classes(spelling, np.array(labels)).tolist() == [1, 5]


def test_class_weights_match_text_labels_of_digits():
    X, y = labelled(2, 100)
    given = {"class_weight": {"0": 1.0, "1": 5.0}}
    one = small(KernelClassifier, **given).fit(X, y.astype(str))
    other = small(KernelClassifier, **given).fit(X, y)
    np.testing.assert_array_equal(one.weights_, other.weights_)


def test_class_weights_of_unknown_or_ambiguous_classes_are_rejected():
    for given, labels, message in [
        ({"maybe": 2}, ["no", "yes"], "'maybe' is none of the classes"),
        ({0: 1, "0": 2}, ["0", "1"], "is ambiguous"),
        ({1: 2}, ["1", "1.0"], "is ambiguous"),
    ]:
        with pytest.raises(InputError, match=message):
            weights_of_classes(given, np.array(labels))


def contaminated(n_rows: int):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n_rows, 2))
    truth = np.sin(2 * X[:, 0]) + X[:, 1]
    y = truth + 0.1 * rng.normal(size=n_rows)
    y[rng.random(n_rows) < 0.08] += 25.0
    return X, y, truth


@pytest.mark.parametrize(
    "quantile", [0.1, *(pytest.param(q, marks=pytest.mark.slow) for q in (0.5, 0.9))]
)
def test_predicted_quantile_has_the_given_coverage(quantile):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (9000, 1))
    y = X[:, 0] + rng.exponential(size=len(X))
    model = KernelRegressor(loss=SmoothPinball(quantile), grids="random", random_state=0)
    model.fit(X[:6000], y[:6000])
    assert abs((y[6000:] <= model.predict(X[6000:])).mean() - quantile) < 0.04


def test_outputs_of_huber_loss_are_fitted_as_if_separately():
    X, y, _ = contaminated(2000)
    both = np.column_stack([y, -2 * y])
    model = small(KernelRegressor, loss="huber", tol=1e-8).fit(X, both)
    alone = small(KernelRegressor, loss="huber", tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.predict(X)[:, 0], alone.predict(X), atol=1e-4)
    np.testing.assert_allclose(model.predict(X)[:, 1], -2 * model.predict(X)[:, 0], atol=1e-3)


def test_losses_for_another_kind_of_targets_are_rejected():
    for kind, loss in [
        (KernelClassifier, "huber"),
        (KernelRegressor, "logistic"),
        (KernelClassifier, Huber()),
        (KernelRegressor, SquaredHinge()),
        (KernelRegressor, 3),
        (KernelRegressor, None),
        (KernelClassifier, []),
    ]:
        X, y = labelled(2, 60)
        with pytest.raises(InputError, match="loss must be one of"):
            kind(loss=loss).fit(X, y)


def test_least_squares_solvers_reject_other_losses():
    for solver in ["pcg", "cg", "gmres"]:
        X, y = labelled(2, 60)
        with pytest.raises(InputError, match="squared loss"):
            KernelClassifier(loss="logistic", solver=solver).fit(X, y)


@pytest.mark.parametrize(
    ("loss", "n_classes"), [("logistic", 2), ("logistic", 3), ("squared_hinge", 3)]
)
def test_saved_models_predict_the_same(tmp_path, loss, n_classes):
    X, y = labelled(n_classes)
    model = small(KernelClassifier, loss=loss).fit(X, y)
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.loss_ == model.loss_
    if loss == "logistic":
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_number_of_threads_does_not_change_the_fit():
    for loss in CLASS_LOSSES:
        X, y = labelled(3)
        models = [small(KernelClassifier, loss=loss, n_jobs=n).fit(X, y) for n in (1, 2, 3)]
        for model in models[1:]:
            assert model.weights_.tobytes() == models[0].weights_.tobytes()


@pytest.mark.slow
def test_alpha_search_uses_the_loss():
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
def test_poisson_loss_predicts_positive_means_and_intervals_that_cover(n_outputs, tmp_path):
    X, mean, y = counted(5000, n_outputs)
    model = KernelRegressor(loss="poisson", effort=1, random_state=0).fit(X[:3000], y[:3000])
    assert model.settings_.grids == "grown"
    assert isinstance(model.loss_, Poisson)
    assert set(np.argsort(-model.relevance_)[:2]) == {0, 1}
    X, mean, y = X[3000:], mean[3000:], y[3000:]
    result = model.predict(X)
    assert (result > 0).all()
    assert np.mean(np.log(result / mean) ** 2) < 0.1 * np.var(np.log(mean), axis=0).min()
    lower, upper = model.predict_interval(X, coverage=0.8)
    assert (lower >= 0).all()
    inside = (lower <= y) & (y <= upper)
    np.testing.assert_allclose(inside.mean(axis=0), 0.8, atol=0.06)
    # Small and large means alike: intervals grow with the mean.
    few = mean.reshape(len(X), -1)[:, 0] < np.e
    for group in (few, ~few):
        np.testing.assert_allclose(inside[group].mean(axis=0), 0.8, atol=0.15)
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), result)


def test_poisson_loss_fits_on_random_grids():
    X, mean, y = counted(1500)
    model = KernelRegressor(loss="poisson", grids="random", n_grids=64, **SCALED)
    result = model.fit(X[:900], y[:900]).predict(X[900:])
    assert (result > 0).all()
    assert np.mean(np.log(result / mean[900:]) ** 2) < 0.5 * np.var(np.log(mean))


def test_poisson_loss_rejects_negative_and_all_zero_targets():
    for targets, message in [([-1.0, 2.0, 3.0], "not negative"), ([0.0, 0.0, 0.0], "not all 0")]:
        with pytest.raises(InputError, match=message):
            KernelRegressor(loss="poisson").fit(np.eye(3), targets)


def test_growth_on_rare_counts_gives_finite_predictions():
    X, _, y = counted(1500)
    y = np.where(np.arange(1500) % 300 == 0, 1.0 + y, 0.0)
    model = KernelRegressor(loss="poisson", random_state=0, n_grids=16, effort=1).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_folds_whose_targets_are_all_zero_are_fitted():
    for loss in ["poisson", "tweedie"]:
        X, y = np.random.default_rng(0).normal(size=(30, 2)), np.zeros(30)
        y[7] = 2.0
        model = KernelRegressor(loss=loss, cv=3, effort=1, random_state=0).fit(X, y)
        result = model.predict(X)
        assert result.argmax() == 7
        assert np.isfinite(result).all()


# The loss of classifiers by default.


def test_grown_classifiers_use_the_logistic_loss_by_default():
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


def test_predict_proba_is_available_before_fit_only_if_certain():
    assert hasattr(KernelClassifier(), "predict_proba")
    assert not hasattr(KernelClassifier(calibrate=False), "predict_proba")
    assert hasattr(KernelClassifier(loss=Multinomial(), calibrate=False), "predict_proba")


def test_balanced_class_weights_raise_probabilities_of_the_rare_class():
    # Probabilities are calibrated on a fifth of the rows: a share of 0.14 is known to 0.012 there.
    X, y = labelled(2, 4500)
    y = y * (np.arange(4500) % 4 == 0)
    options = {"n_grids": 24, "effort": 1, "random_state": 0}
    plain = KernelClassifier(**options).fit(X, y).predict_proba(X)[:, 1].mean()
    fair = KernelClassifier(class_weight="balanced", **options).fit(X, y)
    assert plain == pytest.approx(y.mean(), abs=0.03)
    assert fair.predict_proba(X)[:, 1].mean() > 2.0 * plain


# Positive targets, quantiles, intervals.


def amounts(n_rows: int):
    """Return rows, the means of their targets, and positive targets."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n_rows, 4))
    mean = 100.0 * np.exp(X[:, 0] + 2.0 * X[:, 1] * (X[:, 2] > 0))
    return X, mean, mean * rng.gamma(3.0, 1.0 / 3.0, n_rows)


@pytest.mark.parametrize("loss", ["gamma", "tweedie"])
def test_positive_targets_have_positive_predictions_and_bounds(loss, tmp_path):
    X, mean, y = amounts(2500)
    if loss == "tweedie":
        y[::4] = 0.0
    model = KernelRegressor(loss=loss, power=1.7, random_state=0).fit(X[:1500], y[:1500])
    result, mean, y = model.predict(X[1500:]), mean[1500:], y[1500:]
    assert (result > 0).all()
    share = 1.0 if loss == "gamma" else 0.75
    assert np.mean(np.log(result / (share * mean)) ** 2) < 0.15 * np.var(np.log(mean))
    lower, upper = model.predict_interval(X[1500:], coverage=0.8)
    assert (lower >= 0).all()
    inside = (lower <= y) & (y <= upper)
    assert abs(inside.mean() - 0.8) < 0.06
    large = mean > np.median(mean)
    assert (upper - lower)[large].mean() > 2.0 * (upper - lower)[~large].mean()
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.loss_ == model.loss_ == (Gamma() if loss == "gamma" else Tweedie(1.7))


def test_loss_names_of_scikit_learn_are_accepted():
    X, y = labelled(2, 200)
    pairs = [
        ("squared", "squared_error", KernelRegressor),
        ("log_loss", "logistic", KernelClassifier),
    ]
    for one, other, kind in pairs:
        models = [small(kind, loss=name).fit(X, y) for name in (one, other)]
        np.testing.assert_array_equal(models[0].weights_, models[1].weights_)
    assert small(KernelRegressor, loss="absolute_error").fit(X, y).loss_ == SmoothPinball(0.5)
    assert hasattr(KernelClassifier(loss="log_loss", calibrate=False), "predict_proba")


def varying(n_rows: int):
    """Return rows and targets whose deviation is from 0.1 to 2.1."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n_rows, 3))
    return X, X[:, 0] + (0.1 + 2.0 * (X[:, 1] > 0) * X[:, 2] ** 2) * rng.normal(size=n_rows)


def test_quantiles_do_not_cross_and_cover(tmp_path):
    X, y = varying(4000)
    levels = [0.05, 0.5, 0.95]
    model = KernelRegressor(loss="quantile", quantile=levels, effort=1, random_state=0)
    model.fit(X[:3000], y[:3000])
    result, truth = model.predict(X[3000:]), y[3000:]
    assert result.shape == (1000, 3)
    assert (np.diff(result, axis=1) >= 0).all()
    np.testing.assert_allclose((truth[:, None] <= result).mean(axis=0), levels, atol=0.05)
    assert model.score(X[3000:], truth) > 0.15
    lower, upper = model.predict_interval(X[3000:])
    assert 0.87 < ((lower <= truth) & (truth <= upper)).mean() < 0.94
    calm = (X[3000:, 1] < 0) | (np.abs(X[3000:, 2]) < 0.3)
    assert (upper - lower)[~calm].mean() > 2.0 * (upper - lower)[calm].mean()
    quantiles = model.predict_quantiles(X[3000:], [0.95, 0.3, 0.5])
    assert (np.diff(quantiles[:, [1, 2, 0]], axis=1) >= 0).all()
    np.testing.assert_array_equal(quantiles[:, 0], upper)
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_quantiles(X[:9]), model.predict_quantiles(X[:9]))


@pytest.mark.slow
def test_outer_quantiles_from_few_rows_cover_new_rows():
    X, y = friedman1(9000, seed=0)
    levels, shares = [0.1, 0.5, 0.9], []
    for rows in (slice(0, 1000), slice(1000, 2000), slice(2000, 3000)):
        model = KernelRegressor(loss="quantile", quantile=levels, effort=1, random_state=0)
        result = model.fit(X[rows], y[rows]).predict(X[3000:])
        shares.append((y[3000:, None] <= result).mean(axis=0))
    np.testing.assert_allclose(np.mean(shares, axis=0), levels, atol=0.02)


@pytest.mark.slow
def test_quantile_intervals_are_narrower_and_cover(tmp_path):
    X, y = varying(2500)
    y = y + 2.0 - y[:2000].min()
    model = KernelRegressor(intervals="quantiles", effort=1, random_state=0)
    model.fit(X[:2000], y[:2000])
    bounds = {how: model.predict_interval(X[2000:], method=how) for how in ("split", "quantiles")}
    widths = {how: (upper - lower).mean() for how, (lower, upper) in bounds.items()}
    assert widths["quantiles"] < 0.85 * widths["split"]
    for lower, upper in bounds.values():
        assert (lower >= 0).all()
        assert 0.85 < ((lower <= y[2000:]) & (y[2000:] <= upper)).mean() < 0.95
    for result, bound in zip(model.predict_interval(X[2000:]), bounds["quantiles"], strict=True):
        np.testing.assert_array_equal(result, bound)
    assert model.predict(X[:5]).shape == (5,)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model").predict_interval(X[:9])
    np.testing.assert_array_equal(again, model.predict_interval(X[:9]))


def test_predicted_quantiles_are_the_ends_of_intervals():
    X, y = varying(400)
    model = small(KernelRegressor, calibrate=True).fit(X, y)
    result = model.predict_quantiles(X, [0.1, 0.5, 0.9])
    np.testing.assert_array_equal(result[:, 1], model.predict(X))
    lower, upper = model.predict_interval(X, 0.8)
    np.testing.assert_allclose(result[:, [0, 2]], np.column_stack([lower, upper]))


def test_invalid_interval_methods_and_quantiles_are_rejected():
    X, y = varying(100)
    model = small(KernelRegressor, calibrate=True).fit(X, y)
    for options, message in [
        ({"method": "bayes"}, "method must be 'auto'"),
        ({"method": "quantiles"}, "needs a fit with intervals='quantiles'"),
    ]:
        with pytest.raises(InputError, match=message):
            model.predict_interval(X, **options)
    with pytest.raises(InputError, match="quantiles must lie between 0 and 1"):
        model.predict_quantiles(X, [0.0])
    with pytest.raises(InputError, match="intervals must be one of 'split'"):
        small(KernelRegressor, intervals="wide").fit(X, y)
    with pytest.raises(InputError, match="one column, got 2"):
        small(KernelRegressor, loss="quantile", quantile=[0.1, 0.9]).fit(X, np.column_stack([y, y]))
    with pytest.raises(InputError, match="power must lie between"):
        small(KernelRegressor, loss="tweedie", power=0.5).fit(X, np.abs(y))


# Several labels, and classes in an order.


def test_labels_of_a_multilabel_fit_are_fitted_as_if_separately(tmp_path):
    X, _ = labelled(2, 600)
    Y = np.column_stack([X[:, 0] > 0, X[:, 1] * X[:, 2] > 0, X[:, 3] > 1]).astype(int)
    model = small(KernelClassifier, tol=1e-8).fit(X, Y)
    assert model.multilabel_
    result = model.predict_proba(X)
    for k in range(3):
        alone = small(KernelClassifier, loss="logistic", tol=1e-8).fit(X, Y[:, k])
        np.testing.assert_allclose(result[:, k], alone.predict_proba(X)[:, 1], atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), result > 0.5)
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), result)


def test_grown_grids_fit_several_labels():
    X, _ = labelled(2, 1500)
    Y = np.column_stack([X[:, 0] > 0, X[:, 1] * X[:, 2] > 0]).astype(int)
    model = KernelClassifier(effort=1, random_state=0).fit(X[:1000], Y[:1000])
    assert model.settings_.grids == "grown"
    assert (model.predict(X[1000:]) == Y[1000:]).mean() > 0.9
    with pytest.raises(InputError, match="one class per row"):
        model.predict_set(X)


def graded(n_rows: int):
    """Return rows, and grades in an order that is not that of the alphabet."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n_rows, 3))
    level = 3.0 * X[:, 0] + np.sin(4 * X[:, 1]) + rng.logistic(size=n_rows)
    names = np.array(["poor", "fair", "good", "best"])
    grades = np.digitize(level, [-2.0, 0.0, 2.5])
    return X, pd.Series(pd.Categorical.from_codes(grades, names, ordered=True))


def test_grown_grids_fit_ordered_classes(tmp_path):
    X, y = graded(2500)
    model = KernelClassifier(effort=1, random_state=0).fit(X[:1500], y[:1500])
    assert isinstance(model.loss_, CumulativeLogistic)
    assert model.classes_.tolist() == ["poor", "fair", "good", "best"]
    result, truth = model.predict_proba(X[1500:]), np.asarray(y.cat.codes[1500:])
    np.testing.assert_allclose(result.sum(axis=1), 1.0)
    plain = KernelClassifier(effort=1, random_state=0).fit(X[:1500], np.asarray(y[:1500]))
    columns = [plain.classes_.tolist().index(name) for name in model.classes_]
    losses = [
        log_loss(truth, probabilities)
        for probabilities in (result, plain.predict_proba(X[1500:])[:, columns])
    ]
    assert losses[0] < losses[1] + 0.01
    assert np.corrcoef(model.decision_function(X[1500:]), truth)[0, 1] > 0.7
    sure = model.predict_set(X[1500:], coverage=0.8)
    assert abs(sure[np.arange(1000), truth].mean() - 0.8) < 0.06
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))


def test_cumulative_fit_maximizes_the_penalized_likelihood():
    X, y = graded(150)
    model = small(KernelClassifier, loss="cumulative", tol=1e-8, alpha=1e-2)
    model.fit(X, np.asarray(y.cat.codes))
    Z = model.features_.rows_matrix(model.scaler_.rows(X, None)).toarray()
    ranks, n = np.asarray(y.cat.codes, float), len(model.weights_)

    def objective(parameters):
        w, thresholds = parameters[:n], tuple(parameters[n:])
        loss = CumulativeLogistic(thresholds).value(Z @ w, ranks).mean()
        return loss + 0.5 * model.alpha_ * w @ w

    result = np.append(model.weights_, model.loss_.thresholds)
    slope = approx_fprime(result, objective, 1e-7)
    assert np.abs(slope[:n]).max() < 1e-4
    # Half a row of each class stands beside the rows, and small moves are not made.
    assert np.abs(slope[n:]).max() < 0.02


def test_invalid_multilabel_targets_are_rejected():
    X, y = labelled(3, 60)
    with pytest.raises(ValueError, match="labels, 1 if set and 0 if not"):
        small(KernelClassifier).fit(X, np.column_stack([y, y]))
    with pytest.raises(InputError, match="use scoring=None"):
        small(KernelClassifier, scoring="accuracy").fit(X, np.eye(3, dtype=int)[y])
