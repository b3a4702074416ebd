"""Shapley values of grids, and sums of products over subsets of inputs.

The players of the game of a row are its inputs. The payoff of a subset of inputs is the mean over
background rows that supply the values of the other inputs.
"""

from __future__ import annotations

import numpy as np

from gramless.loops.binning import distinct_keys, number_codes
from gramless.loops.compile import inner_loop, loop, reordering_loop

FIRST_BITS = 4  # initial bits of the index of distinct keys


@loop
def player_keys(columns, chosen, owners, inverse_widths, shifts, multipliers, limits, keys):
    """Set ``keys[p, i]`` to the contribution of player p to the key of row i in one grid.

    The grid divides the inputs ``chosen`` of ``columns`` (n_columns, n_rows), which belong to the
    players ``owners``. Cells are clipped to ``+-limits``.
    """
    keys[:] = 0
    for c in range(len(chosen)):
        values, sums = columns[chosen[c]], keys[owners[c]]
        inverse, shift, multiplier = inverse_widths[c], shifts[c], multipliers[c]
        limit = limits[c]
        for i in range(len(sums)):
            cell = min(max((values[i] - shift) * inverse, -limit), limit)
            sums[i] += multiplier * np.int64(np.floor(cell))


@inner_loop
def sum_over(keys, rows, n_rows, players, start, out):
    """Set ``out[i]`` to ``start`` plus the keys of row ``rows[i]``, summed over a set of players.

    Bit p of ``players`` says whether player p belongs to the set.
    """
    for i in range(n_rows):
        out[i] = start
    for p in range(len(keys)):
        if (players >> p) & 1:
            contributions = keys[p]
            for i in range(n_rows):
                out[i] += contributions[rows[i]]


@inner_loop
def first_rows(codes, n_codes, rows):
    """Set ``rows[k]`` to the first row with number k + 1."""
    seen = 0
    for i in range(n_codes):
        if codes[i] > seen:
            rows[seen] = i
            seen += 1


@inner_loop
def total_keys(keys, start, out):
    """Set ``out[i]`` to ``start`` plus the keys of row i, summed over all players."""
    for i in range(keys.shape[1]):
        out[i] = start
    for p in range(len(keys)):
        contributions = keys[p]
        for i in range(len(contributions)):
            out[i] += contributions[i]


@inner_loop
def distinct_games(keys, background, integers, index, fractions):
    """Group rows in the same bin, which play the same game, and group background rows by bin.

    Row i has game ``integers[2, i]``, from 1; ``integers[3, k]`` is the first row of game k + 1.
    ``integers[4]`` are the first rows of groups of background rows, and ``fractions`` their
    fractions of all background rows. Returns the numbers of games and of groups; the number of
    games is -1 if a key has no slot.
    """
    n_rows, m = keys.shape[1], background.shape[1]
    sums, table, codes, others = integers[0], integers[1], integers[2], integers[5]
    total_keys(background, 0, sums)
    n_others = distinct_keys(sums, m, index, FIRST_BITS, table, others)
    total_keys(keys, 0, sums)
    n_games = distinct_keys(sums, n_rows, index, FIRST_BITS, table, codes)
    if n_others < 0 or n_games < 0:
        return -1, n_others
    first_rows(codes, n_rows, integers[3])
    first_rows(others, m, integers[4])
    fractions[:] = 0.0
    for i in range(m):
        fractions[others[i] - 1] += 1.0 / m
    return n_games, n_others


@inner_loop
def add_scaled(out, at, factor, numbers, start, n):
    """Add ``n`` numbers from ``start`` on, times a factor, to ``out`` from ``at`` on."""
    for k in range(n):
        out[at + k] += factor * numbers[start + k]


@inner_loop
def add_games(codes, n_rows, players, values, n_outputs, out):
    """Add to each row of ``out`` (n_rows, n_inputs, n_outputs) the values of its game."""
    n_players = len(players)
    for i in range(n_rows):
        game = (codes[i] - 1) * n_players
        for p in range(n_players):
            add_scaled(out[i, players[p]], 0, 1.0, values, (game + p) * n_outputs, n_outputs)


