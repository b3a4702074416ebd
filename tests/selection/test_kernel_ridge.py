"""Kernel ridge regression, which tables of few rows are tried with first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from gramless import KernelClassifier, KernelRegressor
from gramless.base.memory import limit_fit_memory
from gramless.features.expansion import KernelExpansion
from gramless.kernels import Gaussian
from gramless.losses import Logistic, Loss, Multinomial, Squared
from gramless.preprocessing.scaling import Scaler
from gramless.selection.candidates.kernel_ridge import screen_kernel_ridge
from gramless.selection.config import EFFORTS
from gramless.selection.goal import Goal, mean_loss
from gramless.selection.kernel_ridge import (
    GaussianRidge,
    GaussianTrials,
    compare_metrics,
    leave_one_out,
    pessimistic_loss,
    sampled_splits,
    solve_ridge,
    validate_ridge,
)
from gramless.selection.splits import validation_splits
from gramless.selection.task import SelectionTask

from .tasks import make_task

Array = NDArray[np.float64]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * RNG.normal(size=300)
WEIGHTS = RNG.uniform(0.1, 3.0, 300)


SQUARES = Goal(Squared(), 0.0, mean_loss(Squared()))


def trials_of(task: SelectionTask) -> GaussianTrials:
    return GaussianTrials.of(task, sampled_splits(task.held_back.splits, task.seed))


@pytest.mark.parametrize(
    ("weights", "intercept", "targets"),
    [(None, False, np.column_stack([Y, X[:, 0]])), (WEIGHTS, True, Y)],
)
def test_solve_ridge_makes_the_gradient_vanish(
    weights: Array | None, intercept: bool, targets: Array
) -> None:
    gram = Gaussian().gram(X, X, bandwidth=1.5)
    result = solve_ridge(gram.copy(), targets, 0.3, weights, intercept)
    a, b = result[:300], result[300:].sum(axis=0)
    assert result.shape == (300 + int(intercept), *targets.shape[1:])
    s = np.ones(300) if weights is None else weights / weights.mean()
    errors = ((gram @ a + b - targets).T * s).T
    # Half of the gradient by a, and by b.
    gradient = gram @ (errors + 0.3 * a)
    assert np.abs(gradient).max() < 1e-10 * np.abs(gram @ targets).max()
    if intercept:
        assert np.abs(errors.sum(axis=0)).max() < 1e-10 * np.abs(targets).sum()


@pytest.mark.parametrize(("weights", "intercept"), [(None, True), (WEIGHTS, False)])
def test_leave_one_out_equals_fits_without_the_row(weights: Array | None, intercept: bool) -> None:
    targets = np.column_stack([Y, X[:, 0]])
    gram = Gaussian().gram(X, X, bandwidth=1.5)
    result = leave_one_out(gram.copy(), targets, 0.3, weights, intercept)
    for i in (0, 7, 299):
        others = np.arange(300) != i
        other_weights = None if weights is None else weights[others]
        # Weights are relative to a mean that the row which is left out belongs to.
        ridge = 0.3 if other_weights is None else 0.3 * weights.mean() / other_weights.mean()  # type: ignore[union-attr]
        fitted = solve_ridge(
            gram[np.ix_(others, others)], targets[others], ridge, other_weights, intercept
        )
        expected = gram[i, others] @ fitted[:299] + fitted[299:].sum(axis=0)
        np.testing.assert_allclose(result[i], expected, rtol=1e-8, atol=1e-10)
    one = leave_one_out(gram.copy(), Y, 0.3, weights, intercept)
    np.testing.assert_allclose(one, result[:, 0], rtol=1e-12)


def test_equal_rows_are_solved_by_the_mean() -> None:
    result = solve_ridge(np.ones((4, 4)), np.array([1.0, 1.0, 3.0, 3.0]), 1e-5, None, True)
    assert result[4] == pytest.approx(2.0)
    assert result[:4].sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("weight", [None, WEIGHTS])
def test_fit_is_an_exact_kernel_expansion(weight: Array | None) -> None:
    chosen = GaussianRidge(Scaler.fit("standard", X), 0.7, 2.0, 0.05, 0.0)
    expansion, weights = chosen.fitted(make_task(X, Y, weight=weight).data, slice(None), 1)
    new = RNG.normal(size=(50, 3))
    gram = Gaussian().gram(new, X, bandwidth=1.4 * chosen.scaler.unit)
    np.testing.assert_allclose(expansion.transform(new), gram, atol=1e-12)
    gram = Gaussian().gram(X, X, bandwidth=1.4 * chosen.scaler.unit)
    expected = solve_ridge(gram, Y, 0.05, weight, True)
    np.testing.assert_allclose(weights, expected, atol=1e-6 * np.abs(expected).max())


def test_best_trial_is_chosen() -> None:
    task = make_task(X, Y)
    result = trials_of(task).best
    assert result.score == min(trial.score for trial in task.trials)
    assert {trial.settings.scaling for trial in task.trials} == {"none", "standard", "both"}
    assert result.score < 0.3 * Y.var()


def test_common_unit_is_chosen_if_scale_is_informative() -> None:
    """Inputs that hardly vary are noise: what varies most counts most."""
    units = np.array([1.0, 1.0, 0.02, 0.02, 0.02, 0.02])
    rows = np.random.default_rng(1).normal(size=(400, 6)) * units
    result = trials_of(make_task(rows, np.sin(2.0 * rows[:, 0]) + rows[:, 1])).best
    assert result.scaler.kind == "none"


def test_known_metrics_are_not_tried_again() -> None:
    task = make_task(X, Y, split=validation_splits(300, 0)[0])
    known = trials_of(task).of_scalings
    scaler, before = task.data.scaler("both"), len(task.trials)
    relevance = np.linspace(0.0, 1.0, 2 * X.shape[1])
    again = compare_metrics(task, scaler, relevance)
    n_tried = len(task.trials)
    result = compare_metrics(task, scaler, relevance, known)
    assert [trial.score for trial in result] == [trial.score for trial in again]
    assert (n_tried - before, len(task.trials) - n_tried) == (4, 1)


def test_samples_come_from_the_splits() -> None:
    split = np.arange(5000), np.arange(5000, 7000)
    ((training, held_back),) = sampled_splits([split], 0)
    assert (len(training), len(held_back)) == (400, 300)
    assert len(np.unique(training)) == 400
    assert training.max() < 5000 <= held_back.min()


@pytest.mark.parametrize("loss", [Multinomial(), Logistic()])
def test_losses_of_uninformative_predictions_are_those_of_ignorance(loss: Loss) -> None:
    """Predictions of classes that cannot be told apart cost what ignorance costs."""
    rng = np.random.default_rng(2)
    classes = rng.integers(0, 3, 900)
    targets = np.where(classes[:, None] == np.arange(3), 1.0, -1.0)
    rows, least = rng.normal(size=(900, 4)), np.log(3.0)
    if loss == Logistic():
        targets, least = targets[:, 0], np.log(3.0) - 2.0 / 3.0 * np.log(2.0)
    options = {"intercept": False, "split": validation_splits(900, 0)[0]}
    task = make_task(rows, targets, loss=loss, **options)
    chosen = trials_of(task).best
    result = validate_ridge(chosen, task, SQUARES, task.split)
    assert 0.95 * least < pessimistic_loss(chosen, task, result, task.split[0]) < 1.15 * least
    assert result.raw.shape == targets[task.split[1]].shape
    squared = make_task(rows, targets, **options)
    assert pessimistic_loss(chosen, squared, result, task.split[0]) >= result.score


def test_pessimistic_loss_includes_a_class_missing_from_validation() -> None:
    """Without a row of the class held back, no mistake shows there; rows left out show it."""
    rng = np.random.default_rng(6)
    rows, codes = rng.normal(size=(400, 5)), np.full(400, -1.0)
    codes[:20] = 1.0
    split = np.arange(300), np.arange(300, 400)
    task = make_task(rows, codes, loss=Logistic(), intercept=False, split=split)
    chosen = GaussianTrials.of(task, [split]).best
    result = validate_ridge(chosen, task, SQUARES, split)
    assert (result.raw < 0).all()
    assert pessimistic_loss(chosen, task, result, split[0]) > 0.2


def test_weights_categories_constants_and_outputs_are_fitted() -> None:
    rng = np.random.default_rng(5)
    colours = rng.integers(0, 3, 400)
    rows = np.column_stack([rng.normal(size=(400, 6)), colours, np.full(400, 7.0)])
    smooth = np.cos(rows[:, :6] @ rng.normal(size=(6, 2))).sum(axis=1)
    y = np.column_stack([smooth + colours, 3.0 * smooth])
    y = (y - y.mean(axis=0)) / y.std(axis=0)
    given = {"weight": rng.uniform(0.5, 2.0, 400), "categorical": np.arange(8) == 6}
    task = make_task(rows, y, split=validation_splits(400, 0)[0], **given)
    chosen = GaussianTrials.of(task, [task.split]).best
    result = validate_ridge(chosen, task, SQUARES, task.split)
    assert np.isfinite(result.score)
    assert result.raw.shape == (80, 2)
    assert np.isinf(chosen.scaler.unit[7])


def test_screening_is_skipped_if_settings_are_given() -> None:
    for options in (
        {"least_squares": None},
        {"alpha": 0.1},
        {"n_grids": 9},
        {"config": EFFORTS[1]},
        {"seconds": 1e-9},
    ):
        task = make_task(X, Y, **{"least_squares": SQUARES, **options})
        assert screen_kernel_ridge(task) is None
        assert task.trials == []


def test_screening_needs_memory_for_all_pairs_of_rows() -> None:
    task = make_task(X, Y, least_squares=SQUARES)
    with limit_fit_memory(32 * 300**2 // 2):
        assert screen_kernel_ridge(task) is None
    assert task.budget.limits == ["memory: the trial of kernel ridge regression was left out"]
    assert screen_kernel_ridge(task) is not None


# Whole fits.


@pytest.fixture(scope="module")
def digits() -> list[Any]:
    rows, labels = load_digits(return_X_y=True)
    return list(train_test_split(rows, labels, test_size=0.2, stratify=labels, random_state=0))


@pytest.fixture(scope="module")
def of_digits(digits: list[Any]) -> KernelClassifier:
    return KernelClassifier(random_state=0).fit(digits[0], digits[2])


def test_digits_are_classified_as_well_as_by_an_svm(
    digits: list[Any], of_digits: KernelClassifier
) -> None:
    rows, new, labels, truth = digits
    assert isinstance(of_digits.features_, KernelExpansion)
    assert of_digits.loss_.name == "squared"
    wrong = np.mean(of_digits.predict(new) != truth)
    svc = np.mean(SVC(C=10.0).fit(rows, labels).predict(new) != truth)
    # Of 360 rows, two more by luck.
    assert wrong <= svc + 2 / 360


def test_probabilities_of_digits_are_calibrated(
    digits: list[Any], of_digits: KernelClassifier
) -> None:
    _, new, _, truth = digits
    result = of_digits.predict_proba(new)
    assert -np.mean(np.log(result[np.arange(len(new)), truth])) < 0.08
    covered = of_digits.predict_set(new, 0.9)[np.arange(len(new)), truth].mean()
    assert covered > 0.85


def test_number_of_threads_does_not_change_the_fit(
    digits: list[Any], of_digits: KernelClassifier
) -> None:
    again = KernelClassifier(random_state=0, n_jobs=1).fit(digits[0], digits[2])
    np.testing.assert_array_equal(again.weights_, of_digits.weights_)
    np.testing.assert_array_equal(
        again.decision_function(digits[1]), of_digits.decision_function(digits[1])
    )


def test_smooth_targets_select_kernel_ridge_regression() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(700, 8))
    directions = rng.normal(size=(8, 3)) / np.sqrt(8.0)
    y = 5.0 + 100.0 * np.cos(rows @ directions).sum(axis=1)
    model = KernelRegressor(random_state=0).fit(rows[:500], y[:500])
    assert isinstance(model.features_, KernelExpansion)
    assert model.score(rows[500:], y[500:]) > 0.95
    assert model.settings_.scaling == model.scaler_.kind
    assert model.growth_[0]["n_grids"] > 0
    low, high = model.predict_interval(rows[500:], 0.9)
    assert 0.8 < np.mean((low < y[500:]) & (y[500:] < high)) <= 1.0


def test_stepped_targets_select_grids() -> None:
    rng = np.random.default_rng(4)
    rows = rng.uniform(-1, 1, size=(800, 6))
    y = np.sign(rows[:, 0]) + (rows[:, 1] > 0.3) * (rows[:, 2] > 0.0)
    model = KernelRegressor(random_state=0).fit(rows, y)
    assert model.settings_.grids == "grown"


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_kernels_that_are_not_far_better_are_fitted_to_samples_only(noise: float) -> None:
    rng = np.random.default_rng(3)
    rows = rng.uniform(-1, 1, size=(1500, 6))
    steps = np.sign(rows[:, 0]) + (rows[:, 1] > 0.3) * (rows[:, 2] > 0.0)
    model = KernelRegressor(random_state=0).fit(rows, steps + noise * rng.normal(size=1500))
    assert model.settings_.grids == "grown"
    trials = [trial for trial in model.search_ if trial["stage"] == "validation"]
    assert {trial["size"] for trial in trials if trial["grids"] == "random"} == {400}
