"""Shapley values of linear functions of features.

The game of a row has its inputs as players. The payoff of a subset is the mean response over the
background rows, after their inputs in the subset took the row's values ("interventional" Shapley
values: Strumbelj & Kononenko 2014, *Explaining prediction models and individual predictions with
feature contributions*; Lundberg & Lee 2017, *A unified approach to interpreting model
predictions*).
Games add up: a sum of grids and smooth parts is explained part by part.
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
from gramless.features.hybrid import SideBySide
from gramless.features.landmarks import dense_rows
from gramless.features.shapley_grids import MOST_EXACT, GridGames, Players, joining_factors
from gramless.loops.shapley import product_sums, product_totals
from gramless.preprocessing.rows import Rows

_MOST_EVALUATED = 6
"""Players of a game of which all subsets are looked at, where each takes predictions."""
_MOST_PAIRS, _LEAST_PAIRS, _PAIRS_OF_PLAYERS = 32, 4, 512
"""Orders of players are sampled with their reverses, which are exact for pairs of players that
interact: fewer for more players."""
_TERM_NUMBERS, _TABLE_NUMBERS, _MOST_TERM_ROWS = 1 << 22, 1 << 23, 256
"""Factors of a block of rows, and payoffs of terms, that are held at once."""
_EVALUATED_ROWS = 8192
_MOST_BACKGROUND, _MOST_NUMBERS = 50, 1 << 30
"""Background rows that are used where orders are sampled, or where looking at all subsets would
take more numbers of features than this."""

Ends = tuple[FloatArray, FloatArray]
"""The responses to the rows and to the background."""
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
        Fitted.
    weights : array (n_features_out, K)
        Weights of the features, a column each output.
    X, background : validated rows (n_rows, n_columns) and (m, n_columns)
        Rows to explain, and rows that stand for the values a column has otherwise.
    players : Players
        Of the columns.
    n_jobs : int or None, default=None
        Threads; None means every processor.

    Returns
    -------
    values : array (n_rows, n_players, K)
        With the mean they sum to the responses.
    mean : array (K,)

    Notes
    -----
    Exact for grids over up to 12 players (8, where bins are very many), for products over up to 12,
    which are the kernel values of Nyström features where the kernel multiplies over the inputs, and
    Fourier features, and for anything over up to 6. Elsewhere, as for grids that divide
    combinations of the inputs, permutations are sampled, each with its reverse.
    """
    values = np.zeros((X.shape[0], players.n_players, weights.shape[1]))
    mean = np.zeros(weights.shape[1])
    for part, own in _parts(features, weights):
        empty = part.rows_matrix(background).matvec(own)
        mean += empty.mean(axis=0)
        if X.shape[0]:
            _add_part(part, own, X, background, empty, players, n_jobs, values)
    return values, mean


def _parts(features: FeatureMap, weights: FloatArray) -> Iterator[tuple[FeatureMap, FloatArray]]:
    """Yield the maps that are joined, with their weights times their scale."""
    if isinstance(features, BinningMap):
        yield from _by_projection(features, weights)
        return
    if not isinstance(features, SideBySide):
        yield features, weights
        return
    start = 0
    for part, scale in zip(features.maps_, features.scales_.tolist(), strict=True):
        stop = start + part._n_features_out
        yield from _parts(part, scale * weights[start:stop])
        start = stop


def _by_projection(
    features: BinningMap, weights: FloatArray
) -> Iterator[tuple[FeatureMap, FloatArray]]:
    """Yield the grids over inputs alone, and those that divide combinations of them."""
    combine = features.grids.divides_combinations
    for chosen in (~combine, combine):
        if chosen.any():
            yield features.of_grids(chosen), weights[np.repeat(chosen, features.n_bins_)]


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
    """Add the Shapley values of one map, whose background responses are ``empty``, to ``out``."""
    rows, others = dense_rows(X), dense_rows(background)
    if isinstance(features, BinningMap) and features.grids.projection is None:
        GridGames.of(features, weights, rows, others, players).add_values(n_jobs, out)
        return

    def respond(rows: Rows) -> FloatArray:
        return features.rows_matrix(rows).matvec(weights)

    ends, (own, columns) = (respond(X), empty), players.columns_of(features.used_columns)
    if not len(own):
        return
    if isinstance(features, SeparableMap) and features.is_separable:
        game = _ProductGame(features, features.terms(weights), columns, n_jobs)
        out[:, own] += game.values(rows, others, ends)
    elif len(columns) > _MOST_EVALUATED:
        out[:, own] += _sampled(respond, columns, rows, others, ends)
    else:
        work = float(len(rows) << len(columns)) * len(others) * features.numbers_per_row
        if work > _MOST_NUMBERS:
            others = others[_spaced(empty[:, 0], _MOST_BACKGROUND)]
        out[:, own] += _evaluated(respond, columns, rows, others, ends)


