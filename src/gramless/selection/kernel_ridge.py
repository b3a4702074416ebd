"""Kernel ridge regression with a Gaussian kernel, and the selection of its settings.

Scaling, bandwidth and penalty are selected on samples of the rows. In the fit every row is a
landmark, and the fit takes one Cholesky factorisation of the kernel matrix. For blends, one
factorisation serves two fits, and large tables have fewer landmarks than rows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import attrgetter

import numpy as np
from scipy.linalg import blas, lapack

from gramless.base.arrays import inner
from gramless.base.random import stream
from gramless.base.threads import cached_property, map_blocks, one_blas_thread
from gramless.base.types import FloatArray, IntArray
from gramless.features.expansion import KernelExpansion
from gramless.features.landmarks import InputKernel, RadialValues, dense_rows, kernel_matrix
from gramless.kernels import Gaussian
from gramless.losses import Loss
from gramless.matrices.base import Vector
from gramless.matrices.dense import ComputedMatrix
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.scaling import Scaler, ScalingKind
from gramless.selection.data import Data
from gramless.selection.goal import Goal, mean_loss
from gramless.selection.splits import Split
from gramless.selection.task import Hyperparameters, SelectionTask, Trial
from gramless.selection.validation import ValidationResult, record
from gramless.solvers.factor import factorise
from gramless.solvers.objective import columns
from gramless.uncertainty.calibration import Calibration

_MAX_TRAINING, _MAX_VALIDATION = 400, 300  # maximum numbers of sampled rows
_SCALINGS: tuple[ScalingKind, ...] = ("none", "standard", "both")
# Bandwidths are tried in median distances between rows: the first, the factor between neighbours,
# and the number on either side of the first.
_FIRST_LENGTH, _STEP, _MAX_STEPS = 0.7, 2.0**0.5, 6
_FIRST_RIDGE, _MIN_RIDGE, _MAX_RIDGE = 0.1, 1e-5, 1e3
_TIE = 0.998  # the next penalty must lower the score below this share
_CALIBRATION_TOL = 1e-6  # relative tolerance of the log loss; enough to compare fits
_GRAM_ROWS = 128  # rows of a kernel matrix that are computed at a time
# Bytes per pair of landmarks, at most, because systems are copied to be factorised.
BYTES_PER_PAIR = 24
# Times the number of landmarks, this is added to the diagonal of the normal equations. It is far
# above their rounding errors, and has no effect on predictions.
_JITTER = 1e-10
# Solutions by factors in single precision are refined until no residual is above this share of the
# largest right-hand side. If that takes more steps, the factors are computed in double precision.
_TOLERANCE, _MAX_REFINEMENTS = 1e-7, 4


@dataclass(frozen=True, eq=False)
class GaussianRidge:
    """A Gaussian kernel over scaled inputs, and the penalty of its ridge regression.

    Attributes
    ----------
    length : float
        The bandwidth in median distances between two scaled rows.
    median : float
        The median distance.
    ridge : float
        The penalty alpha times the number of rows.
    score : float
        The mean squared error of the sampled validation rows.
    """

    scaler: Scaler
    length: float
    median: float
    ridge: float
    score: float

    @property
    def bandwidth(self) -> float:
        return self.length * self.median

    @property
    def source(self) -> InputKernel:
        scaler = self.scaler
        bandwidth = scaler.unscaled(self.bandwidth)
        return InputKernel(Gaussian(), bandwidth, scaler.categorical_mask)

    def settings(self, n_rows: int) -> Hyperparameters:
        return Hyperparameters(self.scaler.kind, self.length, self.ridge / n_rows)

    def fitted(
        self, data: Data, rows: IntArray | slice, n_jobs: int | None
    ) -> tuple[KernelExpansion, Vector]:
        """Return the kernel expansion over ``rows``, and its weights with the intercept last.

        The fit takes ``n**2 n_inputs + n**3 / 3`` operations and ``8 n**2`` bytes for n rows.
        """
        scaled, source = _scaled(data, rows, self.scaler, n_jobs), self.source
        with one_blas_thread():
            weights = _solve(_gram(source, scaled.rows, n_jobs), scaled, self.ridge)
        return KernelExpansion.of(source, scaled.rows, n_jobs), weights

    def predicted(
        self, data: Data, training: IntArray, others: IntArray, n_jobs: int | None
    ) -> tuple[Vector, Vector]:
        """Return the raw predictions of ``others`` by a fit to ``training``, and its weights."""
        expansion, weights = self.fitted(data, training, n_jobs)
        n, rows = len(training), self.scaler.rows(data.rows[others], n_jobs)
        return expansion.rows_matrix(rows).matvec(weights[:n]) + weights[n:].sum(axis=0), weights

    def over(
        self, scaler: Scaler, data: Data, rows: IntArray, n_jobs: int | None
    ) -> KernelExpansion:
        """Return the kernel expansion with landmarks in the rows of a scaler "both".

        These are the rows of the kinds "none" and "standard", followed by ranks.
        """
        bandwidth = self.source.bandwidth
        ignored = np.full(len(scaler.unit) - len(bandwidth), np.inf)
        bandwidth = np.concatenate([bandwidth, ignored])
        source = InputKernel(Gaussian(), bandwidth, scaler.categorical_mask)
        landmarks = dense_rows(scaler.rows(data.rows[rows], n_jobs))
        return KernelExpansion.of(source, landmarks, n_jobs)


def solve_ridge(
    gram: FloatArray, targets: Vector, ridge: float, weights: FloatArray | None, intercept: bool
) -> Vector:
    """Return a, then b, that minimise ``sum_i s_i (f_i - y_i)^2 + ridge a' K a``.

    Here ``f = K a + b``, and s are the sample weights divided by their mean. The constant b has no
    penalty, and is left out without an intercept. The kernel matrix K is overwritten.

    Examples
    --------
    >>> solve_ridge(np.eye(2), np.array([1.0, 3.0]), 1.0, None, True)
    array([-0.5,  0.5,  2. ])
    """
    factor = _factor(gram, ridge, weights)
    solution = _solution(factor, columns(targets), intercept)[0]
    return np.ascontiguousarray(solution).reshape(-1, *targets.shape[1:])


def leave_one_out(
    gram: FloatArray, targets: Vector, ridge: float, weights: FloatArray | None, intercept: bool
) -> Vector:
    """Return the leave-one-out prediction of each row.

    The error of row i is ``a_i`` divided by the i-th diagonal entry of the inverse of the system
    (Rasmussen & Williams 2006, equation 5.12). Parameters are those of :func:`solve_ridge`. It
    takes ``n**3`` operations.
    """
    factor = _factor(gram, ridge, weights)
    solution, ones = _solution(factor, columns(targets), intercept)
    inverse, _ = lapack.dpotri(factor, lower=0)
    diagonal = inverse.diagonal().copy()
    if intercept:
        diagonal -= ones**2 / ones.sum()
    return targets - (solution[: len(gram)] / diagonal[:, None]).reshape(targets.shape)


def _factor(gram: FloatArray, ridge: float, weights: FloatArray | None) -> FloatArray:
    """Return the upper Cholesky factor of ``K + ridge S^-1``; K is overwritten."""
    relative = np.ones(len(gram)) if weights is None else weights / weights.mean()
    gram[np.diag_indices_from(gram)] += ridge / relative
    factor, failed_pivot = lapack.dpotrf(gram.T, lower=0, overwrite_a=1)
    if failed_pivot:
        raise np.linalg.LinAlgError(f"pivot {failed_pivot} of a kernel matrix is not above 0.")
    return np.asarray(factor)


def _solution(
    factor: FloatArray, targets: FloatArray, intercept: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the weights followed by the intercept, and the solution for targets of one."""
    rhs = np.column_stack([targets, np.ones(len(targets))])
    solution, _ = lapack.dpotrs(factor, rhs, lower=0)
    weights, ones = solution[:, :-1], solution[:, -1]
    if not intercept:
        return weights, ones
    # The weights sum to 0 at the minimum, because the gradient in the constant is 0.
    constant = weights.sum(axis=0) / ones.sum()
    return np.vstack([weights - ones[:, None] * constant, constant]), ones


