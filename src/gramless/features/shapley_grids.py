"""Shapley values of grids: each is a game of the inputs that it divides."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb

import numpy as np

from gramless.base.errors import InputError
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import BoolArray, FloatArray, IntArray
from gramless.features.binning import BinningMap, GivenBinning
from gramless.features.grids import KnownBins, cell_limits
from gramless.loops.binning import slot_bits
from gramless.loops.shapley import FIRST_BITS, grid_values, player_keys

MOST_EXACT = 12
"""Players of a game of which all subsets are looked at; of more, permutations are sampled."""
_FEW, _MOST_WORK = 8, 1 << 20
"""Grids over more players than this are exact where subsets times bins are no more than that."""
_ROWS_AT_ONCE, _ROOM_NUMBERS = 2048, 1 << 21


@dataclass(frozen=True)
class Players:
    """Which columns of rows belong to which player: ``owners`` (n_columns,) of ``n_players``."""

    owners: IntArray
    n_players: int

    def columns_of(self, used: BoolArray) -> tuple[IntArray, list[IntArray]]:
        """Return the players that have some of the used columns, and those of each."""
        own = np.unique(self.owners[used])
        return own, [np.flatnonzero(used & (self.owners == p)) for p in own]


def joining_factors(n: int) -> FloatArray:
    """Return the weight of a subset of each size below n in the Shapley value of a player.

    Examples
    --------
    >>> joining_factors(3).round(3)
    array([0.333, 0.167, 0.333])
    """
    return np.array([1.0 / (n * comb(n - 1, size)) for size in range(n)])


@dataclass(frozen=True)
class _Game:
    """One grid: its players, what a row's columns add to its key, and its bins with weights.

    ``cells`` are columns, the places of their players, inverse widths, shifts and multipliers;
    ``offset`` is what all other columns add.
    """

    players: IntArray
    cells: tuple[IntArray, IntArray, FloatArray, FloatArray, IntArray]
    background: IntArray
    offset: int
    bins: tuple[object, ...]
    weights: FloatArray

    def keys(self, columns: FloatArray, out: IntArray) -> IntArray:
        """Return what each player adds to the keys of rows, whose columns are given."""
        keys = out[: len(self.players)]
        player_keys(columns, *self.cells, keys)
        return keys


@dataclass(frozen=True)
class GridGames:
    """The grids of a map as games between rows to be explained and a background.

    ``left`` are grids of too many players and bins for all subsets; what lies in one cell of a
    grid, in all rows, is none of its players.
    """

    features: BinningMap
    weights: FloatArray
    columns: FloatArray
    games: list[_Game] = field(repr=False)
    left: BoolArray

    @classmethod
    def of(
        cls,
        features: BinningMap,
        weights: FloatArray,
        X: FloatArray,
        background: FloatArray,
        players: Players,
    ) -> GridGames:
        """Prepare the games of rows of float64."""
        grids, counts = features.grids, features.n_bins_
        inverse = 1.0 / grids.widths
        limits = cell_limits(inverse)[:, None]
        rows, others = (
            np.ascontiguousarray(np.clip(part.T, -limits, limits)) for part in (X, background)
        )
        low = np.minimum(rows.min(axis=1, initial=np.inf), others.min(axis=1))
        high = np.maximum(rows.max(axis=1, initial=-np.inf), others.max(axis=1))
        first, last = (np.floor((ends - grids.shifts) * inverse) for ends in (low, high))
        with np.errstate(over="ignore"):
            shared = grids.multipliers * first.astype(np.int64)
        divided, bins = first < last, _bins_of(features)
        starts, games, left = features.offsets_, [], np.zeros(len(grids), bool)
        for r, own in enumerate(divided):
            columns = np.flatnonzero(own)
            joined, places = np.unique(players.owners[columns], return_inverse=True)
            left[r] = _too_many(len(joined), int(counts[r]))
            if left[r] or not len(joined):
                continue
            parts = (part[r, columns] for part in (inverse, grids.shifts, grids.multipliers))
            # Bins never seen have number 0, and no weight.
            padded = np.zeros((counts[r] + 1, weights.shape[1]))
            padded[1:] = features.scale_ * weights[starts[r] : starts[r + 1]]
            offset = int(np.append(shared[r, ~own], grids.offsets[r]).sum())
            cells = (columns, places, *parts)
            keys = np.empty((len(joined), others.shape[1]), np.int64)
            player_keys(others, *cells, keys)
            games.append(_Game(joined, cells, keys, offset, bins[r], padded))
        return cls(features, weights, rows, games, left)

    def add_values(self, n_jobs: int | None, out: FloatArray) -> None:
        """Add the Shapley values of all games but those left to ``out`` (n_rows, n_players, K)."""
        at_once = int(np.clip(_ROOM_NUMBERS // (MOST_EXACT * out.shape[2]), 1, _ROWS_AT_ONCE))
        map_blocks(
            lambda a, b: self._add_block(self.columns[:, a:b].copy(), out[a:b]),
            row_blocks(len(out), at_once),
            n_jobs,
        )

    def others(self) -> tuple[GivenBinning, FloatArray]:
        """Return the grids that are left as a map, with their weights."""
        features, left = self.features, self.left
        bins = np.repeat(left, features.n_bins_)
        offsets = np.concatenate([[0], np.cumsum(features.n_bins_[left])])
        some = GivenBinning(n_jobs=features.n_jobs)
        some.scale_ = features.scale_
        some._know(KnownBins.from_keys(features.grids.take(left), features.keys[bins], offsets))
        return some, self.weights[bins]

    def _add_block(self, columns: FloatArray, out: FloatArray) -> None:
        if not self.games:
            return
        n, m = columns.shape[1], self.games[0].background.shape[1]
        keys = np.empty((MOST_EXACT, n), np.int64)
        integers = np.empty((9, max(n, m) + 1), np.int64)
        numbers = np.empty(n * (MOST_EXACT + 1) * out.shape[2] + 2 * m)
        index = np.empty(1 << slot_bits(max(n, m), FIRST_BITS), np.int32)
        factors = [joining_factors(size) for size in range(MOST_EXACT + 1)]
        for game in self.games:
            fits = grid_values(
                game.keys(columns, keys),
                game.background,
                game.offset,
                *game.bins,
                game.weights,
                factors[len(game.players)],
                game.players,
                integers,
                numbers,
                index,
                out,
            )
            if not fits:
                raise InputError(
                    "the rows fall into bins whose hashes collide more than 500 times: rows do so "
                    "only if they are made for these grids."
                )


def _too_many(n_players: int, n_bins: int) -> bool:
    """Tell whether all subsets of the players of a grid would take too long."""
    if n_players <= _FEW:
        return False
    return n_players > MOST_EXACT or (1 << n_players) * n_bins > _MOST_WORK


def _bins_of(features: BinningMap) -> list[tuple[object, ...]]:
    """Return slots, bits, keys and number of the bins of each grid, as the loops take them."""
    return [
        (tables.slots[g], int(tables.bits[g]), tables.table[g], int(tables.counts[g]))
        for tables in features._known.tables
        for g in range(len(tables.counts))
    ]
