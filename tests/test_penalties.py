"""Penalties against finite differences and brute-force minimisation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from gramless.base.errors import InputError
from gramless.penalties import L2

numbers = st.floats(-1e3, 1e3)
alphas = st.floats(0.0, 1e3)
steps = st.floats(1e-3, 1e2)


def vector(*values: float) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


@given(w=numbers, alpha=alphas, step=steps)
def test_prox_is_the_brute_force_minimum(w: float, alpha: float, step: float) -> None:
    penalty = L2(alpha)
    found = penalty.prox(vector(w), step)[0]

    def cost(v: float) -> float:
        return step * penalty.value(vector(v)) + (v - w) ** 2 / 2

    bounds = (-abs(w) - 1, abs(w) + 1)
    best = minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    assert cost(found) <= best.fun + 1e-12 * (1 + abs(best.fun))
    assert found == pytest.approx(best.x, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("shape", [(5,), (5, 3)])
@pytest.mark.parametrize("n_free", [0, 1, 2])
def test_prox_leaves_free_rows_alone(shape: tuple[int, ...], n_free: int) -> None:
    w = np.random.default_rng(1).normal(size=shape)
    moved = L2(2.0, n_free=n_free).prox(w, 0.25)
    split = len(w) - n_free
    np.testing.assert_allclose(moved[:split], w[:split] / 1.5)
    np.testing.assert_array_equal(moved[split:], w[split:])


@pytest.mark.parametrize("shape", [(5,), (5, 3)])
@pytest.mark.parametrize("n_free", [0, 1, 2])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_penalty_gradient_by_finite_differences(
    shape: tuple[int, ...], n_free: int, alpha: float
) -> None:
    penalty, step = L2(alpha, n_free=n_free), 1e-4
    w = np.random.default_rng(2).normal(size=shape)
    gradient = penalty.gradient(w)
    assert gradient.shape == shape
    for at in np.ndindex(shape):
        high, low = w.copy(), w.copy()
        high[at] += step
        low[at] -= step
        slope = (penalty.value(high) - penalty.value(low)) / (2 * step)
        assert gradient[at] == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize("shape", [(5,), (5, 3)])
def test_penalty_value_and_diagonal(shape: tuple[int, ...]) -> None:
    w = np.random.default_rng(3).normal(size=shape)
    assert L2(3.0).value(w) == pytest.approx(1.5 * (w**2).sum())
    assert L2(3.0, n_free=2).value(w) == pytest.approx(1.5 * (w[:3] ** 2).sum())
    assert L2(3.0, n_free=2).diagonal(w).ravel().tolist() == [3.0, 3.0, 3.0, 0.0, 0.0]
    assert (L2(3.0).diagonal(w) * w).shape == shape


@given(alpha=alphas, a=numbers, b=numbers)
def test_penalty_is_convex(alpha: float, a: float, b: float) -> None:
    penalty = L2(alpha)
    middle = penalty.value(vector((a + b) / 2))
    assert middle <= (penalty.value(vector(a)) + penalty.value(vector(b))) / 2 * (1 + 1e-12)


def test_prox_changes_nothing_given() -> None:
    w = vector(1.0, 2.0)
    L2(1.0).prox(w, 1.0)
    assert w.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("alpha", [-1e-9, -1.0, np.nan, np.inf, -np.inf])
def test_bad_alphas(alpha: float) -> None:
    with pytest.raises(InputError, match="alpha must be a finite number, not negative"):
        L2(alpha)
