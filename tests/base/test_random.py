"""Random streams: reproducible, independent, and never overlapping."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramless.base.random import raw_words, seed_from, stream, streams

seeds = st.integers(0, 2**32 - 1)
# Of few letters: a process that first draws from all of Unicode makes a table of it.
purposes = st.text("grids\0 é€\U0001f600", max_size=20)
blocks = st.integers(0, 2**63)

RAW_OF_7_GRIDS_2 = [8876708514014404785, 266711982785369620]
RAW_OF_LARGE_KEYS = [2742150708575669746, 11775400004865643402, 3205600252121610155]


def test_stream_is_the_same_in_every_version() -> None:
    raw = stream(7, "grids", 2).bit_generator.random_raw(2)
    assert raw.tolist() == RAW_OF_7_GRIDS_2


@given(seeds, purposes, st.integers(0, 4))
def test_streams_match_single_streams(seed: int, purpose: str, n_blocks: int) -> None:
    # Halves of words, and normals, leave something behind that the next block must not see.
    drawn = [
        (generator.integers(9, dtype=np.uint32), generator.normal(), generator.random(3).tolist())
        for generator in streams(seed, purpose, n_blocks)
    ]
    assert len(drawn) == n_blocks
    for block, (half, normal, uniforms) in enumerate(drawn):
        generator = stream(seed, purpose, block)
        assert half == generator.integers(9, dtype=np.uint32)
        assert normal == generator.normal()
        assert uniforms == generator.random(3).tolist()


def test_words_are_the_same_in_every_version() -> None:
    result = raw_words(7, "grids", 2, 2)
    assert result.dtype == np.uint64
    assert result.tolist() == RAW_OF_7_GRIDS_2
    assert raw_words(2**32, "features", 10**9, 3).tolist() == RAW_OF_LARGE_KEYS


@given(seeds, purposes, blocks, st.integers(0, 9), st.integers(0, 9))
def test_words_match_the_stream(seed: int, purpose: str, block: int, n: int, n_more: int) -> None:
    raw = stream(seed, purpose, block).bit_generator.random_raw(n + n_more)
    np.testing.assert_array_equal(raw_words(seed, purpose, block, n + n_more), raw)
    np.testing.assert_array_equal(raw_words(seed, purpose, block, n), raw[:n])


def test_every_seed_purpose_and_block_differs() -> None:
    keys = list(itertools.product(range(10), ("grids", "features", "rows", ""), range(10)))
    first = {int(stream(*key).integers(2**63)) for key in keys}
    assert len(first) == len(keys)


@pytest.mark.parametrize(
    "other",
    [(1, "grids", 1), (1, "features", 0), (2, "grids", 0)],
    ids=["block", "purpose", "seed"],
)
def test_streams_are_uncorrelated(other: tuple[int, str, int]) -> None:
    n = 100_000
    left, right = stream(1, "grids", 0).random(n), stream(*other).random(n)
    correlation = np.corrcoef(left, right)[0, 1]
    assert abs(correlation) < 4 / np.sqrt(n)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generator_advances_by_one_draw(make: type) -> None:
    generator, repeated = make(0), make(0)
    assert seed_from(generator) == seed_from(repeated)
    assert seed_from(generator) != seed_from(make(0))


def test_none_uses_the_global_state() -> None:
    saved = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(0)  # noqa: NPY002
        first = seed_from(None)
        np.random.seed(0)  # noqa: NPY002
        assert seed_from(None) == first
        assert seed_from(None) != first
    finally:
        np.random.set_state(saved)  # noqa: NPY002


def test_integers_are_seeds_and_other_values_are_rejected() -> None:
    for seed in (0, 7, 2**32 - 1):
        assert seed_from(seed) == seed_from(np.int64(seed)) == seed
        assert type(seed_from(np.int64(seed))) is int
    for bad in (-1, 2**32, 1.5, "seed"):
        with pytest.raises(ValueError, match="(?i)seed"):
            seed_from(bad)  # type: ignore[arg-type]
