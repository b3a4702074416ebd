"""Grown grids: what they divide, when they stop, and which tables they can stand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.losses import (
    Huber,
    Logistic,
    Loss,
    Multinomial,
    SmoothPinball,
    Squared,
    SquaredHinge,
)
from gramless.matrices.base import Vector
from gramless.model_selection.alpha import Goal, mean_loss
from gramless.model_selection.candidates import MOST_INPUTS
from gramless.model_selection.data import Data
from gramless.model_selection.growth import Grown, Growth
from gramless.model_selection.splits import held_back_splits
from gramless.preprocessing.scaling import Scaler

Array = NDArray[np.float64]


def squares(z: Vector, y: Vector, weight: Array | None) -> float:
    return float(np.mean(np.average((z - y) ** 2, axis=0, weights=weight)))


def growth(X: Vector, y: Vector, n_grids: int = 48, **more: Any) -> Growth:
    loss, weight = more.pop("loss", Squared()), more.pop("weight", None)
    score = squares if loss.name == "squared" else mean_loss(loss)
    seed, n_jobs = more.pop("seed", 0), more.pop("n_jobs", 2)
    assert not more
    data = Data(X, y, weight, score, True)
    scaler = Scaler.fit("both", X, weight)
    split = held_back_splits(len(X), seed)[0]
    return Growth(data, split, scaler, Goal(loss, 0.0, score), n_grids, seed, n_jobs)


def grown(X: Vector, y: Vector, n_grids: int = 48, **more: Any) -> Grown:
    return growth(X, y, n_grids, **more).run()


def standardised(y: Array) -> Array:
    return (y - y.mean()) / y.std()


def friedman(n_rows: int = 2000, seed: int = 0) -> tuple[Array, Array]:
    """Return rows of 20 inputs of which five matter, two of them only together."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 20))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, standardised(y + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n_rows))


def divided(found: Grown) -> NDArray[np.bool_]:
    """Tell which inputs, or their ranks, each grid divides."""
    return np.isfinite(found.grids.widths).reshape(len(found.grids), 2, -1).any(axis=1)


@pytest.fixture(scope="module")
def on_friedman() -> Grown:
    return grown(*friedman(), n_grids=160)


# What grids divide.


def test_inputs_that_matter_are_divided_by_small_grids(on_friedman: Grown) -> None:
    inputs = divided(on_friedman)
    small = inputs[(inputs.sum(axis=1) <= 2)]
    assert len(small) > 30
    # Drawn alike, five of twenty would be a quarter.
    assert small[:, :5].sum() > 0.8 * small.sum()
    assert small[:, :5].any(axis=0).all()


def test_relevance_is_highest_where_it_should_be(on_friedman: Grown) -> None:
    relevance = on_friedman.relevance(20)
    assert set(np.argsort(-relevance)[:5]) == {0, 1, 2, 3, 4}
    assert relevance[:5].mean() > 5 * relevance[5:].mean()
    assert np.sqrt(np.mean(relevance**2)) == pytest.approx(1.0)


def test_relevance_adds_inputs_and_their_ranks() -> None:
    grids = grown(*friedman(300), n_grids=8).grids
    worth = np.array([3.0, -5.0, 1.0, 1.0, 2.0, 0.0])
    found = Grown(grids, 1.0, 10, 1.0, [], worth).relevance(3)
    np.testing.assert_allclose(found, np.array([4.0, -3.0, 1.0]) * np.sqrt(3 / 26))
    nothing = Grown(grids, 1.0, 10, 1.0, [], -worth * 0).relevance(3)
    np.testing.assert_array_equal(nothing, np.ones(3))


def test_grids_divide_a_few_inputs() -> None:
    X = np.random.default_rng(0).normal(size=(1000, 60))
    sizes = np.isfinite(grown(X, np.sign(X[:, 7]), n_grids=32).grids.widths).sum(axis=1)
    assert sizes.min() >= 1
    assert sizes.max() <= MOST_INPUTS


def test_two_inputs_that_only_matter_together_are_found() -> None:
    X = np.random.default_rng(0).normal(size=(1500, 10))
    y = np.sign(X[:, 3] * X[:, 8])
    found = grown(X, y)
    assert set(np.argsort(-found.relevance(10))[:2]) == {3, 8}
    assert found.score < 0.2


