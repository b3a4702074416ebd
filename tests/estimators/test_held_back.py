"""Probabilities, intervals and sets that estimators learn from rows held back."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from gramless import KernelClassifier, KernelRegressor, RandomBinning, load, save
from gramless.base.errors import InputError

GIVEN = {"bandwidth": 4.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}
LOSSES = ["squared", "squared_hinge", "logistic"]


def labelled(n_classes, n_rows=900):
    return make_classification(
        n_rows, 6, n_informative=5, n_redundant=0, n_classes=n_classes, flip_y=0.2, random_state=1
    )


def small(kind, **options):
    return kind(RandomBinning(n_grids=64), **{**GIVEN, "calibrate": True, **options})


@pytest.mark.parametrize(
    ("loss", "n_classes", "class_weight"),
    [
        ("squared", 2, {0: 9.0}),
        ("squared", 4, None),
        ("squared_hinge", 4, {0: 9.0}),
        ("squared_hinge", 2, None),
        ("logistic", 2, {0: 9.0}),
        ("logistic", 4, None),
    ],
)
def test_predicted_class_is_the_most_probable_one(loss, n_classes, class_weight):
    X, y = labelled(n_classes)
    model = small(KernelClassifier, loss=loss, class_weight=class_weight).fit(X[:600], y[:600])
    p = model.predict_proba(X[600:])
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X[600:]))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    if n_classes == 2:
        np.testing.assert_array_equal(p[:, 1] > 0.5, model.decision_function(X[600:]) > 0)


def test_probabilities_are_calibrated_on_new_rows():
    for loss in ["squared", "squared_hinge"]:
        X, y = labelled(2, 3000)
        model = small(KernelClassifier, loss=loss).fit(X[:1500], y[:1500])
        p = model.predict_proba(X[1500:])[:, 1]
        for low in (0.0, 0.25, 0.5, 0.75):
            some = (p >= low) & (p < low + 0.25)
            assert abs(p[some].mean() - y[1500:][some].mean()) < 0.1


@pytest.mark.parametrize("loss", LOSSES)
def test_probabilities_need_no_search(loss):
    X, y = labelled(3)
    model = small(KernelClassifier, loss=loss, calibrate="auto").fit(X[:600], y[:600])
    assert model.predict_proba(X[600:])[np.arange(300), y[600:]].mean() > 0.5
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_attribute_error_says_why_there_are_no_probabilities():
    X, y = labelled(2)
    model = small(KernelClassifier, calibrate=False).fit(X, y)
    message = r"KernelClassifier: predict_proba needs calibrate=True or loss='logistic'; this model"
    for name in ("predict_proba", "predict_log_proba"):
        with pytest.raises(AttributeError, match=message):
            getattr(model, name)
    assert "probability of each class" in KernelClassifier.predict_proba.__doc__


def test_calibration_does_not_depend_on_one_heavy_row():
    for kind in [KernelClassifier, KernelRegressor]:
        X, y = labelled(2)
        # A fit knows weights relative to the largest one: here most are tiny.
        heavy = small(kind).fit(X, y, np.where(np.arange(len(y)) == 0, 1e3, 1.0))
        plain = small(kind).fit(X, y)
        assert heavy.errors_.masses[-1] == pytest.approx(plain.errors_.masses[-1])
        assert heavy.errors_.masses[-1] > 100
        if kind is KernelClassifier:
            assert heavy.calibration_.floor == pytest.approx(plain.calibration_.floor)


@pytest.mark.parametrize("coverage", [0.7, 0.9])
def test_sets_and_intervals_cover_new_rows(coverage):
    X, y = labelled(4, 3000)
    chosen = small(KernelClassifier).fit(X[:1500], y[:1500]).predict_set(X[1500:], coverage)
    assert abs(chosen[np.arange(1500), y[1500:]].mean() - coverage) < 0.05
    targets = np.column_stack([X[:, 0] + y, 10.0 * y])
    model = small(KernelRegressor).fit(X[:1500], targets[:1500])
    lower, upper = model.predict_interval(X[1500:], coverage)
    inside = ((lower <= targets[1500:]) & (targets[1500:] <= upper)).mean(axis=0)
    assert (np.abs(inside - coverage) < 0.05).all()


def test_saved_models_keep_their_calibration(tmp_path):
    X, y = labelled(3)
    model = small(KernelClassifier).fit(X, y)
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict_set(X, 0.8), model.predict_set(X, 0.8))


def test_uncalibrated_models_have_no_probabilities_sets_or_intervals():
    X, y = labelled(2)
    classifier = small(KernelClassifier, calibrate=False).fit(X, y)
    assert not hasattr(classifier, "predict_proba")
    with pytest.raises(InputError, match="calibrate=True"):
        classifier.predict_set(X)
    with pytest.raises(InputError, match="calibrate=True"):
        small(KernelRegressor, calibrate=False).fit(X, y).predict_interval(X)


# Fits that go on from the rows that were not held back.


@pytest.mark.parametrize(
    ("loss", "n_classes", "weighted"),
    [
        ("squared", 2, False),
        ("squared", 4, True),
        ("squared_hinge", 4, True),
        ("logistic", 2, True),
        ("logistic", 4, False),
    ],
)
def test_continued_classifier_fit_equals_a_fit_of_all_rows(loss, n_classes, weighted):
    """Without calibration nothing is held back, and the fit begins from nothing."""
    X, y = labelled(n_classes)
    weight = np.random.default_rng(0).gamma(2.0, size=600) if weighted else None
    new, options = X[600:], {"loss": loss, "tol": 1e-7, "max_iter": 500, "n_jobs": 1}
    plain, continued = (
        small(KernelClassifier, calibrate=calibrate, **options).fit(X[:600], y[:600], weight)
        for calibrate in (False, True)
    )
    assert continued.status_ == plain.status_ == "converged"
    assert continued.n_iter_ > 0
    np.testing.assert_allclose(
        continued.decision_function(new), plain.decision_function(new), atol=3e-5
    )


@pytest.mark.parametrize(("outputs", "l1_ratio"), [(None, 1.0), (2, 0.0)])
def test_continued_regressor_fit_equals_a_fit_of_all_rows(outputs, l1_ratio):
    X, y = labelled(4)
    y = y + X[:, 0] if outputs is None else np.column_stack([y, X[:, 0]])
    options = {"tol": 1e-7, "max_iter": 500, "l1_ratio": l1_ratio, "n_jobs": 1}
    plain, continued = (
        small(KernelRegressor, calibrate=calibrate, **options).fit(X[:600], y[:600])
        for calibrate in (False, True)
    )
    np.testing.assert_allclose(continued.predict(X[600:]), plain.predict(X[600:]), atol=1e-4)
    assert continued.sparsity_ == plain.sparsity_
    assert continued.intercept_ == pytest.approx(plain.intercept_, abs=1e-5)


def test_continued_fit_uses_a_smaller_tolerance():
    """The start may meet the tolerance itself, and rows held back would not count."""
    for calibrate in [False, True]:
        X, y = labelled(2)
        model = small(KernelClassifier, calibrate=calibrate).fit(X, y)
        assert model.history_[-1]["residual"] <= (0.5 if calibrate else 1.0) * model.tol
