"""Rows as the kernel sees them: centers, units, what is left out, and what is tried."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.kernels import Gaussian, Laplacian
from gramless.streaming.bandwidth_selection import (
    FACTORS,
    Preparation,
    select_preparation,
    select_units,
)
from gramless.streaming.principal_components import Projection
from gramless.streaming.summary_statistics import Summary, summarise

Array = NDArray[Any]

RNG = np.random.default_rng(0)
X: Array = RNG.normal(size=(300, 3)) * [1.0, 10.0, 0.1] + [5.0, -3.0, 0.0]
Y: Array = np.sin(2.0 * (X[:, :1] - 5.0))
GAUSSIAN = Gaussian()
BOTH = ("standard", "none")


def summary_of(rows: Any, targets: Array = Y, **options: Any) -> Summary:
    return summarise([(rows, targets[:, 0])], seed=0, **options)


def prepared(
    rows: Any, bandwidth: Any, scalings: Any = ("standard",), kernel: Any = GAUSSIAN
) -> tuple[Preparation, str]:
    summary = summary_of(rows)
    targets = summary.sample_targets[:, None]
    return select_preparation(summary, targets, None, bandwidth, scalings, kernel, 0)


def median(rows: Array, order: int) -> float:
    pairs = np.linalg.norm(rows[:, None] - rows[None], ord=order, axis=2)
    return float(np.median(pairs[np.triu_indices(len(rows), 1)]))


def test_given_bandwidth_is_used() -> None:
    result, reason = prepared(X, 2.0)
    np.testing.assert_allclose(result.center, X.mean(axis=0))
    np.testing.assert_allclose(result.units, 2.0 * X.std(axis=0))
    assert reason == "bandwidth as given"
    result, _ = prepared(X, [1.0, np.inf, 3.0], ("none",))
    np.testing.assert_array_equal(result.units, [1.0, np.inf, 3.0])
    np.testing.assert_allclose(
        result.unit_rows(X), (X - X.mean(axis=0)) / [1.0, np.inf, 3.0], atol=1e-12
    )


def test_median_bandwidth_uses_the_metric_of_the_kernel() -> None:
    for kernel, order in [(Gaussian(), 2), (Laplacian(), 1)]:
        result, reason = prepared(X, "median", ("none",), kernel)
        expected = median(X, order)
        np.testing.assert_allclose(result.units, np.full(3, expected), rtol=0.05)
        assert "median" in reason
        result, _ = prepared(X, "median", BOTH, kernel)
        scaled = median(X / X.std(axis=0), order)
        np.testing.assert_allclose(result.units, scaled * X.std(axis=0), rtol=0.05)


def test_auto_bandwidth_takes_the_best_candidate() -> None:
    result, reason = prepared(X, "auto", BOTH)
    assert "standard" in reason
    assert "the best of 8" in reason
    factor = float(reason.split(", ")[1].split()[0])
    assert factor in FACTORS
    medians, _ = prepared(X, "median", ("standard",))
    np.testing.assert_allclose(result.units, factor * medians.units)
    few, reason = select_preparation(
        summary_of(X[:30], Y[:30]), Y[:30], None, "auto", BOTH, Gaussian(), 0
    )
    assert "median" in reason
    assert np.isfinite(few.units).all()


def test_sparse_rows_are_not_centred() -> None:
    for bandwidth in (1.0, "median", "auto"):
        result, _ = prepared(sp.csr_array(X), bandwidth)
        np.testing.assert_array_equal(result.center, np.zeros(3))
        dense, _ = prepared(X, bandwidth)
        np.testing.assert_allclose(result.units, dense.units, rtol=1e-9)
        np.testing.assert_allclose(
            result.unit_rows(sp.csr_array(X)), dense.unit_rows(X + dense.center), rtol=1e-9
        )


def test_constant_columns_are_omitted_for_every_offset() -> None:
    for offset in [0.0, 1e6, -1e9]:
        for scaling in ["standard", "none"]:
            rows = np.column_stack([X + offset, np.full(300, offset + 0.1), np.full(300, -1e-310)])
            for bandwidth in (1.0, "median", "auto"):
                result, _ = prepared(rows, bandwidth, (scaling,))
                assert np.isinf(result.units).tolist() == [False] * 3 + [True] * 2
                plain, _ = prepared(X, bandwidth, (scaling,))
                np.testing.assert_allclose(result.units[:3], plain.units, rtol=1e-5)
                assert not result.inverse[3:].any()
                assert not result.unit_rows(rows)[:, 3:].any()


def test_equal_rows_have_infinite_units() -> None:
    for rows in (np.full((300, 2), 0.3), sp.csr_array(np.full((300, 2), 0.3))):
        for bandwidth in (1.0, "median", "auto"):
            result, _ = prepared(rows, bandwidth)
            assert np.isinf(result.units).all()
            assert not result.unit_rows(rows).any()


def test_tiny_and_huge_units_stay_finite() -> None:
    for size in (1e-150, 1e150):
        result, _ = prepared(X * size, "median")
        np.testing.assert_allclose(
            result.unit_rows(X * size), prepared(X, "median")[0].unit_rows(X), rtol=1e-9
        )
    smallest = Preparation(None, np.zeros(1), np.array([5e-324]))
    assert np.isfinite(smallest.inverse).all()


def test_principal_components_are_not_scaled() -> None:
    summary = summary_of(X, covariance=True)
    projection = Projection.from_summary(summary, 2)
    targets = summary.sample_targets[:, None]
    result, _ = select_preparation(summary, targets, projection, 2.0, ("none",), Gaussian(), 0)
    np.testing.assert_array_equal(result.units, [2.0, 2.0])
    np.testing.assert_array_equal(result.center, [0.0, 0.0])
    np.testing.assert_allclose(result.unit_rows(X), projection.apply(X) / 2.0)
    assert result.project(X).shape == (300, 2)
    result, reason = select_preparation(
        summary, targets, projection, "auto", ("none",), Gaussian(), 0
    )
    assert "best of 4" in reason


def test_invalid_bandwidths_are_rejected() -> None:
    for bandwidth in ["wide", 0.0, -1.0, np.nan, [1.0, 2.0], [1.0, 2.0, "x"]]:
        with pytest.raises(InputError, match="bandwidth"):
            prepared(X, bandwidth)


# Units.


def expected_errors(X: Array, y: Array) -> float:
    """Return the least error of ridge regression over the penalties, by solving each."""
    half, errors = len(X) // 2, []
    gram, ahead = Gaussian().gram(X[:half]), Gaussian().gram(X[half:], X[:half])
    center = y[:half].mean(axis=0)
    for alpha in 10.0 ** -np.arange(1, 6):
        weights = np.linalg.solve(gram + half * alpha * np.eye(half), y[:half] - center)
        errors.append(np.mean((y[half:] - center - ahead @ weights) ** 2))
    return float(min(errors))


def test_errors_of_units_match_ridge_regression() -> None:
    X = np.random.default_rng(0).normal(size=(81, 3))
    y = np.column_stack([np.sin(2 * X[:, 0]), np.cos(2 * X[:, 1])]) + 0.1 * np.random.default_rng(
        1
    ).normal(size=(81, 2))
    units = [np.full(3, 0.3), np.array([1.0, 1.0, np.inf]), np.full(3, 30.0)]
    best, errors = select_units(Gaussian(), X, y, units)
    np.testing.assert_allclose(errors, [expected_errors(X / u, y) for u in units], rtol=1e-5)
    assert best == 1 == int(np.argmin(errors))


def test_constant_targets_have_no_error() -> None:
    candidates = [np.ones(3), np.full(3, 2.0)]
    best, errors = select_units(
        Gaussian(), np.random.default_rng(0).normal(size=(10, 3)), np.full((10, 1), 5.0), candidates
    )
    assert (best, errors) == (0, [0.0, 0.0])
