"""Coordinate descent with working sets, over all bins of a grid at once or over columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gramless.base.arrays import inner
from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import FloatArray
from gramless.loops import grid_descent as loops
from gramless.matrices.base import Vector
from gramless.solvers.base import Capabilities, IterativeSolver, MatrixNeed
from gramless.solvers.line_search import ROUNDING, Losses, backtrack
from gramless.solvers.objective import Problem, columns, initial_weights
from gramless.solvers.vectors import rmatvec
from gramless.solvers.working_set import BinDescent, GramDescent, Move, Task

# Stronger penalties are solved first: the ratio of successive ones, and their tolerance.
_PATH_FACTOR, _PATH_TOL = 3.0, 0.3
# Weaker penalties, relative to the largest gradient at zero weights, are below rounding.
_MIN_L1 = 1e-12
_MIN_NEW_COLUMNS = 128
# The inner tolerance is the first fraction of the worst violation of optimality, but at least the
# second fraction of the solver's tolerance.
_INNER_TOL_SHARE = 0.2
_MIN_INNER_TOL_SHARE = 0.5
_COLUMNS_PER_BLOCK = 1 << 17
_MIN_CURVATURE = 1e-3  # relative to the typical curvature
# A round is slow if it takes all its sweeps, and each decreases the objective by a smaller share.
_MIN_DECREASE, _MAX_SLOW_ROUNDS = 2.5e-10, 3
_MAX_SWEEPS = 10_000  # the orders of all sweeps are drawn before the first

_BINS_OR_DENSE = MatrixNeed(
    "a matrix of bins, whose columns are disjoint within a grid, or one with a column_gram",
    lambda matrix: matrix.has_row_lists or matrix.has_column_gram,
    "RandomDescent takes any matrix, and so does NewtonCG where the penalty is smooth.",
)


@dataclass(frozen=True)
class GridDescent(IterativeSolver):
    """Descent over grids, or columns, with working sets, for L1, elastic net and L2 penalties.

    RB16's Algorithm 2 updates one bin at a time. This solver updates all bins of a grid at
    once, each to the minimum of its quadratic model, which is exact because the bins
    share no row. Each sweep visits the grids in a new random order. Sweeps update only a
    working set of bins. The bins that violate optimality most join it until no bin
    violates it, so the solution is that of the whole problem. For losses other than the
    squared one, each round has a new quadratic model (proximal Newton with a line search; Lee,
    Sun & Saunders 2014).

    For dense columns the model of a working set is its Gram matrix. Sweeps visit its columns,
    as in glmnet's covariance updates (Friedman, Hastie & Tibshirani 2010), and between sweeps
    all weights that keep their signs jump to their joint minimum.

    Parameters
    ----------
    tol : float, default=1e-2
        An output has converged when the largest KKT residual of a weight is at most ``tol``
        times the penalty's ``l1``, or times the largest gradient at zero weights if that is
        smaller or ``l1`` is 0.
    max_iter : int, default=200
        Maximum number of rounds, each with a gradient of all bins.
    max_sweeps : int, default=400
        Maximum number of sweeps over the working set in a round, at most 10,000.
    seed : int, default=0
        Seed of the orders of grids or columns.
    n_jobs : int or None, default=None
        Threads. Results do not depend on it.

    Notes
    -----
    A round takes two or three products with all rows and grids, a sweep about 2 ns of a core
    for each row of each bin in the working set. Lists of the rows of all bins take 2 or 4
    bytes for each non-zero, in addition to the codes. Without bins, the Gram matrix of a working
    set of n columns takes 16 n^2 bytes and n_rows * n^2 operations: once for the squared loss,
    and once in each round and for each output for other losses.

    The history also holds ``sweeps``, the number of sweeps so far, and ``non_zeros``, the number of
    weights that are not zero. Without a start, stronger penalties are solved approximately
    first; only the sweeps of their rounds are counted. Status ``"stalled"`` means that no step
    lowered the objective, or that three rounds in a row took all ``max_sweeps`` and lowered it
    by less than 2.5e-10 of its value per sweep.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.penalties import L1
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> problem = Problem(Z, np.array([1.0, 2.0, 0.1]), L1(0.1))
    >>> GridDescent().solve(problem).weights.round(4)
    array([1.35, 0.  ])
    """

    tol: float = 1e-2
    max_iter: int = 200
    max_sweeps: int = 400
    seed: int = 0
    n_jobs: int | None = None
    capabilities: ClassVar[Capabilities] = Capabilities(l1=True, matrix=_BINS_OR_DENSE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_sweeps > _MAX_SWEEPS:
            raise InputError(
                f"GridDescent: max_sweeps must be at most {_MAX_SWEEPS:,}, got "
                f"{self.max_sweeps!r}; raise max_iter for more rounds."
            )

    def begin(self, problem: Problem, start: Vector | None, has_callback: bool) -> _State:
        return _State(problem, start, self)


class _State:
    """The weights, responses (K, n_rows) and derivatives of all outputs."""

    def __init__(self, problem: Problem, start: Vector | None, options: GridDescent) -> None:
        self.problem, self.options, self.penalty = problem, options, problem.penalty
        matrix, n_jobs = problem.matrix, options.n_jobs
        self.descent: BinDescent | GramDescent = (
            BinDescent(matrix.row_lists, n_jobs)
            if matrix.has_row_lists
            else GramDescent(matrix, n_jobs)
        )
        self.losses = Losses(problem.loss, columns(problem.targets), problem.row_weights)
        targets, row_weights = self.losses.targets, self.losses.row_weights
        self.typical_curvature = problem.loss.typical_curvature(targets, row_weights)
        n_columns, n_outputs = problem.matrix.shape[1], targets.shape[1]
        self.n_penalised = problem.matrix.shape[1] - problem.penalty.n_free
        self.violations = np.zeros((n_outputs, n_columns))
        self.rounds = self.sweeps = self.slow_rounds = 0
        self.at_zero = np.full(n_outputs, np.inf)
        self._set_weights(initial_weights(problem))
        if start is None or self.penalty.l1 == 0.0 or self.penalty.n_free > 0:
            self._differentiate()
            self.at_zero = np.abs(self.gradient[: self.n_penalised]).max(axis=0, initial=0.0)
        if start is not None:
            self._set_weights(columns(start).astype(float))
            self._differentiate()
        self._update_residuals()
        if start is None and self.penalty.l1 > 0.0:
            self._solve_stronger_penalties()

    @property
    def scale(self) -> FloatArray:
        """The violation of optimality of each output to which ``tol`` is relative."""
        if self.penalty.l1 == 0.0:
            return self.at_zero
        min_l1 = _MIN_L1 * np.where(np.isfinite(self.at_zero), self.at_zero, 0.0)
        return np.minimum(np.maximum(self.penalty.l1, min_l1), self.at_zero)

    def _solve_stronger_penalties(self) -> None:
        """Solve stronger penalties approximately, so that few weights enter at a time."""
        strongest = float(self.at_zero.max()) / self.penalty.l1
        stronger = strongest / _PATH_FACTOR
        while stronger > max(_PATH_FACTOR, _MIN_L1 * strongest):
            self.penalty = self.problem.penalty.scaled(stronger)
            self._update_residuals()
            for _ in range(self.options.max_iter):
                if (self.relative <= _PATH_TOL).all() or not self.step():
                    break
            stronger /= _PATH_FACTOR
        self.penalty, self.slow_rounds = self.problem.penalty, 0
        self._update_residuals()

    def _set_weights(self, weights: Vector) -> None:
        self.weights, moves = weights, []
        for k, w in enumerate(weights.T):
            used = np.flatnonzero(w)
            moves.append(Move(k, used, np.zeros(len(used)), w[used]))
        self.responses = np.zeros(self.losses.targets.T.shape)
        self.descent.add_responses(moves, self.responses)

    def converged(self) -> bool:
        return bool((self.relative <= self.options.tol).all())

    def record(self) -> dict[str, float]:
        return {
            "objective": self._objective(),
            "residual": float(self.relative.max(initial=0.0)),
            "sweeps": float(self.sweeps),
            "non_zeros": float(np.count_nonzero(self.weights)),
        }

    def step(self) -> bool:
        """Minimise the models over the working sets; return False if no step helps."""
        last = self._objective()
        active = [(int(k),) for k in np.flatnonzero(self.relative > self.options.tol)]
        tasks = map_blocks(self._task, active, self.options.n_jobs)
        moves, shifts = self.descent.minimise(tasks), np.zeros_like(self.responses)
        self.descent.add_responses(moves, shifts)
        self.sweeps += sum(move.sweeps for move in moves)
        self.rounds += 1
        lengths = self._step_lengths(moves, shifts)
        for move in moves:
            length = lengths[move.output]
            new_weights = move.after if length == 1.0 else move.before + length * move.step
            self.weights[move.columns, move.output] = new_weights
        self.responses += lengths[:, None] * shifts
        self._differentiate()
        self._update_residuals()
        objective = self._objective()
        is_long = all(move.sweeps >= self.options.max_sweeps for move in moves)
        min_decrease = _MIN_DECREASE * self.options.max_sweeps * abs(objective)
        is_slow = is_long and last - objective < min_decrease
        self.slow_rounds = self.slow_rounds + 1 if is_slow else 0
        return bool(lengths.any()) and self.slow_rounds < _MAX_SLOW_ROUNDS

    def _objective(self) -> float:
        return float(self.mean_losses.sum()) + self.penalty.value(self.weights)

    def _task(self, k: int) -> Task:
        violations, weights, options = self.violations[k], self.weights[:, k], self.options
        # The columns with non-zero weights, and those that violate optimality most.
        is_in_set = weights != 0.0
        is_in_set[self.n_penalised :] = True
        new = np.flatnonzero((violations > 0.0) & ~is_in_set)
        max_new = max(_MIN_NEW_COLUMNS, int(np.count_nonzero(is_in_set)))
        if len(new) > max_new:
            new = new[np.argpartition(-violations[new], max_new)[:max_new]]
        is_in_set[new] = True
        columns = np.flatnonzero(is_in_set)
        worst = float(self.relative[k] * self.scale[k])
        min_tol = _MIN_INNER_TOL_SHARE * options.tol * float(self.scale[k])
        return Task(
            *(k, columns, weights[columns]),
            *(self.slopes[k], self.curvatures[k], self.gradient[:, k]),
            *(self.penalty, self.n_penalised),
            tols=(max(_INNER_TOL_SHARE * worst, min_tol), min_tol),
            max_sweeps=options.max_sweeps,
            orders=stream(options.seed, f"order of grids, output {k}", self.rounds),
        )

    def _step_lengths(self, moves: list[Move], shifts: Vector) -> FloatArray:
        """Return the step length of each output; coupled outputs have the same.

        The length is 0 if no step lowers the objective.
        """
        by_run, ones = self.losses.by_run, np.ones(len(self.responses))

        def value(lengths: FloatArray) -> FloatArray:
            mean_losses = self.losses.mean((self.responses + lengths[:, None] * shifts).T)
            return np.asarray(mean_losses + self._penalty_change(moves, lengths * ones))

        linear = by_run(np.einsum("kn,kn->k", self.slopes, shifts))
        slope = linear + self._penalty_change(moves, ones)
        # Both the losses and the responses are rounded; slopes turn the latter into a loss.
        sensitivity = by_run(np.abs(self.slopes * self.responses).sum(axis=1))
        rounding = ROUNDING * (np.abs(self.mean_losses) + sensitivity)
        return backtrack(value, self.mean_losses, slope, rounding)[0] * ones

    def _penalty_change(self, moves: list[Move], lengths: FloatArray) -> FloatArray:
        """Return the change of each run's penalty along its step."""
        penalty, changes = self.penalty, np.zeros(len(lengths))
        for move in moves:
            is_penalised = move.columns < self.n_penalised
            before = move.before[is_penalised]
            after = before + lengths[move.output] * move.step[is_penalised]
            l1_change = np.abs(after).sum() - np.abs(before).sum()
            l2_change = inner(after, after) - inner(before, before)
            changes[move.output] = penalty.l1 * l1_change + 0.5 * penalty.l2 * l2_change
        return self.losses.by_run(changes)

    def _differentiate(self) -> None:
        loss, z, targets = self.problem.loss, self.responses.T, self.losses.targets
        self.mean_losses = self.losses.mean(z)
        row_weights = self.losses.row_weights
        self.slopes = np.ascontiguousarray(loss.gradient(z, targets).T) * row_weights
        curvatures = np.ascontiguousarray(loss.curvature(z, targets).T)
        if loss.coupled:
            # diag(p) - p p' is below twice its diagonal (Gershgorin).
            curvatures *= 2.0
        np.maximum(curvatures, _MIN_CURVATURE * self.typical_curvature, out=curvatures)
        self.curvatures = curvatures * row_weights
        self.gradient = rmatvec(self.problem.matrix, np.ascontiguousarray(self.slopes.T))

    def _update_residuals(self) -> None:
        penalty, n_outputs = self.penalty, len(self.violations)

        def set_violations(a: int, b: int) -> list[float]:
            return [
                loops.violations(
                    *(self.gradient[:, k], self.weights[:, k], penalty.l1, penalty.l2),
                    *(self.n_penalised, a, b, self.violations[k]),
                )
                for k in range(n_outputs)
            ]

        blocks = row_blocks(len(self.weights), _COLUMNS_PER_BLOCK)
        largest = map_blocks(set_violations, blocks, self.options.n_jobs) or [[0.0] * n_outputs]
        worst = np.max(largest, axis=0)
        self.relative = np.divide(worst, self.scale, out=worst.copy(), where=self.scale > 0)
