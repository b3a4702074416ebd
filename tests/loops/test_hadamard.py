"""The fast Walsh-Hadamard transform, octonions and their projections against slow references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import hadamard as hadamard_matrix

from gramless.base.arrays import readonly
from gramless.loops import hadamard
from tests.solvers.pairwise import each_value

WIDTHS = [16, 32, 64, 256, 1024]


@pytest.mark.parametrize(("width", "dtype"), each_value(WIDTHS, [np.float32, np.float64]))
def test_transform_multiplies_by_the_hadamard_matrix(width: int, dtype: type) -> None:
    """Whole numbers: sums are exact in any order."""
    rng = np.random.default_rng(width)
    rows = rng.integers(-100, 100, (5, width)).astype(dtype)
    expected = rows @ hadamard_matrix(width)
    hadamard.transform(rows)
    np.testing.assert_array_equal(rows, expected)


@given(st.integers(0, 10**6), st.sampled_from(WIDTHS), st.integers(0, 4))
def test_transform_of_random_rows_matches_the_matrix(seed: int, width: int, n_rows: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(n_rows, width))
    expected = rows @ hadamard_matrix(width)
    hadamard.transform(rows)
    np.testing.assert_allclose(rows, expected, atol=1e-11)


def multiplied(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Multiply by Cayley and Dickson: pairs of numbers, pairs of pairs, pairs of those."""
    if len(x) == 1:
        return x * y
    (a, b), (c, d) = np.split(x, 2), np.split(y, 2)
    first = multiplied(a, c) - multiplied(conjugate(d), b)
    return np.concatenate([first, multiplied(d, a) + multiplied(b, conjugate(c))])


def conjugate(x: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([x[:1], -x[1:]])


@pytest.mark.parametrize(("width", "dtype"), each_value(WIDTHS, [np.float32, np.float64]))
def test_multiply_octonions_matches_the_definition(width: int, dtype: type) -> None:
    rng = np.random.default_rng(width)
    first, second = rng.integers(-9, 10, (2, width)).astype(dtype)
    product = np.full(width, 77, dtype)
    hadamard.multiply_octonions(first, second, product)
    parts = [numbers.reshape(8, -1).astype(np.float64) for numbers in (first, second, product)]
    np.testing.assert_array_equal(parts[2], multiplied(parts[0], parts[1]))
    norms = [(part**2).sum(axis=0) for part in parts]
    np.testing.assert_array_equal(norms[2], norms[0] * norms[1])


def expected_blocks(
    rows: NDArray[Any], signs: NDArray[Any], orders: NDArray[Any], factors: NDArray[Any]
) -> NDArray[np.float64]:
    """Return ``H G P H B x`` of all blocks, one after the other, by dense matrices."""
    width, results = rows.shape[1], []
    matrix = hadamard_matrix(width)
    frequencies = np.arange(width).reshape(8, -1).T.ravel()
    for b, order, g in zip(signs, orders, factors, strict=True):
        for row in rows:
            ordered = (matrix @ (b * row))[order]
            product = multiplied(g.reshape(8, -1), ordered.reshape(8, -1))
            results.append((matrix @ product.ravel())[frequencies])
    return np.concatenate(np.split(np.array(results), len(signs)), axis=1)


@pytest.mark.parametrize(
    ("n", "width", "dtype"),
    each_value([1, 16, 100, 128, 300], [16, 128], [np.float64, np.float32, np.float32]),
)
def test_project_blocks_matches_the_slow_implementation(n: int, width: int, dtype: type) -> None:
    """Small whole numbers: all is exact."""
    rng, n_blocks = np.random.default_rng(n), -(-n // width)
    rows = rng.integers(-5, 6, (4, width)).astype(dtype)
    signs = rng.choice([-1, 1], (n_blocks, width)).astype(dtype)
    orders = np.stack([rng.permutation(width) for _ in range(n_blocks)]).astype(np.int32)
    factors = rng.integers(-3, 4, (n_blocks, width)).astype(dtype)
    scales = rng.integers(1, 4, n).astype(dtype)
    starts = rng.integers(-9, 9, n_blocks * width).astype(dtype)
    sums, room = np.full((5, n_blocks * width), 77, dtype), np.empty((2, width), dtype)
    hadamard.project_blocks(rows, signs, readonly(orders), factors, scales, room, starts, sums)
    expected = np.full(sums.shape, 77, dtype)
    products = expected_blocks(rows, signs, orders, factors)[:, :n].astype(dtype)
    expected[:4, :n] = starts[:n] + scales * products
    np.testing.assert_array_equal(sums, expected)
