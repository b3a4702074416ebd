"""Grown grids: what they gain and divide, when growth ends, and which tables it can stand."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax

from gramless.base.progress import Progress, Reporter
from gramless.losses import (
    Logistic,
    Loss,
    Multinomial,
    Poisson,
    SmoothPinball,
    Squared,
    SquaredHinge,
)
from gramless.matrices.base import Vector
from gramless.preprocessing.scaling import Scaler
from gramless.selection import growth
from gramless.selection.config import SearchConfig
from gramless.selection.goal import mean_loss
from gramless.selection.growth import CrossFittedModels, GridSpace, GrownGrids, covariances, grow
from gramless.selection.splits import held_back_splits

from .tasks import make_task

Array = NDArray[np.float64]

FEW = SearchConfig(proposals=64, stages=(16, 32), dropped_share=0.0)


def grown(
    X: Vector, y: Vector, n_grids: int = 48, loss: Loss | None = None, **more: Any
) -> GrownGrids:
    loss, config = loss or Squared(), more.pop("config", FEW)
    own = {name: more.pop(name, None) for name in ("weight", "categorical")}
    data = make_task(X, y, loss=loss, **own).data
    seed = more.pop("seed", 0)
    split, scaler = held_back_splits(len(X), seed)[0], data.scaler("both")
    options = {"most": n_grids, "seed": seed, "n_jobs": 2, **more}
    return grow(data, split, scaler, loss, config, **options)


def standardised(y: Array) -> Array:
    return (y - y.mean()) / y.std()


def friedman(n_rows: int = 1500, seed: int = 0) -> tuple[Array, Array]:
    """Return rows of 20 inputs of which five matter, two of them only together."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 20))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, standardised(y + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n_rows))


def columns_of(classes: NDArray[np.integer[Any]], n_classes: int) -> Array:
    return np.where(classes[:, None] == np.arange(n_classes), 1.0, -1.0)


def divided(found: GrownGrids) -> NDArray[np.bool_]:
    """Tell which inputs, or their ranks, each grid divides."""
    return np.isfinite(found.grids.widths).reshape(len(found.grids), 2, -1).any(axis=1)


def assert_same(one: GrownGrids, other: GrownGrids) -> None:
    for name in ("widths", "shifts", "multipliers", "offsets"):
        np.testing.assert_array_equal(getattr(one.grids, name), getattr(other.grids, name))
    np.testing.assert_array_equal(one.worth, other.worth)
    assert (one.score, one.alpha) == (other.score, other.alpha)


@pytest.fixture(scope="module")
def on_friedman() -> GrownGrids:
    config = SearchConfig(proposals=120, stages=(40, 80), dropped_share=0.0)
    return grown(*friedman(2000), n_grids=120, config=config)


# The two models.

LOSSES: dict[str, tuple[Loss, Callable[[Array], Vector]]] = {
    "squared": (Squared(), lambda y: y),
    "quantile": (SmoothPinball(0.9), lambda y: y),
    "squared_hinge": (SquaredHinge(), np.sign),
    "multinomial": (Multinomial(), lambda y: columns_of(np.digitize(y, [-1, 0, 1]), 4)),
    "poisson": (
        Poisson(),
        lambda y: np.random.default_rng(9).poisson(np.exp(0.5 + 1.5 * y)).astype(float),
    ),
    "two numbers": (Squared(), lambda y: np.column_stack([y, -y])),
}


def grown_models(
    name: str, n_rows: int = 1200, weight: Array | None = None, n_rounds: int = 2
) -> growth._Growth:
    """Return growth after some rounds, its last 200 rows for judging."""
    loss, make = LOSSES[name]
    X, y = friedman(n_rows)
    data = make_task(X, make(y), loss=loss, weight=weight).data
    scaler, rng = data.scaler("both"), np.random.default_rng(0)
    space = GridSpace.of(scaler, np.asarray(scaler.rows(X)))
    models = CrossFittedModels(data, n_rows - 200, loss, 64, 1)
    found = growth._Growth(space, models, FEW, 64, rng, 1)
    for _ in range(n_rounds):
        found._add_best_proposals(64)
    return found


