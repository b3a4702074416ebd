"""Validation along a path of penalties, by rows that no fit has seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gramless import RandomBinning
from gramless.base.progress import Progress, Reporter
from gramless.losses import Logistic
from gramless.matrices.base import Vector
from gramless.selection.splits import Split
from gramless.selection.task import Hyperparameters
from gramless.selection.validation import (
    NEARBY,
    EarlyStopping,
    ValidationResult,
    improve_alpha,
    joined,
    record,
    relative_error,
    validate,
)

from .tasks import make_task

N_ROWS = 400
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, 3))
SIGNAL = np.sin(2 * X[:, 0]) + X[:, 1]
Y = SIGNAL + 0.5 * RNG.normal(size=N_ROWS)
SPLIT: Split = np.arange(0, N_ROWS, 2), np.arange(1, N_ROWS, 2)
ORDER = np.concatenate(SPLIT)
MATRIX = RandomBinning(n_grids=32, bandwidth=4.0, random_state=0).fit_matrix(X[ORDER])


def validated(alpha: float, targets: Vector = Y, **options: Any) -> ValidationResult:
    kept = {name: options.pop(name) for name in ("start", "beat") if name in options}
    task = make_task(X, targets, **options)
    return validate(task, task.goal, MATRIX, SPLIT, alpha, **kept)


def improved(alpha: float, targets: Vector = Y, **options: Any) -> ValidationResult:
    """Return the best result near a penalty, with the trials of all."""
    task = make_task(X, targets, **options)
    first = validate(task, task.goal, MATRIX, SPLIT, alpha)
    result = improve_alpha(task, task.goal, MATRIX, SPLIT, first)
    return replace(result, trials=first.trials + result.trials)


def exact_score(alpha: float) -> float:
    """Return the loss of the held-back rows by dense normal equations."""
    Z = np.column_stack([MATRIX.tocsr().toarray(), np.ones(N_ROWS)])
    fitted, others = Z[:200], Z[200:]
    ridge = np.append(np.full(Z.shape[1] - 1, alpha), 0.0)
    w = np.linalg.lstsq(fitted.T @ fitted + np.diag(ridge), fitted.T @ Y[SPLIT[0]])[0]
    return float(0.5 * np.mean((others @ w - Y[SPLIT[1]]) ** 2))


def tried(result: ValidationResult) -> list[float]:
    return [trial["alpha"] * 200 for trial in result.trials]


# The path.


def test_scores_match_exact_solutions() -> None:
    alpha = 0.1
    result = validated(alpha)
    assert (result.alpha, len(result.trials)) == (alpha, 1)
    assert result.score == pytest.approx(exact_score(alpha), rel=0.01)
    assert result.score == pytest.approx(0.5 * np.mean((result.raw - Y[SPLIT[1]]) ** 2), rel=1e-9)
    np.testing.assert_array_equal(result.rows, SPLIT[1])
    Z = np.column_stack([MATRIX.tocsr().toarray(), np.ones(N_ROWS)])
    np.testing.assert_allclose(Z[200:] @ result.weights, result.raw, atol=1e-9)


def test_weak_penalty_is_increased_while_the_score_improves() -> None:
    result = improved(0.01)
    alphas = np.array(tried(result))
    np.testing.assert_allclose(alphas[1:] / alphas[:-1], NEARBY[0])
    scores = [trial["score"] for trial in result.trials]
    assert scores[:-1] == sorted(scores[:-1], reverse=True)
    # The last one was worse, or it was the last step there is.
    assert scores[-1] >= scores[-2] or len(scores) == 9
    assert result.alpha > 0.01


def test_strong_penalty_is_decreased_after_one_increase() -> None:
    result = improved(1e4)
    alphas = tried(result)
    assert alphas[1] == pytest.approx(1e4 * NEARBY[0])
    np.testing.assert_allclose(np.array(alphas[3:]) / alphas[2:-1], NEARBY[1])
    assert alphas[2] == pytest.approx(1e4 * NEARBY[1])
    assert result.alpha < 1e4


def test_logistic_paths_only_increase_the_penalty() -> None:
    result = improved(1e3, np.where(Y > 0, 1.0, -1.0), loss=Logistic())
    assert tried(result) == pytest.approx([1e3, 1e3 * NEARBY[0]])
    assert result.alpha == 1e3


def test_strongest_of_nearly_equal_penalties_is_chosen() -> None:
    result = improved(100.0)
    least = min(trial["score"] for trial in result.trials)
    near = [trial["alpha"] for trial in result.trials if trial["score"] <= 1.001 * least]
    assert result.alpha == pytest.approx(200 * max(near))
    by_alpha = {trial["alpha"]: trial["score"] for trial in result.trials}
    assert result.score == by_alpha[max(near)]


def test_path_score_is_near_the_optimum() -> None:
    best = min(exact_score(alpha) for alpha in 10.0 ** np.arange(-2, 4, 0.25))
    for alpha in (0.3, 300.0):
        assert improved(alpha).score < 1.02 * best


def test_exhausted_time_budget_stops_the_path_after_one_fit() -> None:
    assert len(improved(1e4, seconds=1e-9).trials) == 1
    assert len(improved(1e4, seconds=1e9).trials) > 2


def test_exhausted_time_budget_stops_a_fit_after_one_iteration() -> None:
    ended, whole = (
        validated(1e-3, np.sign(SIGNAL), loss=Logistic(), seconds=seconds)
        for seconds in (1e-9, None)
    )
    assert ended.trials[0]["n_iter"] == 1 < whole.trials[0]["n_iter"]


# What held-back rows know.


def test_validation_targets_do_not_change_the_fit() -> None:
    labels = np.sign(SIGNAL)
    other = labels.copy()
    other[SPLIT[1]] *= -1
    plain, changed = (validated(3.0, y, loss=Logistic()) for y in (labels, other))
    np.testing.assert_array_equal(plain.weights, changed.weights)
    np.testing.assert_array_equal(plain.raw, changed.raw)
    assert changed.score > plain.score


def test_zero_weight_rows_do_not_affect_fit_or_score() -> None:
    """Rows without weight leave both to the others."""
    wild = np.arange(N_ROWS) % 4 >= 2
    targets = np.where(wild, 1000.0, Y)
    weight = np.where(wild, 0.0, 1.0)
    result = improved(3.0, targets, weight=weight)
    assert result.score < 0.5


def test_score_is_summed_over_outputs() -> None:
    single, other = validated(3.0), validated(3.0, -2 * Y)
    both = validated(3.0, np.column_stack([Y, -2 * Y]))
    assert both.raw.shape == (200, 2)
    # Paths end when all columns have converged; one by one they may end earlier.
    assert both.score == pytest.approx(single.score + other.score, rel=0.05)


# What is done with it.


def test_trials_are_recorded_and_reported() -> None:
    reports: list[Progress] = []
    task = make_task(X, Y, report=Reporter(callbacks=reports.append))
    settings, result = Hyperparameters("both", None, 7.0), improved(30.0)
    record(task, task.goal, "validation", settings, result, 200, 32)
    for trial, expected_trial in zip(task.trials, result.trials, strict=True):
        assert (trial.stage, trial.n_rows, trial.size) == ("validation", 200, 32)
        assert (trial.score, trial.curve) == (expected_trial["score"], [expected_trial["score"]])
        assert (trial.n_iter, trial.seconds) == (
            expected_trial["n_iter"],
            expected_trial["seconds"],
        )
        assert trial.settings == replace(settings, alpha=expected_trial["alpha"])
    (progress,) = reports
    assert progress.stage == "validation"
    expected = {"n_rows": 200, "size": 32, "alpha": result.alpha / 200, "score": result.score}
    assert progress.details == expected


def test_joined_concatenates_results_of_splits() -> None:
    results = [validated(3.0), validated(5.0)]
    both = joined(results)
    assert (both.alpha, both.score) == (4.0, np.mean([each.score for each in results]))
    np.testing.assert_array_equal(both.rows, np.tile(SPLIT[1], 2))
    np.testing.assert_array_equal(both.raw, np.concatenate([each.raw for each in results]))
    assert both.weights is None
    assert both.trials == results[0].trials + results[1].trials
    assert joined(results[:1]).weights is results[0].weights


def test_relative_error_is_the_root_of_the_loss_per_output() -> None:
    result = replace(validated(3.0), loss=0.04)
    squared, other = make_task(X, Y).goal, make_task(X, Y, loss=Logistic()).goal
    assert relative_error(squared, result) == pytest.approx(0.2)
    assert relative_error(squared, replace(result, raw=np.zeros((9, 4)))) == pytest.approx(0.1)
    assert relative_error(squared, replace(result, loss=-1e-17)) == 0.0
    assert relative_error(other, result) == 1.0


def test_matrix_rows_follow_the_split() -> None:
    task = make_task(X, Y)
    result = validate(task, task.goal, MATRIX, (SPLIT[0], SPLIT[1][:50]), 3.0)
    np.testing.assert_array_equal(result.raw, validated(3.0).raw[:50])


def test_clearly_worse_fit_stops_early() -> None:
    signs = np.where(Y > 0, 1.0, -1.0)
    good = validated(10.0, signs, loss=Logistic())
    kept: dict[str, Any] = {"loss": Logistic(), "start": good.weights}
    whole, ended = (validated(1e-4, signs, **kept, beat=beat) for beat in (np.inf, good.score))
    assert ended.trials[0]["n_iter"] < whole.trials[0]["n_iter"]
    assert min(ended.score, whole.score) > 1.02 * good.score


def test_early_stopping_needs_a_clear_gap_and_slow_improvement() -> None:
    scores = iter([1.5, 1.4, 1.1, 1.05, 1.0015, 1.001, 1.003])
    early = EarlyStopping(lambda weights: next(scores), beat=1.0, last=2.0)
    # Half of the last improvement closes the gap in the third; gaps below 0.2 % are not clear.
    stops = [early.should_stop(np.zeros(1)) for _ in range(7)]
    assert stops == [True, True, False, True, False, False, True]
