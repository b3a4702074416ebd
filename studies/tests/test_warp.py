"""Images turned, shifted and bent, against SciPy's interpolation and plain cases."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from studies.warp import warp

UPRIGHT = (1.0, 0.0)
NO_KNOTS = np.zeros((1, 2, 0, 0))


def random_image(*shape: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def warped(
    image: NDArray[np.uint8],
    turn: tuple[float, float] = UPRIGHT,
    shift: tuple[float, float] = (0.0, 0.0),
    knots: NDArray[np.float64] = NO_KNOTS,
    down: Any = None,
    across: Any = None,
) -> NDArray[np.float32]:
    out = np.full((1, *image.shape), np.nan, np.float32)
    down = np.zeros((image.shape[0], 0)) if down is None else down
    across = np.zeros((0, image.shape[1])) if across is None else across
    turns, shifts = np.array([turn]), np.array([shift])
    warp(image[None], np.zeros(1, np.int64), turns, shifts, knots, down, across, out)
    return out[0]


def twin(
    image: NDArray[np.uint8], angle: float, shift: Any, knots: Any, down: Any, across: Any
) -> NDArray[np.float64]:
    """Place each pixel of the result by its formula, and let SciPy interpolate."""
    height, width = image.shape
    middle = np.array([(height - 1) / 2, (width - 1) / 2])
    back = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    places = np.empty((2, height, width))
    for r in range(height):
        for c in range(width):
            bend = [down[r] @ knots[side] @ across[:, c] for side in range(2)]
            places[:, r, c] = back @ (np.array([r, c]) - middle - shift) + middle + bend
    shades: NDArray[np.float64] = map_coordinates(
        image.astype(np.float64), places, order=1, mode="grid-constant", cval=0.0
    )
    return shades / 255


@given(
    st.integers(0, 10**6),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.sampled_from([0.0, 0.5, 5.0]),
)
def test_against_the_twin(seed: int, shape: Any, n_knots: Any, size: float) -> None:
    rng = np.random.default_rng(seed)
    image, angle = random_image(*shape, seed=seed), rng.normal(scale=2.0)
    shift, knots = size * rng.normal(size=2), size * rng.normal(size=(2, *n_knots))
    down, across = rng.normal(size=(shape[0], n_knots[0])), rng.normal(size=(n_knots[1], shape[1]))
    turn = (float(np.cos(angle)), float(np.sin(angle)))
    result = warped(image, turn, tuple(shift), knots[None], down, across)
    expected = twin(image, angle, shift, knots, down, across)
    np.testing.assert_allclose(result, expected, atol=1e-6)


def test_nothing_done_is_the_image() -> None:
    for shape in [(28, 28), (5, 9), (9, 5), (1, 1), (1, 4)]:
        image = random_image(*shape)
        np.testing.assert_array_equal(warped(image), (image / 255.0).astype(np.float32))


def test_quarter_turns_against_the_clock() -> None:
    for side in [4, 7]:
        for quarters in [1, 2, 3]:
            image = random_image(side, side)
            turn = [(0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)][quarters - 1]
            expected = np.rot90(image, quarters) / 255.0
            np.testing.assert_allclose(warped(image, turn), expected, atol=1e-7)


def test_whole_shifts_move_down_and_right_and_let_black_in() -> None:
    image = random_image(6, 8)
    expected = np.zeros((6, 8))
    expected[2:, :5] = image[:4, 3:] / 255.0
    np.testing.assert_allclose(warped(image, shift=(2.0, -3.0)), expected, atol=1e-7)


def test_half_shifts_are_means_of_neighbours() -> None:
    image = random_image(5, 6)
    framed = np.pad(image, 1).astype(np.float64)
    expected = (framed[1:-1, :-2] + framed[1:-1, 1:-1]) / 2 / 255
    np.testing.assert_allclose(warped(image, shift=(0.0, 0.5)), expected, atol=1e-7)


def test_what_is_shifted_away_is_black() -> None:
    for size in [6.0, 1e3, 1e12, 1e300]:
        for sign in [(1, 0), (-1, 0), (0, 1), (0, -1), (1, -1)]:
            image = np.full((6, 6), 255, np.uint8)
            assert not warped(image, shift=(size * sign[0], size * sign[1])).any()


def test_a_knot_moves_where_its_weight_is() -> None:
    """The upper rows come from one column further to the right."""
    image = random_image(4, 6)
    down = np.array([[1.0], [1.0], [0.0], [0.0]])
    knots = np.array([[[[0.0]], [[1.0]]]])
    result = warped(image, knots=knots, down=down, across=np.ones((1, 6)))
    expected = image / 255.0
    expected[:2] = np.pad(expected[:2, 1:], ((0, 0), (0, 1)))
    np.testing.assert_allclose(result, expected, atol=1e-7)


def test_images_are_chosen_and_stay_apart() -> None:
    images, rng = random_image(3, 7, 7), np.random.default_rng(1)
    sources, angles = np.array([2, 0, 2, 1]), rng.normal(size=4)
    turns, shifts = np.column_stack([np.cos(angles), np.sin(angles)]), rng.normal(size=(4, 2))
    out, none = np.empty((4, 7, 7), np.float32), np.zeros((4, 2, 0, 0))
    warp(images, sources, turns, shifts, none, np.zeros((7, 0)), np.zeros((0, 7)), out)
    for i in range(4):
        alone = warped(images[sources[i]], tuple(turns[i]), tuple(shifts[i]))
        np.testing.assert_array_equal(out[i], alone)
    assert (out >= 0).all()
    assert (out <= 1).all()
