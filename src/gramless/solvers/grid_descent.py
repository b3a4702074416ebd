"""Descent with working sets, over grids, whose bins move at once, or over columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gramless.base.arrays import inner
from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import FloatArray, IntArray
from gramless.loops import grid_descent as loops
from gramless.matrices.base import Vector
from gramless.solvers.base import Capabilities, IterativeSolver, MatrixNeed, check_start
from gramless.solvers.line_search import ROUNDING, Losses, backtrack
from gramless.solvers.objective import Problem, columns, initial_weights
from gramless.solvers.vectors import rmatvec
from gramless.solvers.working_set import BinDescent, GramDescent, Move, Task

_PATH_FACTOR = 3.0
_PATH_TOL = 0.3
"""Ratio of the stronger penalties that are solved first, and their tolerance."""

_LEAST_L1 = 1e-12
"""Relative to the largest gradient at zero weights, weaker penalties are below rounding."""
_FEWEST_COLUMNS = 128
_INNER_SHARE = 0.2
_LAST_SHARE = 0.5
_COLUMNS_AT_ONCE = 1 << 17
_LEAST_CURVATURE = 1e-3
_LEAST_FALL, _MOST_SLOW_ROUNDS = 2.5e-10, 3
"""Of the objective, a sweep, in rounds of as many sweeps as may be; so many in a row are the last.
"""
_MOST_SWEEPS = 10_000
"""A limit, since all orders are drawn before the first sweep."""

_BINS_OR_DENSE = MatrixNeed(
    "a matrix of bins, whose columns are disjoint within a grid, or one with a column_gram",
    lambda matrix: matrix.has_row_lists or matrix.has_column_gram,
    "RandomDescent takes any matrix, and so does NewtonCG where the penalty is smooth.",
)


@dataclass(frozen=True)
class GridDescent(IterativeSolver):
    """Descent over grids, or columns, with working sets, for L1, elastic net and L2 penalties.

    RB16's Algorithm 2 draws one bin at a time. Here all bins of a grid move at once, each to
    the minimum of its own quadratic model, which is exact because they share no row. Grids
    take turns in a new random order each sweep. Only a working set of bins takes part; the
    worst of all others, by the gradient, join it until none violates optimality, so the
    solution is that of the whole problem. Losses other than the squared one get a new model
    each round (proximal Newton with a line search; Lee, Sun & Saunders 2014).

    For columns without zeros the model of a working set is its Gram matrix. Columns take
    turns on it, as in glmnet's covariance updates (Friedman, Hastie & Tibshirani 2010), and
    between sweeps all weights that keep their signs jump to their joint minimum.

    Parameters
    ----------
    tol : float, default=1e-2
        An output has converged when no weight is further from optimal (KKT residual)
        than ``tol`` times the penalty's ``l1``, or the largest gradient at zero
        weights where that is smaller or there is no ``l1``.
    max_iter : int, default=200
        Rounds, each with a gradient of all bins.
    max_sweeps : int, default=400
        Sweeps over the working set in a round.
    seed : int, default=0
        Of the orders of grids or columns.
    n_jobs : int or None, default=None
        Threads. Results do not depend on it.

    Notes
    -----
    A round takes two or three products with all rows and grids; a sweep some 2 ns of a core
    for each row of each bin in the working set. Lists of the rows of all bins take 2 or 4
    bytes a non-zero beside the codes. Without bins, the Gram matrix of a working set takes 16
    bytes times the square of its size, and n_rows times that square in operations, once for
    squared losses and once a round and output for others.

    The history also holds ``sweeps`` so far and ``non_zeros``, the number of weights that are not
    zero. Without a start, stronger penalties are roughly solved first; of their rounds only the
    sweeps are counted. Status ``"stalled"`` means that no step lowered the objective any more, or
    that three rounds of ``max_sweeps`` lowered it by less than 2.5e-10 of it a sweep.

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
        if self.max_sweeps > _MOST_SWEEPS:
            raise InputError(
                f"GridDescent: max_sweeps must be at most {_MOST_SWEEPS:,}, got "
                f"{self.max_sweeps!r}; take more rounds by max_iter."
            )

    def begin(self, problem: Problem, start: Vector | None, watched: bool) -> _State:
        return _State(problem, start, self)


