"""Sums that do not depend on the order or grouping of their terms."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gramless.distributed.sums import (
    add_sums,
    exponent_of,
    fixed_sum,
    sum_as_floats,
)

FINITE = st.floats(-1e6, 1e6)


@given(st.lists(arrays(float, (3, 2), elements=FINITE), min_size=1, max_size=9), st.randoms())
def test_fixed_sums_do_not_depend_on_order_or_grouping(parts, random):
    exponent = exponent_of(sum(float(np.abs(part).max()) for part in parts))
    whole = fixed_sum(parts, exponent)
    shuffled = list(parts)
    random.shuffle(shuffled)
    cut = random.randrange(len(parts) + 1)
    halves = fixed_sum(shuffled[:cut], exponent), fixed_sum(shuffled[cut:], exponent)
    np.testing.assert_array_equal(add_sums(halves), whole)


@given(st.lists(arrays(float, 4, elements=FINITE), min_size=1, max_size=9))
def test_fixed_sums_are_precise_to_60_bits_of_the_bound(parts):
    bound = sum(float(np.abs(part).max()) for part in parts)
    exponent = exponent_of(bound)
    result = sum_as_floats(fixed_sum(parts, exponent), exponent)
    # Each part is rounded once to a unit of 2**-61 of at most twice the bound, or 2**-1000.
    allowed = len(parts) * max(bound * 2.0**-60, 2.0**-1000)
    allowed = allowed + 2**-50 * np.abs(parts).sum(axis=0)
    assert (np.abs(result - np.sum(parts, axis=0)) <= allowed).all()


def test_empty_sum_is_none():
    assert fixed_sum([], 3) is None
    assert add_sums([None, None]) is None
