"""Products with the features of blocks, against features that are written down in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.kernels import Gaussian, Laplacian, Matern, SpectralKernel
from gramless.streaming.feature_blocks import CpuProducts, FrequencyBlocks, PanelCache, TileSizes

Array = NDArray[np.float64]


def some_rows(n_rows: int, n_inputs: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(n_rows, n_inputs)).astype(np.float32)


def make(
    size: int = 5,
    n_inputs: int = 3,
    budget: int = 1 << 20,
    n_jobs: int | None = None,
    kernel: SpectralKernel | None = None,
    group_frequencies: int = 2048,
    sizes: TileSizes | None = None,
) -> CpuProducts:
    blocks = FrequencyBlocks(kernel or Gaussian(), 1, size, n_inputs, group_frequencies)
    inverse = np.full(n_inputs, 1.0 / np.sqrt(n_inputs))
    return CpuProducts(blocks, np.zeros(n_inputs), inverse, budget, n_jobs, sizes)


def some_weights(products: CpuProducts, n_blocks: int, n_outputs: int) -> list[NDArray[np.float32]]:
    """Return weights by groups, of which the last may have room for more blocks."""
    columns, most = products.blocks.group_columns, products.blocks.group_blocks
    rng = np.random.default_rng(n_blocks)
    shape = (-(-n_blocks // most), columns, n_outputs)
    return [group.astype(np.float32) for group in rng.normal(size=shape)]


def expected_features(products: CpuProducts, X: Any, block: int) -> Array:
    """Return the features of one block, cosine and sine side by side."""
    dense = X.toarray() if sp.issparse(X) else np.asarray(X)
    rows = (dense.astype(float) - products.center) * products.inverse
    angles = rows @ products.blocks.draw(block).T
    pairs = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return pairs.reshape(len(rows), -1) / np.sqrt(products.blocks.size)


def expected_responses(
    products: CpuProducts, X: Any, weights: list[NDArray[np.float32]], n_blocks: int
) -> Array:
    stacked, width = np.concatenate(weights).astype(float), 2 * products.blocks.size
    return sum(
        expected_features(products, X, k) @ stacked[k * width : (k + 1) * width]
        for k in range(n_blocks)
    )


def near(actual: Array, expected: Array, terms: float) -> None:
    """Compare sums of so many features, each wrong by some roundings."""
    assert actual.shape == expected.shape
    assert actual.dtype == np.float64
    np.testing.assert_allclose(actual, expected, rtol=0, atol=3e-6 * np.sqrt(terms) + 1e-6)


def check(products: CpuProducts, X: Any, n_blocks: int, n_outputs: int) -> None:
    """Compare responses and one gradient with their references."""
    rows, n_rows = products.prepare(X), X.shape[0]
    weights = some_weights(products, n_blocks, n_outputs)
    result = products.responses(rows, weights, n_blocks)
    near(result, expected_responses(products, X, weights, n_blocks), n_blocks)
    slopes = np.random.default_rng(1).normal(size=(n_rows, n_outputs))
    expected = expected_features(products, X, n_blocks - 1).T @ slopes
    near(products.gradient(rows, n_blocks - 1, slopes), expected, n_rows)
    if products.blocks.size <= 600:
        features = expected_features(products, X, n_blocks - 1)
        near(products.moments(rows, n_blocks - 1), features.T @ features, n_rows)


# References.


def test_products_match_the_reference_for_every_size() -> None:
    for n_rows in (1, 5, 6, 7, 95, 96, 97, 191, 192, 193):
        check(make(), some_rows(n_rows, 3), n_blocks=4, n_outputs=2)
    for size in (1, 15, 16, 17, 100, 511, 512, 513, 1030, 2048, 2049, 5000):
        check(make(size), some_rows(13, 3), n_blocks=3, n_outputs=1 + 2 * (size % 2))
    for n_inputs in (1, 255, 256, 257, 600):
        check(make(20, n_inputs), some_rows(20, n_inputs), n_blocks=3, n_outputs=2)


@given(
    st.integers(1, 210),
    st.integers(1, 9),
    st.integers(1, 70),
    st.integers(1, 12),
    st.integers(1, 4),
    st.sampled_from([0, 3000, 1 << 20]),
)
def test_products_match_the_reference_for_every_shape(
    n_rows: int, n_inputs: int, size: int, n_blocks: int, n_outputs: int, budget: int
) -> None:
    small = TileSizes(frequencies=64, span_groups=2)
    products = make(size, n_inputs, budget, group_frequencies=150, sizes=small)
    check(products, some_rows(n_rows, n_inputs), n_blocks, n_outputs)


def test_products_over_many_groups_match_the_reference() -> None:
    products = make(700, 2)
    assert products.blocks.group_blocks == 2
    check(products, some_rows(20, 2), n_blocks=2 * products.sizes.span_groups + 5, n_outputs=1)


@pytest.mark.parametrize(("most", "expected"), [(1 << 25, 7), (3 * 1400 * 2, 3), (1, 1)])
def test_number_of_frequencies_drawn_ahead_is_limited(
    most: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    products, X = make(700, 2, budget=0), some_rows(20, 2)
    small = make(700, 2, budget=0, sizes=TileSizes(span_elements=most))
    rows, weights = products.prepare(X), some_weights(products, 14, 1)
    whole = products.responses(rows, weights, 14)
    spans: list[int] = []
    cached = PanelCache.groups
    monkeypatch.setattr(
        PanelCache,
        "groups",
        lambda self, groups, n: [spans.append(len(groups)), cached(self, groups, n)][1],
    )
    np.testing.assert_array_equal(small.responses(rows, weights, 14), whole)
    assert max(spans) == expected


def test_truncated_weights_give_the_same_responses() -> None:
    products, X = make(300), some_rows(30, 3)
    weights = some_weights(products, 15, 2)
    rows, columns = products.prepare(X), products.blocks.group_columns
    whole = products.responses(rows, weights, 15)
    joined = np.concatenate(weights)[: 15 * 600]
    cut = [joined[a : a + columns] for a in range(0, len(joined), columns)]
    assert len(cut[-1]) < columns
    np.testing.assert_array_equal(products.responses(rows, cut, 15), whole)


def test_n_blocks_selects_the_first_blocks() -> None:
    products, X = make(40), some_rows(30, 3)
    weights = some_weights(products, 120, 2)
    rows = products.prepare(X)
    for n_blocks in (120, 1, 51, 52, 102, 119):
        result = products.responses(rows, weights, n_blocks)
        near(result, expected_responses(products, X, weights, n_blocks), n_blocks)


def test_features_of_large_angles_are_accurate() -> None:
    for kernel in [Laplacian(), Matern(0.5)]:
        products = make(50, kernel=kernel)
        X = some_rows(40, 3)
        features = products.gradient(products.prepare(X), 3, np.eye(40)).T
        terms = np.abs(X * products.inverse) @ np.abs(products.blocks.draw(3)).T
        errors = np.abs(features - expected_features(products, X, 3)) * np.sqrt(50)
        assert (errors[:, ::2] < 1e-6 + 3e-7 * terms).all()
        assert (errors[:, 1::2] < 1e-6 + 3e-7 * terms).all()


def test_features_average_to_the_kernel() -> None:
    X = some_rows(6, 3)
    products = make(500)
    rows = products.prepare(X)
    grams = []
    for block in range(60):
        features = products.gradient(rows, block, np.eye(6)).T
        grams.append(features @ features.T)
    np.testing.assert_allclose([np.diag(gram) for gram in grams], 1.0, atol=2e-6)
    pairs = np.triu_indices(6, 1)
    values = np.array(grams)[:, pairs[0], pairs[1]]
    exact = Gaussian().gram(X.astype(float) * products.inverse)[pairs]
    errors = values.std(axis=0, ddof=1) / np.sqrt(60)
    assert (np.abs(values.mean(axis=0) - exact) < 4.0 * errors).all()
    assert (np.abs(values.mean(axis=0) - 1.05 * exact) > 4.0 * errors).any()


# The same bits.


def results(products: CpuProducts, X: Any, n_blocks: int, n_outputs: int) -> list[Array]:
    rows = products.prepare(X)
    slopes = np.random.default_rng(1).normal(size=(X.shape[0], n_outputs))
    return [
        products.responses(rows, some_weights(products, n_blocks, n_outputs), n_blocks),
        products.gradient(rows, n_blocks // 2, slopes),
        products.moments(rows, n_blocks // 2),
    ]


@pytest.mark.parametrize(("size", "n_outputs"), [(30, 4), (600, 1)])
def test_threads_and_cache_do_not_change_results(size: int, n_outputs: int) -> None:
    X = some_rows(700, 6)
    expected = results(make(size, 6, n_jobs=1), X, 8, n_outputs)
    for budget in (0, 300_000, 1 << 24):
        for n_jobs in (1, 2, 3, None):
            result = results(make(size, 6, budget, n_jobs), X, 8, n_outputs)
            for a, b in zip(result, expected, strict=True):
                np.testing.assert_array_equal(a, b)


def test_order_of_growth_does_not_change_responses() -> None:
    X, (grown, fresh) = some_rows(50, 3), (make(30), make(30))
    rows = grown.prepare(X)
    for n_blocks in (1, 2, 3, 40, 67, 68, 69, 100):
        weights = some_weights(grown, n_blocks, 2)
        result = grown.responses(rows, weights, n_blocks)
        np.testing.assert_array_equal(result, fresh.responses(rows, weights, n_blocks))
        fresh = make(30)


def test_tiles_do_not_depend_on_their_position() -> None:
    X, products = some_rows(480, 4), make(20, 4)
    weights = some_weights(products, 9, 3)
    whole = products.responses(products.prepare(X), weights, 9)
    part = products.responses(products.prepare(X[192:384]), weights, 9)
    np.testing.assert_array_equal(part, whole[192:384])


# Rows.


def sparse_rows(n_rows: int, n_inputs: int) -> sp.csr_array:
    X = some_rows(n_rows, n_inputs)
    X[np.random.default_rng(1).random(X.shape) < 0.8] = 0.0
    X[n_rows // 2] = 0.0
    return sp.csr_array(X)


@pytest.mark.parametrize(("n_inputs", "index"), [(30, np.int32), (600, np.int64)])
def test_sparse_rows_give_the_results_of_dense_ones(n_inputs: int, index: Any) -> None:
    X, products = sparse_rows(150, n_inputs), make(33, n_inputs)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    check(products, X, 4, 2)
    for a, b in zip(results(products, X, 4, 2), results(products, X.toarray(), 4, 2), strict=True):
        np.testing.assert_array_equal(a, b)


def test_wide_sparse_rows_stay_sparse() -> None:
    X = sp.csr_array(sp.random(50, 10**6, density=1e-5, random_state=np.random.default_rng(0)))
    blocks = FrequencyBlocks(Gaussian(), seed=0, size=2, n_inputs=10**6)
    products = CpuProducts(blocks, np.zeros(10**6), np.ones(10**6), budget=0)
    features = products.gradient(products.prepare(X), 0, np.eye(50))
    np.testing.assert_allclose((features**2).sum(axis=0), 1.0, atol=1e-6)


def test_layout_of_rows_does_not_change_results() -> None:
    X = np.random.default_rng(0).integers(-3, 4, (120, 4))
    products = make(12, 4)
    expected = results(products, X.astype(np.float64), 5, 2)
    wide = np.zeros((240, 8), np.float32)
    wide[::2, 1::2] = X
    frozen = X.astype(np.float64)
    frozen.flags.writeable = False
    for rows in (X, X.astype(np.int8), np.asfortranarray(X, np.float64), wide[::2, 1::2], frozen):
        for a, b in zip(results(products, rows, 5, 2), expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_layout_of_slopes_does_not_change_gradients() -> None:
    for order in ["C", "F"]:
        products, X = make(12), some_rows(120, 3)
        slopes = np.random.default_rng(0).normal(size=(120, 3))
        given = np.require(np.array(slopes, order=order), requirements=[order])
        given.flags.writeable = False
        result = products.gradient(products.prepare(X), 0, given)
        near(result, expected_features(products, X, 0).T @ slopes, 120)


def test_centres_and_units_are_applied_in_double_precision() -> None:
    X = np.round(some_rows(40, 3).astype(float) * 1024) / 1024
    blocks = FrequencyBlocks(Gaussian(), seed=1, size=10, n_inputs=3)
    inverse = np.array([0.5, 0.0, 2.0])
    near_, far = (
        CpuProducts(blocks, np.full(3, offset), inverse, budget=0) for offset in (0.0, 1e9)
    )
    for a, b in zip(results(near_, X, 3, 2), results(far, X + 1e9, 3, 2), strict=True):
        np.testing.assert_array_equal(a, b)
    check(far, X + 1e9, 3, 2)
    check(far, sp.csr_array(X + 1e9), 3, 2)


def test_extreme_rows_give_finite_results() -> None:
    X = np.array([[0.0, 1.0], [1.7e308, 1.0], [-1.7e308, 0.0], [1e20, 1e-300]])
    for kernel in (Gaussian(), Matern(0.05)):
        blocks = FrequencyBlocks(kernel, seed=1, size=10, n_inputs=2)
        products = CpuProducts(blocks, np.zeros(2), np.array([1e10, 0.0]), budget=0)
        for rows in (X, sp.csr_array(X)):
            for result in results(products, rows, 3, 1):
                assert np.isfinite(result).all()


def test_rows_of_another_width_are_rejected() -> None:
    with pytest.raises(InputError, match="rows have 4 inputs, not 3"):
        make().prepare(some_rows(5, 4))
