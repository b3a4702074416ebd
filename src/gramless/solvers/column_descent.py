"""A few columns of any matrix, and descent over them on their Gram matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramless.base.arrays import inner
from gramless.base.memory import memory_budget
from gramless.base.threads import map_blocks, one_blas_thread
from gramless.loops import coordinate_descent as loops
from gramless.matrices.abilities import SupportsColumnGram
from gramless.matrices.base import Vector
from gramless.penalties import Penalty
from gramless.solvers.conjugate import matvec
from gramless.solvers.gram import BYTES_A_NUMBER, check_memory
from gramless.solvers.working_set import Task

_FEWEST_SWEEPS = 5
_COLUMNS_A_SWEEP = 30
"""Sweeps cost as much as a jump when there is one for so many columns in it."""

_GROWTH = 1.5
"""Of the columns whose Gram matrix is known, so that it is seldom computed anew."""

_WORTH_ALL = 0.5
"""Of all columns: where more are needed, the Gram matrix of all of them is."""

_REMEDY = "A stronger penalty leaves fewer, and RandomDescent needs none."


@dataclass
class ColumnSet:
    """Columns of one output, ascending, with their weights before and after the descent."""

    output: int
    columns: NDArray[np.int64]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    sweeps: int = 0

    @property
    def step(self) -> NDArray[np.float64]:
        """Change of the weights."""
        return self.after - self.before


@dataclass(frozen=True)
class _Known:
    """The Gram matrix of some columns, ascending, with these curvatures of the rows."""

    curvatures: NDArray[np.float64]
    columns: NDArray[np.int64]
    gram: NDArray[np.float64]

    def serves(self, curvatures: NDArray[np.float64], columns: NDArray[np.int64]) -> bool:
        """Tell whether it holds that of other columns."""
        within = np.isin(columns, self.columns, assume_unique=True).all()
        return bool(within) and np.array_equal(curvatures, self.curvatures)

    def of(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the Gram matrix of some of the columns."""
        if len(columns) == len(self.columns):
            return self.gram
        at = np.searchsorted(self.columns, columns)
        return self.gram[np.ix_(at, at)]


class GramDescent:
    """Descent over columns of a matrix that knows their Gram matrix.

    Outputs whose rows have the same curvatures share it, and so do rounds: with the
    squared loss it is computed for new columns only.

    Parameters
    ----------
    matrix : SupportsColumnGram
    n_jobs : int or None
    """

    def __init__(self, matrix: SupportsColumnGram, n_jobs: int | None) -> None:
        self.matrix, self.n_jobs = matrix, n_jobs
        self.known: _Known | None = None

    def chosen(self, output: int, columns: NDArray[np.int64], weights: Vector) -> ColumnSet:
        """Return ascending columns of an output as a working set."""
        return ColumnSet(output, columns, weights, weights)

    def minimise(
        self, outputs: list[int], task: Callable[[int], Task[ColumnSet]]
    ) -> list[ColumnSet]:
        """Minimise the models of some outputs over their working sets."""
        tasks = [task(k) for k in outputs]
        for alike in _alike(tasks):
            grams = self._gram_of(alike)

            def descend(own: Task[ColumnSet], known: _Known = grams) -> None:
                _descend(own, known.of(own.chosen.columns))

            with one_blas_thread():
                map_blocks(descend, [(own,) for own in alike], self.n_jobs)
        return [own.chosen for own in tasks]

    def add_responses(self, sets: list[ColumnSet], out: Vector) -> None:
        """Add the changes of the responses to ``out`` (K, n_rows): one matvec for all."""
        steps = np.zeros((self.matrix.shape[1], len(sets)))
        for k, chosen in enumerate(sets):
            steps[chosen.columns, k] = chosen.step
        if steps.any():
            out[[chosen.output for chosen in sets]] += matvec(self.matrix, steps).T

    def _gram_of(self, tasks: list[Task[ColumnSet]]) -> _Known:
        """Return the Gram matrix of all columns in some tasks of equal curvatures."""
        curvatures = tasks[0].model.curvatures
        columns = np.unique(np.concatenate([own.chosen.columns for own in tasks]))
        known = self.known
        if known is not None and known.serves(curvatures, columns):
            return known
        if known is not None and np.array_equal(known.curvatures, curvatures):
            columns = _more(np.union1d(columns, known.columns), len(known.columns), tasks)
        check_memory(len(columns), "columns in a working set", "GridDescent", _REMEDY)
        self.known = None
        gram = self.matrix.column_gram(curvatures, columns)
        self.known = _Known(curvatures, columns, gram)
        return self.known


