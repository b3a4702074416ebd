"""As many random grids as pay, the best of many: gains, and when doubling ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.base.deadline import Deadline
from gramless.base.random import stream
from gramless.losses import Huber, Logistic, Squared
from gramless.matrices.base import Vector
from gramless.model_selection import sizing
from gramless.model_selection.alpha import Goal, mean_loss
from gramless.model_selection.data import Data
from gramless.model_selection.judging import judge
from gramless.model_selection.recipes import GridRecipe, RandomRecipe
from gramless.model_selection.scoring import Unexplained
from gramless.model_selection.sizing import FIRST_GRIDS, LEAST_GAIN, Pool, enough_grids
from gramless.model_selection.splits import held_back_splits
from gramless.preprocessing.scaling import Scaler

Array = NDArray[np.float64]
N_ROWS = 1500
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, 6))
EASY = X[:, 0] + 0.5 * X[:, 1] + 0.7 * RNG.normal(size=N_ROWS)
HARD = np.sign(X[:, 0] * X[:, 1])
RADIAL = np.sin(2 * np.linalg.norm(X, axis=1))
WEIGHT = np.random.default_rng(1).gamma(2.0, size=N_ROWS)


def squares(z: Vector, y: Vector, weight: Array | None) -> float:
    return float(np.mean(np.average((z - y) ** 2, axis=0, weights=weight)))


def problem(targets: Vector, most: int, **more: Any) -> tuple[Data, Goal, RandomRecipe]:
    loss, rows = more.pop("loss", Squared()), more.pop("rows", X)
    bandwidth, weight = more.pop("bandwidth", 3.0), more.pop("weight", None)
    kind = more.pop("kind", "standard")
    assert not more
    score = squares if loss.name == "squared" else mean_loss(loss)
    scaler = Scaler.fit(kind, rows)
    template = RandomBinning(n_grids=most, bandwidth=bandwidth * scaler.unit, random_state=0)
    data = Data(rows, targets, weight, score, True)
    return data, Goal(loss, 0.0, score), RandomRecipe(scaler, template)


def sized(
    targets: Vector, most: int = 256, **more: Any
) -> tuple[GridRecipe, list[dict[str, float]]]:
    n_jobs, deadline = more.pop("n_jobs", 2), more.pop("deadline", Deadline())
    alpha, groups = more.pop("alpha", 1e-4), more.pop("groups", None)
    least = more.pop("least", 0)
    made = problem(targets, most, **more)
    split = held_back_splits(N_ROWS, 0)[0]
    return enough_grids(*made, least, alpha, split, groups, 0, deadline, n_jobs)


# What grids would gain.


def slow_gain(codes: NDArray[Any], rest: Unexplained, parts: tuple[slice, slice]) -> float:
    """Return one grid's gain, bin by bin: fitted to one half, judged by the other."""
    gain = 0.0
    for own, others in (parts, parts[::-1]):
        for b in np.unique(codes):
            here, there = codes[own] == b, codes[others] == b
            value = rest.fitted[own][here].sum(axis=0)
            value = value / (rest.fitted_curvature[own][here].sum() + 5.0)
            gain += float(rest.judged[others][there].sum(axis=0) @ value)
            gain -= 0.5 * rest.judged_curvature[others][there].sum() * float(value @ value)
    return gain


@pytest.mark.parametrize(
    ("targets", "more"),
    [
        (HARD, {}),
        (HARD, {"weight": WEIGHT, "kind": "quantile"}),
        (np.column_stack([HARD, EASY]), {}),
        (HARD, {"loss": Huber(0.5)}),
        (np.where(HARD > 0, 1.0, -1.0), {"loss": Logistic()}),
        (HARD, {"rows": sp.csr_array(X)}),
    ],
    ids=["plain", "weighted", "two outputs", "huber", "logistic", "sparse"],
)
def test_gains_are_those_of_a_slow_twin(targets: Vector, more: dict[str, Any]) -> None:
    kind = "none" if sp.issparse(more.get("rows")) else more.pop("kind", "standard")
    data, goal, recipe = problem(targets, 80, kind=kind, **more)
    halves = slice(0, 600), slice(600, 1200)
    parts = (*halves, slice(1200, N_ROWS))
    pool = Pool(data, parts, goal, recipe, stream(0, "test"), 2)
    pool.take(4)
    pool.solve(1e-3)
    which, rest = np.arange(4, 80), pool.halves.unexplained()
    expected = [slow_gain(pool.codes[g], rest, halves) for g in which]
    np.testing.assert_allclose(pool.gains(which), expected, rtol=1e-9, atol=1e-9)
    before = pool.taken.copy()
    pool.take(10)
    np.testing.assert_array_equal(
        np.flatnonzero(pool.taken & ~before), np.sort(which[np.argsort(expected)[::-1][:10]])
    )


def test_many_outputs_are_projected() -> None:
    outputs = np.random.default_rng(2).normal(size=(N_ROWS, 9))
    data, goal, recipe = problem(outputs, 8)
    parts = slice(0, 600), slice(600, 1200), slice(1200, N_ROWS)
    pool = Pool(data, parts, goal, recipe, stream(0, "test"), 1)
    rest = sizing._sketched(pool.halves.unexplained(), np.random.default_rng(3))
    directions = np.random.default_rng(3).normal(size=(9, 3))
    left = pool.halves.unexplained()
    np.testing.assert_allclose(rest.fitted, left.fitted @ directions)
    np.testing.assert_allclose(rest.judged, left.judged @ directions)
    np.testing.assert_array_equal(rest.judged_curvature, left.judged_curvature)


