"""Blocks of frequencies: drawn from their numbers alone, of the right distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramless.kernels import (
    Cauchy,
    ExponentialPower,
    Gaussian,
    InversePower,
    Kernel,
    Laplacian,
    Matern,
    Mixture,
    Product,
    RationalQuadratic,
    Scaled,
    SpectralKernel,
    Sum,
)
from gramless.streaming.feature_blocks import LANES, FrequencyBlocks, PanelCache

KERNELS: dict[str, SpectralKernel] = {
    "gaussian": Gaussian(),
    "laplacian": Laplacian(),
    "matern_0.5": Matern(0.5),
    "matern_1.5": Matern(),
    "matern_0.8": Matern(0.8),
    "cauchy": Cauchy(),
    "rational_quadratic": RationalQuadratic(2.0),
    "exponential_power": ExponentialPower(0.7),
    "inverse_power": InversePower(2.0),
    "mixture": Mixture([Laplacian(), InversePower()], [1.0, 2.0], [1.0, 3.0]),
    "scaled": Scaled(Matern(), 2.0),
    "sum": Sum([Gaussian(), Laplacian()], [1.0, 2.0]),
    "product": Product([Gaussian(), Scaled(Laplacian(), 2.0)]),
}


def largest_z(
    kernel: SpectralKernel, exact: Kernel, share: float = 1.0, n_blocks: int = 400
) -> float:
    """Return the largest distance of blocks' mean cosines from a kernel, in standard errors."""
    X = np.random.default_rng(0).normal(size=(5, 3))
    pairs = np.triu_indices(len(X), 1)
    gaps = (X[:, None] - X[None])[pairs]
    blocks = FrequencyBlocks(kernel, seed=1, size=20, n_inputs=3)
    means = np.stack([np.cos(blocks.draw(k) @ gaps.T).mean(axis=0) for k in range(n_blocks)])
    errors = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    return float(np.abs((means.mean(axis=0) - share * exact.gram(X)[pairs]) / errors).max())


# The distribution.


def test_blocks_have_the_distribution_of_the_kernel() -> None:
    for label in KERNELS:
        assert largest_z(KERNELS[label], KERNELS[label]) < 4.0


def test_five_percent_error_would_be_detected() -> None:
    for kernel in [Gaussian(), Matern(0.5)]:
        assert largest_z(kernel, kernel, share=1.05, n_blocks=1500) > 4.0
        assert largest_z(kernel, Scaled(kernel, 1.05), n_blocks=1500) > 4.0


def test_blocks_are_independent() -> None:
    blocks = FrequencyBlocks(Gaussian(), seed=3, size=8, n_inputs=5)
    drawn = np.stack([blocks.draw(k).ravel() for k in range(2000)])
    correlations = np.corrcoef(drawn.T)[np.triu_indices(40, 1)] * np.sqrt(2000)
    assert np.abs(correlations).max() < 5.0
    for apart in (1, 2, 64):
        products = (drawn[:-apart] * drawn[apart:]).mean()
        assert abs(products) * np.sqrt(drawn[apart:].size) < 4.0


# Numbers and seeds.


def test_block_depends_on_its_number_only() -> None:
    one = FrequencyBlocks(Matern(), seed=2, size=6, n_inputs=3)
    forth = [one.draw(k) for k in range(20)]
    back = [FrequencyBlocks(Matern(), 2, 6, 3).draw(k) for k in range(19, -1, -1)]
    np.testing.assert_array_equal(forth, back[::-1])
    assert len({block.tobytes() for block in forth}) == 20
    assert one.draw(2**40).shape == (6, 3)


def test_seeds_give_different_blocks() -> None:
    drawn = [FrequencyBlocks(Gaussian(), seed, 4, 2).draw(0) for seed in (0, 1, 2**31 - 2)]
    assert len({block.tobytes() for block in drawn}) == 3


def test_group_size_depends_on_block_size_and_width() -> None:
    for size, n_inputs, expected in [
        (1, 1, 2048),
        (256, 100, 8),
        (255, 100, 8),
        (2048, 10, 1),
        (5000, 10, 1),
        (256, 10**6, 1),
    ]:
        blocks = FrequencyBlocks(Gaussian(), 0, size, n_inputs)
        assert blocks.group_blocks == expected
        assert blocks.group_columns == 2 * size * expected


