"""What follows the choice: steps of rounded weights, and shrinkage where few rows show no gain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import t

from gramless import KernelRegressor, load, save
from gramless.base.numeric import rounded_to_multiples
from gramless.features.binning import GivenBinning
from gramless.features.grids import Grids
from gramless.losses import LOSSES, Logistic, Loss, Poisson, Squared
from gramless.portable import PortableModel
from gramless.selection.selected import coarsest_step, shrinkage_factors
from gramless.solvers.choose import choose_solver

from .tasks import make_task

Array = NDArray[np.float64]
ROUNDING_RNG = np.random.default_rng(0)
TABLE = ROUNDING_RNG.uniform(size=(4000, 2))
Z = np.sin(6.0 * TABLE[:, 0]) + TABLE[:, 1]
HASHES = ROUNDING_RNG.integers(1, 2**62, (60, 3))
GRIDS = Grids(
    ROUNDING_RNG.uniform(0.1, 0.5, (60, 2)),
    ROUNDING_RNG.uniform(size=(60, 2)),
    HASHES[:, 1:] | 1,
    HASHES[:, 0].copy(),
)
SPLIT = np.arange(3000), np.arange(3000, 4000)


def targets(loss: Loss) -> NDArray[np.float64]:
    if isinstance(loss, Logistic):
        return np.where(Z + ROUNDING_RNG.logistic(size=4000) > 0.5, 1.0, -1.0)
    if isinstance(loss, Poisson):
        return ROUNDING_RNG.poisson(1000.0 * np.exp(0.1 * Z)) / 1000.0
    return Z + 0.3 * ROUNDING_RNG.normal(size=4000)


@pytest.mark.parametrize(
    ("loss", "weighted"), [(Squared(), True), (Logistic(), False), (Poisson(), True)], ids=str
)
def test_rounding_increases_the_validation_loss_by_a_thousandth_at_most(
    loss: Loss, weighted: bool
) -> None:
    matrix = GivenBinning().fit_grids(TABLE, GRIDS)
    weight = ROUNDING_RNG.uniform(0.5, 2.0, 4000) if weighted else None
    task = make_task(TABLE, targets(loss), weight=weight, loss=loss)
    data, goal = task.data, task.goal
    training = data.matrix(matrix.take_rows(slice(0, 3000)))
    problem = goal.problem(data, training, 1e-4, SPLIT[0])
    solver, _ = choose_solver(
        "auto",
        tol=1e-3,
        max_iter=100,
        loss=loss,
        l1_ratio=0.0,
        n_jobs=1,
        matrix=training,
        n_outputs=1,
    )
    weights = solver.solve(problem).weights
    step = coarsest_step(goal, data, matrix, SPLIT, weights)
    assert 2.0**-20 * np.abs(weights[:-1]).max() < step
    held_back = data.matrix(matrix.take_rows(slice(3000, 4000)))
    rounded = np.append(rounded_to_multiples(weights[:-1], step), weights[-1])
    coarse = np.append(rounded_to_multiples(weights[:-1], 64.0 * step), weights[-1])
    before, after, beyond = (
        goal.scored(data, held_back.matvec(w), SPLIT[1])[0] for w in (weights, rounded, coarse)
    )
    assert after <= 1.001 * before < beyond


def test_zero_weights_have_no_rounding_step() -> None:
    matrix, task = GivenBinning().fit_grids(TABLE, GRIDS), make_task(TABLE, Z)
    zeros = np.zeros(matrix.shape[1] + 1)
    assert coarsest_step(task.goal, task.data, matrix, SPLIT, zeros) == 0.0


# Shrinkage.


RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
LINEAR = X @ [2.0, -1.0, 0.5] + 0.1 * RNG.normal(size=400)
WEAK = LINEAR + 2.5 * RNG.normal(size=400)
NOISE = RNG.normal(size=400)


def ratio_of_noise(kind: str, n_rows: int, seed: int, other_weight: float = 1.0) -> float:
    """Return the error over that of the mean, all rows but ten having another weight."""
    rng = np.random.default_rng([seed, n_rows])

    def inputs(size: int) -> Array:
        if kind == "categorical":
            return rng.integers(0, 4, size=(size, 4)).astype(float)
        return rng.normal(size=(size, 4)) if kind == "normal" else rng.standard_t(1.5, (size, 4))

    rows, targets, new_rows, new = inputs(n_rows), rng.normal(size=n_rows), inputs(300), NOISE[:300]
    weight = np.where(np.arange(n_rows) < 10, 1.0, other_weight)
    categorical = range(4) if kind == "categorical" else "auto"
    model = KernelRegressor(categorical_features=categorical, random_state=seed)
    predicted = model.fit(rows, targets, sample_weight=weight).predict(new_rows)
    constant = np.average(targets, weights=weight)
    return float(np.sqrt(np.mean((predicted - new) ** 2) / np.mean((constant - new) ** 2)))


# Without shrinkage and limits, the mean ratios of these draws are 1.20 and 1.66.
@pytest.mark.parametrize(("kind", "first_seed"), [("normal", 0), ("heavy-tailed", 12)])
def test_noise_is_predicted_nearly_by_the_mean(kind: str, first_seed: int) -> None:
    ratios = [ratio_of_noise(kind, 10, seed) for seed in range(first_seed, first_seed + 12)]
    assert np.exp(np.mean(np.log(ratios))) < 1.05
    assert max(ratios) < 2.0


@pytest.mark.parametrize(
    ("kind", "n_rows", "other_weight"),
    [("categorical", 20, 1.0), ("heavy-tailed", 60, 1e-3)],
)
def test_noise_with_categories_or_weights_is_predicted_nearly_by_the_mean(
    kind: str, n_rows: int, other_weight: float
) -> None:
    ratios = [ratio_of_noise(kind, n_rows, seed, other_weight) for seed in range(3)]
    assert np.exp(np.mean(np.log(ratios))) < 1.1
    assert max(ratios) < 2.0


def test_noise_with_a_robust_loss_is_predicted_nearly_by_a_constant() -> None:
    rng = np.random.default_rng(0)
    rows, targets = rng.standard_t(1.5, size=(20, 4)), rng.normal(size=20)
    model = KernelRegressor(loss="huber", random_state=0).fit(rows, targets)
    assert np.ptp(model.predict(rng.standard_t(1.5, size=(200, 4)))) < 1.0


@pytest.mark.parametrize(
    ("loss", "n_rows", "seed"),
    [("absolute_error", 60, 1), ("huber", 200, 0)],
)
def test_outliers_do_not_hide_a_clear_signal(loss: str, n_rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, 2))
    targets = rows[:, 1] + 0.1 * rng.normal(size=n_rows)
    targets[rng.permutation(n_rows)[: n_rows // 15]] = 1e6
    model = KernelRegressor(loss=loss, effort=1, random_state=0).fit(rows, targets)
    assert np.median(np.abs(model.predict(rows) - rows[:, 1])) < 0.25


def test_outputs_are_shrunk_separately() -> None:
    model = KernelRegressor(random_state=0).fit(X[:30], np.stack([LINEAR, NOISE], axis=1)[:30])
    signal, noise = model.predict(X[300:]).T
    assert np.corrcoef(signal, LINEAR[300:])[0, 1] > 0.97
    np.testing.assert_allclose(noise, NOISE[:30].mean(), atol=1e-9)


def test_given_alpha_prevents_shrinkage() -> None:
    model = KernelRegressor(alpha=0.01, random_state=0).fit(X[:30], NOISE[:30])
    assert np.ptp(model.predict(X[300:])) > 0.1


def test_intervals_of_shrunk_predictions_cover() -> None:
    model = KernelRegressor(random_state=0).fit(X[:100], NOISE[:100])
    lower, upper = model.predict_interval(X[300:], coverage=0.8)
    assert 0.7 < np.mean((lower <= NOISE[300:]) & (NOISE[300:] <= upper)) < 0.9


@settings(max_examples=8, deadline=None)
@given(
    n_rows=st.integers(5, 40),
    degrees=st.sampled_from([1.0, 1.5, 30.0]),
    has_signal=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_predictions_far_away_are_bounded(
    n_rows: int, degrees: float, has_signal: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_t(degrees, size=(n_rows, 2))
    targets = rows[:, 0] * has_signal + 0.1 * rng.normal(size=n_rows)
    model = KernelRegressor(random_state=0).fit(rows, targets)
    far = np.concatenate([rng.standard_t(degrees, size=(50, 2)) * 10.0**k for k in range(6)])
    beyond = np.abs(model.predict(far) - targets.mean()).max()
    assert beyond < 20.0 * np.ptp(targets)


def test_saved_models_keep_input_limits(tmp_path: Path) -> None:
    model = KernelRegressor(random_state=0).fit(X[:40], WEAK[:40])
    far = 10.0 * X[300:]
    expected = model.predict(far)
    assert np.ptp(expected) > 0.0
    np.testing.assert_array_equal(model.predict(np.clip(far, *model.scaler_.limits)), expected)
    assert not np.array_equal(model.predict(0.1 * far), expected)
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(far), expected)
    portable = PortableModel(tmp_path / "model").predict(far)
    np.testing.assert_allclose(portable, expected, atol=1e-9)
    np.testing.assert_array_equal(model.predict(sp.csr_array(far)), expected)


def test_warm_start_updates_input_limits() -> None:
    model = KernelRegressor(random_state=0, warm_start=True).fit(X[:40], LINEAR[:40])
    model.fit(10.0 * X[:200], LINEAR[:200])
    assert (model.scaler_.limits[0] <= 10.0 * X[:200].min(axis=0)).all()
    again = KernelRegressor(random_state=0, warm_start=True).fit(X[:40], LINEAR[:40])
    again.fit(3.0 * X, LINEAR)
    assert again.scaler_.limits is None


@pytest.mark.parametrize("name", ["squared", "huber"])
@given(seed=st.integers(0, 10**6), n_rows=st.integers(2, 30))
def test_shrinkage_ignores_rows_of_weight_zero(name: str, seed: int, n_rows: int) -> None:
    loss: Loss = LOSSES[name]()
    rng = np.random.default_rng(seed)
    raw, targets = rng.normal(size=(n_rows, 2)), rng.gamma(2.0, size=(n_rows, 2))
    constants, weights = rng.normal(size=(n_rows, 2)), rng.integers(0, 2, n_rows).astype(float)
    weights[0] = 1.0
    kept = weights > 0.0
    factors, doubts = shrinkage_factors(loss, raw, constants, targets, weights)
    assert ((factors >= 0.0) & (factors <= 1.0) & (doubts >= 0.0) & (doubts <= 1.0)).all()
    for k in range(2):
        alone = raw[kept, k], constants[kept, k], targets[kept, k], 3.0 * weights[kept]
        expected = shrinkage_factors(loss, *alone)
        np.testing.assert_allclose((factors[k], doubts[k]), expected, atol=1e-9)


def test_shrinkage_of_squared_loss_matches_the_t_test() -> None:
    rng = np.random.default_rng(3)
    targets, zeros = rng.normal(size=25), np.zeros(25)
    raw = 1.25 * targets + rng.normal(size=25)
    best = raw @ targets / (raw @ raw)
    left = np.sum((targets - best * raw) ** 2) / np.sum(targets**2)
    statistic = 24 * (1.0 - left) / left
    doubt = t.ppf(0.999, 24) ** 2 / statistic
    factor, result = shrinkage_factors(Squared(), raw, zeros, targets, np.ones(25))
    assert result == pytest.approx(doubt, rel=0.02)
    assert factor == pytest.approx(best * (1.0 - doubt), abs=0.03)


def test_one_effective_row_is_shrunk_to_zero() -> None:
    targets, weights = np.array([1.0, -1.0, 2.0]), np.array([1.0, 1e-9, 1e-9])
    factor, doubt = shrinkage_factors(Squared(), targets, np.zeros(3), targets, weights)
    assert (factor, doubt) == (0.0, 1.0)
