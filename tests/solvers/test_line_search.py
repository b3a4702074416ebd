"""The objective along a step, against the objective itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gramless.losses import Logistic, Loss, Multinomial, Squared, SquaredHinge
from gramless.solvers.line_search import Line, Losses, derivatives, search

from .pairwise import each_value

N_ROWS = 300


def line_of(loss: Loss, size: float = 1.0, n_rows: int = N_ROWS) -> Line:
    rng = np.random.default_rng(0)
    targets = np.sign(rng.normal(size=(n_rows, 3)))
    if loss.coupled:
        targets = np.where(np.arange(3) == rng.integers(3, size=(n_rows, 1)), 1.0, -1.0)
    weights = rng.dirichlet(np.ones(n_rows))
    start = rng.normal(size=(n_rows, 3))
    change = -size * loss.gradient(start, targets)
    n_runs = 1 if loss.coupled else 3
    # Of weights w and a direction d: w'w / 2, w'd and d'd / 2, with a ridge of 0.01.
    penalty = (
        np.full(n_runs, 0.02),
        np.full(n_runs, -0.01) * size,
        np.full(n_runs, 5e-3) * size**2,
    )
    return Line(Losses(loss, targets, weights), start, change, penalty)


def searched(line: Line) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n_runs = len(line.penalty[0])
    zero, step = np.zeros(n_runs), np.full(n_runs, 1e-7)
    slope = (line.value(step) - line.value(-step)) / 2e-7
    lengths, objective = search(line, line.value(zero), slope, zero, np.zeros(n_runs, bool))
    return lengths, objective, line.value(zero)


LOSSES = [Squared(), Logistic(), SquaredHinge(), Multinomial()]

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


@pytest.mark.parametrize(("loss", "size"), each_value(LOSSES, [1e-2, 1.0, 1e2]))
def test_length_is_nearly_optimal(loss: Loss, size: float) -> None:
    share = 0.5 if size == 1e2 else 0.97
    line = line_of(loss, size)
    lengths, objective, before = searched(line)
    np.testing.assert_allclose(objective, line.value(lengths))
    grid = np.geomspace(1e-2, 1e2, 161) / size
    best = np.min([line.value(np.full_like(lengths, t)) for t in grid], axis=0)
    assert (objective < before).all()
    assert (before - objective >= share * (before - best)).all()


@every_loss
def test_newton_lengths_match_finite_differences(loss: Loss) -> None:
    line, h = line_of(loss), 1e-4
    at = np.full(len(line.penalty[0]), 0.7)
    if loss.name == "squared_hinge":
        # Its curvature jumps: one of differences needs a stretch without a corner.
        margins = np.where(line.losses.targets * line.responses < 1, -1.0, 3.0)
        line = replace(line, responses=margins * line.losses.targets)
    below, there, above = (line.value(at + d) for d in (-h, 0.0, h))
    slope, curvature = (above - below) / (2 * h), (above - 2 * there + below) / h**2
    expected = np.maximum(at - slope / curvature, 0.0)
    np.testing.assert_allclose(line.newton_lengths(at), expected, rtol=1e-3, atol=1e-4)


def test_uphill_steps_have_no_length() -> None:
    line = line_of(Logistic())
    zeros = np.zeros(3)
    before = line.value(zeros)
    lengths, objective = search(line, before, np.ones(3), zeros, np.zeros(3, bool))
    np.testing.assert_array_equal(lengths, 0.0)
    np.testing.assert_array_equal(objective, before)


def test_flat_searches_continue_while_improving() -> None:
    line, zeros = line_of(Squared(), 1e-6), np.zeros(3)
    slope = np.full(3, -1e-12)
    lengths, objective = search(line, line.value(zeros), slope, zeros, np.ones(3, bool))
    assert (lengths > 1e4).all()
    assert (objective < line.value(zeros)).all()


@every_loss
def test_blocks_of_rows_sum_to_all_rows(loss: Loss) -> None:
    line = line_of(loss, n_rows=60_000)
    losses, lengths = line.losses, np.full(len(line.penalty[0]), 0.5)
    there = line.responses + 0.5 * line.change
    constant, linear, quadratic = line.penalty
    whole = losses.mean(there) + constant + 0.5 * linear + 0.25 * quadratic
    np.testing.assert_allclose(line.value(lengths), whole, rtol=1e-12)
    slopes, curvatures = derivatives(losses, there, None)
    np.testing.assert_array_equal(slopes, losses.slopes(there))
    np.testing.assert_array_equal(curvatures, losses.curvatures(there))
    one, two = (replace(line, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.value(lengths), two.value(lengths))
    np.testing.assert_array_equal(one.newton_lengths(lengths), two.newton_lengths(lengths))
