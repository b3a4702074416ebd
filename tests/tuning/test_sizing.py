"""As many random grids as pay: warm starts, and when doubling ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import RandomBinning
from gramless.base.deadline import Deadline
from gramless.features.scaling import Scaler
from gramless.losses import Huber, Squared
from gramless.matrices.base import Vector
from gramless.tuning import alpha as goals
from gramless.tuning import sizing
from gramless.tuning.alpha import Goal, mean_loss
from gramless.tuning.data import Data
from gramless.tuning.judging import Judged, judge
from gramless.tuning.recipes import RandomRecipe
from gramless.tuning.sizing import FIRST_GRIDS, LEAST_GAIN, enough_grids
from gramless.tuning.splits import held_back_splits

Array = NDArray[np.float64]
N_ROWS = 1500
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, 6))
EASY = X[:, 0] + 0.5 * X[:, 1] + 0.7 * RNG.normal(size=N_ROWS)
HARD = np.sign(X[:, 0] * X[:, 1])


def squares(z: Vector, y: Vector, weight: Array | None) -> float:
    return float(np.mean(np.average((z - y) ** 2, axis=0, weights=weight)))


def sized(targets: Vector, most: int = 512, **more: Any) -> tuple[Judged, list[float], Any]:
    """Return what was found, the score of each size and how to judge a recipe from scratch."""
    loss, weight = more.pop("loss", Squared()), more.pop("weight", None)
    alpha, deadline = more.pop("alpha", 1e-4), more.pop("deadline", Deadline())
    bandwidth, n_jobs = more.pop("bandwidth", 3.0), more.pop("n_jobs", 2)
    kind = more.pop("kind", "standard")
    assert not more
    scores: list[float] = []
    plain = squares if loss.name == "squared" else mean_loss(loss)

    def score(z: Vector, y: Vector, weight: Array | None) -> float:
        scores.append(plain(z, y, weight))
        return scores[-1]

    data, goal = Data(X, targets, weight, score, True), Goal(loss, 0.0, score)
    scaler = Scaler.fit(kind, X)
    template = RandomBinning(n_grids=most, bandwidth=bandwidth * scaler.unit, random_state=0)
    split = held_back_splits(N_ROWS, 0)[0]
    found = enough_grids(data, goal, RandomRecipe(scaler, template), alpha, split, deadline, n_jobs)

    def cold(recipe: Any) -> Judged:
        return judge(data, goal, recipe, [alpha], [split], Deadline(), n_jobs)

    return found, list(scores), cold


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goals, "_SQUARED_TOL", 1e-9)
    monkeypatch.setattr(goals, "_ITERATIONS", 500)
    monkeypatch.setattr(goals, "_TOL", 1e-9)
    monkeypatch.setattr(goals, "_STEPS", 100)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("kind", ["standard", "quantile"])
@pytest.mark.parametrize(
    ("targets", "more"),
    [
        (HARD, {}),
        (HARD, {"weight": np.random.default_rng(1).gamma(2.0, size=N_ROWS)}),
        (np.column_stack([HARD, EASY]), {}),
        (HARD, {"loss": Huber(0.5)}),
    ],
    ids=["plain", "weighted", "two outputs", "huber"],
)
def test_solutions_from_half_the_grids_end_where_cold_ones_do(
    targets: Vector, more: dict[str, Any], kind: str
) -> None:
    found, scores, cold = sized(targets, 400, kind=kind, **more)
    assert len(scores) > 1
    expected = cold(found.recipe)
    np.testing.assert_allclose(found.responses, expected.responses, atol=1e-5)
    np.testing.assert_array_equal(found.rows, expected.rows)
    assert found.score == pytest.approx(expected.score, rel=1e-4)
    assert (found.alpha, found.n_rows) == (1e-4, expected.n_rows)


def test_few_iterations_are_near_the_end_too() -> None:
    found, _, cold = sized(HARD)
    expected = cold(found.recipe).responses
    assert np.sqrt(np.mean((found.responses - expected) ** 2)) < 0.05 * expected.std()


def test_a_start_predicts_the_same_over_more_grids() -> None:
    recipe = sized(EASY, 64)[0].recipe
    grids = recipe.draw()
    rows = recipe.scaler.rows(X)
    bins = sizing._Bins(rows, rows, 1)
    bins.add(grids.take(np.arange(64) < 20))
    data = Data(X, EASY, None, squares, True)
    Z = data.matrix(bins.matrices()[0])
    w = np.random.default_rng(0).normal(size=Z.shape[1])
    bins.add(grids.take(np.arange(64) >= 20))
    longer = data.matrix(bins.matrices()[0])
    start = sizing._lengthened(w, longer, 1, 64 / 20)
    assert start is not None
    np.testing.assert_allclose(longer.matvec(start), Z.matvec(w), rtol=1e-9)


def test_bins_in_parts_are_those_of_all_grids() -> None:
    recipe = sized(EASY, 30)[0].recipe
    grids, rows = recipe.draw(), recipe.scaler.rows(X)
    bins = sizing._Bins(rows[:1000], rows[1000:], 1)
    for first, last in ((0, 5), (5, 24), (24, 30)):
        bins.add(grids.take((np.arange(30) >= first) & (np.arange(30) < last)))
    feature_map, whole = recipe.fit(X[:1000], 1)
    training, others = bins.matrices()
    np.testing.assert_array_equal(training.tocsr().toarray(), whole.tocsr().toarray())
    new = feature_map.rows_matrix(recipe.scaler.rows(X[1000:]))
    np.testing.assert_array_equal(others.tocsr().toarray(), new.tocsr().toarray())


# When it ends.


def n_grids(found: Judged) -> int:
    recipe = found.recipe
    assert isinstance(recipe, RandomRecipe)
    return int(recipe.template.n_grids)


def test_easy_targets_want_few_grids_and_hard_ones_many() -> None:
    easy, hard = sized(EASY, 1024, bandwidth=6.0, alpha=1e-3), sized(HARD, 1024)
    assert n_grids(easy[0]) <= 2 * FIRST_GRIDS < n_grids(hard[0])


@pytest.mark.parametrize("targets", [EASY, HARD], ids=["easy", "hard"])
def test_the_first_doubling_that_gains_little_is_the_last(targets: Array) -> None:
    found, scores, _ = sized(targets, 1024)
    sizes = FIRST_GRIDS * 2 ** np.arange(len(scores))
    assert n_grids(found) == sizes[-1]
    gains = np.array(scores[1:]) / np.array(scores[:-1])
    assert (gains[:-1] <= 1 - LEAST_GAIN).all()
    assert n_grids(found) == 1024 or gains[-1] > 1 - LEAST_GAIN
    assert found.score == scores[-1]


@pytest.mark.parametrize("most", [1, 50, 128, 200])
def test_there_are_never_more_than_allowed(most: int) -> None:
    found, scores, _ = sized(HARD, most)
    assert n_grids(found) <= most
    assert len(scores) <= 2
    assert n_grids(found) == most or len(scores) == 2


def test_a_deadline_ends_doubling() -> None:
    found, scores, _ = sized(HARD, 1024, deadline=Deadline(1e-9))
    assert n_grids(found) == FIRST_GRIDS
    assert len(scores) == 1


def test_threads_do_not_change_a_bit() -> None:
    one = sized(HARD, 256, n_jobs=1)[0]
    for n_jobs in (2, 4):
        other = sized(HARD, 256, n_jobs=n_jobs)[0]
        np.testing.assert_array_equal(other.responses, one.responses)
        assert n_grids(other) == n_grids(one)
