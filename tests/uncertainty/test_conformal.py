"""Conformal quantiles against counts; intervals and sets against the truth of simulations."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from gramless.base.errors import InputError
from gramless.uncertainty.conformal import Conformal, interval_scores, prediction_sets, set_scores

SHARES = [Fraction(k, 100) for k in (1, 7, 10, 30, 50, 55, 70, 80, 90, 95, 99)]


def counted(scores, share):
    """Return the quantile by exact counting."""
    rank = math.ceil((len(scores) + 1) * share)
    return np.inf if rank > len(scores) else sorted(scores)[rank - 1]


def test_quantile_matches_exact_counting():
    for n_rows in [*range(1, 40), 99, 100, 199]:
        scores = np.random.default_rng(n_rows).permutation(n_rows).astype(float)
        result = Conformal.fit(scores)
        for share in SHARES:
            assert result.quantile(float(share)) == counted(scores, share), (n_rows, share)


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_quantile_has_the_given_coverage(coverage):
    n_rows, n_trials = 29, 20_000
    scores = np.random.default_rng(0).exponential(size=(n_rows + 1, n_trials))
    covered = scores[-1] <= Conformal.fit(scores[:-1]).quantile(coverage)
    truth = math.ceil(Fraction(n_rows + 1) * Fraction(str(coverage))) / (n_rows + 1)
    error = np.sqrt(truth * (1.0 - truth) / n_trials)
    assert truth >= coverage
    assert abs(covered.mean() - truth) < 4.0 * error


def test_quantiles_of_columns_are_separate():
    scores = np.random.default_rng(0).normal(size=(50, 3))
    weights = np.random.default_rng(1).uniform(size=50)
    result = Conformal.fit(scores, weights)
    for coverage in (0.5, 0.9):
        alone = [Conformal.fit(column, weights).quantile(coverage) for column in scores.T]
        np.testing.assert_array_equal(result.quantile(coverage), alone)


def test_integer_weights_equal_repeated_rows():
    rng = np.random.default_rng(0)
    scores, weights = rng.normal(size=(60, 2)), rng.integers(0, 4, 60)
    weighted = Conformal.fit(scores, weights.astype(float))
    repeated = Conformal.fit(np.repeat(scores, weights, axis=0))
    for coverage in (0.1, 0.5, 0.9, 0.95):
        np.testing.assert_array_equal(weighted.quantile(coverage), repeated.quantile(coverage))


def test_thinned_scores_give_conservative_quantiles():
    scores = np.random.default_rng(0).permutation(50_001).astype(float)
    result = Conformal.fit(scores)
    assert len(result.scores) <= 2000
    for share in SHARES:
        exact = counted(scores, share)
        assert exact <= result.quantile(float(share)) <= exact + 51
    for share in (Fraction(99, 100), Fraction(9999, 10_000)):
        assert result.quantile(float(share)) == counted(scores, share)


def test_invalid_coverage_is_rejected():
    for coverage in (0.0, 1.0, -0.1, 1.5, np.nan, np.inf):
        with pytest.raises(InputError, match="coverage"):
            Conformal.fit(np.arange(3.0)).quantile(coverage)


def test_invalid_scores_are_rejected():
    for arguments in [
        (np.empty(0),),
        (np.zeros((2, 2, 2)),),
        (np.array([1.0, np.nan]),),
        (np.zeros(2), np.zeros(2)),
        (np.zeros(2), np.ones(3)),
    ]:
        with pytest.raises(InputError, match="Conformal"):
            Conformal.fit(*arguments)


def test_local_scale_equalizes_coverage():
    rng = np.random.default_rng(0)
    spread = np.where(rng.random(20_000) < 0.5, 0.2, 2.0)
    targets = spread * rng.normal(size=20_000)
    held, new, centre = slice(0, 2000), slice(2000, None), np.zeros(20_000)
    narrow = spread[new] < 1.0
    plain, scaled = (interval_scores(centre, targets, scale) for scale in (None, spread))
    plain = plain[new] <= Conformal.fit(plain[held]).quantile(0.8)
    scaled = scaled[new] <= Conformal.fit(scaled[held]).quantile(0.8)
    assert abs(plain.mean() - 0.8) < 0.03
    assert plain[narrow].mean() > 0.99
    assert abs(scaled[narrow].mean() - 0.8) < 0.04
    assert abs(scaled[~narrow].mean() - 0.8) < 0.04


def test_invalid_scales_and_shapes_are_rejected():
    for scale in (np.ones(2), np.zeros(3), np.array([1.0, np.nan, 1.0])):
        with pytest.raises(InputError, match="scale"):
            interval_scores(np.zeros(3), np.ones(3), scale)
    with pytest.raises(InputError, match="targets"):
        interval_scores(np.zeros((3, 1)), np.zeros(3))


@pytest.mark.parametrize("coverage", [0.6, 0.9])
def test_sets_cover_the_true_class(coverage):
    rng = np.random.default_rng(0)
    log_p = log_softmax(3.0 * rng.normal(size=(12_000, 6)), axis=1)
    # Wrong probabilities widen the sets; they cost no coverage.
    classes = (0.5 * log_p + rng.gumbel(size=log_p.shape)).argmax(axis=1)
    threshold = Conformal.fit(set_scores(log_p[:2000], classes[:2000])).quantile(coverage)
    chosen = prediction_sets(log_p[2000:], threshold)
    held = chosen[np.arange(10_000), classes[2000:]]
    assert abs(held.mean() - coverage) < 4.0 * np.sqrt(0.25 / 2000)
    assert chosen.sum(axis=1).mean() < 5.0


def test_sets_contain_classes_up_to_the_threshold():
    log_p = np.log(np.array([[0.1, 0.2, 0.7]]))
    threshold = set_scores(log_p, np.array([1]))[0]
    np.testing.assert_array_equal(prediction_sets(log_p, threshold), [[False, True, True]])


def test_sets_may_be_empty_or_full():
    log_p = np.log(softmax(np.zeros((2, 4)), axis=1))
    assert not prediction_sets(log_p, 0.5).any()
    assert prediction_sets(log_p, Conformal.fit(np.zeros(3)).quantile(0.9)).all()
