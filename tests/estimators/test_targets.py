"""Labels and targets of every type: integers, text, dates and missing values."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gramless import KernelClassifier, KernelRegressor
from gramless.base.errors import InputError
from gramless.estimators.targets import (
    ClassEncoder,
    NumberEncoder,
    log_probabilities,
    most_likely,
    plain_labels,
    plain_numbers,
)
from gramless.losses import LOSSES, Loss, Squared

RNG = np.random.default_rng(0)
LARGE = [2**53, 2**53 + 1, 2**53]
FORMS_OF_LABELS = {
    "Int64": lambda values: pd.Series(values, dtype="Int64"),
    "array of pandas": lambda values: pd.array(values, dtype="Int64"),
    "arrow in pandas": lambda values: pd.Series(values, dtype="int64[pyarrow]"),
    "arrow": pa.array,
    "chunks of arrow": lambda values: pa.chunked_array([values]),
    "polars": pl.Series,
    "objects": lambda values: np.array(values, dtype=object),
    "frame": lambda values: pd.DataFrame({"y": pd.Series(values, dtype="Int64")}),
}


def test_large_integer_labels_keep_every_digit():
    for form in FORMS_OF_LABELS:
        labels = np.asarray(plain_labels(FORMS_OF_LABELS[form](LARGE), "KernelClassifier"))
        assert labels.dtype == np.int64
        assert labels.tolist() == LARGE


def test_missing_integer_labels_are_rejected():
    for form in FORMS_OF_LABELS:
        with pytest.raises(InputError, match="the label of row 1 is missing"):
            plain_labels(FORMS_OF_LABELS[form]([1, None, 2]), "KernelClassifier")


def test_datetime_targets_are_rejected():
    for kind in [
        np.asarray,
        pd.Series,
        list,
        pd.DataFrame,
        pl.Series,
        pa.array,
        lambda y: y.tolist(),
    ]:
        for dtype in ["M8[ms]", "m8[ms]"]:
            with pytest.raises(InputError, match="convert them to numbers"):
                plain_numbers(kind(np.arange(3).astype(dtype)), "KernelRegressor")


def test_text_of_dates_and_durations_is_rejected():
    for text in ["2024-01-31", "2024-01-31 12:30:00", "12:30:00", "P1DT2H"]:
        with pytest.raises(InputError, match=f"text such as '{text}'.*convert them to numbers"):
            plain_numbers([text] * 3, "KernelRegressor")


def test_missing_datetime_labels_are_rejected():
    for kind in [np.asarray, pd.Series, pl.Series]:
        with pytest.raises(InputError, match="the label of row 1 is missing"):
            plain_labels(kind(np.array(["2024-01-01", "NaT"], "M8[ms]")), "KernelClassifier")


def test_nan_beside_text_labels_is_missing():
    with pytest.raises(InputError, match="the label of row 1 is missing"):
        plain_labels(["a", np.nan, "b"], "KernelClassifier")


def test_score_distinguishes_large_integer_labels():
    X = np.arange(60.0)[:, None]
    y = pd.Series(np.where(X[:, 0] < 30, 2**53, 2**53 + 1), dtype="Int64")
    model = KernelClassifier(effort=1, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.score(X, y.where(y == 2**53, 2**53).astype("Int64")) < 0.7


@dataclass(frozen=True)
class Poisson(Loss):
    """Half the deviance of counts, but for terms in ``y`` alone; the link is the logarithm."""

    name = "poisson_for_tests"
    targets = ("counts",)

    def value(self, z, y):
        return np.exp(z) - y * z

    def gradient(self, z, y):
        return np.exp(z) - y

    def curvature(self, z, y):
        return np.exp(z)

    def link(self, mean):
        return np.log(mean)

    def inverse_link(self, z):
        return np.exp(z)


@pytest.mark.parametrize(("shape", "scale"), [((200,), 1e-250), ((200,), 1e200), ((200, 3), 1.0)])
def test_encoded_numbers_are_standardized_and_decoded(shape, scale):
    y = scale * (3.0 + RNG.normal(size=shape))
    weight = RNG.uniform(size=200)
    encoder = NumberEncoder.fit(y, weight)
    codes = encoder.encode(y)
    np.testing.assert_allclose(np.average(codes, axis=0, weights=weight), 0.0, atol=1e-13)
    np.testing.assert_allclose(np.average(codes**2, axis=0, weights=weight), 1.0)
    np.testing.assert_allclose(encoder.decode(codes), y, rtol=1e-12)


def test_decoded_weights_predict_decoded_raw_predictions():
    for loss in [Squared(), Poisson()]:
        y = RNG.poisson(3.0, size=(50, 2)).astype(float)
        encoder = NumberEncoder.fit(y, None, loss)
        Z, weights = RNG.normal(size=(50, 4)), RNG.normal(size=(5, 2))
        coef, intercept = encoder.decode_weights(weights)
        raw = Z @ weights[:-1] + weights[-1]
        np.testing.assert_allclose(loss.inverse_link(Z @ coef + intercept), encoder.decode(raw))


def test_constant_targets_have_a_positive_spread():
    encoder = NumberEncoder.fit(np.full(5, 7.0))
    assert encoder.spread > 0
    np.testing.assert_array_equal(encoder.encode(np.full(5, 7.0)), 0.0)


def test_counts_are_encoded_with_their_best_constant_at_zero():
    y, loss = np.array([0.0, 1.0, 5.0]), Poisson()
    codes = NumberEncoder.fit(y, None, loss).encode(y)
    assert loss.initial_constant(codes, np.ones(3)) == pytest.approx(0.0)
    with pytest.raises(InputError, match="not negative"):
        NumberEncoder.fit(-y, None, loss)


def test_encoded_labels_are_decoded():
    for labels in [[3, 1, 3], ["b", "a", "c"], [True, False]]:
        encoder = ClassEncoder.fit(labels, "KernelClassifier")
        codes = encoder.encode(labels)
        assert set(np.unique(codes)) == {-1.0, 1.0}
        assert codes.shape[1:] == (() if encoder.n_outputs == 1 else (encoder.n_outputs,))
        np.testing.assert_array_equal(encoder.decode(codes), labels)
        np.testing.assert_array_equal(encoder.decode(codes.reshape(len(labels), -1)), labels)


def test_unknown_labels_and_single_classes_are_rejected():
    with pytest.raises(InputError, match="'c' was not among"):
        ClassEncoder.fit(["a", "b"], "me").encode(["a", "c"])
    with pytest.raises(InputError, match="me needs at least 2 classes"):
        ClassEncoder.fit(["a", "a"], "me")


def test_misclassification_dominates_the_score():
    codes = np.array([[1.0, -1.0, -1.0], [-1.0, 1.0, -1.0]])
    right, wrong = (
        ClassEncoder.score(0.1 * codes, codes, None),
        ClassEncoder.score(np.roll(0.1 * codes, 1, axis=1), codes, None),
    )
    assert right < wrong - 0.9
    assert ClassEncoder.score(codes, codes, None) == 0.0


def test_probabilities_sum_to_one_and_agree_with_the_most_likely_class():
    for raw in [RNG.normal(size=9), RNG.normal(size=(9, 1))]:
        logs = log_probabilities(raw)
        np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1.0)
        np.testing.assert_array_equal(logs.argmax(axis=1), most_likely(raw))


def test_registered_loss_is_fitted_through_its_link(monkeypatch):
    monkeypatch.setitem(LOSSES, Poisson.name, Poisson)
    X = RNG.uniform(-1, 1, size=(1500, 2))
    mean = np.exp(2.0 * X[:, 0] + 3.0)
    y = RNG.poisson(mean)
    model = KernelRegressor(loss=Poisson.name, random_state=0, n_grids=64, grids="random")
    predicted = model.fit(X[:1000], y[:1000]).predict(X[1000:])
    assert (predicted > 0).all()
    error = np.average((np.log(predicted) - np.log(mean[1000:])) ** 2)
    assert error < 0.02 * np.var(np.log(mean))
    lower, upper = model.predict_interval(X[1000:], coverage=0.8)
    assert 0.7 < np.mean((lower <= y[1000:]) & (y[1000:] <= upper)) < 0.9