def test_many_outputs_share_grids() -> None:
    X = np.random.default_rng(0).normal(size=(1500, 8))
    y = np.column_stack([np.sign(X[:, k % 2]) * (-1.0) ** k for k in range(6)])
    found = grown(X, y)
    assert found.score < 0.1
    assert set(np.argsort(-found.relevance(8))[:2]) == {0, 1}


# When growth goes on, and when it ends.


def test_scores_fall_from_stage_to_stage(on_friedman: Grown) -> None:
    scores = [stage["score"] for stage in on_friedman.history]
    assert [stage["n_grids"] for stage in on_friedman.history] == [40, 80, 160]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] < 0.7 * scores[0] < 0.2
    assert (on_friedman.score, on_friedman.alpha) == (scores[-1], on_friedman.history[-1]["alpha"])
    assert on_friedman.n_rows == 800


@pytest.mark.parametrize("n_grids", [1, 3, 8, 21, 41])
def test_there_are_no_more_grids_than_asked_for(n_grids: int) -> None:
    found = grown(*friedman(600), n_grids=n_grids)
    assert len(found.grids) == n_grids
    assert found.history[-1]["n_grids"] == n_grids


@pytest.mark.parametrize("pause", [40, 80, 159])
def test_growth_that_paused_goes_on_as_if_it_had_not(on_friedman: Grown, pause: int) -> None:
    paused = growth(*friedman(), n_grids=160)
    first = paused.run(most=pause)
    assert len(first.grids) <= pause
    assert not paused.ended
    assert [stage["n_grids"] for stage in first.history] == [40, 80][: len(first.history)]
    seconds = first.history[-1]["seconds"]
    found = paused.run()
    assert paused.ended
    np.testing.assert_array_equal(found.grids.widths, on_friedman.grids.widths)
    np.testing.assert_array_equal(found.grids.shifts, on_friedman.grids.shifts)
    np.testing.assert_array_equal(found.worth, on_friedman.worth)
    assert (found.score, found.alpha) == (on_friedman.score, on_friedman.alpha)
    assert found.history[len(first.history)]["seconds"] > seconds
    # What was told of the pause is not changed by what came after.
    assert len(first.history) < len(found.history) == 3


def test_growth_that_ended_does_not_go_on() -> None:
    ended = growth(*friedman(300), n_grids=16)
    first, again = ended.run(most=80), ended.run()
    assert ended.ended
    assert len(first.grids) == len(again.grids) == 16
    assert first.history == again.history


def test_noise_ends_growth_long_before_the_bound() -> None:
    rng = np.random.default_rng(1)
    y = standardised(rng.normal(size=1000))
    found = grown(rng.normal(size=(1000, 10)), y, n_grids=960)
    assert len(found.grids) <= 320
    assert found.score < 1.1


def test_a_stage_that_gains_little_is_the_last() -> None:
    """Other grids know no more about targets of one input than the first ones."""
    X, _ = friedman(1000)
    noise = np.random.default_rng(1).normal(size=1000)
    found = grown(X, standardised(np.sin(6 * X[:, 3]) + noise), n_grids=960)
    scores = [stage["score"] for stage in found.history if stage["n_grids"] >= 160]
    gains = [after / before for before, after in pairwise(scores)]
    assert len(found.grids) < 960
    assert gains[-1] > 0.99
    assert all(gain <= 0.99 for gain in gains[:-1])


def test_scores_are_no_better_than_the_noise_allows() -> None:
    """Grids are chosen by rows that judge them: they must not learn those by heart."""
    rng = np.random.default_rng(0)
    X = rng.random((2000, 20))
    y = np.sin(6 * X[:, 3]) + rng.normal(size=2000)
    found = grown(X, y - y.mean(), n_grids=320)
    assert found.score > 0.93


def test_asked_to_stop() -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked >= 3

    work = growth(*friedman(600), n_grids=640)
    found = work.run(stop)
    # A round of eight after each answer but the last.
    assert len(found.grids) == 24
    assert len(found.history) == 1
    assert found.score < 1.0
    # The last correction went to the end: all weights are solved again.
    assert found.score == pytest.approx(work.halves.solved(found.alpha)[0], rel=0.05)


