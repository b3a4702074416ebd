"""Chunked matrices: Gram matrices of columns, products in one pass, how rows are cut."""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramless.base.errors import InputError
from gramless.matrices import dense as module
from gramless.matrices.dense import ChunkedMatrix, DenseMatrix

from .samples import WITH_GRAM, over

SINGLE = 3e-7
"""How far float32 may be off, in units of the columns' norms."""


def draw(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def row_weights(n_rows, kind):
    weights = np.abs(draw(n_rows, 1))
    weights[::3] = 0.0
    scales = {"positive": 1.0, "huge": 1e60, "tiny": 1e-60, "signed": np.sign(draw(n_rows, 2))}
    return {"none": None, "zero": np.zeros(n_rows)}.get(kind, weights * scales.get(kind, 1.0))


def assert_gram(gram, dense, weights):
    """Check entries in units of the weighted norms of their columns."""
    weights = np.ones(len(dense)) if weights is None else weights
    norms = np.sqrt((dense**2).T @ np.abs(weights))
    expected = (dense.T * weights) @ dense
    assert gram.dtype == np.float64
    assert gram.shape == expected.shape
    np.testing.assert_array_equal(gram, gram.T)
    assert (np.abs(gram - expected) <= SINGLE * np.outer(norms, norms)).all()


@over(WITH_GRAM)
def test_column_gram_matches_numpy(chunked):
    for kind in ["none", "positive", "signed", "zero", "huge", "tiny"]:
        weights = row_weights(len(chunked.dense), kind)
        assert_gram(chunked.make(2).column_gram(weights), chunked.dense, weights)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_weights_scale_the_gram_matrix(dtype):
    matrix = DenseMatrix(draw((3000, 40)).astype(dtype))
    gram = 0.3 * matrix.column_gram()
    np.testing.assert_array_equal(matrix.column_gram(np.full(3000, 0.3)), gram)


@over(WITH_GRAM)
def test_column_gram_selects_columns(chunked):
    for kind in ["none", "signed"]:
        matrix, dense = chunked.make(2), chunked.dense
        n = dense.shape[1]
        weights = row_weights(len(dense), kind)
        shuffled = np.random.default_rng(0).permutation(n)[: n // 2 + 1]
        for columns in (slice(n // 3, None), slice(None, None, -2), shuffled, np.empty(0, int)):
            assert_gram(matrix.column_gram(weights, columns), dense[:, columns], weights)


@over(WITH_GRAM)
def test_column_gram_writes_to_out(chunked):
    matrix, n = chunked.make(2), chunked.dense.shape[1]
    weights = row_weights(len(chunked.dense), "signed")
    room = np.full((n + 2, n + 1), np.nan)
    out = room[1:-1, 1:]
    assert matrix.column_gram(weights, out=out) is out
    np.testing.assert_array_equal(out, matrix.column_gram(weights))
    assert np.isnan(room[[0, -1]]).all()
    assert np.isnan(room[:, 0]).all()
    with pytest.raises(InputError, match="out"):
        matrix.column_gram(out=np.empty((n + 1, n)))


def test_double_precision_is_kept():
    rows = draw((3000, 150))
    weights = row_weights(3000, "positive")
    gram = DenseMatrix(rows).column_gram(weights)
    np.testing.assert_allclose(gram, (rows.T * weights) @ rows, rtol=1e-12, atol=1e-10)


def test_single_precision_does_not_lose_more_over_many_rows():
    rows = (1.0 + draw((100_000, 8))).astype(np.float32)
    wide = rows.astype(np.float64)
    expected = wide.T @ wide
    error = np.abs(DenseMatrix(rows).column_gram() - expected).max() / np.trace(expected)
    in_one = np.abs(rows.T @ rows - expected).max() / np.trace(expected)
    assert error < 2e-8
    assert error < in_one / 3


def weighing(weights):
    """Return the function of rows and responses that multiplies them with weights."""
    return lambda rows, responses: (weights[rows].T * responses.T).T


@over(WITH_GRAM)
def test_pull_back_weights_responses(chunked):
    for tail in [(), (1,), (3,), (0,)]:
        matrix, dense = chunked.make(2), chunked.dense
        w = draw((dense.shape[1], *tail))
        before = w.copy()
        for weights in (row_weights(len(dense), "signed"), draw((len(dense), *tail), 1)):
            expected = dense.T @ (weights.T * (dense @ w).T).T
            size = np.abs(expected).max(initial=1.0)
            result = matrix.pull_back(w, weighing(weights))
            np.testing.assert_allclose(result, expected, rtol=1e-11, atol=1e-12 * size)
            out = np.full((*w.shape, 2), np.nan)[..., 0]
            assert matrix.pull_back(w, weighing(weights), out) is out
            np.testing.assert_array_equal(out, result)
        np.testing.assert_array_equal(w, before)


@over(WITH_GRAM)
def test_number_of_threads_does_not_change_products(chunked):
    one, *others = (chunked.make(n_jobs) for n_jobs in (1, 2, 5))
    n_rows, n_columns = chunked.dense.shape
    weights, w = row_weights(n_rows, "signed"), draw((n_columns, 2))
    for other in others:
        for asked in (None, weights):
            assert other.column_gram(asked).tobytes() == one.column_gram(asked).tobytes()
        result = other.pull_back(w, weighing(weights))
        assert result.tobytes() == one.pull_back(w, weighing(weights)).tobytes()


@over(WITH_GRAM)
def test_invalid_operands_are_rejected(chunked):
    matrix = chunked.make(1)
    n_rows, n_columns = chunked.dense.shape
    for bad in (np.ones(n_rows + 1), np.ones((n_rows, 2))):
        with pytest.raises(InputError, match="weights"):
            matrix.column_gram(bad)
        with pytest.raises(InputError, match="weights"):
            matrix.gram_diagonal(bad)
    with pytest.raises(InputError, match="w must have"):
        matrix.pull_back(np.ones(n_columns + 1), weighing(np.ones(n_rows)))
    with pytest.raises(IndexError):
        matrix.column_gram(columns=np.array([n_columns]))


@given(n_columns=st.integers(0, 10**7))
def test_chunks_depend_on_the_columns_only(n_columns):
    one, many = np.broadcast_to(0.0, (1, n_columns)), np.broadcast_to(0.0, (10**6, n_columns))
    rows = DenseMatrix(one, n_jobs=1).chunk_rows
    assert rows == DenseMatrix(many, n_jobs=7).chunk_rows
    assert rows in (256, 512)
    assert rows == 256 or rows * n_columns <= 1 << 20


def test_gram_matrix_takes_little_extra_memory():
    rows = DenseMatrix(draw((2048, 1536)).astype(np.float32), n_jobs=2)
    weights = np.ones(2048)
    tracemalloc.start()
    try:
        gram = rows.column_gram(weights)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * gram.nbytes
    np.testing.assert_array_equal(gram, gram.T)


class Watched(ChunkedMatrix):
    """Ones, which notes what was read by which thread."""

    def __init__(self, n_rows, n_columns, n_jobs):
        self.n_jobs, self.read = n_jobs, []
        self._shape = n_rows, n_columns

    shape = property(lambda self: self._shape)
    dtype = np.dtype(np.float32)

    def chunk(self, start, stop, scratch=None):
        self.read.append((start, stop, threading.get_ident()))
        assert scratch.shape[0] >= stop - start
        assert scratch.flags.c_contiguous
        scratch[: stop - start] = 1.0
        return scratch[: stop - start]

    def take_rows(self, rows):
        raise NotImplementedError


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_every_product_reads_every_row_once(n_jobs):
    matrix = Watched(10_000, 500, n_jobs)
    w, v = np.ones(500), np.ones(10_000)
    for product in (
        lambda: matrix.matvec(w),
        lambda: matrix.rmatvec(v),
        lambda: matrix.pull_back(w, weighing(v)),
        matrix.gram_diagonal,
        matrix.column_gram,
        lambda: matrix.column_gram(v),
    ):
        matrix.read.clear()
        product()
        spans = sorted((start, stop) for start, stop, _ in matrix.read)
        assert [start for start, _ in spans] == [0, *(stop for _, stop in spans[:-1])]
        assert spans[-1][1] == 10_000


def test_products_of_rows_match_single_products():
    matrix = Watched(5_000, 3, None)
    np.testing.assert_array_equal(matrix.matvec(np.ones(3)), np.full(5_000, 3.0))
    np.testing.assert_array_equal(matrix.rmatvec(np.ones(5_000)), np.full(3, 5_000.0))
    np.testing.assert_array_equal(matrix.column_gram(), np.full((3, 3), 5_000.0))


def test_number_of_totals_does_not_grow_with_rows(monkeypatch):
    totals = []
    original = module.map_blocks

    def watched(function, blocks, n_jobs):
        results = original(function, blocks, n_jobs)
        totals.append(len(results))
        return results

    monkeypatch.setattr(module, "map_blocks", watched)
    matrix = DenseMatrix(np.ones((200 * 2048, 1)))
    assert matrix.rmatvec(np.ones(200 * 2048)) == 200 * 2048
    assert totals == [62]


def test_few_single_precision_numbers_have_one_total(monkeypatch):
    totals = []

    def watched(function, blocks, n_jobs):
        totals.append(len(blocks))
        return [function(*block) for block in blocks]

    monkeypatch.setattr(module, "map_blocks", watched)
    matrix = DenseMatrix(np.ones(((1 << 20) + 1, 2), np.float32))
    np.testing.assert_array_equal(matrix.rmatvec(np.ones((1 << 20) + 1)), [(1 << 20) + 1] * 2)
    assert totals == [3]
    assert [module.max_partial_sums(n) for n in (0, 1 << 17, 1 << 30)] == [64, 32, 8]
