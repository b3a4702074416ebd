"""Products with codes and values against slow NumPy references."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.errors import TypingError
from numpy.typing import NDArray

from gramless.base.arrays import flat_rows, readonly
from gramless.loops import weighted_gather as loops
from gramless.loops.compile import loop
from tests.loops.guarded import guarded, guards_hold, whole_numbers
from tests.solvers.pairwise import each_value

CODE_TYPES = [np.uint8, np.uint16, np.uint32]
VALUE_TYPES = [np.float32, np.float16]


@dataclass(frozen=True)
class Problem:
    """Codes and values of some grids, where their weights start, and how many there are."""

    codes: NDArray[np.unsignedinteger]
    values: NDArray[np.floating]
    starts: NDArray[np.uint64]
    n_weights: int

    @property
    def places(self) -> NDArray[np.int64]:
        """The weight of every grid and row, in plain signed integers."""
        return self.starts.astype(np.int64)[:, None] + self.codes.astype(np.int64)

    @property
    def stored(self) -> NDArray:
        """The values as the loops read them."""
        return self.values.view(np.uint16) if self.values.itemsize == 2 else self.values

    @property
    def unit(self) -> float:
        return loops.HALF_UNIT if self.values.itemsize == 2 else 1.0

    @property
    def parts(self) -> tuple[NDArray, int, NDArray, int, NDArray]:
        """What the loops take, flat and read-only as the library has it."""
        return *flat_rows(self.codes), *flat_rows(self.stored), self.starts

    def take(self, grids: slice, rows: slice) -> Problem:
        part = (self.codes[grids, rows], self.values[grids, rows], self.starts[grids])
        return Problem(*part, self.n_weights)


def make_problem(seed, dtype, kind, n_grids, n_rows) -> Problem:
    rng = np.random.default_rng(seed)
    n_bins = rng.integers(1, 1 + min(300, np.iinfo(dtype).max), n_grids)
    codes = rng.integers(1, n_bins[:, None], (n_grids, n_rows), endpoint=True)
    values = rng.integers(0, 60, (n_grids, n_rows)) / 4
    ends = np.cumsum(n_bins)
    # The first grid's start is one before the first weight: it wraps around.
    starts = (ends - n_bins - 1).astype(np.uint64)
    n_weights = int(ends[-1]) if n_grids else 0
    return Problem(codes.astype(dtype), values.astype(kind), starts, n_weights)


PROBLEMS = st.builds(
    make_problem,
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from(CODE_TYPES),
    kind=st.sampled_from(VALUE_TYPES),
    n_grids=st.integers(0, 11),
    n_rows=st.integers(0, 45),
)


def run_gather(problem: Problem, weights, out) -> NDArray[np.float64]:
    """Gather one column, or K columns when the weights have two dimensions."""
    inner, whole = guarded(out / problem.unit)
    flat = readonly(weights.reshape(-1))
    if weights.ndim == 1:
        loops.gather_sum(*problem.parts, flat, inner)
    else:
        loops.gather_rows(*problem.parts, flat, weights.shape[1], inner)
    assert guards_hold(whole)
    return inner.reshape(out.shape) * problem.unit


def run_scatter(problem: Problem, factors, out) -> NDArray[np.float64]:
    inner, whole = guarded(out)
    factors = factors * problem.unit
    if factors.ndim == 1:
        loops.scatter_add(*problem.parts, factors, inner)
    else:
        loops.scatter_add_rows(*problem.parts, factors.reshape(-1), factors.shape[1], inner)
    assert guards_hold(whole)
    return inner.reshape(out.shape)


def check_both(problem: Problem, tail: tuple[int, ...]) -> None:
    n_rows = problem.codes.shape[1]
    rows, weights = whole_numbers((n_rows, *tail)), whole_numbers((problem.n_weights, *tail), 2)
    values = problem.values.astype(float).reshape(*problem.values.shape, *[1] * len(tail))
    np.testing.assert_array_equal(
        run_gather(problem, weights, rows), rows + (values * weights[problem.places]).sum(axis=0)
    )
    expected = weights.copy()
    for places, value in zip(problem.places, values, strict=True):
        np.add.at(expected, places, value * rows)
    np.testing.assert_array_equal(run_scatter(problem, rows, weights), expected)


@given(PROBLEMS)
def test_one_column_matches_the_slow_implementation(problem):
    check_both(problem, ())


@given(PROBLEMS, st.integers(0, 19))
def test_many_columns_match_the_slow_implementation(problem, n_columns):
    check_both(problem, (n_columns,))


def test_every_lane_remainder_matches_the_slow_implementation():
    for n_columns in range(1, 20):
        for n_grids in [1, 2, 5]:
            check_both(make_problem(3, np.uint16, np.float32, n_grids, 21), (n_columns,))


@given(PROBLEMS, st.sampled_from([(), (1,), (7,), (16,)]), st.data())
def test_blocks_do_not_change_results(problem, tail, data):
    """Neither blocks of rows in a gather nor blocks of grids in a scatter."""
    rng = np.random.default_rng(1)
    n_grids, n_rows = problem.codes.shape
    weights, factors = rng.normal(size=(problem.n_weights, *tail)), rng.normal(size=(n_rows, *tail))
    cut, between = data.draw(st.integers(0, n_rows)), data.draw(st.integers(0, n_grids))
    every = slice(None)
    parts = [
        run_gather(problem.take(every, slice(a, b)), weights, np.zeros((b - a, *tail)))
        for a, b in ((0, cut), (cut, n_rows))
    ]
    whole = run_gather(problem, weights, np.zeros((n_rows, *tail)))
    assert whole.tobytes() == np.concatenate(parts).tobytes()
    sums = np.zeros_like(weights)
    for a, b in ((0, between), (between, n_grids)):
        sums = run_scatter(problem.take(slice(a, b), every), factors, sums)
    assert run_scatter(problem, factors, np.zeros_like(weights)).tobytes() == sums.tobytes()


@pytest.mark.parametrize(("tail", "n_grids"), each_value([(), (1,), (3,), (8,)], [9, 1, 2]))
def test_infinity_and_nan_propagate(tail, n_grids):
    codes = np.tile(np.arange(1, 4, dtype=np.uint8), (n_grids, 1))
    starts = (3 * np.arange(n_grids) - 1).astype(np.uint64)
    problem = Problem(codes, np.full(codes.shape, 2, np.float32), starts, 3 * n_grids)
    weights = np.ones((3 * n_grids, *tail))
    weights[0], weights[1] = np.inf, np.nan
    out = run_gather(problem, weights, np.zeros((3, *tail)))
    assert (out[0] == np.inf).all()
    assert np.isnan(out[1]).all()
    assert (out[2] == 2 * n_grids).all()
    scattered = run_scatter(problem, weights[:3], np.zeros_like(weights))
    np.testing.assert_array_equal(scattered, np.concatenate([2 * weights[:3]] * n_grids))


@given(PROBLEMS)
def test_scatter_squares_matches_numpy(problem):
    factors, expected = whole_numbers(problem.codes.shape[1]), whole_numbers(problem.n_weights, 2)
    inner, whole = guarded(expected)
    loops.scatter_squares(*problem.parts, factors * problem.unit**2, inner)
    for places, value in zip(problem.places, problem.values.astype(float), strict=True):
        np.add.at(expected, places, value**2 * factors)
    np.testing.assert_array_equal(inner, expected)
    assert guards_hold(whole)


@given(PROBLEMS, st.data())
def test_sum_shared_matches_numpy(problem, data):
    codes, values = problem.codes.T.copy(), problem.values.T.astype(float)
    stored, n_rows = readonly(problem.stored.T.copy()), problem.codes.shape[1]
    shared = codes[:, None, :] == codes[None, :, :]
    expected = np.where(shared, values[:, None, :] * values[None, :, :], 0.0).sum(axis=2)
    first = data.draw(st.integers(0, n_rows))
    sums = np.full((n_rows, n_rows), np.nan)
    for a, b in ((first, n_rows), (0, first)):
        loops.write_row_products(readonly(codes), stored, a, b, sums)
    np.testing.assert_array_equal(sums * problem.unit**2, expected)


@loop
def read_all(stored, out):
    for i in range(len(stored)):
        out[i] = loops.widen(stored[i])


def test_every_half_precision_value_is_read():
    bits = np.arange(int(loops.MAX_HALF) + 1).astype(np.uint16)
    out = np.empty(len(bits))
    read_all(bits, out)
    np.testing.assert_array_equal(out * loops.HALF_UNIT, bits.view(np.float16).astype(float))
    negative_or_not_finite = np.array([-0.0, -1.0, np.inf, np.nan, -np.inf], np.float16)
    assert (negative_or_not_finite.view(np.uint16) > loops.MAX_HALF).all()


def test_single_precision_values_are_read():
    singles = np.array([-1.5, 3e38, 1e-45, np.inf], np.float32)
    out = np.empty(4)
    read_all(singles, out)
    np.testing.assert_array_equal(out, singles.astype(float))


def test_other_value_types_are_rejected():
    with pytest.raises(TypingError, match="float32, or float16 as uint16"):
        read_all(np.ones(3), np.empty(3))