# What is chosen.


def test_chosen_grids_predict_better_than_as_many_that_are_drawn() -> None:
    found, _ = sized(HARD)
    data, goal, recipe = problem(HARD, len(found.grids))
    split = held_back_splits(N_ROWS, 0)[0]
    scores = [
        judge(data, goal, own, [1e-4], [split], Deadline(), 2).score for own in (found, recipe)
    ]
    assert scores[0] < 0.9 * scores[1]


def test_chosen_grids_are_of_those_that_are_drawn() -> None:
    found, _ = sized(HARD, 256)
    every = problem(HARD, 256)[2].sized(1024).draw()
    keys = {tuple(row) for row in np.column_stack([every.widths, every.shifts])}
    own = [tuple(row) for row in np.column_stack([found.grids.widths, found.grids.shifts])]
    assert set(own) <= keys
    assert len(set(own)) == len(own)


def test_noise_wants_few_grids_and_radial_targets_many() -> None:
    noise = np.random.default_rng(5).normal(size=N_ROWS)
    few, many = sized(noise, 1024, alpha=1.0), sized(RADIAL, 1024)
    assert len(few[0].grids) <= 2 * FIRST_GRIDS < len(many[0].grids)


@pytest.mark.parametrize("targets", [EASY, HARD, RADIAL], ids=["easy", "hard", "radial"])
def test_the_first_doubling_that_gains_little_is_the_last(targets: Array) -> None:
    found, history = sized(targets, 1024)
    sizes, scores = ([told[name] for told in history] for name in ("n_grids", "score"))
    assert sizes == [FIRST_GRIDS * 2**k for k in range(len(sizes))]
    gains = np.array(scores[1:]) / np.array(scores[:-1])
    assert (gains[:-1] <= 1 - LEAST_GAIN).all()
    assert sizes[-1] == 1024 or gains[-1] > 1 - LEAST_GAIN
    assert len(found.grids) == (sizes[-1] if gains[-1] < 1 else sizes[-2])


@pytest.mark.parametrize("most", [1, 50, 64, 100])
def test_there_are_never_more_than_allowed(most: int) -> None:
    found, history = sized(HARD, most)
    assert [told["n_grids"] for told in history] == ([most] if most <= 64 else [64, most])
    assert len(found.grids) in (most, FIRST_GRIDS)


@pytest.mark.parametrize("least", [1, 65, 100, 1024])
def test_others_as_they_are_drawn_are_added(least: int) -> None:
    enough, history = sized(HARD, 128)
    found, same = sized(HARD, 128, least=least)
    assert [told["score"] for told in same] == [told["score"] for told in history]
    own, chosen = ({tuple(row) for row in grids.grids.widths} for grids in (found, enough))
    assert len(found.grids) == max(len(enough.grids), least)
    assert chosen <= own
    drawn = problem(HARD, 128)[2].sized(1024).draw().widths
    left = [row for row in map(tuple, drawn) if row not in chosen]
    assert own - chosen == set(left[: max(0, least - len(enough.grids))])


def test_a_deadline_ends_doubling() -> None:
    found, history = sized(HARD, 1024, deadline=Deadline(1e-9))
    assert len(found.grids) == FIRST_GRIDS
    assert len(history) == 1


def test_threads_do_not_change_a_bit() -> None:
    one, history = sized(HARD, 256, n_jobs=1)
    for n_jobs in (2, 4):
        other, same = sized(HARD, 256, n_jobs=n_jobs)
        np.testing.assert_array_equal(other.grids.widths, one.grids.widths)
        assert [told["score"] for told in same] == [told["score"] for told in history]


def test_matched_rows_are_in_one_half(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Data] = []

    class Watched(Pool):
        def __init__(self, data: Data, parts: tuple[slice, slice, slice], *rest: Any) -> None:
            seen.append(data)
            super().__init__(data, parts, *rest)

    monkeypatch.setattr(sizing, "Pool", Watched)
    groups = np.arange(N_ROWS) // 3
    sized(groups.astype(np.float64), 64, groups=groups)
    numbers = seen[0].targets
    n_half = len(np.setdiff1d(np.arange(N_ROWS), held_back_splits(N_ROWS, 0)[0][1])) // 2
    shared = np.intersect1d(numbers[:n_half], numbers[n_half : 2 * n_half])
    assert len(shared) <= 1


# In estimators.


@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
def test_a_model_has_as_many_grids_as_were_enough(kind: Any) -> None:
    rows = np.random.default_rng(4).normal(size=(2500, 4))
    targets = np.sign(rows[:, 0] * rows[:, 1])
    model = kind(
        grids="random",
        bandwidth=2.0,
        alpha=1e-4,
        scaling="standard",
        calibrate=False,
        random_state=0,
    )
    model.fit(rows, targets)
    sizes = [trial["size"] for trial in model.search_]
    assert sizes[0] == FIRST_GRIDS
    assert len(model.features_.n_bins_) in sizes[-2:]
    assert model.score(rows, targets) > 0.7
