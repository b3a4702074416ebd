from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy import stats
from sklearn.datasets import load_digits

from gramless.base.errors import InputError
from studies.deformed import BLOCK_ROWS, DeformedDigits

DIGITS = load_digits()
IMAGES = (DIGITS.images * 15.9).astype(np.uint8)
LABELS = DIGITS.target
STILL = {"rotation": 0.0, "shift": 0.0, "elastic": 0.0}


def digits(**options: Any) -> DeformedDigits:
    return DeformedDigits(IMAGES, LABELS, **{"shift": 0.5, "elastic": 0.3, **options})


def ramps(side: int = 29) -> NDArray[np.uint8]:
    """Return two images whose shades are 8 times the row, and 8 times the column."""
    return (8 * np.indices((side, side))).astype(np.uint8)


def displaced(which: int, n: int, **options: Any) -> NDArray[np.float64]:
    """Return from where pixels come, downwards or sidewards, less where they are."""
    image = ramps()[which : which + 1]
    stream = DeformedDigits(image, [0], **{**STILL, **options})
    shades = stream.batch(0, n)[0].reshape(n, 29, 29) * 255.0 / 8.0
    return shades - np.indices((29, 29))[which]


FROZEN_LABELS = [8, 1, 1, 6, 0, 6, 9, 4]
FROZEN_SUMS = [21.07237, 18.00138, 19.6718, 18.42846, 25.23763, 18.3917, 19.86378, 21.48866]

# Rows by their numbers.


@hypothesis_settings(max_examples=30)
@given(st.integers(0, 2000), st.integers(0, 700))
def test_a_row_is_a_function_of_its_number(start: int, length: int) -> None:
    X, y = whole()
    part, labels = digits(n_jobs=1).batch(start, start + length)
    assert_array_equal(part, X[start : start + length])
    assert_array_equal(labels, y[start : start + length])


@cache
def whole() -> tuple[NDArray[np.float32], NDArray[Any]]:
    return digits(n_jobs=2).batch(0, 2700)


def test_kinds_and_limits() -> None:
    X, y = whole()
    assert X.shape == (2700, 64)
    assert X.dtype == np.float32
    assert X.flags.c_contiguous
    assert y.dtype == LABELS.dtype
    assert 0.0 <= X.min() < X.max() <= 1.0
    assert len(np.unique(X, axis=0)) == len(X)


def test_far_rows_cost_no_more_and_differ() -> None:
    far = 10**15
    X, _ = digits().batch(far, far + 10)
    assert not (whole()[0][:10] == X).all(axis=1).any()


def test_other_options_make_other_rows() -> None:
    for changed in [{"seed": 1}, {"rotation": 5.0}, {"shift": 0.1}]:
        X, y = digits(**changed).batch(0, 50)
        assert not (whole()[0][:50] == X).all(axis=1).any()
        assert (y == whole()[1][:50]).all() == ("seed" not in changed)


def test_the_same_rows_in_every_version() -> None:
    X, y = digits().batch(BLOCK_ROWS - 4, BLOCK_ROWS + 4)
    assert y.tolist() == FROZEN_LABELS
    assert_allclose(X.sum(axis=1), FROZEN_SUMS, rtol=1e-5)


def test_without_deformation_rows_are_the_images() -> None:
    X, y = digits(**STILL).batch(0, 300)
    rows = (IMAGES.reshape(len(IMAGES), 64) / 255.0).astype(np.float32)
    for row, label in zip(X, y, strict=True):
        same = (rows == row).all(axis=1)
        assert same.any()
        assert label in LABELS[same]


def test_no_rows() -> None:
    X, y = digits().batch(5, 5)
    assert X.shape == (0, 64)
    assert y.shape == (0,)


# Chunks.


def test_chunks() -> None:
    for n_rows, chunk_rows in [(600, 250), (600, 600), (5, 100), (0, 3)]:
        chunks = digits().chunks(n_rows, chunk_rows=chunk_rows)
        assert (chunks.n_rows, chunks.n_features, chunks.chunk_rows) == (n_rows, 64, chunk_rows)
        for _ in range(2):
            parts = list(chunks)
            assert [len(y) for _, y in parts[:-1]] == [chunk_rows] * max(0, len(parts) - 1)
            assert sum(len(y) for _, y in parts) == n_rows
            if parts:
                assert_array_equal(np.concatenate([X for X, _ in parts]), whole()[0][:n_rows])
                assert_array_equal(np.concatenate([y for _, y in parts]), whole()[1][:n_rows])


def test_two_iterations_at_once() -> None:
    chunks = digits().chunks(40, chunk_rows=10)
    for (left, _), (right, _) in zip(chunks, chunks, strict=True):
        assert_array_equal(left, right)


# Laws.


def test_all_images_are_as_likely() -> None:
    images = np.zeros((10, 2, 2), np.uint8)
    _, y = DeformedDigits(images, np.arange(10), **STILL).batch(0, 20_000)
    assert stats.chisquare(np.bincount(y, minlength=10)).pvalue > 0.01


