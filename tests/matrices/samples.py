"""The matrices that every contract test runs over, by class; a new matrix adds a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.features.neighbours import NeighbourMatrix
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.codes import PlainBins
from gramless.matrices.dense import ComputedMatrix, DenseMatrix
from gramless.matrices.stacked import HStack, with_ones
from gramless.matrices.stored import StoredBinnedMatrix, code_file
from gramless.matrices.transformed import CentredMatrix, RowScaledMatrix
from gramless.matrices.weighted import ScaledBins, WeightedBinnedMatrix, round_factors


@dataclass(frozen=True)
class Sample:
    """A matrix on a given number of threads, and its dense reference."""

    make: Callable[[int | None], FeatureMatrix]
    dense: NDArray[np.float64]


def dense_reference(codes, n_bins, values) -> NDArray[np.float64]:
    """Write the definition out: one non-zero a row in each grid where the bin is known."""
    grids = [np.zeros((codes.shape[1], n)) for n in n_bins]
    values = np.broadcast_to(values, codes.shape)
    for grid, row, numbers in zip(grids, codes, values, strict=True):
        (known,) = np.nonzero(row)
        grid[known, row[known].astype(int) - 1] = numbers[known]
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
        dense_reference(codes, n_bins, value),
    )


def of_types(kinds, n_bins, n_rows) -> Sample:
    """Draw the codes of a binned matrix, and give each eight grids a type."""
    sample = binned(np.uint32, n_bins, n_rows)

    def make(n_jobs: int | None) -> FeatureMatrix:
        whole = sample.make(n_jobs)
        parts = [whole.codes[8 * k : 8 * k + 8].astype(kind) for k, kind in enumerate(kinds)]
        return BinnedMatrix(parts, whole.offsets, scale=whole.scale, n_jobs=n_jobs)

    return Sample(make, sample.dense)


def weighted(dtype, n_bins, n_rows, kind=np.float32, *, unseen=False, scale=None, order="C"):
    """Draw codes, and a value for each, with or without bins never seen."""
    n_bins = np.array(n_bins, np.int64)
    rng = np.random.default_rng(n_rows)
    codes = rng.integers(0 if unseen else 1, n_bins[:, None] + 1, (len(n_bins), n_rows))
    codes = codes.astype(dtype, order=order)
    values = rng.gamma(2.0, size=codes.shape).astype(kind, order)
    offsets = np.concatenate([[0], np.cumsum(n_bins)])
    value = 1 / np.sqrt(max(1, len(n_bins))) if scale is None else scale
    return Sample(
        lambda n_jobs: WeightedBinnedMatrix(codes, values, offsets, scale=scale, n_jobs=n_jobs),
        dense_reference(codes, n_bins, value * values.astype(float)),
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
    factors = round_factors(drawn)

    def make(n_jobs: int | None) -> FeatureMatrix:
        bins = sample.make(n_jobs)
        assert isinstance(bins, PlainBins)
        return ScaledBins(bins, factors)

    return Sample(make, sample.dense * factors)


def beside_ones(sample: Sample) -> Sample:
    """Put a column of ones beside a matrix."""
    ones = np.ones((len(sample.dense), 1))
    return Sample(lambda n_jobs: with_ones(sample.make(n_jobs)), np.hstack([sample.dense, ones]))


BINS = {
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
    "types": of_types([np.uint8, np.uint16, np.uint8], [3, 2] * 4 + [260] + [1, 4] * 7, 400),
    "one_row": binned(np.uint16, [3, 4, 2], 1),
    "no_row": binned(np.uint8, [3, 4, 2], 0),
    "no_grid": binned(np.uint8, [], 15),
    "nothing_seen": binned(np.uint8, [0, 0, 0], 12, unseen=True),
}

BINS_ON_DISK = {
    "on_disk": on_disk([np.uint8, np.uint8, np.uint16], [5, 1, 7, 4, 3], 71),
    "on_disk_tall": on_disk([np.uint8, np.uint16, np.uint32], [3, 2] * 70, 2001),
    "on_disk_one_row": on_disk([np.uint16], [3, 4, 2], 1),
}

SCALED_BINS = {
    "scaled_bins": scaled_bins(binned(np.uint8, [5, 1, 7, 4, 3], 60)),
    "scaled_bins_unseen": scaled_bins(binned(np.uint16, [260, 3, 9], 90, unseen=True, scale=-2.0)),
    "scaled_bins_on_disk": scaled_bins(on_disk([np.uint8, np.uint16], [5, 1, 7, 4, 3], 71)),
    "scaled_bins_no_row": scaled_bins(binned(np.uint8, [3, 4, 2], 0)),
}

WEIGHTED_BINS = {
    "uint8": weighted(np.uint8, [5, 1, 7, 4, 3], 60),
    "uint8_unseen": weighted(np.uint8, [5, 1, 7, 4, 3], 60, unseen=True),
    "uint16_half": weighted(np.uint16, [260, 3, 9], 90, np.float16, scale=0.3),
    "uint16_half_unseen": weighted(np.uint16, [260, 3, 9], 90, np.float16, unseen=True, scale=-2.0),
    "uint32": weighted(np.uint32, [4, 300, 2], 70, unseen=True),
    "column_major": weighted(np.uint16, [5, 3, 8, 2], 50, unseen=True, order="F"),
    "one_grid": weighted(np.uint8, [6], 40),
    "many_grids": weighted(np.uint16, [2, 3, 1, 4] * 9 + [2], 30, np.float16, unseen=True),
    "tall": weighted(np.uint8, [3, 2] * 5, 70_001, unseen=True),
    "one_row": weighted(np.uint16, [3, 4, 2], 1),
    "no_row": weighted(np.uint8, [3, 4, 2], 0),
    "no_grid": weighted(np.uint8, [], 15),
    "grids_without_columns": weighted(np.uint8, [0, 4, 0, 2, 0], 12, unseen=True),
    "nothing_seen": weighted(np.uint16, [0, 0, 0], 12, np.float16, unseen=True),
}

DENSE = {
    "dense": stored(np.float64, 60, 7),
    "dense_float32": stored(np.float32, 45, 20),
    "dense_column_major": stored(np.float64, 50, 6, "F"),
    "dense_tall": stored(np.float32, 70_001, 20),
    "dense_one_row": stored(np.float64, 1, 9),
    "dense_no_row": stored(np.float64, 0, 9),
    "dense_no_column": stored(np.float64, 15, 0),
}

COMPUTED = {
    "computed": computed(np.float32, 5000, 4),
    "computed_half_kept": computed(np.float32, 5000, 4, budget=2048 * 4 * 4),
    "computed_none_kept": computed(np.float32, 5000, 4, budget=0),
    "computed_float64": computed(np.float64, 300, 5),
    "computed_float64_none_kept": computed(np.float64, 300, 5, budget=0),
    "computed_no_row": computed(np.float32, 0, 3),
    "computed_no_column": computed(np.float32, 9, 0),
}

STACK = {
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
    "beside_scaled_bins": beside(
        scaled_bins(binned(np.uint8, [5, 3], 60)), stored(np.float64, 60, 4), scales=[0.5, -2.0]
    ),
    "beside_nothing": beside(stored(np.float64, 20, 0), binned(np.uint8, [], 20)),
}

STACK_WITH_ONES = {
    "bins": beside_ones(binned(np.uint8, [5, 1, 7, 4, 3], 60)),
    "bins_unseen": beside_ones(binned(np.uint16, [260, 3, 9], 90, unseen=True, scale=-2.0)),
    "bins_on_disk": beside_ones(on_disk([np.uint8, np.uint16], [5, 1, 7, 4, 3], 71)),
    "scaled_bins": beside_ones(scaled_bins(binned(np.uint8, [5, 3], 60))),
    "weighted_bins": beside_ones(weighted(np.uint8, [5, 1, 7], 60)),
    "dense": beside_ones(stored(np.float32, 45, 20)),
    "computed": beside_ones(computed(np.float64, 300, 5, budget=0)),
    "stack": beside_ones(
        beside(binned(np.uint8, [5, 3], 60), stored(np.float64, 60, 4), scales=[0.5, -2.0])
    ),
    "stack_of_dense": beside_ones(
        beside(stored(np.float32, 70, 3), stored(np.float64, 70, 2), scales=[2.0, 0.5])
    ),
    "no_column": beside_ones(stored(np.float64, 15, 0)),
    "no_row": beside_ones(binned(np.uint8, [3, 4, 2], 0)),
    "tall": beside_ones(binned(np.uint8, [3, 2] * 5, 70_001, unseen=True)),
}

NORMALISED = {
    "centred": centred(binned(np.uint8, [5, 1, 7], 60, unseen=True)),
    "centred_dense": centred(stored(np.float32, 50, 6)),
    "scaled": scaled(binned(np.uint16, [260, 3, 9], 90)),
    "scaled_and_centred": scaled(centred(stored(np.float64, 40, 5))),
}

NEIGHBOURS = {
    "neighbours": neighbours(3, 70, 9),
    "neighbours_no_row": neighbours(2, 0, 5),
}

BY_CLASS: dict[str, dict[str, Sample]] = {
    "bins": BINS,
    "bins on the disk": BINS_ON_DISK,
    "scaled bins": SCALED_BINS,
    "weighted bins": WEIGHTED_BINS,
    "dense": DENSE,
    "computed": COMPUTED,
    "stack": STACK,
    "stack with ones": STACK_WITH_ONES,
    "normalised": NORMALISED,
    "neighbours": NEIGHBOURS,
}
_MOST_ROWS = 10_000

SMALL = {
    kind: {name: each for name, each in samples.items() if len(each.dense) <= _MOST_ROWS}
    for kind, samples in BY_CLASS.items()
}
"""The same without tall matrices, for what does not depend on how rows are cut."""

WITH_GRAM = {
    "dense": DENSE | {"wide": stored(np.float64, 400, 300)},
    "computed": COMPUTED,
    "stack": {name: each for name, each in STACK.items() if each.make(1).has_column_gram},
    "stack with ones": {
        name: beside_ones(each)
        for kind in (DENSE, COMPUTED, STACK)
        for name, each in kind.items()
        if each.make(1).has_column_gram
    },
}
"""Matrices that have a Gram matrix of their columns."""


def over(by_class: dict[str, dict[str, Sample]]) -> Callable[[Callable[..., None]], Any]:
    """Run a test of a sample once for each class, over all samples of the class.

    A failure names the sample.
    """

    def of(test: Callable[..., None]) -> Any:
        @pytest.mark.parametrize("kind", by_class)
        def run(kind: str) -> None:
            for name, sample in by_class[kind].items():
                try:
                    test(sample)
                except BaseException as error:
                    error.add_note(f"sample: {name} of {kind}")
                    raise

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return of


def matrix_and_dense(test: Callable[..., None]) -> Callable[[Sample], None]:
    """Turn a test of a matrix on two threads and its dense reference into one of a sample."""

    def run(sample: Sample) -> None:
        test(sample.make(2), sample.dense)

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    return run


def every_matrix(test: Callable[..., None]) -> Any:
    """Run ``test(matrix, dense)`` over all matrices."""
    return over(BY_CLASS)(matrix_and_dense(test))


def every_small_matrix(test: Callable[..., None]) -> Any:
    """Run ``test(matrix, dense)`` over all matrices that are not tall."""
    return over(SMALL)(matrix_and_dense(test))