@dataclass(frozen=True, eq=False)
class NestedRidge:
    """Kernel ridge regression without an intercept, fitted to nested sets of rows.

    Attributes
    ----------
    landmarks : array of int
        The landmarks of the last fit. The others use the first of them.
    weights : list of arrays (n,) or (n, K)
        The weights of the landmarks in each fit.
    """

    kernel: GaussianRidge
    landmarks: IntArray
    weights: list[Vector]

    @classmethod
    def exact(
        cls, kernel: GaussianRidge, data: Data, parts: Sequence[IntArray], n_jobs: int | None
    ) -> NestedRidge:
        """Fit the first part of the rows, then the first two, and so on, with all as landmarks.

        The systems ``(K + ridge S^-1) a = y`` share one Cholesky factor, because its first rows are
        the factor of the first system. It takes ``n**3 / 3`` operations in single precision and
        ``12 n**2`` bytes for n rows.
        """
        rows = np.concatenate(parts)
        scaled, weights = _scaled(data, rows, kernel.scaler, n_jobs), data.counts_of(rows)
        with one_blas_thread():
            gram = _gram(kernel.source, scaled.rows, n_jobs)
            diagonal = kernel.ridge / (np.ones(len(rows)) if weights is None else weights)
            ends = list(accumulate(map(len, parts)))
            solutions = nested_solutions(gram, diagonal, columns(scaled.targets), ends)
        shape = scaled.targets.shape[1:]
        return cls(kernel, rows, [solution.reshape(-1, *shape) for solution in solutions])

    @classmethod
    def with_landmarks(
        cls,
        kernel: GaussianRidge,
        data: Data,
        parts: Sequence[IntArray],
        n_landmarks: int,
        n_jobs: int | None,
    ) -> NestedRidge:
        """Fit the same rows with the first rows of the first part as landmarks.

        The weights solve ``(K' S K + ridge K_mm) a = K' S y`` with the kernel values K of the rows
        and landmarks. Each part is added to the sums of those before. It takes ``n_rows * m**2``
        operations and ``24 m**2`` bytes for m landmarks.
        """
        rows = np.concatenate(parts)
        scaled, weights = _scaled(data, rows, kernel.scaler, n_jobs), data.counts_of(rows)
        m = min(n_landmarks, len(parts[0]))
        landmarks, shape = scaled.rows[:m], scaled.targets.shape[1:]
        both, solutions = np.hstack([scaled.rows, columns(scaled.targets)]), []
        expansion = KernelExpansion.of(kernel.source, landmarks, n_jobs)
        n_inputs = scaled.rows.shape[1]

        def compute(rows: FloatArray, out: FloatArray) -> None:
            expansion.compute(rows[:, :n_inputs], out[:, :m])
            out[:, m:] = rows[:, n_inputs:]

        with one_blas_thread():
            system = kernel.ridge * _gram(kernel.source, landmarks, n_jobs)
            rhs, jitter, first = np.zeros((m, data.n_outputs)), np.full(m, _JITTER * m), 0
            for part in parts:
                here, first = slice(first, first + len(part)), first + len(part)
                # One pass over kernel values and targets gives the matrix and the right-hand sides.
                width = m + data.n_outputs
                matrix = ComputedMatrix(
                    both[here], compute, width, dtype=np.float64, budget=0, n_jobs=n_jobs
                )
                products = matrix.column_gram(None if weights is None else weights[here])
                system += products[:m, :m]
                rhs += products[:m, m:]
                solution = np.ascontiguousarray(factorise(system, jitter)(rhs))
                solutions.append(solution.reshape(-1, *shape))
        return cls(kernel, rows[:m], solutions)

    def predicted(self, data: Data, rows: IntArray, n_jobs: int | None) -> Vector:
        """Return the predictions of rows by the first fit."""
        scaler, weights = self.kernel.scaler, self.weights[0]
        landmarks = data.rows[self.landmarks[: len(weights)]]
        landmarks = dense_rows(scaler.rows(landmarks, n_jobs))
        expansion = KernelExpansion.of(self.kernel.source, landmarks, n_jobs)
        return expansion.rows_matrix(scaler.rows(data.rows[rows], n_jobs)).matvec(weights)


