"""Matrices side by side: parts, scales, blocks and lists of rows; the rest is in the contract."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.codes import TaskSizes
from gramless.matrices.dense import ComputedMatrix, DenseMatrix
from gramless.matrices.row_lists import RowLists
from gramless.matrices.stacked import HStack, with_ones

CODES = np.array([[1, 2, 1, 3], [2, 1, 1, 2]], np.uint8)
ROWS = np.arange(8.0).reshape(4, 2)


def bins(scale=1.0, **options) -> BinnedMatrix:
    return BinnedMatrix(CODES, np.array([0, 3, 5]), scale=scale, **options)


def test_nested_stacks_are_flattened():
    dense = DenseMatrix(ROWS)
    inner = HStack([bins(), dense], [2.0, 3.0])
    outer = HStack([dense, inner], [0.5, 10.0])
    assert outer.parts[0] is dense
    assert outer.parts[1] is inner.parts[0]
    assert outer.parts[2] is dense
    assert outer.scales == [0.5, 20.0, 30.0]
    assert inner.scales == [2.0, 3.0]


def test_blocks_come_from_the_parts():
    matrix = HStack([DenseMatrix(ROWS), bins()], [1.0, 2.0])
    edges = [(block.start, block.stop) for block in matrix.blocks()]
    assert edges == [(0, 2), (2, 5), (5, 7)]
    first, second, _ = matrix.blocks()
    assert first.matrix is matrix.parts[0]
    np.testing.assert_array_equal(second.matrix.tocsr().toarray(), 2.0 * np.eye(3)[CODES[0] - 1])


def test_nbytes_sums_over_parts():
    parts = [bins(), DenseMatrix(ROWS), ComputedMatrix(ROWS, np.copyto, 2)]
    assert HStack(parts).nbytes == parts[0].nbytes + 64 + 32


def dense_of(lists: RowLists, n_rows: int) -> np.ndarray:
    """Write a matrix out by its lists of rows."""
    dense = np.zeros((n_rows, lists.offsets[-1]))
    for g, value in enumerate(lists.values):
        for j in range(lists.offsets[g], lists.offsets[g + 1]):
            for p, start in enumerate(lists.parts[:-1]):
                places = slice(*lists.bounds[p, j + g : j + g + 2])
                bin_rows = lists.rows[g, start : lists.parts[p + 1]]
                dense[start + bin_rows[places].astype(int), j] += value
    return dense


def test_row_lists_are_joined():
    tasks = TaskSizes(part_rows=2)
    matrix = HStack([bins(tasks=tasks), bins(4.0, tasks=tasks)], [1.0, -0.5])
    assert matrix.row_lists is matrix.row_lists
    assert len(matrix.row_lists.parts) == 3
    np.testing.assert_array_equal(dense_of(matrix.row_lists, 4), matrix.tocsr().toarray())
    both = with_ones(matrix)
    np.testing.assert_array_equal(dense_of(both.row_lists, 4), both.tocsr().toarray())


def test_row_lists_need_lists_of_all_parts():
    mixed = HStack([bins(), DenseMatrix(ROWS)])
    assert not mixed.has_row_lists
    assert not with_ones(mixed).has_row_lists


@pytest.mark.parametrize("wrap", [HStack, lambda parts: with_ones(HStack(parts))])
def test_dense_products_need_dense_parts(wrap):
    dense = DenseMatrix(ROWS)
    for parts, expected in [([dense, dense], True), ([dense, bins()], False), ([bins()], False)]:
        assert wrap(parts).has_column_gram == expected
        assert wrap(parts).has_one_pass == expected


@pytest.mark.parametrize("parts", [[bins()], [DenseMatrix(ROWS)], [bins(), DenseMatrix(ROWS)]])
def test_copies_have_the_same_methods(parts):
    matrix = with_ones(HStack(parts))
    for copied in (pickle.loads(pickle.dumps(matrix)), copy.deepcopy(matrix)):
        assert copied.has_column_gram == matrix.has_column_gram
        assert copied.has_row_lists == matrix.has_row_lists
        np.testing.assert_array_equal(copied.toarray(), matrix.toarray())


def test_rows_are_read_once_in_products_of_one_pass():
    blocks = []

    def compute(rows, out):
        blocks.append(len(rows))
        np.copyto(out, rows)

    parts = [ComputedMatrix(ROWS, compute, 2, budget=0) for _ in range(2)]
    matrix = with_ones(HStack(parts))
    matrix.pull_back(np.ones(5), lambda rows, responses: responses)
    assert blocks == [4, 4]


def test_one_part_keeps_its_scale():
    matrix = HStack([DenseMatrix(ROWS)], [3.0])
    np.testing.assert_array_equal(matrix.matvec(np.ones(2)), 3.0 * ROWS.sum(axis=1))
    np.testing.assert_array_equal(matrix.column_gram(), 9.0 * ROWS.T @ ROWS)


@pytest.mark.parametrize(
    ("parts", "scales", "words"),
    [
        ([], None, "at least one matrix"),
        ([bins()], [1.0, 2.0], "1 matrices and 2 scales"),
        ([bins(), DenseMatrix(np.ones((3, 2)))], None, r"same rows, got \[4, 3\]"),
    ],
)
def test_invalid_parts_are_rejected(parts, scales, words):
    with pytest.raises(InputError, match=words):
        HStack(parts, scales)
