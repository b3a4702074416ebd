"""Fits in a memory budget: bitwise the same model, and a report of the memory used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gramless import KernelClassifier, KernelRegressor
from gramless.base import memory
from gramless.base.errors import InputError
from gramless.matrices import stored
from gramless.preprocessing import scaling

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(2500, 5))
NUMBERS = np.sin(2 * ROWS[:, 0]) + ROWS[:, 1] * ROWS[:, 2] + 0.1 * rng.normal(size=2500)
CLASSES = np.digitize(NUMBERS, [-0.5, 0.7])

GIVEN = {"bandwidth": 2.0, "n_grids": 16, "scaling": "standard", "random_state": 0}
FITS = [
    (KernelRegressor(effort=1, random_state=0), NUMBERS),
    (KernelRegressor(loss="huber", alpha=1e-4, **GIVEN), NUMBERS),
    pytest.param(KernelRegressor(loss="huber", **GIVEN), NUMBERS, marks=pytest.mark.slow),
    (KernelRegressor(bandwidth=2.0, alpha=1e-4, n_grids=32, random_state=0), NUMBERS),
    pytest.param(KernelClassifier(effort=1, random_state=0), CLASSES, marks=pytest.mark.slow),
]


@pytest.fixture
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything outgrow a budget, and blocks be small."""
    monkeypatch.setattr(memory, "_CODES_SHARE", 1e-5)
    monkeypatch.setattr(stored, "_MIN_ROWS", 512)
    monkeypatch.setattr(stored, "_MAX_ROWS", 512)
    monkeypatch.setattr(scaling, "_MAX_COPIED_NUMBERS", 1000)


@pytest.mark.parametrize(
    ("model", "targets"), FITS, ids=["grown", "newton", "searched", "given", "classes"]
)
@pytest.mark.usefixtures("_little")
def test_codes_on_disk_give_the_same_model(model, targets) -> None:
    expected = model.fit(ROWS, targets)
    assert expected.limits_ == []
    coef, predicted = expected.weights_, expected.predict(ROWS[:100])
    result = model.set_params(memory_budget="500 MB").fit(ROWS, targets)
    assert [line.partition(" codes")[0] for line in result.limits_] == ["memory:"]
    assert result.limits_[0].endswith("on the disk")
    np.testing.assert_array_equal(result.weights_, coef)
    np.testing.assert_array_equal(result.predict(ROWS[:100]), predicted)
    model.set_params(memory_budget=None)


@pytest.mark.usefixtures("_little")
def test_memory_budget_rejects_grid_descent_that_exceeds_it() -> None:
    model = KernelRegressor(bandwidth=1.0, n_grids=16, l1_ratio=0.5, memory_budget="500 MB")
    with pytest.raises(InputError, match="l1_ratio=0"):
        model.fit(ROWS, NUMBERS)


def test_invalid_memory_budgets_are_rejected() -> None:
    for given in ["4 apples", -1, 0, "GB", np.nan, True, "1e400"]:
        with pytest.raises(InputError, match="KernelRegressor: memory_budget: a number of bytes"):
            KernelRegressor(memory_budget=given).fit(ROWS, NUMBERS)  # type: ignore[arg-type]


def test_memory_budget_is_reset_after_a_failed_fit() -> None:
    before = memory.fit_memory_limit()
    with pytest.raises(InputError, match="infinity"):
        KernelRegressor(memory_budget="1GB").fit(np.full((9, 1), np.inf), np.zeros(9))
    assert before is memory.fit_memory_limit() is None


@pytest.mark.slow
def test_memory_budget_limits_grids_of_many_classes() -> None:
    classes = np.argmin(((ROWS[:, None] - ROWS[:40]) ** 2).sum(axis=2), axis=1)
    model = KernelClassifier(effort=1, grids="grown", random_state=0)
    plenty = model.fit(ROWS, classes)
    assert plenty.limits_ == []
    n_columns = len(plenty.weights_)
    few = model.set_params(memory_budget="20 MB").fit(ROWS, classes)
    assert few.limits_ == ["memory: fewer grids, so that the weights of 40 outputs fit"]
    assert 46 * 40 * len(few.weights_) + 80 * 40 * 2500 <= 20e6
    assert len(few.weights_) < n_columns
    with pytest.raises(InputError, match="40 outputs of 2,500 rows would need"):
        model.set_params(memory_budget="7 MB").fit(ROWS, classes)


def test_mapped_rows_give_the_same_model(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    model = KernelRegressor(bandwidth=3.0, alpha=1e-5, n_grids=8, random_state=0)
    expected = model.fit(ROWS, NUMBERS).weights_
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model.set_params(memory_budget="100 MB").fit(mapped, NUMBERS)
    np.testing.assert_array_equal(model.weights_, expected)
