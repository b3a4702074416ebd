"""Loops of Shapley values against slow NumPy references."""

from __future__ import annotations

from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.loops import shapley as loops
from gramless.loops.binning import index_bins, slot_bits

N, M, S, K = 40, 15, 3, 2


def expected_keys(columns: Any, chosen: Any, owners: Any, *grid: Any, n_players: int) -> NDArray:
    inverse, shifts, multipliers, limits = grid
    cells = np.clip((columns[chosen].T - shifts) * inverse, -limits, limits)
    entries = multipliers * np.floor(cells).astype(np.int64)
    return np.stack([entries[:, owners == p].sum(axis=1) for p in range(n_players)])


def subsets_of(n: int) -> list[tuple[int, ...]]:
    return [subset for size in range(n + 1) for subset in combinations(range(n), size)]


def expected_values(keys: NDArray, background: NDArray, offset: int, weight_of: Any) -> NDArray:
    """Return Shapley values (n_rows, s, K) by looking up every mixed row."""
    n_players, result = len(keys), np.zeros((keys.shape[1], len(keys), K))
    for i in range(keys.shape[1]):
        payoffs = {}
        for subset in subsets_of(n_players):
            joined = [keys[p, i] if p in subset else background[p] for p in range(n_players)]
            mixed = sum((np.broadcast_to(part, background.shape[1]) for part in joined), offset)
            payoffs[subset] = np.mean([weight_of(key) for key in np.asarray(mixed)], axis=0)
        for p in range(n_players):
            for subset in payoffs:
                if p not in subset:
                    t = len(subset)
                    share = factorial(t) * factorial(n_players - t - 1) / factorial(n_players)
                    grown = payoffs[tuple(sorted((*subset, p)))] - payoffs[subset]
                    result[i, p] += share * grown
    return result


@pytest.fixture(scope="module")
def grid() -> dict[str, Any]:
    """Return a grid over four columns of three players, with bins that other rows occupy."""
    rng = np.random.default_rng(0)
    chosen, owners = np.array([0, 2, 3, 5]), np.array([1, 0, 2, 2])
    inverse, shifts = rng.uniform(0.3, 1.0, 4), rng.normal(size=4)
    multipliers = rng.integers(-(2**62), 2**62, 4) * 2 + 1
    learned, rows, others = (rng.normal(size=(6, n)) for n in (60, N, M))
    grid = inverse, shifts, multipliers, np.array([2.0**62, 1.0, 2.0**39 - 1.0, 0.5])
    cells = chosen, owners, *grid
    offset = int(rng.integers(-(2**62), 2**62))
    keys = expected_keys(learned, chosen, owners, *grid, n_players=S).sum(axis=0) + offset
    bins = np.unique(keys)
    return {
        "cells": cells,
        "grid": grid,
        "rows": rows,
        "others": others,
        "offset": offset,
        "bins": bins,
        "weights": np.vstack([np.zeros(K), rng.normal(size=(len(bins), K))]),
    }


def test_player_keys_match_the_slow_implementation(grid: dict[str, Any]) -> None:
    result = np.full((S, N), 7)
    loops.player_keys(grid["rows"], *grid["cells"], result)
    chosen, owners = grid["cells"][:2]
    expected = expected_keys(grid["rows"], chosen, owners, *grid["grid"], n_players=S)
    np.testing.assert_array_equal(result, expected)


def expected_of_orders(
    keys: NDArray, background: NDArray, offset: int, weight_of: Any, orders: NDArray
) -> NDArray:
    """Return the mean growth of payoffs when players join in an order, and in its reverse."""
    result = np.zeros((keys.shape[1], len(keys), K))
    for i in range(keys.shape[1]):
        for b, order in enumerate(orders):
            for path in (order, order[::-1]):
                mixed = background[:, b].copy()
                for p in path:
                    before = weight_of(int(np.append(mixed, offset).sum()))
                    mixed[p] = keys[p, i]
                    result[i, p] += weight_of(int(np.append(mixed, offset).sum())) - before
    return result / (2 * len(orders))


