"""Fewer combinations than all of them, in which nevertheless any two values meet."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any


def pairs(*factors: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return combinations so that any two values of different factors are in one together.

    Faults that depend on one or two factors are found as by the whole product; with
    three factors of six values that takes some 40 cases instead of 216.
    """
    return covering(product(*map(list, factors)))


def covering(given: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return some of the combinations, so that any two values that meet in one still do.

    Always the first of those that add most.
    """
    every = [(one, set(combinations(enumerate(one), 2))) for one in given]
    missing: set[Any] = set().union(*(met for _, met in every))
    chosen = []
    while missing:
        combination, met = max(every, key=lambda one: len(one[1] & missing))
        chosen.append(combination)
        missing -= met
    return chosen
