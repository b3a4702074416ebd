"""Counts of concordant pairs, by a Fenwick tree."""

from __future__ import annotations

from gramless.loops.compile import loop


@loop
def count_pairs(ranks, events, firsts, tree, counts):
    """Count pairs of an event and a later row: all, the concordant ones, and those of equal rank.

    Rows (n,) are in descending order of time; among equal times, rows without an event come first.
    ``ranks`` are the ranks of their risks, from 1 for the lowest. ``events`` are row indices;
    ``firsts`` are the row indices of the first event at the same time, so all rows before it are
    later. ``tree`` is scratch memory of zeros, one more than there are ranks. The three counts are
    added to ``counts``.
    """
    n_later, size = 0, len(tree)
    for k in range(len(events)):
        while n_later < firsts[k]:
            at = ranks[n_later]
            while at < size:
                tree[at] += 1
                at += at & -at
            n_later += 1
        below, up_to = 0, 0
        at = ranks[events[k]] - 1
        while at > 0:
            below += tree[at]
            at -= at & -at
        at = ranks[events[k]]
        while at > 0:
            up_to += tree[at]
            at -= at & -at
        counts[0] += n_later
        counts[1] += below
        counts[2] += up_to - below
