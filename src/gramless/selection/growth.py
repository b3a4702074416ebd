"""Grids grown greedily on the pseudo-residuals of two cross-fitted models.

Training rows are cut in two halves, with one model each over the same grids. A round proposes
grids, fits their bins to the pseudo-residuals of either half's own model, and scores them by how
much that would lower the loss of the same model on the other half's rows: fine grids are favoured
no more than coarse ones. The best are kept, and their weights are fitted by backfitting, together
with those of some earlier grids. At each stage the weights of all grids are fitted again, with the
ridge penalty nearby that predicts the judging rows best. Finally, the grids that contribute least
to what both models agree on are dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import padded_rows
from gramless.base.random import stream
from gramless.base.reporting import Reporter
from gramless.base.threads import map_blocks, row_blocks, thread_count
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.features.grids import SHORT_HASH, Grids, with_combinations
from gramless.loops import backfitting
from gramless.loops.scoring import TILE, score_grids
from gramless.losses import Loss
from gramless.matrices.binned import BinnedMatrix
from gramless.preprocessing.scaling import Scaler
from gramless.selection.config import SearchConfig
from gramless.selection.data import Data
from gramless.selection.goal import RowScorer, scaled_score
from gramless.selection.grid_proposals import MOST_INPUTS, GridProposals, Proposer
from gramless.selection.splits import Groups, Split, cut_in_two, half_of

Floats = NDArray[np.float32]

# In standard deviations: inputs farther away are clipped while grids are scored.
_FARTHEST = 1e5
_FIRST_RIDGE, _LEAST_RIDGE, _MOST_RIDGE = 80.0, 1.0, 20_000.0
# Relative to the loss's typical curvature: steps must end also where a loss is linear.
_LEAST_CURVATURE = 0.01
# Losses of classes vanish as predictions grow: with less, a few hundred grids leave no slopes.
_LEAST_RIDGE_OF_CLASSES, _LEAST_CURVATURE_OF_CLASSES = 40.0, 1.0
# Of raw predictions of classes: how confident they are is settled by the final fit.
_SCALES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4)
_SHRINKAGE = 20.0  # rows' worth of zero by which the values of proposals' bins are shrunk
_AS_GOOD = 0.999  # an input is dropped if the grid keeps this share of its gain without it
_MOST_SCORED = 3  # outputs that grids are scored on; more are projected on random directions
_TASK_GRIDS, _TASKS_A_THREAD, _TABLE_BITS, _ROWS_A_BIN = 8, 2, (9, 15), 8
# Rows whose derivatives are packed at a time, and how many are not worth a second thread.
_PACKED_ROWS, _FEW_NUMBERS = 8192, 1 << 16
_LEVELS = 512  # of ranks
_SETTLED = 160  # grids after which stages that gain little end growth
_GRIDS_A_TASK = 8  # whose contributions are computed at a time


@dataclass(frozen=True, kw_only=True)
class GrownGrids:
    """Grids that were grown over the rows that a scaler returns, and how.

    ``alpha`` is the L2 penalty that served the cross-fitted models, times their number of rows: it
    does not change with the number of rows. ``score`` is the mean loss on the judging rows, or
    that of a scorer; ``first_loss`` that loss after the first stage. ``worth`` (n_columns,) is how
    much of the fall of the score is due to each column of the scaled rows.
    """

    grids: Grids
    alpha: float
    score: float
    first_loss: float
    history: list[dict[str, float]] = field(repr=False)
    worth: FloatArray = field(repr=False)

    def projected(self, projection: FloatArray) -> GrownGrids:
        """Return the same grids with combinations of the columns, which other grids divide."""
        if self.grids.projection is not None:
            return self
        return replace(self, grids=self.grids.projected(projection))

    def relevance(self, n_features: int) -> FloatArray:
        """Return the worth of each input and its rank together, with root mean square 1."""
        folded = self.worth.reshape(-1, n_features).sum(axis=0)
        size = np.sqrt(np.mean(folded**2))
        return folded / size if size > 0 else np.ones(n_features)


def grow(
    data: Data,
    split: Split,
    scaler: Scaler,
    loss: Loss,
    config: SearchConfig,
    *,
    most: int | None = None,
    seed: int,
    n_jobs: int | None = None,
    groups: Groups | None = None,
    is_interrupted: Callable[[], bool] = lambda: False,
    has_room: Callable[[int], bool] = lambda n_columns: True,
    is_enough: Callable[[float], bool] = lambda first_loss: False,
    report: Reporter | None = None,
    scorer: RowScorer | None = None,
    uncombined: NDArray[np.bool_] | None = None,
    projection: FloatArray | None = None,
) -> GrownGrids:
    """Grow grids on the training rows of a split.

    Parameters
    ----------
    data, split
        Dense rows, and at least two of them to train on.
    scaler : Scaler
        Of kind "both", fitted.
    most : int, optional
        The number of grids at most; ``config.most_grids`` by default.
    groups : array, optional
        Rows of a group are in the same half.
    is_interrupted, has_room, is_enough : callables
        Whether growth must stop now, asked after each round; whether so many bins still fit into
        memory, asked before grids are added; and, given the loss of the first stage, whether
        growth should stop there.
    scorer : RowScorer, optional
        If it is gradual, it chooses the best stage, and growth stops when both the loss and this
        score gain little.
    uncombined : array (n_columns,), optional
        Ranks of the scaler that are divided by grids over nothing else.
    projection : array (n_columns, n_directions), optional
        Linear combinations of the scaled rows that grids may divide too.

    Notes
    -----
    Scoring takes 1.5 ns a row, proposal and core for four inputs; memory is 2 bytes a row and
    grid, and 4 bytes a row and column of the scaled rows.
    """
    most = config.most_grids if most is None else most
    generator = stream(seed, "growth")
    training, half = cut_in_two(split[0], groups, config.growth_rows, generator)
    validation = generator.permutation(split[1])[: config.validation_rows]
    rows = data.take(np.concatenate([training, validation]))
    scaled = np.asarray(scaler.rows(rows.rows, n_jobs))
    space = GridSpace.of(scaler, scaled, uncombined, n_jobs, projection)
    models = CrossFittedModels(rows, len(training), loss, most, n_jobs, half)
    score = None
    if scorer is not None and scorer.is_gradual:
        score = partial(models.scored_by, scorer, validation)
    growth = _Growth(space, models, config, most, generator, n_jobs, score, has_room)
    return growth.run(is_interrupted, is_enough, report)


@dataclass(frozen=True)
class GridSpace:
    """The inputs that grids may divide, in standard deviations, one a row of ``columns``.

    ``rows`` are as the scaler returns them, with combinations of a ``projection`` behind them if
    there is one; ``inputs`` are the columns that can be divided.
    """

    rows: FloatArray
    inputs: NDArray[np.intp]
    centre: FloatArray
    unit: FloatArray
    categorical: NDArray[np.bool_]
    columns: Floats
    uncombined: NDArray[np.bool_] | None = None
    projection: FloatArray | None = None

    @classmethod
    def of(
        cls,
        scaler: Scaler,
        rows: FloatArray,
        uncombined: NDArray[np.bool_] | None = None,
        n_jobs: int | None = None,
        projection: FloatArray | None = None,
    ) -> GridSpace:
        """Return the space of a scaler's rows, and of combinations of these."""
        units, categories = scaler.unit, scaler.categorical_mask
        if projection is not None:
            rows = with_combinations(rows, projection)
            spread = rows[:, len(units) :].std(axis=0)
            units = np.append(units, np.where(spread > 0.0, spread, np.inf))
            categories = np.append(categories, np.zeros(len(spread), bool))
        usable = np.flatnonzero(np.isfinite(units))
        inputs = usable if len(usable) > 0 else np.arange(1)
        unit = np.where(np.isfinite(units), units, 1.0)[inputs]
        categorical = categories[inputs]
        centre = np.zeros(len(inputs))
        columns = np.empty((len(inputs), len(rows)), np.float32)

        def fill(k: int) -> None:
            values = rows[:, inputs[k]]
            # Halves, lest the mean of the two middle values overflows.
            centre[k] = 0.0 if categorical[k] else 2.0 * np.median(0.5 * values)
            with np.errstate(over="ignore"):
                distance = (values - centre[k]) / unit[k]
            if categorical[k]:
                distance = np.unique(distance, return_inverse=True)[1]
            columns[k] = np.clip(distance, -_FARTHEST, _FARTHEST)

        map_blocks(fill, [(k,) for k in range(len(inputs))], n_jobs)
        own = None if uncombined is None else uncombined[inputs]
        return cls(rows, inputs, centre, unit, categorical, columns, own, projection)

    def grids(self, chosen: GridProposals, generator: np.random.Generator) -> Grids:
        """Return proposals as grids over the scaler's rows."""
        own_widths, own_shifts = chosen.dense(len(self.inputs))
        with np.errstate(over="ignore"):
            own_widths = own_widths * self.unit
            moved = self.centre + own_shifts * self.unit
        # Where values of some 1e308 make either overflow, the input stays undivided.
        divided = np.isfinite(own_widths) & np.isfinite(moved)
        shape = len(chosen), self.rows.shape[1]
        widths, shifts = np.full(shape, np.inf), np.zeros(shape)
        widths[:, self.inputs] = np.where(divided, own_widths, np.inf)
        shifts[:, self.inputs] = np.where(divided, moved, 0.0)
        if self.uncombined is not None:
            # Ranks of known values are multiples of 1/512: between them, where cells end, nothing
            # that rounds a rank changes its cell.
            grid, column = np.nonzero(divided & self.uncombined)
            at = grid, self.inputs[column]
            widths[at] = np.maximum(np.round(_LEVELS * widths[at]), 1.0) / _LEVELS
            shifts[at] = (np.floor(_LEVELS * shifts[at]) + 0.5) / _LEVELS
        hashes = generator.integers(-(2**63), 2**63, (shape[0], shape[1] + 1))
        # Cells of undivided inputs are 0: equal multipliers take no room in files.
        odd = np.where(np.isfinite(widths), hashes[:, 1:] | 1, 1)
        return Grids(widths, shifts, odd << SHORT_HASH, hashes[:, 0] << SHORT_HASH)


