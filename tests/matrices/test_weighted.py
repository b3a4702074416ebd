"""Weighted bins against equal dense matrices: products, parts, threads, precision, solvers."""

from __future__ import annotations

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

from .samples import WEIGHTED_BINS, weighted

HALF = np.float16


def draw(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# What it is made of.


def test_unseen_bins_have_no_value_and_arguments_are_kept():
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
    all_seen = WeightedBinnedMatrix(np.maximum(codes, 1), given[1], np.array([0, 2, 3, 4]))
    assert not all_seen.unseen_squares.any()


def test_nbytes_counts_codes_and_values():
    matrix = weighted(np.uint8, [5, 6], 1000, HALF).make(1)
    assert matrix.nbytes == 1000 * 2 * (1 + 2) + 3 * 8


def test_each_grid_is_a_block():
    for sample in WEIGHTED_BINS.values():
        matrix = sample.make(1)
        blocks = list(matrix.blocks())
        assert len(blocks) == matrix.n_grids
        assert all(isinstance(block.matrix, WeightedBinnedMatrix) for block in blocks)


def test_tocsr_is_canonical():
    for sample in WEIGHTED_BINS.values():
        csr = sample.make(1).tocsr()
        assert isinstance(csr, sp.csr_array)
        assert csr.has_canonical_format


def test_slices_of_rows_share_memory():
    matrix = WEIGHTED_BINS["uint8"].make(1)
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
def test_invalid_parts_are_rejected(codes, values, offsets, message):
    with pytest.raises(InputError, match=message):
        WeightedBinnedMatrix(codes, values, np.array(offsets))


# The solvers.


@pytest.fixture(params=[(np.uint8, np.float32), (np.uint16, HALF)])
def problem_matrix(request: pytest.FixtureRequest) -> tuple[FeatureMatrix, NDArray[np.float64]]:
    dtype, kind = request.param
    sample = weighted(dtype, [6, 9, 12, 7, 10], 250, kind)
    ones = np.ones((250, 1))
    return with_ones(sample.make(2)), np.hstack([sample.dense, ones])


@pytest.mark.parametrize("tail", [(), (3,)])
def test_ridge_matches_the_dense_matrix(problem_matrix, tail):
    matrix, dense = problem_matrix
    targets, weights = draw((250, *tail)), np.random.default_rng(1).random(250)
    problem = Problem(matrix, targets, L2(0.02, n_free=1), sample_weight=weights)
    share = weights / weights.sum()
    ridge = np.diag([0.02] * (dense.shape[1] - 1) + [0.0])
    expected = np.linalg.solve(dense.T * share @ dense + ridge, dense.T * share @ targets)
    for preconditioner in (SampledRows(), SampledRows(60), Identity()):
        result = ConjugateGradient(preconditioner, tol=1e-10, max_iter=1000).solve(problem)
        assert result.status == "converged"
        np.testing.assert_allclose(result.weights, expected, rtol=0, atol=1e-7)


def test_logistic_matches_the_dense_matrix(problem_matrix):
    matrix, dense = problem_matrix
    targets = np.sign(draw(250) + dense[:, 0])
    result = NewtonCG(tol=1e-8).solve(Problem(matrix, targets, L2(0.01, n_free=1), Logistic()))
    assert result.status == "converged"
    w = result.weights
    slopes = -targets / (1 + np.exp(targets * (dense @ w))) / 250
    gradient = dense.T @ slopes + 0.01 * np.append(w[:-1], 0.0)
    assert np.abs(gradient).max() < 1e-7


def test_l1_needs_another_solver_than_plain_bins(problem_matrix):
    matrix, dense = problem_matrix
    problem = Problem(matrix, draw(250), L1(0.05, n_free=1))
    with pytest.raises(InputError, match=r"GridDescent needs a matrix of bins.*RandomDescent"):
        GridDescent().solve(problem)
    w = RandomDescent(tol=1e-4, max_iter=2000).solve(problem).weights
    gradient = dense.T @ (dense @ w - problem.targets) / 250
    far = np.where(w == 0, np.abs(gradient) - 0.05, np.abs(gradient + 0.05 * np.sign(w)))[:-1]
    assert far.max() < 1e-4
    assert 0 < np.count_nonzero(w[:-1]) < len(w) - 1
