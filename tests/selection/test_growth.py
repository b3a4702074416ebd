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
from gramless.selection.splits import validation_splits

from .tasks import make_task

Array = NDArray[np.float64]

FEW = SearchConfig(proposals=64, stages=(16, 32), dropped_share=0.0)


def grown(
    X: Vector, y: Vector, n_grids: int = 48, loss: Loss | None = None, **more: Any
) -> GrownGrids:
    loss, config = loss or Squared(), more.pop("config", FEW)
    options_of_data = {name: more.pop(name, None) for name in ("weight", "categorical")}
    data = make_task(X, y, loss=loss, **options_of_data).data
    seed = more.pop("seed", 0)
    split, scaler = validation_splits(len(X), seed)[0], data.scaler("both")
    options = {"max_grids": n_grids, "seed": seed, "n_jobs": 2, **more}
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


def divided(result: GrownGrids) -> NDArray[np.bool_]:
    """Tell which inputs, or their ranks, each grid divides."""
    return np.isfinite(result.grids.widths).reshape(len(result.grids), 2, -1).any(axis=1)


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
    result = growth._Growth(space, models, FEW, 64, rng, 1)
    for _ in range(n_rounds):
        result._add_best_proposals(64)
    return result


def expected_slots(state: growth._Growth, proposals: Any, bits: int) -> NDArray[np.integer[Any]]:
    """Return the place of each row's cell in each proposal, (n_proposals, n_rows)."""
    places = []
    for c in range(len(proposals)):
        inputs = proposals.inputs[c, : proposals.sizes[c]]
        widths, shifts = (v[c, : len(inputs), None] for v in (proposals.widths, proposals.shifts))
        inverse, shifts = (1.0 / widths).astype(np.float32), shifts.astype(np.float32)
        cells = np.floor((state.space.columns[inputs] - shifts) * inverse).astype(np.int32)
        if np.prod(1.0 + np.ptp(cells.astype(float), axis=1)) <= 2**bits:
            places.append(np.unique(cells, axis=1, return_inverse=True)[1].reshape(-1))
        else:
            hashed = cells.astype(np.uint32) * state.multipliers[: len(inputs), None]
            places.append(hashed.sum(axis=0, dtype=np.uint32) >> np.uint32(32 - bits))
    return np.array(places)


@pytest.mark.parametrize(("name", "weighted"), [("poisson", False), ("two numbers", True)])
def test_gains_match_a_slow_implementation(name: str, weighted: bool) -> None:
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 1200) if weighted else None
    state = grown_models(name, weight=weight)
    models, loss = state.models, LOSSES[name][0]
    proposals = state.proposer.propose(12)
    values = models.scoring_values(np.random.default_rng(0))
    result = state._score_proposals(proposals, values)
    counts = np.ones(1200) if weight is None else weight / weight.mean()
    shrinkage, n = growth._SHRINKAGE * models.typical_curvature, models.n_training
    for c, slots in enumerate(expected_slots(state, proposals, 9)):
        gain = size = 0.0
        for raw, (start, stop) in zip(models.raw, models.halves, strict=True):
            z = raw.astype(np.float64)
            slopes = -loss.gradient(z, models.targets).reshape(1200, -1)
            bent = loss.surrogate_curvature(z, models.targets)
            bent = np.maximum(bent, models.min_curvature)
            bent = bent.reshape(1200, -1).mean(axis=1)
            is_training = (np.arange(n) >= start) & (np.arange(n) < stop)
            for b in np.unique(slots[:n]):
                inside = slots[:n] == b
                fit, judge = (
                    np.flatnonzero(is_training & inside),
                    np.flatnonzero(~is_training & inside),
                )
                value = counts[fit] @ slopes[fit] / (counts[fit] @ bent[fit] + shrinkage)
                linear = (counts[judge] @ slopes[judge]) @ value
                square = 0.5 * (counts[judge] @ bent[judge]) * (value**2).sum()
                gain, size = gain + linear - square, size + abs(linear) + square
        # Sums of up to a thousand float32 numbers, each with an error of a unit in the last place.
        assert result[c] == pytest.approx(gain, abs=1000 * np.finfo(np.float32).eps * size)


