"""Pairs of rows that are in the right order, counted with a tree of partial sums."""

from __future__ import annotations

from gramless.loops.compile import loop


@loop
def count_pairs(ranks, events, firsts, tree, found):
    """Count pairs of an event and a later row, those in the right order, and those of equal rank.

    Rows (n,) are in falling order of time, of one time those without an event first; ``ranks`` are
    numbers of their risks from 1, rising with the risk. ``events`` are numbers of rows, and
    ``firsts`` of the first event at the same time: those before it are later. ``tree`` is room for
    one count more than there are ranks, all 0; ``found`` gets the three counts.
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
        found[0] += n_later
        found[1] += below
        found[2] += up_to - below