def nested_solutions(
    gram: FloatArray, diagonal: FloatArray, rhs: FloatArray, sizes: Sequence[int]
) -> list[FloatArray]:
    """Return the solutions of the systems of the first n rows and columns for several n.

    The matrix is ``gram + diag(diagonal)``.

    Examples
    --------
    >>> rhs = np.array([[2.0], [6.0]])
    >>> [a.round(6).tolist() for a in nested_solutions(np.eye(2), np.ones(2), rhs, [1, 2])]
    [[[1.0]], [[1.0], [3.0]]]
    """
    single = gram.astype(np.float32)
    single[np.diag_indices_from(single)] += diagonal.astype(np.float32)
    factor, failed_pivot = lapack.spotrf(single.T, lower=0, overwrite_a=1, clean=0)
    solutions = []
    for n in sizes:
        first, first_rhs = gram[:n, :n], rhs[:n]
        solution, residual = np.zeros_like(first_rhs), first_rhs
        step = np.zeros(rhs.shape, np.float32)
        for _ in range(0 if failed_pivot else _MAX_REFINEMENTS):
            # Zeros in place of the other rows make the solution that of the first rows and columns.
            step[:n] = residual
            half = blas.strsm(1.0, factor, step, trans_a=1)
            half[n:] = 0.0
            solution += blas.strsm(1.0, factor, half)[:n]
            residual = first_rhs - first @ solution - diagonal[:n, None] * solution
            if np.abs(residual).max() <= _TOLERANCE * np.abs(first_rhs).max():
                break
        else:
            solution = factorise(first, diagonal[:n])(first_rhs)
        solutions.append(np.ascontiguousarray(solution))
    return solutions


