"""Recipes judged on held-back rows: dense twins of every fit, splits, paths of alphas."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import Nystrom, RandomBinning
from gramless.base.deadline import Deadline
from gramless.features.grids import Grids
from gramless.losses import Logistic, Squared
from gramless.matrices.base import Vector
from gramless.model_selection import alpha as goals
from gramless.model_selection.alpha import Goal, mean_loss
from gramless.model_selection.data import Data
from gramless.model_selection.judging import judge
from gramless.model_selection.recipes import GridRecipe, RandomRecipe
from gramless.model_selection.splits import MOST_HELD_BACK, held_back_splits
from gramless.preprocessing.scaling import Scaler

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 3))
NUMBERS = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=160) + 5.0
TWO = np.column_stack([NUMBERS, X[:, 0] * X[:, 2]])
WEIGHT = RNG.gamma(2.0, size=160)
ALPHAS = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5]


def squares(z: Vector, y: Vector, weight: Array | None) -> float:
    return float(np.mean(np.average((z - y) ** 2, axis=0, weights=weight)))


GOAL = Goal(Squared(), 0.0, squares)


def random_recipe(n_grids: int = 24, rows: Vector = X) -> RandomRecipe:
    scaler = Scaler.fit("standard", rows)
    template = RandomBinning(n_grids=n_grids, bandwidth=3.0 * scaler.unit, random_state=0)
    return RandomRecipe(scaler, template)


def judged(alphas: list[float], splits: Any = None, begin: int = 0, **more: Any) -> Any:
    targets, weight = more.pop("targets", NUMBERS), more.pop("weight", None)
    goal, recipe = more.pop("goal", GOAL), more.pop("recipe", random_recipe())
    deadline, n_jobs = more.pop("deadline", Deadline()), more.pop("n_jobs", 1)
    assert not more
    data = Data(X, targets, weight, goal.score, True)
    splits = held_back_splits(160, 0)[:1] if splits is None else splits
    return judge(data, goal, recipe, alphas, splits, deadline, n_jobs, begin)


def twin(
    split: Any, alpha: float, targets: Vector = NUMBERS, weight: Array | None = None
) -> Vector:
    """Return a dense ridge fit's responses to the rows held back."""
    training, others = split
    recipe = random_recipe()
    feature_map = RandomBinning(**recipe.template.get_params()).fit(X[training])
    Z, new = (
        np.column_stack([feature_map.transform(X[rows]).toarray(), np.ones(len(rows))])
        for rows in (training, others)
    )
    share = np.ones(len(training)) if weight is None else weight[training]
    share = share / share.sum()
    penalty = np.full(Z.shape[1], alpha)
    penalty[-1] = 0.0
    gram = Z.T @ (share[:, None] * Z) + np.diag(penalty)
    return new @ np.linalg.solve(gram, Z.T @ (share * targets[training].T).T)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goals, "_SQUARED_TOL", 1e-11)
    monkeypatch.setattr(goals, "_ITERATIONS", 500)


# Splits.


@pytest.mark.parametrize(
    ("n_rows", "held_back"),
    [(500, 100), (5000, 1000), (10_000, 2000), (15_000, 2000), (50_000, 5000), (300_000, 20_000)],
)
def test_many_rows_are_cut_once(n_rows: int, held_back: int) -> None:
    ((training, others),) = held_back_splits(n_rows, seed=3)
    assert len(others) == held_back <= MOST_HELD_BACK
    assert len(training) == n_rows - held_back
    np.testing.assert_array_equal(np.sort(np.concatenate([training, others])), np.arange(n_rows))
    assert abs(others.mean() / n_rows - 0.5) < 0.1


@pytest.mark.parametrize("n_rows", [5, 40, 499])
def test_few_rows_are_held_back_in_turns(n_rows: int) -> None:
    splits = held_back_splits(n_rows, seed=3)
    assert len(splits) == 5
    everyone = np.concatenate([others for _, others in splits])
    np.testing.assert_array_equal(np.sort(everyone), np.arange(n_rows))
    for training, others in splits:
        assert not np.intersect1d(training, others).size
        assert len(training) + len(others) == n_rows
        assert len(others) > 0


