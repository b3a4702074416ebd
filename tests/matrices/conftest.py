"""The one list of matrices that every contract test runs over; a new matrix adds a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix


@dataclass(frozen=True)
class Sample:
    """A matrix on a given number of threads, and its dense twin."""

    make: Callable[[int | None], FeatureMatrix]
    dense: NDArray[np.float64]


def dense_twin(codes, n_bins, scale) -> NDArray[np.float64]:
    """Write the definition out: one non-zero a row in each grid where the bin is known."""
    grids = [np.zeros((codes.shape[1], n)) for n in n_bins]
    for grid, row in zip(grids, codes, strict=True):
        for i, code in enumerate(row):
            if code > 0:
                grid[i, code - 1] = scale
    return np.concatenate([np.zeros((codes.shape[1], 0)), *grids], axis=1)


def binned(dtype, n_bins, n_rows, *, unseen=False, scale=None, order="C") -> Sample:
    """Draw the codes of a binned matrix, with or without bins never seen."""
    n_bins = np.array(n_bins, np.int64)
    rng = np.random.default_rng(n_rows)
    lowest = 0 if unseen else 1
    codes = rng.integers(lowest, n_bins[:, None] + 1, (len(n_bins), n_rows))
    codes = codes.astype(dtype, order=order)
    offsets = np.concatenate([[0], np.cumsum(n_bins)])
    value = 1 / np.sqrt(max(1, len(n_bins))) if scale is None else scale
    return Sample(
        lambda n_jobs: BinnedMatrix(codes, offsets, scale=scale, n_jobs=n_jobs),
        dense_twin(codes, n_bins, value),
    )


def stored(dtype, n_rows, n_columns, order="C") -> Sample:
    """Draw a matrix without zeros."""
    array = np.random.default_rng(n_rows).normal(size=(n_rows, n_columns)).astype(dtype, order)
    return Sample(lambda n_jobs: DenseMatrix(array), array.astype(np.float64))


ALL_MATRICES: dict[str, Sample] = {
    "uint8": binned(np.uint8, [5, 1, 7, 4, 3], 60),
    "uint8_unseen": binned(np.uint8, [5, 1, 7, 4, 3], 60, unseen=True),
    "uint8_full": binned(np.uint8, [255, 2], 300, unseen=True),
    "uint16": binned(np.uint16, [260, 3, 9], 90, scale=0.3),
    "uint16_unseen": binned(np.uint16, [260, 3, 9], 90, unseen=True, scale=-2.0),
    "uint32": binned(np.uint32, [4, 300, 2], 70),
    "uint32_unseen": binned(np.uint32, [4, 300, 2], 70, unseen=True),
    "column_major": binned(np.uint16, [5, 3, 8, 2], 50, unseen=True, order="F"),
    "one_grid": binned(np.uint8, [6], 40),
    "one_column": binned(np.uint8, [1], 20, unseen=True),
    "many_grids": binned(np.uint8, [2, 3, 1, 4] * 9 + [2], 30),
    "many_grids_unseen": binned(np.uint8, [2, 3, 1, 4] * 9 + [2], 30, unseen=True),
    "tall": binned(np.uint8, [3, 2] * 5, 70_001, unseen=True),
    "one_row": binned(np.uint16, [3, 4, 2], 1),
    "no_row": binned(np.uint8, [3, 4, 2], 0),
    "no_grid": binned(np.uint8, [], 15),
    "nothing_seen": binned(np.uint8, [0, 0, 0], 12, unseen=True),
    "dense": stored(np.float64, 60, 7),
    "dense_float32": stored(np.float32, 45, 20),
    "dense_column_major": stored(np.float64, 50, 6, "F"),
    "dense_tall": stored(np.float32, 70_001, 20),
    "dense_one_row": stored(np.float64, 1, 9),
    "dense_no_row": stored(np.float64, 0, 9),
    "dense_no_column": stored(np.float64, 15, 0),
}


@pytest.fixture(params=ALL_MATRICES.values(), ids=ALL_MATRICES.keys(), scope="module")
def sample(request: pytest.FixtureRequest) -> Sample:
    return request.param


@pytest.fixture
def matrix(sample: Sample) -> FeatureMatrix:
    return sample.make(2)


@pytest.fixture
def dense(sample: Sample) -> NDArray[np.float64]:
    return sample.dense
