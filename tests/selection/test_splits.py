"""Splits of rows: disjoint, complete, of the right size, and parting no rows drawn together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless import KernelClassifier, RandomBinning
from gramless.selection.bandwidth_search import Sample
from gramless.selection.data import Data
from gramless.selection.splits import (
    all_rows,
    drawn_rows,
    group_folds,
    kept_together,
    matched_rows,
    search_splits,
    shuffled,
    validation_splits,
)

from .tasks import make_task

Array = NDArray[np.float64]
ENOUGH_FOR_ONE_SPLIT = 4000


@given(n_rows=st.integers(8, 9000), size=st.integers(8, 9000), seed=st.integers(0, 2**31 - 1))
def test_search_splits_are_disjoint_sorted_and_of_the_given_size(
    n_rows: int, size: int, seed: int
) -> None:
    drawn = min(n_rows, size)
    splits = search_splits(n_rows, size, seed)
    assert len(splits) == (1 if drawn >= ENOUGH_FOR_ONE_SPLIT else 4)
    for training, validation in splits:
        both = np.concatenate([training, validation])
        assert len(np.unique(both)) == len(both) == drawn
        assert both.min() >= 0
        assert both.max() < n_rows
        assert abs(len(validation) - drawn / 4) < 1
        assert (np.diff(training) > 0).all()
        assert (np.diff(validation) > 0).all()
    if len(splits) > 1:
        held_back = np.concatenate([validation for _, validation in splits])
        np.testing.assert_array_equal(np.sort(held_back), np.union1d(*splits[0]))


def test_seed_decides_the_rows() -> None:
    first, again, other = (search_splits(500, 100, seed) for seed in (1, 1, 2))
    for (a, b), (c, d) in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)
    assert not np.array_equal(first[0][1], other[0][1])


# Classes and groups.


def test_class_of_two_rows_is_on_both_sides() -> None:
    classes = np.zeros(5000, np.int64)
    order = validation_splits(5000, 3)[0][0]
    classes[order[:2]] = 1
    for split in (validation_splits(5000, 3, classes)[0], search_splits(5000, 5000, 3, classes)[0]):
        assert all(1 in classes[side] for side in split)
    few = np.zeros(100, np.int64)
    few[:5] = 1
    assert all(1 in few[held_back] for _, held_back in validation_splits(100, 0, few))


def test_classes_do_not_change_splits_that_contain_all() -> None:
    classes = np.arange(3000) % 3
    for plain, stratified in zip(
        validation_splits(3000, 1), validation_splits(3000, 1, classes), strict=True
    ):
        np.testing.assert_array_equal(plain[1], stratified[1])


@given(seed=st.integers(0, 99), n_groups=st.integers(2, 12), n_folds=st.integers(2, 6))
def test_group_folds_divide_no_group(seed: int, n_groups: int, n_folds: int) -> None:
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
def test_drawn_rows_keep_class_proportions(seed: int, size: int, n_rare: int) -> None:
    classes = np.zeros(300, np.int64)
    classes[np.random.default_rng(seed).permutation(300)[:n_rare]] = 1
    drawn = drawn_rows(300, size, seed, classes)
    assert len(drawn) == size
    assert (np.diff(drawn) > 0).all()
    counts = np.bincount(classes[drawn], minlength=2)
    expected = size / 300 * np.bincount(classes)
    assert (np.abs(counts - expected) <= 1.0).all()
    assert counts.min() >= 1


def test_drawn_rows_without_classes_are_uniform() -> None:
    drawn = drawn_rows(10_000, 100, seed=3)
    assert 4000 < drawn.mean() < 6000
    assert len(np.unique(drawn)) == 100
    np.testing.assert_array_equal(drawn, drawn_rows(10_000, 100, seed=3))


def data_of(X: Array, y: Array) -> Data:
    return make_task(X, y).data


def matched(
    n_sets: int, n_controls: int = 2, n_shared: int = 6, seed: int = 0
) -> tuple[Array, Array, NDArray[np.intp]]:
    """Return cases, each with controls that share all inputs but the first, in random order."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_sets), n_controls + 1)
    y = np.where(np.arange(len(groups)) % (n_controls + 1) == 0, 1.0, -1.0)
    shared = rng.normal(size=(n_sets, n_shared))[groups]
    X = np.column_stack([0.8 * y + rng.normal(size=len(y)), shared])
    order = rng.permutation(len(y))
    return X[order], y[order], groups[order]


def same_groups(one: NDArray[np.intp], other: NDArray[np.intp]) -> bool:
    pairs = {(int(a), int(b)) for a, b in zip(one, other, strict=True)}
    return len(pairs) == len(set(one.tolist())) == len(set(other.tolist()))


# Which rows were drawn together.


@pytest.mark.parametrize(
    ("n_controls", "dtype", "at"), [(1, np.float32, 0), (2, np.float64, 3), (4, np.float32, 6)]
)
def test_matched_rows_finds_cases_and_controls(n_controls: int, dtype: type, at: int) -> None:
    X, y, groups = matched(400, n_controls)
    X = np.insert(X[:, 1:], at, X[:, 0], axis=1).astype(dtype)
    result = matched_rows(data_of(X, y))
    assert same_groups(result, groups)


def test_matched_rows_groups_all_rows_of_large_tables() -> None:
    X, y, groups = matched(20_000)
    result = matched_rows(data_of(X, y))
    assert same_groups(result, groups)


def test_matched_rows_treats_signed_zeros_as_equal() -> None:
    X, y, groups = matched(300)
    X[:, 1] = np.where(y > 0, 0.0, -0.0)
    result = matched_rows(data_of(X, y))
    assert same_groups(result, groups)


