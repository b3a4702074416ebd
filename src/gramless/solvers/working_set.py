"""Coordinate descent on quadratic models of a working set, over bins or on a Gram matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramless.base.arrays import inner
from gramless.base.memory import large_array_budget_for
from gramless.base.threads import map_blocks, one_blas_thread, run_together, thread_count
from gramless.base.types import FloatArray, IntArray
from gramless.loops import coordinate_descent, grid_descent
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.row_lists import RowLists
from gramless.penalties import Penalty
from gramless.solvers.direct import BYTES_PER_NUMBER, check_gram_memory
from gramless.solvers.vectors import matvec


@dataclass(frozen=True)
class Task:
    """A quadratic model of one output, to be minimised over a working set of ascending columns.

    The model is ``sum_i slopes_i d_i + curvatures_i d_i^2 / 2 + penalty``, where d is the change of
    the responses. The ``gradient`` of the loss is that of all columns; those from ``n_penalised``
    on are free. ``orders`` draws the order of each sweep, and ``max_sweeps`` limits their number.
    For ``tols``, see :meth:`BinDescent.descend`.
    """

    output: int
    columns: IntArray
    weights: Vector
    slopes: FloatArray
    curvatures: FloatArray
    gradient: FloatArray
    penalty: Penalty
    n_penalised: int
    tols: tuple[float, float]
    max_sweeps: int
    orders: np.random.Generator

    def make_move(self, after: Vector, sweeps: int) -> Move:
        return Move(self.output, self.columns, self.weights, after, sweeps)


@dataclass(frozen=True)
class Move:
    """The weights of ascending columns of one output, before and after some sweeps."""

    output: int
    columns: IntArray
    before: Vector
    after: Vector
    sweeps: int = 0

    @property
    def step(self) -> Vector:
        return self.after - self.before


@dataclass(frozen=True)
class BinDescent:
    """Descent over bins of grids, by lists of the rows of each bin."""

    lists: RowLists
    n_jobs: int | None

    def minimise(self, tasks: list[Task]) -> list[Move]:
        return map_blocks(self.descend, [(task,) for task in tasks], self.n_jobs)

    def descend(self, task: Task, worth_threads: int = 1 << 16) -> Move:
        """Sweep until no weight moves by more than a tolerance, in units of the gradient.

        The tolerance is ``tols[1]`` until the sweeps have cost as much as a gradient of all
        columns, because until then another sweep is cheaper; after that it is ``tols[0]``, which is
        larger. Working sets with fewer than ``worth_threads`` non-zeros use one thread: several
        would mostly wait for each other.
        """
        lists, penalty = self.lists, task.penalty
        grid, grids, starts = self.group_by_grid(task.columns)
        first = task.columns + grid
        sizes = (lists.bounds[:, first + 1] - lists.bounds[:, first]).sum(axis=0, dtype=np.int64)
        of_rows, of_columns = self._curvatures(task, sizes)
        # Fixed orders of the grids take two to three times as many sweeps.
        order = task.orders.permuted(np.tile(np.arange(len(grids)), (task.max_sweeps, 1)), axis=1)
        n_parts, max_bins = len(lists.parts) - 1, int(np.diff(starts).max())
        sums, changes, worst = np.empty((n_parts, max_bins)), np.empty(max_bins), np.zeros(2)
        slopes, weights = task.slopes.copy(), task.weights.copy()
        state = grid_descent.descent_state(order.size, n_parts)
        n_cheap_sweeps = lists.rows.size // max(1, 2 * int(sizes.sum()))

        def sweep(thread: int, n_threads: int) -> None:
            grid_descent.descend(
                *(order, starts, grids, task.columns, lists.rows, lists.bounds),
                *(lists.parts, lists.values, of_columns, weights, penalty.l1, penalty.l2),
                *(task.n_penalised, slopes, of_rows, int(len(of_rows) > 1)),
                *(np.array(task.tols), n_cheap_sweeps),
                *(sums, changes, worst, state, thread, n_threads),
            )

        is_small = int(sizes.sum()) < worth_threads
        run_together(sweep, 1 if is_small else min(thread_count(self.n_jobs), n_parts))
        return task.make_move(weights, grid_descent.turns_taken(state) // len(grids))

    def add_responses(self, moves: list[Move], out: Vector) -> None:
        """Add the changes of the responses to ``out`` (K, n_rows)."""
        for move in moves:
            self._add(move, out[move.output])

    def _add(self, move: Move, out: Vector) -> None:
        lists, step = self.lists, move.step
        _, grids, starts = self.group_by_grid(move.columns)

        def add(p: int) -> None:
            grid_descent.add_columns(
                *(starts, grids, move.columns, step),
                *(lists.rows, lists.bounds, lists.parts, lists.values, p, out),
            )

        map_blocks(add, [(p,) for p in range(len(lists.parts) - 1)], self.n_jobs)

    def group_by_grid(self, columns: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return the grid of each ascending column, the grids, and the starts of their columns."""
        grid = np.searchsorted(self.lists.offsets, columns, side="right") - 1
        grids, starts = np.unique(grid, return_index=True)
        return grid, grids, np.append(starts, len(grid))

    def _curvatures(self, task: Task, sizes: IntArray) -> tuple[Vector, Vector]:
        """Return the curvatures of the rows, as one number if all are equal, and of the columns."""
        lists, of_rows = self.lists, task.curvatures
        grid, grids, starts = self.group_by_grid(task.columns)
        if of_rows.min() == of_rows.max():
            return of_rows[:1], of_rows[0] * sizes * lists.values[grid] ** 2
        total, part = np.zeros(len(sizes)), np.empty(len(sizes))
        for p in range(len(lists.parts) - 1):
            grid_descent.sum_columns(
                *(starts, grids, task.columns, lists.rows, lists.bounds),
                *(lists.parts, lists.values, p, of_rows, part),
            )
            total += part
        return of_rows, total


