"""Coordinate descent on quadratic models of a few columns: over bins, or on a Gram matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramless.base.arrays import inner
from gramless.base.memory import memory_budget
from gramless.base.threads import map_blocks, one_blas_thread, run_together, thread_count
from gramless.loops import coordinate_descent, grid_descent
from gramless.matrices.abilities import SupportsColumnGram
from gramless.matrices.base import Vector
from gramless.matrices.row_lists import RowLists
from gramless.penalties import Penalty
from gramless.solvers.direct import BYTES_A_NUMBER, check_memory
from gramless.solvers.vectors import matvec


@dataclass(frozen=True)
class Model:
    """``sum_i slopes_i d_i + curvatures_i d_i^2 / 2 + penalty``, d the change of the responses.

    Columns from ``n_penalised`` on are free.
    """

    slopes: NDArray[np.float64]
    curvatures: NDArray[np.float64]
    penalty: Penalty
    n_penalised: int


@dataclass(kw_only=True)
class Chosen:
    """Ascending columns of one output, with their weights before and after the descent."""

    output: int
    columns: NDArray[np.int64]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    sweeps: int = 0

    @property
    def step(self) -> NDArray[np.float64]:
        """The change of the weights."""
        return self.after - self.before


Set = TypeVar("Set", bound=Chosen)


@dataclass(frozen=True)
class Task(Generic[Set]):
    """A model to minimise over a working set, with the gradient of the loss (n_columns,).

    :meth:`WorkingSet.descend` explains ``tols``; ``orders`` draws the order of each sweep.
    """

    chosen: Set
    model: Model
    gradient: NDArray[np.float64]
    tols: tuple[float, float]
    max_sweeps: int
    orders: np.random.Generator


class Descent(Protocol[Set]):
    """Descent over working sets of the columns of a matrix."""

    def chosen(self, output: int, columns: NDArray[np.int64], weights: Vector) -> Set:
        """Return a working set of an output: ascending columns and their weights."""

    def minimise(self, outputs: list[int], task: Callable[[int], Task[Set]]) -> list[Set]:
        """Minimise the models of some outputs over their working sets."""

    def add_responses(self, sets: list[Set], out: Vector) -> None:
        """Add the changes of the responses to ``out`` (K, n_rows)."""


@dataclass(kw_only=True)
class WorkingSet(Chosen):
    """Ascending columns of one output, cut at ``starts`` by the ``grids`` they belong to."""

    lists: RowLists
    starts: NDArray[np.int64]
    grids: NDArray[np.int64]

    @classmethod
    def of(
        cls, lists: RowLists, output: int, columns: NDArray[np.int64], weights: Vector
    ) -> WorkingSet:
        """Group ascending columns by their grids."""
        grid = np.searchsorted(lists.offsets, columns, side="right") - 1
        grids, starts = np.unique(grid, return_index=True)
        return cls(
            output=output,
            columns=columns,
            before=weights,
            after=weights,
            lists=lists,
            starts=np.append(starts, len(grid)),
            grids=grids,
        )

    def descend(
        self,
        model: Model,
        tols: tuple[float, float],
        max_sweeps: int,
        orders: np.random.Generator,
        n_jobs: int | None,
        worth_threads: int = 1 << 16,
    ) -> None:
        """Sweep until no weight moves by more than ``tols[0]``, in units of the gradient.

        While the sweeps have cost less than a gradient of all columns, the tighter ``tols[1]``
        applies: going on is then cheaper than looking at all columns again. Each sweep has a new
        random order of the grids; fixed orders take two to three times as many sweeps. With fewer
        than ``worth_threads`` non-zeros, threads would mostly wait for each other.
        """
        lists, penalty, sizes = self.lists, model.penalty, self._sizes()
        of_rows, of_columns = self._curvatures(model, sizes)
        order = np.tile(np.arange(len(self.grids)), (max_sweeps, 1))
        order = orders.permuted(order, axis=1)
        n_parts, most = len(lists.parts) - 1, int(np.diff(self.starts).max())
        sums, changes, worst = np.empty((n_parts, most)), np.empty(most), np.zeros(2)
        slopes, weights = model.slopes.copy(), self.before.copy()
        state = grid_descent.descent_state(order.size, n_parts)
        least = lists.rows.size // max(1, 2 * int(sizes.sum()))

        def sweep(thread: int, n_threads: int) -> None:
            grid_descent.descend(
                *(order, self.starts, self.grids, self.columns, lists.rows, lists.bounds),
                *(lists.parts, lists.values, of_columns, weights, penalty.l1, penalty.l2),
                *(model.n_penalised, slopes, of_rows, int(len(of_rows) > 1)),
                *(np.array(tols), least),
                *(sums, changes, worst, state, thread, n_threads),
            )

        alone = int(sizes.sum()) < worth_threads
        run_together(sweep, 1 if alone else min(thread_count(n_jobs), n_parts))
        self.after = weights
        self.sweeps = grid_descent.turns_taken(state) // len(self.grids)

    def add_responses(self, out: Vector, n_jobs: int | None) -> None:
        """Add the change of the responses to ``out`` (n_rows,)."""
        lists, step = self.lists, self.step

        def add(p: int) -> None:
            grid_descent.add_columns(
                *(self.starts, self.grids, self.columns, step),
                *(lists.rows, lists.bounds, lists.parts, lists.values, p, out),
            )

        map_blocks(add, [(p,) for p in range(len(lists.parts) - 1)], n_jobs)

    def _sizes(self) -> NDArray[np.int64]:
        """Return the number of rows of each column."""
        first, bounds = self.columns + self._by_column(self.grids), self.lists.bounds
        return (bounds[:, first + 1] - bounds[:, first]).sum(axis=0, dtype=np.int64)

    def _curvatures(self, model: Model, sizes: NDArray[np.int64]) -> tuple[Vector, Vector]:
        """Return the curvatures of the rows, one number if all are equal, and of the columns."""
        lists, of_rows = self.lists, model.curvatures
        if of_rows.min() == of_rows.max():
            return of_rows[:1], of_rows[0] * sizes * self._by_column(lists.values[self.grids]) ** 2
        total, part = np.zeros(len(sizes)), np.empty(len(sizes))
        for p in range(len(lists.parts) - 1):
            grid_descent.sum_columns(
                *(self.starts, self.grids, self.columns, lists.rows, lists.bounds),
                *(lists.parts, lists.values, p, of_rows, part),
            )
            total += part
        return of_rows, total

    def _by_column(self, of_grids: NDArray) -> NDArray:
        return np.repeat(of_grids, np.diff(self.starts))


@dataclass(frozen=True)
class BinDescent:
    """Descent over the bins of a matrix, grid by grid."""

    lists: RowLists
    n_jobs: int | None

    def chosen(self, output: int, columns: NDArray[np.int64], weights: Vector) -> WorkingSet:
        """Return a working set of an output."""
        return WorkingSet.of(self.lists, output, columns, weights)

    def minimise(
        self, outputs: list[int], task: Callable[[int], Task[WorkingSet]]
    ) -> list[WorkingSet]:
        """Minimise the models of some outputs over their working sets, in parallel."""

        def descend(output: int) -> WorkingSet:
            own = task(output)
            own.chosen.descend(own.model, own.tols, own.max_sweeps, own.orders, self.n_jobs)
            return own.chosen

        return map_blocks(descend, [(k,) for k in outputs], self.n_jobs)

    def add_responses(self, sets: list[WorkingSet], out: Vector) -> None:
        """Add the changes of the responses to ``out`` (K, n_rows)."""
        for chosen in sets:
            chosen.add_responses(out[chosen.output], self.n_jobs)


_FEWEST_SWEEPS = 5
_COLUMNS_A_SWEEP = 30
"""A sweep for every so many columns of a jump: then both cost the same."""

_GROWTH = 1.5
"""The Gram matrix grows by this factor at least, so that it is seldom recomputed."""

_WORTH_ALL = 0.5
"""Above this fraction of all columns, compute the Gram matrix of all."""

_REMEDY = "A stronger penalty leaves fewer, and RandomDescent needs none."


@dataclass(frozen=True)
class _Known:
    """The Gram matrix of some ascending columns, weighted by the curvatures of the rows."""

    curvatures: NDArray[np.float64]
    columns: NDArray[np.int64]
    gram: NDArray[np.float64]

    def serves(self, curvatures: NDArray[np.float64], columns: NDArray[np.int64]) -> bool:
        """Tell whether it contains the Gram matrix of these columns."""
        within = np.isin(columns, self.columns, assume_unique=True).all()
        return bool(within) and np.array_equal(curvatures, self.curvatures)

    def of(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
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

    def __init__(self, matrix: SupportsColumnGram, n_jobs: int | None) -> None:
        self.matrix, self.n_jobs = matrix, n_jobs
        self.known: _Known | None = None

    def chosen(self, output: int, columns: NDArray[np.int64], weights: Vector) -> Chosen:
        """Return a working set of an output."""
        return Chosen(output=output, columns=columns, before=weights, after=weights)

    def minimise(self, outputs: list[int], task: Callable[[int], Task[Chosen]]) -> list[Chosen]:
        """Minimise the models of some outputs over their working sets."""
        tasks = [task(k) for k in outputs]
        for alike in _alike(tasks):
            grams = self._gram_of(alike)

            def descend(own: Task[Chosen], known: _Known = grams) -> None:
                _descend(own, known.of(own.chosen.columns))

            with one_blas_thread():
                map_blocks(descend, [(own,) for own in alike], self.n_jobs)
        return [own.chosen for own in tasks]

    def add_responses(self, sets: list[Chosen], out: Vector) -> None:
        """Add the changes of the responses to ``out`` (K, n_rows): one matvec for all."""
        steps = np.zeros((self.matrix.shape[1], len(sets)))
        for k, chosen in enumerate(sets):
            steps[chosen.columns, k] = chosen.step
        if steps.any():
            out[[chosen.output for chosen in sets]] += matvec(self.matrix, steps).T

    def _gram_of(self, tasks: list[Task[Chosen]]) -> _Known:
        """Return the Gram matrix of all columns of some tasks with equal curvatures."""
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


def _more(columns: NDArray[np.int64], n_known: int, tasks: list[Task[Chosen]]) -> NDArray[np.int64]:
    """Add the columns most likely to be needed next: those with the largest gradients."""
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


def _alike(tasks: list[Task[Chosen]]) -> Iterator[list[Task[Chosen]]]:
    """Cut the tasks into runs with equal curvatures of the rows."""
    run: list[Task[Chosen]] = []
    for own in tasks:
        if run and not np.array_equal(run[0].model.curvatures, own.model.curvatures):
            yield run
            run = []
        run.append(own)
    if run:
        yield run


def _descend(task: Task[Chosen], gram: NDArray[np.float64]) -> None:
    """Alternate sweeps and jumps until no weight is far from the model's minimum."""
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
    """A quadratic model of the weights of n columns, plus their penalty.

    ``gradient`` is that of the model at ``weights``, without the penalty; both are written over.
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
        """Return the indices of weights at which the penalty is smooth."""
        return np.flatnonzero((self.weights != 0.0) | (self.l1 == 0.0))

    def sweep(self, orders: NDArray[np.int64], tol: float) -> int:
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

    def _take_lowest(
        self, support: NDArray[np.intp], candidates: tuple[NDArray[np.float64], ...]
    ) -> None:
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
