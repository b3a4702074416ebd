"""Penalties against finite differences and brute-force minimisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from gramless.base.errors import InputError
from gramless.penalties import L1, L2, ElasticNet, Penalty
from tests.solvers.pairwise import each_value

Make = Callable[[float], Penalty]

PENALTIES: dict[str, Make] = {
    "l2": L2,
    "l1": L1,
    "net": ElasticNet,
    "net, little l1": lambda alpha: ElasticNet(alpha, 0.1),
    "net, l1 alone": lambda alpha: ElasticNet(alpha, 1.0),
    "net, l2 alone": lambda alpha: ElasticNet(alpha, 0.0),
}
every_penalty = pytest.mark.parametrize("make", PENALTIES.values(), ids=PENALTIES.keys())

numbers = st.floats(-1e3, 1e3)
alphas = st.floats(0.0, 1e3)
steps = st.floats(1e-3, 1e2)


def vector(*values: float) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


def freed(make: Make, alpha: float, n_free: int) -> Penalty:
    return replace(make(alpha), n_free=n_free)  # type: ignore[type-var]


# The minimum near a point.


@every_penalty
@given(w=numbers, alpha=alphas, step=steps)
def test_prox_matches_the_brute_force_minimum(
    make: Make, w: float, alpha: float, step: float
) -> None:
    penalty = make(alpha)
    result = penalty.prox(vector(w), step)[0]

    def cost(v: float) -> float:
        return step * penalty.value(vector(v)) + (v - w) ** 2 / 2

    bounds = (-abs(w) - 1, abs(w) + 1)
    best = minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    assert cost(result) <= best.fun + 1e-12 * (1 + abs(best.fun))
    assert result == pytest.approx(best.x, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(("make", "shape"), each_value(PENALTIES.values(), [(5,), (5, 3)]))
def test_prox_keeps_free_rows(make: Make, shape: tuple[int, ...]) -> None:
    for n_free in [0, 1, 2]:
        w = np.random.default_rng(1).normal(size=shape)
        penalty = freed(make, 2.0, n_free)
        moved = penalty.prox(w, 0.25)
        split = len(w) - n_free
        sizes = np.maximum(np.abs(w[:split]) - 0.25 * penalty.l1, 0.0)
        expected = np.sign(w[:split]) * sizes / (1.0 + 0.25 * penalty.l2)
        np.testing.assert_allclose(moved[:split], expected)
        np.testing.assert_array_equal(moved[split:], w[split:])


@given(w=numbers, alpha=alphas, step=steps)
def test_prox_of_small_weights_is_exactly_zero(w: float, alpha: float, step: float) -> None:
    result = L1(alpha).prox(vector(w, -w), step)
    assert (result == 0.0).all() == (abs(w) <= step * alpha)
    assert not np.signbit(result[result == 0.0]).any()


# Value and derivatives.


@pytest.mark.parametrize(("make", "shape"), each_value(PENALTIES.values(), [(5,), (5, 3)]))
def test_penalty_gradient_matches_finite_differences(make: Make, shape: tuple[int, ...]) -> None:
    """The gradient is that of the squares; no weight here is near zero, where sizes have none."""
    for n_free in [0, 1, 2]:
        for alpha in [0.0, 0.7]:
            penalty, step = freed(make, alpha, n_free), 1e-4
            w = np.random.default_rng(2).normal(size=shape)
            assert np.abs(w).min() > step
            gradient = penalty.gradient(w)
            assert gradient.shape == shape
            for at in np.ndindex(shape):
                high, low = w.copy(), w.copy()
                high[at] += step
                low[at] -= step
                slope = (penalty.value(high) - penalty.value(low)) / (2 * step)
                sign = np.sign(w[at]) if at[0] < len(w) - n_free else 0.0
                assert gradient[at] + penalty.l1 * sign == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize("shape", [(5,), (5, 3)])
def test_penalty_value_and_diagonal_match_their_formulas(shape: tuple[int, ...]) -> None:
    w = np.random.default_rng(3).normal(size=shape)
    assert L2(3.0).value(w) == pytest.approx(1.5 * (w**2).sum())
    assert L2(3.0, n_free=2).value(w) == pytest.approx(1.5 * (w[:3] ** 2).sum())
    assert L2(3.0, n_free=2).diagonal(w).ravel().tolist() == [3.0, 3.0, 3.0, 0.0, 0.0]
    assert (L2(3.0).diagonal(w) * w).shape == shape
    assert L1(3.0).value(w) == pytest.approx(3.0 * np.abs(w).sum())
    assert L1(3.0, n_free=2).value(w) == pytest.approx(3.0 * np.abs(w[:3]).sum())
    assert not L1(3.0).diagonal(w).any()
    net = 3.0 * (0.25 * np.abs(w[:3]).sum() + 0.375 * (w[:3] ** 2).sum())
    assert ElasticNet(3.0, 0.25, n_free=2).value(w) == pytest.approx(net)
    diagonal = ElasticNet(3.0, 0.25, n_free=2).diagonal(w)
    assert diagonal.ravel().tolist() == [2.25, 2.25, 2.25, 0.0, 0.0]


@given(alpha=alphas, l1_ratio=st.floats(0.0, 1.0), w=numbers)
def test_elastic_net_is_a_weighted_mean(alpha: float, l1_ratio: float, w: float) -> None:
    net, w_ = ElasticNet(alpha, l1_ratio), vector(w)
    assert net.l1 + net.l2 == pytest.approx(alpha)
    expected = l1_ratio * L1(alpha).value(w_) + (1.0 - l1_ratio) * L2(alpha).value(w_)
    assert net.value(w_) == pytest.approx(expected, rel=1e-9, abs=1e-12)


# The distance from optimal.


@every_penalty
@given(
    w=st.one_of(st.just(0.0), numbers),
    slope=numbers,
    alpha=alphas,
    n_free=st.sampled_from([0, 1]),
)
def test_distance_matches_brute_force(
    make: Make, w: float, slope: float, alpha: float, n_free: int
) -> None:
    """From minus the gradient to the nearest slope of a line below the penalty."""
    penalty = freed(make, alpha, n_free)
    l1, l2 = (0.0, 0.0) if n_free else (penalty.l1, penalty.l2)
    signs = np.linspace(-1.0, 1.0, 2001) if w == 0.0 else np.sign(w)
    brute = np.min(np.abs(slope + l2 * w + l1 * signs))
    result = penalty.distance(vector(w), vector(slope))
    assert result.shape == (1,)
    assert result[0] == pytest.approx(brute, rel=1e-9, abs=1e-3 * l1 + 1e-9)


@pytest.mark.parametrize(
    ("make", "shape", "n_free"), each_value(PENALTIES.values(), [(6,), (6, 3)], [0, 2, 2])
)
def test_distance_is_zero_at_fixed_points_of_prox(
    make: Make, shape: tuple[int, ...], n_free: int
) -> None:
    penalty = freed(make, 0.5, n_free)
    target = np.random.default_rng(4).normal(size=shape)
    best = penalty.prox(target, 1.0)
    np.testing.assert_allclose(penalty.distance(best, best - target), 0.0, atol=1e-15)
    assert (penalty.distance(best + 0.1, best + 0.1 - target) > 0.05).all()


# What is refused.


def test_invalid_alphas_are_rejected() -> None:
    for make in (L2, L1, ElasticNet):
        for alpha in [-1e-9, -1.0, np.nan, np.inf, -np.inf]:
            with pytest.raises(InputError, match="alpha must be a finite number, not negative"):
                make(alpha)


def test_invalid_ratios_are_rejected() -> None:
    for l1_ratio in (-1e-9, 1.0 + 1e-9, np.nan, np.inf, -np.inf):
        with pytest.raises(InputError, match="l1_ratio must lie between 0 and 1"):
            ElasticNet(1.0, l1_ratio)
