"""Extremely large parameters, numbers of columns and numbers of classes: a fixed list of cases."""

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
    "with any parameter, number of columns or number of classes, however large, a fit raises an "
    "error within a second of processor time (ten seconds with millions of columns), or ends "
    "within two minutes and the memory limit"
)
SHORT = 60
SECONDS = 120.0
LIMIT = 2_000_000_000
# Large arrays may use half of the free memory; the other half is for everything else.
MEMORY = 2 * LIMIT
ENVIRONMENTS = {"plain": {"GRAMLESS_MEMORY_LIMIT": str(LIMIT)}}

# Limit of the processor time until an error, so that other work on the machine does not count.
_MAX_SECONDS = 1.0
# The same for tables of up to ten million columns.
_MAX_SECONDS_WIDE = 10.0
# Neighbours in the list are similar, so that a short campaign samples the list with this step.
_STEP = 37
INTEGERS = (20_000, 10**6, 2**63 - 1, 2**70)
FLOATS = (1e-300, 1e9, 1e300, 10**400)
WIDTHS = (10**4, 10**5, 10**6, 10**7)
CLASSES = (50, 150)
# These fits have fixed parameters, because a search would take many minutes.
MANY_CLASSES = (400, 2000, 10**4)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=80)

# There are too few rows for validation, so that only max_steps and the time budget end a run.
_STREAM = {"max_steps": 20, "block_size": 16, "time_budget": 10.0, "random_state": 0}
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
# Types of parameters whose defaults do not show them.
_KINDS: dict[str, type] = {
    **dict.fromkeys(("n_components", "patience", "random_state", "n_jobs"), int),
    **dict.fromkeys(("time_budget", "bandwidth", "alpha", "step"), float),
    **dict.fromkeys(("n_rows",), int),
}
_WIDE = (
    *("KernelRegressor", "KernelClassifier", "fourier", "RandomBinning", "SmoothBinning"),
    *("RandomFourier", "structured", "Nystrom", "DoublyStochasticRegressor"),
)


def values_of(name: str, value: Any) -> tuple[Any, ...]:
    """Return the values to try for a parameter, none if it is not a number."""
    kind = _KINDS.get(name.rpartition("__")[2])
    if kind is None and isinstance(value, Real) and not isinstance(value, bool):
        kind = type(value)
    return {int: INTEGERS, float: FLOATS}.get(kind, ())


def list_cases() -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name and the function of every case."""
    for kind, make in MODELS.items():
        for name, value in make().get_params(deep=True).items():
            for tested in values_of(name, value):
                yield (
                    f"{kind} {name}={tested}",
                    lambda m=make, n=name, t=tested: fit_with_parameter(m, n, t),
                )
    for kind, solver in (SOLVERS | {"race": ParallelRandomDescent()}).items():
        for owner, part in ((None, solver), ("preconditioner", preconditioner_of(solver))):
            for field in fields(part) if is_dataclass(part) else ():
                for tested in values_of(field.name, getattr(part, field.name)):
                    run_solver = lambda s=solver, o=owner, p=part, f=field.name, t=tested: solve(  # noqa: E731
                        s, o, p, f, t
                    )
                    yield f"{kind} {field.name}={tested}", run_solver
    for width in WIDTHS:
        for kind in _WIDE:
            for spread in (True, False):
                yield (
                    f"{kind} of {width} columns",
                    lambda m=MODELS[kind], w=width, s=spread: fit_wide(m, w, s),
                )
        for default in (gramless.KernelRegressor, gramless.KernelClassifier):
            yield f"default of {width} columns", lambda d=default, w=width: fit_wide(d, w, True)
    for n_classes in CLASSES:
        for model in (gramless.KernelClassifier, MODELS["DoublyStochasticClassifier"]):
            yield f"{n_classes} classes", lambda m=model, k=n_classes: fit_classes(m, k)
    for n_classes in MANY_CLASSES:
        yield f"{n_classes} classes", lambda k=n_classes: fit_classes(fixed_classifier, k)
    max_classes, default = max(MANY_CLASSES), gramless.KernelClassifier
    yield f"{max_classes} classes by default", lambda: fit_classes(default, max_classes)


def fixed_classifier() -> Any:
    return gramless.KernelClassifier(
        bandwidth=1.0, alpha=1e-3, scaling="standard", n_grids=16, calibrate=False, random_state=0
    )


def preconditioner_of(solver: Any) -> Any:
    return solver.preconditioner if hasattr(solver, "preconditioner") else None


def fit_with_parameter(make: Callable[[], Any], name: str, value: Any) -> None:
    fit(make().set_params(**{name: value}), X, Y)


def fit(model: Any, rows: Any, targets: Any) -> None:
    """Fit and predict or transform; the result must be finite."""
    if "Classifier" in type(model).__name__:
        targets = targets if targets.dtype.kind == "i" else (targets > 0).astype(int)
    model.fit(rows, targets)
    method = model.predict if hasattr(model, "predict") else model.transform
    result = method(rows[:20])
    result = result.data if sp.issparse(result) else result
    assert np.isfinite(result).all(), "not finite"


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


def fit_wide(make: Callable[[], Any], width: int, spread: bool) -> None:
    """Fit 50 rows of 20 non-zeros each, in random columns or in the first hundred columns."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(width if spread else 100, size=(50, 20)), axis=1)
    rows = sp.csr_array(
        (rng.random(1000), columns.ravel(), np.arange(0, 1001, 20)), shape=(50, width)
    )
    fit(make(), rows, Y[:50])


def fit_classes(make: Callable[[], Any], n_classes: int) -> None:
    rng = np.random.default_rng(0)
    targets = np.arange(2 * n_classes) % n_classes
    fit(make(), rng.normal(size=(2 * n_classes, 3)) + targets[:, None] / n_classes, targets)


CASES = list(list_cases())
FULL = len(CASES)


def prepare(seed: int) -> None:
    """Compile the loops of the fits."""
    for kind in ("KernelRegressor", "DoublyStochasticRegressor"):
        fit(MODELS[kind](), X, Y)


def check(number: int, seed: int) -> str:
    name, run = CASES[number * _STEP % FULL]
    print(name, file=sys.stderr)
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
    except (GramlessError, ValueError) as refusal:
        message = f"{name}: {refusal}"
    except BaseException as error:
        error.add_note(name)
        raise
    else:
        return "done"
    spent = time.process_time() - start
    limit = _MAX_SECONDS_WIDE if "columns" in name else _MAX_SECONDS
    assert spent < limit, f"refused after {spent:.2f} s: {message}"
    return "refused"
