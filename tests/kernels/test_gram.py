"""Contract of the exact kernel: profile and Gram matrix."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gramless.base.errors import InputError
from gramless.kernels import Gaussian, Laplacian, bandwidth_vector

points = st.integers(1, 4).flatmap(
    lambda n_inputs: arrays(
        np.float64,
        st.tuples(st.integers(1, 8), st.just(n_inputs)),
        elements=st.floats(-20, 20, allow_subnormal=False),
    )
)
few_examples = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def test_profile_is_one_at_zero_and_decreases_to_zero(kernel):
    distance = np.append(0.0, np.geomspace(1e-9, 1e11, 2000))
    values = kernel.profile(distance)
    assert values[0] == pytest.approx(1.0, abs=1e-15)
    assert np.all(np.diff(values) <= 1e-15)
    assert 0.0 <= values[-1] < 1e-3


def test_profile_of_a_binning_kernel_is_convex(binning_kernel):
    distance = np.linspace(0.0, 10.0, 4001)
    assert np.diff(binning_kernel.profile(distance), 2).min() > -1e-14


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_profile_keeps_the_shape(kernel, shape):
    assert np.shape(kernel.profile(np.ones(shape))) == shape


@few_examples
@given(X=points)
def test_gram_is_symmetric_with_unit_diagonal_and_positive_semidefinite(kernel, X):
    gram = kernel.gram(X)
    assert gram.dtype == np.float64
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(np.diag(gram), 1.0, rtol=1e-14)
    assert np.linalg.eigvalsh(gram).min() > -1e-10


def test_gram_equals_a_double_loop(kernel):
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
    bandwidth = [0.5, 2.0, 7.0]
    slow = [
        [
            math.prod(
                float(kernel.profile(np.array(abs(a - b) / s)))
                for a, b, s in zip(x, y, bandwidth, strict=True)
            )
            for y in Y
        ]
        for x in X
    ]
    np.testing.assert_allclose(kernel.gram(X, Y, bandwidth=bandwidth), slow, rtol=1e-12)


def test_gram_of_named_kernels_is_the_textbook_formula():
    x, y = np.array([[0.3, -1.0]]), np.array([[1.0, 1.0]])
    difference = (x - y).ravel()
    assert Gaussian().gram(x, y, bandwidth=1.7)[0, 0] == pytest.approx(
        np.exp(-(difference @ difference) / (2 * 1.7**2)), rel=1e-14
    )
    assert Laplacian().gram(x, y, bandwidth=1.7)[0, 0] == pytest.approx(
        np.exp(-np.abs(difference).sum() / 1.7), rel=1e-14
    )


@few_examples
@given(X=points, scale=st.floats(0.01, 100))
def test_bandwidth_scales_the_inputs(kernel, X, scale):
    np.testing.assert_allclose(
        kernel.gram(X, bandwidth=scale), kernel.gram(X / scale), rtol=1e-9, atol=1e-12
    )


def test_infinite_bandwidth_ignores_an_input(kernel):
    X = np.random.default_rng(2).normal(size=(6, 3))
    np.testing.assert_array_equal(
        kernel.gram(X, bandwidth=[1.0, np.inf, 3.0]),
        kernel.gram(X[:, [0, 2]], bandwidth=[1.0, 3.0]),
    )
    np.testing.assert_array_equal(kernel.gram(X, bandwidth=np.inf), np.ones((6, 6)))


def test_inputs_that_disagree_in_width_are_refused(kernel):
    with pytest.raises(InputError, match="X has 2 inputs and Y has 3"):
        kernel.gram(np.ones((4, 2)), np.ones((4, 3)))


@pytest.mark.parametrize(
    ("bandwidth", "message"),
    [
        (0.0, "positive"),
        (-1.0, "positive"),
        (np.nan, "positive"),
        ([1.0, 2.0], "one number or 3"),
        (np.ones((3, 1)), "one number or 3"),
        ("wide", "numbers"),
    ],
)
def test_bandwidths_that_make_no_sense_are_refused(bandwidth, message):
    with pytest.raises(InputError, match=message):
        bandwidth_vector(bandwidth, 3)
