"""Stochastic gradients whose variance is reduced: the baseline of other stochastic methods."""

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

_FIRST_SHARE = 0.1
"""Of the step that a batch's curvature would allow: Johnson & Zhang's constant."""
_MOST_EPOCH_FACTOR = 1000
_MEMORY = 10
"""Ends of epochs that a new one is compared with."""
_SHORTER, _LONGER = 0.25, 1.5
_TAKEN_BACK = 30
"""Epochs in a row, after which no step is short enough."""
_ROUNDING = 16 * np.finfo(float).eps


@dataclass(frozen=True)
class SVRG(Solver):
    """Stochastic variance-reduced gradients over mini-batches (Johnson & Zhang 2013).

    An epoch begins with the gradient ``g(v)`` at the present weights ``v``. Each of
    its steps draws one of the B batches, as likely as any other, and takes
    ``w -= step (B (g_b(w) - g_b(v)) + g(v) + alpha w)``, with the batch's share
    ``g_b`` of ``g``, the gradient of the losses (Algorithm 1, option I).

    Parameters
    ----------
    batch_rows : int, default=256
        Rows a batch. Batches are rows that follow each other, read where they lie:
        shuffle rows that come sorted, or steps will have to be short.
    epoch_factor : float, default=2.0
        Steps an epoch: so many passes over the batches. If one batch holds all
        rows there is nothing to reduce, and an epoch is one step.
    step : float, optional
        Length of the steps. By default ``0.1 / L`` in the first epoch, with L the
        largest trace of a batch's Hessian, and then the rule of Barzilai and Borwein
        for each output (Tan, Ma, Dai & Qian 2016, Algorithm 2). In any case an epoch
        that ends higher than each of the last ten ended is taken back, and steps are
        shorter from then on.
    tol : float, default=1e-2
        An output has converged when no entry of its gradient is above ``tol`` times
        the largest at zero weights. Looked at once an epoch.
    max_iter : int, default=1000
        Epochs.
    seed : int, default=0
    n_jobs : int or None, default=None
        Not used: the products of the matrix have their own threads.

    Notes
    -----
    An epoch takes ``1 + epoch_factor`` pairs of products with all rows, and
    ``n_columns`` additions a step and output. Memory for eight vectors of
    ``n_columns`` and five of ``n_rows`` an output. Results do not depend on the
    number of threads.

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
        if self.epoch_factor > _MOST_EPOCH_FACTOR:
            raise InputError(
                f"SVRG: epoch_factor must be at most {_MOST_EPOCH_FACTOR:,}, got "
                f"{self.epoch_factor!r}; take more epochs by max_iter."
            )

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise the problem.

        Parameters
        ----------
        problem : Problem
            With any smooth loss and a smooth penalty.
        start : array (n_columns,) or (n_columns, K), optional
            Weights to start from.
        callback : callable, optional
            ``callback(epoch, weights)`` after each epoch; True stops.

        Returns
        -------
        Solution
            ``n_iter`` counts epochs, those taken back too; the history's
            ``residual`` is what ``tol`` is compared with, its ``step`` the longest
            of the outputs. Status ``"stalled"`` means that no step lowers the
            objective: rounding is as good as it gets.

        Raises
        ------
        InputError
            For a loss or penalty that is not smooth.
        """
        return self.steps(problem, start).run(callback)

    def steps(self, problem: Problem, start: Vector | None = None) -> Iterations:
        """Return the epochs of a solution, one at a time.

        Parameters
        ----------
        problem : Problem
        start : array, optional
            Both as in :meth:`solve`.

        Returns
        -------
        Iterations
            Yields ``(epoch, weights)`` after each epoch.

        Raises
        ------
        InputError
            For a loss or penalty that is not smooth.

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
    """Weights (n_columns, K), and what is known of them.

    Attributes
    ----------
    weights : array (n_columns, K)
    slopes : array (n_rows, K)
        Of the losses, times the rows' weights.
    of_losses : array (n_columns, K)
        Gradient of the mean loss.
    gradient : array (n_columns, K)
    objective : array (n_runs,)
    """

    weights: Vector
    slopes: Vector
    of_losses: Vector
    gradient: Vector
    objective: NDArray[np.float64]

    def moved(self, there: _Point, taken: NDArray[np.bool_]) -> _Point:
        """Return this point with another's runs where these are taken."""
        if taken.all():
            return there
        return _Point(
            *(
                np.where(taken, getattr(there, name), getattr(self, name))
                for name in ("weights", "slopes", "of_losses", "gradient", "objective")
            )
        )