@pytest.mark.parametrize("sampled", [False, True])
def test_grid_values_match_the_slow_implementation(grid: dict[str, Any], sampled: bool) -> None:
    keys, background = np.empty((S, N), np.int64), np.empty((S, M), np.int64)
    loops.player_keys(grid["rows"], *grid["cells"], keys)
    loops.player_keys(grid["others"], *grid["cells"], background)
    bins, weights = grid["bins"], grid["weights"]
    bits = slot_bits(len(bins), 4)
    table = np.concatenate([[0], bins])[None]
    slots, counts = np.empty((1, 1 << bits), np.int32), np.array([len(bins)])
    assert index_bins(table, counts, slots, np.array([bits])) == 1
    places = {key: k + 1 for k, key in enumerate(bins.tolist())}
    # Background rows of one bin count by the order of the first.
    _, firsts = np.unique(background.sum(axis=0), return_index=True)
    background = np.concatenate([background[:, firsts]] * 2, axis=1)
    orders = np.random.default_rng(2).permuted(np.tile(np.arange(S), (len(firsts), 1)), axis=1)
    game = keys, background, grid["offset"]

    def weight_of(key: int) -> NDArray:
        return weights[places.get(key, 0)]

    bins = slots[0], bits, table[0], len(bins), weights
    room = (
        np.empty((8, N + 1), np.int64),
        np.empty(N * (S + 1) * K + 2 * background.shape[1]),
        np.empty(1 << slot_bits(N, loops.FIRST_BITS), np.int32),
    )
    out, players = np.ones((N, 5, K)), np.array([4, 1, 2])
    twice = np.concatenate([orders, orders])
    if sampled:
        expected = expected_of_orders(*game, weight_of, twice)
        fits = loops.sampled_grid_values(*game, *bins, twice, players, *room, out)
    else:
        expected = expected_values(*game, weight_of)
        factors = np.array([1 / 3, 1 / 6, 1 / 3])
        fits = loops.grid_values(*game, *bins, factors, players, *room, out)
    assert np.abs(expected).max() > 0.1
    assert fits
    np.testing.assert_allclose(out[:, [4, 1, 2]] - 1.0, expected, atol=1e-13)
    assert (out[:, [0, 3]] == 1.0).all()


@pytest.mark.parametrize("kind", [np.float64, np.complex128])
def test_product_sums_and_totals_match_the_slow_implementation(kind: type[np.number[Any]]) -> None:
    rng, n_terms = np.random.default_rng(1), 11
    factors = rng.normal(size=(5, S, n_terms)).astype(kind)
    table = rng.normal(size=(4, n_terms)).astype(kind)
    if kind is np.complex128:
        factors += 1j * rng.normal(size=factors.shape)
        table += 1j * rng.normal(size=table.shape)
    # Of {}, {2}, {2, 0} and {1}; products 0 and 1 are kept, and 2 are the ones.
    steps = np.array([[0, 0, 0], [2, 0, 2], [0, 1, 0], [2, 1, 1]])
    products = [None, factors[:, 2], factors[:, 2] * factors[:, 0], factors[:, 1]]
    out, room = np.ones((5, 4)), np.empty((3, n_terms), kind)
    loops.product_sums(factors, steps, table, room, out)
    totals = np.ones((4, n_terms), kind)
    loops.product_totals(factors, steps, room, totals)
    assert (out[:, 0] == 1.0).all()
    assert (totals[0] == 1.0).all()
    for m, product in enumerate(products[1:], 1):
        assert product is not None
        np.testing.assert_allclose(out[:, m] - 1.0, (product @ table[m]).real, atol=1e-12)
        np.testing.assert_allclose(totals[m] - 1.0, product.sum(axis=0), atol=1e-12)
