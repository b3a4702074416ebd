"""Weighted quantiles against sorted copies of the rows, and a scale that outliers hardly change."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramless.base.quantiles import robust_centre, robust_scale, weighted_quantiles
from gramless.base.types import FloatArray


def column(draw_from: int = 0, n: int = 4000) -> FloatArray:
    return np.random.default_rng(draw_from).normal(5.0, 2.0, size=n)


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 4)), min_size=1, max_size=12),
    st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9]),
)
def test_weighted_quantile_equals_that_of_repeated_rows(
    rows: list[tuple[int, int]], level: float
) -> None:
    values, counts = np.array(rows, float).T
    repeated = np.sort(np.repeat(values, counts.astype(int)))
    rank = math.ceil(level * len(repeated) - 1e-6) - 1
    assert weighted_quantiles(values, level, counts) == repeated[max(rank, 0)]


def test_unit_of_weights_does_not_change_quantiles() -> None:
    values = column(n=100)
    for level in np.arange(0.05, 1.0, 0.05):
        expected = weighted_quantiles(values, level)
        for unit in (0.1, 3.0, 1e-9):
            assert weighted_quantiles(values, level, np.full(100, unit)) == expected


def test_levels_apply_to_columns() -> None:
    values = np.column_stack([column(0), column(1)])
    result = weighted_quantiles(values, [0.2, 0.9])
    assert result.tolist() == [
        weighted_quantiles(values[:, 0], 0.2),
        weighted_quantiles(values[:, 1], 0.9),
    ]


def test_robust_scale_of_normal_numbers_is_their_deviation() -> None:
    assert robust_scale(column()) == pytest.approx(2.0, rel=0.05)
    assert robust_centre(column()) == pytest.approx(5.0, rel=0.05)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_ten_percent_of_outliers_hardly_change_robust_scale(sign: float) -> None:
    values = column()
    values[:400] = sign * 1e12
    assert robust_scale(values) == pytest.approx(2.0, rel=0.25)


def test_mostly_equal_values_are_scaled_by_the_rest() -> None:
    values = np.append(np.zeros(80), np.linspace(1.0, 3.0, 21))
    assert robust_scale(values) == pytest.approx(2.0 / 0.6745, rel=1e-4)
    both = robust_scale(np.column_stack([values, np.ones(len(values))]))
    assert both[1] == 1.0
    assert both[0] == robust_scale(values)
