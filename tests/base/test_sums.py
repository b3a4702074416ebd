"""Sums without BLAS, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.base.arrays import inner, weighted_sums

SHAPES: list[tuple[int, ...]] = [(0,), (1,), (7,), (1000,), (0, 3), (5, 1), (301, 4)]


def drawn(*shape: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=shape)


def test_inner_is_the_sum_of_all_products() -> None:
    for shape in SHAPES:
        a, b = drawn(*shape, seed=1), drawn(*shape, seed=2)
        result = inner(a, b)
        assert type(result) is float
        assert result == pytest.approx((a * b).sum(), rel=1e-12, abs=1e-12)


def test_inner_does_not_depend_on_memory_layout() -> None:
    a, b = drawn(40, 3, seed=1), drawn(40, 3, seed=2)
    expected = (a * b).sum()
    wide = np.zeros((80, 6))
    wide[::2, ::2] = b
    for other in (np.asfortranarray(b), wide[::2, ::2], b[::-1].copy()[::-1]):
        assert inner(a, other) == pytest.approx(expected, rel=1e-12)
        assert inner(other, a) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_values_propagate(bad: float) -> None:
    a = drawn(9)
    a[4] = bad
    assert not np.isfinite(inner(a, np.ones(9)))
    assert not np.isfinite(weighted_sums(np.ones(9), a)).any()


def test_weighted_sums_are_products_with_a_row() -> None:
    for shape in SHAPES:
        weights, values = drawn(shape[0], seed=1), drawn(*shape, seed=2)
        result = weighted_sums(weights, values)
        assert result.shape == (shape[1:] or (1,))
        np.testing.assert_allclose(result, np.atleast_1d(weights @ values), rtol=1e-12, atol=1e-12)
        turned = weighted_sums(weights, np.asfortranarray(values))
        np.testing.assert_allclose(turned, result, rtol=1e-12, atol=1e-12)


def test_mismatched_shapes_are_rejected() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        inner(drawn(3), drawn(4))
    with pytest.raises(ValueError, match="broadcast"):
        weighted_sums(drawn(3), drawn(4, 2))
