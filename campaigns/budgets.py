"""Absurdly large parameters, widths and numbers of classes: a fixed list of cases."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

import gramless
from gramless.base.errors import GramlessError
from gramless.losses import Logistic, Squared
from gramless.matrices.dense import DenseMatrix
from gramless.penalties import L2, ElasticNet
from gramless.solvers.choose import SOLVERS
from gramless.solvers.objective import Problem
from gramless.solvers.random_descent import ParallelRandomDescent

PROMISE = (
    "a parameter, a width or a number of classes, however large, is refused within a second of the "
    "processor (ten of millions of columns), or done within two minutes and the memory that may be "
    "used"
)
SHORT = 60
SECONDS = 120.0
LIMIT = 2_000_000_000
MEMORY = 2 * LIMIT
"""Half of what is free may be used by large arrays: the other half is for all else."""
ENVIRONMENTS = {"plain": {"GRAMLESS_MEMORY_LIMIT": str(LIMIT)}}

_WITHIN = 1.0
"""Seconds of the processor until a refusal: other work on the machine does not count."""
_WIDE_WITHIN = 10.0
"""Of tables of up to ten million columns."""
_STEP = 37
"""Neighbours in the list are alike: a short campaign takes cases from all over."""
INTEGERS = (20_000, 10**6, 2**63 - 1, 2**70)
FLOATS = (1e-300, 1e9, 1e300, 10**400)
WIDTHS = (10**4, 10**5, 10**6, 10**7)
CLASSES = (50, 150)
MANY_CLASSES = (400, 2000, 10**4)
"""Their fits are told what to fit: a search among them would take many minutes."""

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=80)

_STREAM = {"max_steps": 20, "block_size": 16, "time_budget": 10.0, "random_state": 0}
"""Of rows too few to be held out steps go on as long as wanted: there are seconds for that."""
MODELS: dict[str, Callable[[], Any]] = {
    "KernelRegressor": lambda: gramless.KernelRegressor(n_grids=16, random_state=0),
    "KernelClassifier": lambda: gramless.KernelClassifier(n_grids=16, random_state=0),
    "fourier": lambda: gramless.KernelRegressor(gramless.RandomFourier(n_components=64)),
    "DoublyStochasticRegressor": lambda: gramless.DoublyStochasticRegressor(**_STREAM),
    "DoublyStochasticClassifier": lambda: gramless.DoublyStochasticClassifier(**_STREAM),
    "RandomBinning": lambda: gramless.RandomBinning(n_grids=16),
    "SmoothBinning": lambda: gramless.SmoothBinning(n_grids=16),
    "GrownBinning": lambda: gramless.GrownBinning(n_grids=16),
    "RandomFourier": lambda: gramless.RandomFourier(n_components=64),
    "structured": lambda: gramless.RandomFourier(n_components=64, sampling="structured"),
    "orthogonal": lambda: gramless.RandomFourier(n_components=64, sampling="orthogonal"),
    "Nystrom": lambda: gramless.Nystrom(n_components=32),
    "k-means": lambda: gramless.Nystrom(n_components=32, landmarks="kmeans"),
    "leverage": lambda: gramless.Nystrom(n_components=32, landmarks="leverage"),
    "ExactKernel": gramless.ExactKernel,
    "Hybrid": lambda: gramless.Hybrid([("a", gramless.RandomBinning(n_grids=8))]),
}
_KINDS: dict[str, type] = {
    **dict.fromkeys(("n_components", "patience", "random_state", "n_jobs"), int),
    **dict.fromkeys(("time_budget", "bandwidth", "alpha", "step"), float),
    **dict.fromkeys(("n_rows",), int),
}
"""Of parameters whose default says nothing of their type."""
_WIDE = (
    *("KernelRegressor", "KernelClassifier", "fourier", "RandomBinning", "SmoothBinning"),
    *("RandomFourier", "structured", "Nystrom", "DoublyStochasticRegressor"),
)


def values_of(name: str, value: Any) -> tuple[Any, ...]:
    """Return what to try for a parameter: nothing where it is no number."""
    kind = _KINDS.get(name.rpartition("__")[2])
    if kind is None and isinstance(value, Real) and not isinstance(value, bool):
        kind = type(value)
    return {int: INTEGERS, float: FLOATS}.get(kind, ())


def listed() -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield every case: a name, and what it does."""
    for kind, make in MODELS.items():
        for name, value in make().get_params(deep=True).items():
            for tried in values_of(name, value):
                yield f"{kind} {name}={tried}", lambda m=make, n=name, t=tried: parameter(m, n, t)
    for kind, solver in (SOLVERS | {"race": ParallelRandomDescent()}).items():
        for owner, part in ((None, solver), ("preconditioner", inner(solver))):
            for field in fields(part) if is_dataclass(part) else ():
                for tried in values_of(field.name, getattr(part, field.name)):
                    changed = lambda s=solver, o=owner, p=part, f=field.name, t=tried: solve(  # noqa: E731
                        s, o, p, f, t
                    )
                    yield f"{kind} {field.name}={tried}", changed
    for width in WIDTHS:
        for kind in _WIDE:
            for spread in (True, False):
                yield (
                    f"{kind} of {width} columns",
                    lambda m=MODELS[kind], w=width, s=spread: wide(m, w, s),
                )
        for default in (gramless.KernelRegressor, gramless.KernelClassifier):
            yield f"default of {width} columns", lambda d=default, w=width: wide(d, w, True)
    for n_classes in CLASSES:
        for model in (gramless.KernelClassifier, MODELS["DoublyStochasticClassifier"]):
            yield f"{n_classes} classes", lambda m=model, k=n_classes: classes(m, k)
    for n_classes in MANY_CLASSES:
        yield f"{n_classes} classes", lambda k=n_classes: classes(decided, k)
    most, default = max(MANY_CLASSES), gramless.KernelClassifier
    yield f"{most} classes by default", lambda: classes(default, most)


