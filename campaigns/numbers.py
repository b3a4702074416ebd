"""Fits to extreme numbers, types, memory layouts and very few rows."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import gramless
from gramless.base.errors import GramlessError

PROMISE = (
    "numbers of any size, type, order and stride, any weights and 0 to 3 rows give finite "
    "predictions or a clear error, within ten seconds"
)
FULL, SHORT = 420, 24
SECONDS, MEMORY = 10.0, 2 << 30
ENVIRONMENTS: dict[str, dict[str, str]] = {"plain": {}}

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
WHOLE = RNG.integers(-50, 50, size=(200, 4))
ROWS = np.round(RNG.normal(size=(200, 4)), 3)
TARGETS = np.sin(ROWS[:, 0]) + 0.1 * RNG.normal(size=200)


def columns(*factors: float) -> Array:
    return ROWS * np.array(factors)


def entry(value: float) -> Array:
    rows = ROWS.copy()
    rows[7, 1] = value
    return rows


def strided(step: int) -> Array:
    return np.repeat(ROWS, abs(step), axis=0)[::step]


def sparse(rows: Array) -> Any:
    return sp.csr_array(np.where(RNG.random(rows.shape) < 0.4, rows, 0))


INPUTS: dict[str, Callable[[], Any]] = {
    "1e300": lambda: columns(1e300, 1e300, 1e300, 1e300),
    "largest": lambda: ROWS / np.abs(ROWS).max() * np.finfo(np.float64).max,
    "largest, to one side": lambda: (ROWS + 2) / np.abs(ROWS + 2).max() * np.finfo(np.float64).max,
    "one of the largest": lambda: entry(-np.finfo(np.float64).max),
    "1e-300": lambda: columns(1e-300, 1e-300, 1e-300, 1e-300),
    "denormal": lambda: columns(1e-310, 1e-310, 1e-310, 1e-310),
    "least": lambda: np.where(ROWS > 0, 5e-324, 0.0),
    "all sizes": lambda: columns(1e-300, 1e-5, 1e5, 1e300),
    "one denormal column": lambda: columns(1.0, 1e-312, 1.0, 1.0),
    "huge entry": lambda: entry(1e308),
    "tiny entry": lambda: entry(1e-320),
    "far away": lambda: ROWS + 1e15,
    "constant": lambda: np.ones((200, 4)),
    "constant column": lambda: ROWS * [1, 1, 1, 0],
    "minus zero": lambda: np.where(ROWS > 0, 0.0, -0.0),
    "infinity": lambda: entry(np.inf),
    "nan": lambda: entry(np.nan),
    "float16": lambda: ROWS.astype(np.float16),
    "float16 largest": lambda: (ROWS / np.abs(ROWS).max() * 65504).astype(np.float16),
    "float16 infinite": lambda: np.where(ROWS > 2, np.inf, ROWS).astype(np.float16),
    "float16 denormal": lambda: (ROWS * 1e-7).astype(np.float16),
    "float32": lambda: ROWS.astype(np.float32),
    "float32 largest": lambda: (ROWS / np.abs(ROWS).max() * 3.4e38).astype(np.float32),
    "float32 denormal": lambda: (ROWS * 1e-40).astype(np.float32),
    "longdouble": lambda: ROWS.astype(np.longdouble),
    "longdouble beyond": lambda: ROWS.astype(np.longdouble) * np.longdouble("1e400"),
    "int8": lambda: WHOLE.astype(np.int8),
    "uint8": lambda: np.abs(WHOLE).astype(np.uint8),
    "int16": lambda: WHOLE.astype(np.int16) * 600,
    "int32": lambda: WHOLE.astype(np.int32) * 40_000_000,
    "int64": lambda: WHOLE.astype(np.int64),
    "int64 spread": lambda: WHOLE.astype(np.int64) * 2**56,
    "int64 beyond 2**53": lambda: WHOLE + 2**60,
    "int64 ends": lambda: np.where(WHOLE > 0, 2**63 - 1, -(2**63)),
    "uint64": lambda: np.abs(WHOLE).astype(np.uint64) + np.uint64(2**63),
    "bool": lambda: WHOLE > 0,
    "objects": lambda: ROWS.astype(object),
    "complex": lambda: ROWS.astype(complex),
    "text": lambda: ROWS.astype(str),
    "big-endian": lambda: ROWS.astype(">f8"),
    "big-endian float32": lambda: ROWS.astype(">f4"),
    "Fortran": lambda: np.asfortranarray(ROWS),
    "backwards": lambda: strided(-1),
    "every second": lambda: strided(2),
    "columns backwards": lambda: ROWS[:, ::-1],
    "broadcast": lambda: np.broadcast_to(ROWS[:1], ROWS.shape),
    "read-only": lambda: np.frombuffer(ROWS.tobytes()).reshape(ROWS.shape),
    "transposed": lambda: ROWS.T.copy().T[:, :3],
    "lists": ROWS.tolist,
    "csr": lambda: sparse(ROWS),
    "csc": lambda: sparse(ROWS).tocsc(),
    "coo": lambda: sparse(ROWS).tocoo(),
    "csr 1e-300": lambda: sparse(ROWS * 1e-300),
    "csr 1e300": lambda: sparse(ROWS * 1e300),
    "csr denormal": lambda: sparse(ROWS * 1e-312),
    "csr empty": lambda: sp.csr_array((200, 4)),
    "csr float32": lambda: sparse(ROWS.astype(np.float32)),
    "csr int64": lambda: sparse(WHOLE + 2**60),
    "csr nan": lambda: sparse(np.full((200, 4), np.nan)),
    "csr explicit zeros": lambda: sp.csr_array((np.zeros(9), np.arange(9) % 4, [0] + [9] * 200)),
}

OUTPUTS: dict[str, Callable[[], Any]] = {
    "1e300": lambda: TARGETS * 1e300,
    "one of 1e308": lambda: np.append(TARGETS[1:], 1e308),
    "1e-300": lambda: TARGETS * 1e-300,
    "denormal": lambda: TARGETS * 1e-312,
    "constant": lambda: np.full(200, 7.0),
    "constant 1e-320": lambda: np.full(200, 1e-320),
    "far away": lambda: TARGETS + 1e15,
    "float16": lambda: TARGETS.astype(np.float16),
    "float32": lambda: TARGETS.astype(np.float32),
    "int8": lambda: WHOLE[:, 0].astype(np.int8),
    "int64 beyond 2**53": lambda: WHOLE[:, 0] + 2**60,
    "uint64": lambda: np.abs(WHOLE[:, 0]).astype(np.uint64) + np.uint64(2**63),
    "bool": lambda: TARGETS > 0,
    "nan": lambda: np.append(TARGETS[1:], np.nan),
    "infinity": lambda: np.append(TARGETS[1:], -np.inf),
    "two": lambda: np.column_stack([TARGETS * 1e200, TARGETS * 1e-200]),
    "column": lambda: TARGETS[:, None],
    "backwards": lambda: TARGETS[::-1],
    "big-endian": lambda: TARGETS.astype(">f8"),
    "longdouble": lambda: TARGETS.astype(np.longdouble),
    "longdouble beyond": lambda: TARGETS.astype(np.longdouble) * np.longdouble("1e400"),
}

WEIGHTS: dict[str, Callable[[], Any]] = {
    "1e300": lambda: np.full(200, 1e300),
    "1e-300": lambda: np.full(200, 1e-300),
    "denormal": lambda: np.full(200, 5e-324),
    "all sizes": lambda: 10.0 ** np.linspace(-300, 300, 200),
    "one": lambda: np.eye(200)[3],
    "zeros": lambda: np.zeros(200),
    "negative": lambda: np.where(TARGETS > 1, -1.0, 1.0),
    "nan": lambda: np.append(np.ones(199), np.nan),
    "infinity": lambda: np.append(np.ones(199), np.inf),
    "float16": lambda: np.linspace(0, 1, 200).astype(np.float16),
    "int64": lambda: np.arange(200) * 2**54,
    "bool": lambda: TARGETS > 0,
    "scalar": lambda: 2.0,
    "backwards": lambda: np.linspace(0, 1, 200)[::-1],
}

_STREAM = {"max_steps": 10, "block_size": 16, "random_state": 0}
MODELS: dict[str, Callable[[], Any]] = {
    "default": lambda: gramless.KernelRegressor(random_state=0),
    "classifier": lambda: gramless.KernelClassifier(random_state=0),
    "stream": lambda: gramless.DoublyStochasticRegressor(**_STREAM),
    "stream of classes": lambda: gramless.DoublyStochasticClassifier(**_STREAM),
    **{
        kind: lambda kind=kind: gramless.KernelRegressor(kind, random_state=0)
        for kind in ("smooth", "fourier", "nystrom", "exact")
    },
    "grown": lambda: gramless.KernelRegressor(grids="grown", n_grids=32, random_state=0),
    "sparse weights": lambda: gramless.KernelRegressor(l1_ratio=1.0, n_grids=32, random_state=0),
    "logistic": lambda: gramless.KernelClassifier(loss="logistic", n_grids=32, random_state=0),
    "huber": lambda: gramless.KernelRegressor(loss="huber", n_grids=32, random_state=0),
    "posterior": lambda: gramless.KernelRegressor(n_posterior=8, n_grids=32, random_state=0),
    **{
        kind.__name__: lambda kind=kind: kind(random_state=0)
        for kind in (
            *(gramless.RandomBinning, gramless.SmoothBinning, gramless.GrownBinning),
            *(gramless.RandomFourier, gramless.Nystrom, gramless.ExactKernel),
        )
    },
    "Hybrid": lambda: gramless.Hybrid(
        [gramless.RandomBinning(), gramless.RandomFourier()], random_state=0
    ),
}
_WITHOUT_WEIGHTS = ("stream", "stream of classes")


def prepare(seed: int) -> None:
    """Compile the loops of the fits."""
    for make in MODELS.values():
        for rows in (ROWS, sparse(ROWS)):
            attempt(make(), rows, TARGETS, {})


def check(number: int, seed: int) -> str:
    generator = np.random.default_rng([seed, number])
    name = list(MODELS)[int(generator.integers(len(MODELS)))]
    model, options = MODELS[name](), {}
    # Inputs are used in turn, so that each is combined with several models.
    inputs = list(INPUTS)[number % len(INPUTS)]
    rows, targets, labels = INPUTS[inputs](), TARGETS, [name, inputs]
    if number % 3 == 1:
        labels += [f"targets {(kind := pick(generator, OUTPUTS))}"]
        targets = OUTPUTS[kind]()
    if number % 3 == 2 and hasattr(model, "predict") and name not in _WITHOUT_WEIGHTS:
        labels += [f"weights {(kind := pick(generator, WEIGHTS))}"]
        options["sample_weight"] = WEIGHTS[kind]()
    if number % 5 == 0 and hasattr(rows, "shape"):
        n_rows = int(generator.integers(4))
        labels += [f"{n_rows} rows"]
        rows, targets = (rows.tocsr() if sp.issparse(rows) else rows)[:n_rows], targets[:n_rows]
        options = {k: v[:n_rows] if np.ndim(v) else v for k, v in options.items()}
    print(", ".join(labels), file=sys.stderr)
    try:
        return attempt(model, rows, targets, options)
    except BaseException as error:
        error.add_note(", ".join(labels))
        raise


def pick(generator: np.random.Generator, kinds: dict[str, Any]) -> str:
    return list(kinds)[int(generator.integers(len(kinds)))]


def attempt(model: Any, rows: Any, targets: Any, options: dict[str, Any]) -> str:
    """Fit, and predict or transform; return the outcome if it is allowed."""
    if "Classifier" in type(model).__name__ and np.asarray(targets).dtype.kind == "f":
        targets = np.where(np.isfinite(targets), targets > np.median(targets), targets)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", category=RuntimeWarning, module="gramless")
            model.fit(rows, targets, **options)
            method = model.predict if hasattr(model, "predict") else model.transform
            result = method(rows[:20])
    except (ValueError, TypeError) as error:
        require_clear(error)
        return "refused"
    result = result.data if sp.issparse(result) else np.asarray(result, np.float64)
    assert np.isfinite(result).all(), "not finite"
    return "finite"


def require_clear(error: Exception) -> None:
    """Raise an error again unless gramless or scikit-learn's validation raised it deliberately."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename.replace("\\", "/")
    is_from_checks = "sklearn/utils" in last or "gramless/" in last
    if not (isinstance(error, GramlessError) or is_from_checks):
        raise error
