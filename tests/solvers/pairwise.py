"""Fewer combinations than all, in which nevertheless any two values meet, or each occurs."""

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


def each_value(*factors: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return as many combinations as the longest factor has values, each value in one of them."""
    lists = [list(factor) for factor in factors]
    # Shorter factors are shifted after each round: otherwise those of equal length stay in step.
    return [
        tuple(values[(i + i // len(values)) % len(values)] for values in lists)
        for i in range(max(map(len, lists)))
    ]


def covering(given: Iterable[tuple[Any, ...]], together: int = 2) -> list[tuple[Any, ...]]:
    """Return some of the combinations, so that values that meet in one still do, by twos or ones.

    Always the first of those that add most.
    """
    every = [(one, set(combinations(enumerate(one), together))) for one in given]
    missing: set[Any] = set().union(*(met for _, met in every))
    chosen = []
    while missing:
        combination, met = max(every, key=lambda one: len(one[1] & missing))
        chosen.append(combination)
        missing -= met
    return chosen