class _State:
    """The point that the next epoch starts from; a run is an output, or all if coupled."""

    def __init__(self, problem: Problem, start: Vector | None, options: SVRG) -> None:
        self.problem, self.options = problem, options
        self.targets, self.row_weights = columns(problem.targets), problem.row_weights
        n_rows, n_columns = problem.matrix.shape
        self.batches = row_blocks(n_rows, options.batch_rows)
        zeros = np.zeros((n_columns, self.targets.shape[1]))
        self.ridge = problem.penalty.diagonal(zeros)
        self.here = self._look(zeros)
        self.scale = self._largest(self.here.gradient)
        if start is not None:
            self.here = self._look(zeros + columns(np.asarray(start)))
        n_batches = len(self.batches)
        self.n_steps = max(1, round(options.epoch_factor * n_batches)) if n_batches > 1 else 1
        self.steps = np.full_like(self.scale, options.step or self._first_step())
        self.limits = np.full_like(self.steps, np.inf)
        self.in_a_row = np.zeros(len(self.steps), int)
        self.ends = [self.here.objective]
        self.epochs = 0
        self._compare()

    def converged(self) -> bool:
        """Tell whether no entry of a gradient is large."""
        return bool((self.relative <= self.options.tol).all())

    def record(self) -> dict[str, float]:
        """Return the entry of the history for the present weights."""
        return {
            "objective": float(self.here.objective.sum()),
            "residual": float(self.relative.max(initial=0.0)),
            "step": float(self.steps.max(initial=0.0)),
        }

    def step(self) -> bool:
        """Go through an epoch and keep what does not end high; False when nothing ever does."""
        active = self.relative > self.options.tol
        # Steps that are far too long overflow, and are taken back for it.
        with np.errstate(over="ignore", invalid="ignore"):
            there = self._look(self._epoch(np.where(active, self.steps, 0.0)))
            highest = np.max(self.ends[-_MEMORY:], axis=0)
            low = there.objective <= highest + _ROUNDING * np.abs(highest)
        taken = active & low
        self._lengthen(there, taken)
        self._shorten(active & ~low)
        self.here = self.here.moved(there, taken)
        self.ends = [*self.ends[1 - _MEMORY :], self.here.objective]
        self._compare()
        return bool((self.in_a_row[active] < _TAKEN_BACK).any())

    def _epoch(self, steps: NDArray[np.float64]) -> Vector:
        """Return the weights at the end of an epoch from the present point."""
        problem, here, n_batches = self.problem, self.here, len(self.batches)
        drawn = stream(self.options.seed, "svrg", self.epochs).integers(
            n_batches, size=self.n_steps
        )
        self.epochs += 1
        weights = here.weights.copy()
        for a, b in (self.batches[k] for k in drawn):
            batch = batch_of(problem.matrix, a, b)
            change = self._slopes(matvec(batch, weights), a, b) - here.slopes[a:b]
            direction = n_batches * rmatvec(batch, change)
            direction += here.of_losses
            direction += self.ridge * weights
            weights -= steps * direction
        return weights

    def _lengthen(self, there: _Point, taken: NDArray[np.bool_]) -> None:
        """Set steps by the way gone and what it changed of the gradient, unless they are given."""
        self.in_a_row[taken] = 0
        if self.options.step is not None:
            return
        way = there.weights - self.here.weights
        gone = self._by_run(np.einsum("dk,dk->k", way, way))
        bent = self._by_run(np.einsum("dk,dk->k", way, there.gradient - self.here.gradient))
        self.limits[taken] *= _LONGER
        # Where the gradient has not changed, the objective is flat.
        known = taken & (bent > 0.0)
        self.steps[taken] *= _LONGER
        self.steps[known] = gone[known] / (self.n_steps * bent[known])
        np.minimum(self.steps, self.limits, out=self.steps)

    def _shorten(self, back: NDArray[np.bool_]) -> None:
        """Shorten the steps of epochs that are taken back."""
        self.in_a_row[back] += 1
        self.steps[back] *= _SHORTER
        # Of one batch nothing is random: the rule's steps are long and short in turns for good.
        self.limits[back] = self.steps[back] if len(self.batches) > 1 else np.inf

    def _look(self, weights: Vector) -> _Point:
        """Return the objective and the gradient: a pair of products with all rows."""
        problem, n_rows = self.problem, len(self.targets)
        responses = matvec(problem.matrix, weights)
        losses = weighted_sums(self.row_weights, problem.loss.value(responses, self.targets))
        squares = self._by_run(0.5 * np.einsum("dk,dk->k", self.ridge * weights, weights))
        slopes = self._slopes(responses, 0, n_rows)
        of_losses = rmatvec(problem.matrix, slopes)
        gradient = of_losses + self.ridge * weights
        return _Point(weights, slopes, of_losses, gradient, losses + squares)

    def _slopes(self, responses: Vector, start: int, stop: int) -> Vector:
        """Return the losses' slopes at some rows' responses, times the rows' weights."""
        slopes = self.problem.loss.gradient(responses, self.targets[start:stop])
        return self.row_weights[start:stop, None] * slopes

    def _first_step(self) -> float:
        """Return a step that is short enough by the traces of the batches' Hessians."""
        largest = 0.0
        for a, b in self.batches:
            batch = batch_of(self.problem.matrix, a, b)
            largest = max(largest, float(batch.gram_diagonal(self.row_weights[a:b]).sum()))
        steepest = len(self.batches) * self.problem.loss.smoothness * largest
        return _FIRST_SHARE / ((steepest + self.problem.penalty.l2) or 1.0)

    def _compare(self) -> None:
        """Set the weights, and how large each run's gradient is relative to zero weights'."""
        self.weights = self.here.weights
        largest = self._largest(self.here.gradient)
        self.relative = np.divide(largest, self.scale, out=largest.copy(), where=self.scale > 0)

    def _largest(self, gradient: Vector) -> NDArray[np.float64]:
        sizes = np.abs(gradient).max(axis=0, initial=0.0)
        return sizes.max(keepdims=True) if self.problem.loss.coupled else sizes

    def _by_run(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return sums.sum(keepdims=True) if self.problem.loss.coupled else sums


def batch_of(matrix: FeatureMatrix, start: int, stop: int) -> FeatureMatrix:
    """Return consecutive rows as a matrix; computed features are so once for all its products.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
    start, stop : int

    Returns
    -------
    FeatureMatrix (stop - start, n_columns)
        It shares memory with the matrix where that holds the rows.

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