def test_stopped_at_once_there_is_still_a_round() -> None:
    found = grown(*friedman(600), n_grids=640)
    first = growth(*friedman(600), n_grids=640).run(lambda: True)
    assert len(first.grids) == 8
    np.testing.assert_array_equal(first.grids.widths, found.grids.widths[:8])


@pytest.mark.parametrize("value", [0.0, 1.7e9])
def test_constant_inputs_give_one_grid(value: float) -> None:
    _, y = friedman(600)
    found = grown(np.full((600, 3), value), standardised(y))
    assert len(found.grids) == 1
    # A fifth of 600 rows judges.
    assert found.score == pytest.approx(1.0, abs=0.2)
    np.testing.assert_array_equal(found.relevance(3), np.ones(3))


def test_constant_targets_give_one_grid() -> None:
    found = grown(friedman(600)[0], np.zeros(600))
    assert len(found.grids) == 1
    assert found.score == 0.0


def test_constant_inputs_are_never_divided() -> None:
    X, y = friedman(800)
    X[:, 5:] = 3.0
    found = divided(grown(X, y))
    assert not found[:, 5:].any()
    assert found[:, :5].any(axis=0).all()


# Seeds and threads.


def test_seeds_decide() -> None:
    X, y = friedman(600)
    one, same, other = (grown(X, y, n_grids=24, seed=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.grids.widths, same.grids.widths)
    np.testing.assert_array_equal(one.grids.multipliers, same.grids.multipliers)
    assert not np.array_equal(one.grids.widths, other.grids.widths)


@pytest.mark.parametrize("targets", ["one", "classes"])
def test_threads_do_not_change_a_bit(targets: str) -> None:
    X, y = friedman(2500)
    classes = np.where(np.digitize(y, [-0.5, 0.5])[:, None] == np.arange(3), 1.0, -1.0)
    options: dict[str, Any] = {} if targets == "one" else {"loss": Multinomial()}
    runs = [
        grown(X, y if targets == "one" else classes, n_jobs=n_jobs, **options) for n_jobs in (1, 3)
    ]
    for other in runs[1:]:
        for name in ("widths", "shifts", "multipliers", "offsets"):
            np.testing.assert_array_equal(getattr(other.grids, name), getattr(runs[0].grids, name))
        np.testing.assert_array_equal(other.worth, runs[0].worth)
        assert (other.score, other.alpha) == (runs[0].score, runs[0].alpha)


# Weights.


def test_weights_count_as_repeated_rows_do() -> None:
    """Only nearly: repeated rows also fall into both halves."""
    X, y = friedman(1500)
    weight = 1.0 + 2.0 * (np.arange(1500) % 2)
    repeated = np.repeat(np.arange(1500), weight.astype(int))
    weighted, longer = grown(X, y, weight=weight), grown(X[repeated], y[repeated])
    for found in (weighted, longer):
        assert set(np.argsort(-found.relevance(20))[:5]) == {0, 1, 2, 3, 4}
    assert weighted.score < 0.25
    assert longer.score < weighted.score


def test_rows_without_weight_say_nothing() -> None:
    X, y = friedman(1600)
    weight = (np.arange(1600) % 2).astype(np.float64)
    wrong = np.where(weight > 0, y, 100 * np.sign(X[:, 12] - 0.5))
    np.testing.assert_array_equal(
        grown(X, wrong, weight=weight).worth, grown(X, y, weight=weight).worth
    )


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_only_ratios_of_weights_matter(scale: float) -> None:
    X, y = friedman(800)
    plain, scaled = grown(X, y), grown(X, y, weight=np.full(800, scale))
    np.testing.assert_allclose(scaled.grids.widths, plain.grids.widths, rtol=1e-12)
    assert scaled.score == pytest.approx(plain.score, rel=1e-6)


# Every loss.


def constant_loss(loss: Loss, y: Vector) -> float:
    """Return the least loss of a prediction that is the same for all rows."""
    levels = np.linspace(-3.0, 3.0, 601)
    return float(min(mean_loss(loss)(np.full_like(y, z), y, None) for z in levels))


@pytest.mark.parametrize(
    ("loss", "make"),
    [
        (Squared(), lambda y: y),
        (Huber(0.5), lambda y: y),
        (SmoothPinball(0.5), lambda y: y),
        (SmoothPinball(0.9), lambda y: y),
        (Logistic(), lambda y: np.where(y > 0, 1.0, -1.0)),
        (SquaredHinge(), lambda y: np.where(y > 0, 1.0, -1.0)),
        (
            Multinomial(),
            lambda y: np.where(np.digitize(y, [-1, 0, 1])[:, None] == np.arange(4), 1.0, -1.0),
        ),
    ],
    ids=["squared", "huber", "median", "quantile", "logistic", "squared_hinge", "multinomial"],
)
def test_every_loss_grows_towards_the_targets(loss: Loss, make: Callable[[Array], Array]) -> None:
    X, y = friedman(1500)
    targets = make(y)
    found = grown(X, targets, loss=loss)
    best = 2 * constant_loss(loss, y) if loss.name == "squared" else constant_loss(loss, targets)
    assert found.score < 0.65 * best
    assert found.relevance(20)[:5].mean() > 2 * found.relevance(20)[5:].mean()


# Tables that are hard on numbers.


def test_timestamps_keep_their_digits() -> None:
    """Steps of 100 seconds at 1.6e9: float32 numbers there are 128 apart."""
    rng = np.random.default_rng(0)
    X = np.column_stack([1.6e9 + rng.permutation(1000), rng.normal(size=(1000, 3))])
    y = np.where((X[:, 0] - 1.6e9) // 100 % 2 == 0, 1.0, -1.0)
    found = grown(X, y)
    assert found.score < 0.15
    assert found.relevance(4).argmax() == 0
    own = found.grids.widths[np.isfinite(found.grids.widths[:, 0]), 0]
    assert len(own) > 0
    assert own.min() < 200


def test_heavy_tails() -> None:
    X = np.random.default_rng(0).standard_cauchy((1500, 6)) ** 3
    found = grown(X, np.sign(X[:, 2]))
    assert found.score < 0.05
    assert found.relevance(6).argmax() == 2


@pytest.mark.parametrize("huge", [1e30, -1e300])
def test_one_huge_entry(huge: float) -> None:
    X, y = friedman(1000)
    X[17, 3] = huge
    found = grown(X, y)
    assert np.isfinite(found.score)
    assert found.score < 0.4
    assert found.relevance(20).argmax() in (0, 3)


@pytest.mark.parametrize("scale", [2.0**-500, 2.0**500])
def test_units_of_the_inputs_do_not_matter(scale: float) -> None:
    X, y = friedman(600)
    plain, found = grown(X, y, n_grids=24), grown(X * scale, y, n_grids=24)
    np.testing.assert_array_equal(found.worth, plain.worth)
    np.testing.assert_allclose(found.grids.widths[:, :20], plain.grids.widths[:, :20] * scale)
    np.testing.assert_array_equal(found.grids.widths[:, 20:], plain.grids.widths[:, 20:])


@pytest.mark.parametrize("n_rows", [5, 9])
def test_hardly_any_rows(n_rows: int) -> None:
    X, y = friedman(n_rows)
    found = grown(X, y, n_grids=16)
    assert 1 <= len(found.grids) <= 16
    assert np.isfinite(found.score)


# In which units grids are.


def test_bins_are_cells_over_the_rows_of_the_scaler() -> None:
    X, y = friedman(800)
    scaler, grids = Scaler.fit("both", X), grown(X, y).grids
    rows = np.asarray(scaler.rows(X))
    codes, known = grids.learn(rows, 1)
    assert np.isfinite(grids.widths[:, :20]).any()
    assert np.isfinite(grids.widths[:, 20:]).any()
    for r in range(len(grids)):
        own = np.isfinite(grids.widths[r])
        cells = np.floor((rows[:, own] - grids.shifts[r, own]) / grids.widths[r, own])
        _, first, number = np.unique(cells, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(np.argsort(first))
        np.testing.assert_array_equal(codes[r], 1 + order[number.ravel()])
        assert known.n_bins[r] == len(first)


def test_widths_are_like_the_deviations_of_the_inputs() -> None:
    """A thousandth of a deviation would be noise, a thousand deviations no division."""
    scales = np.array([1e-6, 1.0, 1e7])
    X = np.random.default_rng(0).normal(size=(1000, 3)) * scales
    found = grown(X, np.sin(2 * X / scales).sum(axis=1) / 2)
    widths = found.grids.widths[:, :3] / scales
    for j in range(3):
        own = widths[np.isfinite(widths[:, j]), j]
        assert 0.1 < np.median(own) < 20
