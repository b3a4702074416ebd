"""Values of windows inside cells against a slow reference implementation."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.loops.windows import window_values

PARABOLA = np.array([1.25, -3.0])
LARGEST = float(np.finfo(np.float32).max)


def values(columns, inverse, shifts, coefficients=PARABOLA, largest=LARGEST, kind=np.float32):
    out = np.full((len(inverse), columns.shape[1]), np.nan, kind)
    window_values(columns, inverse, shifts, coefficients, largest, out)
    return out


def reference(columns, inverse, shifts, coefficients) -> NDArray[np.float64]:
    """Write the definition out, a row at a time."""
    out = np.empty((len(inverse), columns.shape[1]))
    for r in range(len(inverse)):
        for i in range(columns.shape[1]):
            value = 1.0
            for j in range(len(columns)):
                if inverse[r, j] > 0:
                    place = (columns[j, i] - shifts[r, j]) * inverse[r, j]
                    u = place - math.floor(place) - 0.5
                    value *= sum(c * u ** (2 * k) for k, c in enumerate(coefficients))
            out[r, i] = value
    return out


def draw(seed, n_grids, n_columns, n_rows):
    rng = np.random.default_rng(seed)
    inverse = rng.gamma(2.0, size=(n_grids, n_columns))
    inverse[rng.random(inverse.shape) < 0.2] = 0.0
    return rng.normal(size=(n_columns, n_rows)), inverse, rng.random((n_grids, n_columns))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 40),
    st.lists(st.floats(-2, 2), min_size=2, max_size=6),
)
def test_values_match_the_slow_implementation(seed, n_grids, n_columns, n_rows, coefficients):
    drawn = draw(seed, n_grids, n_columns, n_rows)
    result = values(*drawn, np.array(coefficients), kind=np.float64)
    np.testing.assert_allclose(result, reference(*drawn, coefficients), rtol=1e-12, atol=1e-12)


def test_blocks_of_rows_do_not_change_values():
    cuts = 0, 1, 511, 512, 513, 700, 1300
    columns, inverse, shifts = draw(1, 3, 5, 1300)
    whole = values(columns, inverse, shifts)
    parts = [
        values(np.ascontiguousarray(columns[:, a:b]), inverse, shifts) for a, b in pairwise(cuts)
    ]
    assert np.concatenate(parts, axis=1).tobytes() == whole.tobytes()


def test_edge_of_a_cell_belongs_to_its_cell():
    """A window that is not even would jump here: both edges are the same number."""
    rng = np.random.default_rng(2)
    shifts, inverse = rng.random((1, 1)), rng.gamma(2.0, size=(1, 1))
    edges = shifts[0, 0] + np.arange(-50, 50) / inverse[0, 0]
    edge = PARABOLA[0] + PARABOLA[1] / 4
    np.testing.assert_allclose(values(edges[None], inverse, shifts), edge, rtol=1e-6)


def test_overflowing_values_are_clipped():
    columns, inverse, shifts = np.zeros((4, 1)), np.ones((2, 4)), np.full((2, 4), 0.5)
    steep = np.array([100.0, 0.0])
    assert values(columns, inverse, shifts, steep, 65504.0).tolist() == [[65504.0]] * 2
    assert values(columns, inverse, shifts, steep).tolist() == [[1e8]] * 2


def test_numbers_beyond_all_cells_have_value_one():
    result = values(np.array([[1e300, -1e300]]), np.array([[1e10]]), np.zeros((1, 1)))
    assert result.tolist() == [[1.0, 1.0]]


def test_strided_grids_match():
    columns, inverse, shifts = draw(3, 4, 2, 30)
    out = np.full((4, 50), np.nan, np.float32)
    window_values(columns, inverse, shifts, PARABOLA, LARGEST, out[:, 10:40])
    np.testing.assert_array_equal(out[:, 10:40], values(columns, inverse, shifts))
    assert np.isnan(out[:, :10]).all()
    assert np.isnan(out[:, 40:]).all()