@dataclass
class _Model:
    """A model fitted to one half of the training rows.

    ``first:last`` are its rows; ``weights`` (n_bins, K) and ``raw`` (n_rows, K) are float32,
    without their last dimension where K is 1. Where the outputs of a row have one curvature,
    weights are filled up with zeros to a multiple of 4 columns. ``derivatives`` are those at the
    raw predictions, until these change.
    """

    first: int
    last: int
    weights: Floats
    raw: Floats
    derivatives: tuple[Floats, Floats] | None = None
    _room: Floats | None = None

    def add_weights(self, n_bins: int) -> None:
        """Add weights of 0, with room for three times as many as there are."""
        before = len(self.weights)
        if self._room is None or before + n_bins > len(self._room):
            shape = max(before + n_bins, 4 * before), *self.weights.shape[1:]
            self._room = np.zeros(shape, np.float32)
            self._room[:before] = self.weights
        self.weights = self._room[: before + n_bins]

    def copy(self) -> _Model:
        """Return a model that may change while this one does not."""
        known = self.derivatives
        own = None if known is None else (known[0].copy(), known[1])
        return _Model(self.first, self.last, self.weights.copy(), self.raw.copy(), own)


class CrossFittedModels:
    """Two models over the same grids, each of one half of the training rows.

    The rows of ``data`` are training rows in random order, then the judging rows; there is room
    for ``most`` grids, and ``half`` is the number of rows of the first half.
    """

    def __init__(
        self,
        data: Data,
        n_training: int,
        loss: Loss,
        most: int,
        n_jobs: int | None,
        half: int | None = None,
    ) -> None:
        self.loss, self.targets, self.n_jobs = loss, data.targets, n_jobs
        self.n_rows, self.n_training = len(data.targets), n_training
        self.half = half_of(n_training) if half is None else half
        self.n_outputs = data.n_outputs
        counts = data.counts_of(np.arange(self.n_rows))
        self.counts = np.ones(self.n_rows) if counts is None else counts
        self.unit = loss.typical_curvature(data.targets[:n_training], self.counts[:n_training])
        self.codes = padded_rows((most, self.n_rows), np.uint16)
        self.offsets = np.zeros(most + 1, np.int64)
        self.n_grids = 0
        of_classes = loss.is_of_classes
        self.scales = _SCALES if of_classes else (1.0,)
        self.least_ridge = _LEAST_RIDGE_OF_CLASSES if of_classes else _LEAST_RIDGE
        least = _LEAST_CURVATURE_OF_CLASSES if of_classes else _LEAST_CURVATURE
        self.least_curvature = least * self.unit
        # No loss is more curved than its smoothness: then the least curvature is that of all rows.
        self.has_one_curvature_per_row = self.least_curvature >= loss.smoothness
        self.n_columns = self.n_outputs
        if self.has_one_curvature_per_row and self.targets.ndim == 2:
            self.n_columns = _filled_up(self.n_outputs)
        self.ridge, self.factor = _FIRST_RIDGE * self.unit, 0.5
        self.models = [self._begun(0, self.half), self._begun(self.half, n_training)]

    def _begun(self, first: int, last: int) -> _Model:
        # A class that is missing in a half has infinite log odds.
        with np.errstate(divide="ignore"):
            constant = self.loss.initial_constant(self.targets[first:last], self.counts[first:last])
        constant = np.where(np.isfinite(constant), constant, 4.0 * np.sign(constant))
        raw = np.empty(self.targets.shape, np.float32)
        raw[...] = constant
        shape = (0, self.n_columns) if raw.ndim == 2 else (0,)
        return _Model(first, last, np.zeros(shape, np.float32), raw)

    @property
    def halves(self) -> NDArray[np.int64]:
        """First and last row of each half."""
        return np.array([[0, self.half], [self.half, self.n_training]])

    def derivatives(self, raw: Floats) -> tuple[Floats, Floats]:
        """Return each row's negative gradient and curvature, times its weight.

        One curvature a row, (n_rows,), where all outputs have the same.
        """
        z = raw.astype(np.float64)
        counts = self.counts if z.ndim == 1 else self.counts[:, None]
        slopes = (-self.loss.gradient(z, self.targets) * counts).astype(np.float32)
        if self.has_one_curvature_per_row:
            return slopes, (self.least_curvature * self.counts).astype(np.float32)
        curvatures = self.loss.surrogate_curvature(z, self.targets)
        curvatures = np.maximum(curvatures, self.least_curvature)
        return slopes, (curvatures * counts).astype(np.float32)

    def score(self) -> float:
        """Return the mean loss of both models on the judging rows.

        Raw predictions of classes count with the scale that serves them best.
        """
        return self._score_of([model.raw for model in self.models])

    def _score_of(self, raws: list[Floats]) -> float:
        scores = map_blocks(self._best_scale, [(raw,) for raw in raws], self.n_jobs)
        return float(np.mean([loss for loss, _ in scores]))

    def _best_scale(self, raw: Floats) -> tuple[float, float]:
        """Return the least loss of the judging rows, and the scale of predictions that has it."""
        judging = slice(self.n_training, None)
        truth, weights = self.targets[judging], self.counts[judging]
        z, least = raw[judging].astype(np.float64), []
        for scale in self.scales:
            value = self.loss.comparable_value(scale * z, truth).reshape(len(z), -1).sum(axis=1)
            least.append(float(np.average(value, weights=weights)))
        best = int(np.argmin(least))
        return least[best], self.scales[best]

    def scored_by(self, scorer: RowScorer, judges: IntArray) -> float:
        """Return the mean score of both models on the judging rows, whose numbers are given."""
        found = []
        for model in self.models:
            loss, scale = self._best_scale(model.raw)
            z = model.raw[self.n_training :].astype(np.float64)
            found.append(scorer(scale * z, judges, loss))
        return float(np.mean(found))

    def scoring_values(self, generator: np.random.Generator) -> tuple[Floats, int]:
        """Return what :func:`score_grids` needs of the training rows, and the number of outputs.

        The slopes of the model that is fitted to a row, those of the model that is judged by it,
        and the mean curvatures of both.
        """
        models = [(model,) for model in self.models]
        derived = map_blocks(self._derived, models, self.n_jobs)
        n_outputs, directions = self.n_outputs, None
        if n_outputs > _MOST_SCORED:
            directions = generator.normal(size=(n_outputs, _MOST_SCORED)).astype(np.float32)
            n_outputs = _MOST_SCORED
        values = np.zeros((self.n_training, 4 if n_outputs == 1 else 8), np.float32)

        def fill(first: int, last: int, fitted: int) -> None:
            rows, at = slice(first, last), 0
            for k in (fitted, 1 - fitted):
                slopes = derived[k][0][rows].reshape(last - first, -1)
                if directions is not None:
                    # einsum: the sums of BLAS depend on the number of its threads.
                    slopes = np.einsum("nk,ks->ns", slopes, directions)
                values[rows, at : at + n_outputs] = slopes
                at += n_outputs
            for k in (fitted, 1 - fitted):
                curvatures = derived[k][1][rows]
                whole = curvatures if curvatures.ndim == 1 else curvatures.mean(axis=1)
                values[rows, at] = whole
                at += 1

        halves = enumerate(self.halves)
        blocks = [(a, b, k) for k, (a, b) in halves for a, b in _blocks_between(a, b)]
        few = self.n_training * self.n_outputs <= _FEW_NUMBERS
        map_blocks(fill, blocks, 1 if few else self.n_jobs)
        return values, n_outputs

    def add(self, codes: NDArray[np.unsignedinteger], n_bins: NDArray[np.int64]) -> None:
        """Add the bins of new grids, codes (n_new, n_rows), with weights of 0."""
        at, n_new = self.n_grids, len(codes)
        self.codes[at : at + n_new] = codes
        self.offsets[at + 1 : at + n_new + 1] = self.offsets[at] + np.cumsum(n_bins)
        self.n_grids += n_new
        for model in self.models:
            model.add_weights(int(n_bins.sum()))

    def backfit(self, grids: NDArray[np.int64]) -> None:
        """Fit the weights of some grids again, in the order given, by one pass of backfitting."""
        fits = [(model, grids, self.ridge) for model in self.models]
        map_blocks(self._pass, fits, self.n_jobs)

    def fit_all(self, order: NDArray[np.int64]) -> float:
        """Fit all weights again, with another ridge if that is better; return the score.

        Half the ridge is tried, or twice if half was no better at the last stage, and so on: one
        step at a stage.
        """
        models = [(model,) for model in self.models]
        map_blocks(self._derived, models, self.n_jobs)
        tried = map_blocks(_Model.copy, models, self.n_jobs)
        self.backfit(order)
        best, ridge = self.score(), self.ridge * self.factor
        if not self.least_ridge * self.unit <= ridge <= _MOST_RIDGE * self.unit:
            self.factor = 1.0 / self.factor
            return best
        map_blocks(self._pass, [(model, order, ridge) for model in tried], self.n_jobs)
        score = self._score_of([model.raw for model in tried])
        if score < best:
            self.models, self.ridge = tried, ridge
            return score
        self.factor = 1.0 / self.factor
        return best

    def strongest(self, n_grids: int, dropped_share: float) -> NDArray[np.bool_]:
        """Tell which of the first ``n_grids`` grids stay when the share that adds least goes.

        The worth of a grid is the covariance of what it adds to the predictions of the two models.
        They are fitted to different rows, so noise that one of them follows cancels out.
        """
        rows, offsets = slice(0, self.n_training), self.offsets[: n_grids + 1]
        bins = BinnedMatrix(self.codes[:n_grids, rows], offsets, scale=1.0, n_jobs=self.n_jobs)
        counts = bins.gram_diagonal(self.counts[rows])
        one, other = (model.weights[: len(counts)] for model in self.models)
        worth = covariances(counts, offsets, one, other, self.n_jobs)
        kept = np.arange(self.n_grids) < n_grids
        kept[np.argsort(worth, kind="stable")[: int(dropped_share * n_grids)]] = False
        return kept

    def _derived(self, model: _Model) -> tuple[Floats, Floats]:
        """Return the derivatives of a model, which remembers them."""
        if model.derivatives is None:
            model.derivatives = self.derivatives(model.raw)
        return model.derivatives

    def _pass(self, model: _Model, grids: NDArray[np.int64], ridge: float) -> None:
        slopes, curvatures = self._derived(model)
        # The pass changes predictions and slopes.
        model.derivatives = None
        most_bins = int(np.diff(self.offsets[: self.n_grids + 1]).max())
        sums = np.empty(2 * most_bins * self.n_columns, np.float32)
        where = self.codes, self.offsets, grids, model.first, model.last, np.float32(ridge)
        if slopes.ndim == 2 and curvatures.ndim == 1:
            raw, room = self._widened(model.raw), np.empty(most_bins, np.float32)
            values = self._widened(slopes), curvatures, model.weights, raw
            backfitting.backfit_alike(*where, *values, sums, room)
            model.raw[...] = raw[:, : self.n_outputs]
            return
        fit = backfitting.backfit if model.raw.ndim == 1 else backfitting.backfit_outputs
        fit(*where, slopes, curvatures, model.weights, model.raw, sums)

    def _widened(self, values: Floats) -> Floats:
        """Return a copy (n_rows, n_columns) of values of rows, filled up with zeros."""
        wide = np.zeros((len(values), self.n_columns), np.float32)
        wide[:, : self.n_outputs] = values
        return wide