_MIN_SWEEPS_PER_JUMP = 5
# A jump over n columns costs as much as n / 30 sweeps, so that sweeps and jumps take equal time.
_COLUMNS_PER_SWEEP = 30
# When columns are missing, the Gram matrix is recomputed for this many times as many columns, if
# they fit into memory, so that it is seldom recomputed.
_GRAM_GROWTH = 1.5
# The Gram matrix of all columns is computed if more than this share is wanted.
_ALL_COLUMNS_SHARE = 0.5

_REMEDY = "raise alpha for fewer columns, or use RandomDescent, which needs no Gram matrix"


@dataclass(frozen=True)
class _WeightedGram:
    curvatures: FloatArray
    columns: IntArray
    gram: FloatArray

    def of(self, columns: IntArray) -> FloatArray:
        if len(columns) == len(self.columns):
            return self.gram
        positions = np.searchsorted(self.columns, columns)
        return self.gram[np.ix_(positions, positions)]


class GramDescent:
    """Descent over columns of a matrix, on their Gram matrix.

    Outputs and rounds with equal curvatures of the rows share the Gram matrix: with the squared
    loss it is recomputed only if columns are missing.
    """

    def __init__(self, matrix: FeatureMatrix, n_jobs: int | None) -> None:
        self.matrix, self.n_jobs = matrix, n_jobs
        self.cached: _WeightedGram | None = None

    def minimise(self, tasks: list[Task]) -> list[Move]:
        moves: list[Move] = []
        for group in _group_by_curvatures(tasks):
            gram = self._gram_of(group)

            def descend(task: Task, gram: _WeightedGram = gram) -> Move:
                return _minimise_on_gram(task, gram.of(task.columns))

            with one_blas_thread():
                moves += map_blocks(descend, [(task,) for task in group], self.n_jobs)
        return moves

    def add_responses(self, moves: list[Move], out: Vector) -> None:
        """Add the changes of the responses to ``out`` (K, n_rows), by one matvec for all moves."""
        steps = np.zeros((self.matrix.shape[1], len(moves)))
        for k, move in enumerate(moves):
            steps[move.columns, k] = move.step
        if steps.any():
            out[[move.output for move in moves]] += matvec(self.matrix, steps).T

    def _gram_of(self, tasks: list[Task]) -> _WeightedGram:
        curvatures, cached = tasks[0].curvatures, self.cached
        columns = np.unique(np.concatenate([task.columns for task in tasks]))
        if cached is not None and np.array_equal(curvatures, cached.curvatures):
            if np.isin(columns, cached.columns, assume_unique=True).all():
                return cached
            columns = _add_promising_columns(
                np.union1d(columns, cached.columns), len(cached.columns), tasks
            )
        check_gram_memory(len(columns), "columns in a working set", "GridDescent", _REMEDY)
        # The old matrix is freed before the new one is allocated.
        self.cached = cached = None
        gram = self.matrix.column_gram(curvatures, columns)
        self.cached = _WeightedGram(curvatures, columns, gram)
        return self.cached


def _add_promising_columns(columns: IntArray, n_cached: int, tasks: list[Task]) -> IntArray:
    """Add the columns most likely to be needed next, which have the largest gradients.

    The result is all columns if more than half are wanted and their Gram matrix fits into memory,
    and ``columns`` if memory allows no more.
    """
    slopes = np.max([np.abs(task.gradient) for task in tasks], axis=0)
    n_bytes = large_array_budget_for(BYTES_PER_NUMBER * len(slopes) ** 2)
    max_columns = min(len(slopes), int(np.sqrt(n_bytes / BYTES_PER_NUMBER)))
    n_wanted = int(_GRAM_GROWTH * n_cached)
    if max(n_wanted, len(columns)) > _ALL_COLUMNS_SHARE * len(slopes) and max_columns == len(
        slopes
    ):
        return np.arange(len(slopes))
    n_more = min(n_wanted, max_columns) - len(columns)
    if n_more <= 0:
        return columns
    slopes[columns] = -1.0
    return np.union1d(columns, np.argpartition(-slopes, n_more - 1)[:n_more])


