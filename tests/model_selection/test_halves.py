"""Two models of half the rows: dense twins, other losses, threads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, softmax

from gramless.features.grids import Grids
from gramless.kernels import Laplacian
from gramless.losses import Huber, Logistic, Loss, Multinomial, SmoothPinball, Squared
from gramless.matrices.base import Vector
from gramless.model_selection import halves as tuning
from gramless.model_selection.alpha import Goal, mean_loss
from gramless.model_selection.data import Data
from gramless.model_selection.halves import Half, Halves

N_ROWS = 61
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, 2))
NUMBERS = np.sin(2 * X[:, 0]) + X[:, 1] + 3.0
TWO = np.column_stack([NUMBERS, X[:, 0] * X[:, 1]])
SIGNS = np.where(NUMBERS > 3, 1.0, -1.0)
THREE = np.where(np.digitize(NUMBERS, [2.5, 3.5])[:, None] == np.arange(3), 1.0, -1.0)
WEIGHT = RNG.gamma(2.0, size=N_ROWS)
HALVES = (slice(0, 30), slice(30, 61)), (slice(30, 61), slice(0, 30))


def squares(z: Vector, y: Vector, weight: NDArray[np.float64] | None) -> float:
    return float(np.mean(np.average((z - y) ** 2, axis=0, weights=weight)))


def learned(
    n_grids: int = 5, seed: int = 0, rows: Vector = X
) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int64]]:
    """Return codes, and how many bins each grid has."""
    codes, known = Grids.draw(Laplacian(), np.full(2, 2.0), n_grids, seed).learn(rows, 1)
    return codes, known.n_bins


def made(
    targets: Vector,
    weight: NDArray[np.float64] | None = None,
    intercept: bool = True,
    loss: Loss | None = None,
    **more: Any,
) -> Halves:
    rows, n_jobs = more.pop("rows", X), more.pop("n_jobs", 1)
    assert not more
    score = squares if loss is None else mean_loss(loss)
    data = Data(rows, targets, weight, score, intercept)
    parts = (*(own for own, _ in HALVES), slice(0, len(rows)))
    return Halves(data, parts, Goal(loss or Squared(), 0.0, score), 16, n_jobs)


def all_of(model: Half) -> Vector:
    return np.concatenate(model.weights)


def with_grids(halves: Halves) -> Halves:
    """Add grids in two parts."""
    halves.add(*learned(5), 5.0)
    halves.add(*learned(3, seed=1), 5.0)
    return halves


def dense() -> NDArray[np.float64]:
    """Return the features of both parts, of value 1."""
    parts = []
    for codes, n_bins in (learned(5), learned(3, seed=1)):
        for own, most in zip(codes, n_bins, strict=True):
            parts.append(own[:, None] == np.arange(1, most + 1))
    return np.concatenate(parts, axis=1).astype(np.float64)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let solvers go on to the end."""
    monkeypatch.setattr(tuning, "_TOL", 1e-11)
    monkeypatch.setattr(tuning, "_ITERATIONS", 1000)
    monkeypatch.setattr(tuning, "_NEWTON_STEPS", 100)


# Solving all weights.


def ridge(rows: slice, targets: Vector, weight: Vector, alpha: float, intercept: bool) -> Vector:
    """Return the responses of all rows to a dense ridge fit of some."""
    Z = dense()
    penalty = np.full(Z.shape[1], alpha * 8)
    if intercept:
        Z, penalty = np.column_stack([Z, np.ones(len(Z))]), np.append(penalty, 0.0)
    share = weight[rows] / weight[rows].sum()
    gram = Z[rows].T @ (share[:, None] * Z[rows]) + np.diag(penalty)
    return Z @ np.linalg.solve(gram, Z[rows].T @ (share * targets[rows].T).T)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
