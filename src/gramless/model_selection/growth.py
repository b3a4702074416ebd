"""Grids grown one after the other where two models of half the rows leave most unexplained."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gramless.base.random import stream
from gramless.features.grids import Grids
from gramless.model_selection.alpha import Goal
from gramless.model_selection.candidates import Breeder, Candidates
from gramless.model_selection.data import Data
from gramless.model_selection.grouped_rows import Groups, shuffled
from gramless.model_selection.halves import Halves
from gramless.model_selection.scoring import draw_multipliers, score_candidates
from gramless.model_selection.splits import Split, half_of
from gramless.preprocessing.scaling import Scaler

MOST_ROWS, MOST_JUDGES = 60_000, 5_000
"""Rows that grids are grown on, and that judge them: bin numbers fit 16 bits."""
_PROPOSED, _KEPT = 320, 8
_SHRINKAGE = 5.0
PAUSE = 80
"""Grids that show whether more are worth their time."""
_EARLY_STAGES = (40, PAUSE, 160)
_STAGE = 160
_LEAST_GAIN = 0.005
"""A stage that lowers the score by less is the last."""
_FIRST_ALPHA, _ALPHA_STEP = 1e-5, 4.0
_ALPHAS = (1e-8, 1e-2)
_AS_GOOD = 0.999
"""Inputs whose loss costs a grid no more than this of its gain are left out."""
_FARTHEST = 1e5
"""In standard deviations: farther inputs are clipped while grids are scored."""


@dataclass(frozen=True)
class Grown:
    """Grids that were grown, and how.

    Attributes
    ----------
    grids : Grids
        Over the rows that the scaler returns.
    alpha : float
        Best for a model of ``n_rows`` rows.
    n_rows : int
    score : float
        Of the rows that judge.
    history : list of dict
        ``n_grids``, ``score``, ``alpha`` and ``seconds`` after each stage.
    worth : array (n_columns,)
        Of each column of the scaled rows: its share of how far the score fell. A stage's
        fall is shared by how much more its grids gained than the same grids without it.
    """

    grids: Grids
    alpha: float
    n_rows: int
    score: float
    history: list[dict[str, float]] = field(repr=False)
    worth: NDArray[np.float64] = field(repr=False)

    def relevance(self, n_features: int) -> NDArray[np.float64]:
        """Return the worth of each input and its rank together.

        Returns
        -------
        array (n_features,)
            With root mean square 1.
        """
        folded = self.worth.reshape(-1, n_features).sum(axis=0)
        size = np.sqrt(np.mean(folded**2))
        return folded / size if size > 0 else np.ones(n_features)


class Growth:
    """Grows grids greedily, fully corrected (RB16, Theorem 1, made greedy).

    Rows are cut in two halves, with one model each over the same grids. A round
    proposes grids, fits their bins to what the model of either half leaves
    unexplained of its own rows, and judges them by how much that would help the
    same model on the other half's rows. The best are kept and take a small step;
    at each stage all weights of both models are solved again.

    Parameters
    ----------
    data : Data
        Dense rows.
    split : (training rows, judging rows)
        Grids are grown on the first, at least two and at most 60,000 of them. The others,
        at most 5,000, say when to stop.
    scaler : Scaler
        Of kind "both", fitted.
    goal : Goal
        The loss, and the score of rows that judge.
    n_grids : int
        How many to grow at most.
    seed : int
    n_jobs : int or None
    groups : array (n_rows,), optional
        Of rows that no two halves share, see :mod:`gramless.model_selection.grouped_rows`.

    Notes
    -----
    Rounds of 8 grids score 320 candidates, some 1.5 ns a row, candidate and core. 2
    bytes a row and grid, and 4 bytes a row and column of the scaled rows.
    """

    def __init__(
        self,
        data: Data,
        split: Split,
        scaler: Scaler,
        goal: Goal,
        n_grids: int,
        seed: int,
        n_jobs: int | None,
        groups: Groups | None = None,
    ) -> None:
        self.scaler, self.n_grids, self.n_jobs = scaler, n_grids, n_jobs
        self.generator = stream(seed, "growth")
        training = shuffled(split[0], groups, self.generator)[:MOST_ROWS]
        judges = self.generator.permutation(split[1])[:MOST_JUDGES]
        data = data.take(np.concatenate([training, judges]))
        self.rows = np.asarray(scaler.rows(data.rows, n_jobs))
        usable = np.flatnonzero(np.isfinite(scaler.unit))
        self.inputs = usable if len(usable) > 0 else np.arange(1)
        self.unit = np.where(np.isfinite(scaler.unit), scaler.unit, 1.0)[self.inputs]
        self.categorical = scaler.categorical_mask[self.inputs]
        middle = [np.median(self.rows[:, j]) for j in self.inputs]
        self.centre = np.where(self.categorical, 0.0, middle)
        self.columns = self._columns()
        ends = half_of(len(training)), len(training), len(self.rows)
        parts = slice(0, ends[0]), slice(ends[0], ends[1]), slice(ends[1], ends[2])
        self.halves = Halves(data, parts, goal, n_grids, n_jobs)
        self.breeder = Breeder(len(self.inputs), self.generator, self.categorical)
        self.multipliers = draw_multipliers(self.generator)
        self.alpha = _FIRST_ALPHA
        self.kept: list[Grids] = []
        self.history: list[dict[str, float]] = []
        self.score = self.halves.score(self.halves.models)
        early = [stage for stage in _EARLY_STAGES if stage < n_grids]
        self.stages = [*early, *range(2 * _STAGE, n_grids, _STAGE), n_grids]
        self.ended = False
        self.worth, self.stage_worth = np.zeros((2, len(scaler.unit)))

    def run(self, stop: Callable[[], bool] = lambda: False, most: int | None = None) -> Grown:
        """Grow grids, stage by stage, until there are enough or a stage gains little.

        Parameters
        ----------
        stop : callable
            Asked after each round; True ends growth with a last correction.
        most : int, optional
            How many grids to grow for now. The next run goes on from there, and ends with the
            grids that it would have without a break.

        Returns
        -------
        Grown
        """
        earlier = self.history[-1]["seconds"] if self.history else 0.0
        started = time.perf_counter() - earlier
        while not self.ended and self.stages[0] <= (most or self.n_grids):
            self._grow_to(self.stages.pop(0), stop)
            self.history[-1]["seconds"] = time.perf_counter() - started
        return self._best()

    def _grow_to(self, stage: int, stop: Callable[[], bool]) -> None:
        """Grow to so many grids, and see whether that was the last stage."""
        before, last = self.halves.count, self.score
        while self.halves.count < stage and self._round(stage) and not stop():
            pass
        self.score = self._correct(stage)
        self._share(last - self.score)
        told = {"n_grids": self.halves.count, "score": self.score, "alpha": self.alpha}
        self.history.append(told)
        little = stage > _EARLY_STAGES[-1] and self.score > (1.0 - _LEAST_GAIN) * last
        self.ended = little or self.halves.count == before or not self.stages or stop()

    def _best(self) -> Grown:
        """Return the grids of the best stage."""
        best = min(self.history, key=lambda stage: stage["score"])
        grids = Grids.joined(self.kept)
        kept = np.arange(len(grids)) < best["n_grids"]
        n_rows = self.halves.models[0].rows.stop
        history, worth = list(self.history), self.worth.copy()
        return Grown(grids.take(kept), best["alpha"], n_rows, best["score"], history, worth)

    def _columns(self) -> NDArray[np.float32]:
        """Return the inputs in standard deviations, and categories numbered, one a row."""
        columns = np.empty((len(self.inputs), len(self.rows)), np.float32)
        for k, j in enumerate(self.inputs):
            distance = (self.rows[:, j] - self.centre[k]) / self.unit[k]
            if self.categorical[k]:
                distance = np.unique(distance, return_inverse=True)[1]
            columns[k] = np.clip(distance, -_FARTHEST, _FARTHEST)
        return columns

    def _round(self, stage: int) -> bool:
        """Add the best of many candidates; False where none helps."""
        candidates = self.breeder.propose(_PROPOSED)
        packed = self.halves.unexplained().packed(self.generator)
        gains = self._scored(candidates, packed)
        best = np.argsort(-gains, kind="stable")[: min(_KEPT, stage - self.halves.count)]
        helpful = best[gains[best] > 0.0]
        if len(helpful) == 0 and self.kept:
            return False
        # A model needs a grid, even where none predicts anything.
        chosen = helpful if len(helpful) > 0 else best[:1]
        winners = self._pruned(candidates.take(chosen), gains[chosen], packed)
        self.breeder.reward(winners)
        self.kept.append(self._in_units(winners))
        codes, known = self.kept[-1].learn(self.rows, self.n_jobs)
        self.halves.add(codes, known.n_bins, _SHRINKAGE)
        return len(helpful) > 0

    def _scored(
        self, candidates: Candidates, packed: tuple[NDArray[np.float32], int]
    ) -> NDArray[np.float64]:
        values, n_outputs = packed
        parts = np.array([[half.rows.start, half.rows.stop] for half in self.halves.models])
        return score_candidates(
            self.columns,
            values,
            n_outputs,
            parts,
            candidates,
            self.multipliers,
            _SHRINKAGE,
            self.n_jobs,
        )

    def _pruned(
        self,
        winners: Candidates,
        gains: NDArray[np.float64],
        packed: tuple[NDArray[np.float32], int],
    ) -> Candidates:
        """Return winners without inputs that they are as good without; learn what others are worth.

        The input that is missed least goes first, one after the other.
        """
        gains, changed = gains.copy(), np.arange(len(winners))
        while len(changed) > 0:
            simpler, owner, dropped = winners.take(changed).without_each()
            left, owner = self._scored(simpler, packed), changed[owner]
            order = np.argsort(left, kind="stable")
            best = np.full(len(winners), -1)
            # Of those of one owner the last one written counts, which is the best.
            best[owner[order]] = order
            changed = np.flatnonzero(best >= 0)
            changed = changed[left[best[changed]] >= _AS_GOOD * gains[changed]]
            kept = ~np.isin(owner, changed)
            lost = np.maximum(gains[owner] - left, 0.0)[kept]
            np.add.at(self.stage_worth, self.inputs[dropped[kept]], lost)
            winners = winners.replaced(changed, simpler.take(best[changed]))
            gains[changed] = left[best[changed]]
        alone = winners.sizes == 1
        np.add.at(self.stage_worth, self.inputs[winners.inputs[alone, 0]], gains[alone])
        return winners

    def _share(self, fall: float) -> None:
        """Share a stage's fall of the score among the columns that its grids divided."""
        total = self.stage_worth.sum()
        if total > 0.0:
            self.worth += max(fall, 0.0) * self.stage_worth / total
        self.stage_worth[:] = 0.0

    def _in_units(self, winners: Candidates) -> Grids:
        """Return candidates as grids over the scaler's rows."""
        own_widths, own_shifts = winners.dense(len(self.inputs))
        shape = len(winners), len(self.scaler.unit)
        widths, shifts = np.full(shape, np.inf), np.zeros(shape)
        widths[:, self.inputs] = own_widths * self.unit
        moved = self.centre + own_shifts * self.unit
        shifts[:, self.inputs] = np.where(np.isfinite(own_widths), moved, 0.0)
        hashes = self.generator.integers(-(2**63), 2**63, (shape[0], shape[1] + 1))
        return Grids(widths, shifts, hashes[:, 1:] | 1, hashes[:, 0].copy())

    def _correct(self, stage: int) -> float:
        """Solve all weights again, with alpha nearby if that is better; return the score."""
        score, models = self.halves.solved(self.alpha)
        both = stage <= _EARLY_STAGES[-1]
        for factor in (_ALPHA_STEP, 1.0 / _ALPHA_STEP) if both else (1.0 / _ALPHA_STEP,):
            moved = False
            while _ALPHAS[0] <= self.alpha * factor <= _ALPHAS[1]:
                tried = self.halves.solved(self.alpha * factor)
                if tried[0] >= score:
                    break
                (score, models), moved = tried, True
                self.alpha *= factor
            if moved:
                break
        self.halves.models = models
        return score
