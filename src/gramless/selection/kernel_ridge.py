"""Fits of kernel ridge regression with a Gaussian kernel, and the choice of their settings.

Scaling, bandwidth and penalty are chosen on samples of the rows; then every row is a landmark. A
fit is one Cholesky factorisation of the kernel matrix.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np
from scipy.linalg import lapack

from gramless.base.arrays import inner
from gramless.base.cached import cached_property
from gramless.base.random import stream
from gramless.base.threads import map_blocks, one_blas_thread
from gramless.base.types import FloatArray, IntArray
from gramless.features.expansion import KernelExpansion
from gramless.features.landmarks import InputKernel, RadialValues, dense_rows, kernel_matrix
from gramless.kernels import Gaussian
from gramless.losses import Loss
from gramless.matrices.base import Vector
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.scaling import Scaler, ScalingKind
from gramless.selection.data import Data
from gramless.selection.goal import Goal, mean_loss
from gramless.selection.splits import Split
from gramless.selection.task import Hyperparameters, SelectionTask, Trial
from gramless.selection.validation import ValidationResult, record
from gramless.solvers.objective import columns
from gramless.uncertainty.calibration import Calibration

MOST_TRAINING, _MOST_VALIDATION = 400, 300  # rows of the samples
_SCALINGS: tuple[ScalingKind, ...] = ("none", "standard", "both")
# Bandwidths, in median distances between rows: the first, the factor to the next, and how many on
# either side.
_FIRST_LENGTH, _STEP, _MOST_STEPS = 0.7, 2.0**0.5, 6
_FIRST_RIDGE, _LEAST_RIDGE, _MOST_RIDGE = 0.1, 1e-5, 1e3
_TIE = 0.998  # another penalty must lower the score at least to this share
_CALIBRATION_TOL = 1e-6  # of the log loss: enough to compare fits
_GRAM_ROWS = 128  # rows of a kernel matrix that are computed at a time


@dataclass(frozen=True, eq=False)
class GaussianRidge:
    """A Gaussian kernel over scaled inputs, and the penalty of its ridge regression.

    The bandwidth is ``length`` median distances between two rows, inputs scaled; ``ridge`` is the
    penalty of the mean loss, times the number of rows; ``score`` the mean squared error of the
    rows that chose.
    """

    scaler: Scaler
    length: float
    median: float
    ridge: float
    score: float

    @property
    def bandwidth(self) -> float:
        """In units of the scaled inputs."""
        return self.length * self.median

    @property
    def source(self) -> InputKernel:
        """The kernel over the rows that the scaler returns."""
        return _source(self.scaler, self.bandwidth)

    def settings(self, n_rows: int) -> Hyperparameters:
        """Return what was chosen for so many rows."""
        return Hyperparameters(self.scaler.kind, self.length, self.ridge / n_rows)

    def fitted(
        self, data: Data, rows: IntArray | slice, n_jobs: int | None
    ) -> tuple[KernelExpansion, Vector]:
        """Return the kernel expansion of some rows, and its weights, that of an intercept last.

        Takes ``n**2 n_inputs + n**3 / 3`` operations and ``8 n**2`` bytes for n rows.
        """
        own, source = _scaled(data, rows, self.scaler, n_jobs), self.source
        with one_blas_thread():
            found = _solved(_gram(source, own.rows, n_jobs), own, self.ridge)
        return KernelExpansion.of(source, own.rows, n_jobs), found


def solve_ridge(
    gram: FloatArray, targets: Vector, ridge: float, weights: FloatArray | None, intercept: bool
) -> Vector:
    """Minimise ``sum_i s_i (f_i - y_i)^2 + ridge a' K a`` over ``f = K a + b``; return a, then b.

    The kernel matrix K is overwritten; s are the weights divided by their mean. The constant b is
    not penalised, and left out without an intercept.

    Examples
    --------
    >>> solve_ridge(np.eye(2), np.array([1.0, 3.0]), 1.0, None, True)
    array([-0.5,  0.5,  2. ])
    """
    factor = _factor(gram, ridge, weights)
    found = _solution(factor, columns(targets), intercept)[0]
    return np.ascontiguousarray(found).reshape(-1, *targets.shape[1:])


def leave_one_out(
    gram: FloatArray, targets: Vector, ridge: float, weights: FloatArray | None, intercept: bool
) -> Vector:
    """Return what fits to all rows but one predict for that one, for each row.

    In closed form: the error is ``a_i`` over the diagonal entry of the inverse of the system
    (Rasmussen & Williams 2006, equation 5.12). Parameters are those of :func:`solve_ridge`; takes
    ``n**3`` operations.
    """
    factor = _factor(gram, ridge, weights)
    found, ones = _solution(factor, columns(targets), intercept)
    inverse, _ = lapack.dpotri(factor, lower=0)
    diagonal = inverse.diagonal().copy()
    if intercept:
        diagonal -= ones**2 / ones.sum()
    return targets - (found[: len(gram)] / diagonal[:, None]).reshape(targets.shape)


def _factor(gram: FloatArray, ridge: float, weights: FloatArray | None) -> FloatArray:
    """Return the Cholesky factor of ``K + ridge S^-1``, above the diagonal; K is overwritten."""
    relative = np.ones(len(gram)) if weights is None else weights / weights.mean()
    gram[np.diag_indices_from(gram)] += ridge / relative
    factor, failed = lapack.dpotrf(gram.T, lower=0, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError(f"pivot {failed} of a kernel matrix is not above 0.")
    return np.asarray(factor)


def _solution(
    factor: FloatArray, targets: FloatArray, intercept: bool
) -> tuple[FloatArray, FloatArray]:
    """Return weights and intercept below them, and the solution for targets of one."""
    both = np.column_stack([targets, np.ones(len(targets))])
    solved, _ = lapack.dpotrs(factor, both, lower=0)
    found, ones = solved[:, :-1], solved[:, -1]
    if not intercept:
        return found, ones
    # The optimal errors, and with them the weights, sum to zero.
    constant = found.sum(axis=0) / ones.sum()
    return np.vstack([found - ones[:, None] * constant, constant]), ones


def sampled_splits(splits: Sequence[Split], seed: int) -> list[Split]:
    """Return at most 400 training rows and 300 rows held back of each split, at random."""
    generator = stream(seed, "kernel ridge")
    return [
        (
            generator.permutation(training)[:MOST_TRAINING],
            generator.permutation(held_back)[:_MOST_VALIDATION],
        )
        for training, held_back in splits
    ]


@dataclass(frozen=True, eq=False)
class GaussianTrials:
    """Gaussian kernels of every scaling, whose squared errors of rows held back are compared.

    ``of_scalings`` are the best penalties with the first bandwidth, each chosen from those nearby.
    """

    task: SelectionTask
    of_scalings: list[GaussianRidge]
    samples: list[_Sample] = field(repr=False)

    @classmethod
    def of(cls, task: SelectionTask, splits: Sequence[Split]) -> GaussianTrials:
        """Try each scaling with the first bandwidth; the trials are recorded."""
        scalers = map_blocks(task.data.scaler, [(kind,) for kind in _SCALINGS], task.n_jobs)
        samples = _samples(task, splits, scalers)
        with one_blas_thread():
            first = [(sample, _FIRST_LENGTH, _FIRST_RIDGE) for sample in samples]
            return cls(task, _tried(task, first), samples)

    @property
    def first(self) -> GaussianRidge:
        """The best with the first bandwidth."""
        return min(self.of_scalings, key=_by_score)

    @cached_property
    def best(self) -> GaussianRidge:
        """The best of all bandwidths, tried along a geometric path for as long as that helps.

        Half a dozen kernel matrices and some twenty factorisations for each split.
        """
        best = self.first
        sample = self.samples[self.of_scalings.index(best)]
        tried, steps = {0: best}, [-1, 1]
        with one_blas_thread():
            while steps:
                around = [(sample, _FIRST_LENGTH * _STEP**step, best.ridge) for step in steps]
                tried.update(zip(steps, _tried(self.task, around), strict=True))
                at = min(tried, key=lambda step: tried[step].score)
                best = tried[at]
                # Two at a time, for two threads.
                onwards = {min(tried): (at - 2, at - 1), max(tried): (at + 1, at + 2)}.get(at, ())
                steps = [step for step in onwards if abs(step) <= _MOST_STEPS]
        return best


def compare_metrics(
    task: SelectionTask,
    scaler: Scaler,
    relevance: FloatArray,
    known: Sequence[GaussianRidge] = (),
) -> tuple[GaussianRidge, GaussianRidge]:
    """Return the Gaussian kernel over inputs weighted by relevance, and the best over equal ones.

    Both have the first bandwidth that :class:`GaussianTrials` tries. The scaler is of kind "both",
    relevance that of the columns that it returns. Those over equal inputs are tried if none are
    ``known`` for the same split.
    """
    data, splits = task.data, sampled_splits([task.split], task.seed)
    scalers = [scaler.weighted(relevance)]
    if not known:
        kinds = [(kind,) for kind in _SCALINGS if kind != scaler.kind]
        scalers += [scaler, *map_blocks(data.scaler, kinds, task.n_jobs)]
    samples = _samples(task, splits, scalers)
    with one_blas_thread():
        first = [(sample, _FIRST_LENGTH, _FIRST_RIDGE) for sample in samples]
        weighted, *equal = _tried(task, first)
    return weighted, min([*known, *equal], key=_by_score)


@dataclass(frozen=True, eq=False)
class _Sample:
    """The training rows and the rows held back of each split, scaled in one way."""

    scaler: Scaler
    median: float
    parts: list[tuple[Data, Data]] = field(repr=False)

    @classmethod
    def of(cls, data: Data, splits: Sequence[Split], scaler: Scaler, seed: int) -> _Sample:
        """Scale the rows."""
        parts = [(_scaled(data, a, scaler), _scaled(data, b, scaler)) for a, b in splits]
        distances = parts[0][0].rows / scaler.unit
        median = median_distance(distances, seed, scaler.categorical, "euclidean")
        return cls(scaler, median, parts)

    def best(self, length: float, ridge: float) -> GaussianRidge:
        """Return the best penalty for a bandwidth, from one penalty on for as long as it helps."""
        kernels = self._kernels(length)
        scores = {ridge: self._score(kernels, ridge)}
        for factor in (10.0, 0.1):
            at = ridge
            while _LEAST_RIDGE <= at * factor <= _MOST_RIDGE:
                scores[at * factor] = self._score(kernels, at * factor)
                if scores[at * factor] >= _TIE * scores[at]:
                    break
                at *= factor
            if at != ridge:
                break
        return GaussianRidge(self.scaler, length, self.median, at, scores[at])

    def _kernels(self, length: float) -> list[tuple[FloatArray, FloatArray]]:
        """Return the kernel values of training rows, and of those held back with them."""
        if self.scaler.categorical_mask.any():
            source, found = _source(self.scaler, length * self.median), []
            for training, held_back in self.parts:
                values = source.values_with(training.rows)
                found.append((values(training.rows), values(held_back.rows)))
            return found
        factor = -0.5 / length**2
        return [(np.exp(factor * a), np.exp(factor * b)) for a, b in self._squares]

    @cached_property
    def _squares(self) -> list[tuple[FloatArray, FloatArray]]:
        """Squared distances of the same rows, in median distances."""
        bandwidth, found = self.scaler.unscaled(self.median), []
        for training, held_back in self.parts:
            squares = RadialValues(Gaussian(), training.rows, bandwidth).squared_distances
            found.append((squares(training.rows), squares(held_back.rows)))
        return found

    def _score(self, kernels: list[tuple[FloatArray, FloatArray]], ridge: float) -> float:
        """Return the mean squared error of the rows held back, over splits and outputs."""
        scores = []
        for (training, truth), (gram, others) in zip(self.parts, kernels, strict=True):
            found, n = _solved(gram.copy(), training, ridge), len(gram)
            raw = others @ found[:n] + found[n:].sum(axis=0)
            squares = np.square(raw - truth.targets)
            scores.append(float(np.mean(np.average(squares, axis=0, weights=truth.sample_weight))))
        return float(np.mean(scores))


def _samples(
    task: SelectionTask, splits: Sequence[Split], scalers: Sequence[Scaler]
) -> list[_Sample]:
    """Return the samples of some splits, scaled in each way."""
    tasks = [(task.data.for_squares, splits, scaler, task.seed) for scaler in scalers]
    return map_blocks(_Sample.of, tasks, task.n_jobs)


def _tried(
    task: SelectionTask, candidates: Sequence[tuple[_Sample, float, float]]
) -> list[GaussianRidge]:
    """Return the best penalty of each candidate; remember the trials."""
    begun = time.perf_counter()
    found = map_blocks(_Sample.best, candidates, task.n_jobs)
    seconds = (time.perf_counter() - begun) / len(found)
    for (sample, *_), own in zip(candidates, found, strict=True):
        n_rows = len(sample.parts[0][0].targets)
        trial = Trial(
            stage="search",
            settings=own.settings(n_rows),
            score=own.score,
            measure="squared error",
            n_iter=1,
            n_rows=n_rows,
            size=n_rows,
            seconds=seconds,
            curve=[own.score],
        )
        task.trials.append(trial)
        task.report(
            "search",
            f"{n_rows:>7} rows, Gaussian kernel: {sample.scaler.kind} scaling, bandwidth "
            f"{own.length:.4g}, alpha {own.ridge / n_rows:.1e} -> {own.score:.5f}",
            **trial.as_dict(),
        )
    return found


_by_score = attrgetter("score")


def _scaled(data: Data, rows: IntArray | slice, scaler: Scaler, n_jobs: int | None = None) -> Data:
    """Return some of the rows as a scaler returns them."""
    own = data.take(rows)
    return replace(own, rows=dense_rows(scaler.rows(own.rows, n_jobs)))


def _gram(source: InputKernel, rows: FloatArray, n_jobs: int | None) -> FloatArray:
    """Return the kernel matrix of rows."""
    return kernel_matrix(source.values_with(rows), rows, _GRAM_ROWS, n_jobs)


def _solved(gram: FloatArray, data: Data, ridge: float) -> Vector:
    """Return the solution for the rows of a kernel matrix, which is overwritten."""
    return solve_ridge(gram, data.targets, ridge, data.sample_weight, data.intercept)


def _source(scaler: Scaler, bandwidth: float) -> InputKernel:
    return InputKernel(Gaussian(), scaler.unscaled(bandwidth), scaler.categorical_mask)


def validate_ridge(
    kernel: GaussianRidge, task: SelectionTask, goal: Goal, split: Split
) -> ValidationResult:
    """Fit to the training rows of a split and score the others; the trial is recorded."""
    begun = time.perf_counter()
    data, (training, held_back) = task.data, split
    expansion, weights = kernel.fitted(data, training, task.n_jobs)
    n = len(training)
    rows = kernel.scaler.rows(data.rows[held_back], task.n_jobs)
    raw = expansion.rows_matrix(rows).matvec(weights[:n]) + weights[n:].sum(axis=0)
    score, loss = goal.scored(data, raw, held_back)
    trial = {
        "alpha": kernel.ridge / n,
        "score": score,
        "n_iter": 1,
        "seconds": time.perf_counter() - begun,
    }
    result = ValidationResult(
        alpha=kernel.ridge,
        score=score,
        loss=loss,
        rows=held_back,
        raw=raw,
        weights=weights,
        trials=[trial],
    )
    record(task, goal, "validation", kernel.settings(n), result, n, n, "Gaussian kernel")
    return result


def pessimistic_loss(
    kernel: GaussianRidge,
    task: SelectionTask,
    result: ValidationResult,
    training: IntArray,
    too_much: float = np.inf,
) -> float:
    """Return the mean loss of validation rows or, if it is more, of left-out training rows.

    A few validation rows may have been lucky, above all if a class is rare. The loss is that of
    fits over other features, see :func:`calibrated_loss`. Leaving rows out takes twice the time of
    a fit, so none is left out if the loss of the validation rows is ``too_much`` already.
    """
    data, loss = task.data, task.goal.loss
    held_back = calibrated_loss(data, result.rows, result.raw, loss)
    if held_back >= too_much:
        return held_back
    sample = _scaled(data, training, kernel.scaler, task.n_jobs)
    with one_blas_thread():
        gram = _gram(kernel.source, sample.rows, task.n_jobs)
        left_out = leave_one_out(
            gram, sample.targets, kernel.ridge, sample.sample_weight, data.intercept
        )
    return max(held_back, calibrated_loss(data, training, left_out, loss))


def calibrated_loss(data: Data, rows: IntArray, raw: Vector, loss: Loss) -> float:
    """Return the mean loss of raw predictions; log odds are calibrated first."""
    measure = mean_loss(loss) if loss.name == "squared" else _log_loss
    return measure(raw, data.targets[rows], data.counts_of(rows))


def _log_loss(raw: Vector, codes: Vector, counts: FloatArray | None) -> float:
    """Return the log loss of predictions, each half calibrated by the other."""
    counts = np.ones(len(raw)) if counts is None else counts
    classes = (codes > 0).astype(np.intp) if codes.ndim == 1 else codes.argmax(axis=1)
    total, even = 0.0, np.arange(len(raw)) % 2 == 0
    for half, other in ((even, ~even), (~even, even)):
        calibration = Calibration.fit(raw[other], codes[other], counts[other], _CALIBRATION_TOL)
        logs = calibration.log_probabilities(raw[half])
        total -= inner(counts[half], logs[np.arange(len(logs)), classes[half]])
    return total / float(counts.sum())