# What is kept.


def same_frequencies(cache: PanelCache, groups: range, n_blocks: int) -> None:
    """Compare groups with their blocks, drawn one after the other."""
    blocks, most = cache.blocks, cache.blocks.group_blocks
    result = cache.groups(groups, n_blocks)
    assert len(result) == len(groups)
    for group, panels in zip(groups, result, strict=True):
        numbers = range(group * most, min((group + 1) * most, n_blocks))
        expected = (np.concatenate([blocks.draw(k) for k in numbers]) / np.pi).astype(np.float32)
        written = panels.swapaxes(1, 2).reshape(-1, blocks.n_inputs)
        np.testing.assert_array_equal(written[: len(expected)], expected)


def test_cache_size_does_not_change_frequencies() -> None:
    for size, budget in [(1, 1200), (13, -5), (16, 0), (17, 10**6), (20, 1200), (41, 1200)]:
        blocks = FrequencyBlocks(Matern(), 0, size, n_inputs=3, group_frequencies=40)
        cache = PanelCache(blocks, budget)
        most = blocks.group_blocks
        for n_blocks in (1, 2, most, most + 1, 3 * most + 1, 2 * most, 3 * most + 2):
            same_frequencies(cache, range(-(-n_blocks // most)), n_blocks)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 4), st.integers(1, 3))
def test_order_of_growth_does_not_change_frequencies(
    counts: list[int], n_kept: int, n_jobs: int
) -> None:
    blocks = FrequencyBlocks(Gaussian(), 0, 9, n_inputs=2, group_frequencies=40)
    assert blocks.group_blocks == 4
    cache = PanelCache(blocks, n_kept * 3 * 2 * LANES * 4, n_jobs)
    for n_blocks in counts:
        same_frequencies(cache, range(-(-n_blocks // 4)), n_blocks)
        same_frequencies(cache, range((n_blocks - 1) // 4, -(-n_blocks // 4)), n_blocks)


@pytest.mark.parametrize("n_kept", [0, 1, 3])
def test_cached_blocks_are_drawn_once(n_kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = FrequencyBlocks(Gaussian(), 0, 10, n_inputs=2, group_frequencies=40)
    bytes_a_group = 3 * 2 * LANES * 4
    cache = PanelCache(blocks, n_kept * bytes_a_group + bytes_a_group - 1)
    drawn: list[int] = []
    draw = FrequencyBlocks.draw
    monkeypatch.setattr(
        FrequencyBlocks, "draw", lambda self, k: [drawn.append(k), draw(self, k)][1]
    )
    for n_blocks in (2, 20, 3, 20, 24):
        cache.groups(range(-(-n_blocks // 4)), n_blocks)
    times = np.bincount(drawn)
    assert times[: 4 * n_kept].tolist() == [1] * (4 * n_kept)
    assert times[4 * n_kept : 20].tolist() == [3 + (k < 2) + (k < 3) for k in range(4 * n_kept, 20)]


@pytest.mark.parametrize("n_before", [0, 1, 5])
def test_interrupted_cache_is_completed_later(
    n_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = FrequencyBlocks(Gaussian(), 0, 10, n_inputs=2, group_frequencies=40)
    cache = PanelCache(blocks, 1 << 20, n_jobs=1)
    assert cache.blocks.group_blocks == 4
    cache.groups(range(-(-n_before // 4)), n_before)
    draw = FrequencyBlocks.draw

    def interrupted(self: FrequencyBlocks, block: int) -> Any:
        if block == 6:
            raise KeyboardInterrupt
        return draw(self, block)

    with monkeypatch.context() as patched:
        patched.setattr(FrequencyBlocks, "draw", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cache.groups(range(3), 12)
    same_frequencies(cache, range(3), 12)


def test_largest_frequencies_are_clipped() -> None:
    blocks = FrequencyBlocks(Matern(0.05), seed=0, size=64, n_inputs=2)
    (panels,) = PanelCache(blocks, 0).groups(range(1), blocks.group_blocks)
    assert np.abs(blocks.draw(0)).max() > 2.0**60
    assert 2.0**48 < np.abs(panels).max() <= 2.0**50
