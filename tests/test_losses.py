"""Losses: one set of properties for all of them, then what each is known for."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import mean_tweedie_deviance

from gramless.base.errors import InputError
from gramless.losses import (
    LOSSES,
    CumulativeLogistic,
    Gamma,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Multinomial,
    Poisson,
    SmoothPinball,
    Squared,
    SquaredHinge,
    Tweedie,
    TweedieFamily,
)
from gramless.solvers.cg import SoftmaxCurvature
from tests.solvers.pairwise import each_value

Array = NDArray[np.float64]

N_CLASSES = 4
ALL: dict[str, Loss] = {
    **{name: loss() for name, loss in LOSSES.items()},
    "narrow huber": Huber(0.2),
    "high quantile": SmoothPinball(0.9, 0.5),
    "nearly gamma": Tweedie(1.9),
    "cumulative": CumulativeLogistic((0.999, 1.001)),
}
POSITIVE = "counts", "amounts"
SMOOTH = {name: loss for name, loss in ALL.items() if loss.smooth}
BOUNDED = {name: loss for name, loss in ALL.items() if loss.smoothness < np.inf}

every_loss = pytest.mark.parametrize("loss", ALL.values(), ids=ALL.keys())
every_smooth_loss = pytest.mark.parametrize("loss", SMOOTH.values(), ids=SMOOTH.keys())
every_bounded_loss = pytest.mark.parametrize("loss", BOUNDED.values(), ids=BOUNDED.keys())
numbers = st.one_of(st.floats(-3, 3), st.floats(-100, 100))
TARGETS = {
    "numbers": numbers,
    "labels": st.sampled_from([-1.0, 1.0]),
    "counts": st.one_of(st.integers(0, 5).map(float), st.floats(0, 100)),
    "amounts": st.floats(0.01, 100),
    "ranks": st.integers(0, 2).map(float),
}


def one_hot(classes: NDArray[np.integer] | list[int], n_classes: int) -> Array:
    return np.where(np.arange(n_classes) == np.asarray(classes)[:, None], 1.0, -1.0)


def vector(*values: float) -> Array:
    return np.array(values, dtype=np.float64)


def predictions(draw: st.DrawFn, loss: Loss) -> Array:
    """Return a row of predictions, (K,), or one of them, (1,); where exponentials are finite."""
    size = N_CLASSES if loss.coupled else 1
    moderate = numbers if loss in BOUNDED.values() or not loss.smooth else st.floats(-20, 20)
    return np.array(draw(st.lists(moderate, min_size=size, max_size=size)))


@st.composite
def rows(draw: st.DrawFn, loss: Loss, n_points: int) -> tuple[Array, ...]:
    """Return predictions (1, K) or (1,), as many as asked for, and the target of all of them."""
    if loss.coupled:
        y = one_hot([draw(st.integers(0, N_CLASSES - 1))], N_CLASSES)
        return *(predictions(draw, loss)[None] for _ in range(n_points)), y
    y = vector(draw(TARGETS[loss.targets[0]]))
    # Half of them near the target, where the corners are.
    offsets = [
        y * (loss.targets[0] not in POSITIVE and draw(st.booleans())) for _ in range(n_points)
    ]
    return *(predictions(draw, loss) + offset for offset in offsets), y


def slopes(function: Callable[[Array], Array], z: Array, step: float) -> Array:
    """Return central differences of a scalar in every coordinate."""
    result = np.empty_like(z)
    for at in np.ndindex(z.shape):
        high, low = z.copy(), z.copy()
        high[at] += step
        low[at] -= step
        result[at] = ((function(high) - function(low)) / (2 * step)).sum()
    return result


# What all have in common.


@every_smooth_loss
@given(data=st.data())
def test_gradient_matches_differences_of_the_value(loss: Loss, data: st.DataObject) -> None:
    z, y = data.draw(rows(loss, 1))
    step = 1e-5
    slope = slopes(lambda at: loss.value(at, y), z, step)
    # A corner of the gradient within the step costs half of this.
    corner = loss.smoothness * step if loss.smoothness < np.inf else 0.0
    np.testing.assert_allclose(loss.gradient(z, y), slope, rtol=1e-6, atol=1e-6 + corner)


@every_smooth_loss
@given(data=st.data())
def test_curvature_matches_differences_of_the_gradient_and_is_bounded(
    loss: Loss, data: st.DataObject
) -> None:
    z, y = data.draw(rows(loss, 1))
    step = 1e-4
    curvature = loss.curvature(z, y)
    assert (curvature >= 0).all()
    assert (curvature <= loss.smoothness * (1 + 1e-15)).all()
    for at in np.ndindex(z.shape):
        shift = np.zeros_like(z)
        shift[at] = step
        around = [loss.curvature(z + way * shift, y)[at] for way in (-1.0, 1.0)]
        assume(np.ptp([curvature[at], *around]) <= 1e-3 * loss.smoothness)
        slope = (loss.gradient(z + shift, y) - loss.gradient(z - shift, y))[at] / (2 * step)
        assert curvature[at] == pytest.approx(slope, rel=1e-5, abs=1e-5)


@every_loss
@given(data=st.data(), share=st.floats(0, 1))
def test_value_is_convex_and_not_negative(loss: Loss, data: st.DataObject, share: float) -> None:
    a, b, y = data.draw(rows(loss, 2))
    at_a, at_b, rounding = loss.value(a, y), loss.value(b, y), 1e-12
    assert (at_a >= 0).all()
    for part in (0.5, share):
        between = loss.value(part * a + (1 - part) * b, y)
        assert between <= part * at_a + (1 - part) * at_b + rounding * (1 + at_a + at_b)
    tangent = at_a + (loss.gradient(a, y) * (b - a)).sum()
    assert at_b >= tangent - rounding * (1 + at_a + at_b + np.abs(tangent))


@every_bounded_loss
@given(data=st.data())
def test_gradient_is_lipschitz(loss: Loss, data: st.DataObject) -> None:
    a, b, y = data.draw(rows(loss, 2))
    change, moved = loss.gradient(b, y) - loss.gradient(a, y), b - a
    assert np.linalg.norm(change) <= loss.smoothness * np.linalg.norm(moved) * (1 + 1e-12) + 1e-13


@every_bounded_loss
def test_smoothness_is_attained(loss: Loss) -> None:
    """Two classes of the multinomial loss, the others far away, move against each other."""
    step = 1e-3
    if loss.coupled:
        centre, y = np.array([[0.0, 0.0, -50.0, -50.0]]), one_hot([0], N_CLASSES)
        way = step * np.array([[1.0, -1.0, 0.0, 0.0]])
    else:
        y = vector(1.0)
        centre = vector(0.0 if loss.targets[0] == "labels" else 1.0)
        way = vector(step)
    change = loss.gradient(centre + way, y) - loss.gradient(centre - way, y)
    steepest = np.linalg.norm(change) / np.linalg.norm(2 * way)
    assert steepest == pytest.approx(loss.smoothness, rel=0.01)
    if not loss.coupled:
        assert loss.curvature(centre, y)[0] == pytest.approx(loss.smoothness, rel=0.01)


FAR = (0.0, 5e-324, 1.0, 1e8, 1e150, 1e300)


def representable(loss: Loss, z: float, y: float) -> bool:
    """Tell whether the value is a float64: squares of 1e154 are."""
    if isinstance(loss, SquaredHinge):
        return 1.0 - y * z < 1e154
    return not isinstance(loss, Squared) or abs(z - y) < 1e154


def overflows(loss: Loss, z: float, y: Array) -> bool:
    """Tell whether an exponential in the loss is too large for a float64."""
    if not isinstance(loss, TweedieFamily):
        return False
    rises, falls = loss.power < 2.0, loss.power > 1.0 and bool(y.max() > 0.0)
    return (rises and z > 1.0) or (falls and z < -1.0)


@every_loss
def test_extreme_values_give_finite_derivatives(loss: Loss) -> None:
    for size in FAR:
        for sign in [-1.0, 1.0]:
            z = sign * size
            if loss.coupled:
                cases = [
                    (np.array([row]), one_hot([true], 3))
                    for row in ([z, 0.0, 0.0], [z, -z, 0.0], [z, z, -z], [z, z, z])
                    for true in range(3)
                ]
            else:
                far = {
                    "labels": (-1.0, 1.0),
                    "counts": (0.0, 1.0, 1e7),
                    "amounts": (1e-7, 1.0, 1e7),
                }
                far["ranks"] = 0.0, 1.0, 2.0
                targets = far.get(loss.targets[0], (0.0, -1e8, 1e8, -1e300, 1e300))
                cases = [(vector(z), vector(y)) for y in targets]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for at, y in cases:
                    finite = not overflows(loss, z, y)
                    for result in (loss.gradient(at, y), loss.curvature(at, y)):
                        assert np.isfinite(result).all() if finite else (result <= np.inf).all()
                    if not finite:
                        assert not loss.value(at, y)[0] < 1e8
                    elif loss.coupled or representable(loss, at[0], y[0]):
                        assert np.isfinite(loss.value(at, y)).all()
                        assert (loss.value(at, y) >= 0).all()
                    else:
                        with np.errstate(over="ignore"):
                            assert loss.value(at, y)[0] == np.inf


def test_separable_losses_are_pointwise_in_any_shape() -> None:
    of_kind = {
        "labels": np.sign,
        "counts": np.abs,
        "amounts": np.abs,
        "ranks": lambda y: 1.0 * (y > 0),
    }
    for loss in (each for each in ALL.values() if not each.coupled):
        for shape in [(0,), (3,), (4, 2), (2, 0), (0, 3), (5, 1)]:
            z, y = np.random.default_rng(0).normal(size=(2, *shape))
            y = of_kind.get(loss.targets[0], np.asarray)(y)
            before = z.copy(), y.copy()
            for function in (loss.value, loss.gradient, loss.curvature):
                result = function(z, y)
                assert result.shape == shape
                assert result.dtype == np.float64
                for at in np.ndindex(shape):
                    assert result[at] == function(vector(z[at]), vector(y[at]))[0]
            np.testing.assert_array_equal((z, y), before)


@pytest.mark.parametrize("loss", [loss for loss in ALL.values() if loss.targets != ("ranks",)])
def test_initial_constant_improves_on_zero(loss: Loss) -> None:
    rng = np.random.default_rng(0)
    weights, y = rng.gamma(1.0, size=50), rng.normal(3.0, 1.0, size=(50, 2))
    if loss.targets[0] == "classes":
        y = one_hot(rng.integers(0, N_CLASSES, size=50), N_CLASSES)
    elif loss.targets[0] == "labels":
        y = np.sign(y - 2.5)
    constant = loss.initial_constant(y, weights)
    if not loss.robust:
        mean_target = np.average(y, axis=0, weights=weights)
        np.testing.assert_allclose(loss.inverse_link(constant), mean_target, rtol=1e-12)

    def mean(z: Array) -> float:
        values = loss.value(np.broadcast_to(z, y.shape), y).reshape(50, -1).sum(axis=1)
        return float(np.average(values, weights=weights))

    assert mean(constant) < mean(np.zeros(y.shape[1]))
    best = "squared", "logistic", "multinomial", "poisson", "gamma", "tweedie"
    if loss.name in best:
        slopes = loss.gradient(np.broadcast_to(constant, y.shape), y)
        np.testing.assert_allclose(np.average(slopes, axis=0, weights=weights), 0.0, atol=1e-12)


@pytest.mark.parametrize("loss", [Huber(0.5), SmoothPinball(0.3), SmoothPinball((0.2, 0.7))])
def test_losses_of_outliers_are_bounded_in_comparisons(loss: Loss) -> None:
    rng = np.random.default_rng(0)
    shape = (50,) if np.size(getattr(loss, "quantile", 0.0)) == 1 else (50, 2)
    z, y = rng.normal(size=(2, *shape))
    np.testing.assert_array_equal(loss.comparable_value(z, y), loss.value(z, y))
    y[:9], y[9:12] = 1e6, -1e6
    near = np.clip(y, -10.0, 10.0)
    np.testing.assert_allclose(loss.comparable_value(z, y), loss.value(z, near), atol=1e-9)
    other = z + 1e6
    saved = loss.comparable_value(z, y) - loss.comparable_value(other, y)
    np.testing.assert_allclose(saved, loss.value(z, y) - loss.value(other, y), atol=1e-9)


@every_smooth_loss
def test_typical_curvature_of_equal_targets_equals_one_curvature(loss: Loss) -> None:
    y = np.ones((3, 4))
    unit = loss.typical_curvature(y, np.ones(3))
    assert unit == (loss.smoothness if loss.smoothness < np.inf else 1.0)


# Squared, hinge, logistic.


def test_squared_loss_has_known_values() -> None:
    z, y = vector(3.0, -1.0), vector(1.0, -1.0)
    assert Squared().value(z, y).tolist() == [2.0, 0.0]
    assert Squared().gradient(z, y).tolist() == [2.0, 0.0]
    assert Squared().curvature(z, y).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_squared_hinge_has_known_values(y: float) -> None:
    z, labels = y * vector(-1.0, 0.5, 1.0, 3.0), np.full(4, y)
    assert SquaredHinge().value(z, labels).tolist() == [2.0, 0.125, 0.0, 0.0]
    assert (y * SquaredHinge().gradient(z, labels)).tolist() == [-2.0, -0.5, 0.0, 0.0]
    assert SquaredHinge().curvature(z, labels).tolist() == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_hinge_has_known_values(y: float) -> None:
    z, labels = y * vector(-1.0, 0.5, 1.0, 3.0), np.full(4, y)
    assert Hinge().value(z, labels).tolist() == [2.0, 0.5, 0.0, 0.0]
    assert (y * Hinge().gradient(z, labels)).tolist() == [-1.0, -1.0, 0.0, 0.0]
    assert Hinge().curvature(z, labels).tolist() == [0.0, 0.0, 0.0, 0.0]
    assert Hinge().smoothness == np.inf


def test_logistic_tails_keep_precision() -> None:
    z = vector(40.0, 700.0)
    np.testing.assert_allclose(Logistic().value(z, np.ones(2)), np.exp(-z), rtol=1e-12)
    np.testing.assert_allclose(Logistic().gradient(z, np.ones(2)), -np.exp(-z), rtol=1e-12)
    np.testing.assert_allclose(Logistic().curvature(z, np.ones(2)), np.exp(-z), rtol=1e-12)


# Multinomial.

classes = st.integers(2, 6)
seeds = st.integers(0, 2**32 - 1)


def drawn(seed: int, n_classes: int, n_rows: int = 7) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    z = rng.normal(scale=4.0, size=(n_rows, n_classes))
    return z, one_hot(rng.integers(0, n_classes, size=n_rows), n_classes)


@given(seed=seeds, n_classes=classes)
def test_multinomial_matches_a_slow_implementation(seed: int, n_classes: int) -> None:
    z, y = drawn(seed, n_classes)
    loss = Multinomial()
    assert loss.value(z, y).shape == (len(z),)
    assert loss.gradient(z, y).shape == loss.curvature(z, y).shape == z.shape
    for i, row in enumerate(z):
        true = int(np.flatnonzero(y[i] > 0)[0])
        p = [np.exp(value) / sum(np.exp(other) for other in row) for value in row]
        assert loss.value(z, y)[i] == pytest.approx(-np.log(p[true]), rel=1e-10, abs=1e-13)
        for k in range(n_classes):
            slope = p[k] - (k == true)
            assert loss.gradient(z, y)[i, k] == pytest.approx(slope, rel=1e-9, abs=1e-13)
            assert loss.curvature(z, y)[i, k] == pytest.approx(p[k] * (1 - p[k]), abs=1e-13)


@given(seed=seeds, n_classes=classes)
def test_softmax_curvature_is_the_whole_hessian(seed: int, n_classes: int) -> None:
    z, y = drawn(seed, n_classes)
    rng = np.random.default_rng(seed)
    loss, step = Multinomial(), 1e-5
    p = loss.gradient(z, y) + (y > 0)
    row_weights, way = rng.random(len(z)), rng.normal(size=z.shape)
    curvature, product = SoftmaxCurvature(row_weights, p), way.copy()
    curvature.apply(slice(None), product, np.arange(n_classes))
    slope = (loss.gradient(z + step * way, y) - loss.gradient(z - step * way, y)) / (2 * step)
    np.testing.assert_allclose(product, row_weights[:, None] * slope, rtol=1e-5, atol=1e-8)
    for k in range(n_classes):
        unit = np.zeros_like(z)
        unit[:, k] = 1.0
        curvature.apply(slice(None), unit, np.arange(n_classes))
        diagonal = row_weights * loss.curvature(z, y)[:, k]
        np.testing.assert_allclose(unit[:, k], diagonal, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(unit.sum(axis=1), 0.0, atol=1e-14)


# Huber.


@given(z=numbers, threshold=st.floats(1e-3, 10))
def test_huber_is_linear_beyond_its_threshold(z: float, threshold: float) -> None:
    loss, y = Huber(threshold), vector(0.0)
    assume(abs(z) > threshold)
    assert loss.value(vector(z), y)[0] == pytest.approx(threshold * (abs(z) - threshold / 2))
    assert loss.gradient(vector(z), y)[0] == threshold * np.sign(z)
    assert loss.curvature(vector(z), y)[0] == 0.0


def test_invalid_parameters_are_rejected() -> None:
    for threshold in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="Huber: threshold must be a positive number, got"):
            Huber(threshold)
    for quantile in (0.0, 1.0, -0.5, 2.0, np.nan):
        with pytest.raises(InputError, match="quantile must lie between 0 and 1, got"):
            SmoothPinball(quantile)
    for levels in ((0.5, 0.1), (0.5, 0.5), (), (0.1, 1.0)):
        with pytest.raises(InputError, match="quantile"):
            SmoothPinball(levels)
    for width in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="SmoothPinball: width must be positive, got"):
            SmoothPinball(0.5, width)
    for power in (1.0, 2.0, 0.0, np.nan):
        with pytest.raises(InputError, match="power must lie between 1 and 2"):
            Tweedie(power)


# Quantiles.


def pinball(quantile: float, z: Array, y: Array) -> Array:
    return np.maximum(quantile * (y - z), (quantile - 1) * (y - z))


@pytest.mark.parametrize(("quantile", "width"), [(0.05, 2.0), (0.5, 0.05), (0.9, 2.0)])
def test_smooth_pinball_curvature_integrates_to_one(quantile: float, width: float) -> None:
    loss, y = SmoothPinball(quantile, width), 3.0
    n_points = 100_000
    spacing = 4 * width / n_points
    z = y + spacing * (np.arange(n_points) + 0.5) - 2 * width
    curvature = loss.curvature(z, np.full_like(z, y))
    assert curvature.sum() * spacing == pytest.approx(1.0, rel=1e-4)
    ends = loss.gradient(z[[0, -1]], np.full(2, y))
    np.testing.assert_allclose(ends, [-quantile, 1 - quantile], rtol=1e-12)


@pytest.mark.parametrize(
    ("width", "quantile"), each_value([1.0, 1e-2, 1e-6, 1e-12], [0.05, 0.5, 0.9])
)
def test_smooth_pinball_tends_to_the_pinball_loss(width: float, quantile: float) -> None:
    rng = np.random.default_rng(8)
    z, y = rng.normal(size=(2, 1000))
    y[:100] = z[:100] + width * rng.uniform(-2, 2, size=100)
    above = SmoothPinball(quantile, width).value(z, y) - pinball(quantile, z, y)
    assert (above >= -1e-15).all()
    assert (above <= width / 4 + 1e-15).all()
    outside = np.abs(y - z) > width
    np.testing.assert_allclose(above[outside], 0.0, atol=1e-14)


# Surrogates, and the losses of positive targets.

TWEEDIE = [Poisson(), Tweedie(1.1), Tweedie(1.5), Gamma()]
SURROGATES = [Huber(), SmoothPinball(0.9, 0.1), *TWEEDIE]


@pytest.mark.parametrize("loss", SURROGATES, ids=lambda loss: loss.name)
@given(data=st.data())
def test_surrogate_steps_never_increase_the_loss(loss: Loss, data: st.DataObject) -> None:
    z, y = data.draw(rows(loss, 1))
    curvature = loss.surrogate_curvature(z, y)
    assert (curvature > 0).all()
    moved = z - loss.gradient(z, y) / curvature
    before = loss.value(z, y)
    assert (loss.value(moved, y) <= before + 1e-9 * (1.0 + before)).all()


@pytest.mark.parametrize("loss", [Logistic(), Multinomial()], ids=repr)
def test_initial_constant_of_an_absent_class_is_minus_infinity(loss: Loss) -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=(200, 37))
    constants = [loss.initial_constant(-np.ones((37, 3)), weight) for weight in weights]
    assert np.isneginf(constants).all()


@pytest.mark.parametrize("loss", TWEEDIE, ids=lambda loss: f"{loss.name} {loss.power}")
def test_steps_of_many_rows_approach_the_link_of_their_mean(loss: TweedieFamily) -> None:
    y = np.random.default_rng(0).gamma(0.5, 3.0, 40)
    best = np.log(y.mean())
    for z in np.linspace(best - 6.0, best + 6.0, 13):
        at = np.full(40, z)
        step = -loss.gradient(at, y).sum() / loss.surrogate_curvature(at, y).sum()
        ratio = np.exp(best - z)
        assert step == pytest.approx(2.0 * (ratio - 1.0) / (ratio + 1.0), abs=1e-9)
        assert abs(step) <= abs(best - z) + 1e-12


@pytest.mark.parametrize("loss", TWEEDIE, ids=lambda loss: f"{loss.name} {loss.power}")
def test_values_are_half_the_deviances_of_scikit_learn(loss: TweedieFamily) -> None:
    rng = np.random.default_rng(0)
    y = rng.gamma(1.0, 2.0, 30)
    if loss.power < 2.0:
        y[:5] = 0.0
    z = rng.normal(size=30)
    reference = [mean_tweedie_deviance(y[[i]], np.exp(z[[i]]), power=loss.power) for i in range(30)]
    np.testing.assert_allclose(2.0 * loss.value(z, y), reference, rtol=1e-9, atol=1e-12)
    assert loss.value(np.log(y[5:]), y[5:]).max() < 1e-14


def test_quantiles_are_separate_losses() -> None:
    rng = np.random.default_rng(0)
    levels = 0.1, 0.5, 0.9
    z, y, weights = rng.normal(size=(20, 3)), rng.normal(size=20), rng.gamma(1.0, size=20)
    copies, joint = np.repeat(y[:, None], 3, axis=1), SmoothPinball(levels, 0.2)
    for k, level in enumerate(levels):
        alone = SmoothPinball(level, 0.2)
        for name in ("value", "gradient", "curvature", "surrogate_curvature"):
            result, separate = getattr(joint, name)(z, copies), getattr(alone, name)(z[:, k], y)
            np.testing.assert_array_equal(result[:, k], separate)
        constant = alone.initial_constant(y, weights)
        assert joint.initial_constant(copies, weights)[k] == constant
        assert weights[y < constant].sum() < level * weights.sum() <= weights[y <= constant].sum()


def test_smoothing_width_follows_the_residuals() -> None:
    y = np.linspace(-1.0, 1.0, 11)
    loss, weights = SmoothPinball(0.5), np.ones(11)
    assert loss.adapted(y + 0.2, y, weights).width == pytest.approx(0.02)
    for far in (0.45, 2.0, 0.0):
        assert loss.adapted(y + far, y, weights) == loss
    assert Squared().adapted(y, y, weights) == Squared()


def test_positive_losses_check_their_targets() -> None:
    with pytest.raises(InputError, match="positive; the smallest target is 0.0"):
        Gamma().check_targets(np.array([0.0, 1.0]))
    with pytest.raises(InputError, match="not negative"):
        Tweedie().check_targets(np.array([-1.0, 1.0]))
    with pytest.raises(InputError, match="not all 0"):
        Poisson().check_targets(np.zeros(3))
    Gamma().check_targets(np.ones(3))


# Ordered classes.

THRESHOLDS = -1.0, 0.5, 0.7


def test_cumulative_loss_matches_its_definition() -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(0.0, 3.0, 40), rng.integers(0, 4, 40).astype(float)
    loss = CumulativeLogistic(THRESHOLDS)
    below = 1.0 / (1.0 + np.exp(z[:, None] - np.array(THRESHOLDS)))
    shares = np.diff(np.column_stack([np.zeros(40), below, np.ones(40)]), axis=1)
    np.testing.assert_allclose(loss.probabilities(z), shares, atol=1e-15)
    probabilities = shares[np.arange(40), y.astype(int)]
    np.testing.assert_allclose(loss.value(z, y), -np.log(probabilities), rtol=1e-7)
    slope = slopes(lambda at: loss.value(at, y), z, 1e-5)
    np.testing.assert_allclose(loss.gradient(z, y), slope, atol=1e-8)
    bend = (loss.gradient(z + 1e-5, y) - loss.gradient(z - 1e-5, y)) / 2e-5
    np.testing.assert_allclose(loss.curvature(z, y), bend, atol=1e-8)
    assert (loss.curvature(z, y) <= loss.smoothness).all()


def test_adapted_thresholds_are_optimal() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, 2.0, 4000)
    y = np.digitize(z + rng.logistic(size=4000), THRESHOLDS).astype(float)
    weights = rng.gamma(2.0, size=4000)
    first = CumulativeLogistic.of_ranks(y, None, 4)
    result = first.adapted(z, y, weights)
    np.testing.assert_allclose(result.thresholds, THRESHOLDS, atol=0.15)
    assert result.adapted(z, y, weights) == result

    def mean(thresholds: tuple[float, ...]) -> float:
        return float(np.average(CumulativeLogistic(thresholds).value(z, y), weights=weights))

    for k in range(3):
        for step in (-0.05, 0.05):
            moved = np.array(result.thresholds)
            moved[k] += step
            assert mean(tuple(moved)) > mean(result.thresholds)
    absent = first.adapted(z[y < 2], y[y < 2], weights[y < 2])
    assert (np.diff(absent.thresholds) > 0).all()
