"""Exact block coordinate descent over grids, with all selected bins of a grid as a block.

``rows[grid, parts[p]:parts[p + 1]]`` lists the rows of part p by bins, counted from ``parts[p]``;
``bounds[p, column + grid]`` is the start of the rows of a column in that list. Selected columns are
ascending; those of grid ``grids[g]`` are ``columns[starts[g]:starts[g + 1]]``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gramless.loops.atomics import exchange, fetch_add, load, pause, store, yield_thread
from gramless.loops.compile import loop
from gramless.loops.coordinate_descent import proximal

_LINE = 8  # numbers in a cache line; each number of the state has its own line

# Positions in the state: the current turn, the last turn, the number of finished parts of the
# current turn, and the claims of the parts.
_TURN, _LAST, _DONE, _CLAIMS = 0, _LINE, 2 * _LINE, 3 * _LINE

# A thread polls the state this many times, at about 20 ns each, before it takes over the part of
# another thread, and before it yields its processor.
_POLLS_BEFORE_TAKEOVER, _POLLS_BEFORE_YIELD = 300, 2000


def descent_state(n_turns: int, n_parts: int) -> NDArray[np.int64]:
    """Return the state that threads share; the claim of a part is its next turn."""
    state = np.zeros(_CLAIMS + _LINE * n_parts, np.int64)
    state[_LAST] = n_turns
    return state


def turns_taken(state: NDArray[np.int64]) -> int:
    return int(state[_LAST])


@loop
def violations(gradient, weights, l1, l2, n_penalised, first, last, out):
    """Write the violations of optimality of weights ``first:last``; return the largest."""
    largest = 0.0
    for j in range(first, last):
        w = weights[j]
        if j >= n_penalised:
            far = abs(gradient[j])
        elif w == 0.0:
            far = max(abs(gradient[j]) - l1, 0.0)
        else:
            far = abs(gradient[j] + l2 * w + (l1 if w > 0.0 else -l1))
        out[j] = far
        largest = max(largest, far)
    return largest


@loop
def add_columns(starts, grids, columns, changes, rows, bounds, parts, values, p, out):
    """Add the selected columns, times ``changes``, to part p of ``out``."""
    part = out[parts[p] : parts[p + 1]]
    for g in range(len(grids)):
        grid = grids[g]
        listed = rows[grid, parts[p] : parts[p + 1]]
        for k in range(starts[g], starts[g + 1]):
            change = changes[k] * values[grid]
            if change != 0.0:
                at = columns[k] + grid
                for q in range(np.int64(bounds[p, at]), np.int64(bounds[p, at + 1])):
                    part[listed[q]] += change


@loop
def _sum_rows(listed, first, last, values):
    """Return the sum of the listed values, in four independent chains of additions."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    q = first
    while q + 4 <= last:
        a += values[listed[q]]
        b += values[listed[q + 1]]
        c += values[listed[q + 2]]
        d += values[listed[q + 3]]
        q += 4
    while q < last:
        a += values[listed[q]]
        q += 1
    return (a + b) + (c + d)


@loop
def sum_columns(starts, grids, columns, rows, bounds, parts, values, p, vector, out):
    """Set ``out[k]`` to the inner product of the squared column k with part p of ``vector``."""
    part = vector[parts[p] : parts[p + 1]]
    for g in range(len(grids)):
        grid = grids[g]
        listed = rows[grid, parts[p] : parts[p + 1]]
        for k in range(starts[g], starts[g + 1]):
            first = np.int64(bounds[p, columns[k] + grid])
            last = np.int64(bounds[p, columns[k] + grid + 1])
            out[k] = values[grid] ** 2 * _sum_rows(listed, first, last, part)


@loop
def _sum_part(g, starts, grids, columns, rows, bounds, parts, p, slopes, sums):
    """Write the sums of the slopes of part p in each selected bin of a grid."""
    grid, first = grids[g], starts[g]
    listed = rows[grid, parts[p] : parts[p + 1]]
    part = slopes[parts[p] : parts[p + 1]]
    for k in range(first, starts[g + 1]):
        at = columns[k] + grid
        a, b = np.int64(bounds[p, at]), np.int64(bounds[p, at + 1])
        sums[p, k - first] = _sum_rows(listed, a, b, part)


@loop
def _apply_part(
    g, starts, grids, columns, rows, bounds, parts, p, changes, row_curvatures, stride, slopes
):
    """Update the slopes of part p by the changes of the selected bins of a grid."""
    grid, first, start = grids[g], starts[g], parts[p]
    listed = rows[grid, start : parts[p + 1]]
    part = slopes[start : parts[p + 1]]
    for k in range(first, starts[g + 1]):
        change = changes[k - first]
        if change != 0.0:
            at = columns[k] + grid
            for q in range(np.int64(bounds[p, at]), np.int64(bounds[p, at + 1])):
                i = listed[q]
                part[i] += change * row_curvatures[(start + i) * stride]


