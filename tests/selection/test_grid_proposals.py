"""Proposals of grids: what they may look like, and what the proposer learns from winners."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.selection.grid_proposals import (
    MAX_INPUTS,
    GridProposals,
    ProposalSettings,
    Proposer,
)

FIELDS = ("inputs", "sizes", "widths", "shifts")


def proposer_of(n_inputs: int, seed: int = 0, settings: ProposalSettings | None = None) -> Proposer:
    none = np.zeros(n_inputs, int)
    return Proposer(n_inputs, np.random.default_rng(seed), none, settings or ProposalSettings())


def grid_over(inputs: list[int], widths: list[float] | None = None) -> GridProposals:
    """Return one grid, as a winner."""
    numbers, wide = np.zeros((1, MAX_INPUTS), np.int32), np.ones((1, MAX_INPUTS))
    numbers[0, : len(inputs)] = inputs
    if widths is not None:
        wide[0, : len(widths)] = widths
    return GridProposals(numbers, np.array([len(inputs)]), wide, 0.5 * wide)


def inputs_of(grids: GridProposals, c: int) -> list[int]:
    return grids.inputs[c, : grids.sizes[c]].tolist()


def counts(grids: GridProposals, n_inputs: int) -> NDArray[np.int64]:
    """Return how many grids divide each input."""
    return np.isfinite(grids.dense(n_inputs)[0]).sum(axis=0)


def trained(n_inputs: int, seed: int, rounds: int) -> Proposer:
    """Return a proposer whose winners are arbitrary proposals of its own."""
    proposer = proposer_of(n_inputs, seed)
    for k in range(rounds):
        proposed = proposer.propose(12)
        proposer.reward(proposed.take(np.arange(k % 3, 12, 4)))
    return proposer


PROPOSERS = st.builds(
    trained, st.integers(1, 40), seed=st.integers(0, 10**6), rounds=st.integers(0, 12)
)


# What every proposal is.


@settings(max_examples=60)
@given(PROPOSERS, st.integers(0, 40))
def test_proposed_grids_are_valid(proposer: Proposer, n_grids: int) -> None:
    grids = proposer.propose(n_grids)
    assert len(grids) == n_grids
    assert grids.inputs.shape == grids.widths.shape == grids.shifts.shape == (n_grids, MAX_INPUTS)
    assert grids.inputs.dtype == np.int32
    for c in range(n_grids):
        inputs = inputs_of(grids, c)
        assert 1 <= len(inputs) <= min(MAX_INPUTS, proposer.n_inputs)
        assert len(set(inputs)) == len(inputs)
    assert np.isfinite(grids.widths).all()
    assert (grids.widths >= proposer.settings.narrowest).all()
    assert ((grids.shifts >= 0.0) & (grids.shifts < grids.widths)).all()
    # What does not count is still a number of an input that there is.
    assert ((grids.inputs >= 0) & (grids.inputs < proposer.n_inputs)).all()


def cells_of_input_2(n_categories: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return widths and shifts of proposals that divide the only categorical of five inputs."""
    proposer = Proposer(5, np.random.default_rng(0), np.where(np.arange(5) == 2, n_categories, 0))
    cells = []
    for _ in range(20):
        grids = proposer.propose(100)
        widths, shifts = grids.dense(5)
        divides = np.isfinite(widths[:, 2])
        assert 10 < divides.sum() < 100
        cells.append((widths[divides, 2], shifts[divides, 2]))
        others = widths[:, [0, 1, 3, 4]]
        assert len(np.unique(others[np.isfinite(others)])) > 50
        proposer.reward(grids.take(np.arange(8)))
    widths, shifts = map(np.concatenate, zip(*cells, strict=True))
    return widths, shifts


