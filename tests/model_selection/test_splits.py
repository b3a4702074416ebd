"""Held-back rows: disjoint, complete, of the right size, named by the seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramless.model_selection.splits import (
    drawn_rows,
    group_folds,
    held_back_splits,
    holdout_splits,
)

ENOUGH_FOR_ONE_SPLIT = 4000


@given(n_rows=st.integers(8, 9000), size=st.integers(8, 9000), seed=st.integers(0, 2**31 - 1))
def test_parts_are_disjoint_sorted_and_as_large_as_asked(n_rows: int, size: int, seed: int) -> None:
    drawn = min(n_rows, size)
    splits = holdout_splits(n_rows, size, seed)
    assert len(splits) == (1 if drawn >= ENOUGH_FOR_ONE_SPLIT else 4)
    for training, validation in splits:
        both = np.concatenate([training, validation])
        assert len(np.unique(both)) == len(both) == drawn
        assert both.min() >= 0
        assert both.max() < n_rows
        assert abs(len(validation) - drawn / 4) < 1
        assert (np.diff(training) > 0).all()
        assert (np.diff(validation) > 0).all()


@pytest.mark.parametrize("n_rows", [40, 101, 3999])
def test_folds_hold_back_every_drawn_row_once(n_rows: int) -> None:
    splits = holdout_splits(n_rows, 10_000, seed=0)
    held_back = np.concatenate([validation for _, validation in splits])
    np.testing.assert_array_equal(np.sort(held_back), np.arange(n_rows))


def test_the_seed_names_the_rows() -> None:
    first, again, other = (holdout_splits(500, 100, seed) for seed in (1, 1, 2))
    for (a, b), (c, d) in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)
    assert not np.array_equal(first[0][1], other[0][1])


def test_rows_are_drawn_from_everywhere() -> None:
    _, validation = holdout_splits(100_000, 8000, seed=0)[0]
    shares = np.histogram(validation, bins=10, range=(0, 100_000))[0] / len(validation)
    np.testing.assert_allclose(shares, 0.1, atol=0.03)


# Classes and groups.


def test_a_class_of_two_rows_is_on_both_sides() -> None:
    classes = np.zeros(5000, np.int64)
    order = held_back_splits(5000, 3)[0][0]
    classes[order[:2]] = 1
    for split in (held_back_splits(5000, 3, classes)[0], holdout_splits(5000, 5000, 3, classes)[0]):
        assert all(1 in classes[side] for side in split)
    few = np.zeros(100, np.int64)
    few[:5] = 1
    assert all(1 in few[held_back] for _, held_back in held_back_splits(100, 0, few))


def test_splits_that_have_all_classes_stay_as_they_are() -> None:
    classes = np.arange(3000) % 3
    for plain, told in zip(
        held_back_splits(3000, 1), held_back_splits(3000, 1, classes), strict=True
    ):
        np.testing.assert_array_equal(plain[1], told[1])


@given(seed=st.integers(0, 99), n_groups=st.integers(2, 12), n_folds=st.integers(2, 6))
def test_group_folds_part_no_group(seed: int, n_groups: int, n_folds: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = np.append(np.arange(n_groups), rng.geometric(0.4, 100) % n_groups)
    classes = (rng.random(len(drawn)) < 0.1).astype(np.int64)
    folds = group_folds(drawn, n_folds, seed, classes)
    assert 2 <= len(folds) <= n_folds
    np.testing.assert_array_equal(
        np.sort(np.concatenate([held_back for _, held_back in folds])), np.arange(len(drawn))
    )
    for training, held_back in folds:
        assert len(np.intersect1d(drawn[training], drawn[held_back])) == 0
        assert len(training) > 0


@given(seed=st.integers(0, 2**32), size=st.integers(8, 299), n_rare=st.integers(2, 30))
def test_drawn_rows_have_each_class_in_its_share(seed: int, size: int, n_rare: int) -> None:
    classes = np.zeros(300, np.int64)
    classes[np.random.default_rng(seed).permutation(300)[:n_rare]] = 1
    drawn = drawn_rows(300, size, seed, classes)
    assert len(drawn) == size
    assert (np.diff(drawn) > 0).all()
    counts = np.bincount(classes[drawn], minlength=2)
    expected = size / 300 * np.bincount(classes)
    assert (np.abs(counts - expected) <= 1.0).all()
    assert counts.min() >= 1


def test_drawn_rows_of_numbers_are_those_of_any_draw() -> None:
    drawn = drawn_rows(10_000, 100, seed=3)
    assert 4000 < drawn.mean() < 6000
    assert len(np.unique(drawn)) == 100
    np.testing.assert_array_equal(drawn, drawn_rows(10_000, 100, seed=3))
