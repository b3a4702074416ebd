"""Candidate grids: what they may look like, and what the breeder learns from winners."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.model_selection import candidates as breeding
from gramless.model_selection.candidates import MOST_INPUTS, Breeder, Candidates


def breeder_of(n_inputs: int, seed: int = 0) -> Breeder:
    return Breeder(n_inputs, np.random.default_rng(seed))


def grid_over(inputs: list[int], widths: list[float] | None = None) -> Candidates:
    """Return one grid, as a winner."""
    numbers, wide = np.zeros((1, MOST_INPUTS), np.int32), np.ones((1, MOST_INPUTS))
    numbers[0, : len(inputs)] = inputs
    if widths is not None:
        wide[0, : len(widths)] = widths
    return Candidates(numbers, np.array([len(inputs)]), wide, 0.5 * wide)


def own_inputs(grids: Candidates, c: int) -> list[int]:
    return grids.inputs[c, : grids.sizes[c]].tolist()


def counts(grids: Candidates, n_inputs: int) -> NDArray[np.int64]:
    """Return how many grids divide each input."""
    return np.isfinite(grids.dense(n_inputs)[0]).sum(axis=0)


def trained(n_inputs: int, seed: int, rounds: int) -> Breeder:
    """Return a breeder whose winners are arbitrary proposals of its own."""
    breeder = breeder_of(n_inputs, seed)
    for k in range(rounds):
        proposed = breeder.propose(12)
        breeder.reward(proposed.take(np.arange(k % 3, 12, 4)))
    return breeder


BREEDERS = st.builds(
    trained, st.integers(1, 40), seed=st.integers(0, 10**6), rounds=st.integers(0, 12)
)


# What every candidate is.


@given(BREEDERS, st.integers(0, 40))
def test_grids_are_sound(breeder: Breeder, n_grids: int) -> None:
    grids = breeder.propose(n_grids)
    assert len(grids) == n_grids
    assert grids.inputs.shape == grids.widths.shape == grids.shifts.shape == (n_grids, MOST_INPUTS)
    assert grids.inputs.dtype == np.int32
    for c in range(n_grids):
        own = own_inputs(grids, c)
        assert 1 <= len(own) <= min(MOST_INPUTS, breeder.n_inputs)
        assert len(set(own)) == len(own)
        assert set(own) <= set(range(breeder.n_inputs))
    assert np.isfinite(grids.widths).all()
    assert (grids.widths > 0.0).all()
    assert ((grids.shifts >= 0.0) & (grids.shifts < grids.widths)).all()
    # What does not count is still a number of an input that there is.
    assert ((grids.inputs >= 0) & (grids.inputs < breeder.n_inputs)).all()


def test_the_order_that_numpy_leaves_them_in_does_not_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It depends on the processor: some sort all of a short array."""

    def reversed_parts(clocks: NDArray[np.float64], last: int) -> NDArray[np.intp]:
        order = np.argsort(clocks)
        return np.append(order[last::-1], order[last + 1 :])

    usual = breeder_of(9).propose(40)
    monkeypatch.setattr(np, "argpartition", reversed_parts)
    other = breeder_of(9).propose(40)
    np.testing.assert_array_equal(usual.inputs, other.inputs)


@given(BREEDERS)
def test_dense_says_the_same(breeder: Breeder) -> None:
    grids = breeder.propose(9)
    widths, shifts = grids.dense(breeder.n_inputs)
    assert widths.shape == shifts.shape == (9, breeder.n_inputs)
    for c in range(9):
        own = own_inputs(grids, c)
        assert np.flatnonzero(np.isfinite(widths[c])).tolist() == sorted(own)
        np.testing.assert_array_equal(widths[c, own], grids.widths[c, : len(own)])
        np.testing.assert_array_equal(shifts[c, own], grids.shifts[c, : len(own)])
        others = np.setdiff1d(np.arange(breeder.n_inputs), own)
        assert (widths[c, others] == np.inf).all()
        assert (shifts[c, others] == 0.0).all()


@given(BREEDERS, st.lists(st.integers(0, 8), max_size=12))
def test_take(breeder: Breeder, chosen: list[int]) -> None:
    grids = breeder.propose(9)
    some = grids.take(np.array(chosen, np.intp))
    assert len(some) == len(chosen)
    for name in ("inputs", "sizes", "widths", "shifts"):
        np.testing.assert_array_equal(getattr(some, name), getattr(grids, name)[chosen])


