"""Matrices computed on demand: what is kept, what is computed when, and by whom."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from gramless.base.errors import InputError
from gramless.matrices.dense import ComputedMatrix

CHUNK = 2048


class Squares:
    """A function of rows that counts the rows that it computes."""

    def __init__(self, n_rows=3 * CHUNK + 100, n_inputs=2):
        self.rows = np.random.default_rng(0).normal(size=(n_rows, n_inputs)).astype(np.float32)
        self.blocks = []

    def __call__(self, rows, out):
        assert out.flags.c_contiguous
        assert out.shape == (len(rows), self.rows.shape[1])
        self.blocks.append(len(rows))
        np.square(rows, out=out)

    @property
    def expected(self):
        return np.square(self.rows).astype(np.float64)

    def matrix(self, kept_chunks, n_jobs=1):
        row_bytes = 4 * self.rows.shape[1]
        budget = kept_chunks if kept_chunks is None else kept_chunks * CHUNK * row_bytes
        return ComputedMatrix(self.rows, self, self.rows.shape[1], budget=budget, n_jobs=n_jobs)


@pytest.mark.parametrize(
    ("kept_chunks", "stored", "again"), [(0, 0, 6244), (1, 1, 4196), (2, 2, 2148), (None, 3, 0)]
)
def test_cached_blocks_are_computed_once(kept_chunks, stored, again):
    for n_jobs in (1, 2, 5):
        squares = Squares()
        matrix = squares.matrix(kept_chunks, n_jobs)
        share = 1.0 if kept_chunks is None else stored * CHUNK / len(squares.rows)
        assert matrix.stored == share
        w = np.array([1.0, -2.0])
        for computed in (len(squares.rows), again, again):
            squares.blocks.clear()
            np.testing.assert_allclose(matrix.matvec(w), squares.expected @ w, rtol=1e-14)
            assert sum(squares.blocks) == computed
            assert max(squares.blocks, default=0) <= CHUNK


def test_blocks_are_computed_lazily():
    squares = Squares()
    matrix = squares.matrix(None)
    assert matrix.shape == squares.rows.shape
    assert matrix.nbytes == squares.rows.nbytes
    matrix.take_rows(slice(10))
    assert not squares.blocks


@pytest.mark.parametrize("kept_chunks", [0, 1, None])
def test_pull_back_computes_rows_once(kept_chunks):
    squares = Squares()
    squares.matrix(kept_chunks).pull_back(np.ones(2), lambda rows, responses: responses)
    assert sum(squares.blocks) == len(squares.rows)


@pytest.mark.parametrize("kept_chunks", [0, 1, 2, None])
def test_cache_size_does_not_change_products(kept_chunks):
    squares = Squares()
    v = np.random.default_rng(1).normal(size=len(squares.rows))
    kept, other = squares.matrix(None), squares.matrix(kept_chunks, 3)
    assert other.rmatvec(v).tobytes() == kept.rmatvec(v).tobytes()
    assert other.column_gram().tobytes() == kept.column_gram().tobytes()


def test_default_cache_size_follows_free_memory(monkeypatch):
    squares = Squares()
    # A matrix keeps a third of a limit: others are in use beside it.
    monkeypatch.setenv("GRAMLESS_MEMORY_LIMIT", str(3 * (2 * CHUNK * 8 + 17)))
    matrix = squares.matrix(None)
    assert matrix.stored == 2 * CHUNK / len(squares.rows)
    assert matrix.take_rows(slice(CHUNK)).stored == 1.0


def test_taken_rows_keep_the_cache_size():
    matrix = Squares().matrix(1)
    assert matrix.take_rows(slice(None)).stored == matrix.stored


def test_any_rows_can_be_taken():
    squares = Squares()
    matrix = squares.matrix(2)
    for start, stop in [(0, 5), (CHUNK - 3, CHUNK + 3), (100, 6000), (6200, 6244), (7, 7)]:
        chunk = matrix.chunk(start, stop)
        assert chunk.dtype == np.float32
        np.testing.assert_array_equal(chunk, np.square(squares.rows[start:stop]))


def test_racing_threads_compute_cached_blocks_once():
    squares = Squares()
    matrix = squares.matrix(None)

    def slow(rows, out):
        time.sleep(0.005)
        squares(rows, out)

    matrix.compute = slow
    with ThreadPoolExecutor(8) as pool:
        result = list(pool.map(lambda _: matrix.chunk(0, len(squares.rows)).copy(), range(16)))
    assert sorted(squares.blocks) == [100, CHUNK, CHUNK, CHUNK]
    for rows in result:
        np.testing.assert_array_equal(rows, np.square(squares.rows))


def test_concurrent_passes_give_the_same_products():
    squares = Squares()
    matrix = squares.matrix(1, n_jobs=2)
    w = np.array([1.0, 3.0])
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(lambda _: matrix.matvec(w), range(8)))
    for product in result:
        np.testing.assert_allclose(product, squares.expected @ w, rtol=1e-14)


def test_failed_blocks_are_computed_again():
    squares = Squares()
    matrix = squares.matrix(None)

    def fail(rows, out):
        raise MemoryError("no room")

    matrix.compute = fail
    with pytest.raises(MemoryError, match="no room"):
        matrix.matvec(np.ones(2))
    matrix.compute = squares
    np.testing.assert_allclose(matrix.matvec(np.ones(2)), squares.expected.sum(axis=1))


def test_sparse_rows_give_the_same_products():
    rows = sp.csr_array(sp.random(3000, 5, density=0.3, random_state=0))

    def double(part, out):
        out[:] = 2.0 * part.toarray()

    matrix = ComputedMatrix(rows, double, 5, dtype=np.float64)
    expected, w = 2.0 * rows.toarray(), np.arange(5.0)
    np.testing.assert_allclose(matrix.matvec(w), expected @ w)
    chosen = np.array([5, 2999, 0, 5])
    np.testing.assert_allclose(matrix.take_rows(chosen).matvec(w), expected[chosen] @ w)


@pytest.mark.parametrize("order", ["C", "F"])
def test_layout_of_rows_does_not_change_products(order):
    rows = np.asarray(np.random.default_rng(0).integers(0, 9, (50, 3)), order=order)
    rows.flags.writeable = False
    matrix = ComputedMatrix(rows[::2], lambda part, out: np.copyto(out, part), 3)
    np.testing.assert_array_equal(matrix.matvec(np.ones(3)), rows[::2].sum(axis=1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": np.int64}, "dtype must be float32 or float64, got int64"),
        ({"dtype": np.float16}, "dtype"),
        ({"n_columns": -1}, "n_columns must be an integer, at least 0; got -1"),
        ({"n_columns": 2.0}, "n_columns"),
        ({"n_columns": True}, "n_columns"),
        ({"budget": -5}, "budget must be an integer, at least 0; got -5"),
        ({"budget": 1e9}, "budget"),
    ],
)
def test_invalid_input_is_rejected(options, words):
    with pytest.raises(InputError, match=words):
        ComputedMatrix(np.ones((3, 2)), np.copyto, **{"n_columns": 2, **options})