def decided() -> Any:
    return gramless.KernelClassifier(
        bandwidth=1.0, alpha=1e-3, scaling="standard", n_grids=16, calibrate=False, random_state=0
    )


def inner(solver: Any) -> Any:
    return solver.preconditioner if hasattr(solver, "preconditioner") else None


def parameter(make: Callable[[], Any], name: str, value: Any) -> None:
    fit(make().set_params(**{name: value}), X, Y)


def fit(model: Any, rows: Any, targets: Any) -> None:
    """Fit and predict or transform; what comes out must be finite."""
    if "Classifier" in type(model).__name__:
        targets = targets if targets.dtype.kind == "i" else (targets > 0).astype(int)
    model.fit(rows, targets)
    method = model.predict if hasattr(model, "predict") else model.transform
    found = method(rows[:20])
    found = found.data if sp.issparse(found) else found
    assert np.isfinite(found).all(), "not finite"


def solve(solver: Any, owner: str | None, part: Any, name: str, value: Any) -> None:
    changed = replace(part, **{name: value})
    solver = changed if owner is None else replace(solver, **{owner: changed})
    loss = Logistic() if type(solver).__name__ in ("NewtonCG",) else Squared()
    smooth = type(solver).__name__ not in ("GridDescent",)
    penalty = L2(0.01) if smooth else ElasticNet(0.01, 0.5)
    targets = np.where(Y > 0, 1.0, -1.0)
    if type(solver).__name__ == "Falkon":
        matrix = gramless.Nystrom(n_components=20, random_state=0).fit_matrix(X)
    elif type(solver).__name__ in ("Cholesky", "ConjugateGradient"):
        matrix = DenseMatrix(X)
    else:
        matrix = gramless.RandomBinning(n_grids=8, random_state=0).fit_matrix(X)
    weights = solver.solve(Problem(matrix, targets, penalty, loss)).weights
    assert np.isfinite(weights).all(), "weights are not finite"


def wide(make: Callable[[], Any], width: int, spread: bool) -> None:
    """Fit 50 rows of 20 non-zeros each: anywhere, or in the first hundred columns."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(width if spread else 100, size=(50, 20)), axis=1)
    rows = sp.csr_array(
        (rng.random(1000), columns.ravel(), np.arange(0, 1001, 20)), shape=(50, width)
    )
    fit(make(), rows, Y[:50])


def classes(make: Callable[[], Any], n_classes: int) -> None:
    rng = np.random.default_rng(0)
    targets = np.arange(2 * n_classes) % n_classes
    fit(make(), rng.normal(size=(2 * n_classes, 3)) + targets[:, None] / n_classes, targets)


CASES = list(listed())
FULL = len(CASES)


def prepare(seed: int) -> None:
    """Compile what fits need."""
    for kind in ("KernelRegressor", "DoublyStochasticRegressor"):
        fit(MODELS[kind](), X, Y)


def check(number: int, seed: int) -> str:
    name, run = CASES[number * _STEP % FULL]
    print(name, file=sys.stderr)
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
    except (GramlessError, ValueError) as refusal:
        told = f"{name}: {refusal}"
    except BaseException as error:
        error.add_note(name)
        raise
    else:
        return "done"
    spent = time.process_time() - begun
    within = _WIDE_WITHIN if "columns" in name else _WITHIN
    assert spent < within, f"refused after {spent:.2f} s: {told}"
    return "refused"
