"""Other numbers for bins against NumPy's indexing."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.loops.renumber import renumber


@pytest.mark.parametrize(
    ("old", "new"), [(np.uint8, np.uint16), (np.uint16, np.uint32), (np.uint32, np.uint8)]
)
def test_renumber_matches_the_slow_implementation(old, new):
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 200, 1000).astype(old)
    numbers = generator.permutation(256)[:200].astype(new)
    out = np.empty(1000, new)
    renumber(codes, numbers, out)
    np.testing.assert_array_equal(out, numbers[codes])
