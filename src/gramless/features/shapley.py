"""Shapley values of linear functions of features.

The players of a row's game are its inputs. The payoff of a subset is the mean response over the
background rows, with their inputs in the subset replaced by those of the row. These are the
"interventional" Shapley values (Strumbelj & Kononenko 2014, *Explaining prediction models and
individual predictions with feature contributions*; Lundberg & Lee 2017, *A unified approach to
interpreting model predictions*). Shapley values of a sum are sums of Shapley values, so grids and
the parts of joined maps are explained one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gramless.base.random import stream
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.features.base import FeatureMap, SeparableMap
from gramless.features.binning import BinningMap
from gramless.features.hybrid import ConcatenatedMaps
from gramless.features.landmarks import dense_rows
from gramless.features.shapley_grids import MAX_EXACT_PLAYERS, GridGames, Players, joining_factors
from gramless.loops.shapley import product_sums, product_totals
from gramless.preprocessing.rows import Rows

# Players up to which all subsets are evaluated if each subset needs predictions.
_MAX_EVALUATED_PLAYERS = 6
# An order of players is sampled together with its reverse: the pair is exact for interactions of
# two players. There are fewer pairs for more players.
_MAX_PAIRS, _MIN_PAIRS, _PAIRS_TIMES_PLAYERS = 32, 4, 512
# Maximum numbers in a block: factors of the rows, payoffs of the terms, and rows.
_BLOCK_FACTORS, _BLOCK_PAYOFFS, _MAX_BLOCK_ROWS = 1 << 22, 1 << 23, 256
_EVALUATED_ROWS = 8192  # rows that are predicted at a time
# At most _MAX_BACKGROUND background rows are used if orders are sampled, or if evaluating all
# subsets with all background rows would take more than _MAX_NUMBERS features.
_MAX_BACKGROUND, _MAX_NUMBERS = 50, 1 << 30

# The responses to the rows, and to the background rows: payoffs of all players and of none.
Ends = tuple[FloatArray, FloatArray]
Respond = Callable[[FloatArray], FloatArray]


def shapley_values(
    features: FeatureMap,
    weights: FloatArray,
    X: Rows,
    background: Rows,
    players: Players,
    *,
    n_jobs: int | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the Shapley values of responses ``Z w`` to rows, and the mean over the background.

    Parameters
    ----------
    features : FeatureMap
        A fitted feature map.
    weights : array (n_features_out, K)
        Weights of the features for each output.
    X, background : validated rows (n_rows, n_columns) and (m, n_columns)
        Rows to explain, and rows with typical values of the columns.
    players : Players
        Players of the columns.
    n_jobs : int or None, default=None
        Number of threads; None means all processors.

    Returns
    -------
    values : array (n_rows, n_players, K)
        Their sum plus the mean is the response.
    mean : array (K,)

    Notes
    -----
    The values are exact for grids over up to 12 players (8 if there are very many bins, 2 if the
    payoffs would have very many terms), for products over up to 12 players, and for any other map
    over up to 6 players, where 50 background rows are used if predictions are slow. Fourier
    features are products, and so are Nyström features if the kernel is a product over the inputs.
    In all other cases, such as grids that divide combinations of the inputs, orders of players are
    sampled, each together with its reverse.
    """
    values = np.zeros((X.shape[0], players.n_players, weights.shape[1]))
    mean = np.zeros(weights.shape[1])
    for part, part_weights in _iter_parts(features, weights):
        empty = part.rows_matrix(background).matvec(part_weights)
        mean += empty.mean(axis=0)
        if X.shape[0]:
            _add_part(part, part_weights, X, background, empty, players, n_jobs, values)
    return values, mean


def _iter_parts(
    features: FeatureMap, weights: FloatArray
) -> Iterator[tuple[FeatureMap, FloatArray]]:
    """Yield the parts of joined maps, with their weights times their scale."""
    if isinstance(features, BinningMap):
        # Grids over single inputs are separate, because there is a faster algorithm for them.
        combines = features.grids.divides_combinations
        for chosen in (~combines, combines):
            if chosen.any():
                yield features.of_grids(chosen), weights[np.repeat(chosen, features.n_bins_)]
        return
    if not isinstance(features, ConcatenatedMaps):
        yield features, weights
        return
    start = 0
    for part, scale in zip(features.maps_, features.scales_.tolist(), strict=True):
        stop = start + part.n_features_out
        yield from _iter_parts(part, scale * weights[start:stop])
        start = stop


