"""The penalty of random features for losses and penalties other than ridge regression."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from gramless.selection.bandwidth_search import Sample, worse_twice
from gramless.selection.goal import Goal, scaled_score
from gramless.selection.task import TIME_SHARE, Hyperparameters, SelectionTask, Trial

_ROWS = 20_000
_SPARSE_SHARE = 8 / 3  # L1 penalties are searched with more grids
_SPARSE_TIE = 1.01  # the sparsest fit within this factor of the best score is selected


def search_alpha(task: SelectionTask, settings: Hyperparameters, goal: Goal) -> Hyperparameters:
    """Choose the penalty of a goal for features that a search has chosen.

    A path of at most 20,000 rows and 96 grids (256 with an L1 penalty; of other features as many
    as the search takes) is solved from strong penalties to weak ones, each solution starting from
    the last, until two scores in a row are worse or the time for it is over. With several splits,
    only penalties that all of their paths have reached are compared. Of sparse fits within 1 % of
    the best score, the sparsest is selected. The penalty is then scaled to all rows and grids.
    """
    size = task.feature_map.enough_to_search * (_SPARSE_SHARE if goal.sparse else 1)
    sample = Sample(task, _ROWS, int(size), 0.0)
    paths = [_path(task, sample, settings, goal, k) for k in range(len(sample.splits))]
    n_rows, sketch = len(sample.splits[0][0]), sample.feature_map
    trials = []
    for step in range(min(len(path) for path in paths)):
        alphas, scores, counts, seconds = zip(*(path[step] for path in paths), strict=True)
        alpha, score = float(np.mean(alphas)), float(np.mean(scores))
        trial = Trial(
            stage="alpha",
            settings=replace(settings, alpha=alpha),
            score=score,
            measure=goal.measure(task.data),
            n_iter=counts[0],
            n_rows=n_rows,
            size=sketch.size,
            seconds=sum(seconds),
            curve=[score],
        )
        trials.append(trial)
        task.report(
            "alpha",
            f"{n_rows:>7} rows, {sketch.size} {sketch.size_unit}: {goal.loss.name} loss, "
            f"alpha {alpha:.1e} -> {score:.5f}",
            **trial.as_dict(),
        )
    task.trials.extend(trials)
    least = min(trial.score for trial in trials)
    tie = scaled_score(least, _SPARSE_TIE if goal.sparse else 1.0)
    best = next(trial for trial in trials if trial.score <= tie)
    more_rows = task.data.n_fitted / task.data.mass_of(sample.splits[0][0])
    if not goal.sparse:
        return replace(settings, alpha=best.settings.alpha / more_rows)
    # What noise adds to a bin's gradient falls as 1/sqrt(rows), its value as 1/sqrt(grids).
    more_grids = task.feature_map.size / sketch.size
    return replace(settings, alpha=best.settings.alpha / float(np.sqrt(more_rows * more_grids)))


def _path(
    task: SelectionTask, sample: Sample, settings: Hyperparameters, goal: Goal, k: int
) -> list[tuple[float, float, int, float]]:
    data, (training, validation) = task.data, sample.splits[k]
    _, Z, held_back = sample.matrices(settings, k)
    path, weights, unpenalised = [], None, goal.problem(data, Z, 0.0, training)
    solver = goal.solver(unpenalised, task.n_jobs)
    for alpha in goal.alphas(unpenalised):
        started = time.perf_counter()
        problem = goal.problem(data, Z, alpha, training)
        solution = solver.solve(problem, weights, task.budget.deadline.watch(TIME_SHARE))
        weights = solution.weights
        seconds = time.perf_counter() - started
        score, _ = goal.scored(data, held_back.matvec(weights), validation)
        path.append((alpha, score, solution.n_iter, seconds))
        if worse_twice([entry[1] for entry in path]) or task.is_over("alpha"):
            break
    return path
