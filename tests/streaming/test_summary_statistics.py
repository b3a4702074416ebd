"""Moments, samples and other statistics of chunks against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.decomposition import PCA

from gramless.base.errors import InputError
from gramless.streaming.chunk_checks import BlockSizes
from gramless.streaming.principal_components import Projection
from gramless.streaming.summary_statistics import summarise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 6)) @ RNG.normal(size=(6, 6)) + [0, 1, -2, 3, 100, 1e6]
Y = RNG.integers(0, 3, size=500)
SPARSE = sparse.random(300, 8, density=0.3, format="csr", random_state=1)


# Blocks of at most 64 rows, and panels of 4 columns.
small_blocks = {"blocks": BlockSizes(dense_rows=64, sparse_rows=64), "panel_columns": 4}
summarise_small = partial(summarise, **small_blocks)


def cut(X: Any, y: Any, sizes: list[int]) -> Iterator[Any]:
    start = 0
    for size in [*sizes, len(y)]:
        yield X[start : start + size], y[start : start + size]
        start += size


def test_moments_match_numpy() -> None:
    for rows in [X, X.astype(np.float32), SPARSE, (10 * X).astype(np.int64)]:
        dense = (rows.toarray() if sparse.issparse(rows) else rows).astype(np.float64)
        y = np.column_stack([dense[:, 0], dense.sum(axis=1)])
        result = summarise_small([(rows, y)], seed=0, covariance=True)
        thin = summarise_small([(rows, y)], seed=0)
        assert result.n_rows == len(dense)
        assert thin.covariance is None
        for one in (result, thin):
            assert_allclose(one.mean, dense.mean(axis=0), rtol=1e-12)
            assert_allclose(one.variance, dense.var(axis=0), rtol=1e-11)
            assert_allclose(one.target_mean, y.mean(axis=0), rtol=1e-12)
            assert_allclose(one.target_variance, y.var(axis=0), rtol=1e-11)
            assert one.classes is None
        expected = np.cov(dense.T, bias=True)
        assert_allclose(result.covariance, expected, atol=1e-11 * np.abs(expected).max())
        assert_array_equal(result.covariance, result.covariance.T)


def test_large_offsets_cost_no_digits() -> None:
    rows = RNG.normal(size=(1000, 2)) + 1e8
    result = summarise_small([(rows, np.zeros(1000))], seed=0, covariance=True)
    assert_allclose(result.variance, rows.var(axis=0), rtol=1e-8)
    assert_allclose(result.covariance, np.cov(rows.T, bias=True), atol=1e-8)
    shifted = SPARSE.copy()
    shifted.data += 1e8
    expected = shifted.toarray().var(axis=0)
    assert_allclose(
        summarise_small([(shifted, np.zeros(300))], seed=0).variance, expected, rtol=1e-8
    )


@given(st.lists(st.integers(0, 200), max_size=6), st.booleans(), st.sampled_from([1, 2]))
def test_chunks_and_threads_do_not_change_the_summary(
    sizes: list[int], is_sparse: bool, n_jobs: int
) -> None:
    rows, y = (SPARSE, np.arange(300) % 5) if is_sparse else (X, Y.astype(float))
    options: dict[str, Any] = {"seed": 3, "sample_rows": 40, "covariance": not is_sparse}
    whole = summarise_small([(rows, y)], n_jobs=1, **options)
    again = summarise_small(cut(rows, y, sizes), n_jobs=n_jobs, **options)
    for name, value in vars(whole).items():
        other = getattr(again, name)
        if sparse.issparse(value):
            value, other = value.toarray(), other.toarray()
        assert_array_equal(other, value)


def test_sample_holds_rows_in_order() -> None:
    y = np.arange(500)
    for rows in (X, sparse.csr_matrix(X), X.astype(np.float32)):
        result = summarise_small([(rows, y)], seed=0, sample_rows=70)
        dense = result.sample.toarray() if sparse.issparse(result.sample) else result.sample
        assert dense.dtype == np.float64
        assert_array_equal(result.sample_targets, np.unique(result.sample_targets))
        assert dense.shape == (70, 6)
        expected = rows.toarray() if sparse.issparse(rows) else rows
        assert_array_equal(dense, expected[result.sample_targets])
    assert_array_equal(summarise_small([(X, y)], seed=0, sample_rows=900).sample, X)
    assert summarise_small([(X, y)], seed=0, sample_rows=0).sample.shape == (0, 6)


def test_sample_is_uniform() -> None:
    n, size, draws = 100, 10, 600
    rows, y = np.zeros((n, 1)), np.arange(n)
    counts = np.zeros(n)
    pairs = 0
    for seed in range(draws):
        chosen = summarise_small([(rows, y)], seed=seed, sample_rows=size).sample_targets
        counts[chosen] += 1
        pairs += np.isin([0, 99], chosen).all()
    # Rows drawn without replacement vary less than independent ones.
    spread = draws * size / n * (1 - size / n)
    assert stats.chi2.sf(((counts - draws * size / n) ** 2 / spread).sum(), n - 1) > 1e-3
    chance = size * (size - 1) / (n * (n - 1))
    assert abs(pairs - draws * chance) < 4 * np.sqrt(draws * chance)


def test_classes_are_found_for_integers_and_text() -> None:
    for y, classes in [
        (Y, [0, 1, 2]),
        (Y - 1.0, [-1.0, 0.0, 1.0]),
        (np.array(["b", "a"] * 250), ["a", "b"]),
        (np.array(["b", "a"] * 250, dtype=object), ["a", "b"]),
        (Y > 0, [False, True]),
        (Y + 0.5, None),
        (np.column_stack([Y, Y]), None),
        (np.where(np.arange(500) < 400, 1.0, 1.5), None),
    ]:
        result = summarise_small(cut(X, y, [130, 7]), seed=0)
        if classes is None:
            assert result.classes is None
        else:
            assert result.classes.tolist() == classes
        words = y.dtype.kind in "OU"
        assert (result.target_mean is None) == words
        assert (result.target_variance is None) == words
        if not words:
            assert_allclose(result.target_mean, y.reshape(500, -1).mean(axis=0))


def test_too_many_classes_are_treated_as_numbers() -> None:
    rows, y = np.ones((40, 1)), np.arange(40)
    options: dict[str, Any] = {"max_classes": 20, "blocks": BlockSizes(dense_rows=10)}
    result = summarise([(rows, y % 20)], seed=0, **options).classes
    assert result is not None
    assert result.tolist() == list(range(20))
    assert summarise([(rows, y % 21)], seed=0, **options).classes is None
    assert summarise([(rows, np.where(y < 30, y, 0))], seed=0, **options).classes is None


def test_error_names_the_row_of_a_missing_value() -> None:
    for bad in [np.nan, np.inf, -np.inf]:
        for kind in [np.asarray, sparse.csr_matrix]:
            broken = X.copy()
            broken[403, 2] = bad
            for sizes in ([], [100, 303], [404]):
                with pytest.raises(
                    InputError, match=rf"Row 403 .*\(from 0\) has {bad} in column 2"
                ):
                    summarise_small(cut(kind(broken), Y, sizes), seed=0)
            y = np.where(np.arange(500) == 401, bad, Y)
            with pytest.raises(InputError, match="target of row 401"):
                summarise_small([(kind(X), y)], seed=0)


def test_invalid_streams_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no rows"):
        summarise([], seed=0)
    with pytest.raises(InputError, match="no rows"):
        summarise([(X[:0], Y[:0])], seed=0)
    with pytest.raises(InputError, match="Chunk 1 .* has 5 columns"):
        summarise([(X, Y), (X[:, :5], Y)], seed=0)
    with pytest.raises(InputError, match="one type"):
        summarise([(X[:2], np.array(["a", None], dtype=object))], seed=0)
    with pytest.raises(InputError, match="Column 1 has numbers .* too large"):
        summarise([([[1.0, 1e200], [1.0, -1e200]], [0, 0])], seed=0, covariance=True)
    with pytest.raises(InputError, match="Target 0 has numbers .* too large"):
        summarise([([[1.0], [1.0]], [1e200, -1e200])], seed=0)
    monkeypatch.setenv("GRAMLESS_MEMORY_LIMIT", "100")
    with pytest.raises(InputError, match="covariance of 6 inputs"):
        summarise([(X, Y)], seed=0, covariance=True)


def test_overflow_between_blocks_is_reported() -> None:
    for covariance in [False, True]:
        # Each block has variance 0, and their means differ by more than can be squared.
        for size in (-1e200, 0.5, 1e200):
            column = np.repeat([1e200, size], 64)
            for rows, y, name in (
                (np.column_stack([np.ones(128), column]), np.zeros(128), "Column 1"),
                (np.ones((128, 2)), column, "Target 0"),
            ):
                with pytest.raises(InputError, match=f"{name} has numbers .* too large"):
                    summarise_small([(rows, y)], seed=0, covariance=covariance)


def test_one_row_has_no_variance() -> None:
    one = summarise([(X[:1], Y[:1])], seed=0, covariance=True)
    assert_array_equal(one.mean, X[0])
    assert not one.variance.any()
    with pytest.raises(InputError, match="All rows of the stream are equal"):
        Projection.from_summary(one, 1)
    same = summarise([(np.ones((9, 2)), np.ones(9))], seed=0)
    assert not same.variance.any()


def test_principal_components_match_scikit_learn() -> None:
    for rows in [X, X.astype(np.float32), SPARSE]:
        dense = rows.toarray() if sparse.issparse(rows) else rows.astype(np.float64)
        result = summarise_small([(rows, np.zeros(len(dense)))], seed=0, covariance=True)
        projection = Projection.from_summary(result, 3)
        pca = PCA(3, svd_solver="full").fit(dense)
        components = pca.components_.T
        largest = np.abs(components).argmax(axis=0)
        signs = np.sign(components[largest, range(3)])
        expected = pca.transform(dense) * signs
        atol = 1e-6 * np.abs(expected).max()
        assert_allclose(projection.apply(rows), expected, atol=atol)
        assert_array_equal(projection.apply(rows, n_jobs=1), projection.apply(rows, n_jobs=2))
        assert_allclose(projection.components, components * signs, atol=1e-6)
        assert np.all(projection.components[largest, range(3)] > 0)


def test_directions_without_variance_are_omitted() -> None:
    flat = np.column_stack([X[:, 0], 2 * X[:, 0], np.ones(500)])
    result = summarise([(flat, Y)], seed=0, covariance=True)
    projection = Projection.from_summary(result, 3)
    assert projection.components.shape == (3, 1)
    variance = np.cov(flat.T, bias=True).trace()
    assert_allclose(projection.apply(flat).var(), variance, rtol=1e-5)
    for wrong in (0, 4):
        with pytest.raises(InputError, match="n_components must be from 1 to the 3 inputs"):
            Projection.from_summary(result, wrong)
    with pytest.raises(InputError, match="summarise with it"):
        Projection.from_summary(summarise([(flat, Y)], seed=0), 1)
    with pytest.raises(InputError, match="rows have 2 inputs, not 3"):
        projection.apply(flat[:, :2])


def test_many_rows_are_projected_block_by_block() -> None:
    projection = Projection(np.arange(6.0), RNG.normal(size=(6, 2)))
    expected = (X - projection.mean) @ projection.components
    for rows in (X, sparse.csr_array(X)):
        assert_allclose(projection.apply(rows, block_rows=7), expected, rtol=1e-5)
    assert projection.apply(X[:0]).shape == (0, 2)
