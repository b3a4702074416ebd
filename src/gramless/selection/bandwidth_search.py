"""A search over scaling, bandwidth and penalty of random features on validation rows.

The first stage uses a small sample. Bandwidths follow a geometric path in both directions from a
start while the score improves. For each bandwidth, penalties alpha follow a path from strong to
weak, with warm starts. If there are many more rows, a second stage searches the neighbourhood of
the best settings on a larger sample, because more rows need finer bins and a weaker penalty.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from gramless.features.base import SizedMap
from gramless.features.binning import DrawnGrids
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.scaling import Scaler, ScalingKind
from gramless.selection.budget import sampled_rows
from gramless.selection.goal import ALPHAS, scaled_score
from gramless.selection.relevance import learned_relevance
from gramless.selection.task import TIME_SHARE, Hyperparameters, SelectionTask, Trial
from gramless.solvers.base import Solver
from gramless.solvers.choose import path_solver

RELEVANCES = ("auto", "equal", "learned")
_BANDWIDTH_RANGE = (2.0**-8, 8.0)
# Initial bandwidths, in typical distances between rows. Radial kernels are smoother, so they start
# wider.
_START, _SMOOTH_START = 0.25, 0.7
_STEPS = (2.0, 2.0**0.5)
_MAX_ITERATIONS = 16
_TOL = 3e-2
# The strongest penalty within this factor of the best score is selected, because few iterations
# hide overfitting.
_TIE = 1.01
_DISTANCE_ROWS = 5000
_RELEVANCE_ROUNDS = 3
# Learned relevance must lower the score to this share, because it also adapts to drift.
_RELEVANCE_GAIN = 0.85
_RELEVANCE_VALUES = 20_000
_MAX_RELEVANCE_COLUMNS = 200
# Time to learn the relevance, per row, column, output and grid.
_SECONDS_PER_CODE = 5e-9


def first_settings(task: SelectionTask, alpha: float) -> Hyperparameters:
    """Return the settings at which the search starts; tables with few rows keep them."""
    start = _SMOOTH_START if task.feature_map.metric == "euclidean" else _START
    bandwidth = start if task.fixed.bandwidth is None else None
    return Hyperparameters(task.fixed.scalings[0], bandwidth, alpha)


def bandwidth_in_scaled_units(
    task: SelectionTask, settings: Hyperparameters, scaler: Scaler
) -> Any:
    if settings.bandwidth is None:
        return task.fixed.bandwidth
    if task.feature_map.metric == "cityblock":
        return settings.bandwidth * scaler.spread
    step, factors = max(1, task.n_rows // _DISTANCE_ROWS), 1.0 / scaler.unit
    rows = scaler.rows(task.data.rows[::step])
    with np.errstate(over="ignore"):
        scaled = rows.multiply(factors).tocsr() if sp.issparse(rows) else rows * factors
    distance = median_distance(scaled, task.seed, scaler.categorical, "euclidean")
    return settings.bandwidth * distance


class BandwidthSearch:
    """The search for scaling, bandwidth, relevance and penalty of random features.

    It uses least squares. The task records every trial. A time budget reduces the number of
    bandwidths.
    """

    def __init__(self, task: SelectionTask) -> None:
        self.task = task

    def run(self) -> Hyperparameters:
        """Return the settings with the best score.

        It takes a few dozen solves on at most 10,000 rows and 96 grids (1,024 columns of dense
        features), then a few on at most 40,000 rows. There are fewer rows for many outputs, or if
        memory is limited.
        """
        task, fixed = self.task, self.task.fixed
        has_few_outputs = task.data.n_outputs <= 4
        size = task.feature_map.enough_to_search // (1 if has_few_outputs else 2)
        in_memory = task.n_rows
        if isinstance(task.feature_map, DrawnGrids):
            in_memory = task.budget.rows_to_search(task.feature_map.sketch(size).size)
        seconds = task.budget.deadline.seconds
        small, large = (
            min(in_memory, sampled_rows(n_rows, task.data.n_outputs, seconds))
            for n_rows in ((10_000, 40_000) if has_few_outputs else (8_000, 24_000))
        )
        sample = Sample(task, small, size, 0.0)
        equal = self._best_bandwidth(sample, first_settings(task, 0.0), _STEPS, fixed.scalings)
        best = equal
        if fixed.relevance != "equal" and fixed.bandwidth is None:
            best = self._best_relevance(sample, equal)
        if task.n_rows > 1.5 * small and not task.is_over("search"):
            sample = Sample(task, large, size, best.settings.alpha)
            best = self._refine(sample, best.settings, equal.settings)
        if fixed.alpha is not None:
            return best.settings
        # ``n_rows * alpha``, the penalty of the sum of the losses, is the same for all rows.
        ratio = task.data.n_fitted / task.data.mass_of(sample.splits[0][0])
        return replace(best.settings, alpha=best.settings.alpha / ratio)

    def _best_bandwidth(
        self,
        sample: Sample,
        start: Hyperparameters,
        steps: Sequence[float],
        scalings: Sequence[ScalingKind],
    ) -> Trial:
        best = self._best_scaling(sample, start, scalings)
        if self.task.fixed.bandwidth is not None:
            return best
        for step in steps:
            best = self._walk(sample, best, step)
        others = [s for s in scalings if s != best.settings.scaling]
        if not others or self.task.is_over("search"):
            return best
        return min([best, self._best_scaling(sample, best.settings, others)], key=_by_score)

    def _best_scaling(
        self, sample: Sample, settings: Hyperparameters, scalings: Sequence[ScalingKind]
    ) -> Trial:
        """Return the best trial of the scalings; later ones are skipped if time is spent."""
        trials = [sample.trial(replace(settings, scaling=scalings[0]))]
        for scaling in scalings[1:]:
            if not self.task.is_over("search"):
                trials.append(sample.trial(replace(settings, scaling=scaling)))
        return min(trials, key=_by_score)

    def _refine(self, sample: Sample, start: Hyperparameters, equal: Hyperparameters) -> Trial:
        # The best scaling so far comes first, because there may be time for only one.
        others = [s for s in self.task.fixed.scalings if s != start.scaling]
        best = self._best_scaling(sample, start, [start.scaling, *others])
        if start.relevance is not None:
            plain = sample.trial(replace(equal, alpha=start.alpha))
            best = best if best.score <= scaled_score(plain.score, self._relevance_gain) else plain
        return (
            best if self.task.fixed.bandwidth is not None else self._walk(sample, best, _STEPS[-1])
        )

    def _best_relevance(self, sample: Sample, best: Trial) -> Trial:
        """Return the best trial with learned relevance, or ``best`` if it gains too little."""
        trial = best_learned = best
        lowest = np.inf if self.task.fixed.relevance == "learned" else best.score
        for _ in range(_RELEVANCE_ROUNDS):
            relevance = sample.relevance(trial.settings)
            if relevance is None or self.task.is_over("search"):
                return best
            trial = sample.trial(replace(trial.settings, relevance=relevance))
            if trial.score >= lowest:
                break
            best_learned, lowest = trial, trial.score
        if best_learned.score > scaled_score(best.score, self._relevance_gain):
            return best
        return self._walk(sample, best_learned, _STEPS[-1])

    @property
    def _relevance_gain(self) -> float:
        return np.inf if self.task.fixed.relevance == "learned" else _RELEVANCE_GAIN

    def _walk(self, sample: Sample, best: Trial, step: float) -> Trial:
        """Return the best trial of a path of bandwidths, which goes on while scores improve."""
        centre = best
        for factor in (1.0 / step, step):  # finer bandwidths first
            while True:
                bandwidth = (best.settings.bandwidth or _START) * factor
                is_allowed = _BANDWIDTH_RANGE[0] <= bandwidth <= _BANDWIDTH_RANGE[1]
                if not is_allowed or self.task.is_over("search"):
                    break
                trial = sample.trial(replace(best.settings, bandwidth=bandwidth))
                if trial.score >= best.score:
                    break
                best = trial
            if best is not centre:
                break
        return best


class Sample:
    """The sampled rows of a stage of the search, with their scalers and trials."""

    def __init__(self, task: SelectionTask, n_rows: int, size: int, centre_alpha: float) -> None:
        self.task, self.feature_map = task, task.feature_map.sketch(size)
        self.splits = task.held_back.sampled(n_rows)
        self.scalers: dict[ScalingKind, list[Scaler]] = {}
        self.done: dict[tuple[Hashable, ...], Trial] = {}
        if task.fixed.alpha is not None:
            self.alphas: tuple[float, ...] = (task.fixed.alpha,)
        elif centre_alpha == 0.0:
            self.alphas = ALPHAS
        else:
            # More rows need a weaker penalty, so the path goes farther down than up.
            self.alphas = tuple(centre_alpha * factor for factor in (10**0.5, 1.0, 10**-0.5, 0.1))

    def trial(self, settings: Hyperparameters) -> Trial:
        """Return the trial of the best alpha for these settings, averaged over the splits.

        The first trial of a stage tries the whole path of alphas, and later trials the neighbours
        of their first alpha.
        """
        key = (settings.scaling, settings.bandwidth, id(settings.relevance))
        if key in self.done:
            return self.done[key]
        start = time.perf_counter()
        alphas = self.alphas
        if settings.alpha in alphas:
            at = alphas.index(settings.alpha)
            alphas = alphas[max(0, at - 1) : at + 2]
        paths = [self._path(settings, alphas, 0)]
        for k in range(1, len(self.splits)):
            if self.task.is_over("search"):
                break
            paths.append(self._path(settings, alphas, k))
        seconds = (time.perf_counter() - start) / len(alphas)
        task, trials = self.task, []
        n_rows, size = len(self.splits[0][0]), self.feature_map.size
        # The path of a split can end before the others.
        for alpha, *results in zip(alphas, *paths, strict=False):
            curve, n_iter = results[0]
            score = float(np.mean([split_curve[-1] for split_curve, _ in results]))
            trials.append(
                Trial(
                    stage="search",
                    settings=replace(settings, alpha=alpha),
                    score=score,
                    measure=task.search_measure,
                    n_iter=n_iter,
                    n_rows=n_rows,
                    size=size,
                    seconds=seconds,
                    curve=curve,
                )
            )
        task.trials.extend(trials)
        lowest = min(trial.score for trial in trials)
        best = next(trial for trial in trials if trial.score <= scaled_score(lowest, _TIE))
        self.done[key] = best
        unit = self.feature_map.size_unit
        width = "as given" if settings.bandwidth is None else f"{settings.bandwidth:.4g}"
        task.report(
            "search",
            f"{best.n_rows:>7} rows, {best.size} {unit}: {settings.scaling} scaling, bandwidth "
            f"{width}, alpha {best.settings.alpha:.1e} -> {best.score:.5f}",
            **best.as_dict(),
        )
        return best

    def _path(
        self, settings: Hyperparameters, alphas: Sequence[float], k: int
    ) -> list[tuple[list[float], int]]:
        """Return each alpha's validation curve and iterations, until two in a row are worse."""
        task, (training, validation) = self.task, self.splits[k]
        data = task.data
        _, Z, Z_validation = self.matrices(settings, k)
        path: list[tuple[list[float], int]] = []
        weights = None
        solver = self._solver(Z, data.problem(Z, 1.0, training).row_weights)
        for alpha in alphas:
            problem = data.problem(Z, alpha, training)
            curve: list[float] = []

            def watch(iteration: int, w: Vector, curve: list[float] = curve) -> bool:
                if iteration % 4 == 0:
                    curve.append(task.search_score(Z_validation.matvec(w), validation))
                return task.is_over("search")

            solution = solver.solve(problem, weights, watch)
            weights = solution.weights
            curve.append(task.search_score(Z_validation.matvec(weights), validation))
            path.append((curve, solution.n_iter))
            if worse_twice([curve[-1] for curve, _ in path]) or task.is_over("search"):
                break
        return path

    def relevance(self, settings: Hyperparameters) -> NDArray[np.float64] | None:
        """Return the relevance of the inputs at these settings, or None if it takes too long."""
        data, (training, _) = self.task.data, self.splits[0]
        if sp.issparse(data.rows) or data.rows.shape[1] > _MAX_RELEVANCE_COLUMNS:
            return None
        max_rows = max(_RELEVANCE_VALUES // data.rows.shape[1], 100)
        sample = training[:: max(1, len(training) // max_rows)]
        n_codes = len(sample) * data.rows.shape[1] * data.n_outputs * self.feature_map.size
        if self.task.budget.deadline.seconds_left(TIME_SHARE) < _SECONDS_PER_CODE * n_codes:
            return None
        feature_map, Z, _ = self.matrices(settings, 0)
        problem = data.problem(Z, settings.alpha, training)
        watch = self.task.budget.deadline.watch(TIME_SHARE)
        weights = self._solver(Z, problem.row_weights).solve(problem, None, watch).weights
        weights = weights[: len(weights) - int(data.intercept)]
        scaler = self._scaler(settings.scaling, 0)
        rows = scaler.rows(data.rows[sample])
        steps = scaler.unscaled(0.5 * bandwidth_in_scaled_units(self.task, settings, scaler))
        return learned_relevance(feature_map, weights, np.asarray(rows), steps, scaler.categorical)

    def _solver(self, Z: FeatureMatrix, row_weights: NDArray[np.float64]) -> Solver:
        n_outputs, n_jobs = self.task.data.n_outputs, self.task.n_jobs
        sizes = {"n_alphas": len(self.alphas), "n_outputs": n_outputs}
        return path_solver(
            Z, row_weights, tol=_TOL, max_iter=_MAX_ITERATIONS, n_jobs=n_jobs, **sizes
        )

    def matrices(
        self, settings: Hyperparameters, k: int
    ) -> tuple[SizedMap, FeatureMatrix, FeatureMatrix]:
        (training, validation), n_jobs = self.splits[k], self.task.n_jobs
        rows = self.task.data.rows
        scaler = self._scaler(settings.scaling, k).weighted(settings.relevance)
        feature_map = clone(self.feature_map).set_params(
            bandwidth=scaler.unscaled(bandwidth_in_scaled_units(self.task, settings, scaler)),
            categorical=scaler.categorical,
        )
        matrix = self.task.data.matrix
        Z = matrix(feature_map.fit_rows(scaler.rows(rows[training], n_jobs)))
        Z_validation = matrix(feature_map.rows_matrix(scaler.rows(rows[validation], n_jobs)))
        return feature_map, Z, Z_validation

    def _scaler(self, kind: ScalingKind, k: int) -> Scaler:
        if kind not in self.scalers:
            data = self.task.data
            self.scalers[kind] = [data.take(training).scaler(kind) for training, _ in self.splits]
        return self.scalers[kind][k]


def worse_twice(scores: Sequence[float]) -> bool:
    return len(scores) > 2 and scores[-1] > scores[-2] > scores[-3]


_by_score = attrgetter("score")
