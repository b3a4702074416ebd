"""Gains of grids: every loop against a slow NumPy reference, and the gain against the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.loops import scoring as loops
from harness.loops import entry
from tests.solvers.pairwise import each_value

Floats = NDArray[np.float32]

tile_slots, sum_bins = entry(loops.tile_slots), entry(loops.sum_bins)

MOST = 16
LANES = {4: 1, 8: 3}
"""By the numbers a row, the outputs that fill them."""
N_ROWS = 2 * loops.TILE + 345
PARTS = {
    "from 0": [[0, 1200], [1200, N_ROWS]],
    "not from 0": [[7, 1100], [1111, N_ROWS - 1]],
    "first after second": [[1500, 2000], [3, 1499]],
    "whole tiles": [[5, 5 + loops.TILE], [N_ROWS - loops.TILE, N_ROWS]],
    "an empty second part": [[0, N_ROWS], [N_ROWS, N_ROWS]],
    "one row each": [[N_ROWS - 1, N_ROWS], [0, 1]],
}

any_lanes = pytest.mark.parametrize("lanes", LANES)


@dataclass(frozen=True)
class Grid:
    """One grid as the loops take it."""

    inputs: NDArray[np.int32]
    inverse: Floats
    shifts: Floats
    multipliers: NDArray[np.uint32]

    @property
    def size(self) -> int:
        return len(self.inputs)

    def arguments(self) -> tuple[Any, ...]:
        """Return the arrays, with room for another input, which does not count."""
        parts = self.inputs, self.inverse, self.shifts, self.multipliers
        return tuple(np.append(part, part[:1]) for part in parts)


def draw_columns(n_inputs: int = MOST, n_rows: int = N_ROWS, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_inputs, n_rows)).astype(np.float32)


def draw_grid(size: int, n_inputs: int = MOST, seed: int = 0, width: float = 0.7) -> Grid:
    rng = np.random.default_rng(seed)
    widths = width * rng.uniform(0.5, 2.0, size)
    return Grid(
        rng.permutation(n_inputs)[:size].astype(np.int32),
        (1.0 / widths).astype(np.float32),
        (rng.random(size) * widths).astype(np.float32),
        rng.integers(0, 2**32, size, dtype=np.uint32) | np.uint32(1),
    )


def whole_numbers(n_rows: int, lanes: int, seed: int = 1) -> Floats:
    """Return whole numbers: their sums are exact in any order, also in float32."""
    rng = np.random.default_rng(seed)
    return rng.integers(-100, 100, (n_rows, lanes)).astype(np.float32)


def derivatives(n_rows: int, lanes: int, seed: int = 1) -> Floats:
    """Return gradients and curvatures of as many outputs as the lanes hold."""
    rng, n_outputs = np.random.default_rng(seed), LANES[lanes]
    values = np.empty((n_rows, lanes), np.float32)
    values[:, : 2 * n_outputs] = rng.normal(size=(n_rows, 2 * n_outputs))
    values[:, 2 * n_outputs :] = rng.gamma(2.0, size=(n_rows, 2))
    return values


# The references.


def expected_cells(columns: Floats, grid: Grid) -> NDArray[np.int64]:
    """Divide in float32, input by input; (size, n_rows)."""
    cells = np.floor((columns[grid.inputs] - grid.shifts[:, None]) * grid.inverse[:, None])
    assert cells.dtype == np.float32
    return cells.astype(np.int64)


def expected_slots(columns: Floats, grid: Grid, bits: int) -> NDArray[np.int64]:
    """Hash each row's cells with whole numbers that cannot overflow."""
    hashed = [
        sum(int(c) * int(m) for c, m in zip(row, grid.multipliers, strict=True)) % 2**32
        for row in expected_cells(columns, grid).T
    ]
    return np.array(hashed, np.int64) // 2 ** (32 - bits)


def expected_sums(values: Floats, slots: NDArray[np.int64], bits: int) -> NDArray[np.float64]:
    sums = np.zeros((2**bits, values.shape[1]))
    np.add.at(sums, slots, values.astype(np.float64))
    return sums