@loop
def _move_grid(
    g, starts, grids, columns, values, curvature, weights, l1, l2, n_penalised, sums, changes
):
    """Minimise over the selected bins of a grid; return the largest change times curvature."""
    first, value, worst = starts[g], values[grids[g]], 0.0
    for k in range(first, starts[g + 1]):
        gradient = 0.0
        for p in range(len(sums)):
            gradient += sums[p, k - first]
        is_free = columns[k] >= n_penalised
        l1_here, l2_here = (0.0, 0.0) if is_free else (l1, l2)
        new = proximal(weights[k], gradient * value, curvature[k], l1_here, l2_here)
        move = new - weights[k]
        weights[k] = new
        changes[k - first] = move * value
        worst = max(worst, abs(move) * (curvature[k] + l2_here))
    return worst


@loop
def _claim(state, turn, thread, n_threads, n_parts, any_part):
    """Claim and return a part of this turn, or return -1 if none is left.

    The part is one of the thread's or, if ``any_part``, one of all parts.
    """
    first = 0 if any_part else n_parts * thread // n_threads
    last = n_parts if any_part else n_parts * (thread + 1) // n_threads
    for p in range(first, last):
        if exchange(state, _CLAIMS + _LINE * p, turn, turn + 1):
            return p
    return -1


@loop
def _end_turn(state, turn, n_grids, moved, tols, n_cheap_sweeps, worst):
    """Record the largest change of the sweep; if it is small, make the next turn the last."""
    worst[0] = max(worst[0], moved)
    if (turn + 1) % n_grids == 0:
        worst[1] = worst[0]
        worst[0] = 0.0
        if worst[1] <= (tols[1] if turn + 1 < n_cheap_sweeps * n_grids else tols[0]):
            store(state, _LAST, turn + 1)


@loop
def descend(
    orders, starts, grids, columns, rows, bounds, parts, values, curvature, weights,
    l1, l2, n_penalised, slopes, row_curvatures, stride, tols, n_cheap_sweeps, sums, changes,
    worst, state, thread, n_threads,
):  # fmt: skip
    """Sweep over the selected columns until changes are small.

    The objective is ``sum_i slopes_i d_i + row_curvatures_i d_i^2 / 2`` in the change ``d`` of the
    responses, plus the penalty. ``slopes`` are updated with the weights. Sweeps end when all
    changes, in units of the gradient, are at most ``tols[0]``, or at most ``tols[1]`` before sweep
    ``n_cheap_sweeps``.

    Each turn updates one grid. First, the slopes of each part of the rows are updated by the
    changes of the previous grid and summed over the bins of the current grid. The thread that
    finishes the last part updates the weights and starts the next turn. Each thread works on fixed
    parts, which stay in its cache, but takes over the parts of a delayed thread. Sums of parts are
    always added in the same order.

    ``orders`` (n_sweeps, n_grids) are the orders of the grids; ``curvature`` and ``weights`` belong
    to the selected columns. The curvature of row i is at ``i * stride``, with stride 0 if all are
    equal. With m the maximum number of selected columns in a grid, ``sums`` (n_parts, m) and
    ``changes`` (m,) are scratch memory; ``worst`` (2,) starts at zero; all threads share the
    ``state`` of :func:`descent_state`.
    """
    n_grids, n_parts = len(grids), len(parts) - 1
    first_part = n_parts * thread // n_threads
    last_part = n_parts * (thread + 1) // n_threads
    turn, waited, took_over = load(state, _TURN), 0, False
    while turn <= load(state, _LAST):
        p = _claim(state, turn, thread, n_threads, n_parts, waited >= _POLLS_BEFORE_TAKEOVER)
        if p < 0:
            waited += 1
            if waited < _POLLS_BEFORE_YIELD:
                pause()
            else:
                # The missing part may belong to a thread that the system does not run now.
                yield_thread()
        else:
            took_over = took_over or not first_part <= p < last_part
            if turn > 0:
                before = orders[(turn - 1) // n_grids, (turn - 1) % n_grids]
                _apply_part(
                    before, starts, grids, columns, rows, bounds, parts, p,
                    changes, row_curvatures, stride, slopes,
                )  # fmt: skip
            if turn < load(state, _LAST):
                g = orders[turn // n_grids, turn % n_grids]
                _sum_part(g, starts, grids, columns, rows, bounds, parts, p, slopes, sums)
            if fetch_add(state, _DONE, 1) == n_parts - 1:
                if turn < load(state, _LAST):
                    g = orders[turn // n_grids, turn % n_grids]
                    moved = _move_grid(
                        g, starts, grids, columns, values, curvature, weights,
                        l1, l2, n_penalised, sums, changes,
                    )  # fmt: skip
                    _end_turn(state, turn, n_grids, moved, tols, n_cheap_sweeps, worst)
                store(state, _DONE, 0)
                store(state, _TURN, turn + 1)
        now = load(state, _TURN)
        if now != turn:
            # After a takeover, the other thread is probably still delayed: do not wait again.
            turn, waited, took_over = now, _POLLS_BEFORE_TAKEOVER if took_over else 0, False