@pytest.mark.parametrize("name", ["squared", "multinomial"])
def test_each_model_ignores_targets_of_the_other_half(name: str) -> None:
    """Neither knows the targets of the other's rows, once the grids are given."""
    state = grown_models(name)
    old = state.models
    data = make_task(friedman(1200)[0], old.targets, loss=old.loss).data
    results = []
    for half in (None, 0, 1):
        targets = old.targets.copy()
        if half is not None:
            rows = slice(*old.halves[half])
            targets[rows] = targets[rows][::-1]
        models = CrossFittedModels(replace(data, targets=targets), 1000, old.loss, 64, 1)
        n_bins = np.diff(old.offsets[: old.n_grids + 1])
        models.add(old.codes[: old.n_grids], n_bins)
        models.backfit(np.arange(old.n_grids))
        results.append(models.weights.swapaxes(0, 1))
    plain, first_changed, second_changed = results
    np.testing.assert_array_equal(first_changed[1], plain[1])
    np.testing.assert_array_equal(second_changed[0], plain[0])
    assert (first_changed[0] != plain[0]).any()
    assert (second_changed[1] != plain[1]).any()


@pytest.mark.parametrize("name", ["squared", "multinomial"])
def test_codes_are_those_of_simplified_grids(name: str) -> None:
    state = grown_models(name, n_rounds=4)
    start = 0
    for grids in state.kept:
        codes, known = grids.learn(state.space.rows)
        stop = start + len(grids)
        np.testing.assert_array_equal(state.models.codes[start:stop], codes)
        n_bins = np.diff(state.models.offsets[start : stop + 1])
        np.testing.assert_array_equal(n_bins, known.n_bins)
        start = stop


# What grids divide.


@pytest.mark.parametrize("name", ["quantile", "squared_hinge", "multinomial", "poisson"])
def test_relevance_ranks_inputs_for_every_loss(name: str) -> None:
    loss, make = LOSSES[name]
    X, y = friedman(2000)
    targets = make(y)
    result = grown(X, targets, loss=loss)
    relevance = result.relevance(20)
    assert np.sqrt(np.mean(relevance**2)) == pytest.approx(1.0)
    assert relevance[:5].mean() > 4 * relevance[5:].mean()
    best = min(
        mean_loss(loss)(np.full_like(targets, z), targets, None) for z in np.linspace(-3, 3, 301)
    )
    assert result.score < 0.75 * best


def test_relevance_adds_inputs_and_their_ranks(on_friedman: GrownGrids) -> None:
    worth = np.array([3.0, -5.0, 1.0, 1.0, 2.0, 0.0])
    result = replace(on_friedman, worth=worth).relevance(3)
    np.testing.assert_allclose(result, np.array([4.0, -3.0, 1.0]) * np.sqrt(3 / 26))
    # The worth of combinations by a projection follows.
    combined = replace(on_friedman, worth=np.append(worth, [7.0, 1.0])).relevance(3)
    np.testing.assert_array_equal(combined, result)
    nothing = replace(on_friedman, worth=0 * worth).relevance(3)
    np.testing.assert_array_equal(nothing, np.ones(3))


def test_worth_sums_to_the_fall_of_the_score(on_friedman: GrownGrids) -> None:
    X, y = friedman(2000)
    models = CrossFittedModels(make_task(X, y).data, 1600, Squared(), 1, 1)
    fall = models.score() - on_friedman.score
    assert on_friedman.worth.sum() == pytest.approx(fall, rel=0.1)
    assert (on_friedman.worth >= 0).all()


def test_inputs_that_only_matter_together_are_relevant() -> None:
    X = np.random.default_rng(0).normal(size=(1500, 10))
    result = grown(X, np.sign(X[:, 3] * X[:, 8]))
    assert set(np.argsort(-result.relevance(10))[:2]) == {3, 8}
    assert result.score < 0.2


def test_categories_are_divided_at_whole_numbers() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 30, 1500), rng.normal(size=(1500, 2))]).astype(float)
    y = rng.permutation(30)[X[:, 0].astype(int)] % 2 - 0.5
    result = grown(X, y, n_grids=16, categorical=np.array([True, False, False]))
    assert result.relevance(3).argmax() == 0
    assert result.score < 0.02
    divided = np.isfinite(result.grids.widths[:, 0])
    widths, shifts = result.grids.widths[divided, 0], result.grids.shifts[divided, 0]
    assert (widths % 1.0 == 0.0).all()
    assert (shifts % 1.0 == 0.5).all()


