"""Weighted bins against their dense twins: products, parts, threads, precision, solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.losses import Logistic
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.stacked import with_ones
from gramless.matrices.weighted import WeightedBinnedMatrix
from gramless.penalties import L1, L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem
from gramless.solvers.preconditioners import Identity, SampledRows
from gramless.solvers.random_descent import RandomDescent


@dataclass(frozen=True)
class Sample:
    """A matrix on a given number of threads, and its dense twin."""

    make: Callable[[int | None], WeightedBinnedMatrix]
    dense: NDArray[np.float64]


def dense_twin(codes, values, n_bins, scale) -> NDArray[np.float64]:
    """Write the definition out: one non-zero a row in each grid where the bin is known."""
    grids = [np.zeros((codes.shape[1], n)) for n in n_bins]
    for grid, row, numbers in zip(grids, codes, values, strict=True):
        (known,) = np.nonzero(row)
        grid[known, row[known].astype(int) - 1] = scale * numbers[known].astype(float)
    return np.concatenate([np.zeros((codes.shape[1], 0)), *grids], axis=1)


def weighted(dtype, n_bins, n_rows, kind=np.float32, *, unseen=False, scale=None, order="C"):
    """Draw codes and values, with or without bins never seen."""
    n_bins = np.array(n_bins, np.int64)
    rng = np.random.default_rng(n_rows)
    codes = rng.integers(0 if unseen else 1, n_bins[:, None] + 1, (len(n_bins), n_rows))
    codes = codes.astype(dtype, order=order)
    values = rng.gamma(2.0, size=codes.shape).astype(kind, order)
    offsets = np.concatenate([[0], np.cumsum(n_bins)])
    value = 1 / np.sqrt(max(1, len(n_bins))) if scale is None else scale
    return Sample(
        lambda n_jobs: WeightedBinnedMatrix(codes, values, offsets, scale=scale, n_jobs=n_jobs),
        dense_twin(codes, values, n_bins, value),
    )


HALF = np.float16
SAMPLES = {
    "uint8": weighted(np.uint8, [5, 1, 7, 4, 3], 60),
    "uint8_unseen": weighted(np.uint8, [5, 1, 7, 4, 3], 60, unseen=True),
    "uint16_half": weighted(np.uint16, [260, 3, 9], 90, HALF, scale=0.3),
    "uint16_half_unseen": weighted(np.uint16, [260, 3, 9], 90, HALF, unseen=True, scale=-2.0),
    "uint32": weighted(np.uint32, [4, 300, 2], 70, unseen=True),
    "column_major": weighted(np.uint16, [5, 3, 8, 2], 50, unseen=True, order="F"),
    "one_grid": weighted(np.uint8, [6], 40),
    "many_grids": weighted(np.uint16, [2, 3, 1, 4] * 9 + [2], 30, HALF, unseen=True),
    "tall": weighted(np.uint8, [3, 2] * 5, 70_001, unseen=True),
    "one_row": weighted(np.uint16, [3, 4, 2], 1),
    "no_row": weighted(np.uint8, [3, 4, 2], 0),
    "no_grid": weighted(np.uint8, [], 15),
    "grids_without_columns": weighted(np.uint8, [0, 4, 0, 2, 0], 12, unseen=True),
    "nothing_seen": weighted(np.uint16, [0, 0, 0], 12, HALF, unseen=True),
}


@pytest.fixture(params=SAMPLES.values(), ids=SAMPLES.keys(), scope="module")
def sample(request: pytest.FixtureRequest) -> Sample:
    return request.param


@pytest.fixture
def matrix(sample: Sample) -> WeightedBinnedMatrix:
    return sample.make(2)


@pytest.fixture
def dense(sample: Sample) -> NDArray[np.float64]:
    return sample.dense


def draw(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def close(measured, expected):
    assert measured.dtype == np.float64
    assert measured.shape == expected.shape
    size = np.abs(expected).max(initial=1.0)
    np.testing.assert_allclose(measured, expected, rtol=1e-12, atol=1e-12 * size)


def test_products(matrix, dense):
    for tail in [(), (0,), (1,), (3,), (10,)]:
        n_rows, n_columns = dense.shape
        assert matrix.shape == dense.shape
        w, v, out = draw((n_columns, *tail)), draw((n_rows, *tail), 1), draw((n_columns, *tail), 2)
        close(matrix.matvec(w), dense @ w)
        close(matrix.rmatvec(v), dense.T @ v)
        expected = out + dense.T @ v
        matrix.add_rmatvec(v, out)
        close(out, expected)
        for product, operand, length in (
            (matrix.matvec, w, n_rows),
            (matrix.rmatvec, v, n_columns),
        ):
            place = np.full((length, *tail), np.nan)
            assert product(operand, out=place) is place
            np.testing.assert_array_equal(place, product(operand))


def test_diagonal_and_products_of_rows(matrix, dense):
    weights = np.round(100 * draw(dense.shape[0]))
    close(matrix.gram_diagonal(), (dense**2).sum(axis=0))
    close(matrix.gram_diagonal(weights), (dense**2).T @ weights)
    gram = matrix.take_rows(slice(0, 150)).row_gram()
    close(gram, dense[:150] @ dense[:150].T)
    np.testing.assert_array_equal(gram, gram.T)


def test_blocks(matrix, dense):
    blocks = list(matrix.blocks())
    edges = [0, *(block.stop for block in blocks)]
    assert [block.start for block in blocks] == edges[:-1]
    assert edges[-1] == dense.shape[1]
    assert len(blocks) == matrix.n_grids
    for block in blocks:
        assert isinstance(block.matrix, WeightedBinnedMatrix)
        close(block.matrix.toarray(), dense[:, block.start : block.stop])


def test_parts_and_csr(matrix, dense):
    n_rows = len(dense)
    some = np.random.default_rng(0).integers(-n_rows, n_rows, n_rows // 2) if n_rows else []
    for rows in (slice(None), slice(None, None, -3), np.array(some, np.int64), draw(n_rows) > 0):
        part = matrix.take_rows(rows)
        close(part.matvec(np.eye(dense.shape[1])), dense[rows])
        close(part.toarray(), dense[rows])
    csr = matrix.tocsr()
    assert isinstance(csr, sp.csr_array)
    assert csr.nnz == np.count_nonzero(dense)
    assert csr.has_canonical_format


def test_threads_change_no_bit(sample):
    one, *others = (sample.make(n_jobs) for n_jobs in (1, 2, 3, None))
    n_rows, n_columns = sample.dense.shape
    for tail in ((), (3,), (2 + 10**5 // (n_rows + 100),)):
        w, v = draw((n_columns, *tail)), draw((n_rows, *tail), 1)
        for other in others:
            assert other.matvec(w).tobytes() == one.matvec(w).tobytes()
            assert other.rmatvec(v).tobytes() == one.rmatvec(v).tobytes()
    few = slice(0, 150)
    for other in others:
        assert other.gram_diagonal().tobytes() == one.gram_diagonal().tobytes()
        gram = other.take_rows(few).row_gram()
        assert gram.tobytes() == one.take_rows(few).row_gram().tobytes()


def test_operands_in_other_layouts_and_types(matrix, dense):
    for product, length in ((matrix.matvec, dense.shape[1]), (matrix.rmatvec, dense.shape[0])):
        operand = np.round(100 * draw((length, 3)))
        expected = product(operand).tobytes()
        fixed = operand.copy()
        fixed.flags.writeable = False
        typed = [operand.astype(kind) for kind in (np.float32, np.int64)]
        for same in (fixed, np.repeat(operand, 2, axis=0)[::2], np.asfortranarray(operand), *typed):
            assert product(same).tobytes() == expected


def test_operands_of_a_wrong_shape_are_refused(matrix, dense):
    n_rows, n_columns = dense.shape
    for product, length in ((matrix.matvec, n_columns), (matrix.rmatvec, n_rows)):
        for shape in [(), (length + 1,), (length, 2, 2)]:
            with pytest.raises(InputError, match=str(length)):
                product(draw(shape))
        with pytest.raises(InputError, match="out"):
            product(draw(length), out=np.empty((2, 3, 4)))
    bad = [np.zeros(n_columns + 1), np.zeros(n_columns, np.float32), np.zeros((n_columns, 2))[:, 0]]
    for out in bad[: 3 if n_columns > 1 else 2]:
        with pytest.raises(InputError, match="add_rmatvec"):
            matrix.add_rmatvec(draw(n_rows), out)
    with pytest.raises(InputError, match=str(n_rows)):
        matrix.gram_diagonal(np.ones(n_rows + 1))


# What it is made of.


def test_bins_never_seen_have_no_value_and_the_given_arrays_stay():
    codes = np.array([[1, 0, 2], [1, 1, 0], [0, 0, 1]], np.uint8)
    values = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    for kind in (np.float32, HALF):
        given = codes.copy(), values.astype(kind)
        matrix = WeightedBinnedMatrix(*given, np.array([0, 2, 3, 4]), scale=0.5)
        expected = [[0.5, 0.0, 2.0, 0.0], [0.0, 0.0, 2.5, 0.0], [0.0, 1.5, 0.0, 4.5]]
        assert matrix.toarray().tolist() == expected
        assert matrix.matvec(np.ones(4)).tolist() == [2.5, 2.5, 6.0]
        assert matrix.unseen_squares.tolist() == [49 / 4, (4 + 64) / 4, 36 / 4]
        assert matrix.take_rows(np.array([2, 0])).unseen_squares.tolist() == [9.0, 49 / 4]
        np.testing.assert_array_equal(given[0], codes)
        np.testing.assert_array_equal(given[1], values)
    seen = WeightedBinnedMatrix(np.maximum(codes, 1), given[1], np.array([0, 2, 3, 4]))
    assert not seen.unseen_squares.any()


def test_bytes():
    sample = weighted(np.uint8, [5, 6], 1000, HALF)
    assert sample.make(1).nbytes == 1000 * 2 * (1 + 2) + 3 * 8


def test_slices_of_rows_share_memory():
    matrix = SAMPLES["uint8"].make(1)
    part = matrix.take_rows(slice(3, 20))
    assert np.shares_memory(part.codes, matrix.codes)
    assert np.shares_memory(part.values, matrix.values)


@pytest.mark.parametrize(
    ("codes", "values", "offsets", "message"),
    [
        (np.ones((1, 2)), np.ones((1, 2), np.float32), [0, 1], "codes must be"),
        (np.ones(2, np.uint8), np.ones(2, np.float32), [0, 1], "codes must be"),
        (np.ones((1, 2), np.uint8), np.ones((1, 2)), [0, 1], "float32 or float16"),
        (np.ones((1, 2), np.uint8), np.ones((2, 2), np.float32), [0, 1], "float32 or float16"),
        (np.ones((1, 2), np.uint8), np.ones((1, 2), np.float32), [0, 1, 2], "need 2 offsets"),
        (np.ones((1, 2), np.uint8), np.array([[1, np.inf]], HALF), [0, 1], "half precision"),
        (np.ones((1, 2), np.uint8), np.array([[1, -1]], HALF), [0, 1], "half precision"),
    ],
)
def test_parts_that_do_not_fit_are_refused(codes, values, offsets, message):
    with pytest.raises(InputError, match=message):
        WeightedBinnedMatrix(codes, values, np.array(offsets))


# The solvers.


@pytest.fixture(params=[(np.uint8, np.float32), (np.uint16, HALF)])
def problem_matrix(request: pytest.FixtureRequest) -> tuple[FeatureMatrix, NDArray[np.float64]]:
    dtype, kind = request.param
    sample = weighted(dtype, [6, 9, 12, 7, 10], 250, kind)
    ones = np.ones((250, 1))
    return with_ones(sample.make(2)), np.hstack([sample.dense, ones])


@pytest.mark.parametrize("preconditioner", [SampledRows(), SampledRows(60), Identity()])
@pytest.mark.parametrize("tail", [(), (3,)])
def test_ridge_against_the_dense_twin(problem_matrix, preconditioner, tail):
    matrix, dense = problem_matrix
    targets, weights = draw((250, *tail)), np.random.default_rng(1).random(250)
    problem = Problem(matrix, targets, L2(0.02, n_free=1), sample_weight=weights)
    share = weights / weights.sum()
    ridge = np.diag([0.02] * (dense.shape[1] - 1) + [0.0])
    expected = np.linalg.solve(dense.T * share @ dense + ridge, dense.T * share @ targets)
    found = ConjugateGradient(preconditioner, tol=1e-10, max_iter=1000).solve(problem)
    assert found.status == "converged"
    np.testing.assert_allclose(found.weights, expected, rtol=0, atol=1e-7)


def test_logistic_against_the_dense_twin(problem_matrix):
    matrix, dense = problem_matrix
    targets = np.sign(draw(250) + dense[:, 0])
    found = NewtonCG(tol=1e-8).solve(Problem(matrix, targets, L2(0.01, n_free=1), Logistic()))
    assert found.status == "converged"
    w = found.weights
    slopes = -targets / (1 + np.exp(targets * (dense @ w))) / 250
    gradient = dense.T @ slopes + 0.01 * np.append(w[:-1], 0.0)
    assert np.abs(gradient).max() < 1e-7


def test_l1_takes_another_solver_than_that_of_plain_bins(problem_matrix):
    matrix, dense = problem_matrix
    problem = Problem(matrix, draw(250), L1(0.05, n_free=1))
    with pytest.raises(InputError, match=r"GridDescent needs a matrix of bins.*RandomDescent"):
        GridDescent().solve(problem)
    w = RandomDescent(tol=1e-4, max_iter=2000).solve(problem).weights
    gradient = dense.T @ (dense @ w - problem.targets) / 250
    far = np.where(w == 0, np.abs(gradient) - 0.05, np.abs(gradient + 0.05 * np.sign(w)))[:-1]
    assert far.max() < 1e-4
    assert 0 < np.count_nonzero(w[:-1]) < len(w) - 1
