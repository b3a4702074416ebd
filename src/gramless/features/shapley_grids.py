"""Shapley values of grids: each is a game of the inputs that it divides."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb
from typing import TypeAlias

import numpy as np

from gramless.base.errors import InputError
from gramless.base.numeric import in_range
from gramless.base.random import stream
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.features.binning import BinningMap
from gramless.features.grids import cell_limits, limits_of_cells
from gramless.loops.binning import slot_bits
from gramless.loops.shapley import FIRST_BITS, grid_values, player_keys, sampled_grid_values

MOST_EXACT = 12
"""Players of a game of which all subsets are looked at; of more, permutations are sampled."""
_FEW, _MOST_WORK = 8, 1 << 20
"""All subsets of more players than a few are looked at where these times bins are no more."""
_MOST_PAYOFFS = 1 << 31
"""Terms of payoffs that all grids together may take, for as many rows as the background has."""
_ROWS_AT_ONCE, _ROOM_NUMBERS = 2048, 1 << 21
_PARTS = 8
"""Games are dealt out to so many tasks: rows of one game share payoffs, so these are not split."""


@dataclass(frozen=True)
class Players:
    """Which columns of rows belong to which player: ``owners`` (n_columns,) of ``n_players``."""

    owners: IntArray
    n_players: int

    def columns_of(self, used: BoolArray) -> tuple[IntArray, list[IntArray]]:
        """Return the players that have some of the used columns, and those of each."""
        columns = np.flatnonzero(used)
        columns = columns[np.argsort(self.owners[columns], kind="stable")]
        own, starts = np.unique(self.owners[columns], return_index=True)
        return own, np.split(columns, starts)[1:]


def joining_factors(n: int) -> FloatArray:
    """Return the weight of a subset of each size below n in the Shapley value of a player.

    Examples
    --------
    >>> joining_factors(3).round(3)
    array([0.333, 0.167, 0.333])
    """
    return np.array([1.0 / (n * comb(n - 1, size)) for size in range(n)])


Cells: TypeAlias = tuple[IntArray, IntArray, FloatArray, FloatArray, IntArray, FloatArray]
"""Columns that a grid divides, their players, inverse widths, shifts and multipliers."""
BinTable: TypeAlias = tuple[AnyArray, int, IntArray, int]
"""Slots, bits, keys and number of the bins of a grid, as the loops take them."""


@dataclass(frozen=True)
class _Game:
    """One grid: its players, what a row's columns add to its key, and its bins with weights.

    ``cells`` are columns, the places of their players, inverse widths, shifts, multipliers and
    limits of cells;
    ``offset`` is what all other columns add. ``orders`` are those in which too many players join
    for each background row, None where all subsets are looked at.
    """

    players: IntArray
    cells: Cells
    background: IntArray
    offset: int
    bins: BinTable
    weights: FloatArray
    orders: IntArray | None

    def keys(self, columns: FloatArray, out: IntArray) -> IntArray:
        """Return what each player adds to the keys of rows, whose columns are given."""
        keys = out[: len(self.players)]
        player_keys(columns, *self.cells, keys)
        return keys

    def add_values(
        self, keys: IntArray, room: tuple[IntArray, FloatArray, IntArray], out: FloatArray
    ) -> None:
        """Add the Shapley values of rows, whose keys are given, to ``out``."""
        game = keys, self.background, self.offset, *self.bins, self.weights
        if self.orders is None:
            factors = joining_factors(len(self.players))
            fits = grid_values(*game, factors, self.players, *room, out)
        else:
            fits = sampled_grid_values(*game, self.orders, self.players, *room, out)
        if not fits:
            raise InputError(
                "the rows fall into bins whose hashes collide more than 500 times: rows do so "
                "only if they are made for these grids."
            )


@dataclass(frozen=True)
class GridGames:
    """The grids of a map as games between rows to be explained and a background.

    What lies in one cell of a grid, in all rows, is none of its players.
    """

    columns: FloatArray
    games: list[_Game] = field(repr=False)

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
        bounds = cell_limits(inverse)[:, None]
        limits = limits_of_cells(inverse, grids.shifts, grids.multipliers)
        rows, others = (
            np.ascontiguousarray(np.clip(part.T, -bounds, bounds)) for part in (X, background)
        )
        low = np.minimum(rows.min(axis=1, initial=np.inf), others.min(axis=1))
        high = np.maximum(rows.max(axis=1, initial=-np.inf), others.max(axis=1))
        with np.errstate(over="ignore"):
            first, last = (
                np.floor(np.clip(in_range(ends - grids.shifts) * inverse, -limits, limits))
                for ends in (low, high)
            )
            shared = grids.multipliers * first.astype(np.int64)
        divided, bins = first < last, _bins_of(features)
        starts, games, m = features.offsets_, [], others.shape[1]
        for r, own in enumerate(divided):
            columns = np.flatnonzero(own)
            joined, places = np.unique(players.owners[columns], return_inverse=True)
            if not len(joined):
                continue
            kinds = inverse, grids.shifts, grids.multipliers, limits
            parts = (part[r, columns] for part in kinds)
            # Bins never seen have number 0, and no weight.
            padded = np.zeros((counts[r] + 1, weights.shape[1]))
            padded[1:] = features.scale_ * weights[starts[r] : starts[r + 1]]
            offset = int(np.append(shared[r, ~own], grids.offsets[r]).sum())
            cells: Cells = (columns, places, *parts)
            keys = np.empty((len(joined), m), np.int64)
            player_keys(others, *cells, keys)
            # A subset's payoffs are sums over pairs of cells, of its columns and of all others.
            n_cells = np.prod(last[r, columns] - first[r, columns] + 1.0)
            n_pairs = min(n_cells, float(len(np.unique(keys.sum(axis=0)))) ** 2)
            n_terms = len(counts) * n_pairs * 2.0 ** len(joined)
            exact = _is_exact(len(joined), int(counts[r]), n_terms)
            orders = None if exact else _orders(r, m, len(joined))
            games.append(_Game(joined, cells, keys, offset, bins[r], padded, orders))
        return cls(rows, games)

    def add_values(self, n_jobs: int | None, out: FloatArray) -> None:
        """Add the Shapley values of all games to ``out`` (n_rows, n_players, K)."""
        numbers = _PARTS * out.shape[1] * out.shape[2]
        at_once = int(np.clip(_ROOM_NUMBERS // numbers, 1, _ROWS_AT_ONCE))
        for a, b in row_blocks(len(out) if self.games else 0, at_once):
            sums = np.zeros((_PARTS, b - a, *out.shape[1:]))
            parts = [(a, b, self.games[k::_PARTS], sums[k]) for k in range(_PARTS)]
            map_blocks(self._add_games, parts, n_jobs)
            for own in sums:
                out[a:b] += own

    def _add_games(self, a: int, b: int, games: list[_Game], out: FloatArray) -> None:
        """Add the Shapley values of some games and rows to ``out``."""
        n, m = b - a, self.games[0].background.shape[1]
        columns = self.columns[:, a:b].copy()
        most_players = max(len(game.players) for game in self.games)
        keys, most = np.empty((most_players, n), np.int64), max(n, m, most_players)
        room = (
            np.empty((8, most + 1), np.int64),
            np.empty(n * (most_players + 1) * out.shape[2] + 2 * m),
            np.empty(1 << slot_bits(most, FIRST_BITS), np.int32),
        )
        for game in games:
            game.add_values(game.keys(columns, keys), room, out)


def _is_exact(n_players: int, n_bins: int, n_terms: float) -> bool:
    """Tell whether all subsets of the players of a grid are looked at.

    ``n_terms`` is how many terms their payoffs would have if all grids were like this one.
    """
    if n_terms > _MOST_PAYOFFS:
        return n_players <= 2
    if n_players <= _FEW:
        return True
    return n_players <= MOST_EXACT and (1 << n_players) * n_bins <= _MOST_WORK


def _orders(grid: int, n_orders: int, n_players: int) -> IntArray:
    """Return random orders of the players of a grid, the same for all rows."""
    generator, orders = stream(0, "players", grid), np.empty((n_orders, n_players), np.int64)
    orders[:] = np.arange(n_players)
    return generator.permuted(orders, axis=1)


def _bins_of(features: BinningMap) -> list[BinTable]:
    """Return slots, bits, keys and number of the bins of each grid, as the loops take them."""
    return [
        (tables.slots[g], int(tables.bits[g]), tables.table[g], int(tables.counts[g]))
        for tables in features._known.tables
        for g in range(len(tables.counts))
    ]
