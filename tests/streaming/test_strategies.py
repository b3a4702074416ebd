"""Which block is chosen, and how long a step it bears."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from gramless.base.errors import InputError
from gramless.streaming.strategies import Checking, Choice, Grow, Situation, Strategy, Uniform

from .references import excess_9, search_9, solve_9

NOW = Situation(
    iteration=4,
    step=0.5,
    gradient=np.array([0.3, -0.4]),
    sums=np.array([[0.2, -0.3], [0.0, 0.0], [-0.9, 1.0]]),
    loss_bound=1.2,
    variance=0.1,
    batch_rows=8,
    seed=0,
)
NO_BLOCKS = np.zeros((0, 2))

numbers = st.floats(-2.0, 2.0, allow_subnormal=False)
vectors = st.tuples(numbers, numbers).map(np.array)


def test_first_block_is_new() -> None:
    for strategy in [Grow(), Uniform(), Uniform(3, 5), Checking(), Checking(1)]:
        assert strategy.choose(replace(NOW, iteration=1, sums=NO_BLOCKS)) == Choice(0, 0.5)


def test_grow_always_takes_a_new_block() -> None:
    assert Grow().choose(NOW) == Choice(3, 0.5)


# UDSG.


def blocks_of(strategy: Strategy, n_steps: int, seed: int = 0) -> tuple[list[int], list[int]]:
    """Return the blocks of a run, and how many there were before each."""
    chosen, before, n_blocks = [], [], 0
    for t in range(1, n_steps + 1):
        now = replace(NOW, iteration=t, sums=np.zeros((n_blocks, 2)), seed=seed)
        choice = strategy.choose(now)
        assert choice.step == NOW.step
        chosen.append(choice.block)
        before.append(n_blocks)
        n_blocks += choice.block == n_blocks
    return chosen, before


def test_uniform_alternates_new_and_old_blocks() -> None:
    for new, old in [(1, 1), (2, 3), (3, 1), (1, 0)]:
        chosen, before = blocks_of(Uniform(new, old), 60)
        for t, (block, n_blocks) in enumerate(zip(chosen, before, strict=True)):
            assert (block == n_blocks) == (t % (new + old) < new)
            assert 0 <= block <= n_blocks


def test_old_blocks_are_drawn_uniformly() -> None:
    n_blocks, n_draws = 7, 7000
    old = replace(NOW, sums=np.zeros((n_blocks, 2)))
    drawn = [Uniform().choose(replace(old, iteration=2 * t)).block for t in range(1, n_draws + 1)]
    counts = np.bincount(drawn, minlength=n_blocks)
    assert len(counts) == n_blocks
    assert stats.chisquare(counts).pvalue > 1e-3
    pairs = np.bincount(np.array(drawn[::2]) * n_blocks + drawn[1::2], minlength=n_blocks**2)
    assert stats.chisquare(pairs).pvalue > 1e-3


def test_seeds_draw_different_old_blocks() -> None:
    runs = {tuple(blocks_of(Uniform(), 40, seed)[0]) for seed in (0, 0, 1, 2)}
    assert len(runs) == 3


# CDSG.


@given(
    st.lists(vectors, min_size=1, max_size=4),
    vectors,
    st.floats(0.01, 2.0),
    st.floats(0.0, 3.0),
    st.sampled_from([1, 7, 100]),
    st.sampled_from([1, 2]),
)
def test_checking_steps_solve_equation_9(
    sums: list[Any], gradient: Any, gamma: float, variance: float, rows: int, power: int
) -> None:
    assume(np.linalg.norm(gradient) > 1e-3)
    now = Situation(3, gamma, gradient, np.stack(sums), 2.5, variance, rows, seed=0)
    noise = np.sqrt(2.5**2 * variance / rows**power)
    for beta, step in zip(now.sums, Checking(power).steps(now), strict=True):
        step = step if step > gamma else 0.0
        solved = solve_9(beta, gradient, gamma, noise)
        searched = search_9(beta, gradient, gamma, noise)
        # Where the two solutions of (9) are near to each other, roundings decide if there are any;
        # where one is near to gamma, if it is longer.
        middle = beta @ gradient / (gradient @ gradient + noise**2)
        edges = [excess_9(-eta, beta, gradient, gamma, noise) for eta in (middle, gamma)]
        if min(map(abs, edges)) < 1e-9:
            continue
        assert step == pytest.approx(solved, rel=1e-6, abs=1e-9)
        if searched:
            assert step == pytest.approx(searched, rel=1e-6)


@given(
    st.lists(vectors, min_size=1, max_size=5),
    vectors,
    st.floats(0.01, 2.0),
    st.sampled_from([1.0, 1.7, 2.0, np.inf]),
)
def test_longest_step_is_chosen(
    sums: list[Any], gradient: Any, gamma: float, longest: float
) -> None:
    now = replace(NOW, step=gamma, gradient=gradient, sums=np.stack(sums))
    checking = Checking(longest=longest)
    steps, choice = checking.steps(now), checking.choose(now)
    assert steps.shape == (len(sums),)
    if choice.block == len(sums):
        assert choice.step == gamma >= steps.max()
    else:
        assert steps[choice.block] == steps.max() > gamma
        assert choice.step == min(steps.max(), longest * gamma) >= gamma


def test_blocks_opposed_to_the_gradient_get_no_step() -> None:
    gradient = np.array([1.0])
    forth, back = (np.array([[sign * 2.0]]) for sign in (1.0, -1.0))
    now = replace(NOW, gradient=gradient, variance=0.0)
    assert Checking(longest=np.inf).choose(replace(now, sums=forth)).block == 0
    assert Checking(longest=np.inf).choose(replace(now, sums=back)).block == 1


def test_noiseless_step_may_reverse_a_sum() -> None:
    # 2 (2 - eta)^2 <= 2^2 + 0.5^2
    now = replace(NOW, gradient=np.array([1.0]), sums=np.array([[2.0]]), variance=0.0)
    (step,) = Checking(longest=np.inf).steps(now)
    assert step == pytest.approx(2.0 + np.sqrt(4.25 / 2.0))


def test_noise_makes_steps_shorter() -> None:
    for change in [{"variance": 0.5}, {"loss_bound": 2.5}, {"batch_rows": 3}]:
        for power in (1, 2):
            quiet = Checking(power).steps(replace(NOW, variance=0.1, loss_bound=1.2, batch_rows=8))
            loud = Checking(power).steps(replace(NOW, **change))
            assert (loud <= quiet).all()
            assert loud[2] < quiet[2]
        assert Checking(1).steps(NOW)[2] < Checking(2).steps(NOW)[2]


def test_zero_gradient_gives_no_step() -> None:
    for bound in (0.0, 1.0):
        still = replace(NOW, gradient=np.zeros(2), loss_bound=bound)
        np.testing.assert_array_equal(Checking().steps(still), 0.0)
        assert Checking(longest=np.inf).choose(still) == Choice(3, 0.5)


def test_invalid_parameters_are_rejected() -> None:
    for make, message in [
        (lambda: Uniform(0, 1), "new must be at least 1"),
        (lambda: Uniform(1, -1), "old at least 0"),
        (lambda: Checking(power=3), "power must be 1 or 2"),
        (lambda: Checking(longest=0.9), "longest at least 1"),
        (lambda: Checking(longest=np.nan), "longest at least 1"),
    ]:
        with pytest.raises(InputError, match=message):
            make()
