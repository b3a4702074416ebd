"""Search for the loosest tolerance at which each solver reaches a gap, then time that setting."""

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
# After three bisections a tolerance is at most 15 % below the loosest sufficient one.
REFINEMENTS = 3

# Returns the weights at a tolerance.
Fit = Callable[[float], Vector]


@dataclass(frozen=True)
class Contender:
    """A solver with the first tolerance of its search.

    A ``guarded`` solver searches in child processes, because most compiled code cannot be stopped
    otherwise. Ours is not guarded, because its threads do not exist in a forked process.
    """

    fit: Fit
    first: float = 1.0
    guarded: bool = True


@dataclass(frozen=True)
class Goal:
    """The gap to reach, a function that computes it, and the time limit of a fit in seconds."""

    gap: float
    compute_gap: Callable[[Vector], float]
    max_seconds: float


@dataclass(frozen=True)
class Finish:
    """The last fit of a search; without weights if it exceeded the time limit."""

    goal: Goal
    tolerance: float
    weights: Vector | None
    gap: float | None
    seconds: float

    @property
    def reached(self) -> bool:
        return self.gap is not None and self.gap <= self.goal.gap

    @property
    def outcome(self) -> str:
        if self.reached:
            return "reached"
        if self.seconds > self.goal.max_seconds:
            return f"not reached in {self.goal.max_seconds:g} s"
        return "not reached by any tolerance"


def race_options(
    about: str | None, repeats: int, sets: Sequence[str], seconds: float
) -> argparse.ArgumentParser:
    """Return a parser with the options of scripts that :func:`race` solvers."""
    # If the iterations do not suffice for a tolerance, the gap shows it.
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


def run_with_limit(fit: Callable[[], Vector], seconds: float) -> Vector | None:
    """Return the result of ``fit`` in a child process, or None if it takes longer."""
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


def search_tolerance(contender: Contender, goal: Goal) -> Finish:
    """Search for the loosest tolerance that reaches the gap, until a fit takes too long.

    The tolerance is divided by 3 until the gap is reached. Then ``REFINEMENTS`` bisections of its
    logarithm follow, so that no solver is timed with a tolerance much lower than necessary.
    """
    tolerance, missed = contender.first, None
    while True:
        finish = fit_once(contender, goal, tolerance)
        lower = tolerance / FACTOR
        if finish.reached:
            return finish if missed is None else refine_tolerance(contender, goal, finish, missed)
        if finish.seconds > goal.max_seconds or lower < LAST_TOLERANCE:
            return finish
        tolerance, missed = lower, tolerance


def refine_tolerance(contender: Contender, goal: Goal, reached: Finish, missed: float) -> Finish:
    """Return the loosest fit that reaches the gap, between two tolerances."""
    for _ in range(REFINEMENTS):
        finish = fit_once(contender, goal, float(np.sqrt(reached.tolerance * missed)))
        if finish.reached:
            reached = finish
        else:
            missed = finish.tolerance
    return reached


def fit_once(contender: Contender, goal: Goal, tolerance: float) -> Finish:
    """Fit once and compute the gap."""
    fit = partial(contender.fit, tolerance)
    started = perf_counter()
    weights = run_with_limit(fit, goal.max_seconds) if contender.guarded else fit()
    seconds = perf_counter() - started
    gap = None if weights is None else goal.compute_gap(weights)
    return Finish(goal, tolerance, weights, gap, seconds)


def race(
    contenders: Mapping[str, Contender], goal: Goal, repeats: int
) -> tuple[dict[str, Finish], list[Row]]:
    """Search each solver's tolerance, then time those that reached the gap, in turns.

    Ours is called "ours". All solvers must be compiled beforehand, because the child processes of
    the searches discard what they compile.
    """
    finishes: dict[str, Finish] = {}
    for label, contender in contenders.items():
        finishes[label] = finish = search_tolerance(contender, goal)
        gap = "unknown" if finish.gap is None else f"{finish.gap:.1e}"
        print_progress(f"  {label}: {finish.outcome}, tolerance {finish.tolerance:.1e}, gap {gap}")
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
    """Return a function that computes the gap between the objective and ``best``, over ``best``."""
    return lambda weights: float(np.divide(value(weights) - best, best))
