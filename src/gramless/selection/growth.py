"""Grids grown greedily on the pseudo-residuals of two cross-fitted models.

Training rows are split into two halves, with one model each over the same grids. A round proposes
grids, fits their bins to the pseudo-residuals of each half's model, and scores them by the decrease
of the same model's loss on the other half. This does not favour fine grids over coarse ones. The
best grids are kept, and their weights are fitted by backfitting, together with those of some
earlier grids. At each stage the weights of all grids are fitted again, and the ridge penalty is
adapted to the validation rows. Finally, the grids that contribute least to the covariance of both
models are dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import padded_rows
from gramless.base.progress import Reporter
from gramless.base.random import stream
from gramless.base.threads import map_blocks, row_blocks, thread_count
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.features.grids import (
    SHORT_HASH,
    Grids,
    limits_of_cells,
    numbered_keys,
    with_combinations,
)
from gramless.loops.backfitting import backfit
from gramless.loops.scoring import TILE, score_grids, simplify_grids
from gramless.losses import Loss
from gramless.matrices.binned import BinnedMatrix
from gramless.preprocessing.scaling import Scaler
from gramless.selection.config import SearchConfig
from gramless.selection.data import Data
from gramless.selection.goal import RowScorer, scaled_score
from gramless.selection.grid_proposals import MAX_INPUTS, GridProposals, Proposer
from gramless.selection.splits import Groups, Split, cut_in_two, half_of

Floats = NDArray[np.float32]

# Inputs farther from their centre, in standard deviations, are clipped while grids are scored.
_MAX_DISTANCE = 1e5
_FIRST_RIDGE, _MIN_RIDGE, _MAX_RIDGE = 80.0, 1.0, 20_000.0
# Minimum curvature, relative to the loss's typical curvature, so that steps are finite in linear
# parts of a loss.
_MIN_CURVATURE = 0.01
# The gradients of classification losses vanish as predictions grow; with smaller values the
# gradients would vanish after a few hundred grids.
_MIN_RIDGE_OF_CLASSES, _MIN_CURVATURE_OF_CLASSES = 40.0, 1.0
# Scales tried on raw predictions of classes before the loss is computed; the final fit sets the
# true scale.
_SCALES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4)
_SHRINKAGE = 20.0  # rows with value 0 that are added to each bin of a proposal
_SIMPLIFICATION_SHARE = 0.999  # an input is dropped if the grid keeps this share of its gain
_MAX_SCORED_OUTPUTS = 3  # more outputs are projected on random directions
_TASK_GRIDS, _TASKS_PER_THREAD, _TABLE_BITS, _ROWS_PER_BIN = 8, 2, (9, 15), 8
# Rows per block of packed derivatives, and rows times outputs whose derivatives or losses are not
# worth a second thread.
_PACKED_ROWS, _SMALL_PASS = 8192, 1 << 16
_RANK_LEVELS = 512
_MIN_GRIDS = 160  # growth goes on up to this many grids, even if stages gain little
_COVARIANCE_TASK_GRIDS = 8


@dataclass(frozen=True, kw_only=True)
class GrownGrids:
    """Grids that were grown over scaled rows, and the history of their growth.

    Attributes
    ----------
    alpha : float
        The L2 penalty of the cross-fitted models times their number of rows.
    score : float
        The score of validation rows, by a scorer or the mean loss.
    first_loss : float
        The mean loss of validation rows after the first stage.
    worth : array (n_columns + n_directions,)
        The decrease of the loss that is due to each column of the scaled rows, and to each of their
        combinations if growth had a projection.
    """

    grids: Grids
    alpha: float
    score: float
    first_loss: float
    history: list[dict[str, float]] = field(repr=False)
    worth: FloatArray = field(repr=False)

    def projected(self, projection: FloatArray) -> GrownGrids:
        """Return the grids over rows with the combinations by ``projection`` appended."""
        if self.grids.projection is not None:
            return self
        return replace(self, grids=self.grids.projected(projection))

    def relevance(self, n_features: int) -> FloatArray:
        """Return each input's worth, summed over its scaled column and its ranks.

        The root mean square of the result is 1.
        """
        # Combinations by a projection follow these columns, and belong to no single input.
        worth = self.worth[: 2 * n_features].reshape(2, n_features).sum(axis=0)
        size = np.sqrt(np.mean(worth**2))
        return worth / size if size > 0 else np.ones(n_features)


def grow(
    data: Data,
    split: Split,
    scaler: Scaler,
    loss: Loss,
    config: SearchConfig,
    *,
    max_grids: int | None = None,
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
        Dense rows, of which at least two are training rows.
    scaler : Scaler
        A fitted scaler of kind "both".
    max_grids : int, optional
        The largest number of grids, by default ``config.most_grids``.
    groups : array, optional
        The group of each row; all rows of a group are in the same half.
    is_interrupted : callable
        Whether growth must stop. It is called after each round.
    has_room : callable
        Whether a number of bins fits into memory. It is called before grids are added.
    is_enough : callable
        Whether growth should stop after the first stage, given its loss.
    scorer : RowScorer, optional
        If it is gradual, it selects the best stage, and growth stops only if this score improves
        little too.
    uncombined : array (n_columns,), optional
        Mask of the columns that must be a grid's only input.
    projection : array (n_columns, n_directions), optional
        Linear combinations of the scaled columns that grids can divide too.

    Notes
    -----
    Scoring takes 1.5 ns per row, proposal and core for four inputs. Memory is 2 bytes per row and
    grid, and 4 bytes per row and column of the scaled rows.
    """
    max_grids = config.most_grids if max_grids is None else max_grids
    generator = stream(seed, "growth")
    training, half = cut_in_two(split[0], groups, config.growth_rows, generator)
    validation = generator.permutation(split[1])[: config.validation_rows]
    rows = data.take(np.concatenate([training, validation]))
    scaled = np.asarray(scaler.rows(rows.rows, n_jobs))
    space = GridSpace.of(scaler, scaled, uncombined, n_jobs, projection)
    models = CrossFittedModels(rows, len(training), loss, max_grids, n_jobs, half)
    score = None
    if scorer is not None and scorer.is_gradual:
        score = partial(models.score_with, scorer, validation)
    growth = _Growth(space, models, config, max_grids, generator, n_jobs, score, has_room)
    return growth.run(is_interrupted, is_enough, report)


