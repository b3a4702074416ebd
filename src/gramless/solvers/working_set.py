"""A few columns, and descent over them on a quadratic model; by grids where there are bins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.threads import map_blocks, run_together, thread_count
from gramless.loops import grid_descent as loops
from gramless.matrices.base import Vector
from gramless.matrices.row_lists import RowLists
from gramless.penalties import Penalty

_WORTH_THREADS = 1 << 16
"""Non-zeros a sweep; with fewer, threads would mostly wait for each other."""


@dataclass(frozen=True)
class Model:
    """``sum_i slopes_i d_i + curvatures_i d_i^2 / 2 + penalty``, d the change of the responses.

    The penalty leaves columns from ``n_penalised`` on alone.
    """

    slopes: NDArray[np.float64]
    curvatures: NDArray[np.float64]
    penalty: Penalty
    n_penalised: int


class Chosen(Protocol):
    """Columns of one output, ascending, with their weights before and after the descent."""

    output: int
    columns: NDArray[np.int64]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    sweeps: int

    @property
    def step(self) -> NDArray[np.float64]:
        """Change of the weights."""


Set = TypeVar("Set", bound=Chosen)


@dataclass(frozen=True)
class Task(Generic[Set]):
    """A working set and what is to be minimised over it, and how well.

    Attributes
    ----------
    chosen : Chosen
    model : Model
    gradient : array (n_columns,)
        Of the loss at the present weights.
    tols : (float, float)
        See :meth:`WorkingSet.descend`.
    max_sweeps : int
    orders : numpy.random.Generator
        Draws the order of each sweep.
    """

    chosen: Set
    model: Model
    gradient: NDArray[np.float64]
    tols: tuple[float, float]
    max_sweeps: int
    orders: np.random.Generator


class Descent(Protocol[Set]):
    """What descent over working sets needs of a matrix."""

    def chosen(self, output: int, columns: NDArray[np.int64], weights: Vector) -> Set:
        """Return ascending columns of an output, with their weights, as a working set."""

    def minimise(self, outputs: list[int], task: Callable[[int], Task[Set]]) -> list[Set]:
        """Minimise the models of some outputs over their working sets."""

    def add_responses(self, sets: list[Set], out: Vector) -> None:
        """Add the changes of the responses to ``out`` (K, n_rows)."""


@dataclass
class WorkingSet:
    """Columns of one output, ascending, with their weights before and after the descent.

    ``starts`` cuts them by grids, whose numbers are ``grids``.
    """

    lists: RowLists
    output: int
    columns: NDArray[np.int64]
    starts: NDArray[np.int64]
    grids: NDArray[np.int64]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    sweeps: int = 0

    @classmethod
    def of(
        cls, lists: RowLists, output: int, columns: NDArray[np.int64], weights: Vector
    ) -> WorkingSet:
        """Group ascending columns by their grids."""
        grid = np.searchsorted(lists.offsets, columns, side="right") - 1
        grids, starts = np.unique(grid, return_index=True)
        return cls(lists, output, columns, np.append(starts, len(grid)), grids, weights, weights)

    @property
    def step(self) -> NDArray[np.float64]:
        """Change of the weights."""
        return self.after - self.before

    def descend(
        self,
        model: Model,
        tols: tuple[float, float],
        max_sweeps: int,
        orders: np.random.Generator,
        n_jobs: int | None,
    ) -> None:
        """Sweep until no weight moves by more than ``tols[0]``, as a gradient.

        Until the sweeps have cost as much as a gradient of all columns, ``tols[1]``
        is what ends them: a better model is then cheaper than another look at all.
        The grids' order is drawn anew for each sweep: fixed orders take two to three
        times as many sweeps.
        """
        lists, penalty, sizes = self.lists, model.penalty, self._sizes()
        of_rows, of_columns = self._curvatures(model, sizes)
        order = np.tile(np.arange(len(self.grids)), (max_sweeps, 1))
        order = orders.permuted(order, axis=1)
        n_parts, most = len(lists.parts) - 1, int(np.diff(self.starts).max())
        sums, changes, worst = np.empty((n_parts, most)), np.empty(most), np.zeros(2)
        slopes, weights = model.slopes.copy(), self.before.copy()
        state = loops.descent_state(order.size, n_parts)
        least = lists.rows.size // max(1, 2 * int(sizes.sum()))

        def sweep(thread: int, n_threads: int) -> None:
            loops.descend(
                *(order, self.starts, self.grids, self.columns, lists.rows, lists.bounds),
                *(lists.parts, lists.values, of_columns, weights, penalty.l1, penalty.l2),
                *(model.n_penalised, slopes, of_rows, int(len(of_rows) > 1)),
                *(np.array(tols), least),
                *(sums, changes, worst, state, thread, n_threads),
            )

        run_together(sweep, self._threads(sizes, n_jobs))
        self.after = weights
        self.sweeps = loops.turns_taken(state) // len(self.grids)

    def add_responses(self, out: Vector, n_jobs: int | None) -> None:
        """Add the change of the responses to ``out`` (n_rows,)."""
        lists, step = self.lists, self.step

        def add(p: int) -> None:
            loops.add_columns(
                *(self.starts, self.grids, self.columns, step),
                *(lists.rows, lists.bounds, lists.parts, lists.values, p, out),
            )

        map_blocks(add, [(p,) for p in range(len(lists.parts) - 1)], n_jobs)

    def _sizes(self) -> NDArray[np.int64]:
        """Return the number of rows of each column."""
        first, bounds = self.columns + self._by_column(self.grids), self.lists.bounds
        return (bounds[:, first + 1] - bounds[:, first]).sum(axis=0, dtype=np.int64)

    def _curvatures(self, model: Model, sizes: NDArray[np.int64]) -> tuple[Vector, Vector]:
        """Return the curvatures of rows, one number if all are alike, and of the columns."""
        lists, of_rows = self.lists, model.curvatures
        if of_rows.min() == of_rows.max():
            return of_rows[:1], of_rows[0] * sizes * self._by_column(lists.values[self.grids]) ** 2
        total, part = np.zeros(len(sizes)), np.empty(len(sizes))
        for p in range(len(lists.parts) - 1):
            loops.sum_columns(
                *(self.starts, self.grids, self.columns, lists.rows, lists.bounds),
                *(lists.parts, lists.values, p, of_rows, part),
            )
            total += part
        return of_rows, total

    def _by_column(self, of_grids: NDArray) -> NDArray:
        return np.repeat(of_grids, np.diff(self.starts))

    def _threads(self, sizes: NDArray[np.int64], n_jobs: int | None) -> int:
        """Return how many threads are worth it; each owns parts of the rows."""
        if int(sizes.sum()) < _WORTH_THREADS:
            return 1
        return min(thread_count(n_jobs), len(self.lists.parts) - 1)


@dataclass(frozen=True)
class BinDescent:
    """Descent over the bins of a matrix, grid by grid."""

    lists: RowLists
    n_jobs: int | None

    def chosen(self, output: int, columns: NDArray[np.int64], weights: Vector) -> WorkingSet:
        """Return ascending columns of an output as a working set."""
        return WorkingSet.of(self.lists, output, columns, weights)

    def minimise(
        self, outputs: list[int], task: Callable[[int], Task[WorkingSet]]
    ) -> list[WorkingSet]:
        """Minimise the models of some outputs over their working sets, side by side."""

        def descend(output: int) -> WorkingSet:
            own = task(output)
            own.chosen.descend(own.model, own.tols, own.max_sweeps, own.orders, self.n_jobs)
            return own.chosen

        return map_blocks(descend, [(k,) for k in outputs], self.n_jobs)

    def add_responses(self, sets: list[WorkingSet], out: Vector) -> None:
        """Add the changes of the responses to ``out`` (K, n_rows)."""
        for chosen in sets:
            chosen.add_responses(out[chosen.output], self.n_jobs)
