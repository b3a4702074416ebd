"""Bins against a reference that compares the cells themselves: different bins share no key."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import RandomBinning, SmoothBinning
from gramless.features.binning import GivenBinning
from gramless.features.grids import SHORT_HASH, Grids
from gramless.preprocessing.categories import CategoryCodes
from gramless.preprocessing.scaling import Scaler

N_GRIDS, N_ROWS = 32, 800


def short_grids(widths: NDArray, shifts: NDArray, seed: int = 0) -> Grids:
    """Return grids whose keys have 40 bits, as growth draws them."""
    shape = widths.shape[0], widths.shape[1] + 1
    hashes = np.random.default_rng(seed).integers(-(2**63), 2**63, shape)
    return Grids(widths, shifts, (hashes[:, 1:] | 1) << SHORT_HASH, hashes[:, 0] << SHORT_HASH)


def expected_cells(X: NDArray, grids: Grids) -> list[list[tuple[int, ...]]]:
    """Return the cells of all rows in each grid, as whole numbers without bounds."""
    results = []
    for widths, shifts in zip(grids.widths, grids.shifts, strict=True):
        scaled = (X.astype(np.float64) - shifts) * (1.0 / widths)
        limited = np.clip(scaled, -float(0x5555555555), float(0x5555555555))
        results.append([tuple(map(int, row)) for row in np.floor(limited)])
    return results


def check_bins(X: NDArray, new: NDArray, grids: Grids) -> None:
    """Check that rows share a bin exactly if they share a cell, and so do new rows."""
    binning = GivenBinning(n_jobs=1)
    codes = binning.fit_grids(X, grids).codes
    others = binning.rows_matrix(new).codes
    references = zip(expected_cells(X, grids), expected_cells(new, grids), strict=True)
    for r, (cells, new_cells) in enumerate(references):
        numbers: dict[tuple[int, ...], int] = {}
        for cell in cells:
            numbers.setdefault(cell, len(numbers) + 1)
        np.testing.assert_array_equal(codes[r], [numbers[cell] for cell in cells])
        np.testing.assert_array_equal(others[r], [numbers.get(cell, 0) for cell in new_cells])


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("magnitude", [1e6, 1e16])
def test_distant_numbers_do_not_collide(rng: np.random.Generator, magnitude: float) -> None:
    X = rng.normal(size=(N_ROWS, 3))
    far = X * rng.choice([1.0, magnitude], X.shape)
    widths = rng.uniform(0.1, 1.0, (N_GRIDS, 3))
    check_bins(far, X, short_grids(widths, rng.random(widths.shape)))
    check_bins(X, far, short_grids(widths, rng.random(widths.shape)))


def test_multiples_of_the_modulus_do_not_collide(rng: np.random.Generator) -> None:
    X = rng.integers(-3, 4, (N_ROWS, 2)) * 2.0**40
    near = rng.integers(-3, 4, (N_ROWS, 2)) * 1.0
    check_bins(near, X, short_grids(np.ones((N_GRIDS, 2)), np.full((N_GRIDS, 2), 0.25)))


def test_numbers_around_a_large_one_do_not_collide(rng: np.random.Generator) -> None:
    X = 1e15 + rng.integers(0, 100, (N_ROWS, 2)).astype(np.float64)
    widths = rng.uniform(1.0, 5.0, (N_GRIDS, 2))
    check_bins(X, X + 1e13, short_grids(widths, 1e15 + rng.random(widths.shape)))


def test_categories_and_missing_values_do_not_collide(rng: np.random.Generator) -> None:
    powers = 2.0 ** np.arange(20, 52)
    values = np.concatenate([np.arange(20.0), powers, -powers])
    X = rng.choice(np.append(values, np.nan), (N_ROWS, 3))
    mask = np.ones(3, bool)
    codes = CategoryCodes.fit(X[: N_ROWS // 2], mask)
    known, new = codes.transform(X[: N_ROWS // 2]), codes.transform(X[N_ROWS // 2 :])
    widths = np.ones((N_GRIDS, 3))
    check_bins(known, new, short_grids(widths, 0.5 * widths))


def test_missing_value_marks_do_not_collide(rng: np.random.Generator) -> None:
    X = np.column_stack([rng.normal(size=N_ROWS), rng.integers(0, 2, N_ROWS)])
    widths = np.column_stack([rng.uniform(0.1, 1.0, N_GRIDS), np.ones(N_GRIDS)])
    check_bins(X, X + np.array([0.0, 1.0]), short_grids(widths, 0.5 * widths))


def test_ranks_do_not_collide(rng: np.random.Generator) -> None:
    X = rng.standard_t(1.0, size=(N_ROWS, 3)) * [1.0, 1e10, 1e-10]
    scaler = Scaler.fit("both", X)
    rows = scaler.rows(X)
    shares = rng.uniform(0.1, 1.0, (N_GRIDS, 3))
    widths = np.hstack([scaler.unit[:3] * shares, shares])
    check_bins(rows, scaler.rows(10.0 * X), short_grids(widths, rng.random(widths.shape) * widths))


@pytest.mark.parametrize("kind", [RandomBinning, SmoothBinning])
def test_large_categories_have_distinct_features(rng: np.random.Generator, kind: type) -> None:
    X = rng.integers(-3, 4, (N_ROWS, 2)) * 2.0**40
    binning = kind(bandwidth=0.5, categorical=[0, 1], n_grids=64, random_state=0)
    binning.fit(X)
    parted = np.isfinite(binning.widths_)
    for r, (a, b) in enumerate(pairwise(binning.offsets_)):
        assert b - a == len(np.unique(X[:, parted[r]], axis=0))
    unknown = binning.transform(X + 2.0**45)
    assert unknown[:, np.repeat(parted.any(axis=1), binning.n_bins_)].nnz == 0
