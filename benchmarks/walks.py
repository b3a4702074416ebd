"""Find the loosest tolerance with which each solver reaches a gap, then time that setting."""

from __future__ import annotations

import argparse
import multiprocessing
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from time import perf_counter

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from benchmarks.common import Row, options, print_progress
from gramless.matrices.base import Vector
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem
from harness.timing import interleaved

MAX_ITERATIONS = 10_000
LAST_TOLERANCE, FACTOR = 1e-12, 3.0
REFINEMENTS = 3
"""A tolerance is then at most 15 % below the loosest that does."""

Fit = Callable[[float], Vector]
"""From a tolerance to weights."""


@dataclass(frozen=True)
class Contender:
    """A solver with the tolerance that its walk starts from.

    One that is ``guarded`` walks in processes of their own, because most compiled code cannot
    be stopped otherwise; ours has threads, which such a process would lack.
    """

    fit: Fit
    first: float = 1.0
    guarded: bool = True


@dataclass(frozen=True)
class Goal:
    """The gap to reach, how to judge weights, and the seconds that a fit may take."""

    gap: float
    judge: Callable[[Vector], float]
    most_seconds: float


@dataclass(frozen=True)
class Finish:
    """Where a walk ended; without weights where the limit cut it off."""

    goal: Goal
    tolerance: float
    weights: Vector | None
    gap: float | None
    walked_seconds: float

    @property
    def reached(self) -> bool:
        return self.gap is not None and self.gap <= self.goal.gap

    @property
    def outcome(self) -> str:
        if self.reached:
            return "reached"
        if self.walked_seconds > self.goal.most_seconds:
            return f"not reached in {self.goal.most_seconds:g} s"
        return "not reached by any tolerance"


def race_options(
    about: str | None, repeats: int, sets: Sequence[str], seconds: float
) -> argparse.ArgumentParser:
    """Return a parser of what scripts take that :func:`race` solvers."""
    # A tolerance that is too low for the iterations is seen in the gap.
    warnings.simplefilter("ignore", ConvergenceWarning)
    parser = options(about, repeats=repeats, sets=sets)
    parser.add_argument("--seconds", type=float, default=seconds, help="limit of a fit")
    return parser


def newton_cg(problem: Problem, n_jobs: int | None) -> Fit:
    """Return our solver of smooth losses."""

    def fit(tolerance: float) -> Vector:
        solver = NewtonCG(tol=tolerance, max_iter=MAX_ITERATIONS, n_jobs=n_jobs)
        return solver.solve(problem).weights

    return fit


def logistic_regression(csr: sp.csr_array, labels: np.ndarray, alpha: float, solver: str) -> Fit:
    """Return one of scikit-learn's solvers of the logistic or the multinomial loss."""

    def fit(tolerance: float) -> Vector:
        model = LogisticRegression(
            C=1.0 / (alpha * csr.shape[0]),
            fit_intercept=False,
            solver=solver,
            tol=tolerance,
            max_iter=MAX_ITERATIONS,
        )
        weights = model.fit(csr, labels).coef_.T
        return weights if weights.shape[1] > 1 else weights[:, 0]

    return fit


def within(fit: Callable[[], Vector], seconds: float) -> Vector | None:
    """Return what ``fit`` does, or None where it takes longer than that."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=_fit_and_send, args=(fit, sender), daemon=True)
    child.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(seconds) else None
    finally:
        child.kill()
        child.join()
        receiver.close()


def _fit_and_send(fit: Callable[[], Vector], sender: Connection) -> None:
    sender.send(fit())


def walk(contender: Contender, goal: Goal) -> Finish:
    """Find the loosest tolerance that reaches the gap, or where it takes too long.

    Down by factors of 3, then halfway back in the logarithm, as often as ``REFINEMENTS`` says:
    nobody is timed with a tolerance much lower than needed.
    """
    tolerance, missed = contender.first, None
    while True:
        here = fitted(contender, goal, tolerance)
        lower = tolerance / FACTOR
        if here.reached:
            return here if missed is None else loosened(contender, goal, here, missed)
        if here.walked_seconds > goal.most_seconds or lower < LAST_TOLERANCE:
            return here
        tolerance, missed = lower, tolerance


def loosened(contender: Contender, goal: Goal, reached: Finish, missed: float) -> Finish:
    """Return the loosest fit that still reaches the gap, given a tolerance that does not."""
    for _ in range(REFINEMENTS):
        here = fitted(contender, goal, float(np.sqrt(reached.tolerance * missed)))
        if here.reached:
            reached = here
        else:
            missed = here.tolerance
    return reached


def fitted(contender: Contender, goal: Goal, tolerance: float) -> Finish:
    """Fit once and judge the weights."""
    fit = partial(contender.fit, tolerance)
    started = perf_counter()
    weights = within(fit, goal.most_seconds) if contender.guarded else fit()
    seconds = perf_counter() - started
    gap = None if weights is None else goal.judge(weights)
    return Finish(goal, tolerance, weights, gap, seconds)


def race(
    contenders: Mapping[str, Contender], goal: Goal, repeats: int
) -> tuple[dict[str, Finish], list[Row]]:
    """Let all walk, then time those that reached the gap, in turns; ours is called "ours".

    Nothing may compile in here: the processes of a walk keep nothing for the next.
    """
    finishes: dict[str, Finish] = {}
    for label, contender in contenders.items():
        finishes[label] = here = walk(contender, goal)
        gap = "unknown" if here.gap is None else f"{here.gap:.1e}"
        print_progress(f"  {label}: {here.outcome}, tolerance {here.tolerance:.1e}, gap {gap}")
    runs = {
        label: partial(contenders[label].fit, end.tolerance)
        for label, end in finishes.items()
        if end.reached
    }
    seconds = interleaved(runs, repeats, warm_up=False)
    rows: list[Row] = []
    for label, end in finishes.items():
        timed = label in seconds and "ours" in seconds
        rows.append(
            {
                "solver": label,
                "outcome": end.outcome,
                "tolerance": end.tolerance,
                "gap": end.gap,
                "seconds": seconds.get(label),
                "times ours": seconds[label] / seconds["ours"] if timed else None,
            }
        )
    return finishes, rows


def relative_gap(value: Callable[[Vector], float], best: float) -> Callable[[Vector], float]:
    """Return a judge: how far the objective is above the best known, relative to that."""
    return lambda weights: float(np.divide(value(weights) - best, best))
