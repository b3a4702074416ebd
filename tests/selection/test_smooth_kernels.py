"""Smooth kernels with grids: bandwidths follow the resolution of the grids."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.features.grids import Grids
from gramless.preprocessing.scaling import Scaler
from gramless.selection.candidates.smooth_kernels import fineness, smooth_bandwidths

from .tasks import make_task

Array = NDArray[np.float64]


def grids_of(widths: list[list[float]], seed: int = 0) -> Grids:
    wide, rng = np.array(widths), np.random.default_rng(seed)
    hashes = rng.integers(-(2**63), 2**63, (len(wide), wide.shape[1] + 1))
    return Grids(wide, np.zeros_like(wide), hashes[:, 1:] | 1, hashes[:, 0].copy())


X = np.random.default_rng(0).normal(size=(400, 3)) * [1.0, 100.0, 1.0]
SCALER = Scaler.fit("standard", X)
WIDTHS = [[0.5, np.inf, np.inf], [np.inf, 100.0, np.inf], [2.0, 400.0, np.inf]]


def test_fineness_weights_grids_by_variance() -> None:
    variances, squares = np.array([2.0, 1.0, 0.5]), np.zeros(3)
    for g in range(3):
        for j in range(3):
            squares[j] += variances[g] * (SCALER.unit[j] / WIDTHS[g][j]) ** 2
    result = fineness(grids_of(WIDTHS), variances, SCALER)
    np.testing.assert_allclose(result, np.sqrt(squares / squares.sum()), rtol=1e-9)
    assert result[2] == 0.0
    assert np.linalg.norm(result) == pytest.approx(1.0)


def test_grids_without_variance_have_no_fineness() -> None:
    result = fineness(grids_of(WIDTHS), np.zeros(len(WIDTHS)), SCALER)
    np.testing.assert_array_equal(result, np.zeros(3))


def test_constant_inputs_have_no_fineness() -> None:
    rows = X.copy()
    rows[:, 0] = 7.0
    scaler = Scaler.fit("standard", rows)
    assert np.isinf(scaler.unit[0])
    result = fineness(grids_of(WIDTHS), np.arange(float(len(WIDTHS))), scaler)
    assert result[0] == 0.0
    assert np.isfinite(result).all()


def bandwidths(rows: Array, targets: Array, fine: Array, lengths: list[float]) -> list[Array]:
    half = len(rows) // 2
    task = make_task(rows, targets, split=(np.arange(half), np.arange(half, len(rows))))
    return smooth_bandwidths(task, task.data.scaler("both"), fine, lengths)


def test_bandwidths_follow_fineness_if_few_inputs_matter() -> None:
    rows = np.random.default_rng(3).normal(size=(600, 8)) * np.geomspace(1.0, 100.0, 8)
    fine = np.zeros(16)
    fine[0], fine[9] = 0.8, 0.6
    scaler = Scaler.fit("both", rows)
    targets = np.sin(2.0 * rows[:, 0] / scaler.unit[0]) + rows[:, 1] / scaler.unit[1]
    for result, length in zip(bandwidths(rows, targets, fine, [0.5, 2.0]), (0.5, 2.0), strict=True):
        assert np.isinf(result[fine == 0]).all()
        np.testing.assert_allclose(result[[0, 9]], scaler.unit[[0, 9]] / (length * fine[[0, 9]]))


def test_bandwidths_are_equal_if_all_inputs_share_a_unit() -> None:
    # The inputs that vary most, which standard deviations would shrink, matter most.
    rows = np.random.default_rng(4).normal(size=(900, 8)) * np.geomspace(0.1, 1.0, 8)
    centres = np.random.default_rng(5).normal(size=(6, 8)) * np.geomspace(0.1, 1.0, 8)
    distances = ((rows[:, None] - centres[None]) ** 2).sum(axis=2)
    targets = np.exp(-0.5 * distances) @ np.array([3.0, -3.0, 3.0, -3.0, 3.0, -3.0])
    fine = np.zeros(16)
    fine[0] = 1.0
    first, second = bandwidths(rows, targets, fine, [0.5, 1.0])
    assert np.isinf(first[8:]).all()
    np.testing.assert_allclose(first[:8], first[0])
    np.testing.assert_allclose(first[:8], 2.0 * second[:8])