def expected_gain(
    first: NDArray[Any], second: NDArray[Any], n_outputs: int, shrinkage: float
) -> tuple[float, float]:
    """Return the gain in float64, and the sum of its parts' sizes."""
    gain, size, k = 0.0, 0.0, n_outputs
    for fitted, held_out in ((first, second), (second, first)):
        fitted, held_out = fitted.astype(np.float64), held_out.astype(np.float64)
        values = fitted[:, :k] / (fitted[:, [2 * k]] + shrinkage)
        linear = held_out[:, k : 2 * k] * values
        square = 0.5 * held_out[:, [2 * k + 1]] * values**2
        gain += float(linear.sum() - square.sum())
        size += float(np.abs(linear).sum() + np.abs(square).sum())
    return gain, size


# Places of the cells.


def run_slots(columns: Floats, start: int, stop: int, grid: Grid, bits: int) -> NDArray[np.uint32]:
    slots = np.full(stop - start + 3, 77, np.uint32)
    hashing = grid.size, np.uint32(0), np.uint32(32 - bits)
    tile_slots(columns, start, stop, *grid.arguments(), *hashing, slots)
    assert slots[stop - start :].tolist() == [77] * 3
    return slots[: stop - start]


@pytest.mark.parametrize("bits", [1, 15])
def test_slots_match_the_slow_implementation(bits: int) -> None:
    for size in range(1, MOST + 1):
        columns, grid = draw_columns(n_rows=200), draw_grid(size, seed=size)
        slots = run_slots(columns, 13, 190, grid, bits)
        np.testing.assert_array_equal(slots, expected_slots(columns[:, 13:190], grid, bits))
        # Few places: different bins meet in one, and the reference must have them meet in the same.
        assert len(np.unique(slots)) > 1


@settings(max_examples=30)
@given(
    st.integers(0, 10**6),
    st.integers(1, MOST),
    st.integers(1, 15),
    st.integers(0, 50),
    st.integers(0, 50),
    st.floats(0.01, 4.0),
)
def test_slots_of_random_rows_match(
    seed: int, size: int, bits: int, start: int, n: int, width: float
) -> None:
    columns, grid = draw_columns(n_rows=100, seed=seed), draw_grid(size, seed=seed, width=width)
    slots = run_slots(columns, start, start + n, grid, bits)
    expected = expected_slots(columns[:, start : start + n], grid, bits)
    np.testing.assert_array_equal(slots, expected)


@pytest.mark.parametrize("width", [0.01, 4.0])
def test_huge_coordinates_have_slots(width: float) -> None:
    ends = np.array([-1e5, -99_999.99, -0.0, 0.0, 99_999.99, 1e5], np.float32)
    columns = np.stack([np.repeat(ends, 6), np.tile(ends, 6)])
    grid = Grid(
        np.arange(2, dtype=np.int32),
        np.full(2, 1.0 / width, np.float32),
        np.array([0.0, 0.99 * width], np.float32),
        np.array([0x9E3779B1, 0x85EBCA77], np.uint32),
    )
    assert np.abs(expected_cells(columns, grid)).max() >= 0.99e5 / width
    slots = run_slots(columns, 0, 36, grid, 15)
    np.testing.assert_array_equal(slots, expected_slots(columns, grid, 15))


# Sums of the bins.


def run_sums(
    columns: Floats, values: Floats, parts: list[list[int]], grid: Grid, bits: int, sums: Floats
) -> None:
    slots, hashing = np.empty((2, loops.TILE), np.uint32), (np.uint32(0), np.uint32(32 - bits))
    sum_bins(columns, values, np.array(parts), grid.arguments(), grid.size, *hashing, slots, sums)