def sampled_splits(splits: Sequence[Split], seed: int) -> list[Split]:
    """Return at most 400 random training rows and 300 random validation rows of each split."""
    generator = stream(seed, "kernel ridge")
    return [
        (
            generator.permutation(training)[:_MAX_TRAINING],
            generator.permutation(validation)[:_MAX_VALIDATION],
        )
        for training, validation in splits
    ]


@dataclass(frozen=True, eq=False)
class GaussianTrials:
    """A search for the scaling and bandwidth with the lowest squared error of validation rows.

    ``of_scalings`` has one entry per scaling, with the first bandwidth and the best penalty nearby.
    """

    task: SelectionTask
    of_scalings: list[GaussianRidge]
    samples: list[_Sample] = field(repr=False)

    @classmethod
    def of(
        cls,
        task: SelectionTask,
        splits: Sequence[Split],
        scalers: Sequence[Scaler] | None = None,
    ) -> GaussianTrials:
        """Try the first bandwidth with ``scalers``; by default those that weigh inputs equally."""
        if scalers is None:
            scalers = map_blocks(task.data.scaler, [(kind,) for kind in _SCALINGS], task.n_jobs)
        inputs = [(task.data.for_squares, splits, scaler, task.seed) for scaler in scalers]
        samples = map_blocks(_Sample.of, inputs, task.n_jobs)
        with one_blas_thread():
            first = [(sample, _FIRST_LENGTH, _FIRST_RIDGE) for sample in samples]
            return cls(task, _run_trials(task, first), samples)

    @property
    def first(self) -> GaussianRidge:
        return min(self.of_scalings, key=_by_score)

    @cached_property
    def best(self) -> GaussianRidge:
        """The best kernel of a geometric path of bandwidths, which ends when scores get worse.

        It takes about six kernel matrices and twenty factorisations for each split.
        """
        best = self.first
        sample = self.samples[self.of_scalings.index(best)]
        results, steps = {0: best}, [-1, 1]
        with one_blas_thread():
            while steps:
                candidates = [(sample, _FIRST_LENGTH * _STEP**step, best.ridge) for step in steps]
                results.update(zip(steps, _run_trials(self.task, candidates), strict=True))
                at = min(results, key=lambda step: results[step].score)
                best = results[at]
                # Two bandwidths at a time use two threads.
                following = {min(results): (at - 2, at - 1), max(results): (at + 1, at + 2)}
                steps = [step for step in following.get(at, ()) if abs(step) <= _MAX_STEPS]
        return best