def slots_twin(state: growth._Growth, proposals: Any, bits: int) -> NDArray[np.uint32]:
    """Return the place of each row's cell in each proposal, (n_proposals, n_rows)."""
    places = []
    for c in range(len(proposals)):
        own = proposals.inputs[c, : proposals.sizes[c]]
        widths, shifts = (v[c, : len(own), None] for v in (proposals.widths, proposals.shifts))
        inverse, shifts = (1.0 / widths).astype(np.float32), shifts.astype(np.float32)
        cells = np.floor((state.space.columns[own] - shifts) * inverse).astype(np.int32)
        hashed = cells.astype(np.uint32) * state.multipliers[: len(own), None]
        places.append(hashed.sum(axis=0, dtype=np.uint32) >> np.uint32(32 - bits))
    return np.array(places)


@pytest.mark.parametrize(("name", "weighted"), [("poisson", False), ("two numbers", True)])
def test_gains_are_those_of_a_slow_twin(name: str, weighted: bool) -> None:
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 1200) if weighted else None
    state = grown_models(name, weight=weight)
    models, loss = state.models, LOSSES[name][0]
    proposals = state.proposer.propose(12)
    values = models.scoring_values(np.random.default_rng(0))
    found = state._score_proposals(proposals, values)
    counts = np.ones(1200) if weight is None else weight / weight.mean()
    shrinkage, n = growth._SHRINKAGE * models.unit, models.n_training
    for c, slots in enumerate(slots_twin(state, proposals, 9)):
        gain = size = 0.0
        for model in models.models:
            z = model.raw.astype(np.float64)
            slopes = -loss.gradient(z, models.targets).reshape(1200, -1)
            bent = loss.surrogate_curvature(z, models.targets)
            bent = np.maximum(bent, models.min_curvature)
            bent = bent.reshape(1200, -1).mean(axis=1)
            own = (np.arange(n) >= model.first) & (np.arange(n) < model.last)
            for b in np.unique(slots[:n]):
                inside = slots[:n] == b
                fit, judge = np.flatnonzero(own & inside), np.flatnonzero(~own & inside)
                value = counts[fit] @ slopes[fit] / (counts[fit] @ bent[fit] + shrinkage)
                linear = (counts[judge] @ slopes[judge]) @ value
                square = 0.5 * (counts[judge] @ bent[judge]) * (value**2).sum()
                gain, size = gain + linear - square, size + abs(linear) + square
        # Sums of up to a thousand float32 numbers, each with an error of a unit in the last place.
        assert found[c] == pytest.approx(gain, abs=1000 * np.finfo(np.float32).eps * size)


@pytest.mark.parametrize("name", ["squared", "multinomial"])
def test_the_two_models_are_cross_fitted(name: str) -> None:
    """Neither knows the targets of the other's rows, once the grids are given."""
    state = grown_models(name)
    old = state.models
    data = make_task(friedman(1200)[0], old.targets, loss=old.loss).data
    found = []
    for half in (None, 0, 1):
        targets, rows = (
            old.targets.copy(),
            slice(
                None if half is None else old.models[half].first,
                None if half is None else old.models[half].last,
            ),
        )
        if half is not None:
            targets[rows] = targets[rows][::-1]
        models = CrossFittedModels(replace(data, targets=targets), 1000, old.loss, 64, 1)
        n_bins = np.diff(old.offsets[: old.n_grids + 1])
        models.add(old.codes[: old.n_grids], n_bins)
        models.backfit(np.arange(old.n_grids))
        found.append([model.weights for model in models.models])
    plain, first_changed, second_changed = found
    np.testing.assert_array_equal(first_changed[1], plain[1])
    np.testing.assert_array_equal(second_changed[0], plain[0])
    assert (first_changed[0] != plain[0]).any()
    assert (second_changed[1] != plain[1]).any()


# What grids divide.


@pytest.mark.parametrize("name", ["quantile", "squared_hinge", "multinomial", "poisson"])
def test_relevant_inputs_are_found_for_every_loss(name: str) -> None:
    loss, make = LOSSES[name]
    X, y = friedman(2000)
    targets = make(y)
    found = grown(X, targets, loss=loss)
    relevance = found.relevance(20)
    assert np.sqrt(np.mean(relevance**2)) == pytest.approx(1.0)
    assert relevance[:5].mean() > 4 * relevance[5:].mean()
    best = min(
        mean_loss(loss)(np.full_like(targets, z), targets, None) for z in np.linspace(-3, 3, 301)
    )
    assert found.score < 0.75 * best


def test_relevance_adds_inputs_and_their_ranks(on_friedman: GrownGrids) -> None:
    worth = np.array([3.0, -5.0, 1.0, 1.0, 2.0, 0.0])
    found = replace(on_friedman, worth=worth).relevance(3)
    np.testing.assert_allclose(found, np.array([4.0, -3.0, 1.0]) * np.sqrt(3 / 26))
    nothing = replace(on_friedman, worth=0 * worth).relevance(3)
    np.testing.assert_array_equal(nothing, np.ones(3))


