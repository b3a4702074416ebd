"""Averages of two models: the share, and the weights over the grids of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.stacked import WithIntercept
from gramless.model_selection.blending import Blend, Shares
from gramless.model_selection.judging import Fit
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.objective import Problem, Solution

Array = NDArray[np.float64]


def squares(z: Array, y: Array, weight: Array | None) -> float:
    return float(np.average((z - y) ** 2, weights=weight))


# The share.


def noisy(spread: float, other: float, n_rows: int = 2000) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    y = rng.normal(size=n_rows)
    return y + spread * rng.normal(size=n_rows), y + other * rng.normal(size=n_rows), y


@pytest.mark.parametrize(("spread", "other"), [(1.0, 1.0), (1.0, 2.0), (2.0, 1.0), (1.0, 1.5)])
def test_independent_errors_are_weighed_by_their_variances(spread: float, other: float) -> None:
    first, second, y = noisy(spread, other)
    share, score = Shares.judge(first, second, y, None, squares).best
    best = spread**2 / (spread**2 + other**2)
    assert abs(share - best) <= 0.1
    # Never beyond the best towards the less even.
    assert abs(share - 0.5) <= abs(best - 0.5) + 0.05
    assert score == pytest.approx(squares((1 - share) * first + share * second, y, None))


@pytest.mark.parametrize("at", [0, 1])
def test_a_model_that_is_far_better_is_taken_alone(at: int) -> None:
    first, second, y = noisy(0.01, 1.0)
    pair = (first, second) if at == 0 else (second, first)
    assert Shares.judge(*pair, y, None, squares).best[0] == at


def test_models_that_agree_share_evenly() -> None:
    first, _, y = noisy(1.0, 1.0)
    assert Shares.judge(first, first, y, None, squares).best == (0.5, squares(first, y, None))


def test_the_most_even_share_within_a_standard_error() -> None:
    """The rule, written out."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=60)
    first, second = y + rng.normal(size=60), y + 1.2 * rng.normal(size=60)
    shares = [k / 10 for k in range(11)]
    losses = {s: ((1 - s) * first + s * second - y) ** 2 for s in shares}
    best = min(shares, key=lambda s: losses[s].mean())
    allowed = []
    for s in shares:
        blocks = [(losses[s] - losses[best])[k::20].mean() for k in range(20)]
        if losses[s].mean() <= losses[best].mean() + np.std(blocks) / np.sqrt(20):
            allowed.append(s)
    assert len(allowed) > 1
    found, _ = Shares.judge(first, second, y, None, squares).best
    assert found == min(allowed, key=lambda s: abs(s - 0.5))


def test_rows_count_by_their_weights() -> None:
    first, second, y = noisy(1.0, 1.0)
    good = np.arange(2000) % 2 == 0
    second = np.where(good, y, second + 5.0)
    share, score = Shares.judge(first, second, y, np.where(good, 1.0, 1e-9), squares).best
    assert share == 1.0
    assert score < 1e-6
    assert Shares.judge(first, second, y, None, squares).best[0] < 0.5


@pytest.mark.parametrize("n_rows", [1, 2, 19])
def test_few_rows(n_rows: int) -> None:
    first, second, y = noisy(1.0, 0.0, n_rows)
    share, score = Shares.judge(first, second, y, None, squares).best
    assert 0.5 <= share <= 1.0
    assert score <= squares(first, y, None)


@pytest.mark.parametrize(("spread", "other"), [(1.0, 1.0), (0.5, 2.0), (1.5, 1.0)])
def test_a_model_that_knows_something_else_helps_clearly(spread: float, other: float) -> None:
    assert Shares.judge(*noisy(spread, other), None, squares).first_helps


def test_a_model_that_knows_nothing_more_does_not_help() -> None:
    first, second, y = noisy(1.0, 1.0)
    assert not Shares.judge(second, second, y, None, squares).first_helps
    assert not Shares.judge(second + first, second, y, None, squares).first_helps
    assert not Shares.judge(np.zeros(40), np.zeros(40), np.zeros(40), None, squares).first_helps


def test_chance_alone_is_seldom_two_standard_errors() -> None:
    """The first model adds noise that has nothing to do with the second's errors."""
    helped = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        errors, noise = rng.normal(size=(2, 400))
        helped.append(
            Shares.judge(errors + 0.3 * noise, errors, np.zeros(400), None, squares).first_helps
        )
    assert np.mean(helped) < 0.08


def test_two_standard_errors_written_out() -> None:
    """Around the point where the better average is just clear enough."""
    rng = np.random.default_rng(3)
    errors, own = rng.normal(size=(2, 200))
    said, clear = [], []
    for shared in np.linspace(0.8, 0.99, 20):
        first = shared * errors + np.sqrt(1.0 - shared**2) * own
        averages = [(1 - s) * first + s * errors for s in np.arange(11) / 10]
        best = min(averages, key=lambda z: squares(z, 0.0, None))
        blocks = [(errors**2 - best**2)[k::20].mean() for k in range(20)]
        clear.append(np.mean(blocks) > 2.0 * np.std(blocks) / np.sqrt(20))
        said.append(Shares.judge(first, errors, np.zeros(200), None, squares).first_helps)
    assert said == clear
    assert 0 < sum(said) < len(said)


# The weights.


def fits_of(n_grids: tuple[int, int], n_rows: int = 40) -> list[Fit]:
    X = np.random.default_rng(2).normal(size=(n_rows, 3))
    maps = [RandomBinning(n_grids=n, bandwidth=4.0, random_state=n) for n in n_grids]
    return [Fit(own, own.fit_matrix(X), slice(None), None) for own in maps]