def test_groups_of_categories_are_those_that_final_grids_put_together() -> None:
    # Codes with gaps: cells are of codes, not of ranks among the rows of growth.
    rng = np.random.default_rng(0)
    codes = rng.choice([0.0, 1.0, 5.0, 6.0, 40.0, 41.0], 900)
    X = np.column_stack([codes, rng.normal(size=900)])
    y = np.isin(codes, [5.0, 6.0]) - 0.3
    result = grown(X, y, n_grids=40, categorical=np.array([True, False]))
    assert result.score < 0.02
    widths, shifts = result.grids.widths[:, 0], result.grids.shifts[:, 0]
    grouped = np.isfinite(widths) & (widths > 1.0)
    assert grouped.any()
    assert not (np.floor((codes[:, None] - shifts[grouped]) / widths[grouped]) == 0).all()


def test_categories_with_huge_codes_are_separated_one_by_one() -> None:
    rng = np.random.default_rng(0)
    codes = rng.choice([0.0, 1.0, 2.0**30, 2.0**30 + 1.0], 600)
    X = np.column_stack([codes, rng.normal(size=600)])
    result = grown(X, codes % 2 - 0.5, n_grids=16, categorical=np.array([True, False]))
    assert result.score < 0.02
    widths = result.grids.widths[:, 0]
    assert set(widths[np.isfinite(widths)]) == {1.0}


# When growth goes on, and when it ends.


def test_history_records_the_score_of_each_stage(on_friedman: GrownGrids) -> None:
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
    reports: list[Progress] = []
    result = grown(*friedman(600), n_grids=20, report=Reporter(callbacks=reports.append))
    assert {progress.stage for progress in reports} == {"growth"}
    stages = [progress.details for progress in reports if "alpha" in progress.details]
    assert stages == result.history
    assert len(reports) > len(stages) == 2
    assert [progress.number for progress in reports] == list(range(1, len(reports) + 1))


def test_number_of_grids_is_limited() -> None:
    for n_grids in (1, 17):
        assert len(grown(*friedman(600), n_grids=n_grids).grids) == n_grids


def test_least_useful_grids_are_dropped() -> None:
    one, other = (
        grown(*friedman(600), n_grids=20, config=replace(FEW, dropped_share=share))
        for share in (0.0, 0.3)
    )
    assert (len(one.grids), len(other.grids)) == (20, 14)
    all_widths = [widths.tobytes() for widths in one.grids.widths]
    places = [all_widths.index(widths.tobytes()) for widths in other.grids.widths]
    assert places == sorted(places)
    assert one.score == other.score


def test_strongest_keeps_grids_that_both_models_use_most() -> None:
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 1200)
    models = grown_models("multinomial", weight=weight).models
    n_grids, counts = models.n_grids - 3, models.counts[: models.n_training]
    added = np.empty(n_grids)
    for r in range(n_grids):
        at = models.offsets[r] + models.codes[r, : models.n_training] - 1
        one, other = models.weights[at].astype(float).swapaxes(0, 1)
        one, other = (x - np.average(x, axis=0, weights=counts) for x in (one, other))
        added[r] = np.average((one * other).sum(axis=1), weights=counts)
    kept = models.strongest(n_grids, 0.25)
    assert kept.shape == (models.n_grids,)
    assert not kept[n_grids:].any()
    assert kept.sum() == n_grids - n_grids // 4
    assert added[kept[:n_grids]].min() > added[~kept[:n_grids]].max()


def test_growth_on_noise_stops_early() -> None:
    rng = np.random.default_rng(1)
    y = standardised(rng.normal(size=800))
    config = SearchConfig(proposals=48, kept_a_round=8, dropped_share=0.0)
    result = grown(rng.normal(size=(800, 6)), y, n_grids=800, config=config)
    assert len(result.grids) <= 320
    # The mean predicts noise with a loss of a half.
    assert result.score < 0.6


def test_interrupted_growth_finishes_its_round() -> None:
    answers = iter([False, False, True, True])
    config = replace(FEW, stages=())
    result = grown(*friedman(600), n_grids=640, config=config, is_interrupted=lambda: next(answers))
    # The first round is not asked for.
    assert len(result.grids) == 3 * config.kept_a_round
    assert len(result.history) == 1


