"""Results do not depend on the number of threads, nor on who else is fitting."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.base import threads


@pytest.fixture(scope="module")
def X() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(700, 7))


TARGETS = {
    "regression": lambda X: np.sin(X[:, 0]) + X[:, 1],
    "two outputs": lambda X: X[:, :2] ** 2,
    "two classes": lambda X: X[:, 0] > 0,
    "five classes": lambda X: np.digitize(X[:, 0] + X[:, 1], [-2, -1, 1, 2]),
}


GIVEN: dict[str, Any] = {"bandwidth": 4.0, "alpha": 1e-3, "scaling": "quantile"}


def fitted(name: str, X: NDArray, n_jobs: int | None, **options: Any) -> Any:
    kind = KernelClassifier if "classes" in name else KernelRegressor
    model = kind(RandomBinning(n_grids=20), random_state=0, n_jobs=n_jobs, **options)
    return model.fit(X, TARGETS[name](X))


def responses(model: Any, X: NDArray) -> NDArray[np.float64]:
    return getattr(model, "decision_function", model.predict)(X)


def test_number_of_threads_does_not_change_the_fit(X: NDArray) -> None:
    for name in TARGETS:
        one = fitted(name, X, 1, **GIVEN)
        for n_jobs in (2, 3):
            other = fitted(name, X, n_jobs, **GIVEN)
            np.testing.assert_array_equal(other.weights_, one.weights_)
            np.testing.assert_array_equal(responses(other, X + 0.1), responses(one, X + 0.1))
            assert other.history_ == one.history_


@pytest.mark.parametrize(
    ("n_rows", "n_jobs", "shares"), [(300, None, False), (300, 2, True), (1600, None, True)]
)
def test_small_tables_use_one_thread_unless_n_jobs_is_given(
    n_rows: int, n_jobs: int | None, shares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, share = [], threads._run_on_pool

    def counting(work: Callable[[int], None], n_helpers: int) -> None:
        used.append(n_helpers)
        share(work, n_helpers)

    monkeypatch.setattr(threads, "available_cpus", lambda: 2)
    monkeypatch.setattr(threads, "_run_on_pool", counting)
    rows = np.random.default_rng(0).normal(size=(n_rows, 3))
    fitted("regression", rows, n_jobs, **GIVEN)
    assert bool(used) == shares


@pytest.mark.parametrize(
    "name", ["regression", pytest.param("five classes", marks=pytest.mark.slow)]
)
def test_number_of_threads_does_not_change_the_search(name: str, X: NDArray) -> None:
    one = fitted(name, X[:150], 1)
    for n_jobs in (2, 3):
        other = fitted(name, X[:150], n_jobs)
        assert (other.bandwidth_, other.alpha_) == (one.bandwidth_, one.alpha_)
        np.testing.assert_array_equal(other.weights_, one.weights_)


def test_number_of_threads_does_not_change_predictions_of_long_tables() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 4)).astype(np.float32)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    results = []
    for n_jobs in (1, 2, 3):
        model = KernelRegressor(
            RandomBinning(n_grids=24), bandwidth=3.0, alpha=1e-4, scaling="standard",
            random_state=0, n_jobs=n_jobs,
        ).fit(X, y)  # fmt: skip
        results.append(model.predict(X))
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


def test_n_jobs_may_be_negative_or_a_numpy_integer(X: NDArray) -> None:
    one = fitted("regression", X, 1, **GIVEN)
    for n_jobs in (-2, np.int64(2)):
        np.testing.assert_array_equal(
            fitted("regression", X, n_jobs, **GIVEN).weights_, one.weights_
        )


def test_concurrent_fits_equal_sequential_ones(X: NDArray) -> None:
    names = [*TARGETS, *TARGETS]

    def work(name: str) -> NDArray[np.float64]:
        return responses(fitted(name, X, 2, **GIVEN), X)

    alone = {name: work(name) for name in TARGETS}
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(work, names))
    for name, result in zip(names, together, strict=True):
        np.testing.assert_array_equal(result, alone[name])


def test_concurrent_predictions_equal_sequential_ones(X: NDArray) -> None:
    model = fitted("five classes", X, 2, **GIVEN)
    expected = responses(model, X)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: responses(model, X), range(12)):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_fits_the_same_model(X: NDArray) -> None:
    expected = fitted("regression", X, 2, **GIVEN).weights_
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        result = pool.submit(_coefficients, X).result(timeout=60)
    np.testing.assert_array_equal(result, expected)


def _coefficients(X: NDArray) -> NDArray[np.float64]:
    return fitted("regression", X, 2, **GIVEN).weights_
