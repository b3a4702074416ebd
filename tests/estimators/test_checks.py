"""Everything that scikit-learn asks of an estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramless import KernelClassifier, KernelRegressor, RandomBinning

Check = Callable[[Any], None]


# Searching for everything and calibrating both takes ten times as long: asked the same below.
@parametrize_with_checks(
    [
        KernelRegressor(RandomBinning(n_grids=8), bandwidth=1.0),
        KernelClassifier(RandomBinning(n_grids=8), bandwidth=1.0, calibrate=False),
    ]
)
def test_with_a_part_given(estimator: Any, check: Check) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        KernelRegressor(RandomBinning(n_grids=8)),
        KernelClassifier(RandomBinning(n_grids=8)),
    ]
)
def test_with_few_grids(estimator: Any, check: Check) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        KernelRegressor(RandomBinning(n_grids=8), loss="huber"),
        KernelClassifier(RandomBinning(n_grids=8), loss="logistic", class_weight="balanced"),
    ]
)
def test_with_other_losses(estimator: Any, check: Check) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [KernelRegressor(), KernelClassifier(), KernelClassifier(loss="squared_hinge")]
)
def test_with_no_argument(estimator: Any, check: Check) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        KernelRegressor(
            "binning", bandwidth=1.0, alpha=0.01, scaling="standard", solver="cg", n_posterior=3
        ),
        KernelClassifier("binning", scaling="none", relevance="equal", n_jobs=1),
    ]
)
def test_with_every_argument(estimator: Any, check: Check) -> None:
    check(estimator)