def test_growth_stops_without_room_or_once_good_enough() -> None:
    X, y = friedman(600)
    config = replace(FEW, stages=(16, 32))
    plain = grown(X, y, n_grids=48, config=config)
    n_columns_asked: list[int] = []

    def has_room(n_columns: int) -> bool:
        n_columns_asked.append(n_columns)
        return len(n_columns_asked) < 2

    cramped = grown(X, y, n_grids=48, config=config, has_room=has_room)
    assert len(cramped.grids) == 2 * config.kept_a_round
    assert n_columns_asked == sorted(n_columns_asked)
    first = plain.history[0]["score"]
    assert len(grown(X, y, n_grids=48, config=config, is_enough=lambda z: z == first).grids) == 16
    ended = grown(X, y, n_grids=48, config=config, is_enough=lambda z: z != first)
    assert_same(ended, plain)


# Seeds, threads and groups.


def test_seed_decides_the_grown_grids() -> None:
    X, y = friedman(600)
    one, same, other = (grown(X, y, n_grids=16, seed=seed) for seed in (5, 5, 6))
    assert_same(one, same)
    assert not np.array_equal(one.grids.widths, other.grids.widths)


@pytest.mark.parametrize("name", ["squared", "multinomial"])
def test_number_of_threads_does_not_change_growth(name: str) -> None:
    loss, make = LOSSES[name]
    X, y = friedman(1500)
    assert_same(*(grown(X, make(y), n_grids=32, loss=loss, n_jobs=n_jobs) for n_jobs in (1, 4)))


def test_growth_rows_limits_the_rows_used() -> None:
    X, y = friedman(2000)
    config = replace(FEW, growth_rows=400, validation_rows=100)
    reports: list[Progress] = []
    result = grown(X, y, n_grids=8, config=config, report=Reporter(callbacks=reports.append))
    assert reports[0].message.split()[:2] == ["400", "rows,"]
    assert result.score < 0.5


def test_targets_held_back_do_not_change_grids() -> None:
    """Without a stage to judge, their targets do not change the grids."""
    X, y = friedman(800)
    other = y.copy()
    held_back = validation_splits(800, 0)[0][1]
    other[held_back] = other[held_back][::-1]
    plain, changed = (grown(X, targets, n_grids=16) for targets in (y, other))
    np.testing.assert_array_equal(plain.grids.widths, changed.grids.widths)
    assert plain.score < changed.score


# Weights.


def test_targets_of_zero_weight_do_not_change_growth() -> None:
    X, y = friedman(1600)
    weight = (np.arange(1600) % 2).astype(np.float64)
    wrong = np.where(weight > 0, y, 100 * np.sign(X[:, 12] - 0.5))
    plain, changed = (grown(X, targets, n_grids=16, weight=weight) for targets in (y, wrong))
    assert_same(plain, changed)


# Tables that are hard on numbers: nothing may overflow or divide by zero unseen.


def soundly_grown(X: Vector, y: Vector, **options: Any) -> GrownGrids:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = grown(X, y, **options)
    assert np.isfinite(result.score)
    assert 0 < result.alpha < np.inf
    assert np.isfinite(result.worth).all()
    assert len(result.grids) > 0
    return result


def test_constant_inputs_give_one_grid() -> None:
    result = soundly_grown(np.full((600, 3), 1.7e9), friedman(600)[1])
    assert len(result.grids) == 1
    # A fifth of 600 rows judges.
    assert result.score == pytest.approx(0.5, abs=0.1)
    np.testing.assert_array_equal(result.relevance(3), np.ones(3))


def test_constant_targets_give_one_grid() -> None:
    result = soundly_grown(friedman(600)[0], np.zeros(600))
    assert len(result.grids) == 1
    assert result.score == 0.0


def test_constant_inputs_are_never_divided() -> None:
    X, y = friedman(800)
    X[:, 5:] = 3.0
    result = divided(soundly_grown(X, y))
    assert not result[:, 5:].any()
    assert result[:, :5].any(axis=0).all()


def test_class_may_occur_in_one_half_only() -> None:
    X, _ = friedman(600)
    rare = np.arange(600) == validation_splits(600, 0)[0][0][7]
    soundly_grown(X, np.where(rare, 1.0, -1.0), loss=Logistic(), n_grids=16)
    classes = np.where(rare, 3, np.random.default_rng(0).integers(0, 3, 600))
    soundly_grown(X, columns_of(classes, 4), loss=Multinomial(), n_grids=16)


def test_rare_and_large_counts_are_fitted() -> None:
    X, _ = friedman(600)
    y = np.where(X[:, 3] > 0.9, np.random.default_rng(0).poisson(10_000, 600) + 1.0, 0.0)
    result = soundly_grown(X, y, loss=Poisson(), n_grids=16)
    assert result.relevance(20).argmax() == 3


