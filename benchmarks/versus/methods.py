"""The methods by name, and taking turns with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, TypeVar

from common import Outcome, fit_and_judge, part_of, say
from versus.peer import Peer, rows_for

from gramless.datasets import Dataset

METHODS = {
    "gramless": "gramless_:Gramless",
    "gramless_random": "gramless_:RandomGrids",
    "svc": "svc:SupportVectors",
    "kernel_ridge": "kernel_ridge:ExactKernelRidge",
    "rbf_sampler": "rbf_sampler:FourierFeatures",
    "nystroem": "nystroem:NystroemFeatures",
    "lightgbm": "lightgbm_:LightGBM",
    "hist_gradient_boosting": "hist_gradient_boosting:HistGradientBoosting",
}
"""File and class of each method."""

Found = TypeVar("Found", bound=Outcome)

_WARM_UP_ROWS = 2000
_LONG_SECONDS = 60.0


def find_methods(names: Iterable[str]) -> list[type[Peer]]:
    """Return the methods whose packages are installed; say which are not."""
    found = []
    for name in names:
        module, _, peer = METHODS[name].partition(":")
        try:
            found.append(getattr(import_module(f"versus.{module}"), peer))
        except ModuleNotFoundError as error:
            say(f"{name}: {error.name} is not installed, skipped")
    return found


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