@loop
def grid_values(
    keys, background, offset, slots, bits, table, count, weights, factors, players, integers,
    numbers, index, out,
):  # fmt: skip
    """Add the Shapley values of the weights of a grid to ``out`` (n_rows, n_inputs, n_outputs).

    ``keys`` (s, n_rows) and ``background`` (s, m) are those of :func:`player_keys`; the bin of a
    row has the key ``offset`` plus their sum. ``slots``, ``bits``, ``table`` and ``count`` are the
    bins of the grid as in :func:`gramless.loops.binning.number_codes`; ``weights`` (count + 1,
    n_outputs) has zeros for bins without training rows. A player that joins a subset of size t gets
    ``factors[t]`` times the increase of the payoff; ``players`` are the inputs. Scratch memory is
    ``integers`` (8, more than n_rows, m and s), ``numbers`` (n_rows * (s + 1) * n_outputs + 2 m,)
    and ``index``. Returns whether all keys have a slot.
    """
    n_players, m, n_outputs = len(keys), background.shape[1], weights.shape[1]
    fractions, completion_fractions, values = numbers[:m], numbers[m : 2 * m], numbers[2 * m :]
    n_games, n_others = distinct_games(keys, background, integers, index, fractions)
    if n_games < 0:
        return False
    sums, value_keys, codes, rows = integers[0], integers[1], integers[2], integers[3]
    other_rows, group_codes, completions, bins = integers[4], integers[5], integers[6], integers[7]
    everyone, payoffs = (1 << n_players) - 1, values[n_games * n_players * n_outputs :]
    values[: n_games * n_players * n_outputs] = 0.0
    for subset in range(everyone + 1):
        size = 0
        for p in range(n_players):
            size += (subset >> p) & 1
        sum_over(background, other_rows, n_others, everyone ^ subset, offset, sums)
        n_completions = distinct_keys(sums, n_others, index, FIRST_BITS, completions, group_codes)
        completion_fractions[:] = 0.0
        for v in range(n_others):
            completion_fractions[group_codes[v] - 1] += fractions[v]
        sum_over(keys, rows, n_games, subset, 0, sums)
        n_values = distinct_keys(sums, n_games, index, FIRST_BITS, value_keys, group_codes)
        if n_completions < 0 or n_values < 0:
            return False
        for u in range(n_values):
            for v in range(n_completions):
                sums[v] = value_keys[u + 1] + completions[v + 1]
            number_codes(sums, n_completions, slots, bits, table, count, count, bins)
            payoffs[u * n_outputs : (u + 1) * n_outputs] = 0.0
            for v in range(n_completions):
                for k in range(n_outputs):
                    payoffs[u * n_outputs + k] += completion_fractions[v] * weights[bins[v], k]
        # The payoff counts positively for each member, who joined a subset of one player less, and
        # negatively for each other player, who has yet to join this subset.
        of_members = factors[size - 1] if size > 0 else 0.0
        of_others = factors[size] if size < n_players else 0.0
        for u in range(n_games):
            payoff = (group_codes[u] - 1) * n_outputs
            for p in range(n_players):
                factor = of_members if (subset >> p) & 1 else -of_others
                at = (u * n_players + p) * n_outputs
                add_scaled(values, at, factor, payoffs, payoff, n_outputs)
    add_games(codes, keys.shape[1], players, values, n_outputs, out)
    return True


@loop
def sampled_grid_values(
    keys, background, offset, slots, bits, table, count, weights, orders, players, integers,
    numbers, index, out,
):  # fmt: skip
    """Estimate :func:`grid_values` by one order in which players join, and its reverse.

    The order for background row v is ``orders[v]``. Players with the same cell in both rows are
    skipped, because their contribution is 0.
    """
    n_players, m, n_outputs = len(keys), background.shape[1], weights.shape[1]
    fractions, values = numbers[:m], numbers[2 * m :]
    n_games, n_others = distinct_games(keys, background, integers, index, fractions)
    if n_games < 0:
        return False
    sums, codes, rows, other_rows = integers[0], integers[2], integers[3], integers[4]
    joining, bins, steps = integers[5], integers[6], integers[7]
    values[: n_games * n_players * n_outputs] = 0.0
    for v in range(n_others):
        b = other_rows[v]
        for u in range(n_games):
            i, n_joining, start = rows[u], 0, offset
            for q in range(n_players):
                p = orders[b, q]
                start += background[p, b]
                if keys[p, i] != background[p, b]:
                    joining[n_joining] = p
                    steps[n_joining] = keys[p, i] - background[p, b]
                    n_joining += 1
            for is_reversed in range(2):
                sums[0] = start
                for q in range(n_joining):
                    at = n_joining - 1 - q if is_reversed else q
                    sums[q + 1] = sums[q] + steps[at]
                number_codes(sums, n_joining + 1, slots, bits, table, count, count, bins)
                for q in range(n_joining):
                    at = joining[n_joining - 1 - q if is_reversed else q]
                    place = (u * n_players + at) * n_outputs
                    for k in range(n_outputs):
                        grown = weights[bins[q + 1], k] - weights[bins[q], k]
                        values[place + k] += 0.5 * fractions[v] * grown
    add_games(codes, keys.shape[1], players, values, n_outputs, out)
    return True


@reordering_loop
def product_sums(factors, steps, table, scratch, out):
    """Add the real part of ``sum_l table[m, l] prod_{p in subset m} factors[i, p, l]``.

    It is added to ``out[i, m]``. Product m is ``scratch[steps[m, 0]]`` times the factor of player
    ``steps[m, 2]`` and is stored in another row, ``scratch[steps[m, 1]]``. The last row of
    ``scratch`` is set to ones. Subset 0 is empty, and ``out[i, 0]`` does not change.
    """
    n_terms = factors.shape[2]
    scratch[-1] = 1.0
    for i in range(len(factors)):
        for m in range(1, len(steps)):
            before, after, factor = (
                scratch[steps[m, 0]],
                scratch[steps[m, 1]],
                factors[i, steps[m, 2]],
            )
            scales = table[m]
            total = 0.0
            for j in range(n_terms):
                product = before[j] * factor[j]
                after[j] = product
                total += (product * scales[j]).real
            out[i, m] += total


@reordering_loop
def product_totals(factors, steps, scratch, out):
    """Add the sum over rows of the products of :func:`product_sums` to ``out``.

    ``out`` is (n_subsets, n_terms).
    """
    n_terms = factors.shape[2]
    scratch[-1] = 1.0
    for i in range(len(factors)):
        for m in range(1, len(steps)):
            before, after, factor = (
                scratch[steps[m, 0]],
                scratch[steps[m, 1]],
                factors[i, steps[m, 2]],
            )
            sums = out[m]
            for j in range(n_terms):
                product = before[j] * factor[j]
                after[j] = product
                sums[j] += product
