"""Standard normals from words: against SciPy, a reference, the distribution and frozen bits."""

from __future__ import annotations

import math
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri

from gramless.base.random import raw_words
from gramless.loops import normals

N_DRAWS = 1_000_000
ALL_BITS = 2**64 - 1

any_word = st.integers(0, ALL_BITS)

FROZEN = {
    0x0000000000000000: "-0x1.06b48528cea51p+3",
    0x0000000000001000: "-0x1.02734508d1f1cp+3",
    0x0000000000010000: "-0x1.f1d63059a392dp+2",
    0x0000100000000000: "-0x1.30d5024a39306p+2",
    0x0123456789ABCDEF: "-0x1.4ee2dc0a9e007p+1",
    0x1333333333333400: "-0x1.7085226d3e521p+0",
    0x7FFFFFFFFFFFFFFF: "-0x1.40d931ff62707p-52",
    0x8000000000000000: "0x1.40d931ff62707p-52",
    0x8000000000001000: "0x1.e145caff13a8ap-51",
    0xDEADBEEFDEADBEEF: "0x1.20293485177adp+0",
    0xFFFFFF0000000000: "0x1.52dc6e85fa3eep+2",
    0xFFFFFFFFFFFFFFFF: "0x1.06b48528cea51p+3",
}
CHECKSUM_OF_100_000 = 4190551744


def of(drawn: NDArray[np.uint64]) -> NDArray[np.float64]:
    out = np.full(len(drawn), np.nan)
    normals.normals_of(drawn, out)
    return out


def array(*numbers: int) -> NDArray[np.uint64]:
    return np.array(numbers, np.uint64)


def by_scipy(drawn: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Invert the smaller of the two tails, exact as a multiple of 2^-53."""
    odd = (drawn >> np.uint64(12)).astype(np.float64) * 2.0 + 1.0
    tail = np.minimum(odd, 2.0**53 - odd) * 2.0**-53
    return np.copysign(ndtri(tail), odd - 2.0**52)


def one_by_one(word: int) -> float:
    """Compute as the loop does, with Python's numbers, each operation rounded on its own."""
    offset = (2 * (word >> 12) + 1 - 2**52) / 2**53
    if abs(offset) <= 0.425:
        return offset * ratio(normals._CENTRAL, 0.180625 - offset * offset)
    root = math.sqrt(minus_log(0.5 - abs(offset)))
    kind, start = (normals._TAIL, 1.6) if root <= 5.0 else (normals._FAR, 5.0)
    return math.copysign(ratio(kind, root - start), offset)


def ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: float) -> float:
    sums = [0.0, 0.0]
    for side, terms in enumerate(coefficients):
        for coefficient in reversed(terms):
            sums[side] = sums[side] * x + coefficient
    return sums[0] / sums[1]


def minus_log(number: float) -> float:
    fraction, exponent = math.frexp(number)
    if fraction < math.sqrt(0.5):
        fraction, exponent = 2.0 * fraction, exponent - 1
    rest = fraction - 1.0
    s = rest / (2.0 + rest)
    series = 0.0
    for coefficient in reversed(normals._LOGARITHM):
        series = series * (s * s) + coefficient
    half = 0.5 * rest * rest
    high, low = normals._LOG_2
    return half - (s * (half + series * (s * s)) + exponent * low) - rest - exponent * high


def mixed_words(n: int) -> NDArray[np.uint64]:
    """Return words of all sizes, so that tails of all lengths occur."""
    drawn = raw_words(3, "mixed", 0, n)
    shifted = drawn >> (np.arange(n, dtype=np.uint64) % np.uint64(52))
    return np.where(np.arange(n) % 3 == 0, ~shifted, shifted)


@pytest.fixture(scope="module")
def draws() -> NDArray[np.float64]:
    return of(raw_words(1, "normals", 5, N_DRAWS))


def test_normals_match_scipy() -> None:
    drawn = mixed_words(200_000)
    np.testing.assert_allclose(of(drawn), by_scipy(drawn), rtol=3e-15, atol=0)


@given(st.lists(any_word, max_size=1100))
def test_any_words_match_single_conversions(numbers: list[int]) -> None:
    assert of(array(*numbers)).tolist() == [one_by_one(word) for word in numbers]


def test_normals_are_monotone_where_the_formulas_meet() -> None:
    for meeting in (0.075, 0.925, math.exp(-25.0)):
        near = round(meeting * 2**52) + np.arange(-1000, 1000)
        result = of(near.astype(np.uint64) << np.uint64(12))
        # Steps of the probability are hardly larger than rounding; those of 64 of them are.
        assert (np.diff(result[::64]) > 0).all()
        np.testing.assert_allclose(np.diff(result), 0, atol=5e-6 if meeting < 1e-9 else 1e-14)


def test_only_the_upper_bits_matter() -> None:
    drawn = mixed_words(100)
    cleared = drawn & ~np.uint64(4095)
    np.testing.assert_array_equal(of(drawn), of(cleared))
    assert (of(cleared - np.uint64(1)) < of(cleared)).all()


def test_normals_are_the_same_on_every_machine() -> None:
    assert {word: of(array(word))[0].hex() for word in FROZEN} == FROZEN
    result = of(raw_words(1, "normals", 0, 100_000))
    assert zlib.crc32(result.astype("<f8").tobytes()) == CHECKSUM_OF_100_000


def test_normal_does_not_depend_on_its_position() -> None:
    drawn = mixed_words(1600)
    for n in (0, 1, 7, 511, 512, 513, 1500):
        np.testing.assert_array_equal(of(drawn[100 : 100 + n]), of(drawn)[100 : 100 + n])


def test_strided_and_read_only_arrays_are_converted() -> None:
    drawn = mixed_words(1200)
    drawn.flags.writeable = False
    out = np.full((600, 2), np.nan)
    normals.normals_of(drawn[::-2], out[:, 1])
    np.testing.assert_array_equal(out[:, 1], of(drawn)[::-2])
    assert np.isnan(out[:, 0]).all()


def test_normals_have_the_normal_distribution(draws: NDArray[np.float64]) -> None:
    assert stats.kstest(draws, "norm").pvalue > 0.01
    assert stats.kstest(np.abs(draws), "halfnorm").pvalue > 0.01


def test_normals_have_normal_moments_and_tails(draws: NDArray[np.float64]) -> None:
    moments = (1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)
    for power, moment, variance in moments:
        assert abs((draws**power).mean() - moment) < 4 * np.sqrt(variance / N_DRAWS), power
    for limit in (1.0, 2.0, 3.0, 4.0):
        expected = N_DRAWS * stats.norm.sf(limit)
        for sign in (-1, 1):
            assert abs((sign * draws > limit).sum() - expected) < 4 * np.sqrt(expected)


def test_far_tails_are_reached() -> None:
    """Words whose upper bits are zeros: draws beyond 4, 5 and 6 standard deviations."""
    for n_zeros in (15, 22, 30):
        drawn = raw_words(2, "tails", n_zeros, 20_000) >> np.uint64(n_zeros)
        result = of(drawn)
        limit = ndtri(2.0**-n_zeros)
        assert (result < limit).all()
        within = stats.norm.cdf(result) / stats.norm.cdf(limit)
        assert stats.kstest(within, "uniform").pvalue > 0.01
