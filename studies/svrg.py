"""Stochastic variance-reduced gradients (SVRG), a baseline for other stochastic methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import weighted_sums
from gramless.base.errors import InputError
from gramless.base.numeric import as_float
from gramless.base.random import stream
from gramless.base.threads import row_blocks
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.dense import ChunkedMatrix, DenseMatrix
from gramless.matrices.stacked import with_ones, without_ones
from gramless.solvers.base import Capabilities, Iterations, Solver, check_options
from gramless.solvers.objective import Callback, Problem, Solution, columns
from gramless.solvers.vectors import matvec, rmatvec

_FIRST_STEP = 0.1  # first step in units of 1 / L: Johnson & Zhang's constant
_MAX_EPOCH_FACTOR = 1000
_MEMORY = 10  # previous objectives with which a new one is compared
_SHRINKAGE, _GROWTH = 0.25, 1.5  # factors of the step after a rejected and an accepted epoch
_MAX_REJECTIONS = 30  # consecutive rejected epochs, after which the solver has stalled
_ROUNDING = 16 * np.finfo(float).eps


@dataclass(frozen=True)
class SVRG(Solver):
    """Stochastic variance-reduced gradients over mini-batches (Johnson & Zhang 2013).

    An epoch begins with the gradient ``g(v)`` at the current weights ``v``. Each of
    its steps draws one of the B batches with equal probability, and takes
    ``w -= step (B (g_b(w) - g_b(v)) + g(v) + alpha w)``. Here ``g`` is the gradient
    of the losses, and ``g_b`` the batch's part of it (Algorithm 1, option I).

    Parameters
    ----------
    batch_rows : int, default=256
        Number of rows per batch. A batch consists of consecutive rows, so sorted
        rows should be shuffled; otherwise only short steps decrease the objective.
    epoch_factor : float, default=2.0
        Number of steps per epoch, as a multiple of the number of batches. If one
        batch contains all rows, an epoch is a single step.
    step : float, optional
        Length of the steps. By default it is ``0.1 / L`` in the first epoch, where L
        is the largest trace of the Hessian of a batch's mean loss, and then follows
        the rule of Barzilai and Borwein for each output (Tan, Ma, Dai & Qian 2016,
        Algorithm 2). An epoch whose objective exceeds those of the last
        ten epochs is rejected, and the steps are shortened.
    tol : float, default=1e-2
        An output has converged when no entry of its gradient exceeds ``tol`` times
        the largest entry at zero weights. This is checked once per epoch.
    max_iter : int, default=1000
        Maximum number of epochs.
    seed : int, default=0
    n_jobs : int or None, default=None
        Not used; the products of the matrix have their own threads.

    Notes
    -----
    An epoch takes ``1 + epoch_factor`` pairs of products with all rows, and
    ``n_columns`` additions per step and output. Memory per output is eight vectors
    of length ``n_columns`` and five of length ``n_rows``. Results do not depend on
    the number of threads.

    References
    ----------
    R. Johnson & T. Zhang, Accelerating stochastic gradient descent using predictive
    variance reduction, NIPS 2013. C. Tan, S. Ma, Y.-H. Dai & Y. Qian,
    Barzilai-Borwein step size for stochastic gradient descent, NIPS 2016.

    Examples
    --------
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.penalties import L2
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> problem = Problem(Z, np.array([1.0, 2.0, 6.0]), L2(1.0))
    >>> SVRG(batch_rows=1, tol=1e-8).solve(problem).weights.round(6)
    array([0.6, 1.5])
    """

    batch_rows: int = 256
    epoch_factor: float = 2.0
    step: float | None = None
    tol: float = 1e-2
    max_iter: int = 1000
    seed: int = 0
    n_jobs: int | None = None
    capabilities: ClassVar[Capabilities] = Capabilities(bounded_curvature=True)

    def __post_init__(self) -> None:
        for name in ("epoch_factor", "step"):
            value = getattr(self, name)
            absent = value is None and name == "step"
            if not (absent or 0.0 < as_float(value) < np.inf):
                raise InputError(f"SVRG: {name} must be a positive number, got {value!r}.")
        check_options(self)
        if self.epoch_factor > _MAX_EPOCH_FACTOR:
            raise InputError(
                f"SVRG: epoch_factor must be at most {_MAX_EPOCH_FACTOR:,}, got "
                f"{self.epoch_factor!r}; take more epochs by max_iter."
            )

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise the problem.

        Parameters
        ----------
        problem : Problem
            A problem with a smooth loss and a smooth penalty.
        start : array (n_columns,) or (n_columns, K), optional
            Weights to start from.
        callback : callable, optional
            Called as ``callback(epoch, weights)`` after each epoch; the solver stops
            if it returns True.

        Returns
        -------
        Solution
            ``n_iter`` counts all epochs, including rejected ones. In the history,
            ``residual`` is the quantity compared with ``tol``, and ``step`` the
            longest step of all outputs. Status ``"stalled"`` means that no step
            decreases the objective, because of rounding errors.

        Raises
        ------
        InputError
            If the loss or the penalty is not smooth.
        """
        return self.steps(problem, start).run(callback)

    def steps(self, problem: Problem, start: Vector | None = None) -> Iterations:
        """Return an iterator over the epochs.

        Parameters
        ----------
        problem : Problem
        start : array, optional
            See :meth:`solve` for both.

        Returns
        -------
        Iterations
            Yields ``(epoch, weights)`` after each epoch.

        Raises
        ------
        InputError
            If the loss or the penalty is not smooth.

        Examples
        --------
        >>> from gramless.penalties import L2
        >>> problem = Problem(DenseMatrix(np.eye(2)), np.array([1.0, 3.0]), L2(0.5))
        >>> [epoch for epoch, weights in SVRG(tol=0.0, max_iter=3).steps(problem)]
        [1, 2, 3]
        """
        self.check_problem(problem)
        shape = (problem.matrix.shape[1], *problem.targets.shape[1:])
        return Iterations(_State(problem, start, self), shape, self.max_iter)


