"""Shapley values of grids. The players of a grid's game are the inputs that it divides."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb
from typing import TypeAlias

import numpy as np

from gramless.base.errors import InputError
from gramless.base.numeric import clip_infinities
from gramless.base.random import stream
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.features.binning import BinningMap
from gramless.features.grids import cell_limits, limits_of_cells
from gramless.loops.binning import slot_bits
from gramless.loops.shapley import FIRST_BITS, grid_values, player_keys, sampled_grid_values

# With more players, orders are sampled instead of all subsets.
MAX_EXACT_PLAYERS = 12
# Grids over more than _FEW_PLAYERS players are exact only if subsets times bins are at most
# _MAX_SUBSET_BINS.
_FEW_PLAYERS, _MAX_SUBSET_BINS = 8, 1 << 20
# Maximum number of terms of the payoffs of all grids, for as many rows as the background has.
_MAX_PAYOFFS = 1 << 31
_MAX_BLOCK_ROWS, _BLOCK_NUMBERS = 2048, 1 << 21
# Number of tasks, each with some of the games. The rows of a game are in one task, because they
# share payoffs.
_N_TASKS = 8


@dataclass(frozen=True)
class Players:
    """The player of each column of rows: ``owners`` has the shape (n_columns,)."""

    owners: IntArray
    n_players: int

    def columns_of(self, used: BoolArray) -> tuple[IntArray, list[IntArray]]:
        """Return the players of the used columns, and the used columns of each."""
        columns = np.flatnonzero(used)
        columns = columns[np.argsort(self.owners[columns], kind="stable")]
        players, starts = np.unique(self.owners[columns], return_index=True)
        return players, np.split(columns, starts)[1:]


def joining_factors(n: int) -> FloatArray:
    """Return the weights of subsets in the Shapley value of one of n players, by their size.

    Examples
    --------
    >>> joining_factors(3).round(3)
    array([0.333, 0.167, 0.333])
    """
    return np.array([1.0 / (n * comb(n - 1, size)) for size in range(n)])


# Columns that a grid divides, places of their players, inverse widths, shifts, multipliers and
# limits of cells.
Cells: TypeAlias = tuple[IntArray, IntArray, FloatArray, FloatArray, IntArray, FloatArray]
# Slots, bits, keys and number of the bins of a grid.
BinTable: TypeAlias = tuple[AnyArray, int, IntArray, int]


@dataclass(frozen=True)
class _Game:
    """The game of one grid.

    ``background`` has the contributions of the players to the keys of background rows, and
    ``offset`` is the contribution of all other columns. ``orders`` has a random order
    of the players for each background row, or is None if all subsets are evaluated.
    """

    players: IntArray
    cells: Cells
    background: IntArray
    offset: int
    bins: BinTable
    weights: FloatArray
    orders: IntArray | None

    def keys(self, columns: FloatArray, out: IntArray) -> IntArray:
        """Return the contribution of each player to the keys of rows."""
        keys = out[: len(self.players)]
        player_keys(columns, *self.cells, keys)
        return keys

    def add_values(
        self, keys: IntArray, workspace: tuple[IntArray, FloatArray, IntArray], out: FloatArray
    ) -> None:
        """Add the Shapley values of rows to ``out``; ``keys`` are the players' contributions."""
        game = keys, self.background, self.offset, *self.bins, self.weights
        if self.orders is None:
            factors = joining_factors(len(self.players))
            is_complete = grid_values(*game, factors, self.players, *workspace, out)
        else:
            is_complete = sampled_grid_values(*game, self.orders, self.players, *workspace, out)
        if not is_complete:
            raise InputError(
                "more than 500 hashes of bins collide, which happens only if rows are constructed "
                "for these grids."
            )