class _State:
    """Weights, responses (K, n_rows) and derivatives of all outputs, for a penalty."""

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
        self.far = np.zeros((n_outputs, n_columns))
        self.rounds = self.sweeps = self.slow_rounds = 0
        self.at_zero = np.full(n_outputs, np.inf)
        self._begin_at(initial_weights(problem))
        if start is None or self.penalty.l1 == 0.0 or self.penalty.n_free > 0:
            self._differentiate()
            self.at_zero = np.abs(self.gradient[: self.n_penalised]).max(axis=0, initial=0.0)
        if start is not None:
            weights = columns(start).astype(float)
            check_start(weights, (n_columns, n_outputs), "GridDescent")
            self._begin_at(weights)
            self._differentiate()
        self._compare()
        if start is None and self.penalty.l1 > 0.0:
            self._approach()

    @property
    def scale(self) -> FloatArray:
        """What ``tol`` is relative to, per output."""
        if self.penalty.l1 == 0.0:
            return self.at_zero
        least = _LEAST_L1 * np.where(np.isfinite(self.at_zero), self.at_zero, 0.0)
        return np.minimum(np.maximum(self.penalty.l1, least), self.at_zero)

    def _approach(self) -> None:
        """Roughly solve stronger penalties first, so that few weights enter at a time."""
        strongest = float(self.at_zero.max()) / self.penalty.l1
        stronger = strongest / _PATH_FACTOR
        while stronger > max(_PATH_FACTOR, _LEAST_L1 * strongest):
            self.penalty = self.problem.penalty.scaled(stronger)
            self._compare()
            for _ in range(self.options.max_iter):
                if (self.relative <= _PATH_TOL).all() or not self.step():
                    break
            stronger /= _PATH_FACTOR
        self.penalty, self.slow_rounds = self.problem.penalty, 0
        self._compare()

    def _begin_at(self, weights: Vector) -> None:
        """Set the weights, and the responses to them."""
        self.weights, moves = weights, []
        for k, own in enumerate(weights.T):
            used = np.flatnonzero(own)
            moves.append(Move(k, used, np.zeros(len(used)), own[used]))
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
        """Minimise the models over the working sets; False when no step lowers the objective."""
        before = self._objective()
        active = [(int(k),) for k in np.flatnonzero(self.relative > self.options.tol)]
        tasks = map_blocks(self._task, active, self.options.n_jobs)
        moves, shifts = self.descent.minimise(tasks), np.zeros_like(self.responses)
        self.descent.add_responses(moves, shifts)
        self.sweeps += sum(move.sweeps for move in moves)
        self.rounds += 1
        lengths = self._search(moves, shifts)
        for move in moves:
            length = lengths[move.output]
            reached = move.after if length == 1.0 else move.before + length * move.step
            self.weights[move.columns, move.output] = reached
        self.responses += lengths[:, None] * shifts
        self._differentiate()
        self._compare()
        after = self._objective()
        is_long = all(move.sweeps >= self.options.max_sweeps for move in moves)
        least = _LEAST_FALL * self.options.max_sweeps * abs(after)
        is_slow = is_long and before - after < least
        self.slow_rounds = self.slow_rounds + 1 if is_slow else 0
        return bool(lengths.any()) and self.slow_rounds < _MOST_SLOW_ROUNDS

    def _objective(self) -> float:
        return float(self.mean_losses.sum()) + self.penalty.value(self.weights)

    def _task(self, k: int) -> Task:
        """Return the working set of an output with its model and tolerances."""
        options, columns = self.options, self._choose(k)
        worst = float(self.relative[k] * self.scale[k])
        last = _LAST_SHARE * options.tol * float(self.scale[k])
        return Task(
            *(k, columns, self.weights[columns, k]),
            *(self.slopes[k], self.curvatures[k], self.gradient[:, k]),
            *(self.penalty, self.n_penalised),
            tols=(max(_INNER_SHARE * worst, last), last),
            max_sweeps=options.max_sweeps,
            orders=stream(options.seed, f"order of grids, output {k}", self.rounds),
        )

    def _choose(self, k: int) -> IntArray:
        """Return the columns with weights other than zero, and at most as many that lack one."""
        far, weights = self.far[k], self.weights[:, k]
        inside = weights != 0.0
        inside[self.n_penalised :] = True
        outside = np.flatnonzero((far > 0.0) & ~inside)
        room = max(_FEWEST_COLUMNS, int(np.count_nonzero(inside)))
        if len(outside) > room:
            outside = outside[np.argpartition(-far[outside], room)[:room]]
        inside[outside] = True
        return np.flatnonzero(inside)

    def _search(self, moves: list[Move], shifts: Vector) -> FloatArray:
        """Return a length of the step for each output, the same for coupled ones; 0 if none helps.

        The rounding of the mean losses is theirs, and that of the responses times the slopes.
        """
        by_run, ones = self.losses.by_run, np.ones(len(self.responses))

        def value(lengths: FloatArray) -> FloatArray:
            there = self.losses.mean((self.responses + lengths[:, None] * shifts).T)
            return np.asarray(there + self._penalty_change(moves, lengths * ones))

        linear = by_run(np.einsum("kn,kn->k", self.slopes, shifts))
        slope = linear + self._penalty_change(moves, ones)
        sensitivity = by_run(np.abs(self.slopes * self.responses).sum(axis=1))
        rounding = ROUNDING * (np.abs(self.mean_losses) + sensitivity)
        return backtrack(value, self.mean_losses, slope, rounding)[0] * ones

    def _penalty_change(self, moves: list[Move], lengths: FloatArray) -> FloatArray:
        """Return the change of each run's penalty along its step."""
        penalty, changes = self.penalty, np.zeros(len(lengths))
        for move in moves:
            kept = move.columns < self.n_penalised
            before = move.before[kept]
            there = before + lengths[move.output] * move.step[kept]
            sizes = np.abs(there).sum() - np.abs(before).sum()
            squares = inner(there, there) - inner(before, before)
            changes[move.output] = penalty.l1 * sizes + 0.5 * penalty.l2 * squares
        return self.losses.by_run(changes)

    def _differentiate(self) -> None:
        """Set losses, slopes, curvatures and the gradient of all columns at the responses."""
        loss, z, targets = self.problem.loss, self.responses.T, self.losses.targets
        self.mean_losses = self.losses.mean(z)
        row_weights = self.losses.row_weights
        self.slopes = np.ascontiguousarray(loss.gradient(z, targets).T) * row_weights
        curvatures = np.ascontiguousarray(loss.curvature(z, targets).T)
        if loss.coupled:
            # diag(p) - p p' is below twice its diagonal (Gershgorin).
            curvatures *= 2.0
        np.maximum(curvatures, _LEAST_CURVATURE * self.typical_curvature, out=curvatures)
        self.curvatures = curvatures * row_weights
        self.gradient = rmatvec(self.problem.matrix, np.ascontiguousarray(self.slopes.T))

    def _compare(self) -> None:
        """Set the distance of each weight from optimal, and the largest relative to the scale."""
        penalty = self.penalty

        def look(a: int, b: int) -> list[float]:
            return [
                loops.violations(
                    *(self.gradient[:, k], self.weights[:, k], penalty.l1, penalty.l2),
                    *(self.n_penalised, a, b, self.far[k]),
                )
                for k in range(len(self.far))
            ]

        blocks = row_blocks(len(self.weights), _COLUMNS_AT_ONCE)
        found = map_blocks(look, blocks, self.options.n_jobs) or [[0.0] * len(self.far)]
        worst = np.max(found, axis=0)
        self.relative = np.divide(worst, self.scale, out=worst.copy(), where=self.scale > 0)
