"""Concurrent fits and predictions of all kinds, in four threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless import (
    DoublyStochasticClassifier,
    DoublyStochasticRegressor,
    GrownBinning,
    Hybrid,
    KernelClassifier,
    KernelRegressor,
    RandomBinning,
    RandomFourier,
)

PROMISE = "Fits of any kinds in four threads end, and give the same bits as each of them alone."
FULL, SHORT = 200, 3
SECONDS = 300.0
MEMORY = 4 << 30
ENVIRONMENTS: dict[str, dict[str, str]] = {"two threads": {}}

Fit = Callable[[], NDArray[Any]]

_N_ROWS, _N_TRAIN, _N_JOBS = 2400, 2200, 2
_rng = np.random.default_rng(0)
_X = _rng.normal(size=(_N_ROWS, 6))
_Y = np.sin(2 * _X[:, 0]) + _X[:, 1] * _X[:, 2] + 0.1 * _rng.normal(size=_N_ROWS)
_LABELS = np.digitize(_Y, [-0.5, 0.5])

# Without a search rounds are short, and threads are in the solvers at the same time.
FIXED: dict[str, Any] = {"bandwidth": 2.0, "alpha": 1e-3, "scaling": "standard", "calibrate": False}


def _regression(**options: Any) -> Fit:
    model = KernelRegressor(random_state=0, n_jobs=_N_JOBS, **options)
    return lambda: _fitted(model, _Y[:_N_TRAIN]).predict(_X[_N_TRAIN:])


def _classes(**options: Any) -> Fit:
    model = KernelClassifier(random_state=0, n_jobs=_N_JOBS, **options)
    return lambda: _fitted(model, _LABELS[:_N_TRAIN]).decision_function(_X[_N_TRAIN:])


def _fitted(model: Any, y: NDArray[Any]) -> Any:
    return model.__class__(**model.get_params(deep=False)).fit(_X[:_N_TRAIN], y)


def _streamed(kind: type[Any], y: NDArray[Any], method: str) -> Fit:
    def fit() -> NDArray[Any]:
        model = kind(max_steps=40, block_size=64, random_state=0, n_jobs=_N_JOBS)
        predictions: NDArray[Any] = getattr(_fitted(model, y[:_N_TRAIN]), method)(_X[_N_TRAIN:])
        return predictions

    return fit


def _grown() -> NDArray[Any]:
    model = GrownBinning(random_state=0, n_jobs=_N_JOBS).fit(_X[:_N_TRAIN], _Y[:_N_TRAIN])
    codes: NDArray[Any] = model.transform(_X[_N_TRAIN:]).toarray()
    return codes


KINDS: dict[str, Fit] = {
    "default regression": _regression(),
    "default classes": _classes(),
    "logistic": _classes(loss="logistic"),
    "squared hinge": _classes(loss="squared_hinge", grids="random", n_grids=64, **FIXED),
    "Huber": _regression(loss="huber", grids="random", n_grids=64, **FIXED),
    "L1": _regression(l1_ratio=1.0, grids="random", n_grids=64, **FIXED),
    "Algorithm 2": _regression(l1_ratio=1.0, grids="random", n_grids=64, solver="random", **FIXED),
    "smooth": _regression(features="smooth", **FIXED),
    "nystrom": _regression(features="nystrom", **FIXED),
    "fourier": _classes(features="fourier", **FIXED),
    "exact": _classes(features="exact", **FIXED),
    "hybrid": _regression(
        features=Hybrid([RandomBinning(n_grids=32), RandomFourier(n_components=64)]),
        **FIXED,
    ),
    "searched Nyström": _regression(features="nystrom"),
    "searched Fourier": _regression(features="fourier"),
    "doubly stochastic": _streamed(DoublyStochasticRegressor, _Y, "predict"),
    "doubly stochastic classes": _streamed(
        DoublyStochasticClassifier, _LABELS, "decision_function"
    ),
    "grown": _grown,
}
PAIRS = list(combinations_with_replacement(KINDS, 2))
# The first of these used to deadlock when callers waited for the pool's queue.
FIRST = ("default regression", "default classes", "searched Nyström", "searched Fourier")
_alone: dict[str, bytes] = {}


def check(number: int, seed: int) -> str:
    """Fit a pair of kinds and two more, each in a thread, and compare their predictions."""
    names = kinds_of(number, seed)
    for name in names:
        if name not in _alone:
            _alone[name] = KINDS[name]().tobytes()
    start = threading.Barrier(len(names))

    def run(name: str) -> bytes:
        start.wait(timeout=30)
        return KINDS[name]().tobytes()

    with ThreadPoolExecutor(len(names)) as threads:
        results = list(threads.map(run, names))
    for name, bits in zip(names, results, strict=True):
        assert bits == _alone[name], f"{name} among {names}: other bits than alone"
    return "same bits as alone"


def kinds_of(number: int, seed: int) -> tuple[str, ...]:
    """Return the four kinds of a case; every pair occurs."""
    if number == 0:
        return FIRST
    pair = PAIRS[np.random.default_rng(seed).permutation(len(PAIRS))[number % len(PAIRS)]]
    more = np.random.default_rng([seed, number]).choice(list(KINDS), 2)
    return (*pair, *map(str, more))