def _add_part(
    features: FeatureMap,
    weights: FloatArray,
    X: Rows,
    background: Rows,
    empty: FloatArray,
    players: Players,
    n_jobs: int | None,
    out: FloatArray,
) -> None:
    """Add the Shapley values of one map to ``out``; ``empty`` are its background responses."""
    rows, others = dense_rows(X), dense_rows(background)
    if isinstance(features, BinningMap) and features.grids.projection is None:
        GridGames.of(features, weights, rows, others, players).add_values(n_jobs, out)
        return

    def respond(rows: Rows) -> FloatArray:
        return features.rows_matrix(rows).matvec(weights)

    ends, (active, columns) = (respond(X), empty), players.columns_of(features.used_columns)
    if not len(active):
        return
    if isinstance(features, SeparableMap) and features.is_separable:
        game = _ProductGame(features, features.terms(weights), columns, n_jobs)
        out[:, active] += game.values(rows, others, ends)
    elif len(columns) > _MAX_EVALUATED_PLAYERS:
        out[:, active] += _sample_orders(respond, columns, rows, others, ends)
    else:
        work = float(len(rows) << len(columns)) * len(others) * features.numbers_per_row
        if work > _MAX_NUMBERS:
            others = others[_select_evenly_spaced(empty[:, 0], _MAX_BACKGROUND)]
        out[:, active] += _evaluate_subsets(respond, columns, rows, others, ends)


@dataclass(frozen=True)
class Subsets:
    """Subsets of players, each of which but the first has one player more than an earlier one.

    The first subset is empty and the last has all players. The complement of subset i is subset
    ``n_subsets - 1 - i``.

    Attributes
    ----------
    steps : array (n_subsets, 3)
        How the product over each subset is computed from an earlier one, see
        :func:`gramless.loops.shapley.product_sums`.
    n_kept : int
        Number of products in memory.
    factors : array (n_subsets, n_players)
        The Shapley values are the payoffs times these factors.
    """

    steps: IntArray
    n_kept: int
    factors: FloatArray

    @classmethod
    def all_of(cls, n: int) -> Subsets:
        """Return all subsets; the bits of a subset's number are its players."""
        numbers = np.arange(1 << n)
        members = (numbers[:, None] >> np.arange(n)) & 1 == 1
        lowest, others = np.argmax(members, axis=1), numbers & (numbers - 1)
        before = np.where(others > 0, lowest[others], n)
        sizes, joining = members.sum(axis=1), np.append(joining_factors(n), 0.0)
        factors = np.where(members, joining[sizes - 1][:, None], -joining[sizes][:, None])
        return cls(np.stack([before, lowest, lowest], axis=1), n, factors)

    @classmethod
    def along(cls, order: IntArray) -> Subsets:
        """Return the subsets of the first players of an order, and of its reverse."""
        n = len(order)
        steps, factors = np.zeros((2 * n, 3), np.int64), np.zeros((2 * n, n))
        places = np.arange(2 * n)
        steps[:, 0], steps[:, 1] = (places - 1) % 2, places % 2
        steps[1:n, 2], steps[n:, 2] = order[:-1], order[::-1]
        steps[[1, n], 0] = 2
        paths = (np.r_[0:n, 2 * n - 1], order), (np.r_[0, n : 2 * n], order[::-1])
        for path, path_order in paths:
            factors[path[1:], path_order] += 0.5
            factors[path[:-1], path_order] -= 0.5
        return cls(steps, 2, factors)