@pytest.mark.parametrize(("parts", "lanes"), each_value(PARTS.values(), LANES))
def test_sums_match_the_slow_implementation(parts: list[list[int]], lanes: int) -> None:
    for bits in [3, 9, 13]:
        columns, values = draw_columns(5), whole_numbers(N_ROWS, lanes)
        grid = draw_grid(3, 5)
        slots = expected_slots(columns, grid, bits)
        sums = np.zeros((2, 2**bits, lanes), np.float32)
        run_sums(columns, values, parts, grid, bits, sums)
        for result, (start, stop) in zip(sums, parts, strict=True):
            part = slice(start, stop)
            np.testing.assert_array_equal(result, expected_sums(values[part], slots[part], bits))


# The gain.


@pytest.mark.parametrize("n_outputs", [1, 2, 3])
def test_gain_matches_the_slow_implementation(n_outputs: int) -> None:
    for shrinkage in [0.5, 5.0, 100.0]:
        for n_bins in [1, 7, 512]:
            lanes = 4 if n_outputs == 1 else 8
            rng = np.random.default_rng(n_bins)
            first, second = rng.normal(size=(2, n_bins, lanes)).astype(np.float32)
            for part in (first, second):
                part[:, 2 * n_outputs :] = rng.gamma(2.0, 10.0, part[:, 2 * n_outputs :].shape)
                part[rng.random(n_bins) < 0.2] = 0.0
            result = loops.crossed_gain(first, second, n_outputs, np.float32(shrinkage))
            expected, size = expected_gain(first, second, n_outputs, shrinkage)
            assert result == pytest.approx(expected, abs=1e-6 * size)
            assert abs(expected) > 1e-4 * size


# Whole grids.


@dataclass(frozen=True)
class Scoring:
    """Some grids over the same rows; for the loop and for the slow way."""

    columns: Floats
    values: Floats
    parts: NDArray[np.int64]
    grids: list[Grid]
    bits: int = 9
    shrinkage: float = 5.0

    @property
    def n_outputs(self) -> int:
        return LANES[self.values.shape[1]]

    def run(self, first: int = 0, last: int | None = None) -> NDArray[np.float64]:
        """Return the gains; what is only room may hold anything."""
        n, rng = len(self.grids), np.random.default_rng(9)
        inputs = rng.integers(0, len(self.columns), (n, MOST)).astype(np.int32)
        inverse, shifts = rng.normal(size=(2, n, MOST)).astype(np.float32)
        sizes = np.array([len(grid.inputs) for grid in self.grids])
        for c, (grid, m) in enumerate(zip(self.grids, sizes, strict=True)):
            inputs[c, :m], inverse[c, :m], shifts[c, :m] = grid.inputs, grid.inverse, grid.shifts
        gains = np.full(n, -77.0)
        ends = np.stack([self.columns.min(axis=1), self.columns.max(axis=1)], axis=1)
        loops.score_grids(
            *(self.columns, ends, self.values, self.parts, self.n_outputs, sizes),
            *((inputs, inverse, shifts), MULTIPLIERS, self.bits, np.float32(self.shrinkage)),
            *(first, n if last is None else last, gains),
            np.empty((2, loops.TILE), np.uint32),
            np.full(MOST, 77, np.uint32),
            np.full((2, 1 << self.bits, self.values.shape[1]), 77.0, np.float32),
        )
        return gains

    def reference(self, grid: Grid) -> tuple[float, float]:
        cells = expected_cells(self.columns, grid)
        if np.prod(1.0 + np.ptp(cells, axis=1)) <= 2**self.bits:
            slots = np.unique(cells, axis=1, return_inverse=True)[1].reshape(-1)
        else:
            slots = expected_slots(self.columns, grid, self.bits)
        first, second = (
            expected_sums(self.values[a:b], slots[a:b], self.bits) for a, b in self.parts
        )
        return expected_gain(first, second, self.n_outputs, self.shrinkage)

    def check(self) -> None:
        for result, grid in zip(self.run(), self.grids, strict=True):
            expected, size = self.reference(grid)
            assert result == pytest.approx(expected, abs=1e-5 * size)


MULTIPLIERS = np.random.default_rng(5).integers(0, 2**32, MOST, dtype=np.uint32) | np.uint32(1)


def with_own_multipliers(grid: Grid) -> Grid:
    return Grid(grid.inputs, grid.inverse, grid.shifts, MULTIPLIERS[: len(grid.inputs)])