def compare_metrics(
    task: SelectionTask,
    scaler: Scaler,
    relevance: FloatArray,
    known: Sequence[GaussianRidge] = (),
) -> tuple[GaussianRidge, GaussianRidge]:
    """Return the kernel over inputs weighted by relevance, and the best one over equal inputs.

    Both have the first bandwidth of :class:`GaussianTrials`. The scaler is of kind "both", and has
    one column per entry of ``relevance``. Kernels over equal inputs are only tried if no results
    for the same split are ``known``.
    """
    data, splits = task.data, sampled_splits([task.split], task.seed)
    scalers = [scaler.weighted(relevance)]
    if not known:
        kinds = [(kind,) for kind in _SCALINGS if kind != scaler.kind]
        scalers += [scaler, *map_blocks(data.scaler, kinds, task.n_jobs)]
    weighted, *equal = GaussianTrials.of(task, splits, scalers).of_scalings
    return weighted, min([*known, *equal], key=_by_score)


@dataclass(frozen=True, eq=False)
class _Sample:
    """The scaled training and validation rows of each split."""

    scaler: Scaler
    median: float
    parts: list[tuple[Data, Data]] = field(repr=False)

    @classmethod
    def of(cls, data: Data, splits: Sequence[Split], scaler: Scaler, seed: int) -> _Sample:
        parts = [(_scaled(data, a, scaler), _scaled(data, b, scaler)) for a, b in splits]
        distances = parts[0][0].rows / scaler.unit
        median = median_distance(distances, seed, scaler.categorical, "euclidean")
        return cls(scaler, median, parts)

    def best(self, length: float, ridge: float) -> GaussianRidge:
        """Return the best penalty for a bandwidth by steps from ``ridge`` while scores improve."""
        if self.scaler.categorical_mask.any():
            bandwidth, kernels = self.scaler.unscaled(length * self.median), []
            source = InputKernel(Gaussian(), bandwidth, self.scaler.categorical_mask)
            for training, validation in self.parts:
                values = source.values_with(training.rows)
                kernels.append((values(training.rows), values(validation.rows)))
        else:
            factor = -0.5 / length**2
            kernels = [(np.exp(factor * a), np.exp(factor * b)) for a, b in self._squares]
        scores = {ridge: self._score(kernels, ridge)}
        for factor in (10.0, 0.1):
            at = ridge
            while _MIN_RIDGE <= at * factor <= _MAX_RIDGE:
                scores[at * factor] = self._score(kernels, at * factor)
                if scores[at * factor] >= _TIE * scores[at]:
                    break
                at *= factor
            if at != ridge:
                break
        return GaussianRidge(self.scaler, length, self.median, at, scores[at])

    @cached_property
    def _squares(self) -> list[tuple[FloatArray, FloatArray]]:
        """The squared distances of training and of validation rows, in median distances."""
        bandwidth, squares = self.scaler.unscaled(self.median), []
        for training, validation in self.parts:
            values = RadialValues(Gaussian(), training.rows, bandwidth).squared_distances
            squares.append((values(training.rows), values(validation.rows)))
        return squares

    def _score(self, kernels: list[tuple[FloatArray, FloatArray]], ridge: float) -> float:
        scores = []
        for (training, validation), (gram, cross) in zip(self.parts, kernels, strict=True):
            weights, n = _solve(gram.copy(), training, ridge), len(gram)
            raw = cross @ weights[:n] + weights[n:].sum(axis=0)
            squares = np.square(raw - validation.targets)
            mean = np.average(squares, axis=0, weights=validation.sample_weight)
            scores.append(float(np.mean(mean)))
        return float(np.mean(scores))


