"""The gain of candidates: threads, a slow twin, and what it should mean on made-up targets."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.model_selection.candidates import MOST_INPUTS, Breeder, Candidates
from gramless.model_selection.scoring import (
    MOST_SKETCHES,
    Unexplained,
    draw_multipliers,
    score_candidates,
)

Array = NDArray[np.float64]

N_ROWS = 3000
FEW_PLACES = 512
"""As few as there ever are: for up to 4,096 rows."""


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def halves(n_rows: int) -> NDArray[np.int64]:
    return np.array([[0, n_rows // 2], [n_rows // 2, n_rows]])


def one_output(residual: Array, weight: Array | None = None) -> Unexplained:
    """Return what a squared loss leaves unexplained, the same for both models."""
    weight = np.ones(len(residual)) if weight is None else weight
    slopes = (residual.T * weight).T.reshape(len(residual), -1)
    return Unexplained(slopes, slopes, weight, weight)


def grids_over(inputs: list[list[int]], width: float | list[float], seed: int = 0) -> Candidates:
    """Return grids over given inputs, one width a grid."""
    n, rng = len(inputs), rng_of(seed)
    numbers, sizes = np.zeros((n, MOST_INPUTS), np.int32), np.array([len(own) for own in inputs])
    for row, own in zip(numbers, inputs, strict=True):
        row[: len(own)] = own
    widths = np.ones((n, MOST_INPUTS)) * np.reshape(width, (-1, 1))
    return Candidates(numbers, sizes, widths, rng.random(widths.shape) * widths)


def score(
    columns: Array, unexplained: Unexplained, candidates: Candidates, **more: Any
) -> NDArray[np.float64]:
    values, n_outputs = unexplained.packed(more.pop("generator", rng_of(0)))
    n_jobs, parts = more.pop("n_jobs", 1), more.pop("parts", halves(len(values)))
    multipliers = more.pop("multipliers", draw_multipliers(rng_of(1)))
    shrinkage = more.pop("shrinkage", 5.0)
    assert not more
    return score_candidates(
        *(np.ascontiguousarray(columns, np.float32), values, n_outputs, parts),
        *(candidates, multipliers, shrinkage, n_jobs),
    )


# What the loop is given.


@pytest.mark.parametrize("n_outputs", [1, 2, 3])
def test_few_outputs_are_packed_as_they_are(n_outputs: int) -> None:
    rng = rng_of(0)
    fitted, judged = rng.normal(size=(2, 50, n_outputs))
    curved = rng.random((2, 50))
    values, found = Unexplained(fitted, judged, *curved).packed(rng)
    parts = [fitted, judged, curved.T]
    expected = np.concatenate(parts, axis=1).astype(np.float32)
    assert found == n_outputs
    assert values.flags.c_contiguous
    assert values.shape[1] == (4 if n_outputs == 1 else 8)
    np.testing.assert_array_equal(values[:, : expected.shape[1]], expected)
    assert not values[:, expected.shape[1] :].any()


def test_many_outputs_are_seen_from_the_same_directions() -> None:
    rng = rng_of(0)
    slopes, curved = rng.normal(size=(40, 7)), np.ones(40)
    values, found = Unexplained(slopes, 2.0 * slopes, curved, 3.0 * curved).packed(rng)
    assert found == MOST_SKETCHES == 3
    np.testing.assert_allclose(values[:, 3:6], 2.0 * values[:, :3], rtol=1e-5)
    assert values[:, 6:].tolist() == [[1.0, 3.0]] * 40
    directions = np.linalg.lstsq(slopes, values[:, :3].astype(np.float64))[0]
    np.testing.assert_allclose(slopes @ directions, values[:, :3], atol=1e-4)
    assert np.linalg.matrix_rank(directions) == 3


def test_multipliers_are_odd_and_one_an_input() -> None:
    found = draw_multipliers(rng_of(0))
    assert found.dtype == np.uint32
    assert found.shape == (MOST_INPUTS,)
    assert (found % 2 == 1).all()
    assert len(set(found)) == MOST_INPUTS
    assert found.max() > 2**31 > found.min()


# Threads.


@pytest.mark.parametrize("n_outputs", [1, 2, 5])
def test_threads_change_no_bit(n_outputs: int) -> None:
    columns, rng = rng_of(2).normal(size=(20, 9001)), rng_of(3)
    unexplained = one_output(rng.normal(size=(9001, n_outputs)))
    candidates = Breeder(20, rng).propose(101)
    expected = score(columns, unexplained, candidates)
    assert len(set(expected)) == 101
    for n_jobs in (2, 3, 7, None):
        found = score(columns, unexplained, candidates, n_jobs=n_jobs)
        assert found.tobytes() == expected.tobytes()


def test_each_candidate_is_scored_by_itself() -> None:
    columns, rng = rng_of(2).normal(size=(6, N_ROWS)), rng_of(3)
    unexplained = one_output(rng.normal(size=N_ROWS))
    candidates = Breeder(6, rng).propose(37)
    expected = score(columns, unexplained, candidates)
    chosen = rng.permutation(37)[:11]
    np.testing.assert_array_equal(
        score(columns, unexplained, candidates.take(chosen)), expected[chosen]
    )


# A slow twin.


def bins_of(columns: Array, candidates: Candidates, c: int) -> list[tuple[int, ...]]:
    """Return each row's cells in one grid, divided in float32 as the loop does."""
    m = candidates.sizes[c]
    own = columns.astype(np.float32)[candidates.inputs[c, :m]]
    shifts = candidates.shifts[c, :m, None].astype(np.float32)
    inverse = (1.0 / candidates.widths[c, :m, None]).astype(np.float32)
    return [tuple(map(int, row)) for row in np.floor((own - shifts) * inverse).T]


