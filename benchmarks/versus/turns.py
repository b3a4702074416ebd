"""Find the installed methods, and fit them in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from benchmarks.common import Outcome, fit_and_evaluate, part_of, print_progress
from harness.data_sets import Dataset
from harness.peers import find_peer
from harness.peers.base import Peer

AnyOutcome = TypeVar("AnyOutcome", bound=Outcome)

_WARM_UP_ROWS = 2000
_LONG_SECONDS = 60.0


def find_methods(names: Iterable[str]) -> list[type[Peer]]:
    """Return the methods whose packages are installed, and print those that are missing."""
    methods = []
    for name in names:
        try:
            methods.append(find_peer(name))
        except ModuleNotFoundError as error:
            print_progress(f"{name}: {error.name} is not installed, skipped")
    return methods


def rows_for(peer: type[Peer], data: Dataset) -> Dataset:
    """Return the data set with dense rows if the method cannot use sparse ones."""
    return replace(data, X_train=peer.rows(data.X_train), X_test=peer.rows(data.X_test))


def take_turns(
    methods: Iterable[type[Peer]],
    data: Dataset,
    repeats: int,
    n_jobs: int | None,
    evaluate: Callable[[Any, Dataset], AnyOutcome] = fit_and_evaluate,
) -> dict[str, list[AnyOutcome]]:
    """Fit and evaluate every method ``repeats`` times, in turns, with the repeat as its seed.

    A deterministic method whose fit takes more than a minute is fitted only once. First, each
    method is fitted to a few rows, untimed, so that everything is imported and compiled.
    """
    usable = []
    for method in methods:
        if method().make(data.task, len(data.y_train)) is None:
            print_progress(
                f"{data.name}: no {method.name} of {len(data.y_train):,} rows: {method.why}"
            )
            continue
        usable.append(method)
        few_rows = rows_for(method, part_of(data, _WARM_UP_ROWS, 10))
        evaluate(method(0, n_jobs).make(few_rows.task, len(few_rows.y_train)), few_rows)
    outcomes: dict[str, list[AnyOutcome]] = {method.name: [] for method in usable}
    for seed in range(repeats):
        # Every other repeat has the reverse order, so that a trend in speed affects all equally.
        for method in usable[:: -1 if seed % 2 else 1]:
            previous = outcomes[method.name]
            if previous and not method.is_random and previous[0].fit_seconds > _LONG_SECONDS:
                continue
            rows = rows_for(method, data)
            estimator = method(seed, n_jobs).make(data.task, len(data.y_train))
            outcome = evaluate(estimator, rows)
            previous.append(outcome)
            result = f"{outcome.error:.4f}, fit {outcome.fit_seconds:.1f} s"
            print_progress(f"{data.name}, {method.name}: {result}")
    return outcomes