@pytest.mark.parametrize("targets", [NUMBERS, TWO], ids=["one", "two"])
def test_both_models_are_ridge_fits_of_their_half(
    targets: Vector, weight: NDArray[np.float64] | None, intercept: bool
) -> None:
    halves, alpha = with_grids(made(targets, weight, intercept)), 0.01
    score, models = halves.solved(alpha)
    counts = np.ones(N_ROWS) if weight is None else weight
    expected = [ridge(own, targets, counts, alpha, intercept) for own, _ in HALVES]
    for model, twin in zip(models, expected, strict=True):
        np.testing.assert_allclose(model.responses, twin.reshape(N_ROWS, -1), rtol=1e-6, atol=1e-7)
        again = dense() @ all_of(model) + model.constant
        np.testing.assert_allclose(again, model.responses, atol=1e-9)
        assert model.constant.any() == intercept
    judged = [squares(twin, targets, weight) for twin in expected]
    assert score == pytest.approx(np.mean(judged), rel=1e-6)


def test_few_iterations_are_near_the_end() -> None:
    score, models = with_grids(made(NUMBERS)).solved(0.01)
    for model, (own, _) in zip(models, HALVES, strict=True):
        twin = ridge(own, NUMBERS, np.ones(N_ROWS), 0.01, True)
        np.testing.assert_allclose(model.responses[:, 0], twin, atol=0.05)
    assert score < 0.5 * NUMBERS.var()


def test_solving_leaves_the_models_that_are_there() -> None:
    halves = with_grids(made(NUMBERS))
    before = [model.responses.copy() for model in halves.models]
    halves.solved(0.1)
    for model, old in zip(halves.models, before, strict=True):
        np.testing.assert_array_equal(model.responses, old)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize(
    ("loss", "targets"),
    [(Logistic(), SIGNS), (Huber(0.3), NUMBERS), (Multinomial(), THREE)],
    ids=["logistic", "huber", "multinomial"],
)
@pytest.mark.parametrize("intercept", [False, True])
def test_other_losses_are_minimised_on_their_half(
    loss: Loss, targets: Vector, intercept: bool
) -> None:
    """No gradient is left in any weight."""
    halves, alpha, Z = with_grids(made(targets, WEIGHT, intercept, loss)), 0.01, dense()
    for model, (own, _) in zip(halves.solved(alpha)[1], HALVES, strict=True):
        z = model.responses.reshape(targets.shape)[own]
        slopes = loss.gradient(z, targets[own]).reshape(len(z), -1)
        slopes *= (WEIGHT[own] / WEIGHT[own].sum())[:, None]
        left = Z[own].T @ slopes + 8 * alpha * all_of(model)
        np.testing.assert_allclose(left, 0.0, atol=1e-6)
        if intercept:
            np.testing.assert_allclose(slopes.sum(axis=0), 0.0, atol=1e-6)
        assert np.abs(all_of(model)).max() > 0.05


def test_the_score_is_that_of_the_goal() -> None:
    halves = with_grids(made(SIGNS, WEIGHT, False, Logistic()))
    score, models = halves.solved(0.001)
    losses = [np.logaddexp(0.0, -SIGNS * model.responses[:, 0]) for model in models]
    expected = np.mean([np.average(loss, weights=WEIGHT) for loss in losses])
    assert score == pytest.approx(expected, rel=1e-12)


# What is left unexplained.


def unexplained(halves: Halves, scale: float = 1.0) -> tuple[Any, list[Vector]]:
    """Give both models made-up responses."""
    shape = halves.models[0].responses.shape
    drawn = [np.random.default_rng(k).normal(scale=scale, size=shape) for k in (1, 2)]
    pairs = zip(halves.models, drawn, strict=True)
    halves.models = [replace(model, responses=z) for model, z in pairs]
    return halves.unexplained(), drawn


