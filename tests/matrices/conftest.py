"""The one list of matrices that every contract test runs over; a new matrix adds a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.computed import ComputedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.neighbours import NeighbourMatrix
from gramless.matrices.normalised import CentredMatrix, RowScaledMatrix
from gramless.matrices.plain_bins import PlainBins
from gramless.matrices.scaled_bins import ScaledBins, rounded_factors
from gramless.matrices.stacked import HStack, with_ones
from gramless.matrices.stored import StoredBinnedMatrix, code_file


@dataclass(frozen=True)
class Sample:
    """A matrix on a given number of threads, and its dense twin."""

    make: Callable[[int | None], FeatureMatrix]
    dense: NDArray[np.float64]


def dense_twin(codes, n_bins, scale) -> NDArray[np.float64]:
    """Write the definition out: one non-zero a row in each grid where the bin is known."""
    grids = [np.zeros((codes.shape[1], n)) for n in n_bins]
    for grid, row in zip(grids, codes, strict=True):
        (known,) = np.nonzero(row)
        grid[known, row[known].astype(int) - 1] = scale
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


def on_disk(kinds, n_bins, n_rows) -> Sample:
    """Draw the codes of a binned matrix and write them to a file, in blocks of some types."""
    sample, parts = binned(kinds[-1], n_bins, n_rows), np.array_split(np.arange(n_rows), len(kinds))

    def make(n_jobs: int | None) -> FeatureMatrix:
        matrix, file = sample.make(n_jobs), code_file(0)
        for rows, kind in zip(parts, kinds, strict=True):
            file.append(matrix.codes[:, rows].astype(kind))
        return StoredBinnedMatrix(file.blocks(), matrix.offsets, scale=matrix.scale, n_jobs=n_jobs)

    return Sample(make, sample.dense)


def stored(dtype, n_rows, n_columns, order="C") -> Sample:
    """Draw a matrix without zeros."""
    array = np.random.default_rng(n_rows).normal(size=(n_rows, n_columns)).astype(dtype, order)
    return Sample(lambda n_jobs: DenseMatrix(array, n_jobs), array.astype(np.float64))


def computed(dtype, n_rows, n_columns, budget=None) -> Sample:
    """Compute squares of inputs; the chunks are of 2,048 rows."""
    rows = np.random.default_rng(n_rows).normal(size=(n_rows, n_columns)).astype(dtype)
    return Sample(
        lambda n_jobs: ComputedMatrix(
            rows,
            lambda x, out: np.square(x, out=out),
            n_columns,
            dtype=dtype,
            budget=budget,
            n_jobs=n_jobs,
        ),
        np.square(rows).astype(np.float64),
    )


def neighbours(k, n_rows, n_columns) -> Sample:
    """Draw different columns for each row."""
    rng, dense = np.random.default_rng(n_rows), np.zeros((n_rows, n_columns))
    codes = rng.random((n_columns, n_rows)).argsort(axis=0)[:k].astype(np.uint32)
    np.put_along_axis(dense.T, codes, 1 / np.sqrt(k), axis=0)
    return Sample(lambda n_jobs: NeighbourMatrix(codes + 1, n_columns, n_jobs=n_jobs), dense)


def beside(*samples, scales=None) -> Sample:
    """Put matrices over the same rows side by side."""
    factors = [1.0] * len(samples) if scales is None else scales
    parts = [factor * sample.dense for factor, sample in zip(factors, samples, strict=True)]
    return Sample(
        lambda n_jobs: HStack([sample.make(n_jobs) for sample in samples], scales),
        np.hstack(parts),
    )


def centred(sample: Sample) -> Sample:
    """Subtract a number from each column."""
    means = np.random.default_rng(1).normal(size=sample.dense.shape[1])
    return Sample(lambda n_jobs: CentredMatrix(sample.make(n_jobs), means), sample.dense - means)


def scaled(sample: Sample) -> Sample:
    """Multiply each row by a number."""
    factors = np.random.default_rng(1).normal(size=len(sample.dense))
    return Sample(
        lambda n_jobs: RowScaledMatrix(sample.make(n_jobs), factors),
        sample.dense * factors[:, None],
    )


def scaled_bins(sample: Sample) -> Sample:
    """Multiply each column by a number of 12 bits."""
    drawn = np.random.default_rng(1).uniform(0.1, 3.0, sample.dense.shape[1])
    factors = rounded_factors(drawn)

    def make(n_jobs: int | None) -> FeatureMatrix:
        bins = sample.make(n_jobs)
        assert isinstance(bins, PlainBins)
        return ScaledBins(bins, factors)

    return Sample(make, sample.dense * factors)


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
    "on_disk": on_disk([np.uint8, np.uint8, np.uint16], [5, 1, 7, 4, 3], 71),
    "on_disk_tall": on_disk([np.uint8, np.uint16, np.uint32], [3, 2] * 70, 2001),
    "on_disk_one_row": on_disk([np.uint16], [3, 4, 2], 1),
    "scaled_bins": scaled_bins(binned(np.uint8, [5, 1, 7, 4, 3], 60)),
    "scaled_bins_unseen": scaled_bins(binned(np.uint16, [260, 3, 9], 90, unseen=True, scale=-2.0)),
    "scaled_bins_on_disk": scaled_bins(on_disk([np.uint8, np.uint16], [5, 1, 7, 4, 3], 71)),
    "scaled_bins_no_row": scaled_bins(binned(np.uint8, [3, 4, 2], 0)),
    "dense": stored(np.float64, 60, 7),
    "dense_float32": stored(np.float32, 45, 20),
    "dense_column_major": stored(np.float64, 50, 6, "F"),
    "dense_tall": stored(np.float32, 70_001, 20),
    "dense_one_row": stored(np.float64, 1, 9),
    "dense_no_row": stored(np.float64, 0, 9),
    "dense_no_column": stored(np.float64, 15, 0),
    "computed": computed(np.float32, 5000, 4),
    "computed_half_kept": computed(np.float32, 5000, 4, budget=2048 * 4 * 4),
    "computed_none_kept": computed(np.float32, 5000, 4, budget=0),
    "computed_float64": computed(np.float64, 300, 5),
    "computed_float64_none_kept": computed(np.float64, 300, 5, budget=0),
    "computed_no_row": computed(np.float32, 0, 3),
    "computed_no_column": computed(np.float32, 9, 0),
    "beside": beside(binned(np.uint8, [5, 3], 60), stored(np.float64, 60, 4), scales=[0.5, -2.0]),
    "beside_bins": beside(
        binned(np.uint8, [5, 3], 80, unseen=True), binned(np.uint16, [300], 80), scales=[3.0, 1.0]
    ),
    "beside_dense": beside(
        stored(np.float32, 5000, 3), computed(np.float64, 5000, 2, budget=0), scales=[1.0, 0.3]
    ),
    "beside_nested": beside(
        beside(stored(np.float32, 70, 3), stored(np.float64, 70, 2), scales=[2.0, 0.5]),
        computed(np.float32, 70, 4),
        scales=[0.1, 3.0],
    ),
    "centred": centred(binned(np.uint8, [5, 1, 7], 60, unseen=True)),
    "centred_dense": centred(stored(np.float32, 50, 6)),
    "scaled": scaled(binned(np.uint16, [260, 3, 9], 90)),
    "scaled_and_centred": scaled(centred(stored(np.float64, 40, 5))),
    "neighbours": neighbours(3, 70, 9),
    "neighbours_no_row": neighbours(2, 0, 5),
    "beside_scaled_bins": beside(
        scaled_bins(binned(np.uint8, [5, 3], 60)), stored(np.float64, 60, 4), scales=[0.5, -2.0]
    ),
    "beside_nothing": beside(stored(np.float64, 20, 0), binned(np.uint8, [], 20)),
}

DENSE_MATRICES = {
    name: sample for name, sample in ALL_MATRICES.items() if sample.make(1).has_column_gram
} | {"dense_wide": stored(np.float64, 400, 300)}


def stacked_on(sample: Sample) -> Sample:
    """Put a column of ones beside a matrix."""
    ones = np.ones((len(sample.dense), 1))
    return Sample(lambda n_jobs: with_ones(sample.make(n_jobs)), np.hstack([sample.dense, ones]))


@pytest.fixture(params=ALL_MATRICES.values(), ids=ALL_MATRICES.keys(), scope="module")
def sample(request: pytest.FixtureRequest) -> Sample:
    return request.param


@pytest.fixture
def matrix(sample: Sample) -> FeatureMatrix:
    return sample.make(2)


@pytest.fixture
def dense(sample: Sample) -> NDArray[np.float64]:
    return sample.dense


@pytest.fixture(params=DENSE_MATRICES.values(), ids=DENSE_MATRICES.keys(), scope="module")
def dense_sample(request: pytest.FixtureRequest) -> Sample:
    """Return a matrix that has the products of matrices without zeros."""
    return request.param


@pytest.fixture(params=["alone", "with_intercept"], scope="module")
def chunked(dense_sample: Sample, request: pytest.FixtureRequest) -> Sample:
    """Return such a matrix, alone or with a column of ones."""
    return dense_sample if request.param == "alone" else stacked_on(dense_sample)