@dataclass(frozen=True)
class GridGames:
    """The games of the grids of a map, for rows to explain and background rows.

    An input is not a player of a grid if all rows are in the same cell of the grid in this input.
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
        """Return the games of rows of float64."""
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
                np.floor(np.clip(clip_infinities(ends - grids.shifts) * inverse, -limits, limits))
                for ends in (low, high)
            )
            shared = grids.multipliers * first.astype(np.int64)
        divided, bins = first < last, bin_tables(features)
        starts, games, m = features.offsets_, [], others.shape[1]
        for r, is_divided in enumerate(divided):
            columns = np.flatnonzero(is_divided)
            grid_players, places = np.unique(players.owners[columns], return_inverse=True)
            if not len(grid_players):
                continue
            arrays = inverse, grids.shifts, grids.multipliers, limits
            parts = (array[r, columns] for array in arrays)
            # Unseen bins have number 0 and weight 0.
            padded = np.zeros((counts[r] + 1, weights.shape[1]))
            padded[1:] = features.scale_ * weights[starts[r] : starts[r + 1]]
            offset = int(np.append(shared[r, ~is_divided], grids.offsets[r]).sum())
            cells: Cells = (columns, places, *parts)
            n_players = len(grid_players)
            keys = np.empty((n_players, m), np.int64)
            player_keys(others, *cells, keys)
            # The payoffs of a subset are sums over pairs of its cells and cells of the others.
            n_cells = np.prod(last[r, columns] - first[r, columns] + 1.0)
            n_pairs = min(n_cells, float(len(np.unique(keys.sum(axis=0)))) ** 2)
            n_terms = len(counts) * n_pairs * 2.0**n_players
            orders = None
            if not _is_exact(n_players, int(counts[r]), n_terms):
                # The same orders for all rows.
                orders = np.empty((m, n_players), np.int64)
                orders[:] = np.arange(n_players)
                orders = stream(0, "players", r).permuted(orders, axis=1)
            games.append(_Game(grid_players, cells, keys, offset, bins[r], padded, orders))
        return cls(rows, games)

    def add_values(self, n_jobs: int | None, out: FloatArray) -> None:
        """Add the Shapley values of all games to ``out`` (n_rows, n_players, K)."""
        row_numbers = _N_TASKS * out.shape[1] * out.shape[2]
        block_rows = int(np.clip(_BLOCK_NUMBERS // row_numbers, 1, _MAX_BLOCK_ROWS))
        for a, b in row_blocks(len(out) if self.games else 0, block_rows):
            sums = np.zeros((_N_TASKS, b - a, *out.shape[1:]))
            tasks = [(a, b, self.games[k::_N_TASKS], sums[k]) for k in range(_N_TASKS)]
            map_blocks(self._add_games, tasks, n_jobs)
            for task_sum in sums:
                out[a:b] += task_sum

    def _add_games(self, a: int, b: int, games: list[_Game], out: FloatArray) -> None:
        n, m = b - a, self.games[0].background.shape[1]
        columns = self.columns[:, a:b].copy()
        max_players = max(len(game.players) for game in self.games)
        keys, size = np.empty((max_players, n), np.int64), max(n, m, max_players)
        workspace = (
            np.empty((8, size + 1), np.int64),
            np.empty(n * (max_players + 1) * out.shape[2] + 2 * m),
            np.empty(1 << slot_bits(size, FIRST_BITS), np.int32),
        )
        for game in games:
            game.add_values(game.keys(columns, keys), workspace, out)


def _is_exact(n_players: int, n_bins: int, n_terms: float) -> bool:
    """Return whether all subsets of the players of a grid are evaluated.

    ``n_terms`` is the number of terms of the payoffs of all grids, if all were like this one.
    """
    if n_terms > _MAX_PAYOFFS:
        return n_players <= 2
    if n_players <= _FEW_PLAYERS:
        return True
    return n_players <= MAX_EXACT_PLAYERS and (1 << n_players) * n_bins <= _MAX_SUBSET_BINS


def bin_tables(features: BinningMap) -> list[BinTable]:
    """Return slots, bits, keys and number of the bins of each grid."""
    return [
        (tables.slots[g], int(tables.bits[g]), tables.table[g], int(tables.counts[g]))
        for tables in features.known_tables
        for g in range(len(tables.counts))
    ]
