"""Descent over grids: listing the rows of all bins, and sweeps over a working set.

A unit is a non-zero of the columns, or a column for ``violations``. A sweep must read each row
index at least twice, to sum the gradient of a bin and to change it, or once if no weight moves. The
gradient stays in the caches. ``descend`` runs a fixed number of sweeps, with curvatures that are
equal for all rows (the squared loss) or different. The peer is SciPy's product with all columns,
which also reads one row index per non-zero, in order.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from _timing import Case, draw_codes, memory_bandwidth, options, run

from gramless.base.threads import map_blocks, row_blocks, run_together
from gramless.loops import grid_descent as loops
from gramless.loops.row_lists import list_rows
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.row_lists import RowLists

QUICK = {"rows": 2000, "grids": 4, "bins": 20, "sweeps": 2}
NEVER_ZERO, ALWAYS_ZERO = 0.0, 1e3


class Listing:
    """The rows of all bins, listed part by part."""

    def __init__(self, matrix: BinnedMatrix, lists: RowLists) -> None:
        self.codes, self.lists = matrix.codes, lists
        self.rows, self.bounds = np.empty_like(lists.rows), np.empty_like(lists.bounds)

    def run(self, n_threads: int) -> None:
        lists = self.lists

        def sort(r: int) -> None:
            bounds_of_grid = slice(int(lists.offsets[r]) + r, int(lists.offsets[r + 1]) + r + 1)
            for p in range(len(lists.parts) - 1):
                part = slice(lists.parts[p], lists.parts[p + 1])
                list_rows(self.codes[r, part], self.rows[r, part], self.bounds[p, bounds_of_grid])

        map_blocks(sort, [(r,) for r in range(len(self.codes))], n_threads)


class WholeSet:
    """All columns as the working set; every call starts from zero, to do the same work."""

    def __init__(self, lists: RowLists, n_sweeps: int) -> None:
        rng = np.random.default_rng(1)
        self.lists, n_rows = lists, int(lists.parts[-1])
        self.n_parts, self.n_columns = len(lists.parts) - 1, int(lists.offsets[-1])
        self.grids, self.columns = np.arange(len(lists.values)), np.arange(self.n_columns)
        order = np.tile(self.grids, (n_sweeps, 1))
        self.orders = rng.permuted(order, axis=1)
        self.gradient = rng.normal(size=n_rows) / n_rows
        self.equal, self.different = np.full(1, 1.0 / n_rows), rng.gamma(1.0, size=n_rows) / n_rows
        self.changes, self.out = rng.normal(size=self.n_columns), np.empty(n_rows)
        self.sums = np.empty((self.n_parts, self.n_columns))
        self.far = np.empty(self.n_columns)
        # Larger than any bin's curvature, so that steps are short and weights stay bounded.
        self.curvature = np.full(self.n_columns, 2.0 * lists.values[0] ** 2)

    def add_columns(self, n_threads: int) -> None:
        lists = self.lists

        def add(p: int) -> None:
            loops.add_columns(
                *(lists.offsets, self.grids, self.columns, self.changes),
                *(lists.rows, lists.bounds, lists.parts, lists.values, p, self.out),
            )

        self.out[:] = 0.0
        map_blocks(add, [(p,) for p in range(self.n_parts)], n_threads)

    def sum_columns(self, n_threads: int) -> None:
        lists = self.lists

        def add_up(p: int) -> None:
            loops.sum_columns(
                *(lists.offsets, self.grids, self.columns, lists.rows, lists.bounds),
                *(lists.parts, lists.values, p, self.different, self.sums[p]),
            )

        map_blocks(add_up, [(p,) for p in range(self.n_parts)], n_threads)

    def violations(self, n_threads: int) -> None:
        def look(a: int, b: int) -> float:
            weights, n_columns = self.changes, self.n_columns
            return loops.violations(weights, weights, 0.1, 0.1, n_columns, a, b, self.far)

        map_blocks(look, row_blocks(self.n_columns, -(-self.n_columns // n_threads)), n_threads)

    def descend(self, n_threads: int, l1: float, row_curvatures: np.ndarray) -> None:
        lists = self.lists
        weights, gradient, worst = np.zeros(self.n_columns), self.gradient.copy(), np.zeros(2)
        no_tolerance = np.full(2, -1.0)
        max_bins = int(np.diff(lists.offsets).max())
        sums, changes = np.empty((self.n_parts, max_bins)), np.empty(max_bins)
        state = loops.descent_state(self.orders.size, self.n_parts)

        def sweep(thread: int, n_together: int) -> None:
            loops.descend(
                *(self.orders, lists.offsets, self.grids, self.columns, lists.rows),
                *(lists.bounds, lists.parts, lists.values, self.curvature, weights),
                *(l1, 0.0, self.n_columns, gradient, row_curvatures, int(len(row_curvatures) > 1)),
                *(no_tolerance, 0, sums, changes, worst, state, thread, n_together),
            )

        run_together(sweep, n_threads)


def all_cases(matrix: BinnedMatrix, args: argparse.Namespace) -> list[Case]:
    """Return every loop with one thread and with ``--jobs`` threads."""
    lists, v, peer = matrix.row_lists, np.ones(matrix.shape[0]), "scipy Z.T @ v"
    transposed, listing = matrix.tocsr().T, Listing(matrix, lists)
    working_set, index_bytes = WholeSet(lists, args.sweeps), lists.rows.dtype.itemsize
    n_stored = matrix.codes.size
    cases = [Case(peer, lambda: transposed @ v, "non-zero", n_stored, 12 * n_stored)]

    def add(
        name: str,
        call: Callable[[int], None],
        unit_bytes: float,
        *,
        times: int = 1,
        unit: str = "non-zero",
    ) -> None:
        units = times * (n_stored if unit == "non-zero" else matrix.shape[1])
        peer_or_none = peer if unit == "non-zero" else None
        for n in sorted({1, args.jobs}):
            label = f"{name}, {n} thread{'s' * (n > 1)}"
            moved = unit_bytes * units
            cases.append(Case(label, lambda n=n: call(n), unit, units, moved, peer=peer_or_none))

    add("list_rows", listing.run, 2 * matrix.codes.itemsize + index_bytes)
    add("add_columns", working_set.add_columns, index_bytes)
    add("sum_columns", working_set.sum_columns, index_bytes)
    add("violations", working_set.violations, 24, unit="column")
    for curvatures, kind in ((working_set.equal, "equal"), (working_set.different, "different")):
        for l1, label, passes in ((NEVER_ZERO, "all move", 2), (ALWAYS_ZERO, "none moves", 1)):
            add(
                f"descend, {label}, curvatures {kind}",
                lambda n, l1=l1, c=curvatures: working_set.descend(n, l1, c),
                passes * index_bytes,
                times=args.sweeps,
            )
    return cases


def main() -> None:
    args = options(__doc__, QUICK, rows=169_472, grids=64, bins=2000, sweeps=5, jobs=2)
    matrix = BinnedMatrix(*draw_codes(args), has_unseen=False, n_jobs=1)
    cases = all_cases(matrix, args)
    run(cases, args, {"memory": memory_bandwidth(args.jobs, args.quick)})


if __name__ == "__main__":
    main()
