"""Products with codes, shared bins and vector lanes against slow NumPy references."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.base.arrays import flat_rows, readonly
from gramless.loops import gather
from tests.loops.guarded import guarded, guards_hold, whole_numbers
from tests.solvers.pairwise import each_value

CODE_TYPES = [np.uint8, np.uint16, np.uint32]


@dataclass(frozen=True)
class Problem:
    """Codes of some grids, where the grids' weights start, and how many weights there are."""

    codes: NDArray[np.unsignedinteger]
    starts: NDArray[np.uint64]
    n_weights: int

    @property
    def places(self) -> NDArray[np.int64]:
        """The weight of every grid and row, in plain signed integers."""
        return self.starts.astype(np.int64)[:, None] + self.codes.astype(np.int64)

    @property
    def parts(self) -> tuple[NDArray[np.unsignedinteger], int, NDArray[np.uint64]]:
        """What the loops take: flat codes, how far apart grids are, starts."""
        return *flat_rows(self.codes), self.starts


def make_problem(seed, dtype, n_grids, n_rows, first_code=0) -> Problem:
    rng = np.random.default_rng(seed)
    n_bins = rng.integers(1, 1 + min(300, np.iinfo(dtype).max), n_grids)
    codes = rng.integers(first_code, n_bins[:, None], (n_grids, n_rows), endpoint=True)
    ends = np.cumsum(n_bins + 1 - first_code)
    # Codes from 1 put the first grid's start one before the first weight: it wraps around.
    starts = ends - (n_bins + 1)
    n_weights = int(ends[-1]) if n_grids else 0
    return Problem(codes.astype(dtype), starts.astype(np.uint64), n_weights)


PROBLEMS = st.builds(
    make_problem,
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from(CODE_TYPES),
    n_grids=st.integers(0, 19),
    n_rows=st.integers(0, 45),
    first_code=st.integers(0, 1),
)


def run_gather(problem: Problem, weights, out) -> NDArray[np.float64]:
    """Gather one column, or K columns when the weights have two dimensions."""
    inner, whole = guarded(out)
    flat = readonly(weights.reshape(-1))
    if weights.ndim == 1:
        gather.gather_sum(*problem.parts, flat, inner)
    else:
        gather.gather_rows(*problem.parts, flat, weights.shape[1], inner)
    assert guards_hold(whole)
    return inner.reshape(out.shape)


def run_scatter(problem: Problem, values, out, add=gather.scatter_add) -> NDArray[np.float64]:
    inner, whole = guarded(out)
    if values.ndim == 1:
        add(*problem.parts, values, inner)
    else:
        flat = values.reshape(-1)
        gather.scatter_add_rows(*problem.parts, flat, values.shape[1], inner)
    assert guards_hold(whole)
    return inner.reshape(out.shape)


@pytest.mark.parametrize("dtype", CODE_TYPES)
def test_sum_of_a_row_does_not_depend_on_blocks(dtype):
    """To the last bit: four rows at once and single ones add up in the same order."""
    problem = make_problem(3, dtype, n_grids=19, n_rows=45)
    weights = readonly(np.random.default_rng(0).normal(size=problem.n_weights))
    flat, apart, starts = problem.parts
    whole = np.zeros(45)
    gather.gather_sum(flat, apart, starts, weights, whole)
    for first in range(8):
        part = np.zeros(45 - first)
        gather.gather_sum(flat[first:], apart, starts, weights, part)
        np.testing.assert_array_equal(part, whole[first:])


@given(PROBLEMS)
def test_both_ways_to_scatter_add_in_the_order_of_rows(problem):
    """To the last bit, as a loop over the rows."""
    rows = np.random.default_rng(1).normal(size=problem.codes.shape[1])
    expected = np.zeros(problem.n_weights)
    for places in problem.places:
        np.add.at(expected, places, rows)
    for add in (gather.scatter_add, gather.scatter_add_few):
        result = run_scatter(problem, rows, np.zeros(problem.n_weights), add)
        np.testing.assert_array_equal(result, expected)


def check_both(problem: Problem, tail: tuple[int, ...]) -> None:
    n_rows = problem.codes.shape[1]
    rows, weights = whole_numbers((n_rows, *tail)), whole_numbers((problem.n_weights, *tail), 2)
    np.testing.assert_array_equal(
        run_gather(problem, weights, rows), rows + weights[problem.places].sum(axis=0)
    )
    expected = weights.copy()
    for places in problem.places:
        np.add.at(expected, places, rows)
    for add in (gather.scatter_add, gather.scatter_add_few):
        np.testing.assert_array_equal(run_scatter(problem, rows, weights, add), expected)


@given(PROBLEMS)
def test_one_column_matches_the_slow_implementation(problem):
    check_both(problem, ())


@given(PROBLEMS, st.integers(0, 27))
def test_many_columns_match_the_slow_implementation(problem, n_columns):
    check_both(problem, (n_columns,))


def test_every_lane_remainder_matches_the_slow_implementation():
    for n_columns in range(1, 28):
        for n_grids in [1, 2, 5]:
            check_both(make_problem(3, np.uint16, n_grids, 21), (n_columns,))


