"""Every matrix against an equal dense one: products, diagonals, blocks, rows and threads."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.matrices.stacked import without_ones

from .samples import BY_CLASS, every_matrix, every_small_matrix, over

TAILS = [(), (0,), (1,), (3,), (10,)]


def draw(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def close(measured, expected):
    assert measured.dtype == np.float64
    assert measured.shape == expected.shape
    size = np.abs(expected).max(initial=1.0)
    np.testing.assert_allclose(measured, expected, rtol=1e-12, atol=1e-12 * size)


def products(matrix, dense):
    """Return (product, length of its operand, dense reference) both ways."""
    n_rows, n_columns = dense.shape
    return [(matrix.matvec, n_columns, dense), (matrix.rmatvec, n_rows, dense.T)]


def as_dense(matrix):
    """Read a matrix off its products with the unit vectors."""
    return matrix.matvec(np.eye(matrix.shape[1]))


@every_small_matrix
def test_shape_is_that_of_the_dense_matrix(matrix, dense):
    assert matrix.shape == dense.shape
    assert all(isinstance(n, int) for n in matrix.shape)


def tailed(cases):
    """Return every case with every shape of what follows the rows."""
    return [(*case, tail) for case in cases for tail in TAILS]


@every_matrix
def test_products_match_the_dense_matrix(matrix, dense):
    for product, length, reference, tail in tailed(products(matrix, dense)):
        operand = draw((length, *tail))
        before = operand.copy()
        close(product(operand), reference @ operand)
        np.testing.assert_array_equal(operand, before)


@every_small_matrix
def test_out_is_overwritten_and_returned(matrix, dense):
    for product, length, reference, tail in tailed(products(matrix, dense)):
        operand = draw((length, *tail))
        out = np.full((len(reference), *tail), np.nan)
        assert product(operand, out=out) is out
        assert out.tobytes() == product(operand).tobytes()


@every_matrix
def test_add_rmatvec_adds_to_out(matrix, dense):
    for tail in TAILS:
        v, out = draw((len(dense), *tail)), draw((dense.shape[1], *tail), 1)
        operand, expected = v.copy(), out + dense.T @ v
        matrix.add_rmatvec(v, out)
        close(out, expected)
        np.testing.assert_array_equal(v, operand)


@every_small_matrix
def test_add_rmatvec_rejects_operands_of_a_wrong_shape(matrix, dense):
    n_rows, n_columns = dense.shape
    for shape in [(), (n_rows + 1,), (n_rows, 2, 2)]:
        with pytest.raises(InputError, match=str(n_rows)):
            matrix.add_rmatvec(draw(shape), np.zeros(n_columns))
    bad = [np.zeros(n_columns + 1), np.zeros(n_columns, np.float32), np.zeros((n_columns, 2))]
    bad += [np.zeros((n_columns, 2))[:, 0]] if n_columns > 1 else []
    for out in bad:
        with pytest.raises(InputError, match="add_rmatvec"):
            matrix.add_rmatvec(draw(n_rows), out)


@every_small_matrix
def test_row_gram_matches_the_dense_matrix(matrix, dense):
    few = slice(0, 150)
    gram = matrix.take_rows(few).row_gram()
    close(gram, dense[few] @ dense[few].T)
    np.testing.assert_array_equal(gram, gram.T)


@every_small_matrix
def test_row_factors_give_the_products_of_rows(matrix, dense):
    few = matrix.take_rows(slice(0, 150))
    v = draw((few.shape[0], 2))
    one, other = few.row_factors()
    close(one.matvec(other.rmatvec(v)), few.matvec(few.rmatvec(v)))


@every_small_matrix
def test_row_products_match_the_dense_matrix(matrix, dense):
    few = min(len(dense), 150)
    part, dense = matrix.take_rows(slice(0, few)), dense[:few]
    v, rows = draw((few, 3)), np.arange(few)[::-2]
    close(part.row_products(v), dense @ (dense.T @ v))
    close(part.row_products(v[rows], rows), dense @ (dense[rows].T @ v[rows]))


@every_small_matrix
def test_pull_back_matches_two_products(matrix, dense):
    for tail in [(), (1,), (3,)]:
        w, targets = draw((dense.shape[1], *tail)), draw((len(dense), *tail), 1)
        before = w.copy()
        result = matrix.pull_back(w, lambda rows, z, t=targets: np.tanh(z - t[rows]))
        expected = dense.T @ np.tanh(dense @ w - targets)
        size = np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-11 * size)
        np.testing.assert_array_equal(w, before)


@every_small_matrix
def test_tocsr_matches_the_dense_matrix(matrix, dense):
    csr = matrix.tocsr()
    assert csr.format == "csr"
    assert csr.dtype == np.float64
    assert csr.nnz == np.count_nonzero(dense)
    np.testing.assert_array_equal(csr.toarray(), dense)


@every_small_matrix
def test_out_need_not_be_contiguous(matrix, dense):
    for tail in [(), (4,)]:
        for product, length, reference in products(matrix, dense):
            operand = draw((length, *tail))
            wide = np.full((*tail, 2 * len(reference)), np.nan)
            out = wide[..., ::2].T
            assert product(operand, out=out) is out
            np.testing.assert_array_equal(out, product(operand))
            assert np.isnan(wide[..., 1::2]).all()


@every_small_matrix
def test_out_of_a_wrong_shape_is_rejected(matrix, dense):
    for product, length, reference in products(matrix, dense):
        # The second would take the result twice if it were broadcast.
        for shape in [(len(reference) + 1,), (2, len(reference)), (len(reference), 1)]:
            with pytest.raises(InputError, match="out"):
                product(draw(length), out=np.empty(shape))


@every_small_matrix
def test_layout_and_type_of_operands_do_not_change_products(matrix, dense):
    for tail in [(), (4,)]:
        for product, length, _ in products(matrix, dense):
            operand = np.round(100 * draw((length, *tail)))
            expected = product(operand)
            fixed = operand.copy()
            fixed.flags.writeable = False
            spread = np.repeat(operand, 2, axis=0)[::2]
            reversed_twice = operand[::-1].copy()[::-1]
            typed = [operand.astype(kind) for kind in (np.float32, np.int64, np.int16)]
            for same in (fixed, spread, reversed_twice, np.asfortranarray(operand), *typed):
                assert product(same).tobytes() == expected.tobytes()


@every_small_matrix
def test_operands_of_a_wrong_shape_are_rejected(matrix, dense):
    for product, length, _ in products(matrix, dense):
        for shape in [(), (length + 1,), (length + 1, 3), (length, 2, 2)]:
            with pytest.raises(InputError, match=str(length)):
                product(draw(shape))


@every_small_matrix
def test_matvec_and_rmatvec_are_adjoint(matrix, dense):
    for tail in [(), (3,)]:
        w, v = draw((dense.shape[1], *tail)), draw((dense.shape[0], *tail), 1)
        size = np.linalg.norm(dense) * np.linalg.norm(w) * np.linalg.norm(v)
        assert abs(np.sum(matrix.matvec(w) * v) - np.sum(w * matrix.rmatvec(v))) <= 1e-13 * size


@every_small_matrix
def test_products_are_linear(matrix, dense):
    for tail in [(), (3,)]:
        for product, length, _ in products(matrix, dense):
            x, y = draw((length, *tail)), draw((length, *tail), 1)
            close(product(2.5 * x - y), 2.5 * product(x) - product(y))
            assert not product(np.zeros_like(x)).any()


@every_small_matrix
def test_several_columns_match_single_columns(matrix, dense):
    for product, length, _ in products(matrix, dense):
        operand = draw((length, 5))
        together = product(operand)
        for k in range(5):
            close(together[:, k], product(operand[:, k]))


@every_matrix
def test_gram_diagonal_matches_the_dense_matrix(matrix, dense):
    weights = np.round(100 * draw(dense.shape[0]))
    close(matrix.gram_diagonal(), (dense**2).sum(axis=0))
    for kind in (np.float64, np.float32, np.int64):
        close(matrix.gram_diagonal(weights.astype(kind)), (dense**2).T @ weights)


@every_small_matrix
def test_weights_of_a_wrong_shape_are_rejected(matrix, dense):
    with pytest.raises(InputError, match=str(dense.shape[0])):
        matrix.gram_diagonal(np.ones(dense.shape[0] + 1))


@every_small_matrix
def test_blocks_partition_the_columns(matrix, dense):
    blocks = list(matrix.blocks())
    edges = [0, *(block.stop for block in blocks)]
    assert [block.start for block in blocks] == edges[:-1]
    # A column of ones belongs to no block.
    assert edges[-1] == dense.shape[1] - without_ones(matrix)[1]
    for block in blocks:
        assert block.matrix.shape == (dense.shape[0], block.stop - block.start)
        close(as_dense(block.matrix), dense[:, block.start : block.stop])


@every_small_matrix
def test_blocks_sum_to_the_products(matrix, dense):
    w, v = draw((dense.shape[1], 3)), draw((dense.shape[0], 3))
    total, parts = np.zeros_like(v), np.zeros_like(w)
    for block in matrix.blocks():
        total += block.matrix.matvec(w[block.start : block.stop])
        parts[block.start : block.stop] = block.matrix.rmatvec(v)
    inner, n_ones = without_ones(matrix)
    n = dense.shape[1] - n_ones
    close(total, inner.matvec(w[:n]))
    close(parts[:n], inner.rmatvec(v))


def row_choices(n_rows):
    rng = np.random.default_rng(0)
    return [
        slice(None),
        slice(n_rows // 3, 2 * n_rows // 3),
        slice(None, None, -3),
        rng.integers(-n_rows, n_rows, n_rows // 2) if n_rows else np.empty(0, np.int64),
        np.empty(0, np.int64),
        rng.random(n_rows) < 0.5,
    ]


@every_matrix
def test_take_rows_matches_the_dense_matrix(matrix, dense):
    v = draw((dense.shape[0], 2))
    for rows in row_choices(dense.shape[0]):
        part = matrix.take_rows(rows)
        assert part.shape == dense[rows].shape
        close(as_dense(part), dense[rows])
        close(part.rmatvec(v[rows]), dense[rows].T @ v[rows])


@every_small_matrix
def test_missing_rows_are_rejected(matrix, dense):
    # NumPy 1.26 only warns if the result has no elements; warnings are errors in the tests.
    refused = IndexError if matrix.shape[1] else (IndexError, DeprecationWarning)
    for bad in [10**6, -(10**6)]:
        with pytest.raises(refused):
            matrix.take_rows(np.array([bad]))


@every_small_matrix
def test_mask_of_a_wrong_length_is_rejected(matrix, dense):
    with pytest.raises(IndexError):
        matrix.take_rows(np.ones(dense.shape[0] + 1, bool))


@over(BY_CLASS)
def test_number_of_threads_does_not_change_products(sample):
    for kind in ["one column", "few columns", "many columns"]:
        one, *others = (sample.make(n_jobs) for n_jobs in (1, 2, 3, None))
        n_rows, n_columns = sample.dense.shape
        # Enough numbers to be worth several blocks, in a matrix of any height.
        tail = {
            "one column": (),
            "few columns": (3,),
            "many columns": (2 + 10**5 // (n_rows + 100),),
        }
        w, v = draw((n_columns, *tail[kind])), draw((n_rows, *tail[kind]), 1)
        for other in others:
            assert other.matvec(w).tobytes() == one.matvec(w).tobytes()
            assert other.rmatvec(v).tobytes() == one.rmatvec(v).tobytes()
            assert other.gram_diagonal().tobytes() == one.gram_diagonal().tobytes()
            added, expected = w.copy(), w.copy()
            other.add_rmatvec(v, added)
            one.add_rmatvec(v, expected)
            assert added.tobytes() == expected.tobytes()
        few = slice(0, 150)
        for other in others:
            gram = other.take_rows(few).row_gram()
            assert gram.tobytes() == one.take_rows(few).row_gram().tobytes()