def by_formula(name: str, z: Vector, targets: Vector) -> tuple[Vector, Vector]:
    """Return slopes and curvatures, relative to the largest curvature, without a floor."""
    if name == "squared":
        return targets - z, np.ones(len(z))
    if name == "logistic":
        p = expit(z)
        return 4.0 * ((targets + 1) / 2 - p), 4.0 * (p * (1 - p))[:, 0]
    if name == "huber":
        near = np.abs(targets - z) <= 0.7
        return np.clip(targets - z, -0.7, 0.7), near[:, 0].astype(np.float64)
    p = softmax(z, axis=1)
    return 2.0 * ((targets > 0) - p), 2.0 * (p * (1 - p)).mean(axis=1)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (Squared(), NUMBERS),
        (Squared(), TWO),
        (Logistic(), SIGNS),
        (Huber(0.7), NUMBERS),
        (Multinomial(), THREE),
    ],
    ids=["squared", "two outputs", "logistic", "huber", "multinomial"],
)
def test_unexplained_by_formula(
    loss: Loss, targets: Vector, weight: NDArray[np.float64] | None
) -> None:
    found, drawn = unexplained(made(targets, weight, loss=loss), scale=4.0)
    column = targets.reshape(N_ROWS, -1)
    counts = np.ones(N_ROWS) if weight is None else weight / weight.mean()
    below = 0
    for z, (own, others) in zip(drawn, HALVES, strict=True):
        slopes, curvature = by_formula(loss.name, z, column)
        below += int((curvature < 0.1).sum())
        slopes, curvature = slopes * counts[:, None], np.maximum(curvature, 0.1) * counts
        np.testing.assert_allclose(found.fitted[own], slopes[own], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.judged[others], slopes[others], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.fitted_curvature[own], curvature[own], rtol=1e-9)
        np.testing.assert_allclose(found.judged_curvature[others], curvature[others], rtol=1e-9)
    assert (below > 5) == (loss.name != "squared")


def test_a_straight_loss_still_curves_a_little() -> None:
    found, _ = unexplained(made(NUMBERS, loss=SmoothPinball(0.5, 0.01)))
    assert found.fitted_curvature.min() == found.judged_curvature.min() == 0.1
    # From -quantile to 1 - quantile, divided by a smoothness of 50.
    assert np.abs(found.fitted).max() == pytest.approx(0.01)


# A step along new grids.


@pytest.mark.parametrize(
    ("loss", "targets"), [(Squared(), TWO), (Logistic(), SIGNS)], ids=["squared", "logistic"]
)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
def test_new_grids_take_a_step_by_themselves(
    loss: Loss, targets: Vector, weight: NDArray[np.float64] | None
) -> None:
    halves = made(targets, weight, loss=loss)
    halves.add(*learned(5), 5.0)
    old, left = list(halves.models), halves.unexplained()
    halves.add(*learned(3, seed=1), 2.0)
    Z = dense()[:, len(all_of(old[0])) :]
    for model, before, (own, _) in zip(halves.models, old, HALVES, strict=True):
        size = Z[own].T @ left.fitted_curvature[own] + 2.0
        step = 0.4 / 3 * (Z[own].T @ left.fitted[own]) / size[:, None]
        np.testing.assert_allclose(all_of(model)[: len(all_of(before))], all_of(before))
        np.testing.assert_allclose(all_of(model)[len(all_of(before)) :], step, atol=1e-12)
        np.testing.assert_allclose(model.responses, before.responses + Z @ step, atol=1e-12)
        np.testing.assert_array_equal(model.constant, before.constant)
    assert halves.count == 8
    assert halves.offsets[8] == len(all_of(halves.models[0])) == dense().shape[1]


def test_steps_lower_the_loss_of_both_halves() -> None:
    halves = made(NUMBERS - NUMBERS.mean())
    losses = []
    for seed in range(4):
        left = halves.unexplained()
        losses.append(float((left.fitted**2).sum()))
        halves.add(*learned(4, seed=seed), 1.0)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.8 * losses[0]


# Threads.


@pytest.mark.parametrize(
    ("loss", "kind"), [(Squared(), "two"), (Logistic(), "signs")], ids=["squared", "logistic"]
)
def test_threads_do_not_change_a_bit(loss: Loss, kind: str) -> None:
    rows = np.random.default_rng(3).normal(size=(20_000, 2))
    signs = np.where(rows[:, 0] * rows[:, 1] > 0, 1.0, -1.0)
    targets = signs if kind == "signs" else np.column_stack([signs, rows[:, 0]])
    found = []
    for n_jobs in (1, 2, 4):
        halves = made(targets, loss=loss, rows=rows, n_jobs=n_jobs)
        halves.add(*learned(9, rows=rows), 5.0)
        score, models = halves.solved(1e-3)
        found.append((score, models, halves.models))
    for score, solved, stepped in found[1:]:
        assert score == found[0][0]
        for other, one in zip([*solved, *stepped], [*found[0][1], *found[0][2]], strict=True):
            np.testing.assert_array_equal(other.responses, one.responses)
            np.testing.assert_array_equal(all_of(other), all_of(one))
