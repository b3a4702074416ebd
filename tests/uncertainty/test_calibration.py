"""Calibrated probabilities against the truth of simulations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize_scalar
from scipy.special import expit, log_softmax

from gramless.base.errors import InputError
from gramless.uncertainty.calibration import Calibration, LinkObjective


def signs(classes, n_classes):
    if n_classes == 2:
        return np.where(classes == 1, 1.0, -1.0)
    return np.where(classes[:, None] == np.arange(n_classes), 1.0, -1.0)


def noisy(n_rows, n_classes=2, noise=0.8, seed=0):
    """Return responses around the targets, and the targets."""
    rng = np.random.default_rng(seed)
    targets = signs(rng.integers(0, n_classes, n_rows), n_classes)
    return 0.6 * targets + noise * rng.normal(size=targets.shape), targets


def draw(log_p, seed):
    """Draw a class for each row of log-probabilities."""
    marks = np.random.default_rng(seed).gumbel(size=log_p.shape)
    return (log_p + marks).argmax(axis=1)


def log_loss(log_p, classes):
    return -log_p[np.arange(len(classes)), classes].mean()


def cubic(z):
    """Log-odds that grow faster than the response: those of least squares near -1 and 1 do."""
    return np.column_stack([np.zeros_like(z), 1.0 * z + 5.0 * z**3])


def best_temperature(z, classes):
    """Return the log loss of the temperature that is best on these very rows."""

    def loss(log_scale):
        scores = z * np.exp(log_scale)
        columns = scores if z.ndim == 2 else np.column_stack([np.zeros_like(z), scores])
        return log_loss(log_softmax(columns, axis=1), classes)

    return minimize_scalar(loss, bounds=(-5.0, 5.0), method="bounded").fun


# The objective and the link


def test_gradient_matches_finite_differences():
    rng = np.random.default_rng(0)
    z, targets = noisy(30, 5)
    z, hit = z.reshape(30, -1), targets.reshape(30, -1) > 0
    knots = np.linspace(-1.2, 1.5, 7)
    objective = LinkObjective.build(z, hit, rng.integers(0, 4, 30).astype(float), knots)
    logs = rng.normal(size=6)
    truth = approx_fprime(logs, lambda p: objective(p)[0], 1e-7)
    np.testing.assert_allclose(objective(logs)[1], truth, atol=2e-6)


def test_link_integrates_its_slopes():
    knots = np.linspace(-4.0, -1.0, 5)
    slopes = np.array([3.0, 0.5, 1.0, 8.0])
    z = np.linspace(-6.0, 1.0, 41)
    truth = np.empty_like(z)
    for i, end in enumerate(z):
        path = np.linspace(0.0, end, 20_001)
        middles = 0.5 * (path[1:] + path[:-1])
        segment = np.clip(np.searchsorted(knots, middles) - 1, 0, 3)
        truth[i] = (slopes[segment] * np.diff(path)).sum()
    log_p = Calibration(knots, slopes, 1, 1e-300).log_probabilities(z)
    np.testing.assert_allclose(log_p[:, 1] - log_p[:, 0], truth, atol=3e-3)
    ramps = LinkObjective.build(z[:, None], z[:, None] > 0, np.ones(41), knots).ramps
    np.testing.assert_allclose(slopes @ ramps[:, 0], truth, atol=3e-3)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_fit_is_at_the_minimum(n_classes):
    z, targets = noisy(300, n_classes)
    result = Calibration.fit(z, targets)
    objective = LinkObjective.build(
        z.reshape(300, -1) / (unit := (result.knots[-1] - result.knots[0]) / 2),
        targets.reshape(300, -1) > 0,
        np.ones(300),
        result.knots / unit,
    )
    logs = np.log(result.slopes * unit)
    value, gradient = objective(logs)
    assert np.abs(gradient).max() < 1e-5
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert objective(logs + 0.1 * rng.normal(size=len(logs)))[0] > value


# Properties


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(1, 80),
    noise=st.floats(0.0, 5.0),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_probability_increases_with_the_response(seed, n_rows, noise, scale):
    z, targets = noisy(n_rows, noise=noise, seed=seed)
    result = Calibration.fit(scale * z, targets)
    p = result.probabilities(scale * np.linspace(-6.0, 6.0, 301))
    assert (np.diff(p[:, 1]) > -1e-12).all()
    assert (np.diff(p[:, 0]) < 1e-12).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), n_classes=st.integers(3, 8), k=st.integers(0, 2))
def test_probability_increases_with_the_response_of_its_class(seed, n_classes, k):
    z, targets = noisy(60, n_classes, seed=seed)
    result = Calibration.fit(z, targets)
    rows = np.tile(z[0], (101, 1))
    rows[:, k] = np.linspace(-5.0, 5.0, 101)
    p = result.probabilities(rows)
    assert (np.diff(p[:, k]) > -1e-12).all()
    assert p[-1, k] > p[0, k]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_classes=st.integers(2, 8),
    centre=st.sampled_from([0.0, 3.0, -3.0]),
    turned=st.booleans(),
)
def test_most_probable_class_has_the_largest_response(seed, n_classes, centre, turned):
    z, targets = noisy(60, n_classes, seed=seed)
    weights = np.random.default_rng(seed).exponential(size=60) ** 3
    result = Calibration.fit(centre + (-z if turned else z), targets, weights)
    new = np.random.default_rng(seed + 1).normal(size=(300, *z.shape[1:]))
    p = result.probabilities(new)
    largest = new > 0 if n_classes == 2 else new.argmax(axis=1)
    np.testing.assert_array_equal(p.argmax(axis=1), largest)


def test_zero_responses_have_equal_probabilities():
    for n_classes in (2, 5):
        z, targets = noisy(100, n_classes)
        zero = np.zeros((1, *z.shape[1:]))
        p = Calibration.fit(z + 0.5, targets).probabilities(zero)
        np.testing.assert_allclose(p, 1.0 / n_classes, rtol=1e-12)


def test_unit_of_responses_does_not_change_probabilities():
    z, targets = noisy(200)
    plain = Calibration.fit(z, targets).probabilities(z)
    np.testing.assert_allclose(Calibration.fit(1e6 * z, targets).probabilities(1e6 * z), plain)


def test_order_of_classes_does_not_change_probabilities():
    z, targets = noisy(200, 4)
    plain = Calibration.fit(z, targets).probabilities(z)
    turned = Calibration.fit(z[:, ::-1], targets[:, ::-1]).probabilities(z[:, ::-1])
    np.testing.assert_allclose(turned[:, ::-1], plain, atol=1e-3)


def test_integer_weights_equal_repeated_rows():
    z, targets = noisy(120, 4)
    weights = np.random.default_rng(1).integers(0, 4, 120)
    weighted = Calibration.fit(z, targets, weights.astype(float))
    repeated = Calibration.fit(np.repeat(z, weights, axis=0), np.repeat(targets, weights, axis=0))
    assert weighted.floor == repeated.floor
    np.testing.assert_array_equal(weighted.knots, repeated.knots)
    np.testing.assert_allclose(weighted.probabilities(z), repeated.probabilities(z), atol=1e-6)
    plain = Calibration.fit(z, targets).probabilities(z)
    assert np.abs(weighted.probabilities(z) - plain).max() > 1e-3


# Quality


def test_curved_link_is_learned():
    z = np.random.default_rng(0).uniform(-1.1, 1.1, 22_000)
    log_p = log_softmax(cubic(z), axis=1)
    classes = draw(log_p, 1)
    result = Calibration.fit(z[:2000], signs(classes[:2000], 2))
    loss = log_loss(result.log_probabilities(z[2000:]), classes[2000:])
    truth = log_loss(log_p[2000:], classes[2000:])
    assert loss < log_loss(np.log(np.column_stack([expit(-z), expit(z)])), classes) - 0.05
    assert loss < best_temperature(z[2000:], classes[2000:]) - 0.005
    assert loss < truth + 0.003


def test_curved_link_of_several_classes_is_learned():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(5, 0.3), 22_000)
    z = 2.0 * shares - 1.0 + 0.05 * rng.normal(size=shares.shape)
    log_p = np.log(np.maximum(shares, 1e-12))
    classes = draw(log_p, 1)
    result = Calibration.fit(z[:2000], signs(classes[:2000], 5))
    loss = log_loss(result.log_probabilities(z[2000:]), classes[2000:])
    assert loss < log_loss(log_softmax(z, axis=1), classes) - 0.2
    assert loss < best_temperature(z[2000:], classes[2000:]) - 0.02
    assert loss < log_loss(log_p[2000:], classes[2000:]) + 0.05


@pytest.mark.parametrize(("n_rows", "parameters"), [(40, 2.0), (2000, 4.0)])
def test_linear_link_costs_few_parameters(n_rows, parameters):
    excess = []
    for seed in range(30):
        z = np.random.default_rng(seed).normal(size=n_rows + 2000)
        log_p = log_softmax(np.column_stack([0 * z, 2.0 * z]), axis=1)
        classes = draw(log_p, seed + 100)
        result = Calibration.fit(z[:n_rows], signs(classes[:n_rows], 2))
        truth, p = log_p[n_rows:], result.log_probabilities(z[n_rows:])
        excess.append((np.exp(truth) * (truth - p)).sum(axis=1).mean())
    # One that is fitted freely costs about 1 / (2 n); there are eight.
    assert 0.0 < np.mean(excess) < parameters / (2 * n_rows)


# Little evidence


def degenerate():
    z, y = noisy(40)
    several, one_of_26 = noisy(40, 26, seed=3)
    absent = one_of_26[one_of_26[:, 0] < 0]
    return {
        "few rows": (z, y),
        "separated": (y * np.linspace(0.5, 1.5, 40), y),
        "two values": (y, y),
        "one class": (z, np.ones(40)),
        "constant": (np.ones(40), y),
        "all zero": (np.zeros(40), y),
        "reversed": (-5.0 * y, y),
        "one row": (np.array([0.3]), np.array([1.0])),
        "far from zero": (z + 1000.0, y),
        "26 classes": (several, one_of_26),
        "26 classes, one absent": (several[: len(absent)], absent),
        "26 classes, separated": (one_of_26, one_of_26),
        "26 classes, one row": (several[:1], one_of_26[:1]),
    }


def test_little_evidence_gives_no_extreme_probabilities():
    for case, (z, targets) in degenerate().items():
        result = Calibration.fit(z, targets)
        assert np.isfinite(result.slopes).all(), case
        assert (result.slopes > 0).all(), case
        p = result.probabilities(np.concatenate([z, 1e3 * z]))
        least = 0.1 / (len(z) + 1) / p.shape[1]
        assert p.min() > 0.999 * least, case
        assert p.max() < 1.0 - 0.999 * least, case
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12, err_msg=case)
        classes = (targets > 0).astype(int) if targets.ndim == 1 else targets.argmax(axis=1)
        loss = log_loss(result.log_probabilities(z), classes)
        assert loss < np.log(p.shape[1]) + 0.5 / len(z), case


def test_separated_classes_have_confident_probabilities():
    z, targets = degenerate()["separated"]
    truth = np.where(targets > 0, *Calibration.fit(z, targets).probabilities(z).T[::-1])
    assert truth.min() > 0.9
    assert truth.max() < 1.0 - 1e-3


def test_confidence_in_separated_classes_grows_with_the_rows():
    for n_rows in (10, 40, 1000):
        targets = np.tile([-1.0, 1.0], n_rows // 2)
        doubt = Calibration.fit(targets, targets).probabilities(targets).min()
        assert 0.2 < doubt * n_rows < 1.0


def test_knots_ignore_hopeless_classes():
    z, targets = noisy(200, 3)
    z = np.column_stack([z, np.full(200, -100.0)])
    targets = np.column_stack([targets, np.full(200, -1.0)])
    assert np.abs(Calibration.fit(z, targets).knots).max() < 4.0


def test_reversed_responses_give_nearly_constant_probabilities():
    z, targets = degenerate()["reversed"]
    p = Calibration.fit(z, targets).probabilities(np.linspace(-5.0, 5.0, 11))
    assert np.ptp(p[:, 1]) < 0.1


def test_absent_class_can_be_predicted():
    z, targets = degenerate()["26 classes, one absent"]
    p = Calibration.fit(z, targets).probabilities(np.where(np.arange(26) == 0, 1.5, -0.6)[None, :])
    assert p[0].argmax() == 0


BAD_FITS = {
    "no rows": (np.empty(0), np.empty(0)),
    "shapes": (np.zeros(3), np.ones((3, 1))),
    "one column": (np.zeros((3, 1)), np.ones((3, 1))),
    "not finite": (np.array([0.0, np.nan]), np.ones(2)),
    "targets 0 and 1": (np.zeros(2), np.array([0.0, 1.0])),
    "two true classes": (np.zeros((1, 3)), np.array([[1.0, 1.0, -1.0]])),
    "no true class": (np.zeros((1, 3)), np.full((1, 3), -1.0)),
    "negative weight": (np.zeros(2), np.ones(2), np.array([2.0, -1.0])),
    "no weight": (np.zeros(2), np.ones(2), np.zeros(2)),
    "weights of other rows": (np.zeros(2), np.ones(2), np.ones(3)),
    "infinite weight": (np.zeros(2), np.ones(2), np.array([1.0, np.inf])),
}


def test_invalid_validation_rows_are_rejected():
    accepted = [case for case, arguments in BAD_FITS.items() if not is_refused(arguments)]
    assert accepted == []


def is_refused(arguments):
    try:
        Calibration.fit(*arguments)
    except InputError:
        return True
    return False


def test_other_numbers_of_columns_are_rejected():
    for n_classes, shape in [(2, (4, 2)), (2, (4, 1)), (3, (4,)), (3, (4, 2))]:
        result = Calibration.fit(*noisy(30, n_classes))
        with pytest.raises(InputError, match="column"):
            result.log_probabilities(np.zeros(shape))
