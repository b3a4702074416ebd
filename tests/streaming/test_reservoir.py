"""Draws of rows and reservoir sampling."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from gramless.streaming.reservoir import Reservoir, row_draws


@given(st.lists(st.integers(0, 20), max_size=8))
def test_draws_do_not_depend_on_chunks(sizes: list[int]) -> None:
    bounds = np.minimum(np.cumsum([0, *sizes, 50]), 50)
    whole = row_draws(3, "example", np.arange(50), block_size=8)
    parts = [row_draws(3, "example", np.arange(a, b), block_size=8) for a, b in pairwise(bounds)]
    assert_array_equal(np.concatenate(parts), whole)


def test_samples_do_not_depend_on_chunks() -> None:
    numbers = np.arange(10_000)
    reservoirs = [Reservoir(30, seed=1, purpose="example") for _ in range(2)]
    reservoirs[0].add(numbers[:, None], numbers, numbers)
    for part in np.split(numbers, [4000, 4100, 8193]):
        reservoirs[1].add(part[:, None], part, part)
    smallest = np.sort(np.argsort(row_draws(1, "example", numbers))[:30])
    for reservoir in reservoirs:
        assert_array_equal(reservoir.rows()[1], smallest)
