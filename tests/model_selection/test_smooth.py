"""Smooth kernels beside grids: bandwidths that follow how finely the grids divide."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import Nystrom
from gramless.features.binning import GivenBinning
from gramless.features.grids import Grids
from gramless.model_selection.smooth import contributions, fineness, smooth_map
from gramless.preprocessing.scaling import Scaler

Array = NDArray[np.float64]


def grids_of(widths: list[list[float]], seed: int = 0) -> Grids:
    wide, rng = np.array(widths), np.random.default_rng(seed)
    hashes = rng.integers(-(2**63), 2**63, (len(wide), wide.shape[1] + 1))
    return Grids(wide, np.zeros_like(wide), hashes[:, 1:] | 1, hashes[:, 0].copy())


X = np.random.default_rng(0).normal(size=(400, 3)) * [1.0, 100.0, 1.0]
SCALER = Scaler.fit("standard", X)
WIDTHS = [[0.5, np.inf, np.inf], [np.inf, 100.0, np.inf], [2.0, 400.0, np.inf]]


@pytest.mark.parametrize("n_outputs", [None, 1, 3])
def test_contributions_are_variances_of_the_parts_of_predictions(n_outputs: int | None) -> None:
    rng, shape = np.random.default_rng(0), () if n_outputs is None else (n_outputs,)
    codes = [rng.integers(0, m, 200) for m in (1, 4, 30)]
    counts = np.concatenate(
        [np.bincount(c, minlength=m) for c, m in zip(codes, (1, 4, 30), strict=True)]
    )
    offsets, weights = np.array([0, 1, 5, 35]), rng.normal(size=(35, *shape))
    found = contributions(counts.astype(float), offsets, weights)
    for g in range(3):
        part = weights[offsets[g] + codes[g]].reshape(200, -1)
        assert found[g] == pytest.approx(part.var(axis=0).sum(), abs=1e-12)


def test_fineness_counts_each_grid_by_what_it_adds() -> None:
    binning = GivenBinning()
    matrix = binning.learn_bins(X, grids_of(WIDTHS))
    weights = np.random.default_rng(1).normal(size=matrix.shape[1])
    dense = matrix.tocsr().toarray()
    squares = np.zeros(3)
    for g in range(3):
        own = slice(matrix.offsets[g], matrix.offsets[g + 1])
        part = dense[:, own] @ weights[own] / matrix.scale
        for j in range(3):
            squares[j] += part.var() * (SCALER.unit[j] / WIDTHS[g][j]) ** 2
    found = fineness(grids_of(WIDTHS), matrix, weights, SCALER)
    np.testing.assert_allclose(found, np.sqrt(squares / squares.sum()), rtol=1e-9)
    assert found[2] == 0.0
    assert np.linalg.norm(found) == pytest.approx(1.0)


def test_grids_that_add_nothing_have_no_fineness() -> None:
    matrix = GivenBinning().learn_bins(X, grids_of(WIDTHS))
    found = fineness(grids_of(WIDTHS), matrix, np.zeros(matrix.shape[1]), SCALER)
    np.testing.assert_array_equal(found, np.zeros(3))


def test_inputs_that_cannot_be_scaled_have_no_fineness() -> None:
    rows = X.copy()
    rows[:, 0] = 7.0
    scaler = Scaler.fit("standard", rows)
    assert np.isinf(scaler.unit[0])
    matrix = GivenBinning().learn_bins(rows, grids_of(WIDTHS))
    found = fineness(grids_of(WIDTHS), matrix, np.arange(float(matrix.shape[1])), scaler)
    assert found[0] == 0.0
    assert np.isfinite(found).all()


def test_the_kernel_is_gaussian_in_units_of_the_fineness() -> None:
    fine = np.array([0.6, 0.8, 0.0])
    # All rows are landmarks: the kernel is exact at them.
    found = smooth_map(SCALER, fine, 0.5, 60, 0, 1).fit(X[:60])
    Z = np.asarray(found.transform(X[:60]))
    scaled = X[:60] / SCALER.unit * fine * 0.5
    distances = ((scaled[:, None] - scaled[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(Z @ Z.T, np.exp(-0.5 * distances), atol=1e-5)
    moved = X[:60] + np.array([0.0, 0.0, 9.0])
    np.testing.assert_array_equal(found.transform(moved), Z)


def test_what_is_asked_for_is_what_comes() -> None:
    found = smooth_map(SCALER, np.array([1.0, 0.0, 0.0]), 2.0, 77, 5, 2)
    assert isinstance(found, Nystrom)
    assert (found.n_components, found.random_state, found.n_jobs) == (77, 5, 2)
    np.testing.assert_array_equal(found.bandwidth, [0.5 * SCALER.unit[0], np.inf, np.inf])
