"""A warm search over scaling, bandwidth and alpha on held-back rows.

First on a small sample: bandwidths along a geometric path, from a start in both directions for as
long as the score improves; for each, the path of alphas from strong to weak, every solution
starting from the last. Then, when there are many more rows, the neighbourhood again on a larger
sample, because more rows want finer bins and less penalty.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from gramless.base.cached import cached_property
from gramless.base.deadline import Deadline
from gramless.base.reporting import Reporter
from gramless.base.types import IntArray
from gramless.features.base import SizedMap
from gramless.features.binning import DrawnGrids
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.model_selection.budget import Budget, sampled_rows
from gramless.model_selection.data import Data
from gramless.model_selection.grouped_rows import Groups, kept_together, matched_rows
from gramless.model_selection.relevance import learned_relevance
from gramless.model_selection.scoring import RowScorer, scaled_score
from gramless.model_selection.search_space import Hyperparameters, SearchSpace, Trial
from gramless.model_selection.splits import Folds, Split, held_back_splits, holdout_splits
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.scaling import Scaler, ScalingKind
from gramless.solvers.base import Solver
from gramless.solvers.choose import path_solver

RELEVANCES = ("auto", "equal", "learned")
ALPHAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
_BANDWIDTH_RANGE = (2.0**-8, 8.0)
_START, _SMOOTH_START = 0.25, 0.7
"""In mean distances between rows; radial kernels are smooth, and want to be wider."""
_STEPS = (2.0, 2.0**0.5)
_ITERATIONS = 16
_TOL = 3e-2
_TIE = 1.01
"""Of alphas whose scores differ by less, the strongest: few iterations hide overfitting."""
TIME_SHARE = 0.5
"""Of a time budget, after which nothing more is tried."""
_DISTANCE_ROWS = 5000
_RELEVANCE_ROUNDS = 3
_RELEVANCE_GAIN = 0.85
"""Learned weights must lower the score this much: they also fit what drifts."""
_RELEVANCE_ROWS = 20_000
_RELEVANCE_COLUMNS = 200
_SECONDS_A_CODE = 5e-9
"""Of a budget, for each row, column, output and grid by which relevance is learned."""


@dataclass
class Search:
    """Tries settings and remembers every trial.

    The feature map is a template. ``classes`` has the number of each row's class, if targets are
    classes; ``folds`` say which rows are held back, None leaves that to a rule; ``scorer`` is what
    a user named to choose by, for raw predictions by least squares, None chooses by the score of
    the data. ``rising`` says of inputs that predictions must not fall along them (1), or not rise
    (-1); None if of none. With a budget of time, fewer bandwidths are tried.
    """

    data: Data
    feature_map: SizedMap
    space: SearchSpace
    seed: int
    n_jobs: int | None = None
    report: Reporter = field(default_factory=Reporter)
    deadline: Deadline = field(default_factory=Deadline)
    trials: list[Trial] = field(default_factory=list)
    classes: IntArray | None = None
    folds: Folds | None = None
    scorer: RowScorer | None = None
    rising: IntArray | None = None

    @cached_property
    def groups(self) -> Groups | None:
        """Rows that belong together, which no split parts: as given, or drawn together."""
        if self.folds is not None:
            return self.folds.groups
        groups = matched_rows(self.data.for_squares, self.n_jobs)
        if groups is not None:
            self.report("search", "rows that agree in all inputs but one are matched: not parted")
        return groups

    def splits(self) -> list[Split]:
        """Return rows to fit and rows to hold back: once, or in turns where they are few."""
        n_rows = self.data.rows.shape[0]
        if self.folds is not None:
            return self.folds.used(n_rows)
        splits = held_back_splits(n_rows, self.seed, self.classes)
        return [kept_together(split, self.groups) for split in splits]

    def sampled_splits(self, most: int) -> list[Split]:
        """Return such splits of at most so many rows, for the trials of a stage."""
        n_rows = self.data.rows.shape[0]
        if self.folds is not None:
            return self.folds.sampled(n_rows, most, self.seed)
        splits = holdout_splits(n_rows, most, self.seed, self.classes)
        return [kept_together(split, self.groups) for split in splits]

    def scored(self, raw: Vector, rows: IntArray) -> float:
        """Return what chooses between trials, for raw predictions of some rows."""
        score = self.data.score(raw, self.data.targets[rows], self.data.weights_of(rows))
        return score if self.scorer is None else self.scorer(raw, rows, score)

    @property
    def measure(self) -> str:
        """What :meth:`scored` returns, in words."""
        return self.data.measure if self.scorer is None else self.scorer.name

    def is_over(self, stage: str) -> bool:
        """Tell whether the time for trials is spent, or a callback has ended those of a stage."""
        return stage in self.report.ended or self.deadline.beyond(TIME_SHARE)

    def run(self, budget: Budget) -> Hyperparameters:
        """Return the settings with the best score.

        A few dozen solves on at most 10,000 rows and 96 grids (1,024 columns of dense features),
        then a few on at most 40,000 rows; fewer for many outputs, or if memory is limited.
        """
        few = self.data.n_outputs <= 4
        n_rows = self.data.rows.shape[0]
        most = self.feature_map.enough_to_search // (1 if few else 2)
        in_memory = n_rows
        if isinstance(self.feature_map, DrawnGrids):
            in_memory = budget.rows_to_search(self.feature_map.sketch(most).size)
        small, large = (
            min(in_memory, sampled_rows(most_rows, self.data.n_outputs, self.deadline.seconds))
            for most_rows in ((10_000, 40_000) if few else (8_000, 24_000))
        )
        sample = Sample(self, small, most, 0.0)
        equal = self._best_bandwidth(sample, self.first_settings(0.0), _STEPS, self.space.scalings)
        best = equal
        if self.space.relevance != "equal" and self.space.bandwidth is None:
            best = self._best_relevance(sample, equal)
        if n_rows > 1.5 * small and not self.is_over("search"):
            sample = Sample(self, large, most, best.settings.alpha)
            best = self._refine(sample, best.settings, equal.settings)
        if self.space.alpha is not None:
            return best.settings
        # ``n_rows * alpha``, the penalty beside the summed losses, stays for all rows.
        more = self.data.n_fitted / self.data.mass_of(sample.splits[0][0])
        return replace(best.settings, alpha=best.settings.alpha / more)

    def bandwidth(self, settings: Hyperparameters, scaler: Scaler) -> Any:
        """Return the bandwidth in units of the scaled inputs."""
        if settings.bandwidth is None:
            return self.space.bandwidth
        return settings.bandwidth * self._distance(scaler)

    def _distance(self, scaler: Scaler) -> float:
        """Return how far apart two rows are, inputs scaled, as the kernel measures it."""
        if self.feature_map.metric == "cityblock":
            return scaler.spread
        step, shares = max(1, self.data.rows.shape[0] // _DISTANCE_ROWS), 1.0 / scaler.unit
        rows = scaler.rows(self.data.rows[::step])
        with np.errstate(over="ignore"):
            scaled = rows.multiply(shares).tocsr() if sp.issparse(rows) else rows * shares
        return median_distance(scaled, self.seed, scaler.categorical, "euclidean")

    def first_settings(self, alpha: float) -> Hyperparameters:
        """Return where the search starts, and what few rows are fitted with."""
        start = _SMOOTH_START if self.feature_map.metric == "euclidean" else _START
        bandwidth = start if self.space.bandwidth is None else None
        return Hyperparameters(self.space.scalings[0], bandwidth, alpha)

    def _best_bandwidth(
        self,
        sample: Sample,
        start: Hyperparameters,
        steps: Sequence[float],
        scalings: Sequence[ScalingKind],
    ) -> Trial:
        best = self._best_scaling(sample, start, scalings)
        if self.space.bandwidth is not None:
            return best
        for step in steps:
            best = self._walk(sample, best, step)
        others = [s for s in scalings if s != best.settings.scaling]
        if not others or self.is_over("search"):
            return best
        return min([best, self._best_scaling(sample, best.settings, others)], key=_by_score)

    def _best_scaling(
        self, sample: Sample, settings: Hyperparameters, scalings: Sequence[ScalingKind]
    ) -> Trial:
        """Return the best trial of some scalings, or of as many as there is time for."""
        tried = [sample.trial(replace(settings, scaling=scalings[0]))]
        for scaling in scalings[1:]:
            if not self.is_over("search"):
                tried.append(sample.trial(replace(settings, scaling=scaling)))
        return min(tried, key=_by_score)

    def _refine(self, sample: Sample, found: Hyperparameters, equal: Hyperparameters) -> Trial:
        """Ask again on more rows what the small sample decided."""
        # With those found first: there may be time for one alone.
        others = [s for s in self.space.scalings if s != found.scaling]
        best = self._best_scaling(sample, found, [found.scaling, *others])
        if found.relevance is not None:
            plain = sample.trial(replace(equal, alpha=found.alpha))
            best = best if best.score <= scaled_score(plain.score, self._relevance_gain) else plain
        return best if self.space.bandwidth is not None else self._walk(sample, best, _STEPS[-1])

    def _best_relevance(self, sample: Sample, best: Trial) -> Trial:
        """Learn weights of the inputs for as long as they lower the score."""
        trial = found = best
        least = np.inf if self.space.relevance == "learned" else best.score
        for _ in range(_RELEVANCE_ROUNDS):
            relevance = sample.relevance(trial.settings)
            if relevance is None or self.is_over("search"):
                return best
            trial = sample.trial(replace(trial.settings, relevance=relevance))
            if trial.score >= least:
                break
            found, least = trial, trial.score
        if found.score > scaled_score(best.score, self._relevance_gain):
            return best
        return self._walk(sample, found, _STEPS[-1])

    @property
    def _relevance_gain(self) -> float:
        """How much learned weights must lower the score."""
        return np.inf if self.space.relevance == "learned" else _RELEVANCE_GAIN

    def _walk(self, sample: Sample, best: Trial, step: float) -> Trial:
        """Follow the path of bandwidths, finer first, while the score improves."""
        centre = best
        for factor in (1.0 / step, step):
            while True:
                bandwidth = (best.settings.bandwidth or _START) * factor
                inside = _BANDWIDTH_RANGE[0] <= bandwidth <= _BANDWIDTH_RANGE[1]
                if not inside or self.is_over("search"):
                    break
                trial = sample.trial(replace(best.settings, bandwidth=bandwidth))
                if trial.score >= best.score:
                    break
                best = trial
            if best is not centre:
                break
        return best


class Sample:
    """Rows drawn once for a stage of the search, their scalers fitted once each."""

    def __init__(self, search: Search, n_rows: int, most: int, centre_alpha: float) -> None:
        self.search, self.feature_map = search, search.feature_map.sketch(most)
        self.splits = search.sampled_splits(n_rows)
        self.scalers: dict[ScalingKind, list[Scaler]] = {}
        self.done: dict[tuple[Hashable, ...], Trial] = {}
        self.alphas = _alpha_path(search.space.alpha, centre_alpha)

    def trial(self, settings: Hyperparameters) -> Trial:
        """Return the best alpha's trial at a scaling and bandwidth, averaged over the splits.

        The first trial of a stage walks the whole path of alphas, later ones the
        neighbours of the alpha they start from.
        """
        key = (settings.scaling, settings.bandwidth, id(settings.relevance))
        if key in self.done:
            return self.done[key]
        started = time.perf_counter()
        alphas = self.alphas
        if settings.alpha in alphas:
            at = alphas.index(settings.alpha)
            alphas = alphas[max(0, at - 1) : at + 2]
        paths = [self._path(settings, alphas, 0)]
        for k in range(1, len(self.splits)):
            if self.search.is_over("search"):
                break
            paths.append(self._path(settings, alphas, k))
        seconds = (time.perf_counter() - started) / len(alphas)
        search, trials = self.search, []
        n_rows, size = len(self.splits[0][0]), self.feature_map.size
        # A split's path may end before the others.
        for alpha, *found in zip(alphas, *paths, strict=False):
            curve, n_iter = found[0]
            score = float(np.mean([own[-1] for own, _ in found]))
            tried = replace(settings, alpha=alpha)
            told = score, search.measure, n_iter, n_rows, size, seconds, curve
            trials.append(Trial("search", tried, *told))
        search.trials.extend(trials)
        least = min(trial.score for trial in trials)
        best = next(trial for trial in trials if trial.score <= scaled_score(least, _TIE))
        self.done[key] = best
        what = self.feature_map.size_unit
        width = "as given" if settings.bandwidth is None else f"{settings.bandwidth:.4g}"
        self.search.report(
            "search",
            f"{best.n_rows:>7} rows, {best.size} {what}: {settings.scaling} scaling, bandwidth "
            f"{width}, alpha {best.settings.alpha:.1e} -> {best.score:.5f}",
            **best.as_dict(),
        )
        return best

    def _path(
        self, settings: Hyperparameters, alphas: Sequence[float], k: int
    ) -> list[tuple[list[float], int]]:
        """Return each alpha's validation curve and iterations, until two in a row are worse."""
        search, (training, validation) = self.search, self.splits[k]
        data = search.data
        _, Z, held_back = self.matrices(settings, k)
        path: list[tuple[list[float], int]] = []
        weights = None
        solver = self._solver(Z, data.problem(Z, 1.0, training).row_weights)
        for alpha in alphas:
            problem = data.problem(Z, alpha, training)
            curve: list[float] = []

            def watch(iteration: int, w: Vector, curve: list[float] = curve) -> bool:
                if iteration % 4 == 0:
                    curve.append(search.scored(held_back.matvec(w), validation))
                return search.is_over("search")

            solution = solver.solve(problem, weights, watch)
            weights = solution.weights
            curve.append(search.scored(held_back.matvec(weights), validation))
            path.append((curve, solution.n_iter))
            worse = worse_twice([curve[-1] for curve, _ in path])
            if worse or search.is_over("search"):
                break
        return path

    def relevance(self, settings: Hyperparameters) -> NDArray[np.float64] | None:
        """Return weights of the inputs learned at these settings; None where that is too dear."""
        data, (training, _) = self.search.data, self.splits[0]
        if sp.issparse(data.rows) or data.rows.shape[1] > _RELEVANCE_COLUMNS:
            return None
        most = max(_RELEVANCE_ROWS // data.rows.shape[1], 100)
        chosen = training[:: max(1, len(training) // most)]
        codes = len(chosen) * data.rows.shape[1] * data.n_outputs * self.feature_map.size
        if self.search.deadline.left(TIME_SHARE) < _SECONDS_A_CODE * codes:
            return None
        feature_map, Z, _ = self.matrices(settings, 0)
        problem = data.problem(Z, settings.alpha, training)
        watch = self.search.deadline.watch(TIME_SHARE)
        weights = self._solver(Z, problem.row_weights).solve(problem, None, watch).weights
        weights = weights[: len(weights) - int(data.intercept)]
        scaler = self._scaler(settings.scaling, 0)
        rows = scaler.rows(data.rows[chosen])
        steps = scaler.unscaled(0.5 * self.search.bandwidth(settings, scaler))
        return learned_relevance(feature_map, weights, np.asarray(rows), steps, scaler.categorical)

    def _solver(self, Z: FeatureMatrix, row_weights: NDArray[np.float64]) -> Solver:
        """Return a solver for one matrix and any alpha."""
        n_outputs, n_jobs = self.search.data.n_outputs, self.search.n_jobs
        sizes = {"n_alphas": len(self.alphas), "n_outputs": n_outputs}
        return path_solver(Z, row_weights, tol=_TOL, max_iter=_ITERATIONS, n_jobs=n_jobs, **sizes)

    def matrices(
        self, settings: Hyperparameters, k: int
    ) -> tuple[SizedMap, FeatureMatrix, FeatureMatrix]:
        """Return the fitted feature map, and the training and the held-back matrix."""
        (training, validation), n_jobs = self.splits[k], self.search.n_jobs
        rows = self.search.data.rows
        scaler = self._scaler(settings.scaling, k).weighted(settings.relevance)
        feature_map = clone(self.feature_map).set_params(
            bandwidth=scaler.unscaled(self.search.bandwidth(settings, scaler)),
            categorical=scaler.categorical,
        )
        matrix = self.search.data.matrix
        Z = matrix(feature_map.fit_rows(scaler.rows(rows[training], n_jobs)))
        held_back = matrix(feature_map.rows_matrix(scaler.rows(rows[validation], n_jobs)))
        return feature_map, Z, held_back

    def _scaler(self, kind: ScalingKind, k: int) -> Scaler:
        if kind not in self.scalers:
            data = self.search.data
            self.scalers[kind] = [data.take(training).scaler(kind) for training, _ in self.splits]
        return self.scalers[kind][k]


def worse_twice(scores: Sequence[float]) -> bool:
    """Tell whether each of the last two scores is worse than the one before."""
    return len(scores) > 2 and scores[-1] > scores[-2] > scores[-3]


def _alpha_path(given: float | None, centre: float) -> tuple[float, ...]:
    if given is not None:
        return (given,)
    if centre == 0.0:
        return ALPHAS
    return tuple(centre * factor for factor in (10**0.5, 1.0, 10**-0.5, 0.1))


_by_score = attrgetter("score")
