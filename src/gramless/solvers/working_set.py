"""Coordinate descent on quadratic models of a few columns: over bins, or on a Gram matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramless.base.arrays import inner
from gramless.base.memory import memory_for
from gramless.base.threads import map_blocks, one_blas_thread, run_together, thread_count
from gramless.base.types import FloatArray, IntArray
from gramless.loops import coordinate_descent, grid_descent
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.row_lists import RowLists
from gramless.penalties import Penalty
from gramless.solvers.direct import BYTES_A_NUMBER, check_gram_memory
from gramless.solvers.vectors import matvec


@dataclass(frozen=True)
class Task:
    """What is to be minimised over some ascending columns of one output, with their weights.

    ``sum_i slopes_i d_i + curvatures_i d_i^2 / 2 + penalty``, d the change of the responses. The
    ``gradient`` of the loss is that by all columns; those from ``n_penalised`` on are free.
    ``orders`` draws the order of each sweep; sweeps end as :meth:`BinDescent.descend` says.
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

    def moved(self, after: Vector, sweeps: int) -> Move:
        return Move(self.output, self.columns, self.weights, after, sweeps)


@dataclass(frozen=True)
class Move:
    """Ascending columns of one output, with their weights before and after some sweeps."""

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
    """Descent over the bins of a matrix, grid by grid."""

    lists: RowLists
    n_jobs: int | None

    def minimise(self, tasks: list[Task]) -> list[Move]:
        """Minimise each task over its columns."""
        return map_blocks(self.descend, [(own,) for own in tasks], self.n_jobs)

    def descend(self, task: Task, worth_threads: int = 1 << 16) -> Move:
        """Sweep until no weight moves by more than ``tols[0]``, in units of the gradient.

        While the sweeps have cost less than a gradient of all columns, the tighter ``tols[1]``
        applies: going on is then cheaper than looking at all columns again. Each sweep has a new
        random order of the grids; fixed orders take two to three times as many sweeps. With fewer
        than ``worth_threads`` non-zeros, threads would mostly wait for each other.
        """
        lists, penalty = self.lists, task.penalty
        grid, grids, starts = self.grouped(task.columns)
        first = task.columns + grid
        sizes = (lists.bounds[:, first + 1] - lists.bounds[:, first]).sum(axis=0, dtype=np.int64)
        of_rows, of_columns = self._curvatures(task, sizes)
        order = task.orders.permuted(np.tile(np.arange(len(grids)), (task.max_sweeps, 1)), axis=1)
        n_parts, most = len(lists.parts) - 1, int(np.diff(starts).max())
        sums, changes, worst = np.empty((n_parts, most)), np.empty(most), np.zeros(2)
        slopes, weights = task.slopes.copy(), task.weights.copy()
        state = grid_descent.descent_state(order.size, n_parts)
        least = lists.rows.size // max(1, 2 * int(sizes.sum()))

        def sweep(thread: int, n_threads: int) -> None:
            grid_descent.descend(
                *(order, starts, grids, task.columns, lists.rows, lists.bounds),
                *(lists.parts, lists.values, of_columns, weights, penalty.l1, penalty.l2),
                *(task.n_penalised, slopes, of_rows, int(len(of_rows) > 1)),
                *(np.array(task.tols), least),
                *(sums, changes, worst, state, thread, n_threads),
            )

        alone = int(sizes.sum()) < worth_threads
        run_together(sweep, 1 if alone else min(thread_count(self.n_jobs), n_parts))
        return task.moved(weights, grid_descent.turns_taken(state) // len(grids))

    def add_responses(self, moves: list[Move], out: Vector) -> None:
        """Add the changes of the responses to ``out`` (K, n_rows)."""
        for move in moves:
            self._add(move, out[move.output])

    def _add(self, move: Move, out: Vector) -> None:
        lists, step = self.lists, move.step
        _, grids, starts = self.grouped(move.columns)

        def add(p: int) -> None:
            grid_descent.add_columns(
                *(starts, grids, move.columns, step),
                *(lists.rows, lists.bounds, lists.parts, lists.values, p, out),
            )

        map_blocks(add, [(p,) for p in range(len(lists.parts) - 1)], self.n_jobs)

    def grouped(self, columns: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return the grid of each ascending column, the grids, and where their columns start."""
        grid = np.searchsorted(self.lists.offsets, columns, side="right") - 1
        grids, starts = np.unique(grid, return_index=True)
        return grid, grids, np.append(starts, len(grid))

    def _curvatures(self, task: Task, sizes: IntArray) -> tuple[Vector, Vector]:
        """Return the curvatures of the rows, one number if all are equal, and of the columns."""
        lists, of_rows = self.lists, task.curvatures
        grid, grids, starts = self.grouped(task.columns)
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


_FEWEST_SWEEPS = 5
_COLUMNS_A_SWEEP = 30
"""A sweep for every so many columns of a jump: then both cost the same."""

_GROWTH = 1.5
"""The Gram matrix grows by this factor at least, so that it is seldom recomputed."""

_WORTH_ALL = 0.5
"""Above this fraction of all columns, compute the Gram matrix of all."""

_REMEDY = "raise alpha, which leaves fewer, or use RandomDescent, which needs none"


@dataclass(frozen=True)
class _Known:
    """The Gram matrix of some ascending columns, weighted by the curvatures of the rows."""

    curvatures: FloatArray
    columns: IntArray
    gram: FloatArray

    def of(self, columns: IntArray) -> FloatArray:
        """Return the Gram matrix of some of the columns."""
        if len(columns) == len(self.columns):
            return self.gram
        at = np.searchsorted(self.columns, columns)
        return self.gram[np.ix_(at, at)]


class GramDescent:
    """Descent over columns of a matrix, on their Gram matrix.

    Outputs and rounds with the same curvatures of the rows share it: with the squared loss it is
    computed again only when columns are missing.
    """

    def __init__(self, matrix: FeatureMatrix, n_jobs: int | None) -> None:
        self.matrix, self.n_jobs = matrix, n_jobs
        self.known: _Known | None = None

    def minimise(self, tasks: list[Task]) -> list[Move]:
        """Minimise each task over its columns."""
        moves: list[Move] = []
        for alike in _alike(tasks):
            known = self._gram_of(alike)

            def descend(task: Task, known: _Known = known) -> Move:
                return _descend(task, known.of(task.columns))

            with one_blas_thread():
                moves += map_blocks(descend, [(own,) for own in alike], self.n_jobs)
        return moves

    def add_responses(self, moves: list[Move], out: Vector) -> None:
        """Add the changes of the responses to ``out`` (K, n_rows): one matvec for all."""
        steps = np.zeros((self.matrix.shape[1], len(moves)))
        for k, move in enumerate(moves):
            steps[move.columns, k] = move.step
        if steps.any():
            out[[move.output for move in moves]] += matvec(self.matrix, steps).T

    def _gram_of(self, tasks: list[Task]) -> _Known:
        """Return the Gram matrix of all columns of some tasks with equal curvatures."""
        curvatures, known = tasks[0].curvatures, self.known
        columns = np.unique(np.concatenate([own.columns for own in tasks]))
        if known is not None and np.array_equal(curvatures, known.curvatures):
            if np.isin(columns, known.columns, assume_unique=True).all():
                return known
            columns = _more(np.union1d(columns, known.columns), len(known.columns), tasks)
        check_gram_memory(len(columns), "columns in a working set", "GridDescent", _REMEDY)
        self.known = known = None
        self.known = _Known(curvatures, columns, self.matrix.column_gram(curvatures, columns))
        return self.known


def _more(columns: IntArray, n_known: int, tasks: list[Task]) -> IntArray:
    """Add the columns most likely to be needed next: those with the largest gradients."""
    slopes = np.max([np.abs(own.gradient) for own in tasks], axis=0)
    n_bytes = memory_for(BYTES_A_NUMBER * len(slopes) ** 2)
    most = min(len(slopes), int(np.sqrt(n_bytes / BYTES_A_NUMBER)))
    wanted = int(_GROWTH * n_known)
    if max(wanted, len(columns)) > _WORTH_ALL * len(slopes) and most == len(slopes):
        return np.arange(len(slopes))
    n_more = min(wanted, most) - len(columns)
    if n_more <= 0:
        return columns
    slopes[columns] = -1.0
    return np.union1d(columns, np.argpartition(-slopes, n_more - 1)[:n_more])


def _alike(tasks: list[Task]) -> Iterator[list[Task]]:
    """Cut the tasks into runs with equal curvatures of the rows."""
    first = 0
    for last in range(1, len(tasks) + 1):
        own = tasks[first].curvatures
        if last == len(tasks) or not np.array_equal(own, tasks[last].curvatures):
            yield tasks[first:last]
            first = last


def _descend(task: Task, gram: FloatArray) -> Move:
    """Alternate sweeps and jumps until no weight is far from the model's minimum."""
    penalised = task.columns < task.n_penalised
    l1, l2 = (np.where(penalised, own, 0.0) for own in (task.penalty.l1, task.penalty.l2))
    gradient, weights = task.gradient[task.columns], task.weights.copy()
    quadratic = Quadratic(gram, gradient, weights, l1, l2)
    tol, sweeps = task.tols[1], 0
    while quadratic.distance() > tol and sweeps < task.max_sweeps:
        at_once = max(_FEWEST_SWEEPS, len(quadratic.support()) // _COLUMNS_A_SWEEP)
        at_once = min(at_once, task.max_sweeps - sweeps)
        order = np.tile(np.arange(len(weights)), (at_once, 1))
        sweeps += quadratic.sweep(task.orders.permuted(order, axis=1), tol)
        if quadratic.distance() > tol:
            quadratic.jump()
    return task.moved(quadratic.weights, sweeps)


@dataclass
class Quadratic:
    """A quadratic model of the weights of n columns, plus the penalties ``l1`` and ``l2`` of each.

    ``gradient`` is that of the model at ``weights``, without the penalty; both are written over.
    """

    gram: FloatArray
    gradient: FloatArray
    weights: FloatArray
    l1: FloatArray
    l2: FloatArray

    def distance(self) -> float:
        """Return how far the worst weight is from optimal."""
        slope = self.gradient + self.l2 * self.weights
        at_zero = np.maximum(np.abs(slope) - self.l1, 0.0)
        inside = np.abs(slope + self.l1 * np.sign(self.weights))
        return float(np.where(self.weights == 0.0, at_zero, inside).max(initial=0.0))

    def support(self) -> NDArray[np.intp]:
        """Return the indices of weights at which the penalty is smooth."""
        return np.flatnonzero((self.weights != 0.0) | (self.l1 == 0.0))

    def sweep(self, orders: IntArray, tol: float) -> int:
        """Move each weight in turn to its minimum; return how many sweeps were made."""
        state = (self.gram, self.gradient, self.weights, self.l1, self.l2)
        return int(coordinate_descent.sweep(*state, orders, tol))

    def jump(self) -> None:
        """Move all weights of the support at once towards their joint minimum.

        Either up to the first change of a sign, or all the way with the weights that would change
        signs at zero, whichever is lower. The weights stay where neither is lower, or where the
        Gram matrix of the support is singular.
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
        crossing = (l1 > 0.0) & (direction * w < 0.0) & (np.abs(direction) > np.abs(w))
        lengths = np.divide(-w, direction, out=np.ones_like(w), where=crossing)
        first = float(lengths.min())
        candidates = (
            np.where(crossing, 0.0, w + direction),
            np.where(crossing & (lengths == first), 0.0, w + first * direction),
        )
        self._take_lowest(support, candidates)

    def _take_lowest(self, support: NDArray[np.intp], candidates: tuple[FloatArray, ...]) -> None:
        """Take the candidate with the lowest model, if it is lower than at the present weights."""
        w, rows = self.weights[support], self.gram[support]
        best = 0.0
        found: tuple[Vector, Vector] | None = None
        for there in candidates:
            move = there - w
            turned = move @ rows
            change = inner(move, self.gradient[support] + 0.5 * turned[support])
            change += float(self.l1[support] @ (np.abs(there) - np.abs(w)))
            change += 0.5 * float(self.l2[support] @ (there**2 - w**2))
            if change < best:
                best, found = change, (there, turned)
        if found is not None:
            self.weights[support] = found[0]
            self.gradient += found[1]
