"""The fused vector loops of conjugate gradients against NumPy, exact for integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.loops import conjugate

SHAPES = st.tuples(st.integers(0, 40), st.integers(0, 5))


def whole_numbers(*shapes: tuple[int, ...]) -> list[NDArray[np.float64]]:
    """Return arrays of small whole numbers: sums of their products are exact in any order."""
    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [rng.integers(-50, 50, shape).astype(np.float64) for shape in shapes]


@given(SHAPES)
def test_add_ridge_matches_the_slow_implementation(shape):
    direction, ridge, product = whole_numbers(shape, shape[:1], shape)
    expected = product + ridge[:, None] * direction
    curvature = np.full(shape[1], np.nan)
    conjugate.add_ridge(direction, ridge, product, curvature)
    np.testing.assert_array_equal(product, expected)
    np.testing.assert_array_equal(curvature, (direction * expected).sum(axis=0))


@given(SHAPES)
def test_advance_matches_the_slow_implementation(shape):
    length, direction, product, inverse, weights, residual = whole_numbers(
        shape[1:], shape, shape, shape[:1], shape, shape
    )
    expected_weights = weights + length * direction
    expected_residual = residual - length * product
    energy = np.full(shape[1], np.nan)
    conjugate.advance(length, direction, product, inverse, weights, residual, energy)
    np.testing.assert_array_equal(weights, expected_weights)
    np.testing.assert_array_equal(residual, expected_residual)
    np.testing.assert_array_equal(energy, (inverse[:, None] * expected_residual**2).sum(axis=0))


@given(SHAPES)
def test_redirect_matches_the_slow_implementation(shape):
    ratio, residual, inverse, direction = whole_numbers(shape[1:], shape, shape[:1], shape)
    expected = inverse[:, None] * residual + ratio * direction
    conjugate.redirect(ratio, residual, inverse, direction)
    np.testing.assert_array_equal(direction, expected)


@given(SHAPES)
def test_add_multiple_matches_the_slow_implementation(shape):
    factors, other, target = whole_numbers(shape[1:], shape, shape)
    expected = target + factors * other
    conjugate.add_multiple(factors, other, target)
    np.testing.assert_array_equal(target, expected)


@given(SHAPES)
def test_apply_softmax_curvature_matches_the_slow_implementation(shape):
    row_weights, p, responses = whole_numbers(shape[:1], shape, shape)
    blocks = p[:, :, None] * np.eye(shape[1]) - p[:, :, None] * p[:, None, :]
    expected = row_weights[:, None] * np.einsum("nkl,nl->nk", blocks, responses)
    conjugate.apply_softmax_curvature(row_weights, p, responses)
    np.testing.assert_array_equal(responses, expected)


def test_infinity_and_nan_propagate():
    residual = np.array([[1.0, np.inf], [np.nan, 2.0]])
    energy = np.empty(2)
    zeros = np.zeros((2, 2))
    conjugate.advance(np.zeros(2), zeros, zeros.copy(), np.ones(2), zeros.copy(), residual, energy)
    assert np.isnan(energy[0])
    assert energy[1] == np.inf