def test_the_worth_is_the_fall_of_the_score(on_friedman: GrownGrids) -> None:
    X, y = friedman(2000)
    models = CrossFittedModels(make_task(X, y).data, 1600, Squared(), 1, 1)
    fall = models.score() - on_friedman.score
    assert on_friedman.worth.sum() == pytest.approx(fall, rel=0.1)
    assert (on_friedman.worth >= 0).all()


def test_two_inputs_that_only_matter_together_are_found() -> None:
    X = np.random.default_rng(0).normal(size=(1500, 10))
    found = grown(X, np.sign(X[:, 3] * X[:, 8]))
    assert set(np.argsort(-found.relevance(10))[:2]) == {3, 8}
    assert found.score < 0.2


def test_categories_are_told_apart_one_by_one() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 30, 1500), rng.normal(size=(1500, 2))]).astype(float)
    y = rng.permutation(30)[X[:, 0].astype(int)] % 2 - 0.5
    found = grown(X, y, n_grids=16, categorical=np.array([True, False, False]))
    assert found.relevance(3).argmax() == 0
    assert found.score < 0.02
    own = found.grids.widths[:, 0]
    assert (own[np.isfinite(own)] == 1.0).all()


# When growth goes on, and when it ends.


def test_the_history_has_the_score_of_each_stage(
    on_friedman: GrownGrids,
) -> None:
    history = on_friedman.history
    assert [stage["n_grids"] for stage in history] == [40, 80, 120]
    scores = [stage["score"] for stage in history]
    assert scores == sorted(scores, reverse=True)
    assert on_friedman.score == scores[-1] < 0.1
    assert on_friedman.alpha == history[-1]["alpha"] > 0
    seconds = [stage["seconds"] for stage in history]
    assert seconds == sorted(seconds)
    assert len(on_friedman.grids) == 120


def test_rounds_and_stages_are_reported() -> None:
    told: list[Progress] = []
    found = grown(*friedman(600), n_grids=20, report=Reporter(callbacks=told.append))
    assert {progress.stage for progress in told} == {"growth"}
    stages = [progress.details for progress in told if "alpha" in progress.details]
    assert stages == found.history
    assert len(told) > len(stages) == 2
    assert [progress.number for progress in told] == list(range(1, len(told) + 1))


def test_there_are_no_more_grids_than_asked_for() -> None:
    for n_grids in (1, 17):
        assert len(grown(*friedman(600), n_grids=n_grids).grids) == n_grids


def test_the_share_that_adds_least_is_dropped() -> None:
    one, other = (
        grown(*friedman(600), n_grids=20, config=replace(FEW, dropped_share=share))
        for share in (0.0, 0.3)
    )
    assert (len(one.grids), len(other.grids)) == (20, 14)
    own = [widths.tobytes() for widths in one.grids.widths]
    places = [own.index(widths.tobytes()) for widths in other.grids.widths]
    assert places == sorted(places)
    assert one.score == other.score


def test_grids_stay_that_add_most_to_both_models() -> None:
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 1200)
    models = grown_models("multinomial", weight=weight).models
    n_grids, counts = models.n_grids - 3, models.counts[: models.n_training]
    added = np.empty(n_grids)
    for r in range(n_grids):
        at = models.offsets[r] + models.codes[r, : models.n_training] - 1
        one, other = (m.weights[at].reshape(len(at), -1).astype(float) for m in models.models)
        one, other = (x - np.average(x, axis=0, weights=counts) for x in (one, other))
        added[r] = np.average((one * other).sum(axis=1), weights=counts)
    kept = models.strongest(n_grids, 0.25)
    assert kept.shape == (models.n_grids,)
    assert not kept[n_grids:].any()
    assert kept.sum() == n_grids - n_grids // 4
    assert added[kept[:n_grids]].min() > added[~kept[:n_grids]].max()


def test_noise_ends_growth_long_before_the_bound() -> None:
    rng = np.random.default_rng(1)
    y = standardised(rng.normal(size=800))
    config = SearchConfig(proposals=48, kept_a_round=8, dropped_share=0.0)
    found = grown(rng.normal(size=(800, 6)), y, n_grids=800, config=config)
    assert len(found.grids) <= 320
    # The mean predicts noise with a loss of a half.
    assert found.score < 0.6