@dataclass(frozen=True)
class GridSpace:
    """The inputs that grids can divide, as multiples of their standard deviations.

    Attributes
    ----------
    rows : array (n_rows, n_columns)
        The scaled rows, followed by their combinations by ``projection`` if there are any.
    inputs : array (n_inputs,)
        The columns of ``rows`` that grids can divide.
    columns : array (n_inputs, n_rows)
        These columns, centred, in units of ``unit``.
    n_categories : array (n_inputs,)
        Number of categories of each input; 0 for numbers, 1 if their codes are too large to group.
    """

    rows: FloatArray
    inputs: NDArray[np.intp]
    centre: FloatArray
    unit: FloatArray
    columns: Floats
    n_categories: NDArray[np.intp]
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
        units, categories = scaler.unit, scaler.categorical_mask
        if projection is not None:
            rows = with_combinations(rows, projection)
            spread = rows[:, len(units) :].std(axis=0)
            units = np.append(units, np.where(spread > 0.0, spread, np.inf))
            categories = np.append(categories, np.zeros(len(spread), bool))
        varying = np.flatnonzero(np.isfinite(units))
        inputs = varying if len(varying) > 0 else np.arange(1)
        unit = np.where(np.isfinite(units), units, 1.0)[inputs]
        categorical = categories[inputs]
        centre = np.zeros(len(inputs))
        columns = np.empty((len(inputs), len(rows)), np.float32)
        n_categories = categorical.astype(np.intp)

        def fill(k: int) -> None:
            values = rows[:, inputs[k]]
            # The mean of the two middle values could overflow without the factor.
            centre[k] = 0.0 if categorical[k] else 2.0 * np.median(0.5 * values)
            with np.errstate(over="ignore"):
                distance = (values - centre[k]) / unit[k]
            if categorical[k]:
                codes, ranks = np.unique(distance, return_inverse=True)
                if np.abs(codes).max() < _MAX_DISTANCE:
                    n_categories[k] = len(codes)
                else:
                    distance = ranks
            columns[k] = np.clip(distance, -_MAX_DISTANCE, _MAX_DISTANCE)

        map_blocks(fill, [(k,) for k in range(len(inputs))], n_jobs)
        uncombined = None if uncombined is None else uncombined[inputs]
        return cls(rows, inputs, centre, unit, columns, n_categories, uncombined, projection)

    def grids(self, chosen: GridProposals, generator: np.random.Generator) -> Grids:
        input_widths, input_shifts = chosen.dense(len(self.inputs))
        with np.errstate(over="ignore"):
            input_widths = input_widths * self.unit
            input_shifts = self.centre + input_shifts * self.unit
        # If values near 1e308 make either overflow, the input is not divided.
        is_divided = np.isfinite(input_widths) & np.isfinite(input_shifts)
        shape = len(chosen), self.rows.shape[1]
        widths, shifts = np.full(shape, np.inf), np.zeros(shape)
        widths[:, self.inputs] = np.where(is_divided, input_widths, np.inf)
        shifts[:, self.inputs] = np.where(is_divided, input_shifts, 0.0)
        if self.uncombined is not None:
            # Ranks of training values are multiples of 1/512. Edges of cells lie between them, so
            # that rounding a rank does not change its cell.
            grid, column = np.nonzero(is_divided & self.uncombined)
            at = grid, self.inputs[column]
            widths[at] = np.maximum(np.round(_RANK_LEVELS * widths[at]), 1.0) / _RANK_LEVELS
            shifts[at] = (np.floor(_RANK_LEVELS * shifts[at]) + 0.5) / _RANK_LEVELS
        hashes = generator.integers(-(2**63), 2**63, (shape[0], shape[1] + 1))
        # Cells of undivided inputs are 0 anyway; equal multipliers compress well in files.
        odd = np.where(np.isfinite(widths), hashes[:, 1:] | 1, 1)
        return Grids(widths, shifts, odd << SHORT_HASH, hashes[:, 0] << SHORT_HASH)


