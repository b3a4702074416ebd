"""Block-diagonal matrices: the contract of all matrices, and what only they have."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.matrices.abilities import SupportsColumnGram
from gramless.matrices.block_diagonal import BlockDiagonalMatrix
from gramless.matrices.stacked import WithIntercept


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
    "even": blocks([(20, 20), (20, 20), (20, 20)], 60),
    "uneven": blocks([(5, 2), (30, 31), (1, 1), (14, 9)], 50),
    "float32": blocks([(40, 12), (25, 25)], 65, np.float32),
    "rows_of_no_block": blocks([(10, 4), (10, 3)], 40),
    "empty_blocks": blocks([(0, 0), (10, 4), (0, 3), (12, 0), (6, 2)], 28),
    "one_block": blocks([(30, 8)], 30),
    "one_row": blocks([(1, 3)], 1),
    "no_row": blocks([(0, 3), (0, 2)], 0),
    "no_block": blocks([], 9),
    "large": blocks([(500, 300), (700, 650)], 1200, np.float32),
}


def contract() -> dict[str, Any]:
    """Return the tests that every matrix passes, to be collected here with our samples."""
    name = "gramless_tests_matrices_contract"
    place = Path(__file__).with_name("test_contract.py")
    found = importlib.util.spec_from_file_location(name, place)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return {key: own for key, own in vars(module).items() if key.startswith("test_")}


globals().update(contract())


@pytest.fixture(params=SAMPLES.values(), ids=SAMPLES.keys(), scope="module")
def sample(request: pytest.FixtureRequest) -> Sample:
    return request.param


@pytest.fixture
def matrix(sample: Sample) -> BlockDiagonalMatrix:
    return sample.make(2)


@pytest.fixture
def dense(sample: Sample) -> NDArray[np.float64]:
    return sample.dense


def test_diagonal_blocks_are_all_there_is(
    matrix: BlockDiagonalMatrix, dense: NDArray[np.float64]
) -> None:
    rebuilt = np.zeros_like(dense)
    for rows, columns, array in matrix.diagonal_blocks():
        rebuilt[rows, columns] = array
    np.testing.assert_array_equal(rebuilt, dense)


def test_diagonal_blocks_of_some_rows_are_of_all_columns() -> None:
    matrix = SAMPLES["uneven"].make(1)
    part = matrix.take_rows(np.array([3, 3, 7, 49, 0]))
    found = list(part.diagonal_blocks())
    assert [columns for _, columns, _ in found] == [
        columns for _, columns, _ in matrix.diagonal_blocks()
    ]
    assert sorted(np.concatenate([rows for rows, _, _ in found]).tolist()) == [0, 1, 2, 3, 4]


def test_bytes_are_those_of_the_blocks() -> None:
    assert SAMPLES["even"].make(1).nbytes == 3 * 20 * 20 * 8
    assert SAMPLES["float32"].make(1).nbytes == (40 * 12 + 25 * 25) * 4


def test_weights_are_one_a_row(matrix: BlockDiagonalMatrix) -> None:
    with pytest.raises(InputError, match="one number a row"):
        matrix.gram_diagonal(np.ones((matrix.shape[0], 2)))


def test_it_has_no_gram_of_all_columns() -> None:
    matrix = SAMPLES["even"].make(1)
    assert not isinstance(matrix, SupportsColumnGram)
    assert not isinstance(WithIntercept(matrix), SupportsColumnGram)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ([(np.arange(3), np.ones((2, 1)))], "a block needs"),
        ([(np.arange(2), np.ones(2))], "a block needs"),
        ([(np.arange(2), np.ones((2, 1), int))], "a block needs"),
        ([(np.array([0, 9]), np.ones((2, 1)))], "beyond"),
        ([(np.array([0, -1]), np.ones((2, 1)))], "beyond"),
        ([(np.array([0, 0]), np.ones((2, 1)))], "twice"),
        ([(np.array([0]), np.ones((1, 1)))] * 2, "two blocks"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts: Any, named: str) -> None:
    with pytest.raises(InputError, match=named):
        BlockDiagonalMatrix(parts, 4)
