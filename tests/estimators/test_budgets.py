"""Huge parameters and wide rows raise an error before memory is allocated, or cost little work."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gramless import (
    DoublyStochasticRegressor,
    ExactKernel,
    GrownBinning,
    Hybrid,
    KernelClassifier,
    KernelRegressor,
    Nystrom,
    RandomBinning,
    RandomFourier,
    SmoothBinning,
    load,
    save,
)
from gramless.base.errors import InputError
from gramless.base.memory import VARIABLE
from gramless.inspection.explanation import input_columns

ROWS = np.random.default_rng(0).normal(size=(60, 2))
TARGETS = ROWS[:, 0]


@pytest.fixture
def _a_gigabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1e9")


HUGE = [
    (RandomBinning(n_grids=10**6), "n_grids"),
    (SmoothBinning(n_grids=10**6), "n_grids"),
    (GrownBinning(n_grids=10**6), "n_grids"),
    (RandomFourier(n_components=10**9), "n_components"),
    (RandomFourier(n_components=10**9, sampling="structured"), "n_components"),
    (Hybrid([Nystrom(), RandomBinning(n_grids=10**6)]), "n_grids"),
    (KernelRegressor(n_grids=10**6), "n_grids"),
    (KernelRegressor(n_grids=10**6, grids="grown"), "n_grids"),
    (KernelClassifier("smooth", n_grids=10**6), "n_grids"),
    (KernelRegressor(RandomBinning(n_grids=10**6)), "n_grids"),
    (KernelRegressor(n_posterior=10**7), "n_posterior"),
]


@pytest.mark.parametrize(("model", "parameter"), HUGE, ids=repr)
@pytest.mark.usefixtures("_a_gigabyte")
def test_models_that_exceed_memory_are_rejected_within_a_second(model: Any, parameter: str) -> None:
    begun = time.process_time()
    with pytest.raises(InputError, match=parameter):
        model.fit(ROWS, np.sign(TARGETS))
    assert time.process_time() - begun < 1.0


@pytest.mark.usefixtures("_a_gigabyte")
def test_memory_error_states_need_limit_and_remedy() -> None:
    with pytest.raises(InputError) as refused:
        RandomBinning(n_grids=10**6).fit(ROWS)
    message = (
        "RandomBinning: n_grids=1,000,000 for 60 rows of 2 inputs would need 24.2 GB of memory"
    )
    message += f", and 1 GB may be used, all of {VARIABLE}: lower n_grids"
    assert str(refused.value).startswith(message)


@pytest.mark.usefixtures("_a_gigabyte")
def test_kernel_matrices_that_exceed_memory_are_rejected() -> None:
    many = np.zeros((12_000, 1))
    for model in (ExactKernel(), Nystrom(n_components=12_000)):
        with pytest.raises(InputError, match="12,000 rows of 1 inputs would need"):
            model.fit(many)
    Nystrom(n_components=12_000).fit(many[:50])


@pytest.mark.usefixtures("_a_gigabyte")
def test_transform_rejects_features_that_exceed_memory() -> None:
    waves = RandomFourier(n_components=10**6, random_state=0).fit(ROWS)
    with pytest.raises(InputError, match="transform fewer rows at a time"):
        waves.transform(np.zeros((1000, 2)))


def test_classes_whose_fit_exceeds_memory_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(12_000, 2))
    monkeypatch.setenv(VARIABLE, "2 GB")
    with pytest.raises(InputError, match="5,000 classes of 12,000 rows would need"):
        KernelClassifier().fit(rows, np.arange(12_000) % 5000)
    monkeypatch.setenv(VARIABLE, "100 MB")
    model = KernelClassifier(bandwidth=0.01, alpha=1e-3, n_grids=48, random_state=0)
    with pytest.raises(InputError, match="A fit of 100 outputs over .* fit fewer outputs or cl"):
        model.fit(rows[:1000], np.arange(1000) % 100)


@pytest.mark.usefixtures("_a_gigabyte")
def test_posterior_draws_that_exceed_memory_are_rejected() -> None:
    model = KernelRegressor(n_posterior=100_000, n_grids=64, bandwidth=0.01, alpha=0.1)
    with pytest.raises(InputError, match=r"Posterior: 100,000 draws of .* lower n_posterior"):
        model.fit(ROWS, TARGETS)


def test_classifier_rejects_labels_with_a_decimal_comma() -> None:
    rows = np.random.default_rng(0).normal(size=(400, 2))
    targets = np.array([f"{value:.3f}".replace(".", ",") for value in rows[:, 0]])
    with pytest.raises(InputError, match="look like numbers.*decimal comma.*KernelRegressor"):
        KernelClassifier().fit(rows, targets)


def test_classifier_rejects_hundreds_of_classes_with_one_row() -> None:
    rows = np.random.default_rng(0).normal(size=(400, 2))
    names = np.array([f"customer {chr(97 + k // 26)}{chr(97 + k % 26)}" for k in range(400)])
    with pytest.raises(InputError, match=r"400 classes of 400 rows: most have one row.*merge"):
        KernelClassifier().fit(rows, names)


@pytest.mark.parametrize("weighted", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_time_budget_limits_the_number_of_rows(weighted: bool) -> None:
    n_rows, n_classes = 3000, 150
    rows = np.random.default_rng(0).normal(size=(n_rows, 2))
    weight = np.where(np.arange(n_rows) % 2, 1.0, 3.0) if weighted else None
    model = KernelClassifier(time_budget=0.3, random_state=0)
    model.fit(rows, np.arange(n_rows) % n_classes, sample_weight=weight)
    assert model.limits_[0] == "time: 1200 of 3000 rows"
    assert len(model.classes_) == n_classes
    assert model.predict_proba(rows[:5]).shape == (5, n_classes)


def test_time_budget_skips_kernel_ridge_regression_over_many_inputs() -> None:
    rows = np.random.default_rng(0).normal(size=(600, 1500))
    model = KernelRegressor(time_budget=0.5, random_state=0).fit(rows, rows[:, 0])
    assert "time: the trial of kernel ridge regression was cut short" in model.limits_
    assert model.settings_.grids == "grown"


@pytest.mark.slow
def test_time_budget_subsamples_groups_with_their_rows() -> None:
    n_rows, n_classes = 3000, 150
    rows = np.random.default_rng(0).normal(size=(n_rows, 2))
    model = KernelClassifier(time_budget=0.3, scoring="accuracy", cv=3, random_state=0)
    model.fit(rows, np.arange(n_rows) % n_classes, groups=np.arange(n_rows) // 2)
    assert model.limits_[0] == "time: 1200 of 3000 rows"


INTEGERS = [
    (RandomBinning(n_grids=2**70), "n_grids"),
    (RandomFourier(n_components=2**64), "n_components"),
    (Nystrom(n_components=2**63), "n_components"),
    (ExactKernel(max_rows=2**80), "max_rows"),
    (GrownBinning(n_grids=2**70), "n_grids"),
    (KernelRegressor(n_grids=2**70), "n_grids"),
    (KernelRegressor(max_iter=2**70), "max_iter"),
    (KernelRegressor(n_posterior=2**70), "n_posterior"),
    (DoublyStochasticRegressor(block_size=2**70), "block_size"),
]


@pytest.mark.parametrize(("model", "parameter"), INTEGERS, ids=repr)
def test_integers_beyond_64_bits_are_rejected(model: Any, parameter: str) -> None:
    with pytest.raises(InputError, match=f"{parameter} must be an integer.*(2\\*\\*63|100,000)"):
        model.fit(ROWS, TARGETS)


@pytest.mark.parametrize("name", ["alpha", "tol", "bandwidth", "l1_ratio", "time_budget"])
def test_integers_beyond_the_float_range_are_rejected(name: str) -> None:
    with pytest.raises(InputError, match=name):
        KernelRegressor(**{name: 10**400}).fit(ROWS, TARGETS)


def wide(n_rows: int = 60, n_columns: int = 200_000) -> tuple[sp.csr_array, np.ndarray]:
    rows = sp.csr_array(sp.random(n_rows, n_columns, density=1e-4, random_state=0))
    return rows, np.asarray(rows.sum(axis=1)).ravel()


@cache
def fitted_to_wide_rows() -> KernelRegressor:
    return KernelRegressor(n_grids=16, random_state=0).fit(*wide())


def test_empty_columns_of_wide_sparse_rows_are_dropped() -> None:
    rows, targets = wide()
    used, model = np.unique(rows.indices), fitted_to_wide_rows()
    np.testing.assert_array_equal(model.inputs_.kept, used)
    assert model.features_.widths_.shape == (16, len(used))
    drawn = KernelRegressor(n_grids=16, grids="random", random_state=0)
    dense_part = drawn.fit(rows[:, used].toarray(), targets)
    assert dense_part.features_.widths_.shape == model.features_.widths_.shape
    others = rows.copy()
    others.indices = np.setdiff1d(np.arange(rows.shape[1]), used)[: rows.nnz].astype(np.int32)
    nothing = model.predict(sp.csr_array(rows.shape))
    np.testing.assert_array_equal(model.predict(others), nothing)


@pytest.mark.slow
def test_default_draws_fewer_grids_over_many_inputs() -> None:
    rows, targets = wide(300, 60_000)
    model = KernelRegressor(bandwidth=1.0, alpha=0.1, scaling="none", random_state=0)
    assert model.fit(rows, targets).features_.widths_.size <= 1 << 22


def test_sparse_rows_of_a_thousand_columns_keep_them_all() -> None:
    rows, targets = wide(60, 1000)
    model = KernelRegressor(n_grids=8, random_state=0, memory_budget="1.5 MB")
    model.fit(rows, targets)
    assert model.inputs_.gaps is None
    assert model.inputs_.kept is None
    assert model.features_.widths_.shape == (8, 1000)


@pytest.mark.slow
def test_saved_models_of_wide_rows_predict_the_same_and_name_all_columns(tmp_path: Path) -> None:
    rows, model = wide()[0], fitted_to_wide_rows()
    save(model, tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    kept = model.inputs_.kept
    columns = input_columns(model)
    assert columns[f"x{kept[3] + 1}"].tolist() == [3]
    assert len(columns) == rows.shape[1]


def test_bandwidth_per_column_matches_one_bandwidth_on_wide_rows() -> None:
    rows, targets = wide()
    given = np.ones(rows.shape[1])
    one = KernelRegressor(bandwidth=1.0, n_grids=8, random_state=0).fit(rows, targets)
    many = KernelRegressor(bandwidth=given, n_grids=8, random_state=0).fit(rows, targets)
    np.testing.assert_array_equal(one.predict(rows), many.predict(rows))
    with pytest.raises(InputError, match="200000, one per input"):
        KernelRegressor(bandwidth=given[:-1], n_grids=8).fit(rows, targets)


def test_empty_wide_rows_are_predicted_by_the_mean() -> None:
    model = KernelRegressor(n_grids=8, random_state=0).fit(sp.csr_array((5, 2000)), np.arange(5))
    np.testing.assert_allclose(model.predict(sp.csr_array((2, 2000))), 2.0)
