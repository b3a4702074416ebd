"""The penalty for another loss than the one that the search solves."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from gramless.losses import Loss
from gramless.solvers.newton_cg import NewtonCG
from gramless.tuning.search import ALPHAS, Sample, Score, Search, Settings, Trial, worse_twice

_ROWS = 20_000
_GRIDS = 96
_TOL = 3e-2
_STEPS = 12


def search_alpha(search: Search, settings: Settings, loss: Loss, score: Score) -> Settings:
    """Choose alpha for a loss, the features as chosen before.

    Parameters
    ----------
    search : Search
        After its run; gets the trials.
    settings : Settings
        What it chose.
    loss : Loss
    score : callable
        ``score(predictions, targets, sample_weight)``: smaller is better.

    Returns
    -------
    Settings
        With another alpha, scaled to all rows.

    Notes
    -----
    A path of Newton solves on at most 20,000 rows and 96 grids, from strong
    penalties to weak ones, each from the last, until two in a row are worse.
    """
    sample = Sample(search, _ROWS, min(search.feature_map.n_grids, _GRIDS), 0.0)
    paths = [_path(search, sample, settings, loss, score, k) for k in range(len(sample.splits))]
    n_rows = len(sample.splits[0][0])
    trials = []
    for at, alpha in enumerate(ALPHAS[: min(len(path) for path in paths)]):
        scores, counts, seconds = zip(*(path[at] for path in paths), strict=True)
        mean = float(np.mean(scores))
        chosen = replace(settings, alpha=alpha)
        trials.append(Trial(chosen, mean, counts[0], n_rows, sample.n_grids, sum(seconds), [mean]))
        search.report(
            f"{n_rows:>7} rows, {sample.n_grids} grids: {loss.name} loss, alpha {alpha:.1e} -> "
            f"{mean:.5f}"
        )
    search.trials.extend(trials)
    best = min(trials, key=lambda trial: trial.score)
    more = search.data.rows.shape[0] / n_rows
    return replace(settings, alpha=best.settings.alpha / more)


def _path(
    search: Search, sample: Sample, settings: Settings, loss: Loss, score: Score, k: int
) -> list[tuple[float, int, float]]:
    """Return each alpha's (score, Newton steps, seconds) on one split."""
    data, (training, validation) = search.data, sample.splits[k]
    _, Z, held_back = sample.matrices(settings, k)
    truth, weight = data.targets[validation], data.weights_of(validation)
    path: list[tuple[float, int, float]] = []
    weights = None
    for alpha in ALPHAS:
        started = time.perf_counter()
        problem = replace(data.problem(Z, alpha, training), loss=loss)
        solver = NewtonCG(tol=_TOL, max_iter=_STEPS, inner_tol=0.3, n_jobs=search.n_jobs)
        solution = solver.solve(problem, weights)
        weights = solution.weights
        seconds = time.perf_counter() - started
        path.append((score(held_back.matvec(weights), truth, weight), solution.n_iter, seconds))
        if worse_twice([entry[0] for entry in path]):
            break
    return path


def mean_loss(loss: Loss) -> Score:
    """Return the score that is the (weighted) mean of a loss."""

    def score(z, y, weight):  # type: ignore[no-untyped-def]
        losses = loss.value(z, y)
        rows = losses if losses.ndim == 1 else losses.sum(axis=1)
        return float(np.average(rows, weights=weight))

    return score