@dataclass(frozen=True)
class Subsets:
    """Subsets of players, each but the first one player more than an earlier one.

    ``steps`` (n_subsets, 3) say how products over subsets follow from each other, see
    :func:`gramless.loops.shapley.product_sums`, with ``n_kept`` products kept. The Shapley values
    are the payoffs times ``factors`` (n_subsets, n_players). The first subset is empty, the last
    has all players, and complements have the same places from the other end.
    """

    steps: IntArray
    n_kept: int
    factors: FloatArray

    @classmethod
    def all_of(cls, n: int) -> Subsets:
        """Return all subsets, each at the number that its players' bits make."""
        numbers = np.arange(1 << n)
        members = (numbers[:, None] >> np.arange(n)) & 1 == 1
        lowest, others = np.argmax(members, axis=1), numbers & (numbers - 1)
        before = np.where(others > 0, lowest[others], n)
        sizes, joining = members.sum(axis=1), np.append(joining_factors(n), 0.0)
        factors = np.where(members, joining[sizes - 1][:, None], -joining[sizes][:, None])
        return cls(np.stack([before, lowest, lowest], axis=1), n, factors)

    @classmethod
    def along(cls, order: IntArray) -> Subsets:
        """Return the subsets that players make who join in an order, and in its reverse."""
        n = len(order)
        steps, factors = np.zeros((2 * n, 3), np.int64), np.zeros((2 * n, n))
        places = np.arange(2 * n)
        steps[:, 0], steps[:, 1] = (places - 1) % 2, places % 2
        steps[1:n, 2], steps[n:, 2] = order[:-1], order[::-1]
        steps[[1, n], 0] = 2
        for path, own in ((np.r_[0:n, 2 * n - 1], order), (np.r_[0, n : 2 * n], order[::-1])):
            factors[path[1:], own] += 0.5
            factors[path[:-1], own] -= 0.5
        return cls(steps, 2, factors)