def _more(
    columns: NDArray[np.int64], n_known: int, tasks: list[Task[ColumnSet]]
) -> NDArray[np.int64]:
    """Add the columns that will most likely be needed next: those of the largest gradients."""
    slopes = np.max([np.abs(own.gradient) for own in tasks], axis=0)
    most = min(len(slopes), int(np.sqrt(memory_budget() / BYTES_A_NUMBER)))
    wanted = int(_GROWTH * n_known)
    if max(wanted, len(columns)) > _WORTH_ALL * len(slopes) and most == len(slopes):
        return np.arange(len(slopes))
    n_more = min(wanted, most) - len(columns)
    if n_more <= 0:
        return columns
    slopes[columns] = -1.0
    return np.union1d(columns, np.argpartition(-slopes, n_more - 1)[:n_more])


def _alike(tasks: list[Task[ColumnSet]]) -> Iterator[list[Task[ColumnSet]]]:
    """Cut tasks into runs whose rows have the same curvatures."""
    run: list[Task[ColumnSet]] = []
    for own in tasks:
        if run and not np.array_equal(run[0].model.curvatures, own.model.curvatures):
            yield run
            run = []
        run.append(own)
    if run:
        yield run


def _descend(task: Task[ColumnSet], gram: NDArray[np.float64]) -> None:
    """Sweep over the columns, with jumps, until none is far from the model's minimum."""
    chosen, model = task.chosen, task.model
    penalised = chosen.columns < model.n_penalised
    quadratic = Quadratic(
        gram, task.gradient[chosen.columns], chosen.before.copy(), model.penalty, penalised
    )
    tol, n = task.tols[1], len(chosen.columns)
    while quadratic.distance() > tol and chosen.sweeps < task.max_sweeps:
        at_once = max(_FEWEST_SWEEPS, len(quadratic.support()) // _COLUMNS_A_SWEEP)
        at_once = min(at_once, task.max_sweeps - chosen.sweeps)
        order = task.orders.permuted(np.tile(np.arange(n), (at_once, 1)), axis=1)
        chosen.sweeps += quadratic.sweep(order, tol)
        if quadratic.distance() > tol:
            quadratic.jump()
    chosen.after = quadratic.weights


class Quadratic:
    """A quadratic model of the weights ``w`` of some columns, plus their penalty.

    Parameters
    ----------
    gram : array (n, n)
    gradient : array (n,)
        Of the model at ``weights``, without the penalty; written over.
    weights : array (n,)
        Written over.
    penalty : Penalty
    penalised : array (n,) of bool
        Which columns the penalty is on.
    """

    def __init__(
        self,
        gram: NDArray[np.float64],
        gradient: NDArray[np.float64],
        weights: NDArray[np.float64],
        penalty: Penalty,
        penalised: NDArray[np.bool_],
    ) -> None:
        self.gram, self.gradient, self.weights = gram, gradient, weights
        self.l1 = np.where(penalised, penalty.l1, 0.0)
        self.l2 = np.where(penalised, penalty.l2, 0.0)

    def distance(self) -> float:
        """Return how far the worst weight is from optimal."""
        slope = self.gradient + self.l2 * self.weights
        at_zero = np.maximum(np.abs(slope) - self.l1, 0.0)
        inside = np.abs(slope + self.l1 * np.sign(self.weights))
        return float(np.where(self.weights == 0.0, at_zero, inside).max(initial=0.0))

    def support(self) -> NDArray[np.intp]:
        """Return the weights at which the penalty is smooth."""
        return np.flatnonzero((self.weights != 0.0) | (self.l1 == 0.0))

    def sweep(self, orders: NDArray[np.int64], tol: float) -> int:
        """Move one weight after the other to its minimum; return how many sweeps were made."""
        state = (self.gram, self.gradient, self.weights, self.l1, self.l2)
        return int(loops.sweep(*state, orders, tol))

    def jump(self) -> None:
        """Go towards the minimum over all weights at once whose signs stay as they are.

        As far as the first sign that would change, or all the way with those weights
        at zero, whichever is lower; nowhere where neither is lower or the Gram matrix
        of the support is singular.
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

    def _take_lowest(
        self, support: NDArray[np.intp], candidates: tuple[NDArray[np.float64], ...]
    ) -> None:
        """Take the candidate with the lowest model, if it is lower than the present weights."""
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