def _blocks_between(first: int, last: int) -> list[tuple[int, int]]:
    """Cut a run of rows into blocks."""
    return [(first + a, first + b) for a, b in row_blocks(last - first, _PACKED_ROWS)]


def _filled_up(n_outputs: int) -> int:
    """Return the next multiple of 4."""
    return -(-n_outputs // 4) * 4


class _Growth:
    """The rounds and stages of one growth."""

    def __init__(
        self,
        space: GridSpace,
        models: CrossFittedModels,
        config: SearchConfig,
        most: int,
        generator: np.random.Generator,
        n_jobs: int | None,
        user_score: Callable[[], float] | None = None,
        has_room: Callable[[int], bool] = lambda n_columns: True,
    ) -> None:
        self.space, self.models, self.config, self.most = space, models, config, most
        self.generator, self.n_jobs, self.has_room = generator, n_jobs, has_room
        self.score = models.score if user_score is None else user_score
        self.has_user_score = user_score is not None
        n_inputs = len(space.inputs)
        self.proposer = Proposer(
            n_inputs, generator, space.categorical, uncombined=space.uncombined
        )
        drawn = generator.integers(0, 2**32, MOST_INPUTS, dtype=np.uint32)
        self.multipliers = drawn | np.uint32(1)
        self.kept: list[Grids] = []
        self.history: list[dict[str, float]] = []
        self.worth, self.stage_worth = np.zeros((2, space.rows.shape[1]))

    def run(
        self,
        is_interrupted: Callable[[], bool],
        is_enough: Callable[[float], bool],
        report: Reporter | None,
    ) -> GrownGrids:
        """Grow grids, stage by stage, until :meth:`_should_stop`."""
        begun, loss = time.perf_counter(), self.models.score()
        losses, scores = [loss], [np.inf if self.has_user_score else loss]
        for stage in [*(s for s in self.config.stages if s < self.most), self.most]:
            helped = True
            # A model needs a grid: the first round is never skipped.
            while helped and self.models.n_grids < stage and not (self.kept and is_interrupted()):
                helped = self._round(stage)
                self._report_round(report)
            losses.append(self.models.fit_all(self.generator.permutation(self.models.n_grids)))
            scores.append(self.score() if self.has_user_score else losses[-1])
            self._share_worth(losses[-2] - losses[-1])
            self._note(scores[-1], time.perf_counter() - begun, report)
            if not helped or is_interrupted() or self._should_stop(losses, scores, is_enough):
                break
        best = min(self.history, key=lambda entry: entry["score"])
        kept = self.models.strongest(int(best["n_grids"]), self.config.dropped_share)
        grids = Grids.joined(self.kept).take(kept)
        return GrownGrids(
            grids=replace(grids, projection=self.space.projection),
            alpha=best["alpha"],
            score=best["score"],
            first_loss=losses[1],
            history=self.history,
            worth=self.worth,
        )

    def _should_stop(
        self, losses: list[float], scores: list[float], is_enough: Callable[[float], bool]
    ) -> bool:
        """Return whether growth should stop after a stage.

        It stops if the last stage lowered both the loss and the score by a smaller share than
        ``least_gain`` for every 160 grids, once there are more than 160; and after the first stage
        if ``is_enough`` says so of its loss. ``losses`` and ``scores`` begin with those of no
        grids.
        """
        if len(losses) == 2 and is_enough(losses[-1]):
            return True
        n_grids = [0, *(int(entry["n_grids"]) for entry in self.history)]
        share = self.config.least_gain * (n_grids[-1] - n_grids[-2]) / _SETTLED
        gained_little = all(
            values[-1] > scaled_score(values[-2], 1.0 - share) for values in (losses, scores)
        )
        return n_grids[-1] > _SETTLED and gained_little

    def _note(self, score: float, seconds: float, report: Reporter | None) -> None:
        n_grids, n_rows = self.models.n_grids, self.models.half
        # Grids have features of value 1 here, and 1/sqrt(n_grids) in the final model.
        alpha = self.models.ridge / n_grids
        entry = {"n_grids": n_grids, "score": score, "alpha": alpha, "seconds": seconds}
        self.history.append(entry)
        if report is not None:
            message = f"{2 * n_rows:>7} rows, {n_grids} grown grids -> {score:.5f}"
            report("growth", message, **entry)

    def _report_round(self, report: Reporter | None) -> None:
        if report is not None and report.has_listeners:
            n_grids = self.models.n_grids
            score = self.score()
            message = f"{2 * self.models.half:>7} rows, {n_grids} grids so far -> {score:.5f}"
            report.detail("growth", message, n_grids=n_grids, score=score)

    def _round(self, stage: int) -> bool:
        """Add the best of many proposals; return False where none helps."""
        proposals = self.proposer.propose(self.config.proposals)
        values = self.models.scoring_values(self.generator)
        gains = self._scored(proposals, values)
        room = min(self.config.kept_a_round, stage - self.models.n_grids)
        best = np.argsort(-gains, kind="stable")[:room]
        helpful = best[gains[best] > 0.0]
        if len(helpful) == 0 and self.kept:
            return False
        # A model needs a grid, even where none predicts anything.
        chosen = helpful if len(helpful) > 0 else best[:1]
        winners = self._simplified(proposals.take(chosen), gains[chosen], values)
        self.proposer.reward(winners)
        grids = self.space.grids(winners, self.generator)
        codes, known = grids.learn(self.space.rows, self.n_jobs)
        before = self.models.n_grids
        n_columns = int(self.models.offsets[before] + known.n_bins.sum())
        if self.kept and not self.has_room(n_columns):
            return False
        self.kept.append(grids)
        self.models.add(codes, known.n_bins)
        again = self.generator.permutation(before)[: self.config.refitted_a_round]
        self.models.backfit(np.concatenate([np.arange(before, self.models.n_grids), again]))
        return len(helpful) > 0

    def _scored(self, proposals: GridProposals, values: tuple[Floats, int]) -> FloatArray:
        """Return how much each grid would lower the loss of rows that it was not fitted to.

        Bins share at most 32,768 places: those that collide are scored as one.
        """
        packed, n_outputs = values
        n_places = max(2, len(packed) // _ROWS_A_BIN)
        bits = int(np.clip(np.ceil(np.log2(n_places)), *_TABLE_BITS))
        gains = np.empty(len(proposals))
        grids = (
            proposals.inputs,
            (1.0 / proposals.widths).astype(np.float32),
            proposals.shifts.astype(np.float32),
        )
        shrinkage = np.float32(_SHRINKAGE * self.models.unit)
        columns, halves = self.space.columns, self.models.halves
        fixed = columns, packed, halves, n_outputs, proposals.sizes, grids, self.multipliers, bits

        def score(first: int, last: int) -> None:
            tile = np.empty((2, TILE), np.uint32)
            sums = np.empty((2, 1 << bits, packed.shape[1]), np.float32)
            score_grids(*fixed, shrinkage, first, last, gains, tile, sums)

        # A few are shared out among all threads.
        together = -(-len(proposals) // (_TASKS_A_THREAD * thread_count(self.n_jobs)))
        blocks = row_blocks(len(proposals), max(1, min(together, _TASK_GRIDS)))
        map_blocks(score, blocks, self.n_jobs)
        return gains

    def _simplified(
        self, winners: GridProposals, gains: FloatArray, values: tuple[Floats, int]
    ) -> GridProposals:
        """Return winners without the inputs that they are as good without.

        The input that is missed least goes first, one after the other. What the others are worth
        is remembered.
        """
        gains, changed = gains.copy(), np.arange(len(winners))
        inputs = self.space.inputs
        while len(changed) > 0:
            simpler, owner, dropped = winners.take(changed).without_each()
            left, owner = self._scored(simpler, values), changed[owner]
            order = np.argsort(left, kind="stable")
            best = np.full(len(winners), -1)
            # Of those of one owner the last one written counts, which is the best.
            best[owner[order]] = order
            changed = np.flatnonzero(best >= 0)
            changed = changed[left[best[changed]] >= _AS_GOOD * gains[changed]]
            are_kept = np.ones(len(winners), bool)
            are_kept[changed] = False
            kept = are_kept[owner]
            lost = np.maximum(gains[owner] - left, 0.0)[kept]
            np.add.at(self.stage_worth, inputs[dropped[kept]], lost)
            winners = winners.replaced(changed, simpler.take(best[changed]))
            gains[changed] = left[best[changed]]
        single = winners.sizes == 1
        np.add.at(self.stage_worth, inputs[winners.inputs[single, 0]], gains[single])
        return winners

    def _share_worth(self, fall: float) -> None:
        """Share a stage's fall of the score among the columns that its grids divided."""
        total = self.stage_worth.sum()
        if total > 0.0:
            self.worth += max(fall, 0.0) * self.stage_worth / total
        self.stage_worth[:] = 0.0


def covariances(
    counts: FloatArray,
    offsets: IntArray,
    weights: AnyArray,
    others: AnyArray,
    n_jobs: int | None = 1,
) -> FloatArray:
    """Return, for each grid, the covariance of what it adds to two predictions.

    Covariances are summed over outputs. With the same weights twice they are variances.

    Parameters
    ----------
    counts : array (n_bins,)
        Number of rows in each bin, or the sum of their weights.
    offsets : array (n_grids + 1,)
        The first bin of each grid, and the number of bins at the end.
    weights, others : arrays (n_bins,) or (n_bins, K) of float32 or float64
        What a bin adds to the first prediction, and to the second.
    n_jobs : int or None, default=1
        Threads. Results do not depend on it.

    Examples
    --------
    >>> counts, offsets = np.array([2.0, 2.0, 4.0]), np.array([0, 2, 3])
    >>> covariances(counts, offsets, np.array([1.0, -1.0, 5.0]), np.array([2.0, -2.0, 1.0]))
    array([2., 0.])
    """
    a, b = (w.reshape(len(w), -1) for w in (weights, others))
    found = np.empty(len(offsets) - 1)

    def fill(first: int, last: int) -> None:
        columns = slice(offsets[first], offsets[last])
        own_counts = counts[columns, None]
        starts = np.asarray(offsets[first:last] - offsets[first], np.intp)
        n_rows = np.add.reduceat(own_counts, starts)

        def means(values: FloatArray) -> FloatArray:
            return np.asarray(np.add.reduceat(own_counts * values, starts) / n_rows)

        x, y = np.asarray(a[columns], np.float64), np.asarray(b[columns], np.float64)
        found[first:last] = (means(x * y) - means(x) * means(y)).sum(axis=1)

    map_blocks(fill, row_blocks(len(found), _GRIDS_A_TASK), n_jobs)
    return found