@dataclass(frozen=True)
class _ProductGame:
    """A sum of products over the players, each of which has some columns."""

    features: SeparableMap
    terms: AnyArray
    columns: list[IntArray]
    n_jobs: int | None

    def values(self, X: FloatArray, background: FloatArray, ends: Ends) -> FloatArray:
        """Return the Shapley values of rows (n_rows, n_players, K).

        The payoffs of no player and of all are the responses as they are predicted, so that the
        values sum to their difference whatever the rounding.
        """
        n, found = len(self.columns), np.zeros((len(X), len(self.columns), self.terms.shape[1]))
        whole, mean = ends[0], ends[1].mean(axis=0)
        all_sets = self._subsets()
        for a, b in row_blocks(len(all_sets), max(1, _TABLE_NUMBERS // (2 * n * len(self.terms)))):
            sets = all_sets[a:b]
            tables = self._completions(sets, background)

            def work(
                a: int, b: int, sets: list[Subsets] = sets, tables: list[AnyArray] = tables
            ) -> None:
                factors = self._factors(X[a:b])
                for subsets, table in zip(sets, tables, strict=True):
                    payoffs = self._payoffs(factors, subsets, table)
                    payoffs[0], payoffs[-1] = mean, whole[a:b]
                    found[a:b] += np.tensordot(payoffs, subsets.factors, (0, 0)).swapaxes(1, 2)

            with one_blas_thread():
                map_blocks(work, row_blocks(len(X), self._rows_at_once), self.n_jobs)
        return found / len(all_sets)

    @property
    def _rows_at_once(self) -> int:
        numbers = len(self.columns) * len(self.terms)
        return int(np.clip(_TERM_NUMBERS // numbers, 1, _MOST_TERM_ROWS))

    def _subsets(self) -> list[Subsets]:
        n = len(self.columns)
        if n <= MOST_EXACT:
            return [Subsets.all_of(n)]
        n_pairs = int(np.clip(_PAIRS_OF_PLAYERS // n, _LEAST_PAIRS, _MOST_PAIRS))
        orders = (stream(0, "players", k).permutation(n) for k in range(n_pairs))
        return [Subsets.along(order) for order in orders]

    def _factors(self, X: FloatArray) -> AnyArray:
        """Return the factors of each player (n_rows, n_players, n_terms)."""
        return np.stack([self.features.factors(X, own) for own in self.columns], axis=1)

    def _completions(self, sets: list[Subsets], background: FloatArray) -> list[AnyArray]:
        """Return, for each subset, the mean product of all other players over the background."""
        shapes = [(len(subsets.steps), len(self.terms)) for subsets in sets]
        totals = [np.zeros(shape, self.terms.dtype) for shape in shapes]
        for a, b in row_blocks(len(background), self._rows_at_once):
            factors = self._factors(background[a:b])
            for subsets, own in zip(sets, totals, strict=True):
                product_totals(factors, subsets.steps, self._room(subsets), own)
        for own in totals:
            own[0] = len(background)
        return [own[::-1] / len(background) for own in totals]

    def _payoffs(self, factors: AnyArray, subsets: Subsets, table: AnyArray) -> FloatArray:
        """Return the payoffs (n_subsets, n_rows, K)."""
        n_outputs = self.terms.shape[1]
        payoffs, room = np.zeros((n_outputs, len(factors), len(table))), self._room(subsets)
        for own, terms in zip(payoffs, self.terms.T, strict=True):
            product_sums(factors, subsets.steps, table * terms, room, own)
        return payoffs.transpose(2, 1, 0)

    def _room(self, subsets: Subsets) -> AnyArray:
        return np.empty((subsets.n_kept + 1, len(self.terms)), self.terms.dtype)


def _evaluated(
    respond: Respond, columns: list[IntArray], X: FloatArray, background: FloatArray, ends: Ends
) -> FloatArray:
    """Return the Shapley values of any function of rows, looking at all subsets of its players."""
    n, m = len(columns), len(background)
    factors, (whole, empty) = Subsets.all_of(n).factors, ends
    found = factors[0][:, None] * empty.mean(axis=0) + factors[-1][:, None] * whole[:, None]
    for a, b in row_blocks(len(X), max(1, _EVALUATED_ROWS // m)):
        for subset in range(1, (1 << n) - 1):
            joined = [own for p, own in enumerate(columns) if subset >> p & 1]
            taken = np.concatenate(joined)
            mixed = np.tile(background, (b - a, 1))
            mixed[:, taken] = np.repeat(X[a:b, taken], m, axis=0)
            payoff = respond(mixed).reshape(b - a, m, -1).mean(axis=1)
            found[a:b] += factors[subset][:, None] * payoff[:, None]
    return found


def _sampled(
    respond: Respond, columns: list[IntArray], X: FloatArray, background: FloatArray, ends: Ends
) -> FloatArray:
    """Let players join in a random order, and in its reverse, for each background row.

    Of many background rows some are used, evenly spaced by their responses; what the mean of these
    differs by is shared out, so that values sum to the response less the mean.
    """
    n, (whole, empty), mean = len(columns), ends, ends[1].mean(axis=0)
    chosen = _spaced(empty[:, 0], _MOST_BACKGROUND)
    background, empty = background[chosen], empty[chosen]
    m, found = len(chosen), np.empty((len(X), n, whole.shape[1]))
    found[...] = 2 * m / n * (empty.mean(axis=0) - mean)
    orders = np.stack([stream(0, "players", i).permutation(n) for i in range(m)])
    for a, b in row_blocks(m, max(1, _EVALUATED_ROWS // len(X))):
        for order in (orders[a:b], orders[a:b, ::-1]):
            mixed = np.repeat(background[a:b, None], len(X), axis=1)
            before = np.repeat(empty[a:b, None], len(X), axis=1)
            for k in range(n):
                for own, p in zip(mixed, order[:, k], strict=True):
                    own[:, columns[p]] = X[:, columns[p]]
                rows = mixed.reshape(-1, mixed.shape[2])
                last = k == n - 1
                after = np.broadcast_to(whole, before.shape)
                after = after if last else respond(rows).reshape(before.shape)
                for grown, p in zip(after - before, order[:, k], strict=True):
                    found[:, p] += grown
                before = after
    return found / (2 * m)


def _spaced(responses: FloatArray, n: int) -> IntArray:
    """Return the numbers of n rows that are evenly spaced by their responses; all, if not more."""
    n_rows = len(responses)
    if n_rows <= n:
        return np.arange(n_rows)
    ranks = (np.arange(n) + 0.5) * n_rows / n
    return np.sort(np.argsort(responses, kind="stable")[ranks.astype(np.intp)])
