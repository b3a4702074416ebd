"""Offsets of log links and others, and distributions of counts, against simulations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score

import gramless
from gramless import KernelRegressor
from gramless.base.errors import InputError
from gramless.base.types import FloatArray
from gramless.losses import Gamma, Huber, Logistic, Poisson, SmoothPinball, Squared, Tweedie

N = 2000
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (2 * N, 2))
RATE = np.exp(1.0 + np.sin(3 * X[:, 0]))
EXPOSURE = RNG.uniform(0.1, 3.0, 2 * N)
COUNTS = RNG.poisson(RATE * EXPOSURE).astype(float)
OFFSET = np.log(EXPOSURE)


def fast(**params: Any) -> KernelRegressor:
    return KernelRegressor(effort=1, n_grids=40, random_state=0, **params)


def test_offset_equals_changed_targets_and_weights() -> None:
    for loss in [Squared(), Huber(0.5), SmoothPinball(0.9), Poisson(), Tweedie(1.3), Gamma()]:
        z, y, offset = RNG.normal(size=50), RNG.gamma(2.0, size=50), RNG.normal(size=50)
        targets, factors = loss.without_offset(y, offset)
        np.testing.assert_allclose(loss.value(z + offset, y), factors * loss.value(z, targets))


def test_logistic_loss_rejects_offsets() -> None:
    with pytest.raises(InputError, match="'logistic' takes no offset"):
        Logistic().without_offset(np.ones(1), np.ones(1))


def test_log_exposure_offset_equals_weighted_rates() -> None:
    model = fast(loss="poisson").fit(X[:N], COUNTS[:N], offset=OFFSET[:N])
    rates = COUNTS[:N] / EXPOSURE[:N]
    reference = fast(loss="poisson").fit(X[:N], rates, sample_weight=EXPOSURE[:N])
    new = slice(N, None)
    np.testing.assert_allclose(model.predict(X[new]), reference.predict(X[new]), rtol=1e-6)
    counts = model.predict(X[new], offset=OFFSET[new])
    np.testing.assert_allclose(counts, model.predict(X[new]) * EXPOSURE[new])
    assert np.corrcoef(np.log(model.predict(X[new])), np.log(RATE[new]))[0, 1] > 0.97
    lower, upper = model.predict_interval(X[new], offset=OFFSET[new])
    assert 0.88 <= ((lower <= COUNTS[new]) & (COUNTS[new] <= upper)).mean() <= 0.95


def test_offset_of_squared_loss_is_subtracted_from_targets() -> None:
    y = RATE[:N] + 5.0 * OFFSET[:N]
    model = fast().fit(X[:N], y, offset=5.0 * OFFSET[:N])
    reference = fast().fit(X[:N], y - 5.0 * OFFSET[:N])
    result = model.predict(X[N:], offset=np.full(N, 2.0))
    np.testing.assert_array_equal(result, reference.predict(X[N:]) + 2.0)


def test_score_adds_the_offset_to_predictions() -> None:
    for loss in ["poisson", "squared"]:
        model = fast(loss=loss).fit(X[:N], COUNTS[:N], offset=OFFSET[:N])
        weight, new = EXPOSURE[N:], slice(N, None)
        predicted = model.predict(X[new], offset=OFFSET[new])
        expected = r2_score(COUNTS[new], predicted, sample_weight=weight)
        assert model.score(X[new], COUNTS[new], weight, OFFSET[new]) == expected
        assert expected > model.score(X[new], COUNTS[new], weight)


def test_score_of_several_quantiles_adds_the_offset() -> None:
    model = fast(loss="quantile", quantile=[0.2, 0.8]).fit(X[:N], COUNTS[:N])
    shifted = model.score(X[N:], COUNTS[N:] + 3.0, offset=np.full(N, 3.0))
    assert shifted == pytest.approx(model.score(X[N:], COUNTS[N:]))


def test_an_offset_is_routed_through_cross_validation() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = fast(loss="poisson").set_fit_request(offset=True).set_score_request(offset=True)
        scores = cross_val_score(model, X[:N], COUNTS[:N], params={"offset": OFFSET[:N]}, cv=2)
        half = slice(N // 2, N), slice(0, N // 2)
        model = fast(loss="poisson").fit(X[half[0]], COUNTS[half[0]], offset=OFFSET[half[0]])
    assert scores[0] == model.score(X[half[1]], COUNTS[half[1]], offset=OFFSET[half[1]])


def test_invalid_offsets_are_rejected() -> None:
    for params, options, match in [
        ({}, {"offset": np.zeros(3)}, "shape"),
        ({}, {"offset": np.full(N, np.inf)}, "finite"),
        ({}, {"offset": np.zeros(N), "eval_set": (X[:9], COUNTS[:9])}, "eval_set"),
        ({"loss": "poisson", "intervals": "quantiles"}, {"offset": np.zeros(N)}, "quantiles"),
        ({"loss": "poisson"}, {"offset": np.full(N, 800.0)}, "infinite"),
    ]:
        with pytest.raises(InputError, match=match):
            fast(**params).fit(X[:N], COUNTS[:N], **options)


# Distributions.


def drawn(mean: FloatArray, dispersion: float, rng: np.random.Generator) -> FloatArray:
    if dispersion > 0.0:
        mean = mean * rng.gamma(1.0 / dispersion, dispersion, len(mean))
    return rng.poisson(mean).astype(float)


def test_intervals_of_counts_have_integer_ends_and_cover() -> None:
    for dispersion, level in [(0.0, 0.3), (0.0, 10.0), (0.5, 5.0)]:
        covered, results = [], []
        for seed in range(4):
            y = drawn(level * RATE, dispersion, np.random.default_rng(seed))
            model = fast(loss="poisson").fit(X[:N], y[:N])
            lower, upper = model.predict_interval(X[N:], 0.9)
            np.testing.assert_array_equal(np.rint(lower), lower)
            np.testing.assert_array_equal(np.rint(upper), upper)
            assert (lower >= 0.0).all()
            covered.append(((lower <= y[N:]) & (y[N:] <= upper)).mean())
            results.append(model.dispersion_)
        assert 0.88 <= np.mean(covered) <= 0.92
        assert np.mean(results) == pytest.approx(dispersion, abs=0.06)


def test_distributions_of_counts_agree_with_predictions_and_intervals(tmp_path: Path) -> None:
    y = drawn(RATE, 0.5, np.random.default_rng(0))
    model = fast(loss="poisson").fit(X[:N], y[:N])
    lower, upper = model.predict_interval(X[N:], 0.9)
    quantiles = model.predict_quantiles(X[N:], [0.05, 0.5, 0.95])
    np.testing.assert_array_equal(quantiles[:, [0, 2]], np.column_stack([lower, upper]))
    pmf = model.predict_distribution(X[:5]).pmf(np.arange(1000)[:, None])
    np.testing.assert_allclose(pmf.sum(axis=0), 1.0)
    np.testing.assert_allclose(np.arange(1000) @ pmf, model.predict(X[:5]), rtol=1e-6)
    gramless.save(model, tmp_path / "model")
    loaded = gramless.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_interval(X[N:], 0.9)[1], upper)


def test_fractional_targets_have_no_distribution_of_counts() -> None:
    model = fast(loss="poisson").fit(X[:N], RATE[:N])
    assert model.dispersion_ is None
    lower, _ = model.predict_interval(X[N:])
    assert (np.rint(lower) != lower).any()
    with pytest.raises(InputError, match="whole numbers"):
        model.predict_distribution(X[:1])


@pytest.mark.parametrize(
    "params",
    [{}, pytest.param({"loss": "quantile", "quantile": (0.1, 0.5, 0.9)}, marks=pytest.mark.slow)],
)
def test_quantiles_of_positive_targets_are_not_negative(params: Any) -> None:
    y = np.maximum(X[:N, 0], 0.0) + 0.01 * np.abs(X[:N, 1])
    result = fast(**params).fit(X[:N], y).predict_quantiles(X[N:], [0.1, 0.5, 0.9])
    assert result.min() == 0.0
    assert (np.diff(result, axis=1) >= 0.0).all()