def _group_by_curvatures(tasks: list[Task]) -> Iterator[list[Task]]:
    first = 0
    for last in range(1, len(tasks) + 1):
        curvatures = tasks[first].curvatures
        if last == len(tasks) or not np.array_equal(curvatures, tasks[last].curvatures):
            yield tasks[first:last]
            first = last


def _minimise_on_gram(task: Task, gram: FloatArray) -> Move:
    """Alternate sweeps and jumps until all weights are near the minimum, or out of sweeps."""
    is_penalised = task.columns < task.n_penalised
    l1, l2 = (np.where(is_penalised, c, 0.0) for c in (task.penalty.l1, task.penalty.l2))
    gradient, weights = task.gradient[task.columns], task.weights.copy()
    quadratic = Quadratic(gram, gradient, weights, l1, l2)
    tol, sweeps = task.tols[1], 0
    while quadratic.distance() > tol and sweeps < task.max_sweeps:
        n_sweeps = max(_MIN_SWEEPS_PER_JUMP, len(quadratic.support()) // _COLUMNS_PER_SWEEP)
        n_sweeps = min(n_sweeps, task.max_sweeps - sweeps)
        order = np.tile(np.arange(len(weights)), (n_sweeps, 1))
        sweeps += quadratic.sweep(task.orders.permuted(order, axis=1), tol)
        if quadratic.distance() > tol:
            quadratic.jump()
    return task.make_move(quadratic.weights, sweeps)


@dataclass
class Quadratic:
    """A quadratic model of the weights of n columns, plus their penalties ``l1`` and ``l2``.

    ``gradient`` is that of the model at ``weights``, without the penalty; both change in place.
    """

    gram: FloatArray
    gradient: FloatArray
    weights: FloatArray
    l1: FloatArray
    l2: FloatArray

    def distance(self) -> float:
        """Return the largest violation of optimality by a weight."""
        slope = self.gradient + self.l2 * self.weights
        at_zero = np.maximum(np.abs(slope) - self.l1, 0.0)
        elsewhere = np.abs(slope + self.l1 * np.sign(self.weights))
        return float(np.where(self.weights == 0.0, at_zero, elsewhere).max(initial=0.0))

    def support(self) -> NDArray[np.intp]:
        """Return the indices of weights at which the penalty is smooth."""
        return np.flatnonzero((self.weights != 0.0) | (self.l1 == 0.0))

    def sweep(self, orders: IntArray, tol: float) -> int:
        state = (self.gram, self.gradient, self.weights, self.l1, self.l2)
        return int(coordinate_descent.sweep(*state, orders, tol))

    def jump(self) -> None:
        """Move all weights of the support at once towards their joint minimum.

        There are two candidates: the point of the first change of a sign, and the joint minimum
        with the weights that change their signs set to zero. The weights become the lower one.
        They do not change if neither is lower, or if the Gram matrix of the support is singular.
        """
        support = self.support()
        if len(support) == 0:
            return
        w, l1, l2 = self.weights[support], self.l1[support], self.l2[support]
        slope = self.gradient[support] + l2 * w + l1 * np.sign(w)
        hessian = np.array(self.gram[np.ix_(support, support)], order="F")
        hessian[np.diag_indices_from(hessian)] += l2
        _, direction, failed = scipy.linalg.lapack.dposv(hessian, -slope, lower=1)
        if failed:
            return
        changes_sign = (l1 > 0.0) & (direction * w < 0.0) & (np.abs(direction) > np.abs(w))
        lengths = np.divide(-w, direction, out=np.ones_like(w), where=changes_sign)
        first = float(lengths.min())
        candidates = (
            np.where(changes_sign, 0.0, w + direction),
            np.where(changes_sign & (lengths == first), 0.0, w + first * direction),
        )
        rows = self.gram[support]
        lowest = 0.0
        best: tuple[Vector, Vector] | None = None
        for candidate in candidates:
            move = candidate - w
            gradient_change = move @ rows
            change = inner(move, self.gradient[support] + 0.5 * gradient_change[support])
            change += float(l1 @ (np.abs(candidate) - np.abs(w)))
            change += 0.5 * float(l2 @ (candidate**2 - w**2))
            if change < lowest:
                lowest, best = change, (candidate, gradient_change)
        if best is not None:
            self.weights[support] = best[0]
            self.gradient += best[1]
