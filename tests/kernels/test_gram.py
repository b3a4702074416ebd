"""Contract of the exact kernel: profile and Gram matrix."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import gaussian_process

from gramless.base.errors import InputError
from gramless.kernels import (
    Cauchy,
    Gaussian,
    Laplacian,
    Matern,
    Product,
    RadialKernel,
    RationalQuadratic,
    Scaled,
    Sum,
    bandwidth_vector,
)
from tests.kernels.conftest import ALL_KERNELS, BINNING_KERNELS

points = st.integers(1, 4).flatmap(
    lambda n_inputs: arrays(
        np.float64,
        st.tuples(st.integers(1, 8), st.just(n_inputs)),
        elements=st.floats(-20, 20, allow_subnormal=False),
    )
)


def value(kernel, difference, parted=()):
    """The kernel of one pair by its definition; ``parted`` says 1 / bandwidth where it differs."""
    match kernel:
        case Scaled():
            return value(kernel.kernel, difference / kernel.scale, np.array(parted) / kernel.scale)
        case Sum():
            parts = [value(part, difference, parted) for part in kernel.kernels]
            return np.average(parts, weights=kernel.weights)
        case Product():
            return math.prod(value(part, difference, parted) for part in kernel.kernels)
        case RadialKernel():
            distances = [np.linalg.norm(difference), *parted]
        case _:
            distances = [*np.abs(difference), *parted]
    return math.prod(float(kernel.profile(np.array(distance))) for distance in distances)


def test_profile_is_one_at_zero_and_decreases_to_zero():
    for kernel in ALL_KERNELS.values():
        distance = np.append(0.0, np.geomspace(1e-9, 1e11, 2000))
        values = kernel.profile(distance)
        assert values[0] == pytest.approx(1.0, abs=1e-15)
        assert np.all(np.diff(values) <= 1e-13)
        assert 0.0 <= values[-1] < 1e-3


def test_profile_of_a_binning_kernel_is_convex():
    for binning_kernel in BINNING_KERNELS.values():
        distance = np.linspace(0.0, 10.0, 4001)
        assert np.diff(binning_kernel.profile(distance), 2).min() > -1e-14


def test_profile_keeps_the_shape_of_its_argument():
    for kernel in ALL_KERNELS.values():
        for shape in [(), (3,), (2, 3), (0,)]:
            assert np.shape(kernel.profile(np.ones(shape))) == shape


@settings(max_examples=100)
@given(kernel=st.sampled_from(list(ALL_KERNELS.values())), X=points)
def test_gram_is_symmetric_with_unit_diagonal_and_positive_semidefinite(kernel, X):
    gram = kernel.gram(X)
    assert gram.dtype == np.float64
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(np.diag(gram), 1.0, rtol=1e-14)
    assert np.linalg.eigvalsh(gram).min() > -1e-10


def test_gram_matches_a_double_loop():
    for kernel in ALL_KERNELS.values():
        rng = np.random.default_rng(1)
        X, Y = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
        bandwidth = np.array([0.5, 2.0, 7.0])
        slow = [[value(kernel, (x - y) / bandwidth) for y in Y] for x in X]
        np.testing.assert_allclose(kernel.gram(X, Y, bandwidth=bandwidth), slow, rtol=1e-12)


def test_categories_multiply_the_kernel_by_a_factor():
    for kernel in ALL_KERNELS.values():
        rng = np.random.default_rng(3)
        X = np.column_stack(
            [rng.normal(size=9), rng.integers(0, 3, size=(9, 2)), rng.normal(size=9)]
        )
        bandwidth, categorical = (
            np.array([0.5, 2.0, 0.8, 7.0]),
            np.array([False, True, True, False]),
        )
        slow = [
            [
                value(
                    kernel,
                    ((x - y) / bandwidth)[~categorical],
                    (1 / bandwidth)[categorical & (x != y)],
                )
                for y in X
            ]
            for x in X
        ]
        result = kernel.gram(X, bandwidth=bandwidth, categorical=categorical)
        np.testing.assert_allclose(result, slow, rtol=1e-12)
        assert np.linalg.eigvalsh(result).min() > -1e-12
        parts = kernel.gram_blocks(X, bandwidth=bandwidth, categorical=categorical, block_rows=4)
        np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), result)


def test_gram_of_named_kernels_matches_the_textbook():
    x, y = np.array([[0.3, -1.0]]), np.array([[1.0, 1.0]])
    difference = (x - y).ravel()
    assert Gaussian().gram(x, y, bandwidth=1.7)[0, 0] == pytest.approx(
        np.exp(-(difference @ difference) / (2 * 1.7**2)), rel=1e-14
    )
    assert Laplacian().gram(x, y, bandwidth=1.7)[0, 0] == pytest.approx(
        np.exp(-np.abs(difference).sum() / 1.7), rel=1e-14
    )
    assert Cauchy().gram(x, y, bandwidth=1.7)[0, 0] == pytest.approx(
        np.prod(1 / (1 + (difference / 1.7) ** 2)), rel=1e-14
    )
    assert RationalQuadratic(2.0).gram(x, y, bandwidth=1.7)[0, 0] == pytest.approx(
        (1 + difference @ difference / (4 * 1.7**2)) ** -2, rel=1e-14
    )


def test_matern_kernels_match_scikit_learn():
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    for nu in (0.5, 1.5, 2.5, 0.7, 3.0):
        theirs = gaussian_process.kernels.Matern(length_scale=1.7, nu=nu)(X, Y)
        np.testing.assert_allclose(Matern(nu).gram(X, Y, bandwidth=1.7), theirs, rtol=1e-10)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("nu", [1e-3, 1.0, 11.0, 100.0])
def test_matern_has_its_limits_at_zero_and_infinity(nu):
    distance = np.array([0.0, 5e-324, 1e-300, 1e-12, 1.0, 50.0, 1e3, 1e12, 1e300])
    values = Matern(nu).profile(distance)
    assert values[0] == 1.0
    assert np.all(np.diff(values) <= 1e-13)
    assert np.all(values[6:] < 1e-3)
    if nu >= 1:
        # The second term of the series, -r**2 nu / (2 (nu - 1)), is below float64 here.
        np.testing.assert_allclose(values[:4], 1.0, rtol=1e-12)


@pytest.mark.filterwarnings("error")
def test_distances_that_overflow_give_zero():
    for kernel in ALL_KERNELS.values():
        far = kernel.gram([[-1e200, 0.0]], [[1e200, 0.0]])
        assert 0.0 <= far[0, 0] < 1e-60


def test_blocks_join_to_the_gram_matrix():
    for kernel in ALL_KERNELS.values():
        for block_rows in [1, 3, 7, 100]:
            rng = np.random.default_rng(5)
            X, Y = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
            result = np.full((7, 5), np.nan)
            for rows, block in kernel.gram_blocks(X, Y, bandwidth=2.0, block_rows=block_rows):
                assert len(block) <= block_rows
                result[rows] = block
            np.testing.assert_array_equal(result, kernel.gram(X, Y, bandwidth=2.0))


def test_invalid_blocks_are_rejected_before_any_is_computed():
    for block_rows in (0, -3, 2.5, None):
        with pytest.raises(InputError, match="block_rows must be a whole number above 0"):
            Gaussian().gram_blocks(np.ones((4, 2)), block_rows=block_rows)
    with pytest.raises(InputError, match="X has 2 inputs and Y has 3"):
        Gaussian().gram_blocks(np.ones((4, 2)), np.ones((4, 3)))


def test_invalid_masks_are_rejected():
    for categorical in ([True], np.array([0, 1, 0]), "abc"):
        with pytest.raises(InputError, match="categorical must be 3 truth values"):
            Laplacian().gram(np.ones((2, 3)), categorical=categorical)


def test_infinite_bandwidth_ignores_an_input():
    for kernel in ALL_KERNELS.values():
        X = np.random.default_rng(2).normal(size=(6, 3))
        np.testing.assert_array_equal(
            kernel.gram(X, bandwidth=[1.0, np.inf, 3.0]),
            kernel.gram(X[:, [0, 2]], bandwidth=[1.0, 3.0]),
        )
        np.testing.assert_array_equal(kernel.gram(X, bandwidth=np.inf), np.ones((6, 6)))


def test_invalid_bandwidths_are_rejected():
    for bandwidth, message in (
        (0.0, "positive"),
        (-1.0, "positive"),
        (np.nan, "positive"),
        ([1.0, 2.0], "one number or 3"),
        (np.ones((3, 1)), "one number or 3"),
        ("wide", "numbers"),
    ):
        with pytest.raises(InputError, match=message):
            bandwidth_vector(bandwidth, 3)


def test_separable_kernels_multiply_over_the_inputs():
    for kernel in ALL_KERNELS.values():
        rows = np.random.default_rng(5).normal(size=(6, 3))
        mask = np.array([False, False, True])
        both = kernel.gram(rows, bandwidth=1.5, categorical=mask)
        alone = [kernel.gram(rows[:, [j]], bandwidth=1.5, categorical=mask[[j]]) for j in range(3)]
        assert np.allclose(both, np.prod(alone, axis=0), atol=1e-12) is kernel.is_separable
