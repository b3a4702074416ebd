"""Sums of multiples of a power of two against a NumPy reference."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gramless.loops import fixed_point


@given(arrays(float, st.integers(0, 9), elements=st.floats(-1e3, 1e3)), st.integers(-3, 45))
def test_add_multiples_matches_the_slow_implementation(values, exponent):
    total = np.arange(len(values))
    expected = total + np.rint(np.ldexp(values, exponent)).astype(np.int64)
    fixed_point.add_multiples(values, 2.0**exponent, total)
    np.testing.assert_array_equal(total, expected)
