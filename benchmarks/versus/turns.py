"""Methods that are installed, and taking turns with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from benchmarks.common import Outcome, fit_and_judge, part_of, say
from harness.data_sets import Dataset
from harness.peers import find_peer
from harness.peers.base import Peer

Found = TypeVar("Found", bound=Outcome)

_WARM_UP_ROWS = 2000
_LONG_SECONDS = 60.0


def find_methods(names: Iterable[str]) -> list[type[Peer]]:
    """Return the methods whose packages are installed; say which are not."""
    found = []
    for name in names:
        try:
            found.append(find_peer(name))
        except ModuleNotFoundError as error:
            say(f"{name}: {error.name} is not installed, skipped")
    return found


def rows_for(peer: type[Peer], data: Dataset) -> Dataset:
    """Return the data set with rows that the method takes: dense where it must be."""
    return replace(data, X_train=peer.rows(data.X_train), X_test=peer.rows(data.X_test))


def take_turns(
    methods: Iterable[type[Peer]],
    data: Dataset,
    repeats: int,
    n_jobs: int | None,
    judge: Callable[[Any, Dataset], Found] = fit_and_judge,
) -> dict[str, list[Found]]:
    """Fit and judge every method ``repeats`` times, in turns, the repeat as its seed.

    A method without randomness whose fit takes more than a minute has one turn. Before, each is
    fitted to a few rows outside the clock, so that everything is loaded and compiled.
    """
    able = []
    for method in methods:
        if method().make(data.task, len(data.y_train)) is None:
            say(f"{data.name}: no {method.name} of {len(data.y_train):,} rows: {method.why}")
            continue
        able.append(method)
        few = rows_for(method, part_of(data, _WARM_UP_ROWS, 10))
        judge(method(0, n_jobs).make(few.task, len(few.y_train)), few)
    outcomes: dict[str, list[Found]] = {method.name: [] for method in able}
    for seed in range(repeats):
        for method in able[:: -1 if seed % 2 else 1]:
            own = outcomes[method.name]
            if own and not method.is_random and own[0].fit_seconds > _LONG_SECONDS:
                continue
            rows = rows_for(method, data)
            estimator = method(seed, n_jobs).make(data.task, len(data.y_train))
            own.append(judge(estimator, rows))
            told = own[-1]
            say(f"{data.name}, {method.name}: {told.error:.4f}, fit {told.fit_seconds:.1f} s")
    return outcomes
