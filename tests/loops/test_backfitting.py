"""Backfitting of grids against slow references, exact ridge solutions and the optimum of a loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.loops.backfitting import backfit
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


N_TRAINING, HALF, RIDGES = 280, 150, np.array([3.5, 20.0], np.float32)


def draw(seed: int = 0) -> dict[str, Floats]:
    """Return derivatives of two columns, and three columns of weights of both models."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=(N_TRAINING, 2))
    curvatures = rng.gamma(2.0, size=(N_TRAINING, 2))
    return {
        "derivatives": np.hstack([slopes, curvatures]).astype(np.float32),
        "weights": rng.normal(size=(sum(N_BINS), 2, 3)).astype(np.float32),
        "changes": np.zeros((N_ROWS, 4), np.float32),
    }


def run(
    state: dict[str, Any],
    grids: list[int],
    half: int = HALF,
    ridges: Floats = RIDGES,
    column: int = 0,
) -> None:
    codes, offsets = draw_codes()
    scratch = np.full(4 * max(N_BINS), 77, np.float32), np.full(8 * max(N_BINS), 77, np.float32)
    common = codes, offsets, np.array(grids, np.int64), half, ridges
    backfit(*common, state["derivatives"], state["weights"], column, state["changes"], *scratch)


def reference(state: dict[str, Any], grids: list[int], half: int, column: int) -> None:
    """Do the same with one Newton step per bin; rows are added one after the other in float32."""
    codes, offsets = draw_codes()
    weights, changes = state["weights"], state["changes"].reshape(N_ROWS, 2, 2)
    slopes, curvatures = state["derivatives"].reshape(-1, 2, 2).transpose(1, 0, 2)
    n_training = len(slopes)
    for g in grids:
        for model, fitted in enumerate([range(half), range(half, n_training)]):
            for k in range(min(2, weights.shape[2] - column)):
                for c in range(N_BINS[g]):
                    members = np.flatnonzero(codes[g] == c + 1)
                    slope = curvature = np.float32(0.0)
                    for i in (i for i in members if i in fitted):
                        slope += slopes[i, k] - curvatures[i, k] * changes[i, model, k]
                        curvature += curvatures[i, k]
                    at = offsets[g] + c, model, column + k
                    step = (slope - RIDGES[k] * weights[at]) / (curvature + RIDGES[k])
                    weights[at] += step
                    changes[members, model, k] += step


@pytest.mark.parametrize("column", [0, 1, 2])
def test_backfitting_equals_the_slow_implementation(column: int) -> None:
    for n_training, half in [(280, 150), (300, 150), (280, 30), (280, 270), (2, 1), (20, 20)]:
        for grids in [[0, 1, 2, 3], [3, 1], [2], []]:
            result, expected = draw(), draw()
            for state in (result, expected):
                state["derivatives"] = np.resize(state["derivatives"], (n_training, 4))
            run(result, grids, half, column=column)
            reference(expected, grids, half, column)
            for name, values in expected.items():
                np.testing.assert_array_equal(result[name], values, err_msg=name)


def test_bins_without_rows_shrink_to_zero() -> None:
    """A Newton step for the penalty alone ends at its minimum."""
    state = draw()
    # Products with powers of two are exact.
    run(state, [3], half=N_TRAINING, ridges=np.array([2.0, 16.0], np.float32))
    np.testing.assert_array_equal(state["weights"][-N_BINS[3] :, 1, :2], 0.0)


# Many passes.


ROWS = slice(0, 260)


def features(codes: NDArray[np.uint16], offsets: NDArray[np.int64]) -> Doubles:
    """Return the 0-1 matrix of the bins."""
    Z = np.zeros((codes.shape[1], int(offsets[-1])))
    for code, start in zip(codes, offsets, strict=False):
        Z[np.arange(len(code)), start + code.astype(int) - 1] = 1.0
    return Z


def fitted(loss: Loss, y: Doubles, ridge: float, n_passes: int) -> tuple[Doubles, float]:
    """Return the first model's weights after many passes, and how far its raw predictions drift.

    Each pass adds a step to the prediction of each row once a grid, and rounds.
    """
    y = y.reshape(N_ROWS, -1)
    weights = np.zeros((sum(N_BINS), 2, y.shape[1]), np.float32)
    raw, drift = np.zeros(y.shape, np.float32), 0.0
    for _ in range(n_passes):
        z = raw.astype(np.float64)
        slopes, curvatures = -loss.gradient(z, y), loss.curvature(z, y)
        for column in range(0, y.shape[1], 2):
            derivatives, used = np.zeros((N_ROWS, 4), np.float32), slice(column, column + 2)
            n_used = slopes[:, used].shape[1]
            derivatives[:, :n_used] = slopes[:, used]
            derivatives[:, 2 : 2 + n_used] = curvatures[:, used]
            state = {
                "derivatives": derivatives[: ROWS.stop],
                "weights": weights,
                "changes": np.zeros((N_ROWS, 4), np.float32),
            }
            run(state, [0, 1, 2, 3], ROWS.stop, np.full(2, ridge, np.float32), column)
            raw[:, used] += state["changes"][:, :n_used]
        # Rounded are the prediction and the weight, half a unit in the last place each.
        drift += len(N_BINS) * 0.5 * EPS * float(np.abs(raw).max() + np.abs(weights).max())
    return weights[:, 0].astype(np.float64), drift


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
    result, drift = fitted(Squared(), y, ridge, 250)
    result = result[:, 0]
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
    result, drift = fitted(loss, y, ridge, 80)
    result = result.reshape(-1, *y.shape[1:])
    slopes = -loss.gradient(Z @ result, y[ROWS])
    gradient = (Z.T @ slopes - ridge * result).reshape(len(result), -1)
    curvature = max(1.0, float(loss.curvature(Z @ result, y[ROWS]).max()))
    bound = gradient_bound(Z, slopes, ridge, result, curvature * drift)
    assert (np.abs(gradient) <= bound).all()
    start = np.abs(Z.T @ loss.gradient(np.zeros_like(y[ROWS]), y[ROWS])).max()
    assert bound.max() < 0.01 * start
