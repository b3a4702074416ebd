"""Numbers near the ends of double precision: finite predictions, or an error that says which."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gramless import DoublyStochasticRegressor, KernelRegressor
from gramless.base.errors import InputError
from gramless.features.median import median_distance
from gramless.features.scaling import Scaler

ROWS = np.random.default_rng(0).normal(size=(80, 3))
TARGETS = np.sin(ROWS[:, 0])


def test_blocks_of_rows_with_a_constant_input() -> None:
    rows = np.column_stack([ROWS, np.full(80, 3.0)])
    model = KernelRegressor("blocks", relevance="learned", random_state=0).fit(rows, TARGETS)
    assert np.isfinite(model.predict(rows)).all()
    constant = KernelRegressor("blocks", random_state=0).fit(np.ones((60, 2)), TARGETS[:60])
    assert np.isfinite(constant.predict(rows[:2, :2])).all()


@pytest.mark.parametrize("largest", [1e308, -1.5e308])
def test_targets_whose_predictions_might_be_infinite_are_refused(largest: float) -> None:
    targets = np.append(TARGETS[1:], largest)
    with pytest.raises(InputError, match=r"targets reach -?1\S+, and .* divide them by"):
        KernelRegressor(random_state=0).fit(ROWS, targets)


def test_targets_of_1e300_are_predicted() -> None:
    model = KernelRegressor(n_grids=64, random_state=0)
    predicted = model.fit(ROWS, 1e300 * TARGETS).predict(ROWS)
    np.testing.assert_allclose(
        1e-300 * predicted, model.fit(ROWS, TARGETS).predict(ROWS), rtol=1e-6
    )


@pytest.mark.parametrize("size", [1e-300, 2.0**-600, 1e200])
def test_distances_whose_squares_are_no_numbers(size: float) -> None:
    usual = median_distance(ROWS, 0, metric="euclidean")
    for rows in (ROWS, sp.csr_array(ROWS)):
        found = median_distance(rows * size, 0, metric="euclidean")
        assert found == pytest.approx(usual * size, rel=1e-9)


def test_inputs_that_cannot_be_divided_by_their_deviation_are_refused() -> None:
    with pytest.raises(InputError, match=r"Input 1 has a standard deviation of .*e-31\d"):
        Scaler.fit("standard", ROWS * [1.0, 1e-312, 1.0])
    assert Scaler.fit("standard", ROWS * [1.0, 1e-300, 1.0]).unit[1] > 0


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_streams_refuse_inputs_that_look_constant(make: type) -> None:
    rows = np.where(ROWS > 0, ROWS, 0.0) * [1.0, 1e-300, 1.0]
    with pytest.raises(InputError, match="Column 1 has numbers that differ by so little"):
        DoublyStochasticRegressor(max_steps=2).fit(make(rows), TARGETS)


def test_streams_take_constant_inputs() -> None:
    rows = np.column_stack([ROWS, np.full(80, 1e-200), np.zeros(80)])
    model = DoublyStochasticRegressor(max_steps=2, random_state=0).fit(rows, TARGETS)
    assert np.isfinite(model.predict(rows)).all()