def test_interrupted_growth_ends_after_the_round() -> None:
    answers = iter([False, False, True, True])
    config = replace(FEW, stages=())
    found = grown(*friedman(600), n_grids=640, config=config, is_interrupted=lambda: next(answers))
    # The first round is not asked for.
    assert len(found.grids) == 3 * config.kept_a_round
    assert len(found.history) == 1


def test_growth_ends_where_bins_have_no_room_or_the_first_stage_is_enough() -> None:
    X, y = friedman(600)
    config = replace(FEW, stages=(16, 32))
    plain = grown(X, y, n_grids=48, config=config)
    seen: list[int] = []

    def has_room(n_columns: int) -> bool:
        seen.append(n_columns)
        return len(seen) < 2

    cramped = grown(X, y, n_grids=48, config=config, has_room=has_room)
    assert len(cramped.grids) == 2 * config.kept_a_round
    assert seen == sorted(seen)
    first = plain.history[0]["score"]
    assert len(grown(X, y, n_grids=48, config=config, is_enough=lambda z: z == first).grids) == 16
    ended = grown(X, y, n_grids=48, config=config, is_enough=lambda z: z != first)
    assert_same(ended, plain)


# Seeds, threads and groups.


def test_the_seed_decides_what_is_grown() -> None:
    X, y = friedman(600)
    one, same, other = (grown(X, y, n_grids=16, seed=seed) for seed in (5, 5, 6))
    assert_same(one, same)
    assert not np.array_equal(one.grids.widths, other.grids.widths)


@pytest.mark.parametrize("name", ["squared", "multinomial"])
def test_threads_do_not_change_a_bit(name: str) -> None:
    loss, make = LOSSES[name]
    X, y = friedman(1500)
    assert_same(*(grown(X, make(y), n_grids=32, loss=loss, n_jobs=n_jobs) for n_jobs in (1, 4)))


def test_growth_uses_no_more_rows_than_it_may() -> None:
    X, y = friedman(2000)
    config = replace(FEW, growth_rows=400, validation_rows=100)
    told: list[Progress] = []
    found = grown(X, y, n_grids=8, config=config, report=Reporter(callbacks=told.append))
    assert told[0].message.split()[:2] == ["400", "rows,"]
    assert found.score < 0.5


def test_rows_held_back_are_only_judges() -> None:
    """Without a stage to judge, their targets do not change the grids."""
    X, y = friedman(800)
    other = y.copy()
    held_back = held_back_splits(800, 0)[0][1]
    other[held_back] = other[held_back][::-1]
    plain, changed = (grown(X, targets, n_grids=16) for targets in (y, other))
    np.testing.assert_array_equal(plain.grids.widths, changed.grids.widths)
    assert plain.score < changed.score


# Weights.


def test_rows_without_weight_say_nothing() -> None:
    X, y = friedman(1600)
    weight = (np.arange(1600) % 2).astype(np.float64)
    wrong = np.where(weight > 0, y, 100 * np.sign(X[:, 12] - 0.5))
    plain, changed = (grown(X, targets, n_grids=16, weight=weight) for targets in (y, wrong))
    assert_same(plain, changed)


# Tables that are hard on numbers: nothing may overflow or divide by zero unseen.


def soundly_grown(X: Vector, y: Vector, **options: Any) -> GrownGrids:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = grown(X, y, **options)
    assert np.isfinite(found.score)
    assert 0 < found.alpha < np.inf
    assert np.isfinite(found.worth).all()
    assert len(found.grids) > 0
    return found


def test_constant_inputs_give_one_grid() -> None:
    found = soundly_grown(np.full((600, 3), 1.7e9), friedman(600)[1])
    assert len(found.grids) == 1
    # A fifth of 600 rows judges.
    assert found.score == pytest.approx(0.5, abs=0.1)
    np.testing.assert_array_equal(found.relevance(3), np.ones(3))


def test_constant_targets_give_one_grid() -> None:
    found = soundly_grown(friedman(600)[0], np.zeros(600))
    assert len(found.grids) == 1
    assert found.score == 0.0


def test_constant_inputs_are_never_divided() -> None:
    X, y = friedman(800)
    X[:, 5:] = 3.0
    found = divided(soundly_grown(X, y))
    assert not found[:, 5:].any()
    assert found[:, :5].any(axis=0).all()