@given(st.integers(1, 30), st.integers(0, 10**6))
def test_the_generator_decides_everything(n_inputs: int, seed: int) -> None:
    first, second, other = (trained(n_inputs, s, 5).propose(20) for s in (seed, seed, seed + 1))
    for name in ("inputs", "sizes", "widths", "shifts"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert (first.widths != other.widths).any()


@pytest.mark.parametrize("rounds", [0, 20])
def test_one_input_is_enough(rounds: int) -> None:
    grids = trained(1, 0, rounds).propose(50)
    assert grids.sizes.tolist() == [1] * 50
    assert not grids.inputs.any()
    assert len(np.unique(grids.widths[:, 0])) == 50


# Grids drawn anew.


def test_sizes_and_inputs_are_even_at_first() -> None:
    grids = breeder_of(20).propose(3200)
    sizes = np.bincount(grids.sizes, minlength=17)
    assert len(sizes) == MOST_INPUTS + 1
    assert sizes[0] == 0
    # 200 of each size and 1,360 of each input are expected.
    assert np.abs(sizes[1:] - 200).max() < 5 * np.sqrt(200)
    assert np.abs(counts(grids, 20) - 1360).max() < 5 * np.sqrt(1360)


def test_widths_span_fine_and_coarse() -> None:
    grids = breeder_of(1).propose(2000)
    widths = grids.widths[:, 0]
    assert np.median(widths) == pytest.approx(np.sqrt(0.05 * 4.0), rel=0.15)
    assert (widths < 0.1).mean() > 0.05
    assert (widths > 2.0).mean() > 0.05


def test_more_inputs_have_wider_cells() -> None:
    grids = breeder_of(16).propose(4000)
    used = np.arange(MOST_INPUTS) < grids.sizes[:, None]
    middle = [
        np.exp(np.log(grids.widths[grids.sizes == m][used[grids.sizes == m]]).mean())
        for m in (1, 4, 16)
    ]
    assert middle[1] / middle[0] == pytest.approx(2.0, rel=0.4)
    assert middle[2] / middle[0] == pytest.approx(4.0, rel=0.4)


def test_shifts_are_even_over_the_cell() -> None:
    grids = breeder_of(16).propose(500)
    place = np.sort((grids.shifts / grids.widths).ravel())
    assert np.abs(place - np.linspace(0.0, 1.0, len(place))).max() < 2.0 / np.sqrt(len(place))


# Learning.


def fresh_after(winners: list[list[int]], n_inputs: int, n_grids: int = 4000) -> Candidates:
    """Return grids drawn anew by a breeder that was rewarded for some."""
    breeder = breeder_of(n_inputs, 5)
    for own in winners:
        breeder.reward(grid_over(own))
    breeder.parents.clear()
    return breeder.propose(n_grids)


@pytest.mark.parametrize("n_inputs", [5, 20, 100])
def test_inputs_that_won_are_drawn_more_often(n_inputs: int) -> None:
    before = counts(fresh_after([], n_inputs), n_inputs)
    once = counts(fresh_after([[3]] * 30, n_inputs), n_inputs)
    often = counts(fresh_after([[3]] * 300, n_inputs), n_inputs)
    ahead = [found[3] / np.delete(found, 3).mean() for found in (before, once, often)]
    assert ahead[0] == pytest.approx(1.0, abs=0.15)
    assert 1.1 * ahead[0] < ahead[1]
    assert 1.1 * ahead[1] < ahead[2]


def test_wins_are_worth_as_much_however_many_inputs_there_are() -> None:
    won = 30 * breeding._INPUT_REWARD
    for n_inputs in (20, 2000):
        breeder = breeder_of(n_inputs)
        for _ in range(30):
            breeder.reward(grid_over([3]))
        share = breeder.input_odds[3] / breeder.input_odds.sum()
        assert share == pytest.approx((1.0 / n_inputs + won) / (1.0 + won))
        assert share > 0.2


def test_sizes_that_won_are_drawn_more_often() -> None:
    sizes = fresh_after([[1, 2, 3]] * 100, 16).sizes
    shares = np.bincount(sizes, minlength=17)[1:] / len(sizes)
    assert shares.argmax() == 2
    assert shares[2] > 5.0 * np.delete(shares, 2).mean()
    assert (shares > 0.0).all()


def test_all_winners_of_a_call_count() -> None:
    breeder = breeder_of(6)
    widths = [[0.1, 0.2], [0.3], [0.4, 0.5, 0.6]]
    inputs = [[0, 1], [1], [4, 1, 2]]
    grids = [grid_over(*winner) for winner in zip(inputs, widths, strict=True)]
    parts: Any = ("inputs", "sizes", "widths", "shifts")
    breeder.reward(Candidates(*(np.concatenate([getattr(g, p) for g in grids]) for p in parts)))
    step = breeder.input_odds[0] - 1.0
    assert step > 0.0
    np.testing.assert_allclose(breeder.input_odds, 1.0 + step * np.array([1, 3, 1, 0, 1, 0]))
    assert [own for own, _ in breeder.parents] == inputs
    assert [wide for _, wide in breeder.parents] == widths
    step = breeder.size_odds[0] - 1.0
    assert step > 0.0
    np.testing.assert_allclose(breeder.size_odds, 1.0 + step * np.array([1, 1, 1, 0, 0, 0]))


def test_only_the_latest_winners_are_parents() -> None:
    breeder = breeder_of(3)
    for k in range(breeding._PARENTS + 40):
        breeder.reward(grid_over([k % 3], [1.0 + k]))
    assert len(breeder.parents) == breeding._PARENTS
    assert breeder.parents[0][1] == [41.0]
    assert breeder.parents[-1][1] == [40.0 + breeding._PARENTS]


# Changing winners.


@pytest.fixture
def only_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breeding, "_FRESH", 0.0)