def _run_trials(
    task: SelectionTask, candidates: Sequence[tuple[_Sample, float, float]]
) -> list[GaussianRidge]:
    """Return the kernel with the best penalty of each candidate, and record the trials."""
    start = time.perf_counter()
    kernels = map_blocks(_Sample.best, candidates, task.n_jobs)
    seconds = (time.perf_counter() - start) / len(kernels)
    for (sample, *_), kernel in zip(candidates, kernels, strict=True):
        n_rows = len(sample.parts[0][0].targets)
        trial = Trial(
            stage="search",
            settings=kernel.settings(n_rows),
            score=kernel.score,
            measure="squared error",
            n_iter=1,
            n_rows=n_rows,
            size=n_rows,
            seconds=seconds,
            curve=[kernel.score],
        )
        task.trials.append(trial)
        task.report(
            "search",
            f"{n_rows:>7} rows, Gaussian kernel: {sample.scaler.kind} scaling, bandwidth "
            f"{kernel.length:.4g}, alpha {kernel.ridge / n_rows:.1e} -> {kernel.score:.5f}",
            **trial.as_dict(),
        )
    return kernels


_by_score = attrgetter("score")


def _scaled(data: Data, rows: IntArray | slice, scaler: Scaler, n_jobs: int | None = None) -> Data:
    sample = data.take(rows)
    return replace(sample, rows=dense_rows(scaler.rows(sample.rows, n_jobs)))


def _gram(source: InputKernel, rows: FloatArray, n_jobs: int | None) -> FloatArray:
    return kernel_matrix(source.values_with(rows), rows, _GRAM_ROWS, n_jobs)


def _solve(gram: FloatArray, data: Data, ridge: float) -> Vector:  # gram is overwritten
    return solve_ridge(gram, data.targets, ridge, data.sample_weight, data.intercept)


def validate_ridge(
    kernel: GaussianRidge, task: SelectionTask, goal: Goal, split: Split
) -> ValidationResult:
    """Return the result of a fit to the training rows of a split, and record the trial."""
    start = time.perf_counter()
    data, (training, validation) = task.data, split
    raw, weights, n = *kernel.predicted(data, training, validation, task.n_jobs), len(training)
    score, loss = goal.scored(data, raw, validation)
    trial = {
        "alpha": kernel.ridge / n,
        "score": score,
        "n_iter": 1,
        "seconds": time.perf_counter() - start,
    }
    result = ValidationResult(
        alpha=kernel.ridge,
        score=score,
        loss=loss,
        rows=validation,
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
    """Return the mean loss of validation rows or, if larger, the leave-one-out training loss.

    A few validation rows can be lucky, above all if a class is rare. The loss is comparable with
    that of fits over other features, see :func:`calibrated_loss`. The leave-one-out loss takes
    twice the time of a fit, and is skipped if the loss of the validation rows is at least
    ``too_much``.
    """
    data, loss = task.data, task.goal.loss
    validation_loss = calibrated_loss(data, result.rows, result.raw, loss)
    if validation_loss >= too_much:
        return validation_loss
    sample = _scaled(data, training, kernel.scaler, task.n_jobs)
    with one_blas_thread():
        gram = _gram(kernel.source, sample.rows, task.n_jobs)
        left_out = leave_one_out(
            gram, sample.targets, kernel.ridge, sample.sample_weight, data.intercept
        )
    return max(validation_loss, calibrated_loss(data, training, left_out, loss))


def calibrated_loss(data: Data, rows: IntArray, raw: Vector, loss: Loss) -> float:
    """Return the mean loss of raw predictions.

    If they are log odds, each half is calibrated by the other half.
    """
    codes, counts = data.targets[rows], data.counts_of(rows)
    if loss.name == "squared":
        return mean_loss(loss)(raw, codes, counts)
    counts = np.ones(len(raw)) if counts is None else counts
    classes = (codes > 0).astype(np.intp) if codes.ndim == 1 else codes.argmax(axis=1)
    total, is_even = 0.0, np.arange(len(raw)) % 2 == 0
    for half, other in ((is_even, ~is_even), (~is_even, is_even)):
        calibration = Calibration.fit(raw[other], codes[other], counts[other], _CALIBRATION_TOL)
        logs = calibration.log_probabilities(raw[half])
        total -= inner(counts[half], logs[np.arange(len(logs)), classes[half]])
    return total / float(counts.sum())