def draw_scoring(
    sizes: list[int], parts: list[list[int]], lanes: int, width: float = 0.7, **more: Any
) -> Scoring:
    grids = [with_own_multipliers(draw_grid(m, seed=m, width=width)) for m in sizes]
    values = derivatives(N_ROWS, lanes)
    return Scoring(draw_columns(), values, np.array(parts), grids, **more)


@any_lanes
def test_scores_match_for_every_grid_size(lanes: int) -> None:
    draw_scoring(list(range(1, MOST + 1)), PARTS["not from 0"], lanes).check()


@pytest.mark.parametrize(("parts", "bits", "lanes"), each_value(PARTS.values(), [15, 6, 1], LANES))
def test_scores_match_for_every_partition(parts: list[list[int]], bits: int, lanes: int) -> None:
    draw_scoring([1, 2, 5], parts, lanes, bits=bits).check()


@any_lanes
def test_given_grids_are_scored_separately(lanes: int) -> None:
    scoring = draw_scoring([3, 1, 3, 8, 3], PARTS["from 0"], lanes)
    whole, some = scoring.run(), scoring.run(1, 4)
    assert some[[0, 4]].tolist() == [-77.0, -77.0]
    np.testing.assert_array_equal(some[1:4], whole[1:4])
    assert whole[0] == whole[2] == whole[4]
    assert len(set(whole)) == 3


@any_lanes
def test_outliers_leave_the_gain_finite(lanes: int) -> None:
    scoring = draw_scoring([1, 2, 7, 16], PARTS["not from 0"], lanes, width=0.02)
    scoring.columns[:, ::5] *= np.float32(5e4)
    np.clip(scoring.columns, -1e5, 1e5, out=scoring.columns)
    assert np.abs(scoring.columns).max() == 1e5
    scoring.check()


# Simpler grids.


def expected_simplified(
    cells: NDArray[np.int64],
    values: Floats,
    parts: list[list[int]],
    bits: int,
    shrinkage: float,
    share: float,
) -> tuple[float, list[int], NDArray[np.float64]]:
    """Return the gain of a grid, the inputs it keeps, and the loss of gain without each."""

    def gain_of(inputs: list[int]) -> float:
        hashed = cells[:, inputs].astype(np.uint32) * MULTIPLIERS[inputs]
        slots = hashed.sum(axis=1, dtype=np.uint32) >> np.uint32(32 - bits)
        first, second = (expected_sums(values[a:b], slots[a:b], bits) for a, b in parts)
        return expected_gain(first, second, LANES[values.shape[1]], shrinkage)[0]

    kept = list(range(cells.shape[1]))
    lost, gain = np.zeros(len(kept)), gain_of(kept)
    whole = gain
    while len(kept) > 1:
        small = [q for q in kept if lost[q] <= 0.05 * gain]
        gains = {q: gain_of([other for other in kept if other != q]) for q in small}
        for q in small:
            lost[q] = max(gain - gains[q], 0.0)
        if not gains or max(gains.values()) < share * gain:
            return whole, kept, lost
        best = max(reversed(small), key=gains.__getitem__)
        kept.remove(best)
        lost[best], gain = 0.0, gains[best]
    lost[kept[0]] = gain
    return whole, kept, lost