def test_half_of_the_divisions_of_categories_group_them() -> None:
    widths, shifts = cells_of_input_2(30)
    assert set(widths) == {1.0, 2.0, 3.0, 4.0, 6.0, 9.0}
    # Five standard deviations of a share.
    np.testing.assert_allclose((widths == 1.0).mean(), 0.5, atol=2.5 / np.sqrt(len(widths)))
    np.testing.assert_allclose((widths == 3.0).mean(), 1 / 7, atol=2.5 / np.sqrt(len(widths)))
    for width in (1.0, 3.0, 9.0):
        whole, counts = np.unique(shifts[widths == width] - 0.5, return_counts=True)
        assert whole.tolist() == list(range(int(width)))
        assert counts.max() < 3 * counts.min()


def test_groups_never_hold_all_categories() -> None:
    assert set(cells_of_input_2(4)[0]) == {1.0, 2.0, 3.0}
    for n_categories in (1, 2):
        widths, shifts = cells_of_input_2(n_categories)
        assert set(widths) == {1.0}
        assert set(shifts) == {0.5}


def test_fresh_proposals_are_uniform_in_size_and_inputs() -> None:
    grids = proposer_of(20).propose(8000)
    sizes = Counter(grids.sizes.tolist())
    assert sorted(sizes) == list(range(1, MAX_INPUTS + 1))
    # Six standard deviations of counts.
    assert all(abs(n - 500) < 6 * np.sqrt(500) for n in sizes.values())
    share = counts(grids, 20) / 8000
    assert np.abs(share - grids.sizes.mean() / 20).max() < 6 * np.sqrt(0.25 / 8000)


def test_more_inputs_have_wider_cells() -> None:
    grids = proposer_of(16).propose(4000)
    logs = np.log(grids.widths[:, 0])
    assert logs[grids.sizes > 12].mean() - logs[grids.sizes < 3].mean() == pytest.approx(
        np.log(np.sqrt(14.5 / 1.4)), abs=0.15
    )


# What winners teach.


def test_winning_inputs_and_sizes_are_proposed_more_often() -> None:
    proposer = proposer_of(10, settings=ProposalSettings(fresh=1.0))
    before = proposer.propose(4000)
    for _ in range(30):
        proposer.reward(grid_over([2, 7]))
    after = proposer.propose(4000)
    rates = [counts(grids, 10) / grids.sizes.sum() for grids in (before, after)]
    assert (rates[1][[2, 7]] > 1.5 * rates[0][[2, 7]]).all()
    assert (after.sizes == 2).mean() > 2 * (before.sizes == 2).mean()


def test_most_proposals_resemble_a_winner() -> None:
    proposer = proposer_of(30)
    proposer.reward(grid_over([4, 9, 21], [0.5, 1.0, 2.0]))
    grids = proposer.propose(2000)
    same = [c for c in range(2000) if inputs_of(grids, c) == [4, 9, 21]]
    # 0.6 are changes; of these 0.4 keep their inputs.
    assert len(same) / 2000 == pytest.approx(0.24, abs=0.05)
    logs = np.log(grids.widths[same, :3])
    np.testing.assert_allclose(np.median(logs, axis=0), np.log([0.5, 1.0, 2.0]), atol=0.1)
    assert logs.std(axis=0) == pytest.approx(0.3 * np.sqrt(2), abs=0.05)


MOVES = {"add": 4, "drop": 2, "swap": 3}


@pytest.mark.parametrize("move", MOVES)
def test_winner_gains_loses_or_exchanges_one_input(move: str) -> None:
    chances = {"fresh": 0.0, "add": 0.0, "drop": 0.0, "swap": 0.0, move: 1.0}
    proposer = proposer_of(9, settings=ProposalSettings(**chances))
    proposer.reward(grid_over([1, 3, 8]))
    grids = proposer.propose(300)
    assert (grids.sizes == MOVES[move]).all()
    sets = {frozenset(inputs_of(grids, c)) for c in range(300)}
    kept = {len(inputs & {1, 3, 8}) for inputs in sets}
    assert kept == {2 if move != "add" else 3}
    # Every change there is: of six inputs to add, three to drop, or both.
    assert len(sets) == {"add": 6, "drop": 3, "swap": 18}[move]


