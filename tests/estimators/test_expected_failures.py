"""Every public estimator passes scikit-learn's checks, but for those that are listed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import gramless
from gramless import (
    AnomalyDetector,
    DoublyStochasticClassifier,
    DoublyStochasticRegressor,
    ExactKernel,
    FeatureDecomposition,
    GrownBinning,
    Hybrid,
    KernelClassifier,
    KernelPCA,
    KernelRegressor,
    KernelSurvival,
    Nystrom,
    RandomBinning,
    RandomFourier,
    SmoothBinning,
    SpectralClustering,
)
from gramless.estimators.expected_failures import EXPECTED_FAILED_CHECKS, expected_failed_checks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "trust.md"
SMALL = RandomBinning(n_grids=8)
FEW = {"max_steps": 10, "block_size": 16, "bandwidth": 4.0}
QUICK_DEFAULTS = [
    ExactKernel(),
    Hybrid([RandomBinning()]),  # which has no default
    KernelPCA(),
    Nystrom(),
    RandomBinning(),
    RandomFourier(),
    SmoothBinning(),
]
# With few grids and little to search, the code is nearly the same and takes a tenth of the time.
QUICK_SETTINGS = [
    KernelRegressor(SMALL, bandwidth=1.0),
    KernelClassifier(SMALL, bandwidth=1.0, calibrate=False),
    DoublyStochasticRegressor(**FEW),
    DoublyStochasticClassifier(**FEW),
]
SLOW_DEFAULTS = [
    AnomalyDetector(),
    DoublyStochasticClassifier(),
    DoublyStochasticRegressor(),
    FeatureDecomposition(),
    GrownBinning(),
    KernelClassifier(),
    KernelRegressor(),
    KernelSurvival(),
    SpectralClustering(),
]
DEFAULTS = [*QUICK_DEFAULTS, *SLOW_DEFAULTS]
OTHERS = [
    KernelRegressor(effort=1),
    KernelClassifier(effort=1),
    KernelSurvival(effort=1),
    KernelRegressor(features="fourier"),
    KernelClassifier(features="fourier"),
]
FURTHER = [
    KernelRegressor(SMALL, loss="huber"),
    KernelClassifier(SMALL, loss="logistic", class_weight="balanced"),
    KernelClassifier(loss="squared_hinge"),
    KernelRegressor(SMALL, l1_ratio=1, tol=1e-10),
    KernelClassifier(SMALL, bandwidth=8.0, l1_ratio=1, calibrate=False),
    KernelRegressor(
        "binning", bandwidth=1.0, alpha=0.01, scaling="standard", solver="cg", n_posterior=3
    ),
    KernelClassifier("binning", scaling="none", relevance="equal", n_jobs=1),
]


@parametrize_with_checks(
    [*QUICK_DEFAULTS, *QUICK_SETTINGS], expected_failed_checks=expected_failed_checks
)
def test_estimators_pass_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.timeout(600)  # some checks fit doubly stochastic models dozens of times
@parametrize_with_checks(
    [*SLOW_DEFAULTS, *OTHERS, *FURTHER], expected_failed_checks=expected_failed_checks
)
def test_slow_estimators_pass_scikit_learn_checks(
    estimator: Any, check: Callable[[Any], None]
) -> None:
    check(estimator)


def test_every_public_estimator_is_checked() -> None:
    public = {getattr(gramless, name) for name in gramless.__all__}
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, BaseEstimator)}
    assert kinds == {type(estimator) for estimator in DEFAULTS}


def test_listed_estimators_are_checked() -> None:
    checked = {repr(estimator).removesuffix("()") for estimator in [*DEFAULTS, *OTHERS]}
    assert EXPECTED_FAILED_CHECKS.keys() <= checked


def test_documentation_lists_the_expected_failures() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if "| `check_" in line]
    assert rows == [
        f"| `{estimator}` | `{check}` | {reason} |"
        for estimator, checks in EXPECTED_FAILED_CHECKS.items()
        for check, reason in checks.items()
    ]