# With one row in each part, gains are equal up to rounding.
@pytest.mark.parametrize(("parts", "lanes"), each_value(list(PARTS.values())[:-1], LANES))
def test_simplified_grids_match_the_slow_implementation(parts: list[list[int]], lanes: int) -> None:
    """The first two of the columns matter, the second much less."""
    rng, bits, shrinkage, share = np.random.default_rng(3), 9, 5.0, 0.97
    rows, values = rng.normal(size=(N_ROWS, 6)), derivatives(N_ROWS, lanes)
    values[:, : 2 * LANES[lanes]] += (np.sign(rows[:, 0]) + 0.3 * rows[:, 1])[:, None]
    sizes = np.array([1, 2, 2, 4, 6, 3])
    columns = np.array([rng.permutation(6) for _ in sizes])
    columns[2, :2], columns[5, :3] = [0, 1], [4, 5, 3]
    inverse, shifts = 1.0 / rng.uniform(1.0, 3.0, (2, len(sizes), 6))
    all_cells = [
        np.floor((rows[:, columns[g, :m]] - shifts[g, :m]) * inverse[g, :m]).astype(np.int64)
        for g, m in enumerate(sizes)
    ]
    expected = [expected_simplified(c, values, parts, bits, shrinkage, share) for c in all_cells]
    codes, n_bins = np.empty((len(sizes), N_ROWS), np.uint16), np.empty(len(sizes), np.int64)
    for g, cells in enumerate(all_cells):
        _, first, bins = np.unique(cells, axis=0, return_index=True, return_inverse=True)
        codes[g] = 1 + np.argsort(np.argsort(first))[bins.reshape(-1)]
        n_bins[g] = len(first)
    key_multipliers = rng.integers(-(2**62), 2**62, (len(sizes), 6)) | 1
    grids = columns, inverse, shifts, np.full(inverse.shape, 1e9), key_multipliers
    is_kept, lost = np.arange(6) < sizes[:, None], np.zeros((len(sizes), 6))
    most, keys = n_bins.max(), np.full((len(sizes), n_bins.max()), 77)
    loops.simplify_grids(
        *(rows, codes, n_bins, sizes, grids, MULTIPLIERS, values, np.array(parts)),
        *(LANES[lanes], bits, np.float32(shrinkage), share, 0, len(sizes)),
        *(np.array([gain for gain, _, _ in expected]), is_kept, lost, keys),
        *(np.full(most, 77), np.full((6, most), 77), np.full(most, 77, np.uint32)),
        *np.full((2, 2, most, lanes), 77, np.float32),
        np.full(1 << bits, 77, np.int32),
    )
    for g, (gain, kept, expected_lost) in enumerate(expected):
        assert np.flatnonzero(is_kept[g]).tolist() == kept
        assert lost[g, : sizes[g]] == pytest.approx(expected_lost, abs=1e-4 * abs(gain))
        if len(kept) < sizes[g]:
            # Keys are equal if and only if all cells of the other inputs are equal.
            simpler = np.column_stack([all_cells[g][:, kept], keys[g, codes[g] - 1]])
            n_simpler = len(np.unique(simpler[:, :-1], axis=0))
            assert len(np.unique(simpler, axis=0)) == n_simpler == len(np.unique(simpler[:, -1]))
    assert {len(kept) for _, kept, _ in expected} >= {1}


def test_gain_is_the_fall_of_the_loss_on_the_other_part() -> None:
    """By the rows: bins as sets of rows, shrunken means, and the squared loss before and after."""
    rng = np.random.default_rng(0)
    n, shrinkage = 300, 2.0
    columns = rng.uniform(0.0, 4.0, (1, n)).astype(np.float32)
    residual = np.sin(2.0 * columns[0]) + 0.1 * rng.normal(size=n)
    values = np.column_stack([residual, residual, np.ones(n), np.ones(n)]).astype(np.float32)
    grid = Grid(
        *(np.zeros(1, np.int32), np.ones(1, np.float32), np.zeros(1, np.float32)),
        MULTIPLIERS[:1],
    )
    bins, before, after = np.floor(columns[0]), 0.0, 0.0
    halves = np.arange(n) < 120, np.arange(n) >= 120
    for part, other in (halves, halves[::-1]):
        for b in range(4):
            value = residual[part & (bins == b)].sum() / ((part & (bins == b)).sum() + shrinkage)
            held_out = residual[other & (bins == b)]
            before += 0.5 * (held_out**2).sum()
            after += 0.5 * ((held_out - value) ** 2).sum()
    parts = np.array([[0, 120], [120, n]])
    (result,) = Scoring(columns, values, parts, [grid], 12, shrinkage).run()
    assert result == pytest.approx(before - after, rel=1e-4)
    assert 0.5 * before < result < before
