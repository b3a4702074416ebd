"""Coverage by groups against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.inspection.coverage import conditional_coverage


def test_coverage_is_grouped_by_width_or_given_values() -> None:
    rng = np.random.default_rng(0)
    scale = np.repeat([1.0, 3.0], 50)[rng.permutation(100)]
    y, other = scale * rng.normal(size=100), rng.normal(size=100)
    groups = conditional_coverage(y, -scale, scale, n_groups=2)
    for group, members in zip(groups, (scale == 1.0, scale == 3.0), strict=True):
        assert group.covered == np.mean(np.abs(y[members]) <= scale[members])
        assert (group.n_rows, group.width) == (50, 2.0 * scale[members][0])
    low = other <= np.median(other)
    first = conditional_coverage(y, -scale, scale, other, n_groups=2)[0]
    assert first.covered == np.mean(np.abs(y[low]) <= scale[low])
    assert first.most == other[low].max()


def test_equal_widths_are_grouped_by_midpoints() -> None:
    middles = np.array([3.0, 1.0, 2.0])
    groups = conditional_coverage(middles, middles - 1.0, middles + 1.0, n_groups=3)
    assert [group.least for group in groups] == [1.0, 2.0, 3.0]


def test_different_lengths_are_rejected() -> None:
    with pytest.raises(InputError, match="of equal length"):
        conditional_coverage([1.0, 2.0], [0.0], [3.0])


@pytest.mark.parametrize("by", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]]])
def test_groups_need_one_value_for_each_row(by) -> None:
    with pytest.raises(InputError, match="by must have one number for each of the 2 rows"):
        conditional_coverage([1.0, 2.0], [0.0, 0.0], [3.0, 3.0], by=by)


def test_rows_and_groups_are_needed() -> None:
    with pytest.raises(InputError, match="at least one row"):
        conditional_coverage([], [], [])
    with pytest.raises(InputError, match="n_groups must be an integer, at least 1"):
        conditional_coverage([1.0], [0.0], [2.0], n_groups=0)