def test_a_class_may_be_in_one_half_alone() -> None:
    X, _ = friedman(600)
    rare = np.arange(600) == held_back_splits(600, 0)[0][0][7]
    soundly_grown(X, np.where(rare, 1.0, -1.0), loss=Logistic(), n_grids=16)
    classes = np.where(rare, 3, np.random.default_rng(0).integers(0, 3, 600))
    soundly_grown(X, columns_of(classes, 4), loss=Multinomial(), n_grids=16)


def test_rare_and_large_counts_are_fitted() -> None:
    X, _ = friedman(600)
    y = np.where(X[:, 3] > 0.9, np.random.default_rng(0).poisson(10_000, 600) + 1.0, 0.0)
    found = soundly_grown(X, y, loss=Poisson(), n_grids=16)
    assert found.relevance(20).argmax() == 3


def test_timestamps_keep_their_digits() -> None:
    """Steps of 100 seconds at 1.6e9: float32 numbers there are 128 apart."""
    rng = np.random.default_rng(0)
    X = np.column_stack([1.6e9 + rng.permutation(1000), rng.normal(size=(1000, 3))])
    y = np.where((X[:, 0] - 1.6e9) // 100 % 2 == 0, 1.0, -1.0)
    found = soundly_grown(X, y, config=replace(FEW, proposals=200))
    assert found.score < 0.15
    assert found.relevance(4).argmax() == 0
    own = found.grids.widths[np.isfinite(found.grids.widths[:, 0]), 0]
    assert own.min() < 200


def test_one_huge_entry_does_no_harm() -> None:
    X, y = friedman(1000)
    X[17, 3] = -1e300
    found = soundly_grown(X, y)
    assert found.score < 0.3
    assert set(np.argsort(-found.relevance(20))[:3]) == {0, 1, 3}


def test_units_of_the_inputs_do_not_matter() -> None:
    (X, y), scale = friedman(600), 2.0**500
    plain, found = grown(X, y, n_grids=24), soundly_grown(X * scale, y, n_grids=24)
    np.testing.assert_array_equal(found.worth, plain.worth)
    np.testing.assert_allclose(found.grids.widths[:, :20], plain.grids.widths[:, :20] * scale)
    np.testing.assert_array_equal(found.grids.widths[:, 20:], plain.grids.widths[:, 20:])


def test_five_rows_can_be_grown_on() -> None:
    assert len(soundly_grown(*friedman(5), n_grids=16).grids) <= 16


# In which units grids are.


def test_bins_are_cells_over_the_rows_of_the_scaler() -> None:
    X, y = friedman(800)
    scaler, grids = Scaler.fit("both", X), grown(X, y, n_grids=24).grids
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


def test_steps_of_all_classes_at_once_are_never_too_long() -> None:
    """The curvatures of a coupled loss are a diagonal that is above each row's Hessian."""
    rng = np.random.default_rng(0)
    number = rng.integers(0, 4, 60)
    targets = np.where(number[:, None] == np.arange(4), 1.0, -1.0)
    data = make_task(rng.normal(size=(60, 2)), targets).data
    models = CrossFittedModels(data, 40, Multinomial(), 1, None)
    raw = rng.normal(scale=3.0, size=targets.shape).astype(np.float32)
    _, curvatures = models.derivatives(raw)
    p = softmax(raw.astype(np.float64), axis=1)
    for own, shares in zip(curvatures, p, strict=True):
        hessian = np.diag(shares) - np.outer(shares, shares)
        assert np.linalg.eigvalsh(float(own) * np.eye(4) - hessian)[0] > -1e-6


@pytest.mark.parametrize("n_outputs", [None, 3])
def test_contributions_are_covariances_of_the_parts_of_predictions(n_outputs: int | None) -> None:
    rng, shape = np.random.default_rng(0), () if n_outputs is None else (n_outputs,)
    codes = [rng.integers(0, m, 200) for m in (1, 4, 30)]
    counts = np.concatenate(
        [np.bincount(c, minlength=m) for c, m in zip(codes, (1, 4, 30), strict=True)]
    )
    offsets, (one, other) = np.array([0, 1, 5, 35]), rng.normal(size=(2, 35, *shape))
    found = covariances(counts.astype(float), offsets, one, other, n_jobs=2)
    for g in range(3):
        a, b = (w[offsets[g] + codes[g]].reshape(200, -1) for w in (one, other))
        expected = ((a - a.mean(axis=0)) * (b - b.mean(axis=0))).mean(axis=0).sum()
        assert found[g] == pytest.approx(expected, abs=1e-12)