def test_timestamps_keep_their_digits() -> None:
    """Steps of 100 seconds at 1.6e9: float32 numbers there are 128 apart."""
    rng = np.random.default_rng(0)
    X = np.column_stack([1.6e9 + rng.permutation(1000), rng.normal(size=(1000, 3))])
    y = np.where((X[:, 0] - 1.6e9) // 100 % 2 == 0, 1.0, -1.0)
    result = soundly_grown(X, y, config=replace(FEW, proposals=200))
    assert result.score < 0.15
    assert result.relevance(4).argmax() == 0
    widths = result.grids.widths[np.isfinite(result.grids.widths[:, 0]), 0]
    assert widths.min() < 200


def test_one_huge_entry_does_not_spoil_growth() -> None:
    X, y = friedman(1000)
    X[17, 3] = -1e300
    result = soundly_grown(X, y)
    assert result.score < 0.3
    assert set(np.argsort(-result.relevance(20))[:3]) == {0, 1, 3}


def test_units_of_inputs_scale_widths_only() -> None:
    (X, y), scale = friedman(600), 2.0**500
    plain, result = grown(X, y, n_grids=24), soundly_grown(X * scale, y, n_grids=24)
    np.testing.assert_array_equal(result.worth, plain.worth)
    np.testing.assert_allclose(result.grids.widths[:, :20], plain.grids.widths[:, :20] * scale)
    np.testing.assert_array_equal(result.grids.widths[:, 20:], plain.grids.widths[:, 20:])


def test_growth_works_on_five_rows() -> None:
    assert len(soundly_grown(*friedman(5), n_grids=16).grids) <= 16


# In which units grids are.


def test_bins_are_cells_of_scaled_rows() -> None:
    X, y = friedman(800)
    scaler, grids = Scaler.fit("both", X), grown(X, y, n_grids=24).grids
    rows = np.asarray(scaler.rows(X))
    codes, known = grids.learn(rows, 1)
    assert np.isfinite(grids.widths[:, :20]).any()
    assert np.isfinite(grids.widths[:, 20:]).any()
    for r in range(len(grids)):
        divided_inputs = np.isfinite(grids.widths[r])
        cells = np.floor(
            (rows[:, divided_inputs] - grids.shifts[r, divided_inputs])
            / grids.widths[r, divided_inputs]
        )
        _, first, number = np.unique(cells, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(np.argsort(first))
        np.testing.assert_array_equal(codes[r], 1 + order[number.ravel()])
        assert known.n_bins[r] == len(first)


def test_multinomial_curvatures_bound_the_hessian() -> None:
    """The curvatures of a coupled loss are a diagonal that is above each row's Hessian."""
    rng = np.random.default_rng(0)
    number = rng.integers(0, 4, 60)
    targets = np.where(number[:, None] == np.arange(4), 1.0, -1.0)
    data = make_task(rng.normal(size=(60, 2)), targets).data
    models = CrossFittedModels(data, 40, Multinomial(), 1, None)
    raw = rng.normal(scale=3.0, size=targets.shape).astype(np.float32)
    _, curvatures = models.derivatives(raw)
    p = softmax(raw.astype(np.float64), axis=1)
    for curvature, shares in zip(curvatures, p, strict=True):
        hessian = np.diag(shares) - np.outer(shares, shares)
        assert np.linalg.eigvalsh(float(curvature) * np.eye(4) - hessian)[0] > -1e-6


@pytest.mark.parametrize("n_outputs", [None, 3])
def test_contributions_are_covariances_of_partial_predictions(n_outputs: int | None) -> None:
    rng, shape = np.random.default_rng(0), () if n_outputs is None else (n_outputs,)
    codes = [rng.integers(0, m, 200) for m in (1, 4, 30)]
    counts = np.concatenate(
        [np.bincount(c, minlength=m) for c, m in zip(codes, (1, 4, 30), strict=True)]
    )
    offsets, (one, other) = np.array([0, 1, 5, 35]), rng.normal(size=(2, 35, *shape))
    result = covariances(counts.astype(float), offsets, one, other, n_jobs=2)
    for g in range(3):
        a, b = (w[offsets[g] + codes[g]].reshape(200, -1) for w in (one, other))
        expected = ((a - a.mean(axis=0)) * (b - b.mean(axis=0))).mean(axis=0).sum()
        assert result[g] == pytest.approx(expected, abs=1e-12)