def rows_of(n_rows: int = 40) -> Array:
    """Return rows some of which fall into bins never seen."""
    return 1.5 * np.random.default_rng(4).normal(size=(n_rows, 3))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("outputs", [None, 1, 3])
def test_the_average_predicts_the_average(intercept: bool, outputs: int | None) -> None:
    rng, fits = np.random.default_rng(3), fits_of((2, 5))
    targets = 2.0 + rng.normal(size=40 if outputs is None else (40, outputs))
    solver, solutions, expected = ConjugateGradient(tol=1e-10), [], []
    for fit, alpha, share in zip(fits, (0.01, 0.5), (0.7, 0.3), strict=True):
        Z: Any = WithIntercept(fit.features) if intercept else fit.features
        found = solver.solve(Problem(Z, targets, L2(alpha, int(intercept))))
        solutions.append(found)
        new: Any = fit.feature_map.rows_matrix(rows_of())
        new = WithIntercept(new) if intercept else new
        expected.append(share * new.matvec(found.weights))
    both, joined = Blend(0.3, (0.01, 0.5)).joined(fits, solutions, int(intercept))
    whole: Any = both.rows_matrix(rows_of())
    assert whole.has_unseen
    whole = WithIntercept(whole) if intercept else whole
    np.testing.assert_allclose(whole.matvec(joined.weights), sum(expected), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        (("converged", "converged"), "converged"),
        (("converged", "max_iter"), "max_iter"),
        (("stopped", "max_iter"), "stopped"),
        (("stalled", "converged"), "stalled"),
    ],
)
def test_the_worse_end_is_told(ends: tuple[str, str], told: str) -> None:
    fits, blend = fits_of((2, 3)), Blend(0.3, (0.1, 0.1))
    solutions = [
        Solution(np.zeros(fit.features.shape[1]), end, n, [{"objective": float(n)}])
        for fit, end, n in zip(fits, ends, (3, 4), strict=True)
    ]
    _, joined = blend.joined(fits, solutions, 0)
    assert (joined.status, joined.n_iter) == (told, 7)
    assert joined.history == [{"objective": 3.0}, {"objective": 4.0}]


# In the estimators.


def mixed(n_rows: int) -> tuple[Array, Array]:
    """Return targets with a part of one input, and a part of all of ten together."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 10)) * rng.gamma(2.0, size=(n_rows, 1))
    return X, 0.6 * np.sin(2 * X[:, 0]) + np.cos(0.5 * np.linalg.norm(X, axis=1))


@pytest.fixture(scope="module")
def rows() -> tuple[Array, Array]:
    return mixed(4000)


def fitted(rows: tuple[Array, Array], grids: str) -> KernelRegressor:
    X, y = rows
    return KernelRegressor(grids=grids, random_state=0, tol=1e-4, n_jobs=2).fit(X[:1200], y[:1200])


@pytest.fixture(scope="module")
def averaged(rows: tuple[Array, Array]) -> KernelRegressor:
    model = fitted(rows, "auto")
    assert model.settings_.grids == "both"
    return model


def test_both_parts_are_at_their_minimum(
    averaged: KernelRegressor, rows: tuple[Array, Array]
) -> None:
    X, y = (part[:1200] for part in rows)
    share, model = averaged.settings_.random_share, averaged
    codes = model.features_.rows_matrix(model.scaler_.rows(X, 1))
    assert share is not None
    n_random = [t["size"] for t in model.search_ if t["grids"] == "random"][-1]
    n_first = codes.n_grids - n_random
    starts = codes.offsets[[0, n_first, codes.n_grids]]
    targets = (y - y.mean()) / y.std()
    for k, (own, a, b) in enumerate([(1 - share, 0, n_first), (share, n_first, codes.n_grids)]):
        offsets = codes.offsets[a : b + 1] - codes.offsets[a]
        part = BinnedMatrix(codes.codes[a:b], offsets)
        weights = model.coef_[starts[k] : starts[k + 1]] / own / y.std()
        weights *= np.sqrt((b - a) / codes.n_grids)
        left = targets - part.matvec(weights)
        slope = part.rmatvec(left - left.mean()) / len(y)
        if k == 0:
            alpha = model.alpha_
        else:
            # Of random grids alpha is not kept; at the minimum it is slope over weights.
            alpha = float(slope @ weights / (weights @ weights))
        rest = np.linalg.norm(slope - alpha * weights) / np.linalg.norm(
            part.rmatvec(targets) / len(y)
        )
        assert rest < 1e-3


@pytest.mark.slow
def test_an_average_is_better_than_either(
    averaged: KernelRegressor, rows: tuple[Array, Array]
) -> None:
    X, y = (part[1200:] for part in rows)
    fits = [fitted(rows, grids) for grids in ("random", "grown")]
    assert averaged.score(X, y) > max(model.score(X, y) for model in fits)


@pytest.mark.slow
def test_draws_come_from_one_process() -> None:
    X, y = mixed(1000)
    model = KernelRegressor(n_posterior=4, random_state=0, n_jobs=2).fit(X, y)
    assert model.settings_.grids in ("random", "grown")
    assert model.settings_.random_share is None


@pytest.mark.slow
def test_classes_are_averaged_too() -> None:
    X, y = mixed(3000)
    labels = np.digitize(y, [-0.7, 0.7])
    fits = {
        grids: KernelClassifier(grids=grids, random_state=0, n_jobs=2).fit(X[:1500], labels[:1500])
        for grids in ("auto", "random", "grown")
    }
    assert fits["auto"].settings_.grids == "both"
    right = {grids: model.score(X[1500:], labels[1500:]) for grids, model in fits.items()}
    assert right["auto"] > max(right["random"], right["grown"]) - 0.01
