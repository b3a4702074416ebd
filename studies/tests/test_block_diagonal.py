"""Block-diagonal matrices, and ridge regression on them, against dense twins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.matrices.dense import DenseMatrix
from gramless.penalties import L2
from gramless.solvers.objective import Problem
from studies.baselines.block_diagonal import BlockCholesky, BlockDiagonalMatrix


@dataclass(frozen=True)
class Sample:
    """A matrix on a given number of threads, and its dense twin."""

    parts: list[tuple[NDArray[Any], NDArray[Any]]]
    n_rows: int

    def make(self, n_jobs: int | None) -> BlockDiagonalMatrix:
        return BlockDiagonalMatrix(self.parts, self.n_rows, n_jobs)

    @property
    def dense(self) -> NDArray[np.float64]:
        columns = [np.zeros((self.n_rows, array.shape[1])) for _, array in self.parts]
        for own, (rows, array) in zip(columns, self.parts, strict=True):
            own[rows] = array
        return np.concatenate([np.zeros((self.n_rows, 0)), *columns], axis=1)


def blocks(shapes: list[tuple[int, int]], n_rows: int, dtype: Any = np.float64) -> Sample:
    """Draw blocks of given shapes over random rows; rows left over are in none."""
    rng = np.random.default_rng(n_rows)
    order, parts = rng.permutation(n_rows), []
    for height, width in shapes:
        rows, order = order[:height], order[height:]
        parts.append((rows, rng.normal(size=(height, width)).astype(dtype)))
    return Sample(parts, n_rows)


SAMPLES = {
    "uneven": blocks([(5, 2), (30, 31), (1, 1), (14, 9)], 50),
    "float32": blocks([(40, 12), (25, 25)], 65, np.float32),
    "empty_blocks": blocks([(0, 0), (10, 4), (0, 3), (12, 0), (6, 2)], 28),
    "no_row": blocks([(0, 3), (0, 2)], 0),
    "no_block": blocks([], 9),
}
every_sample = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())


def close(measured: Any, expected: Any) -> None:
    assert measured.shape == expected.shape
    np.testing.assert_allclose(measured, expected, rtol=1e-12, atol=1e-12)


@every_sample
def test_products_are_those_of_the_dense_twin(sample: Sample) -> None:
    matrix, dense, rng = sample.make(2), sample.dense, np.random.default_rng(0)
    n_rows, n_columns = matrix.shape
    for tail in ((), (3,)):
        w, v = rng.normal(size=(n_columns, *tail)), rng.normal(size=(n_rows, *tail))
        close(matrix.matvec(w), dense @ w)
        close(matrix.rmatvec(v), dense.T @ v)
        assert matrix.matvec(w).tobytes() == sample.make(1).matvec(w).tobytes()
    weights = rng.normal(size=n_rows)
    close(matrix.gram_diagonal(weights), (dense**2).T @ weights)
    close(matrix.row_gram(), dense @ dense.T)
    np.testing.assert_array_equal(matrix.toarray(), dense)


@every_sample
def test_parts_are_those_of_the_dense_twin(sample: Sample) -> None:
    matrix, dense, rng = sample.make(2), sample.dense, np.random.default_rng(0)
    n_rows = len(dense)
    for rows in (slice(1, None, 2), rng.integers(0, n_rows, 8) if n_rows else slice(0)):
        close(matrix.take_rows(rows).toarray(), dense[rows])
    for block in matrix.blocks():
        close(block.matrix.toarray(), dense[:, block.start : block.stop])
    rebuilt = np.zeros_like(dense)
    for rows, columns, array in matrix.diagonal_blocks():
        rebuilt[rows, columns] = array
    np.testing.assert_array_equal(rebuilt, dense)
    assert matrix.nbytes == sum(array.nbytes for _, array in sample.parts)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ([(np.arange(3), np.ones((2, 1)))], "a block needs"),
        ([(np.arange(2), np.ones((2, 1), int))], "a block needs"),
        ([(np.array([0, -1]), np.ones((2, 1)))], "beyond"),
        ([(np.array([0, 0]), np.ones((2, 1)))], "twice"),
        ([(np.array([0]), np.ones((1, 1)))] * 2, "two blocks"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts: Any, named: str) -> None:
    with pytest.raises(InputError, match=named):
        BlockDiagonalMatrix(parts, 4)


@pytest.mark.parametrize("name", ["uneven", "float32", "empty_blocks"])
@pytest.mark.parametrize("tail", [(), (3,)])
def test_blocks_are_solved_one_by_one(name: str, tail: tuple[int, ...]) -> None:
    sample, rng = SAMPLES[name], np.random.default_rng(5)
    dense, n_rows = sample.dense, sample.n_rows
    weights = np.where(np.arange(n_rows) % 5, rng.gamma(1.0, size=n_rows), 0.0)
    problem = Problem(
        sample.make(2), rng.normal(size=(n_rows, *tail)), L2(0.01), sample_weight=weights
    )
    share = problem.row_weights
    hessian = dense.T @ (share[:, None] * dense) + 0.01 * np.eye(dense.shape[1])
    expected = np.linalg.solve(hessian, dense.T @ (share * problem.targets.T).T)
    solution = BlockCholesky().solve(problem).weights
    np.testing.assert_allclose(solution, expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_array_equal(solution, BlockCholesky(1).solve(problem).weights)


def test_other_matrices_are_refused() -> None:
    problem = Problem(DenseMatrix(np.ones((3, 1))), np.ones(3), L2(0.1))
    with pytest.raises(InputError, match="BlockCholesky needs a BlockDiagonalMatrix"):
        BlockCholesky().solve(replace(problem))
