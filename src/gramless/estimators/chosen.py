"""What a fit chose before its final solve, and by which scores."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gramless.base.deadline import Deadline, Watch
from gramless.base.random import stream
from gramless.base.reporting import Reporter
from gramless.estimators.given_rows import GivenRows
from gramless.estimators.scoring import NamedScorer
from gramless.estimators.targets import TargetEncoder
from gramless.losses import Squared
from gramless.model_selection.alpha import Goal
from gramless.model_selection.data import Data
from gramless.model_selection.search import Search
from gramless.model_selection.selected import SelectedModel
from gramless.model_selection.validation import ValidationResult
from gramless.solvers.objective import Problem

_SOLVE_SHARE = 0.95
"""Fraction of a time budget after which the final solve stops."""
_LEAST_TOL_OF_SINGLE = 1e-5
"""Of a relative residual: a solution to more digits needs products in double precision."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """What a fit chose, and the rows that it chose by.

    ``judged`` tells of the rows held back that say how far predictions are off, None if none do;
    ``given`` are the rows as a user gave them.
    """

    data: Data
    goal: Goal
    selected: SelectedModel
    judged: ValidationResult | None
    encoder: TargetEncoder
    report: Reporter
    deadline: Deadline
    given: GivenRows

    def watch(self) -> Watch | None:
        """Return what tells iterations of the final solve, and ends it; None for no one."""
        deadline, report = self.deadline, self.report
        if not report.tells_details:
            return deadline.watch(_SOLVE_SHARE)

        def stops(iteration: int) -> bool:
            report.detail("solve", f"iteration {iteration}", n_iter=iteration)
            return "solve" in report.ended or deadline.beyond(_SOLVE_SHARE)

        return Watch(stops)

    def problem(self, tol: float = 0.0) -> Problem:
        """Return the problem over these rows, for a solution to a relative tolerance."""
        selected, features = self.selected, self.selected.matrix
        if selected.products is not None and tol >= _LEAST_TOL_OF_SINGLE:
            features = selected.products
        matrix = self.data.matrix(features)
        return self.goal.problem(self.data, matrix, selected.alpha, selected.order)


def scored_by(
    scorer: NamedScorer, search: Search, goal: Goal, given: GivenRows, encoder: TargetEncoder
) -> tuple[Search, Goal]:
    """Return the search and its goal with a scorer that chooses.

    Predictions that are right but for noise are scored first: what fails should fail soon.
    """
    codes = search.data.targets
    search = replace(search, scorer=scorer.of_rows(given, encoder, codes, Squared()))
    goal = replace(goal, scorer=scorer.of_rows(given, encoder, codes, goal.loss))
    data, rows = search.data, search.splits()[0][1]
    noise = stream(search.seed, "scoring").normal(size=data.targets[rows].shape)
    goal.scored(data, data.targets[rows] + noise, rows)
    return search, goal


def scores_by_round(selected: SelectedModel, goal: Goal, data: Data) -> dict[str, list[float]]:
    """Return by their measure the scores of growth, then of fits; the last is the one chosen."""
    measure = f"{goal.loss.name} loss" if goal.scorer is None else goal.scorer.name
    scores = {measure: [stage["score"] for stage in selected.growth]}
    for trial in selected.trials:
        if trial["stage"] == "validation":
            scores.setdefault(trial["measure"], []).append(trial["score"])
    assert selected.validation is not None
    chosen, own = selected.validation.score, scores.setdefault(goal.measure(data), [])
    if own[-1:] != [chosen]:
        own.append(chosen)
    return {name: own for name, own in scores.items() if own}