def test_single_input_is_not_exchanged() -> None:
    for move in MOVES:
        chances = {"fresh": 0.0, "add": 0.0, "drop": 0.0, "swap": 0.0, move: 1.0}
        proposer = proposer_of(1, settings=ProposalSettings(**chances))
        proposer.reward(grid_over([0]))
        assert proposer.propose(20).sizes.tolist() == [1] * 20


def test_only_the_latest_winners_are_parents() -> None:
    proposer = proposer_of(10, settings=ProposalSettings(n_parents=3))
    for k in range(8):
        proposer.reward(grid_over([k]))
    assert proposer.parents.inputs[:, 0].tolist() == [5, 6, 7]


# Parts of proposals.


@settings(max_examples=30)
@given(PROPOSERS)
def test_dense_returns_the_widths_and_shifts_of_inputs(proposer: Proposer) -> None:
    grids = proposer.propose(9)
    widths, shifts = grids.dense(proposer.n_inputs)
    assert widths.shape == shifts.shape == (9, proposer.n_inputs)
    for c in range(9):
        inputs = inputs_of(grids, c)
        assert np.flatnonzero(np.isfinite(widths[c])).tolist() == sorted(inputs)
        np.testing.assert_array_equal(widths[c, inputs], grids.widths[c, : len(inputs)])
        np.testing.assert_array_equal(shifts[c, inputs], grids.shifts[c, : len(inputs)])
        others = np.setdiff1d(np.arange(proposer.n_inputs), inputs)
        assert (shifts[c, others] == 0.0).all()


@settings(max_examples=30)
@given(PROPOSERS, st.integers(0, 10**6))
def test_grids_keep_only_given_inputs(proposer: Proposer, seed: int) -> None:
    grids = proposer.propose(9)
    before = grids.take(np.arange(9))
    is_used = np.arange(grids.inputs.shape[1]) < grids.sizes[:, None]
    is_kept = is_used & (np.random.default_rng(seed).random(is_used.shape) < 0.5)
    is_kept[:, 0] = True
    result = grids.with_inputs(is_kept)
    widths, shifts = grids.dense(proposer.n_inputs)
    fewer_widths, fewer_shifts = result.dense(proposer.n_inputs)
    for c in range(9):
        inputs = grids.inputs[c, is_kept[c]]
        assert inputs_of(result, c) == inputs.tolist()
        np.testing.assert_array_equal(fewer_widths[c, inputs], widths[c, inputs])
        np.testing.assert_array_equal(fewer_shifts[c, inputs], shifts[c, inputs])
        assert np.isfinite(fewer_widths[c]).sum() == len(inputs)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(grids, name), getattr(before, name))


@settings(max_examples=30)
@given(PROPOSERS, st.integers(0, 10**6))
def test_uncombined_inputs_are_never_combined(proposer: Proposer, seed: int) -> None:
    n_inputs = proposer.n_inputs
    uncombined = np.random.default_rng(seed).random(n_inputs) < 0.5
    before = proposer.propose(9)
    result = before.without_combinations(uncombined)
    for c in range(9):
        inputs, old = inputs_of(result, c), inputs_of(before, c)
        kept = old[:1] if uncombined[old[0]] else [j for j in old if not uncombined[j]]
        assert inputs == kept
        places = [old.index(j) for j in inputs]
        np.testing.assert_array_equal(result.widths[c, : len(inputs)], before.widths[c, places])


def test_joined_and_take_select_grids() -> None:
    grids = proposer_of(6).propose(7)
    parts = [grids.take(np.arange(3)), grids.take(np.arange(3, 7))]
    for name in FIELDS:
        values = getattr(grids, name)
        np.testing.assert_array_equal(getattr(GridProposals.joined(parts), name), values)
