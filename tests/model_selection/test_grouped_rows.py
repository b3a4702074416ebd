"""Rows drawn together: found where targets of near twins disagree, kept on one side of a split."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless import KernelClassifier, RandomBinning
from gramless.model_selection.data import Data
from gramless.model_selection.grouped_rows import (
    _agreement,
    _spread,
    kept_together,
    matched_rows,
    shuffled,
)
from gramless.model_selection.search import Sample, Search
from gramless.model_selection.search_space import SearchSpace
from gramless.model_selection.splits import held_back_splits, holdout_splits

Array = NDArray[np.float64]


def data_of(X: Array, y: Array) -> Data:
    return Data(X, y, None, lambda z, y, weight: 0.0, False)


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


@pytest.mark.parametrize("n_controls", [1, 2, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("at", [0, 3, 6])
def test_cases_and_their_controls_are_found(n_controls: int, dtype: type, at: int) -> None:
    X, y, groups = matched(400, n_controls)
    X = np.insert(X[:, 1:], at, X[:, 0], axis=1).astype(dtype)
    found = matched_rows(data_of(X, y))
    assert found is not None
    assert same_groups(found, groups)


def test_large_tables_are_looked_at_in_part_and_grouped_whole() -> None:
    X, y, groups = matched(20_000)
    found = matched_rows(data_of(X, y))
    assert found is not None
    assert same_groups(found, groups)


def test_zeros_of_either_sign_are_equal() -> None:
    X, y, groups = matched(300)
    X[:, 1] = np.where(y > 0, 0.0, -0.0)
    found = matched_rows(data_of(X, y))
    assert found is not None
    assert same_groups(found, groups)


def test_classes_in_columns_and_numbers_are_found_too() -> None:
    X, y, groups = matched(400)
    columns = np.column_stack([y, -y, np.ones(len(y))])
    noisy = y + 0.5 * np.random.default_rng(1).normal(size=len(y))
    for targets in (columns, noisy):
        found = matched_rows(data_of(X, targets))
        assert found is not None
        assert same_groups(found, groups)


@pytest.mark.parametrize("seed", range(5))
def test_rows_drawn_one_by_one_are_not_matched(seed: int) -> None:
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


def test_nothing_to_tell_by() -> None:
    rng = np.random.default_rng(0)
    X, y, _ = matched(400)
    assert matched_rows(data_of(X, np.ones(len(y)))) is None
    assert matched_rows(data_of(rng.normal(size=(900, 1)), rng.normal(size=900))) is None
    assert matched_rows(data_of(np.zeros((900, 3)), rng.normal(size=900))) is None
    assert matched_rows(data_of(X[:3], y[:3])) is None
    assert matched_rows(Data(sp.csr_array(X), y, None, lambda z, y, w: 0.0, False)) is None


def test_targets_whose_squares_overflow_say_nothing() -> None:
    X, y, _ = matched(400)
    with np.errstate(over="ignore", invalid="ignore"):
        assert matched_rows(data_of(X, 1e200 * y)) is None


def test_groups_are_the_same_for_any_number_of_threads() -> None:
    data = data_of(*matched(400)[:2])
    one, many = (matched_rows(data, n_jobs) for n_jobs in (1, 3))
    assert one is not None
    np.testing.assert_array_equal(one, many)


def test_agreement_is_that_of_a_slow_twin_and_standard_normal_by_chance() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 400, 1000).astype(np.uint64)
    found = []
    for _ in range(300):
        y = rng.gamma(2.0, size=(1000, 2))
        y -= y.mean(axis=0)
        found.append(_agreement(keys, y, _spread(y)))
    total = variance = 0.0
    spread = float(np.linalg.norm(y.T @ y / len(y)))
    for key in np.unique(keys):
        own = y[keys == key]
        if (m := len(own)) > 1:
            total += sum(float(own[i] @ own[j]) for i in range(m) for j in range(m) if i != j) / (
                m - 1
            )
            variance += 2 * m / (m - 1) * spread**2
    assert found[-1] == pytest.approx(total / np.sqrt(variance), rel=1e-9)
    assert abs(np.mean(found)) < 0.3
    assert np.std(found) == pytest.approx(1.0, rel=0.15)


# Splits.


@given(
    groups=st.lists(st.integers(0, 9), min_size=20, max_size=60).map(np.array),
    share=st.floats(0.1, 0.5),
    seed=st.integers(0, 99),
)
def test_splits_do_not_part_groups(groups: NDArray[np.intp], share: float, seed: int) -> None:
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


def test_splits_keep_their_proportions() -> None:
    groups = matched(2000)[2]
    split = held_back_splits(len(groups), 0)[0]
    held_back = kept_together(split, groups)[1]
    assert len(held_back) == pytest.approx(len(split[1]), rel=0.05)
    assert kept_together(split, None) is split


def test_splits_of_some_rows() -> None:
    groups = matched(400)[2]
    for split in holdout_splits(len(groups), 300, 0):
        training, held_back = kept_together(split, groups)
        np.testing.assert_array_equal(np.union1d(training, held_back), np.union1d(*split))
        assert len(np.intersect1d(groups[training], groups[held_back])) == 0


def test_trials_of_a_search_do_not_part_groups() -> None:
    X, y, groups = matched(600)
    search = Search(
        data_of(X, y), RandomBinning(n_grids=8), SearchSpace(("standard",), None, None, "equal"), 0
    )
    sample = Sample(search, 900, 8, 0.0)
    parted = holdout_splits(len(groups), 900, 0)
    assert any(len(np.intersect1d(groups[a], groups[b])) for a, b in parted)
    assert not any(len(np.intersect1d(groups[a], groups[b])) for a, b in sample.splits)


def test_turns_hold_each_row_back_once() -> None:
    groups = matched(100)[2]
    turns = [kept_together(split, groups)[1] for split in held_back_splits(len(groups), 0)]
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


# What that is good for.


@pytest.mark.slow
def test_calibration_promises_what_new_sets_keep() -> None:
    X, y, _ = matched(900, seed=0)
    new, truth, _ = matched(900, seed=1)
    model = KernelClassifier(random_state=0, n_grids=160, n_jobs=2).fit(X, y)
    covered = model.predict_set(new, coverage=0.9)[np.arange(len(truth)), (truth > 0).astype(int)]
    assert covered.mean() == pytest.approx(0.9, abs=0.03)
    # The shared inputs say nothing: what is left is one normal input.
    best = np.mean((new[:, 0] > 0.8 * 0 + np.log(2) / 1.6) != (truth > 0))
    assert model.score(new, truth) > 1 - 1.15 * best