class CrossFittedModels:
    """Two models over the same grids, each fitted to one half of the training rows.

    The rows of ``data`` are training rows in random order, then validation rows. Codes are
    allocated for ``max_grids`` grids. ``half`` is the number of rows of the first half.

    Attributes
    ----------
    weights : array (n_bins, 2, n_outputs) of float32
        Weights of the bins in both models.
    raw : array (2, n_rows) or (2, n_rows, n_outputs) of float32
        Raw predictions of both models.
    """

    def __init__(
        self,
        data: Data,
        n_training: int,
        loss: Loss,
        max_grids: int,
        n_jobs: int | None,
        half: int | None = None,
    ) -> None:
        self.loss, self.targets, self.n_jobs = loss, data.targets, n_jobs
        self.n_rows, self.n_training = len(data.targets), n_training
        self.half = half_of(n_training) if half is None else half
        self.n_outputs = data.n_outputs
        is_small = n_training * data.n_outputs <= _SMALL_PASS
        self._n_jobs_per_pass = 1 if is_small else n_jobs
        counts = data.counts_of(np.arange(self.n_rows))
        self.counts = np.ones(self.n_rows) if counts is None else counts
        training = slice(0, n_training)
        self.typical_curvature = loss.typical_curvature(
            data.targets[training], self.counts[training]
        )
        self.codes = padded_rows((max_grids, self.n_rows), np.uint16)
        self.offsets = np.zeros(max_grids + 1, np.int64)
        self.n_grids = 0
        of_classes = loss.is_of_classes
        self.scales = _SCALES if of_classes else (1.0,)
        self.min_ridge = _MIN_RIDGE_OF_CLASSES if of_classes else _MIN_RIDGE
        min_curvature = _MIN_CURVATURE_OF_CLASSES if of_classes else _MIN_CURVATURE
        self.min_curvature = min_curvature * self.typical_curvature
        # Curvatures do not exceed the smoothness, so all of them are then equal to the minimum.
        self.has_one_curvature_per_row = self.min_curvature >= loss.smoothness
        self.ridge, self.factor = _FIRST_RIDGE * self.typical_curvature, 0.5
        self.weights = self._room = np.zeros((0, 2, self.n_outputs), np.float32)
        self.raw = np.empty((2, *self.targets.shape), np.float32)
        for raw, (first, last) in zip(self.raw, self.halves, strict=True):
            # A class that is missing in a half has infinite log odds.
            with np.errstate(divide="ignore"):
                constant = loss.initial_constant(self.targets[first:last], self.counts[first:last])
            raw[...] = np.where(np.isfinite(constant), constant, 4.0 * np.sign(constant))
        self._derivatives: list[tuple[Floats, Floats]] | None = None

    @property
    def halves(self) -> NDArray[np.int64]:
        return np.array([[0, self.half], [self.half, self.n_training]])

    def derivatives(self, raw: Floats) -> tuple[Floats, Floats]:
        """Return each row's negative gradient and curvature, multiplied by its weight.

        Curvatures have the shape (n_rows,) if they are equal for all outputs.
        """
        z = raw.astype(np.float64)
        counts = self.counts if z.ndim == 1 else self.counts[:, None]
        slopes = (-self.loss.gradient(z, self.targets) * counts).astype(np.float32)
        if self.has_one_curvature_per_row:
            return slopes, (self.min_curvature * self.counts).astype(np.float32)
        curvatures = self.loss.surrogate_curvature(z, self.targets)
        curvatures = np.maximum(curvatures, self.min_curvature)
        return slopes, (curvatures * counts).astype(np.float32)

    def score(self) -> float:
        """Return the mean loss of both models on validation rows.

        Raw predictions of classes are multiplied by the best scale.
        """
        return self._score_of(self.raw)

    def _score_of(self, raws: Floats) -> float:
        scores = map_blocks(self._best_scale, [(raw,) for raw in raws], self._n_jobs_per_pass)
        return float(np.mean([loss for loss, _ in scores]))

    def _best_scale(self, raw: Floats) -> tuple[float, float]:
        """Return the lowest loss of validation rows, and the scale that reaches it."""
        rows = slice(self.n_training, None)
        truth, weights = self.targets[rows], self.counts[rows]
        z, losses = raw[rows].astype(np.float64), []
        for scale in self.scales:
            value = self.loss.comparable_value(scale * z, truth).reshape(len(z), -1).sum(axis=1)
            losses.append(float(np.average(value, weights=weights)))
        best = int(np.argmin(losses))
        return losses[best], self.scales[best]

    def score_with(self, scorer: RowScorer, validation: IntArray) -> float:
        scores = []
        for raw in self.raw:
            loss, scale = self._best_scale(raw)
            z = raw[self.n_training :].astype(np.float64)
            scores.append(scorer(scale * z, validation, loss))
        return float(np.mean(scores))

    def scoring_values(self, generator: np.random.Generator) -> tuple[Floats, int]:
        """Return the packed derivatives of training rows, and the number of scored outputs.

        For :func:`score_grids`, a row has the slopes of the model that is fitted to it, the slopes
        of the model that is scored on it, and the mean curvatures of both.
        """
        derivatives = self._both_derivatives()
        n_outputs, directions = self.n_outputs, None
        if n_outputs > _MAX_SCORED_OUTPUTS:
            directions = generator.normal(size=(n_outputs, _MAX_SCORED_OUTPUTS)).astype(np.float32)
            n_outputs = _MAX_SCORED_OUTPUTS
        values = np.zeros((self.n_training, 4 if n_outputs == 1 else 8), np.float32)

        def fill(first: int, last: int, fitted: int) -> None:
            rows, at = slice(first, last), 0
            for k in (fitted, 1 - fitted):
                slopes = derivatives[k][0][rows].reshape(last - first, -1)
                if directions is not None:
                    # Unlike einsum, BLAS rounds sums differently for each number of threads.
                    slopes = np.einsum("nk,ks->ns", slopes, directions)
                values[rows, at : at + n_outputs] = slopes
                at += n_outputs
            for k in (fitted, 1 - fitted):
                curvatures = derivatives[k][1][rows]
                values[rows, at] = curvatures if curvatures.ndim == 1 else curvatures.mean(axis=1)
                at += 1

        blocks = [
            (start + a, start + b, k)
            for k, (start, end) in enumerate(self.halves)
            for a, b in row_blocks(end - start, _PACKED_ROWS)
        ]
        map_blocks(fill, blocks, self._n_jobs_per_pass)
        return values, n_outputs

    def add(self, codes: NDArray[np.unsignedinteger], n_bins: NDArray[np.int64]) -> None:
        """Add the bins of new grids with weights of 0; codes are (n_new, n_rows)."""
        before, n_new = self.n_grids, len(codes)
        self.codes[before : before + n_new] = codes
        self.offsets[before + 1 : before + n_new + 1] = self.offsets[before] + np.cumsum(n_bins)
        self.n_grids += n_new
        before, after = len(self.weights), len(self.weights) + int(n_bins.sum())
        if after > len(self._room):
            # Growing by a factor keeps the cost of all copies linear.
            self._room = np.zeros((max(after, 4 * before), 2, self.n_outputs), np.float32)
            self._room[:before] = self.weights
        self.weights = self._room[:after]

    def backfit(self, grids: NDArray[np.int64]) -> None:
        """Fit the weights of grids again by one pass of backfitting, in the given order."""
        (self.raw,) = self._backfit(grids, self.weights, [self.ridge])
        self._derivatives = None

    def fit_all(self, order: NDArray[np.int64]) -> float:
        """Fit all weights again with two values of the ridge, and return the better score.

        The first value is the current one. The second is half of it, or twice once halving has not
        helped. The better value and its weights are kept.
        """
        ridges, other = [self.ridge], self.ridge * self.factor
        lowest, highest = (r * self.typical_curvature for r in (self.min_ridge, _MAX_RIDGE))
        if lowest <= other <= highest:
            ridges.append(other)
        weights = np.tile(self.weights, len(ridges))
        raws = self._backfit(order, weights, ridges)
        scores = [self._score_of(raw) for raw in raws]
        best = int(scores[-1] < scores[0])
        if best == 0:
            self.factor = 1.0 / self.factor
        self.ridge, self.raw, self._derivatives = ridges[best], raws[best], None
        self.weights[...] = weights[:, :, best * self.n_outputs :][:, :, : self.n_outputs]
        return scores[best]

    def strongest(self, n_grids: int, dropped_share: float) -> NDArray[np.bool_]:
        """Return the mask of the grids that are kept.

        All grids after the first ``n_grids`` are dropped, and so is the share ``dropped_share`` of
        these that is worth least. The worth of a grid is the covariance of its contributions to
        both models. The models are fitted to different rows, so their noise cancels out on average.
        """
        rows, offsets = slice(0, self.n_training), self.offsets[: n_grids + 1]
        bins = BinnedMatrix(self.codes[:n_grids, rows], offsets, scale=1.0, n_jobs=self.n_jobs)
        counts = bins.gram_diagonal(self.counts[rows])
        weights = self.weights[: len(counts)]
        worth = covariances(counts, offsets, weights[:, 0], weights[:, 1], self.n_jobs)
        kept = np.arange(self.n_grids) < n_grids
        kept[np.argsort(worth, kind="stable")[: int(dropped_share * n_grids)]] = False
        return kept

    def _both_derivatives(self) -> list[tuple[Floats, Floats]]:
        if self._derivatives is None:
            raws = [(raw,) for raw in self.raw]
            self._derivatives = map_blocks(self.derivatives, raws, self._n_jobs_per_pass)
        return self._derivatives

    def _backfit(
        self, grids: NDArray[np.int64], weights: Floats, ridges: list[float]
    ) -> list[Floats]:
        """Update weights by one pass over grids, and return the new raw predictions for each ridge.

        ``weights`` are (n_bins, 2, n_ridges * n_outputs).
        """
        columns = [(r, k) for r in range(len(ridges)) for k in range(self.n_outputs)]
        max_bins = int(np.diff(self.offsets[: self.n_grids + 1])[grids].max())
        raws, derivatives = [self.raw.copy() for _ in ridges], self._both_derivatives()

        def fit(column: int) -> None:
            penalties = np.ones(2, np.float32)
            packed = np.zeros((self.n_training, 4), np.float32)
            for at, (r, k) in enumerate(columns[column : column + 2]):
                penalties[at] = ridges[r]
                for (first, last), fitted in zip(self.halves, derivatives, strict=True):
                    slopes, curvatures = (v[first:last].reshape(last - first, -1) for v in fitted)
                    packed[first:last, at] = slopes[:, k]
                    packed[first:last, 2 + at] = curvatures[:, min(k, curvatures.shape[1] - 1)]
            changes = np.zeros((self.n_rows, 4), np.float32)
            scratch = np.empty(4 * max_bins, np.float32), np.empty(8 * max_bins, np.float32)
            common = self.codes, self.offsets, grids, self.half, penalties, packed
            backfit(*common, weights, column, changes, *scratch)
            for at, (r, k) in enumerate(columns[column : column + 2]):
                raw = raws[r].reshape(2, self.n_rows, -1)
                raw[:, :, k] += changes[:, at::2].T

        map_blocks(fit, [(c,) for c in range(0, len(columns), 2)], self.n_jobs)
        return raws


