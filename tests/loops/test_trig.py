"""Loops of Fourier features against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.base.arrays import readonly
from gramless.loops import compile as compiling
from gramless.loops import trig
from tests.solvers.pairwise import each_value, pairs


@compiling.loop
def lost(number):
    return trig.multiply_add(number, number, -(number * number))


UNFUSED = 0.0 if lost(1.0 + 2.0**-30) else 0.625
"""Errors of products, in ulps of 1, where they are not added in the same instruction.

The last product is below 2, half an ulp; the one before it, below 2 too, is multiplied by a square
of at most 1/4.
"""

PRECISIONS = {
    np.float32: 1.4e-7 + UNFUSED * float(np.finfo(np.float32).eps),
    np.float64: 2.5e-16 + UNFUSED * 2.0**-52 + 4.0 * float(np.finfo(np.longdouble).eps),
}
# The largest error of a cosine or sine by type: about 1.1 ulp of 1, and the error of the reference.

any_precision = pytest.mark.parametrize(("dtype", "error"), PRECISIONS.items())
any_type = pytest.mark.parametrize("dtype", PRECISIONS)


def expected_paired(angles: NDArray[Any]) -> NDArray[np.longdouble]:
    """Reduce to one turn, which is exact, and go on in the longest numbers there are."""
    with np.errstate(invalid="ignore"):
        turned = 4.0 * np.arctan(np.longdouble(1.0)) * np.fmod(angles.astype(np.longdouble), 2.0)
    return np.stack([np.cos(turned), np.sin(turned)], axis=-1).reshape(len(angles), -1)


def paired(angles: NDArray[Any], scale: float = 1.0) -> NDArray[Any]:
    out = np.full((len(angles), 2 * angles.shape[1]), 77, angles.dtype)
    trig.write_cosines_and_sines(angles, len(angles), angles.dtype.type(scale), out, 0, 0)
    return out


def cosines(angles: NDArray[Any], scale: float = 1.0) -> NDArray[Any]:
    out = np.full(angles.shape, 77, angles.dtype)
    trig.write_cosines(angles, len(angles), angles.dtype.type(scale), out, 0, 0)
    return out


def panels_of(weights: NDArray[Any]) -> NDArray[Any]:
    """Cut weights (d, n) into panels, n a multiple of their width."""
    lanes = trig.PANEL_BYTES // weights.itemsize
    return np.ascontiguousarray(weights.T.reshape(-1, lanes, len(weights)).swapaxes(1, 2))


# Cosines and sines.


@pytest.mark.parametrize(
    ("reach", "dtype"),
    each_value([1e-30, 0.25, 1.5, 100.0, 1e4, 1e6, 1e9, 1e15, 1e30], PRECISIONS),
)
def test_cosine_and_sine_are_accurate(reach: float, dtype: type) -> None:
    error = PRECISIONS[dtype]
    angles = np.linspace(-reach, reach, 40_001).astype(dtype).reshape(1, -1)
    expected = expected_paired(angles)
    assert np.abs(paired(angles) - expected).max() <= error
    assert np.abs(cosines(angles) - expected[:, ::2]).max() <= error


@any_precision
def test_values_near_quarter_turns_are_accurate(dtype: type, error: float) -> None:
    quarters = (np.arange(-7000, 7000) / 2).astype(dtype)
    angles = np.stack([np.nextafter(quarters, dtype(-9e9)), quarters])
    np.testing.assert_allclose(paired(angles), expected_paired(angles), rtol=0, atol=error)


@any_type
def test_whole_turns_are_exact(dtype: type) -> None:
    whole = np.array([[0, 1, 2, 3, -1, -2, 2**24, 2**31, -(2**40), 2**100]], dtype)
    expected = [1, -1, 1, -1, -1, 1, 1, 1, 1, 1]
    assert paired(whole)[0, ::2].tolist() == expected
    assert not paired(whole)[0, 1::2].any()


@any_type
def test_zero_angle_is_exact_and_nan_stays_nan(dtype: type) -> None:
    assert paired(np.zeros((1, 40), dtype)).tolist() == [[1.0, 0.0] * 40]
    with np.errstate(invalid="ignore"):
        undefined = paired(np.array([[np.nan, np.inf, -np.inf, 1.0]], dtype))[0]
    assert np.isnan(undefined).tolist() == [True] * 6 + [False] * 2


@given(st.lists(st.floats(-1e7, 1e7, width=32), min_size=1, max_size=40), st.floats(0.125, 2.0))
def test_any_angles_are_accurate(values: list[float], scale: float) -> None:
    for dtype, error in PRECISIONS.items():
        angles = np.array([values], dtype)
        tolerance = 2.0 * scale * error
        scaled = float(dtype(scale))
        expected = scaled * expected_paired(angles)
        np.testing.assert_allclose(paired(angles, scale), expected, rtol=0, atol=tolerance)
        np.testing.assert_allclose(cosines(angles, scale), expected[:, ::2], rtol=0, atol=tolerance)


@pytest.mark.parametrize(("n", "dtype"), each_value([1, 7, 16, 33], PRECISIONS))
def test_only_the_given_range_is_written(n: int, dtype: type) -> None:
    angles = np.random.default_rng(n).normal(size=(5, 40)).astype(dtype)
    for loop, columns in ((trig.write_cosines_and_sines, 2), (trig.write_cosines, 1)):
        whole = paired(angles) if columns == 2 else cosines(angles)
        out = np.full((9, columns * (3 + n)), 77, dtype)
        loop(angles, 4, dtype(1.0), out, 2, 3)
        np.testing.assert_array_equal(out[2:6, columns * 3 :], whole[:4, : columns * n])
        out[2:6, columns * 3 :] = 77
        assert (out == 77).all()


@any_type
def test_feature_does_not_depend_on_its_position(dtype: type) -> None:
    angles = np.random.default_rng(1).uniform(-2e4, 2e4, 67).astype(dtype)
    whole = paired(angles.reshape(1, -1))[0].reshape(-1, 2)
    for a, b in ((0, 1), (1, 18), (18, 67)):
        np.testing.assert_array_equal(paired(angles[None, a:b])[0].reshape(-1, 2), whole[a:b])


# Projections.


@pytest.mark.parametrize(("n_inputs", "dtype"), each_value([1, 3, 256, 257, 700], PRECISIONS))
def test_projection_matches_numpy(n_inputs: int, dtype: type) -> None:
    for n_rows in [6, 24]:
        for n_panels in [1, 5]:
            rng, lanes = (
                np.random.default_rng(n_inputs),
                trig.PANEL_BYTES // np.dtype(dtype).itemsize,
            )
            rows = rng.normal(size=(n_rows, n_inputs)).astype(dtype)
            weights = rng.normal(size=(n_inputs, n_panels * lanes)).astype(dtype)
            starts = rng.normal(size=n_panels * lanes + 3).astype(dtype)
            sums = np.full((n_rows, n_panels * lanes + 5), 77, dtype)
            trig.project(rows, panels_of(weights), starts, sums)
            expected = rows.astype(np.float64) @ weights.astype(np.float64) + starts[:-3]
            error = 2.0 * np.finfo(dtype).eps * np.sqrt(n_inputs) * np.abs(expected).max()
            np.testing.assert_allclose(sums[:, :-5], expected, rtol=0, atol=error)
            assert (sums[:, -5:] == 77).all()


@any_type
def test_projection_does_not_depend_on_other_rows(dtype: type) -> None:
    rng, lanes = np.random.default_rng(0), trig.PANEL_BYTES // np.dtype(dtype).itemsize
    rows = rng.normal(size=(30, 300)).astype(dtype)
    panels = panels_of(rng.normal(size=(300, 3 * lanes)).astype(dtype))
    starts, whole = np.ones(3 * lanes, dtype), np.empty((30, 3 * lanes), dtype)
    trig.project(rows, panels, starts, whole)
    for a in (1, 5, 11):
        part = np.empty((12, 3 * lanes), dtype)
        trig.project(rows[a : a + 12].copy(), panels, starts, part)
        np.testing.assert_array_equal(part, whole[a : a + 12])


@pytest.mark.parametrize(("dtype", "index"), each_value(PRECISIONS, [np.int32, np.int64]))
def test_sparse_projection_matches_dense(dtype: type, index: type) -> None:
    rng, lanes = np.random.default_rng(3), trig.PANEL_BYTES // np.dtype(dtype).itemsize
    rows = rng.normal(size=(13, 40)) * (rng.random((13, 40)) < 0.3)
    rows[4] = 0.0
    weights = rng.normal(size=(40, 2 * lanes)).astype(dtype)
    sparse = sp.csr_array(rows.astype(dtype))
    indptr, indices = sparse.indptr.astype(index), sparse.indices.astype(index)
    starts, sums = rng.random(2 * lanes).astype(dtype), np.full((14, 2 * lanes + 3), 77, dtype)
    trig.project_sparse(indptr, indices, sparse.data, panels_of(weights), starts, sums)
    expected = np.full(sums.shape, 77.0)
    expected[:13, :-3] = rows @ weights + starts
    np.testing.assert_allclose(sums, expected, rtol=0, atol=20 * np.finfo(dtype).eps)


# Rows in units of the bandwidth.


@pytest.mark.parametrize(
    ("order", "given_as", "dtype"), pairs(["C", "F", "strided"], PRECISIONS, PRECISIONS)
)
def test_scaled_rows_match_numpy(order: str, given_as: type, dtype: type) -> None:
    rng = np.random.default_rng(4)
    rows = np.asarray(rng.normal(size=(20, 7)).astype(given_as), order="F" if order == "F" else "C")
    rows = rows[::2, 1:] if order == "strided" else rows
    center, inverse = rng.normal(size=(2, rows.shape[1]))
    scaled = np.full((len(rows) + 2, rows.shape[1] + 1), 77, dtype)
    trig.scale_rows(*map(readonly, (rows, center, inverse)), 1.5, scaled)
    expected = np.clip((rows.astype(np.float64) - center) * inverse, -1.5, 1.5).astype(dtype)
    np.testing.assert_array_equal(scaled[:-2, :-1], expected)
    assert (scaled[-2:] == 77).all()
    assert (scaled[:, -1] == 77).all()


def test_large_offsets_keep_precision() -> None:
    rows = 1e9 + np.arange(6.0).reshape(-1, 1) / 8
    scaled = np.zeros((6, 1), np.float32)
    given = map(readonly, (rows, np.array([1e9]), np.array([8.0])))
    trig.scale_rows(*given, 1e3, scaled)
    assert scaled[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_largest_floats_give_finite_values() -> None:
    rows, scaled = np.array([[-1.7e308], [1.7e308]]), np.zeros((2, 1), np.float32)
    for inverse in (0.0, 1e-300, 1.0, 1e300):
        given = map(readonly, (rows, np.array([1.7e308]), np.array([inverse])))
        trig.scale_rows(*given, 2.0**36, scaled)
        assert np.isfinite(scaled).all()