def test_matched_rows_takes_encoded_classes_and_numbers() -> None:
    X, y, groups = matched(400)
    columns = np.column_stack([y, -y, np.ones(len(y))])
    noisy = y + 0.5 * np.random.default_rng(1).normal(size=len(y))
    for targets in (columns, noisy):
        result = matched_rows(data_of(X, targets))
        assert same_groups(result, groups)


def test_independent_rows_are_not_matched() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        few_values = rng.integers(0, 3, size=(3000, 6)).astype(np.float64)
        for targets in (
            few_values[:, 0] + rng.normal(size=3000),
            rng.normal(size=3000),
            rng.standard_cauchy(size=3000),
            np.sign(few_values[:, 1] - 0.5),
        ):
            assert matched_rows(data_of(few_values, targets)) is None
        assert matched_rows(data_of(rng.normal(size=(3000, 4)), rng.normal(size=3000))) is None


def test_repeated_rows_are_not_matched() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), rng.normal(size=500)
    assert matched_rows(data_of(np.repeat(X, 4, axis=0), np.repeat(y, 4))) is None


def test_uninformative_and_sparse_rows_are_not_matched() -> None:
    rng = np.random.default_rng(0)
    X, y, _ = matched(400)
    assert matched_rows(data_of(X, np.ones(len(y)))) is None
    assert matched_rows(data_of(rng.normal(size=(900, 1)), rng.normal(size=900))) is None
    assert matched_rows(data_of(np.zeros((900, 3)), rng.normal(size=900))) is None
    assert matched_rows(data_of(X[:3], y[:3])) is None
    assert matched_rows(data_of(sp.csr_array(X), y)) is None


def test_targets_whose_squares_overflow_are_not_matched() -> None:
    X, y, _ = matched(400)
    with np.errstate(over="ignore", invalid="ignore"):
        assert matched_rows(data_of(X, 1e200 * y)) is None


# Groups stay together.


@given(
    groups=st.lists(st.integers(0, 9), min_size=20, max_size=60).map(np.array),
    share=st.floats(0.1, 0.5),
    seed=st.integers(0, 99),
)
def test_kept_together_divides_no_group(groups: NDArray[np.intp], share: float, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(groups))
    n_held = max(1, int(share * len(groups)))
    split = np.sort(order[n_held:]), np.sort(order[:n_held])
    training, held_back = kept_together(split, groups)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([training, held_back])), np.arange(len(groups))
    )
    if len(np.intersect1d(groups[training], groups[held_back])):
        # There is no such split by first rows.
        first = np.unique(groups, return_index=True)[1]
        assert len(set(np.isin(first, split[1]).tolist())) == 1
    assert len(training) > 0
    assert len(held_back) > 0


def test_kept_together_keeps_proportions() -> None:
    groups = matched(2000)[2]
    split = validation_splits(len(groups), 0)[0]
    held_back = kept_together(split, groups)[1]
    assert len(held_back) == pytest.approx(len(split[1]), rel=0.05)
    assert kept_together(split, None) is split


def test_trials_of_a_search_divide_no_group() -> None:
    X, y, groups = matched(600)
    task = make_task(X, y, feature_map=RandomBinning(n_grids=8))
    sample = Sample(task, 900, 8, 0.0)
    parted = search_splits(len(groups), 900, 0)
    assert any(len(np.intersect1d(groups[a], groups[b])) for a, b in parted)
    assert not any(len(np.intersect1d(groups[a], groups[b])) for a, b in sample.splits)


def test_kept_together_holds_each_row_back_once() -> None:
    groups = matched(100)[2]
    turns = [kept_together(split, groups)[1] for split in validation_splits(len(groups), 0)]
    np.testing.assert_array_equal(np.sort(np.concatenate(turns)), np.arange(len(groups)))


def test_shuffled_groups_stay_together_in_any_order() -> None:
    groups = matched(200)[2]
    rows = np.arange(0, len(groups), 2)
    order = shuffled(rows, groups, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(order), rows)
    changes = sum(a != b for a, b in pairwise(groups[order]))
    assert changes == len(np.unique(groups[rows])) - 1
    other = shuffled(rows, groups, np.random.default_rng(1))
    assert (order != other).any()
    plain = shuffled(rows, None, np.random.default_rng(2))
    np.testing.assert_array_equal(plain, np.random.default_rng(2).permutation(rows))


@pytest.mark.slow
def test_prediction_sets_of_matched_rows_cover() -> None:
    X, y, _ = matched(900, seed=0)
    new, truth, _ = matched(900, seed=1)
    model = KernelClassifier(random_state=0, n_grids=160, n_jobs=2).fit(X, y)
    covered = model.predict_set(new, coverage=0.9)[np.arange(len(truth)), (truth > 0).astype(int)]
    assert covered.mean() == pytest.approx(0.9, abs=0.03)
    # The shared inputs say nothing: what is left is one normal input.
    best = np.mean((new[:, 0] > 0.8 * 0 + np.log(2) / 1.6) != (truth > 0))
    assert model.score(new, truth) > 1 - 1.15 * best


def test_all_rows_begin_with_those_of_the_split():
    rows = np.arange(8)
    for split in [(rows[3:], rows[:3]), (rows[::2], rows[1::2]), (rows[5:], rows[1:3])]:
        order = all_rows(split, 8)
        np.testing.assert_array_equal(order[: sum(map(len, split))], np.concatenate(split))
        assert sorted(order) == rows.tolist()
