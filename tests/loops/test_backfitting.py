"""Backfitting of grids against slow references, exact ridge solutions and the optimum of a loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.loops.backfitting import backfit, backfit_outputs, backfit_shared_curvature
from gramless.losses import Logistic, Loss, Multinomial, Poisson, Squared

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

N_ROWS, N_BINS = 300, (1, 2, 7, 40)
EPS = float(np.finfo(np.float32).eps)


def draw_codes(seed: int = 0) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Return bin numbers of four grids, and where the bins of each begin."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(1, m + 1, N_ROWS) for m in N_BINS]).astype(np.uint16)
    return codes, np.append(0, np.cumsum(N_BINS))


def draw(n_outputs: int | None, seed: int = 0) -> dict[str, Floats]:
    """Return slopes, curvatures, weights and raw predictions; None is one output, (n_rows,)."""
    rng, shape = np.random.default_rng(seed), () if n_outputs is None else (n_outputs,)
    return {
        "slopes": rng.normal(size=(N_ROWS, *shape)).astype(np.float32),
        "curvatures": rng.gamma(2.0, size=(N_ROWS, *shape)).astype(np.float32),
        "weights": rng.normal(size=(sum(N_BINS), *shape)).astype(np.float32),
        "raw": rng.normal(size=(N_ROWS, *shape)).astype(np.float32),
    }


def run(state: dict[str, Any], grids: list[int], first: int, last: int, ridge: float) -> None:
    codes, offsets = draw_codes()
    n_outputs = 1 if state["raw"].ndim == 1 else state["raw"].shape[1]
    sums = np.full(2 * max(N_BINS) * n_outputs, 77, np.float32)
    loop = backfit if state["raw"].ndim == 1 else backfit_outputs
    order = np.array(grids, np.int64)
    loop(codes, offsets, order, first, last, np.float32(ridge), *state.values(), sums)


def twin(state: dict[str, Any], grids: list[int], first: int, last: int, ridge: float) -> None:
    """Do the same with one Newton step a bin, rows added one after the other in float32."""
    codes, offsets = draw_codes()
    slopes, curvatures, weights, raw = state.values()
    ridge = np.float32(ridge)
    for g in grids:
        rows = np.arange(N_ROWS)
        for c in range(N_BINS[g]):
            members = rows[codes[g] == c + 1]
            fitted = [i for i in members if first <= i < last]
            slope, curvature = np.zeros((2, *raw.shape[1:]), np.float32)
            for i in fitted:
                slope, curvature = slope + slopes[i], curvature + curvatures[i]
            at = offsets[g] + c
            step = (slope - ridge * weights[at]) / (curvature + ridge)
            weights[at] += step
            slopes[members] -= curvatures[members] * step
            raw[members] += step


@pytest.mark.parametrize("n_outputs", [None, 1, 2, 5])
def test_backfitting_equals_the_slow_implementation(n_outputs: int | None) -> None:
    for rows in [(0, N_ROWS), (0, 150), (150, 290), (10, 11), (20, 20)]:
        for grids in [[0, 1, 2, 3], [3, 1], [2], []]:
            result, expected = draw(n_outputs), draw(n_outputs)
            run(result, grids, *rows, 3.5)
            twin(expected, grids, *rows, 3.5)
            for name, values in expected.items():
                np.testing.assert_array_equal(result[name], values, err_msg=name)


@pytest.mark.parametrize("n_outputs", [4, 8, 20])
def test_one_curvature_per_row_equals_equal_curvatures(n_outputs: int) -> None:
    codes, offsets = draw_codes()
    room = np.full(max(N_BINS) * n_outputs, 77, np.float32), np.full(max(N_BINS), 77, np.float32)
    for rows in [(0, N_ROWS), (150, 290), (10, 11), (20, 20)]:
        for grids in [[0, 1, 2, 3], [3, 1], []]:
            result, expected = draw(n_outputs), draw(n_outputs)
            expected["curvatures"][:] = expected["curvatures"][:, :1]
            run(expected, grids, *rows, 3.5)
            result["curvatures"] = result["curvatures"][:, 0].copy()
            fixed = codes, offsets, np.array(grids, np.int64), *rows, np.float32(3.5)
            backfit_shared_curvature(*fixed, *result.values(), *room)
            for name in ("slopes", "weights", "raw"):
                np.testing.assert_array_equal(result[name], expected[name], err_msg=name)


def test_bins_without_rows_shrink_towards_zero() -> None:
    """Newton's step of the penalty alone ends at its minimum."""
    state = draw(None)
    run(state, [3], 0, 0, 2.0)
    np.testing.assert_array_equal(state["weights"][-N_BINS[3] :], 0.0)