@dataclass
class _Point:
    """Weights (n_columns, K) with the objective and the gradient.

    Attributes
    ----------
    weights : array (n_columns, K)
    slopes : array (n_rows, K)
        Derivatives of the losses, times the row weights.
    loss_gradient : array (n_columns, K)
        Gradient of the mean loss, without the penalty.
    gradient : array (n_columns, K)
    objective : array (n_runs,)
    """

    weights: Vector
    slopes: Vector
    loss_gradient: Vector
    gradient: Vector
    objective: NDArray[np.float64]

    def replace_runs(self, other: _Point, accepted: NDArray[np.bool_]) -> _Point:
        """Return this point with the accepted runs of another point."""
        if accepted.all():
            return other
        return _Point(
            *(
                np.where(accepted, getattr(other, name), getattr(self, name))
                for name in ("weights", "slopes", "loss_gradient", "gradient", "objective")
            )
        )


class _State:
    """The state between epochs.

    A run is an output, or all outputs together if the loss couples them.
    """

    def __init__(self, problem: Problem, start: Vector | None, options: SVRG) -> None:
        self.problem, self.options = problem, options
        self.targets, self.row_weights = columns(problem.targets), problem.row_weights
        n_rows, n_columns = problem.matrix.shape
        self.batches = row_blocks(n_rows, options.batch_rows)
        zeros = np.zeros((n_columns, self.targets.shape[1]))
        self.ridge = problem.penalty.diagonal(zeros)
        self.point = self._evaluate(zeros)
        self.scale = self._largest(self.point.gradient)
        if start is not None:
            self.point = self._evaluate(zeros + columns(np.asarray(start)))
        n_batches = len(self.batches)
        self.n_steps = max(1, round(options.epoch_factor * n_batches)) if n_batches > 1 else 1
        self.steps = np.full_like(self.scale, options.step or self._first_step())
        self.limits = np.full_like(self.steps, np.inf)
        self.n_rejections = np.zeros(len(self.steps), int)
        self.objectives = [self.point.objective]
        self.epochs = 0
        self._update_residuals()

    def converged(self) -> bool:
        """Return whether all runs have converged."""
        return bool((self.relative <= self.options.tol).all())

    def record(self) -> dict[str, float]:
        """Return the entry of the history for the current weights."""
        return {
            "objective": float(self.point.objective.sum()),
            "residual": float(self.relative.max(initial=0.0)),
            "step": float(self.steps.max(initial=0.0)),
        }

    def step(self) -> bool:
        """Take an epoch and accept or reject it for each run; return False if all have stalled."""
        active = self.relative > self.options.tol
        # Steps that are far too long overflow, and the epoch is then rejected.
        with np.errstate(over="ignore", invalid="ignore"):
            end = self._evaluate(self._epoch(np.where(active, self.steps, 0.0)))
            highest = np.max(self.objectives[-_MEMORY:], axis=0)
            is_low = end.objective <= highest + _ROUNDING * np.abs(highest)
        accepted = active & is_low
        self._update_steps(end, accepted)
        self._shorten_steps(active & ~is_low)
        self.point = self.point.replace_runs(end, accepted)
        self.objectives = [*self.objectives[1 - _MEMORY :], self.point.objective]
        self._update_residuals()
        return bool((self.n_rejections[active] < _MAX_REJECTIONS).any())

    def _epoch(self, steps: NDArray[np.float64]) -> Vector:
        """Return the weights after an epoch from the current point."""
        problem, start, n_batches = self.problem, self.point, len(self.batches)
        indices = stream(self.options.seed, "svrg", self.epochs).integers(
            n_batches, size=self.n_steps
        )
        self.epochs += 1
        weights = start.weights.copy()
        for a, b in (self.batches[k] for k in indices):
            batch = batch_of(problem.matrix, a, b)
            change = self._slopes(matvec(batch, weights), a, b) - start.slopes[a:b]
            direction = n_batches * rmatvec(batch, change)
            direction += start.loss_gradient
            direction += self.ridge * weights
            weights -= steps * direction
        return weights

    def _update_steps(self, end: _Point, accepted: NDArray[np.bool_]) -> None:
        """Set the steps of accepted runs by the rule of Barzilai and Borwein, unless given."""
        self.n_rejections[accepted] = 0
        if self.options.step is not None:
            return
        change = end.weights - self.point.weights
        squares = self._by_run(np.einsum("dk,dk->k", change, change))
        gradient_change = end.gradient - self.point.gradient
        curvature = self._by_run(np.einsum("dk,dk->k", change, gradient_change))
        self.limits[accepted] *= _GROWTH
        # The rule does not apply if the gradient has not changed: the objective is flat.
        is_curved = accepted & (curvature > 0.0)
        self.steps[accepted] *= _GROWTH
        self.steps[is_curved] = squares[is_curved] / (self.n_steps * curvature[is_curved])
        np.minimum(self.steps, self.limits, out=self.steps)

    def _shorten_steps(self, rejected: NDArray[np.bool_]) -> None:
        self.n_rejections[rejected] += 1
        self.steps[rejected] *= _SHRINKAGE
        # With a single batch nothing is random, and the rule alternates long and short steps, so
        # that a rejected step does not limit later ones.
        self.limits[rejected] = self.steps[rejected] if len(self.batches) > 1 else np.inf

    def _evaluate(self, weights: Vector) -> _Point:
        """Return the objective and the gradient by a pair of products with all rows."""
        problem, n_rows = self.problem, len(self.targets)
        responses = matvec(problem.matrix, weights)
        losses = weighted_sums(self.row_weights, problem.loss.value(responses, self.targets))
        squares = self._by_run(0.5 * np.einsum("dk,dk->k", self.ridge * weights, weights))
        slopes = self._slopes(responses, 0, n_rows)
        loss_gradient = rmatvec(problem.matrix, slopes)
        gradient = loss_gradient + self.ridge * weights
        return _Point(weights, slopes, loss_gradient, gradient, losses + squares)

    def _slopes(self, responses: Vector, start: int, stop: int) -> Vector:
        """Return the derivatives of the losses of consecutive rows, times the row weights."""
        slopes = self.problem.loss.gradient(responses, self.targets[start:stop])
        return self.row_weights[start:stop, None] * slopes

    def _first_step(self) -> float:
        """Return a safe step by the traces of the batches' Hessians."""
        largest = 0.0
        for a, b in self.batches:
            batch = batch_of(self.problem.matrix, a, b)
            largest = max(largest, float(batch.gram_diagonal(self.row_weights[a:b]).sum()))
        curvature = len(self.batches) * self.problem.loss.smoothness * largest
        return _FIRST_STEP / ((curvature + self.problem.penalty.l2) or 1.0)

    def _update_residuals(self) -> None:
        """Set the weights, and the gradient of each run relative to that at zero weights."""
        self.weights = self.point.weights
        largest = self._largest(self.point.gradient)
        self.relative = np.divide(largest, self.scale, out=largest.copy(), where=self.scale > 0)

    def _largest(self, gradient: Vector) -> NDArray[np.float64]:
        sizes = np.abs(gradient).max(axis=0, initial=0.0)
        return sizes.max(keepdims=True) if self.problem.loss.coupled else sizes

    def _by_run(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return sums.sum(keepdims=True) if self.problem.loss.coupled else sums


def batch_of(matrix: FeatureMatrix, start: int, stop: int) -> FeatureMatrix:
    """Return consecutive rows as a matrix; features computed on demand are then stored.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
    start, stop : int

    Returns
    -------
    FeatureMatrix (stop - start, n_columns)
        It shares memory with the matrix if that stores its rows.

    Examples
    --------
    >>> batch_of(DenseMatrix(np.eye(3)), 1, 3).shape
    (2, 3)
    """
    inner, has_ones = without_ones(matrix)
    if has_ones:
        return with_ones(batch_of(inner, start, stop))
    if isinstance(matrix, ChunkedMatrix):
        return DenseMatrix(matrix.chunk(start, stop), matrix.n_jobs)
    return matrix.take_rows(slice(start, stop))