@pytest.mark.parametrize("first_code", [0, 1])
def test_sixteen_single_precision_columns_match(first_code):
    for n_grids in (1, 4, 9, 19):
        problem = make_problem(8, np.uint8, n_grids, 21, first_code)
        rows = whole_numbers((21, 16)).astype(np.float32)
        weights = whole_numbers((problem.n_weights, 16), 2).astype(np.float32)
        expected = weights.copy()
        for places in problem.places:
            np.add.at(expected, places, rows)
        gathered, scattered = rows.reshape(-1).copy(), weights.reshape(-1).copy()
        gather.gather_rows_16(*problem.parts, readonly(weights.reshape(-1)), gathered)
        gather.scatter_add_rows_16(*problem.parts, rows.reshape(-1), scattered)
        added = weights[problem.places].sum(axis=0)
        np.testing.assert_array_equal(gathered.reshape(21, 16), rows + added)
        np.testing.assert_array_equal(scattered.reshape(-1, 16), expected)


@given(PROBLEMS, st.sampled_from([(), (1,), (7,), (16,)]), st.data())
def test_blocks_of_rows_do_not_change_a_gather(problem, tail, data):
    weights = np.random.default_rng(1).normal(size=(problem.n_weights, *tail))
    n_rows = problem.codes.shape[1]
    cut = data.draw(st.integers(0, n_rows))
    whole = run_gather(problem, weights, np.zeros((n_rows, *tail)))
    parts = [
        run_gather(
            Problem(problem.codes[:, a:b], problem.starts, problem.n_weights),
            weights,
            np.zeros((b - a, *tail)),
        )
        for a, b in ((0, cut), (cut, n_rows))
    ]
    assert whole.tobytes() == np.concatenate(parts).tobytes()


@given(PROBLEMS, st.sampled_from([(), (1,), (7,), (16,)]), st.data())
def test_blocks_of_grids_do_not_change_a_scatter(problem, tail, data):
    n_grids, n_rows = problem.codes.shape
    values = np.random.default_rng(1).normal(size=(n_rows, *tail))
    cut = data.draw(st.integers(0, n_grids))
    whole = run_scatter(problem, values, np.zeros((problem.n_weights, *tail)))
    out = np.zeros_like(whole)
    for a, b in ((0, cut), (cut, n_grids)):
        part = Problem(problem.codes[a:b], problem.starts[a:b], problem.n_weights)
        out = run_scatter(part, values, out)
    assert whole.tobytes() == out.tobytes()


@pytest.mark.parametrize(("tail", "n_grids"), each_value([(), (1,), (3,), (8,)], [9, 2, 3]))
def test_infinity_and_nan_propagate(tail, n_grids):
    codes = np.tile(np.arange(3, dtype=np.uint8), (n_grids, 1))
    problem = Problem(codes, np.arange(0, 3 * n_grids, 3, dtype=np.uint64), 3 * n_grids)
    weights = np.ones((3 * n_grids, *tail))
    weights[0], weights[1], weights[2], weights[-2] = np.inf, np.inf, np.nan, -np.inf
    out = run_gather(problem, weights, np.zeros((3, *tail)))
    assert (out[0] == np.inf).all()
    assert np.isnan(out[1:]).all()
    scattered = run_scatter(problem, weights[:3], np.zeros_like(weights))
    np.testing.assert_array_equal(scattered, np.concatenate([weights[:3]] * n_grids))


def shared_bins(codes) -> NDArray[np.int64]:
    """Return in how many columns two rows have the same code, and not 0."""
    same = (codes[:, None, :] == codes[None, :, :]) & (codes != 0)
    return same.sum(axis=2)


def draw_rows(seed, dtype, n_rows, n_grids, largest) -> NDArray[np.unsignedinteger]:
    rng = np.random.default_rng(seed)
    return readonly(rng.integers(0, largest, (n_rows, n_grids), endpoint=True).astype(dtype))


ROWS = st.builds(
    draw_rows,
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from(CODE_TYPES),
    n_rows=st.integers(0, 30),
    n_grids=st.integers(0, 40),
    largest=st.sampled_from([0, 1, 3, 200]),
)


@given(ROWS, st.data())
def test_count_shared_does_not_depend_on_blocks(codes, data):
    n_rows = len(codes)
    cuts = sorted(data.draw(st.lists(st.integers(0, n_rows), max_size=4)))
    counts = np.full((n_rows, n_rows), np.nan, np.float32)
    for first, last in data.draw(st.permutations([*zip([0, *cuts], [*cuts, n_rows], strict=True)])):
        gather.count_shared_bins(codes, first, last, counts)
    np.testing.assert_array_equal(counts, shared_bins(codes))


@given(ROWS, st.data())
def test_block_of_rows_writes_only_its_pairs(codes, data):
    n_rows = len(codes)
    first = data.draw(st.integers(0, n_rows))
    last = data.draw(st.integers(first, n_rows))
    counts = np.full((n_rows, n_rows), np.nan, np.float32)
    gather.count_shared_bins(codes, first, last, counts)
    later = np.maximum.outer(np.arange(n_rows), np.arange(n_rows))
    written = (first <= later) & (later < last)
    np.testing.assert_array_equal(np.isnan(counts), ~written)
    np.testing.assert_array_equal(counts[written], shared_bins(codes)[written])


@pytest.mark.parametrize("dtype", CODE_TYPES)
def test_every_bit_of_a_code_counts_and_sums_do_not_wrap(dtype):
    """Codes that differ in one bit are different bins; counts go beyond 255."""
    bits = np.iinfo(dtype).bits
    codes = np.repeat((dtype(1) << np.arange(bits).astype(dtype))[:, None], 1000, axis=1)
    counts = np.empty((bits, bits), np.float32)
    gather.count_shared_bins(readonly(codes), 0, bits, counts)
    np.testing.assert_array_equal(counts, 1000 * np.eye(bits))