def twin(
    columns: Array, given: Unexplained, parts: NDArray[np.int64], candidates: Candidates, c: int
) -> float:
    """Score a grid with a dictionary of its bins, output by output."""
    bins, gain, shrinkage = bins_of(columns, candidates, c), 0.0, 5.0
    for own, other in ((0, 1), (1, 0)):
        slopes: Any = defaultdict(lambda: np.zeros(given.fitted.shape[1]))
        curvature: Any = defaultdict(float)
        for i in range(*parts[own]):
            slopes[bins[i]] += given.fitted[i]
            curvature[bins[i]] += given.fitted_curvature[i]
        for i in range(*parts[other]):
            value = slopes[bins[i]] / (curvature[bins[i]] + shrinkage)
            gain += float(given.judged[i] @ value)
            gain -= 0.5 * given.judged_curvature[i] * float(value @ value)
    return gain


def apart(n_inputs: int) -> NDArray[np.uint32]:
    """Return multipliers that keep cells from -3 to 3 of up to three inputs apart."""
    found = np.ones(MOST_INPUTS, np.uint32)
    found[:n_inputs] += np.uint32(2) ** np.array([23, 26, 29], np.uint32)[:n_inputs]
    return found


@pytest.mark.parametrize("n_outputs", [1, 2, 3])
@pytest.mark.parametrize("cut", [[[0, 700], [700, 1500]], [[11, 500], [800, 1499]]])
def test_bins_that_do_not_collide_are_scored_as_dictionaries_would(
    n_outputs: int, cut: list[list[int]]
) -> None:
    rng, n, parts = rng_of(4), 1500, np.array(cut)
    columns = rng.uniform(-2.0, 2.0, (5, n))
    fitted, judged = rng.normal(size=(2, n, n_outputs)) + np.sign(columns[:1].T)
    given = Unexplained(fitted, judged, *rng.gamma(2.0, size=(2, n)))
    candidates = grids_over(
        [[0], [4], [0, 1], [3, 2], [1, 0, 4], [4, 2, 3], [0, 2, 4]],
        [1.0, 1.4, 1.1, 3.0, 1.0, 1.3, 2.2],
    )
    found = score(columns, given, candidates, parts=parts, multipliers=apart(3))
    expected = [twin(columns, given, parts, candidates, c) for c in range(len(candidates))]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert len(set(bins_of(columns, candidates, 4))) > 50


def test_bins_that_collide_are_judged_as_one() -> None:
    """Many more bins than places: nearly all share one, and the gain is that of coarser bins."""
    rng = rng_of(4)
    columns = rng.uniform(-2.0, 2.0, (1, N_ROWS))
    given = one_output(np.sin(columns[0]) + rng.normal(size=N_ROWS))
    same = np.ones(MOST_INPUTS, np.uint32)
    (found,) = score(columns, given, grids_over([[0]], 0.001), multipliers=same)
    # Cells below 0 all go to the last place, the others to the first.
    two = replace(grids_over([[0]], 2.0), shifts=np.zeros((1, MOST_INPUTS)))
    expected = twin(columns, given, halves(N_ROWS), two, 0)
    assert found == pytest.approx(expected, rel=0.01)


# Meaning.


def test_relevant_inputs_gain_more() -> None:
    rng = rng_of(5)
    columns = rng.normal(size=(6, N_ROWS))
    residual = np.sin(2.0 * columns[2]) + rng.normal(size=N_ROWS)
    for width in (0.1, 0.4, 1.0):
        gains = score(columns, one_output(residual), grids_over([[j] for j in range(6)], width))
        assert gains[2] > 0.1 * N_ROWS
        assert np.delete(gains, 2).max() < 0.01 * gains[2]