class _Growth:
    def __init__(
        self,
        space: GridSpace,
        models: CrossFittedModels,
        config: SearchConfig,
        max_grids: int,
        generator: np.random.Generator,
        n_jobs: int | None,
        user_score: Callable[[], float] | None = None,
        has_room: Callable[[int], bool] = lambda n_columns: True,
    ) -> None:
        self.space, self.models, self.config = space, models, config
        self.max_grids = max_grids
        self.generator, self.n_jobs, self.has_room = generator, n_jobs, has_room
        self.score = models.score if user_score is None else user_score
        self.has_user_score = user_score is not None
        n_inputs = len(space.inputs)
        self.proposer = Proposer(
            n_inputs, generator, space.n_categories, uncombined=space.uncombined
        )
        drawn = generator.integers(0, 2**32, MAX_INPUTS, dtype=np.uint32)
        self.multipliers = drawn | np.uint32(1)
        self.ends = np.stack([space.columns.min(axis=1), space.columns.max(axis=1)], axis=1)
        # More bins are hashed into at most 32,768 slots; bins in one slot are scored as one bin.
        n_slots = max(2, models.n_training // _ROWS_PER_BIN)
        self.bits = int(np.clip(np.ceil(np.log2(n_slots)), *_TABLE_BITS))
        self.shrinkage = np.float32(_SHRINKAGE * models.typical_curvature)
        self.kept: list[Grids] = []
        self.history: list[dict[str, float]] = []
        self.worth, self.stage_worth = np.zeros((2, space.rows.shape[1]))

    def run(
        self,
        is_interrupted: Callable[[], bool],
        is_enough: Callable[[float], bool],
        report: Reporter | None,
    ) -> GrownGrids:
        start, loss = time.perf_counter(), self.models.score()
        losses, scores = [loss], [np.inf if self.has_user_score else loss]
        n_rows = 2 * self.models.half
        for stage in [*(s for s in self.config.stages if s < self.max_grids), self.max_grids]:
            has_improved = True
            # A model needs at least one grid, so the first round is never skipped.
            while (
                has_improved
                and self.models.n_grids < stage
                and not (self.kept and is_interrupted())
            ):
                has_improved = self._add_best_proposals(stage)
                n_grids = self.models.n_grids
                if report is not None and report.has_listeners:
                    score = self.score()
                    message = f"{n_rows:>7} rows, {n_grids} grids so far -> {score:.5f}"
                    report.detail("growth", message, n_grids=n_grids, score=score)
            losses.append(self.models.fit_all(self.generator.permutation(self.models.n_grids)))
            scores.append(self.score() if self.has_user_score else losses[-1])
            total = self.stage_worth.sum()
            if total > 0.0:
                # The stage's decrease of the loss is due to the columns that its grids divide.
                self.worth += max(losses[-2] - losses[-1], 0.0) * self.stage_worth / total
            self.stage_worth[:] = 0.0
            n_grids = self.models.n_grids
            entry = {
                "n_grids": n_grids,
                "score": scores[-1],
                # Grids have features of value 1 here, and 1/sqrt(n_grids) in the final model.
                "alpha": self.models.ridge / n_grids,
                "seconds": time.perf_counter() - start,
            }
            self.history.append(entry)
            if report is not None:
                message = f"{n_rows:>7} rows, {n_grids} grown grids -> {scores[-1]:.5f}"
                report("growth", message, **entry)
            if not has_improved or is_interrupted() or self._should_stop(losses, scores, is_enough):
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

        Growth stops if there are more than 160 grids, and the last stage lowered both the loss and
        the score by less than the share ``least_gain`` per 160 grids. It stops after the first
        stage if its loss ``is_enough``. ``losses`` and ``scores`` begin with those without grids.
        """
        if len(losses) == 2 and is_enough(losses[-1]):
            return True
        n_grids = [0, *(int(entry["n_grids"]) for entry in self.history)]
        share = self.config.least_gain * (n_grids[-1] - n_grids[-2]) / _MIN_GRIDS
        gains_little = all(
            values[-1] > scaled_score(values[-2], 1.0 - share) for values in (losses, scores)
        )
        return n_grids[-1] > _MIN_GRIDS and gains_little

    def _add_best_proposals(self, stage: int) -> bool:
        proposals = self.proposer.propose(self.config.proposals)
        values = self.models.scoring_values(self.generator)
        gains = self._score_proposals(proposals, values)
        n_kept = min(self.config.kept_a_round, stage - self.models.n_grids)
        best = np.argsort(-gains, kind="stable")[:n_kept]
        helpful = best[gains[best] > 0.0]
        if len(helpful) == 0 and self.kept:
            return False
        # A model needs at least one grid, even if no grid helps.
        chosen = helpful if len(helpful) > 0 else best[:1]
        winners = proposals.take(chosen)
        grids = self.space.grids(winners, self.generator)
        codes, known = grids.learn(self.space.rows, self.n_jobs)
        n_bins = known.n_bins
        winners, grids = self._simplify(winners, grids, codes, n_bins, gains[chosen], values)
        self.proposer.reward(winners)
        before = self.models.n_grids
        n_columns = int(self.models.offsets[before] + n_bins.sum())
        if self.kept and not self.has_room(n_columns):
            return False
        self.kept.append(grids)
        self.models.add(codes, n_bins)
        earlier = self.generator.permutation(before)[: self.config.refitted_a_round]
        self.models.backfit(np.concatenate([np.arange(before, self.models.n_grids), earlier]))
        return len(helpful) > 0

    def _score_proposals(self, proposals: GridProposals, values: tuple[Floats, int]) -> FloatArray:
        """Return the decrease of the loss by each grid on rows that it was not fitted to."""
        packed, n_outputs = values
        bits = self.bits
        gains = np.empty(len(proposals))
        grids = (
            proposals.inputs,
            (1.0 / proposals.widths).astype(np.float32),
            proposals.shifts.astype(np.float32),
        )
        columns, halves = self.space.columns, self.models.halves
        common = columns, self.ends, packed, halves, n_outputs, proposals.sizes, grids
        settings = self.multipliers, bits, self.shrinkage

        def score(first: int, last: int) -> None:
            slots, strides = np.empty((2, TILE), np.uint32), np.empty(MAX_INPUTS, np.uint32)
            sums = np.empty((2, 1 << bits, packed.shape[1]), np.float32)
            score_grids(*common, *settings, first, last, gains, slots, strides, sums)

        # Tasks are smaller if there are too few proposals for all threads.
        task_grids = -(-len(proposals) // (_TASKS_PER_THREAD * thread_count(self.n_jobs)))
        blocks = row_blocks(len(proposals), max(1, min(task_grids, _TASK_GRIDS)))
        map_blocks(score, blocks, self.n_jobs)
        return gains

    def _simplify(
        self,
        winners: GridProposals,
        grids: Grids,
        codes: NDArray[np.unsignedinteger],
        n_bins: NDArray[np.int64],
        gains: FloatArray,
        values: tuple[Floats, int],
    ) -> tuple[GridProposals, Grids]:
        """Return winners and their grids without the inputs that do not contribute to their gain.

        ``codes`` and ``n_bins`` are those of the grids, and become those of the simpler grids. What
        the gain loses without each of the other inputs is added to ``stage_worth``.
        """
        packed, n_outputs = values
        is_kept = np.arange(MAX_INPUTS) < winners.sizes[:, None]
        columns, lost = self.space.inputs[winners.inputs], np.zeros(is_kept.shape)
        at = np.arange(len(winners))[:, None], columns
        divisions = 1.0 / grids.widths[at], grids.shifts[at], grids.multipliers[at]
        parameters = columns, *divisions[:2], limits_of_cells(*divisions), divisions[2]
        max_bins, bits = int(n_bins.max()), self.bits
        keys = np.empty((len(winners), max_bins), np.int64)
        common = self.space.rows, codes, n_bins, winners.sizes, parameters, self.multipliers
        halves, results = self.models.halves, (gains, is_kept, lost, keys)
        settings = packed, halves, n_outputs, bits, self.shrinkage, _SIMPLIFICATION_SHARE

        def simplify(first: int, last: int) -> None:
            sums = np.empty((2, max_bins, packed.shape[1]), np.float32)
            cells = np.empty((MAX_INPUTS, max_bins), np.int64)
            bins = np.empty(max_bins, np.int64), cells, np.empty(max_bins, np.uint32)
            scratch = *bins, sums, np.empty_like(sums), np.empty(1 << bits, np.int32)
            simplify_grids(*common, *settings, first, last, *results, *scratch)

        task_grids = -(-len(winners) // (_TASKS_PER_THREAD * thread_count(self.n_jobs)))
        map_blocks(simplify, row_blocks(len(winners), task_grids), self.n_jobs)
        np.add.at(self.stage_worth, columns[is_kept], lost[is_kept])
        widths, shifts = grids.widths.copy(), grids.shifts.copy()
        multipliers = grids.multipliers.copy()
        for g in np.flatnonzero(is_kept.sum(axis=1) < winners.sizes):
            dropped = columns[g, : winners.sizes[g]][~is_kept[g, : winners.sizes[g]]]
            widths[g, dropped], shifts[g, dropped] = np.inf, 0.0
            multipliers[g, dropped] = 1 << SHORT_HASH
            numbers, distinct = numbered_keys(keys[g, : n_bins[g]])
            codes[g] = np.take(numbers, codes[g] - 1)
            n_bins[g] = len(distinct)
        simpler = replace(grids, widths=widths, shifts=shifts, multipliers=multipliers)
        return winners.with_inputs(is_kept), simpler


def covariances(
    counts: FloatArray,
    offsets: IntArray,
    weights: AnyArray,
    others: AnyArray,
    n_jobs: int | None = 1,
) -> FloatArray:
    """Return the covariance of each grid's contributions to two predictions.

    Covariances are summed over outputs. Twice the same weights give variances.

    Parameters
    ----------
    counts : array (n_bins,)
        The number of rows in each bin, or the sum of their weights.
    offsets : array (n_grids + 1,)
        The first bin of each grid, and the number of bins at the end.
    weights, others : arrays (n_bins,) or (n_bins, K) of float32 or float64
        The contribution of each bin to the first prediction, and to the second.
    n_jobs : int or None, default=1
        The number of threads, on which results do not depend.

    Examples
    --------
    >>> counts, offsets = np.array([2.0, 2.0, 4.0]), np.array([0, 2, 3])
    >>> covariances(counts, offsets, np.array([1.0, -1.0, 5.0]), np.array([2.0, -2.0, 1.0]))
    array([2., 0.])
    """
    a, b = (w.reshape(len(w), -1) for w in (weights, others))
    result = np.empty(len(offsets) - 1)

    def fill(first: int, last: int) -> None:
        columns = slice(offsets[first], offsets[last])
        bin_counts = counts[columns, None]
        starts = np.asarray(offsets[first:last] - offsets[first], np.intp)
        n_rows = np.add.reduceat(bin_counts, starts)

        def means(values: FloatArray) -> FloatArray:
            return np.asarray(np.add.reduceat(bin_counts * values, starts) / n_rows)

        x, y = np.asarray(a[columns], np.float64), np.asarray(b[columns], np.float64)
        result[first:last] = (means(x * y) - means(x) * means(y)).sum(axis=1)

    map_blocks(fill, row_blocks(len(result), _COVARIANCE_TASK_GRIDS), n_jobs)
    return result