# Many passes.


def features(codes: NDArray[np.uint16], offsets: NDArray[np.int64]) -> Doubles:
    """Return the 0-1 matrix of the bins."""
    Z = np.zeros((codes.shape[1], int(offsets[-1])))
    for code, start in zip(codes, offsets, strict=False):
        Z[np.arange(len(code)), start + code.astype(int) - 1] = 1.0
    return Z


def fitted(
    loss: Loss, y: Doubles, ridge: float, n_passes: int, first: int, last: int
) -> tuple[Doubles, float]:
    """Return the weights after many passes, and how far raw predictions may have drifted.

    Each pass adds a step to the prediction of each row once a grid, and rounds.
    """
    weights = np.zeros((sum(N_BINS), *y.shape[1:]), np.float32)
    raw, drift = np.zeros(y.shape, np.float32), 0.0
    for _ in range(n_passes):
        z = raw.astype(np.float64)
        slopes, curvatures = -loss.gradient(z, y), loss.curvature(z, y)
        state = {
            "slopes": slopes.astype(np.float32),
            "curvatures": curvatures.astype(np.float32),
            "weights": weights,
            "raw": raw,
        }
        run(state, [0, 1, 2, 3], first, last, ridge)
        # Rounded are the prediction and the weight, half a unit in the last place each.
        drift += len(N_BINS) * 0.5 * EPS * float(np.abs(raw).max() + np.abs(weights).max())
    return weights.astype(np.float64), drift


ROWS = slice(20, 280)


def gradient_bound(Z: Doubles, slopes: Doubles, ridge: float, w: Doubles, drift: float) -> Doubles:
    """Return how large the penalised gradient of each bin may be where steps end by rounding.

    Of each bin: the drift of its rows' predictions, times a curvature of at most 1; the rounding of
    the sum of its n slopes, which have errors of a few units in the last place themselves; and the
    step that is lost when it is smaller than half a unit in the last place of the weight.
    """
    n_rows = Z.sum(axis=0)[:, None]
    slopes = np.abs(slopes.reshape(len(slopes), -1))
    w = np.abs(w.reshape(len(w), -1))
    summed = (n_rows + 2 * len(N_BINS)) * EPS * (Z.T @ slopes + ridge * w)
    return n_rows * drift + summed + (n_rows + ridge) * EPS * w


def test_many_passes_reach_the_ridge_solution() -> None:
    Z, ridge = features(*draw_codes())[ROWS], 10.0
    y = np.random.default_rng(1).normal(size=N_ROWS)
    result, drift = fitted(Squared(), y, ridge, 250, ROWS.start, ROWS.stop)
    exact = np.linalg.solve(Z.T @ Z + ridge * np.eye(Z.shape[1]), Z.T @ y[ROWS])
    bound = gradient_bound(Z, y[ROWS] - Z @ result, ridge, result, drift)
    # The objective is at least as curved as its penalty.
    assert np.linalg.norm(result - exact) < np.linalg.norm(bound) / ridge
    assert np.linalg.norm(bound) / ridge < 0.05 * np.linalg.norm(exact)


def labelled(seed: int = 1) -> dict[str, tuple[Loss, Doubles]]:
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, N_ROWS)
    return {
        "squared": (Squared(), rng.normal(size=N_ROWS)),
        "logistic": (Logistic(), rng.choice([-1.0, 1.0], N_ROWS)),
        "poisson": (Poisson(), rng.poisson(0.5, N_ROWS).astype(np.float64)),
        "multinomial": (Multinomial(), np.where(classes[:, None] == np.arange(3), 1.0, -1.0)),
    }


@pytest.mark.parametrize("name", labelled())
def test_penalised_gradient_vanishes(name: str) -> None:
    loss, y = labelled()[name]
    Z, ridge = features(*draw_codes())[ROWS], 20.0
    result, drift = fitted(loss, y, ridge, 80, ROWS.start, ROWS.stop)
    slopes = -loss.gradient(Z @ result, y[ROWS])
    gradient = (Z.T @ slopes - ridge * result).reshape(len(result), -1)
    curvature = max(1.0, float(loss.curvature(Z @ result, y[ROWS]).max()))
    bound = gradient_bound(Z, slopes, ridge, result, curvature * drift)
    assert (np.abs(gradient) <= bound).all()
    start = np.abs(Z.T @ loss.gradient(np.zeros_like(y[ROWS]), y[ROWS])).max()
    assert bound.max() < 0.01 * start
