"""Errors in the measure of the loss, compared with those of simple predictions of the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss, mean_absolute_error, mean_pinball_loss, mean_tweedie_deviance

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.cli.measures import linear_predictions, measure_of

GIVEN = {"bandwidth": 2.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
COUNTS = RNG.poisson(np.exp(0.5 * X[:, 0])).astype(float)


def fitted(kind, y, **options):
    return kind(RandomBinning(n_grids=8), **GIVEN, **options).fit(X, y)


LOSSES = {
    "squared": (lambda y, p: np.sqrt(np.mean((y - p) ** 2)), np.mean),
    "huber": (mean_absolute_error, np.median),
    "absolute_error": (mean_absolute_error, np.median),
    "poisson": (lambda y, p: mean_tweedie_deviance(y, p, power=1), np.mean),
    "tweedie": (lambda y, p: mean_tweedie_deviance(y, p, power=1.5), np.mean),
    "quantile": (lambda y, p: mean_pinball_loss(y, p, alpha=0.5), np.median),
}


def test_error_measures_the_loss():
    for loss in LOSSES:
        model = fitted(KernelRegressor, COUNTS, loss=loss)
        measure, (error, constant) = measure_of(model), LOSSES[loss]
        predicted = measure.predict(X)
        result = measure.error(COUNTS, predicted)
        double = 2.0 if loss == "quantile" else 1.0
        assert result == pytest.approx(double * error(COUNTS, predicted))
        best = measure.all_constant(COUNTS)
        assert best.tolist() == [constant(COUNTS)] * len(X)
        linear = linear_predictions(measure, model, X, COUNTS)
        assert result < measure.error(COUNTS, linear) < 1.1 * measure.error(COUNTS, best)


def test_error_of_quantiles_is_their_mean_pinball_loss():
    model = fitted(KernelRegressor, X[:, 0], loss="quantile", quantile=[0.1, 0.5, 0.7])
    measure = measure_of(model)
    predicted = measure.predict(X)
    references = [
        mean_pinball_loss(X[:, 0], quantile, alpha=level)
        for quantile, level in zip(predicted.T, (0.1, 0.5, 0.7), strict=True)
    ]
    assert measure.error(X[:, 0], predicted) == pytest.approx(np.mean(references))
    assert measure.all_constant(X[:, 0]).shape == predicted.shape
    assert linear_predictions(measure, model, X, X[:, 0]) is None


def test_error_of_probabilities_is_log_loss():
    for n_classes in [2, 3]:
        names = np.array(["low", "mid", "top"][:n_classes])
        y = names[np.digitize(X[:, 0], [0.0, 1.0][: n_classes - 1])]
        model = fitted(KernelClassifier, y, loss="logistic")
        measure = measure_of(model)
        numbers, predicted = measure.targets(y), measure.predict(X)
        assert measure.error(numbers, predicted) == pytest.approx(log_loss(y, predicted))
        scores = measure.scores(numbers, predicted)
        assert scores["share of wrong classes"] == pytest.approx(1.0 - model.score(X, y))
        shares = np.bincount(numbers) / len(y)
        assert measure.all_constant(numbers)[0].tolist() == shares.tolist()
        linear = linear_predictions(measure, model, X, numbers)
        np.testing.assert_allclose(linear.sum(axis=1), 1.0)
        assert measure.error(numbers, linear) < measure.error(
            numbers, measure.all_constant(numbers)
        )


def test_unknown_classes_count_as_wrong():
    model = fitted(KernelClassifier, X[:, 0] > 0, loss="logistic")
    measure = measure_of(model)
    numbers = measure.targets(np.array(["True", "False", "perhaps"]))
    assert numbers.tolist() == [1, 0, -1]
    losses = measure.losses(numbers, measure.predict(X[:3]))
    assert losses[2] == pytest.approx(-np.log(1e-15))
    assert measure.scores(numbers, measure.predict(X[:3]))["Brier score"] > 0.0


def test_error_without_probabilities_is_the_misclassification_rate():
    y = np.where(X[:, 0] > 0, "up", "down")
    model = fitted(KernelClassifier, y, loss="squared", calibrate=False)
    measure = measure_of(model)
    numbers = measure.targets(y)
    error = measure.error(numbers, measure.predict(X))
    assert error == pytest.approx(1.0 - model.score(X, y))
    linear = linear_predictions(measure, model, X, numbers)
    assert measure.error(numbers, linear) < 0.1