def move(before: list[int], after: list[int]) -> str:
    """Name what became of a winner's inputs."""
    lost, won = len(set(before) - set(after)), len(set(after) - set(before))
    return {(0, 0): "same", (0, 1): "added", (1, 0): "dropped", (1, 1): "swapped"}[lost, won]


@pytest.mark.usefixtures("only_changes")
@pytest.mark.parametrize(
    ("inputs", "n_inputs", "never"),
    [
        ([2, 5, 7], 9, set()),
        ([0], 9, {"dropped"}),
        ([0], 1, {"added", "dropped", "swapped"}),
        ([1, 0], 2, {"added", "swapped"}),
        (list(range(16)), 16, {"added", "swapped"}),
        (list(range(16)), 30, {"added"}),
    ],
)
def test_winners_gain_lose_and_exchange_inputs(
    inputs: list[int], n_inputs: int, never: set[str]
) -> None:
    breeder = breeder_of(n_inputs)
    breeder.reward(grid_over(inputs))
    grids = breeder.propose(2000)
    found = Counter(move(inputs, own_inputs(grids, c)) for c in range(2000))
    usual = {"added": breeding._ADD, "dropped": breeding._DROP, "swapped": breeding._SWAP}
    for name, share in usual.items():
        expected = 0.0 if name in never else 2000 * share
        assert abs(found[name] - expected) <= 5 * np.sqrt(expected)
    assert found["same"] > 500


@pytest.mark.usefixtures("only_changes")
def test_every_parent_has_its_turn() -> None:
    breeder = breeder_of(40)
    for k in range(20):
        breeder.reward(grid_over([2 * k, 2 * k + 1]))
    grids = breeder.propose(1000)
    drawn = Counter(own_inputs(grids, c)[0] // 2 for c in range(1000))
    assert min(drawn[k] for k in range(20)) > 50 - 5 * np.sqrt(50)


@pytest.mark.usefixtures("only_changes")
def test_new_inputs_are_those_that_won() -> None:
    breeder = breeder_of(10)
    for _ in range(200):
        breeder.reward(grid_over([8]))
    breeder.parents.clear()
    breeder.reward(grid_over([2, 5]))
    grids = breeder.propose(2000)
    drawn = Counter(j for c in range(2000) for j in own_inputs(grids, c) if j not in (2, 5))
    assert drawn[8] > 5 * max(drawn[j] for j in (0, 1, 3, 4, 6, 7, 9)) > 0


@pytest.mark.usefixtures("only_changes")
def test_widths_stay_with_their_inputs_and_near_the_winners() -> None:
    breeder, widths = breeder_of(9), {2: 0.1, 5: 1.0, 7: 10.0}
    breeder.reward(grid_over(list(widths), list(widths.values())))
    grids, changes = breeder.propose(3000), []
    for c in range(3000):
        own = own_inputs(grids, c)
        if move(list(widths), own) != "swapped":
            changes += [
                np.log(grids.widths[c, own.index(j)] / widths[j]) for j in {*own} & {*widths}
            ]
    assert np.mean(changes) == pytest.approx(0.0, abs=0.02)
    assert np.std(changes) == pytest.approx(np.sqrt(2.0) * breeding._JITTER, rel=0.1)
    assert grids.widths[0, 0] != grids.widths[1, 0]


@pytest.mark.usefixtures("only_changes")
def test_changes_leave_the_winner_as_it_was() -> None:
    breeder = breeder_of(9)
    winner = grid_over([2, 5, 7], [0.1, 1.0, 10.0])
    breeder.reward(winner)
    breeder.propose(200)
    ((own, widths),) = breeder.parents
    assert own == own_inputs(winner, 0) == [2, 5, 7]
    assert widths == winner.widths[0, :3].tolist() == [0.1, 1.0, 10.0]


def test_some_grids_are_drawn_anew_beside_winners() -> None:
    breeder = breeder_of(16)
    breeder.reward(grid_over([3]))
    sizes = breeder.propose(3000).sizes
    # A change of a single input has one or two.
    share = (sizes > 2).mean() / (14 / 16)
    assert share == pytest.approx(breeding._FRESH, abs=0.06)


def test_categories_are_told_apart_wherever_a_grid_divides_them() -> None:
    mask = np.array([False, True, True, False])
    plain, told = (Breeder(4, np.random.default_rng(0), own) for own in (None, mask))
    grids = told.propose(60)
    for own, other in zip(grids.dense(4), plain.propose(60).dense(4), strict=True):
        np.testing.assert_array_equal(own[:, ~mask], other[:, ~mask])
    for _ in range(3):
        widths, shifts = grids.dense(4)
        divided = np.isfinite(widths)
        assert divided[:, mask].any()
        assert (widths[:, mask][divided[:, mask]] == 1.0).all()
        assert (shifts[:, mask][divided[:, mask]] == 0.5).all()
        told.reward(grids)
        grids = told.propose(60)
