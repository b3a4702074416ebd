"""Descent over grids against slow references over dense arrays, also in several threads at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.loops import grid_descent as loops
from gramless.penalties import ElasticNet
from tests.solvers.pairwise import each_value

Array = NDArray[np.float64]

PARTS = {
    "one part": [0, 40],
    "two parts": [0, 20, 40],
    "seven parts": [0, 1, 9, 9, 20, 33, 39, 40],
}
PENALTIES = {"none": (0.0, 0.0), "l1": (0.02, 0.0), "l2": (0.0, 0.03), "net": (0.01, 0.05)}


@dataclass(frozen=True)
class Lists:
    """The rows of every column, written down the slow way, and the dense matrix."""

    dense: Array
    offsets: NDArray[np.int64]
    values: Array
    parts: NDArray[np.int64]
    rows: NDArray[Any]
    bounds: NDArray[np.uint32]

    def chosen(self, columns: list[int]) -> tuple[NDArray[np.int64], ...]:
        """Return starts, grids and columns as the loops take them."""
        grid = [int(np.sum(self.offsets <= j)) - 1 for j in columns]
        grids = sorted(set(grid))
        starts = [grid.index(g) for g in grids] + [len(columns)]
        return np.array(starts), np.array(grids), np.array(columns)


def make_lists(parts: list[int], dtype: type = np.uint16, seed: int = 0) -> Lists:
    """Draw three grids, one with an empty bin and some rows in none, and a column of ones."""
    rng, n_rows = np.random.default_rng(seed), parts[-1]
    sizes, values = [5, 1, 4, 1], np.array([0.5, 2.0, -0.7, 1.0])
    codes = [rng.integers(0, 5, n_rows), np.ones(n_rows, int), rng.integers(0, 5, n_rows)]
    codes.append(np.ones(n_rows, int))
    codes[0][codes[0] == 2] = 5
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    dense, rows = np.zeros((n_rows, offsets[-1])), np.full((4, n_rows), 77, dtype)
    bounds = np.zeros((len(parts) - 1, offsets[-1] + 4), np.uint32)
    for g in range(4):
        for b in range(sizes[g]):
            dense[codes[g] == b + 1, offsets[g] + b] = values[g]
        for p in range(len(parts) - 1):
            part, place = codes[g][parts[p] : parts[p + 1]], 0
            for b in range(sizes[g]):
                bounds[p, offsets[g] + g + b] = place
                part_rows = np.flatnonzero(part == b + 1)
                rows[g, parts[p] + place : parts[p] + place + len(part_rows)] = part_rows
                place += len(part_rows)
            bounds[p, offsets[g] + g + sizes[g]] = place
    return Lists(dense, offsets, values, np.array(parts), rows, bounds)


CHOSEN = {
    "all columns": list(range(11)),
    "some columns": [0, 2, 5, 7, 8],
    "one grid": [6, 7, 9],
    "one column": [4],
    "an empty bin": [1, 3, 10],
    "the ones": [10],
}


class Descent:
    """A quadratic model, a penalty and an order; for the loop and for the slow way."""

    def __init__(
        self,
        lists: Lists,
        columns: list[int],
        penalty: tuple[float, float],
        *,
        equal_curvatures: bool,
        tols: tuple[float, float] = (-1.0, -1.0),
        least: int = 0,
        n_sweeps: int = 7,
        n_penalised: int = 10,
    ) -> None:
        rng = np.random.default_rng(3)
        n_rows = len(lists.dense)
        self.lists, self.n_penalised = lists, n_penalised
        self.tols, self.least = np.array(tols), least
        self.l1, self.l2 = penalty
        self.starts, self.grids, self.columns = lists.chosen(columns)
        self.before = np.where(rng.random(len(columns)) < 0.5, rng.normal(size=len(columns)), 0.0)
        self.slopes = rng.normal(size=n_rows) / n_rows
        self.row_curvatures = (
            np.full(n_rows, 0.025) if equal_curvatures else rng.gamma(1.0, size=n_rows) / 40
        )
        self.stride, self.given = (
            int(not equal_curvatures),
            self.row_curvatures[: 1 if equal_curvatures else n_rows],
        )
        self.curvature = self.row_curvatures @ lists.dense[:, columns] ** 2
        order = np.tile(np.arange(len(self.grids)), (n_sweeps, 1))
        self.orders = rng.permuted(order, axis=1)

    def run(self, *threads: int, n_threads: int = 1, wait: float = 0.0) -> tuple[Any, ...]:
        """Return weights, slopes, the moves of the last sweep and turns; some threads may run."""
        n_parts, most = len(self.lists.parts) - 1, int(np.diff(self.starts).max())
        weights, slopes, worst = self.before.copy(), self.slopes.copy(), np.zeros(2)
        state = loops.descent_state(self.orders.size, n_parts)
        # What is only room may hold anything.
        sums, changes = np.full((n_parts, most), np.nan), np.full(most, np.nan)

        def descend(thread: int) -> None:
            time.sleep(wait * thread)
            loops.descend(
                *(self.orders, self.starts, self.grids, self.columns),
                *(self.lists.rows, self.lists.bounds, self.lists.parts, self.lists.values),
                *(self.curvature, weights, self.l1, self.l2, self.n_penalised),
                *(slopes, self.given, self.stride, self.tols, self.least),
                *(sums, changes, worst, state, thread, n_threads),
            )

        if len(threads) <= 1:
            descend(threads[0] if threads else 0)
        else:
            with ThreadPoolExecutor(len(threads)) as pool:
                for each in [pool.submit(descend, thread) for thread in threads]:
                    each.result(timeout=30)
        return weights, slopes, worst[1], loops.turns_taken(state)

    def reference(self) -> tuple[Any, ...]:
        """Move bin by bin over dense columns, the slopes anew after each."""
        weights, slopes, turns, worst = self.before.copy(), self.slopes.copy(), 0, 0.0
        for sweep, order in enumerate(self.orders, 1):
            worst = 0.0
            for g in order:
                turns += 1
                for k in range(self.starts[g], self.starts[g + 1]):
                    column = self.lists.dense[:, self.columns[k]]
                    free = self.columns[k] >= self.n_penalised
                    l1, l2 = (0.0, 0.0) if free else (self.l1, self.l2)
                    c = float(self.row_curvatures @ column**2)
                    new = minimum(weights[k], float(slopes @ column), c, l1, l2)
                    move, weights[k] = new - weights[k], new
                    slopes = slopes + move * self.row_curvatures * column
                    worst = max(worst, abs(move) * (c + l2))
            if worst <= self.tols[int(sweep < self.least)]:
                break
        return weights, slopes, worst, turns


def minimum(w: float, gradient: float, curvature: float, l1: float, l2: float) -> float:
    """Minimise ``gradient (v - w) + curvature (v - w)^2 / 2 + l1 |v| + l2 v^2 / 2``."""
    if curvature == 0.0:
        return 0.0 if l1 + l2 > 0.0 else w
    penalty = ElasticNet(l1 + l2, l1 / (l1 + l2) if l1 + l2 else 0.5)
    return float(penalty.prox(np.array([w - gradient / curvature]), 1.0 / curvature)[0])


# Sweeps.


@pytest.mark.parametrize(
    ("columns", "penalty", "parts", "equal_curvatures"),
    each_value(CHOSEN.values(), PENALTIES.values(), PARTS.values(), [True, False]),
)
def test_sweeps_match_the_slow_implementation(
    columns: list[int], penalty: tuple[float, float], parts: list[int], equal_curvatures: bool
) -> None:
    descent = Descent(make_lists(parts), columns, penalty, equal_curvatures=equal_curvatures)
    weights, slopes, worst, turns = descent.run()
    expected = descent.reference()
    np.testing.assert_allclose(weights, expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(slopes, expected[1], rtol=1e-10, atol=1e-13)
    assert worst == pytest.approx(expected[2], rel=1e-8, abs=1e-14)
    assert turns == expected[3]


@given(
    st.lists(st.integers(0, 10), min_size=1, max_size=11, unique=True).map(sorted),
    st.lists(st.integers(0, 40), max_size=6).map(lambda cuts: [0, *sorted(cuts), 40]),
    st.sampled_from([0.0, 0.01, 0.1]),
    st.sampled_from([0.0, 0.05, 3.0]),
    st.booleans(),
    st.integers(0, 11),
    st.integers(0, 4),
    st.integers(0, 10**6),
)
def test_random_sweeps_match_the_slow_implementation(
    columns: list[int],
    parts: list[int],
    l1: float,
    l2: float,
    equal_curvatures: bool,
    n_penalised: int,
    n_sweeps: int,
    seed: int,
) -> None:
    lists = make_lists(parts, seed=seed)
    options: dict[str, Any] = {"n_penalised": n_penalised, "n_sweeps": n_sweeps}
    descent = Descent(lists, columns, (l1, l2), equal_curvatures=equal_curvatures, **options)
    weights, slopes, worst, turns = descent.run()
    expected = descent.reference()
    np.testing.assert_allclose(weights, expected[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(slopes, expected[1], rtol=1e-10, atol=1e-12)
    assert worst == pytest.approx(expected[2], rel=1e-8, abs=1e-12)
    assert turns == expected[3] == n_sweeps * len(descent.grids)


@pytest.mark.parametrize(
    ("tol", "least", "parts", "equal_curvatures"),
    [
        (*limits, parts, equal_curvatures)
        for limits, parts, equal_curvatures in each_value(
            [(1e-1, 400), (1e-2, 4), (1e-4, 1), (1e-6, 0), (1e-6, 400)],
            PARTS.values(),
            [True, False],
        )
    ],
)
def test_small_moves_stop_the_sweeps(
    tol: float, least: int, parts: list[int], equal_curvatures: bool
) -> None:
    options: dict[str, Any] = {"tols": (tol, 0.01 * tol), "least": least, "n_sweeps": 500}
    columns = CHOSEN["all columns"]
    descent = Descent(
        make_lists(parts), columns, (0.01, 0.02), equal_curvatures=equal_curvatures, **options
    )
    weights, slopes, worst, turns = descent.run()
    expected = descent.reference()
    assert turns == expected[3] < 500 * 4
    assert worst <= tol
    np.testing.assert_allclose(weights, expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(slopes, expected[1], rtol=1e-10, atol=1e-13)


def test_type_of_row_numbers_does_not_change_sweeps() -> None:
    results = [
        Descent(
            make_lists(PARTS["two parts"], dtype),
            list(range(11)),
            (0.01, 0.0),
            equal_curvatures=False,
        )
        for dtype in (np.uint16, np.uint32)
    ]
    narrow, wide = (descent.run() for descent in results)
    np.testing.assert_array_equal(narrow[0], wide[0])
    np.testing.assert_array_equal(narrow[1], wide[1])


# Threads.


def assert_same_bits(actual: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    assert actual[0].tobytes() == expected[0].tobytes()
    assert actual[1].tobytes() == expected[1].tobytes()
    assert actual[2:] == expected[2:]


@pytest.mark.parametrize(
    ("n_threads", "parts", "equal_curvatures"),
    [
        (2, PARTS["seven parts"], True),
        (3, PARTS["seven parts"], False),
        (9, PARTS["seven parts"], True),
        (3, PARTS["two parts"], True),
        (2, PARTS["one part"], False),
    ],
)
def test_number_of_threads_does_not_change_sweeps(
    n_threads: int, parts: list[int], equal_curvatures: bool
) -> None:
    options: dict[str, Any] = {"tols": (1e-9, 1e-9), "n_sweeps": 200}
    lists, columns = make_lists(parts), CHOSEN["all columns"]
    descent = Descent(lists, columns, (0.01, 0.02), equal_curvatures=equal_curvatures, **options)
    expected = descent.run()
    for _ in range(3):
        assert_same_bits(descent.run(*range(n_threads), n_threads=n_threads), expected)


@pytest.mark.parametrize("thread", [0, 1, 4])
def test_threads_that_never_start_do_not_block(thread: int) -> None:
    lists = make_lists(PARTS["seven parts"])
    descent = Descent(lists, list(range(11)), (0.01, 0.02), equal_curvatures=False, n_sweeps=20)
    expected = descent.run()
    assert_same_bits(descent.run(thread, n_threads=5), expected)


def test_late_threads_do_not_change_sweeps() -> None:
    lists = make_lists(PARTS["seven parts"])
    descent = Descent(lists, list(range(11)), (0.01, 0.02), equal_curvatures=False, n_sweeps=50)
    expected = descent.run()
    for wait in (1e-4, 1e-3, 0.1):
        assert_same_bits(descent.run(0, 1, 2, n_threads=3, wait=wait), expected)


# Sums over columns.


@pytest.mark.parametrize(("columns", "parts"), each_value(CHOSEN.values(), PARTS.values()))
def test_add_columns_matches_the_slow_implementation(columns: list[int], parts: list[int]) -> None:
    for dtype in [np.uint16, np.uint32]:
        lists, rng = make_lists(parts, dtype), np.random.default_rng(4)
        changes = rng.normal(size=len(columns))
        changes[::3] = 0.0
        before = rng.normal(size=40)
        for p in range(len(parts) - 1):
            out = before.copy()
            loops.add_columns(
                *(*lists.chosen(columns), changes, lists.rows, lists.bounds, lists.parts),
                *(lists.values, p, out),
            )
            part_rows = slice(parts[p], parts[p + 1])
            expected = before.copy()
            expected[part_rows] += lists.dense[part_rows][:, columns] @ changes
            np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("columns", "parts"), each_value(CHOSEN.values(), PARTS.values()))
def test_sum_columns_matches_the_slow_implementation(columns: list[int], parts: list[int]) -> None:
    for dtype in [np.uint16, np.uint32]:
        lists, vector = make_lists(parts, dtype), np.random.default_rng(5).normal(size=40)
        for p in range(len(parts) - 1):
            out = np.full(len(columns), np.nan)
            loops.sum_columns(
                *(*lists.chosen(columns), lists.rows, lists.bounds, lists.parts),
                *(lists.values, p, vector, out),
            )
            part_rows = slice(parts[p], parts[p + 1])
            expected = vector[part_rows] @ lists.dense[part_rows][:, columns] ** 2
            np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-14)


# Distances from optimal.


@given(st.integers(1, 20), st.integers(0, 20), st.data())
def test_violations_match_the_penalty(n_columns: int, n_free: int, data: st.DataObject) -> None:
    n_free = min(n_free, n_columns)
    numbers = st.one_of(st.just(0.0), st.floats(-10, 10))
    some = st.lists(numbers, min_size=n_columns, max_size=n_columns).map(np.array)
    gradient, weights = data.draw(some), data.draw(some)
    alpha, ratio = data.draw(st.floats(0, 5)), data.draw(st.floats(0, 1))
    penalty = ElasticNet(alpha, ratio, n_free=n_free)
    first = data.draw(st.integers(0, n_columns))
    last = data.draw(st.integers(first, n_columns))
    out = np.full(n_columns, -1.0)
    n_penalised = n_columns - n_free
    largest = loops.violations(
        gradient, weights, penalty.l1, penalty.l2, n_penalised, first, last, out
    )
    expected = penalty.distance(weights, gradient)[first:last]
    np.testing.assert_allclose(out[first:last], expected, rtol=1e-12, atol=1e-12)
    assert largest == max(out[first:last], default=0.0)
    assert (out[:first] == -1.0).all()
    assert (out[last:] == -1.0).all()