def test_seeds_cut_differently() -> None:
    one, same, other = (held_back_splits(900, seed)[0][1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


# Judging.


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
@pytest.mark.parametrize("targets", [NUMBERS, TWO], ids=["one", "two"])
@pytest.mark.parametrize("n_splits", [1, 5])
def test_responses_are_those_of_fits_that_did_not_know_the_rows(
    n_splits: int, targets: Vector, weight: Array | None
) -> None:
    splits = held_back_splits(160, 0)[:n_splits]
    found = judged([0.003], splits, targets=targets, weight=weight)
    expected = np.concatenate([twin(split, 0.003, targets, weight) for split in splits])
    np.testing.assert_allclose(found.responses, expected, rtol=1e-6)
    rows = np.concatenate([others for _, others in splits])
    np.testing.assert_array_equal(found.rows, rows)
    own = None if weight is None else weight[rows]
    assert found.score == pytest.approx(squares(expected, targets[rows], own), rel=1e-6)
    assert (found.alpha, found.n_rows) == (0.003, 128)


@pytest.mark.usefixtures("exact")
def test_the_best_alpha_wins() -> None:
    (split,) = held_back_splits(160, 0)[:1]
    scores = [squares(twin(split, alpha), NUMBERS[split[1]], None) for alpha in ALPHAS]
    best = int(np.argmin(scores))
    assert 0 < best < len(ALPHAS) - 1
    assert min(before / after for before, after in pairwise(scores[: best + 1])) > 1.01
    found = judged(ALPHAS)
    assert found.alpha == ALPHAS[best]
    assert found.score == pytest.approx(scores[best], rel=1e-6)
    np.testing.assert_allclose(found.responses, twin(split, ALPHAS[best]), rtol=1e-5)


def test_of_alphas_alike_the_strongest_wins() -> None:
    best = judged(ALPHAS).alpha
    assert judged([best * factor for factor in (1.02, 1.01, 1.0, 0.99)]).alpha == best * 1.02


def counting() -> tuple[Goal, list[float]]:
    scores: list[float] = []

    def score(z: Vector, y: Vector, weight: Array | None) -> float:
        scores.append(squares(z, y, weight))
        return scores[-1]

    return Goal(Squared(), 0.0, score), scores


def test_the_first_worse_alpha_ends_the_path() -> None:
    goal, scores = counting()
    found = judged(ALPHAS, goal=goal)
    worst = ALPHAS.index(found.alpha) + 1
    path = scores[: worst + 1]
    assert path[:-1] == sorted(path[:-1], reverse=True)
    assert path[-1] > path[-2]
    # Once more each, over all splits together.
    assert len(scores) == 2 * len(path) < 2 * len(ALPHAS)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("begin", range(len(ALPHAS)))
@pytest.mark.parametrize("n_splits", [1, 5])
def test_the_best_alpha_wins_wherever_the_path_begins(begin: int, n_splits: int) -> None:
    splits = held_back_splits(160, 0)[:n_splits]
    found, expected = judged(ALPHAS, splits, begin), judged(ALPHAS, splits)
    assert found.alpha == expected.alpha
    np.testing.assert_allclose(found.responses, expected.responses, rtol=1e-6)


def test_stronger_alphas_are_tried_where_no_weaker_one_is_better() -> None:
    best = ALPHAS.index(judged(ALPHAS).alpha)
    assert 1 < best < len(ALPHAS) - 1
    for begin, n_tried in ((best - 1, 3), (best, 3), (best + 1, 4)):
        goal, scores = counting()
        assert judged(ALPHAS, goal=goal, begin=begin).alpha == ALPHAS[best]
        assert len(scores) == 2 * n_tried


@pytest.mark.usefixtures("exact")
def test_the_weights_of_the_best_alpha_are_kept() -> None:
    (split,) = held_back_splits(160, 0)[:1]
    found = judged(ALPHAS, [split], begin=1)
    (fit,) = found.fits
    Z = fit.features.take_rows(slice(len(split[0]), None))
    responses = Z.matvec(fit.weights[:-1]) + fit.weights[-1]
    np.testing.assert_array_equal(responses, found.responses)


def test_a_deadline_ends_the_path() -> None:
    goal, scores = counting()
    found = judged(ALPHAS, goal=goal, deadline=Deadline(1e-9))
    assert found.alpha == ALPHAS[0]
    assert len(scores) == 2


def test_turns_of_different_lengths_are_judged_where_all_went() -> None:
    found = judged(ALPHAS, held_back_splits(160, 0))
    assert found.alpha in ALPHAS
    assert len(found.responses) == len(found.rows) == 160
    assert found.score == squares(found.responses, NUMBERS[found.rows], None)


def test_other_losses_are_judged_by_their_score() -> None:
    signs, loss = np.where(NUMBERS > 5, 1.0, -1.0), Logistic()
    found = judged([0.01, 0.001], goal=Goal(loss, 0.0, mean_loss(loss)), targets=signs)
    expected = np.logaddexp(0.0, -signs[found.rows] * found.responses).mean()
    assert found.score == pytest.approx(expected, rel=1e-12)
    assert found.score < 0.6


def test_given_grids_are_judged_alike() -> None:
    """A recipe of the same grids, given instead of drawn, has the same responses."""
    recipe = random_recipe()
    scaler = Scaler.fit("both", X)
    found = judged(ALPHAS, recipe=GridRecipe(scaler, recipe.over(scaler).draw()))
    other = judged(ALPHAS, recipe=GridRecipe(recipe.scaler, recipe.draw()))
    plain = judged(ALPHAS)
    drawn = judged(ALPHAS, recipe=recipe.over(scaler))
    np.testing.assert_array_equal(other.responses, plain.responses)
    np.testing.assert_array_equal(found.responses, drawn.responses)
    assert found.score == pytest.approx(plain.score, rel=0.2)


def test_threads_do_not_change_a_bit() -> None:
    one = judged(ALPHAS, held_back_splits(160, 0))
    for n_jobs in (2, 4):
        other = judged(ALPHAS, held_back_splits(160, 0), n_jobs=n_jobs)
        assert (other.alpha, other.score) == (one.alpha, one.score)
        np.testing.assert_array_equal(other.responses, one.responses)


# What a fit to all rows goes on from.


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
@pytest.mark.parametrize("targets", [NUMBERS, TWO], ids=["one", "two"])
def test_features_of_all_rows_are_kept(targets: Vector, weight: Array | None) -> None:
    (split,) = held_back_splits(160, 0)[:1]
    found = judged(ALPHAS, [split], targets=targets, weight=weight)
    (fit,) = found.fits
    np.testing.assert_array_equal(fit.order, np.concatenate(split))
    scaler = random_recipe().scaler
    again = fit.feature_map.rows_matrix(scaler.rows(X[fit.order]))
    np.testing.assert_array_equal(again.toarray(), fit.features.toarray())
    assert fit.weights.shape == (fit.features.shape[1] + 1, *targets.shape[1:])


def test_bins_of_no_training_row_have_no_weight() -> None:
    (split,) = held_back_splits(160, 0)[:1]
    (fit,) = judged(ALPHAS, [split]).fits
    seen = fit.features.toarray()[: len(split[0])].any(axis=0)
    assert 0 < np.count_nonzero(~seen) < len(seen)
    assert (fit.weights[:-1][~seen] == 0.0).all()
    assert np.count_nonzero(fit.weights[:-1][seen]) == np.count_nonzero(seen)


def test_nothing_is_kept_of_turns_or_of_features_that_learn_from_rows() -> None:
    assert judged(ALPHAS, held_back_splits(160, 0)).fits == ()
    scaler = Scaler.fit("standard", X)
    template = Nystrom(n_components=20, bandwidth=3.0 * scaler.unit, random_state=0)
    assert judged(ALPHAS, recipe=RandomRecipe(scaler, template)).fits == ()


# Random grids beside grown ones.


def partition(grids: Grids, rows: Vector) -> NDArray[Any]:
    return grids.learn(np.asarray(rows), 1)[0]


@pytest.mark.parametrize("kind", ["standard", "quantile"])
def test_random_grids_over_another_scaler_stay_on_their_scaling(kind: Any) -> None:
    """Every input is divided as often as alone, whatever values it has."""
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.normal(size=400), rng.integers(0, 2, 400), rng.integers(0, 3, 400)])
    own, both = Scaler.fit(kind, rows), Scaler.fit("both", rows)
    template = RandomBinning(n_grids=200, bandwidth=1.0 * own.unit, random_state=0)
    recipe = RandomRecipe(own, template)
    for j in range(3):
        apart = rows[:2].copy()
        apart[:, :] = rows[0]
        apart[:, j] = rows[:, j].min(), rows[:, j].max()
        alone = partition(recipe.draw(), own.rows(apart))
        beside = partition(recipe.over(both).draw(), both.rows(apart))
        share, other = (float((codes[:, 0] != codes[:, 1]).mean()) for codes in (alone, beside))
        assert other == pytest.approx(share, abs=0.15), f"input {j}"


def test_sized_recipes_draw_the_first_grids() -> None:
    recipe = random_recipe(24)
    few = recipe.sized(7)
    np.testing.assert_array_equal(few.draw().widths, recipe.draw().widths[:7])
    assert recipe.template.n_grids == 24