@dataclass(frozen=True)
class _ProductGame:
    """A sum of products over the players, with the columns of each player."""

    features: SeparableMap
    terms: AnyArray
    columns: list[IntArray]
    n_jobs: int | None

    def values(self, X: FloatArray, background: FloatArray, ends: Ends) -> FloatArray:
        """Return the Shapley values of rows (n_rows, n_players, K)."""
        n = len(self.columns)
        values = np.zeros((len(X), n, self.terms.shape[1]))
        full, mean = ends[0], ends[1].mean(axis=0)
        all_sets = self._subsets()
        for a, b in row_blocks(len(all_sets), max(1, _BLOCK_PAYOFFS // (2 * n * len(self.terms)))):
            sets = all_sets[a:b]
            tables = self._completions(sets, background)

            def add_block(
                a: int, b: int, sets: list[Subsets] = sets, tables: list[AnyArray] = tables
            ) -> None:
                factors = self._factors(X[a:b])
                for subsets, table in zip(sets, tables, strict=True):
                    payoffs = self._payoffs(factors, subsets, table)
                    # The values sum exactly to the difference of the predicted responses.
                    payoffs[0], payoffs[-1] = mean, full[a:b]
                    values[a:b] += np.tensordot(payoffs, subsets.factors, (0, 0)).swapaxes(1, 2)

            with one_blas_thread():
                map_blocks(add_block, row_blocks(len(X), self._block_rows), self.n_jobs)
        return values / len(all_sets)

    @property
    def _block_rows(self) -> int:
        row_factors = len(self.columns) * len(self.terms)
        return int(np.clip(_BLOCK_FACTORS // row_factors, 1, _MAX_BLOCK_ROWS))

    def _subsets(self) -> list[Subsets]:
        n = len(self.columns)
        if n <= MAX_EXACT_PLAYERS:
            return [Subsets.all_of(n)]
        n_pairs = int(np.clip(_PAIRS_TIMES_PLAYERS // n, _MIN_PAIRS, _MAX_PAIRS))
        orders = (stream(0, "players", k).permutation(n) for k in range(n_pairs))
        return [Subsets.along(order) for order in orders]

    def _factors(self, X: FloatArray) -> AnyArray:
        """Return the factors of each player (n_rows, n_players, n_terms)."""
        return np.stack([self.features.factors(X, part) for part in self.columns], axis=1)

    def _completions(self, sets: list[Subsets], background: FloatArray) -> list[AnyArray]:
        """Return the mean over the background of the products of players not in each subset."""
        shapes = [(len(subsets.steps), len(self.terms)) for subsets in sets]
        totals = [np.zeros(shape, self.terms.dtype) for shape in shapes]
        for a, b in row_blocks(len(background), self._block_rows):
            factors = self._factors(background[a:b])
            for subsets, total in zip(sets, totals, strict=True):
                product_totals(factors, subsets.steps, self._workspace(subsets), total)
        for total in totals:
            total[0] = len(background)
        # Reversed, because complements are in reverse order.
        return [total[::-1] / len(background) for total in totals]

    def _payoffs(self, factors: AnyArray, subsets: Subsets, table: AnyArray) -> FloatArray:
        """Return the payoffs (n_subsets, n_rows, K)."""
        n_outputs = self.terms.shape[1]
        payoffs, workspace = (
            np.zeros((n_outputs, len(factors), len(table))),
            self._workspace(subsets),
        )
        for output_payoffs, terms in zip(payoffs, self.terms.T, strict=True):
            product_sums(factors, subsets.steps, table * terms, workspace, output_payoffs)
        return payoffs.transpose(2, 1, 0)

    def _workspace(self, subsets: Subsets) -> AnyArray:
        return np.empty((subsets.n_kept + 1, len(self.terms)), self.terms.dtype)


def _evaluate_subsets(
    respond: Respond, columns: list[IntArray], X: FloatArray, background: FloatArray, ends: Ends
) -> FloatArray:
    """Return the Shapley values of any function of rows, from all subsets of the players."""
    n, m = len(columns), len(background)
    factors, (full, empty) = Subsets.all_of(n).factors, ends
    values = factors[0][:, None] * empty.mean(axis=0) + factors[-1][:, None] * full[:, None]
    for a, b in row_blocks(len(X), max(1, _EVALUATED_ROWS // m)):
        for subset in range(1, (1 << n) - 1):
            members = [part for p, part in enumerate(columns) if subset >> p & 1]
            replaced = np.concatenate(members)
            mixed = np.tile(background, (b - a, 1))
            mixed[:, replaced] = np.repeat(X[a:b, replaced], m, axis=0)
            payoff = respond(mixed).reshape(b - a, m, -1).mean(axis=1)
            values[a:b] += factors[subset][:, None] * payoff[:, None]
    return values


def _sample_orders(
    respond: Respond, columns: list[IntArray], X: FloatArray, background: FloatArray, ends: Ends
) -> FloatArray:
    """Return Shapley values estimated from random orders of the players and their reverses.

    There is one order for each of at most 50 background rows, which are evenly spaced by their
    responses.
    """
    n, (full, empty), mean = len(columns), ends, ends[1].mean(axis=0)
    chosen = _select_evenly_spaced(empty[:, 0], _MAX_BACKGROUND)
    background, empty = background[chosen], empty[chosen]
    m, values = len(chosen), np.empty((len(X), n, full.shape[1]))
    # The difference between both means is divided equally, so that the values sum to the response
    # minus the mean over all background rows.
    values[...] = 2 * m / n * (empty.mean(axis=0) - mean)
    orders = np.stack([stream(0, "players", i).permutation(n) for i in range(m)])
    for a, b in row_blocks(m, max(1, _EVALUATED_ROWS // len(X))):
        for order in (orders[a:b], orders[a:b, ::-1]):
            mixed = np.repeat(background[a:b, None], len(X), axis=1)
            before = np.repeat(empty[a:b, None], len(X), axis=1)
            for k in range(n):
                for mixed_rows, p in zip(mixed, order[:, k], strict=True):
                    mixed_rows[:, columns[p]] = X[:, columns[p]]
                if k == n - 1:
                    after = np.broadcast_to(full, before.shape)
                else:
                    after = respond(mixed.reshape(-1, mixed.shape[2])).reshape(before.shape)
                for gain, p in zip(after - before, order[:, k], strict=True):
                    values[:, p] += gain
                before = after
    return values / (2 * m)


def _select_evenly_spaced(responses: FloatArray, n: int) -> IntArray:
    """Return the indices of at most n rows that are evenly spaced by their responses."""
    n_rows = len(responses)
    if n_rows <= n:
        return np.arange(n_rows)
    ranks = (np.arange(n) + 0.5) * n_rows / n
    return np.sort(np.argsort(responses, kind="stable")[ranks.astype(np.intp)])