def test_shifts_have_their_standard_deviation() -> None:
    for which in [0, 1]:
        n = 6000
        moved = -displaced(which, n, shift=2.0)[:, 14, 14]
        assert abs(moved.mean()) < 4 * 2.0 / np.sqrt(n)
        assert moved.std() == pytest.approx(2.0, rel=0.035)
        assert stats.kstest(moved / 2.0, "norm").pvalue > 0.01


def test_shifts_down_and_sideways_are_independent() -> None:
    down, right = (displaced(which, 3000, shift=1.0)[:, 14, 14] for which in (0, 1))
    assert abs(np.corrcoef(down, right)[0, 1]) < 4 / np.sqrt(3000)


def test_angles_have_their_standard_deviation() -> None:
    n = 6000
    # Four pixels above the centre, a turn moves the source by four times its sine.
    sines = displaced(1, n, rotation=15.0)[:, 10, 14] / 4.0
    angles = np.rad2deg(np.arcsin(sines))
    assert abs(angles.mean()) < 4 * 15.0 / np.sqrt(n)
    assert angles.std() == pytest.approx(15.0, rel=0.035)


def test_bends_have_their_standard_deviation_everywhere() -> None:
    n = 3000
    for which in (0, 1):
        moved = displaced(which, n, elastic=0.8)
        spread = moved[:, 5:24, 5:24].std(axis=0)
        assert spread.mean() == pytest.approx(0.8, rel=0.02)
        assert spread.min() > 0.8 * 0.93
        assert spread.max() < 0.8 * 1.07
        assert abs(moved[:, 14, 14].mean()) < 4 * 0.8 / np.sqrt(n)


def test_bends_are_smooth() -> None:
    moved = displaced(0, 2000, elastic=1.0)
    near = np.corrcoef(moved[:, 14, 12], moved[:, 14, 13])[0, 1]
    far = np.corrcoef(moved[:, 14, 5], moved[:, 14, 23])[0, 1]
    assert near > 0.97
    assert abs(far) < 0.2


# What it takes, and what not.


def test_strided_and_read_only_images() -> None:
    images = np.asfortranarray(np.repeat(IMAGES, 2, axis=2))[:, :, ::2]
    images.flags.writeable = False
    same = DeformedDigits(images, LABELS.tolist(), shift=0.5, elastic=0.3)
    assert_array_equal(same.batch(0, 20)[0], whole()[0][:20])


def test_labels_may_be_text() -> None:
    names = np.array(["even", "odd"], dtype=object)[LABELS % 2]
    _, y = DeformedDigits(IMAGES, names).batch(0, 30)
    assert_array_equal(y, np.where(whole()[1][:30] % 2 == 1, "odd", "even"))


def test_one_image_of_one_pixel() -> None:
    X, y = DeformedDigits(np.full((1, 1, 1), 255, np.uint8), [7]).batch(0, 500)
    assert X.shape == (500, 1)
    assert 0.0 <= X.min() < X.max() <= 1.0
    assert set(y) == {7}


def test_bad_images() -> None:
    for images, message in [
        (IMAGES / 255.0, "3-D array of uint8"),
        (IMAGES.reshape(-1, 64), "reshape rows of pixels"),
        (IMAGES[:0], "at least one pixel"),
        (IMAGES[:, :0], "at least one pixel"),
    ]:
        with pytest.raises(InputError, match=f"DeformedDigits: images must be .*{message}"):
            DeformedDigits(images, LABELS[: len(images)])


def test_bad_labels() -> None:
    for labels in [LABELS[:-1], LABELS[:, None], 3]:
        with pytest.raises(InputError, match="labels must be one for each of the 1797 images"):
            DeformedDigits(IMAGES, labels)


def test_bad_deviations() -> None:
    for name in ["rotation", "shift", "elastic"]:
        for value in [-1.0, np.nan, np.inf, "1", None, True]:
            with pytest.raises(InputError, match=f"{name} must be a finite number, not negative"):
                digits(**{name: value})


def test_bad_batches() -> None:
    for start, stop in [(-1, 3), (3, 2), (0, 2.5), (0, None), (True, 3)]:
        with pytest.raises(InputError, match="start and stop must be whole numbers"):
            digits().batch(start, stop)


def test_bad_chunks() -> None:
    for options, message in [
        ((-1,), "n_rows must be a whole number of at least 0, got -1"),
        ((2.5,), "n_rows must be a whole number"),
        ((10, 0), "chunk_rows must be a whole number of at least 1, got 0"),
    ]:
        with pytest.raises(InputError, match=message):
            digits().chunks(*options)


def test_it_says_what_it_is() -> None:
    assert repr(digits(seed=3)) == "DeformedDigits(1,797 images of 8 x 8, seed=3)"
    assert digits().n_features == 64