def test_two_inputs_that_matter_together_gain_together() -> None:
    rng = rng_of(6)
    columns = rng.normal(size=(4, N_ROWS))
    residual = np.sign(columns[0] * columns[1]) + rng.normal(size=N_ROWS)
    chosen = [[0, 1], [1, 0, 2], [0], [1], [0, 2], [3, 1], [2, 3], [0, 2, 3]]
    candidates = grids_over([own for own in chosen for _ in range(10)], 0.4)
    gains = score(columns, one_output(residual), candidates).reshape(8, 10).mean(axis=1)
    assert gains[0] > gains[1] > 0.1 * N_ROWS
    assert (gains[2:] < 0.0).all()


@pytest.mark.parametrize("width", [0.003, 0.03, 0.3, 3.0])
@pytest.mark.parametrize("size", [1, 4])
def test_noise_gains_nothing_on_average(width: float, size: int) -> None:
    """However fine the grid: the rows that fit a bin's value are not those that judge it."""
    rng, n_draws = rng_of(7), 60
    columns = rng.normal(size=(5, 1000))
    candidates = grids_over([list(range(k, k + size)) for k in (0, 1)] * 4, width)
    drawn = np.empty(n_draws)
    for k in range(n_draws):
        drawn[k] = score(columns, one_output(rng.normal(size=1000)), candidates).mean()
    error = drawn.std() / np.sqrt(n_draws)
    assert drawn.mean() < 3.0 * error
    # Judged by the rows that they were fitted to, fine grids would gain much.
    same = np.array([[0, 1000], [0, 1000]])
    fooled = score(columns, one_output(rng.normal(size=1000)), candidates, parts=same).mean()
    assert fooled > max(1.0, drawn.mean() + 20.0 * error) or width * size > 1.0


def test_the_best_width_is_found_between_too_fine_and_too_coarse() -> None:
    rng = rng_of(8)
    columns = rng.normal(size=(1, N_ROWS))
    residual = np.sin(3.0 * columns[0]) + rng.normal(size=N_ROWS)
    widths = np.repeat([0.003, 0.02, 0.3, 2.5, 8.0], 10)
    gains = score(columns, one_output(residual), grids_over([[0]] * 50, list(widths)))
    coarse = gains.reshape(5, 10).mean(axis=1)
    assert coarse.argmax() == 2
    assert (coarse[[0, 4]] < 0.5 * coarse[2]).all()


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_weights_count_rows(n_outputs: int) -> None:
    rng = rng_of(9)
    columns, weight = rng.normal(size=(4, 1500)), rng.integers(0, 4, 1500)
    residual = np.sin(columns[:1].T) + rng.normal(size=(1500, n_outputs))
    candidates = Breeder(4, rng).propose(40)
    weighted = score(columns, one_output(residual, weight.astype(float)), candidates)
    copies = np.repeat(np.arange(1500), weight)
    in_first = int(weight[:750].sum())
    parts = np.array([[0, in_first], [in_first, len(copies)]])
    repeated = score(columns[:, copies], one_output(residual[copies]), candidates, parts=parts)
    assert len(copies) <= 8 * FEW_PLACES
    np.testing.assert_allclose(weighted, repeated, rtol=1e-3, atol=1e-3 * np.abs(repeated).mean())
    plain = score(columns, one_output(residual), candidates)
    assert np.abs(plain - repeated).max() > 0.1 * np.abs(repeated).max()


def test_random_directions_see_what_all_outputs_gain() -> None:
    rng, n_outputs = rng_of(10), 8
    columns = rng.normal(size=(10, N_ROWS))
    residual = np.sin(2.0 * columns[:n_outputs].T) + 0.5 * np.tanh(columns[[0]].T * columns[[1]].T)
    residual += rng.normal(size=residual.shape)
    candidates = Breeder(10, rng).propose(60)
    exact = sum(score(columns, one_output(column), candidates) for column in residual.T)
    given = one_output(residual)
    drawn = np.array([score(columns, given, candidates, generator=rng_of(k)) for k in range(150)])
    means, errors = drawn.mean(axis=0), drawn.std(axis=0) / np.sqrt(len(drawn))
    # Three directions, each of expected square length 1 an output.
    assert np.abs((means - MOST_SKETCHES * exact) / errors).max() < 5.0
    assert np.corrcoef(means, exact)[0, 1] > 0.99
    alone = [np.corrcoef(row, exact)[0, 1] for row in drawn]
    assert np.mean(alone) > 0.9, np.mean(alone)
