"""Trainers that fit this package's feature maps and solvers with given parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramless import Nystrom, RandomBinning, RandomFourier
from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.base.threads import map_blocks, row_blocks
from gramless.features.base import SizedMap
from gramless.kernels import as_kernel
from gramless.losses import Squared
from gramless.penalties import L2
from gramless.solvers.choose import choose_solver
from gramless.solvers.objective import Problem
from harness.timing import StopWatch
from studies.baselines.block_diagonal import BlockCholesky, BlockDiagonalMatrix
from studies.baselines.blocks import IndependentBlocks
from studies.baselines.row_conjugate import RowConjugateGradient
from studies.descent import shared_descent, simultaneous_descent
from studies.rows import sample_rows
from studies.settings import Setting
from studies.study import Clock, Snapshot, Trainer, Training
from studies.targets import TargetEncoding

# Rows per block of predictions, so that these use less memory than training.
ROWS_AT_ONCE = 8192
_REHEARSAL_GRIDS = 8
_GRAM_ROWS = 512
_SEARCH_ROWS = 10_000

Outputs = Callable[[Any], NDArray[np.float64]]


def least_squares(
    kind: type[SizedMap], training: Training, options: Mapping[str, Any], clock: Clock
) -> Iterator[Snapshot]:
    """Fit ridge regression on the features of a map, for each size and bandwidth in the options.

    Parameters
    ----------
    kind : type
        Class of the feature map.
    training : Training
    options : mapping
        Fields of :class:`Setting`.
    clock : Clock
        Phases ``"features"`` and ``"solve"``; random bins also have ``"rehearsal"``, which loads
        compiled loops. Features that are computed during products count for ``"solve"``.

    Yields
    ------
    Snapshot
        With the facts ``size``, ``bandwidth``, ``columns`` (D), ``iterations``, ``status``,
        ``seconds`` (features and solver of this model) and ``feature_seconds``.
    """
    setting = Setting.read(options)
    X = setting.rows(training.X)
    encoding = TargetEncoding.of(
        training.task,
        training.y,
        centred=setting.centred,
        copies=setting.copies,
        without_last=setting.without_last,
    )
    for each in setting.each():
        yield _fit(kind, each, X, encoding, training, clock)[0]


def chosen_bandwidth(
    kind: type[SizedMap], training: Training, options: Mapping[str, Any], clock: Clock
) -> Iterator[Snapshot]:
    """Fit ridge regression for each size, with the bandwidth selected on validation rows.

    The bandwidth with the lowest mean squared error is selected by a split of at most 10,000
    training rows, with a fifth of them for validation. The arguments are those of
    :func:`least_squares`.

    Yields
    ------
    Snapshot
        One for each size.
    """
    setting = Setting.read(options)
    indices = sample_rows(
        len(training.y), _SEARCH_ROWS, training.seed, "rows that choose a bandwidth"
    )
    X, y = setting.rows(training.X)[indices], training.y[indices]
    encoding = TargetEncoding.of(training.task, training.y, centred=setting.centred)
    n_validation = len(y) // 5
    order = stream(training.seed, "rows held back").permutation(len(y))
    validation, kept = order[:n_validation], order[n_validation:]
    part = Training(X[kept], y[kept], training.task, training.seed)
    targets = encoding.encode(y[validation]) + encoding.centre
    for _, settings in groupby(setting.each(), lambda each: each.size):
        candidates = list(settings)
        with clock.phase("choice"):
            errors = []
            for each in candidates:
                snapshot, _ = _fit(kind, each, part.X, encoding, part, StopWatch())
                assert snapshot.responses is not None
                residuals = snapshot.responses(X[validation]) - targets
                errors.append(float(np.mean(residuals**2)))
        best = candidates[int(np.argmin(errors))]
        rows = setting.rows(training.X)
        yield _fit(kind, best, rows, encoding, training, clock)[0]


def _fit(
    kind: type[SizedMap],
    setting: Setting,
    X: Any,
    encoding: TargetEncoding,
    training: Training,
    clock: Clock,
) -> tuple[Snapshot, Any]:
    """Fit one setting and return its snapshot and its feature matrix."""
    targets = encoding.encode(training.y)
    if issubclass(kind, RandomBinning):
        with clock.phase("rehearsal"):
            _rehearse(kind, setting, X, targets, training.seed)
    started = clock.total()
    with clock.phase("features"):
        feature_map = _feature_map(kind, setting, X, training.seed)
        matrix = feature_map.fit_matrix(X)
    computed = clock.total()
    with clock.phase("solve"):
        problem = _problem(setting, matrix, targets)
        solver = _solver(setting, matrix, problem.targets)
        solution = solver.solve(problem)
    facts = {
        "size": setting.size,
        "bandwidth": setting.bandwidth,
        "columns": int(matrix.shape[1]),
        "iterations": solution.n_iter,
        "status": solution.status,
        "seconds": clock.total() - started,
        "feature_seconds": computed - started,
    }

    def outputs(rows: Any) -> NDArray[np.float64]:
        return feature_map.feature_matrix(rows).matvec(solution.weights)

    penalty = problem.penalty.value(solution.weights)
    return _snapshot(encoding, setting, outputs, penalty, facts), matrix


def pattern(training: Training, options: Mapping[str, Any], clock: Clock) -> Iterator[Snapshot]:
    """Fit ridge regression on random bins, and record the sparsity pattern of the features.

    The arguments are those of :func:`least_squares`, with few rows.

    Yields
    ------
    Snapshot
        With the facts of :func:`least_squares`, and ``pattern``, the column indices of the
        non-zeros, row by row.
    """
    setting = Setting.read(options)
    encoding = TargetEncoding.of(training.task, training.y)
    for each in setting.each():
        X = each.rows(training.X)
        snapshot, matrix = _fit(RandomBinning, each, X, encoding, training, clock)
        columns = matrix.codes.T.astype(np.int64) + (matrix.offsets[:-1] - 1)
        yield replace(snapshot, facts={**snapshot.facts, "pattern": columns.ravel().tolist()})


def _feature_map(kind: type[SizedMap], setting: Setting, X: Any, seed: int) -> SizedMap:
    feature_map: SizedMap = kind(
        kernel=setting.kernel_used,
        bandwidth=setting.bandwidths(X),
        random_state=seed,
    )
    if kind is RandomFourier:
        feature_map.set_params(sampling="iid", map=setting.fourier_map)
    return feature_map.resized(setting.size)


def _problem(setting: Setting, matrix: Any, targets: NDArray[np.float64]) -> Problem:
    return Problem(matrix, targets, L2(setting.penalty / matrix.shape[0]), Squared())


def _solver(setting: Setting, matrix: Any, targets: NDArray[np.float64]) -> Any:
    if setting.solver == "auto" and isinstance(matrix, BlockDiagonalMatrix):
        return BlockCholesky()
    if setting.solver == "rows":
        return RowConjugateGradient(setting.tol, setting.max_iter)
    n_outputs = targets.shape[1] if targets.ndim == 2 else 1
    solver, _ = choose_solver(
        setting.solver,
        tol=setting.tol,
        max_iter=setting.max_iter,
        matrix=matrix,
        n_outputs=n_outputs,
    )
    return solver


def _rehearse(
    kind: type[SizedMap], setting: Setting, X: Any, targets: NDArray[np.float64], seed: int
) -> None:
    """Fit a few grids to all rows, because the loops to load depend on the number of bins."""
    few = replace(setting, size=min(setting.size, _REHEARSAL_GRIDS), max_iter=1)
    matrix = _feature_map(kind, few, X, seed).fit_matrix(X)
    _solver(few, matrix, targets).solve(_problem(few, matrix, targets))


def exact(training: Training, options: Mapping[str, Any], clock: Clock) -> Iterator[Snapshot]:
    """Solve ``(K + lambda I) a = y`` with the exact kernel by a Cholesky factorisation.

    Parameters
    ----------
    training : Training
    options : mapping
        Fields of :class:`Setting`; ``size`` is the maximum number of rows.
    clock : Clock
        Phases ``"features"``, for the kernel matrix, and ``"solve"``.

    Yields
    ------
    Snapshot

    Raises
    ------
    InputError
        If there are more rows than ``size``.
    """
    setting = Setting.read(options)
    X = setting.rows(training.X)
    encoding = TargetEncoding.of(
        training.task,
        training.y,
        centred=setting.centred,
        copies=setting.copies,
        without_last=setting.without_last,
    )
    for each in setting.each():
        if X.shape[0] > each.size:
            raise InputError(f"exact: {X.shape[0]:,} rows, and {each.size:,} are allowed")
        yield _fit_exact(each, X, encoding, training, clock)


def _fit_exact(
    setting: Setting, X: Any, encoding: TargetEncoding, training: Training, clock: Clock
) -> Snapshot:
    started = clock.total()
    kernel, bandwidth = as_kernel(setting.kernel_used), setting.bandwidths(X)
    with clock.phase("features"):
        gram = np.empty((X.shape[0], X.shape[0]), order="F")

        def fill(a: int, b: int) -> None:
            # The factorisation reads only the lower triangle.
            gram[a:, a:b] = kernel.gram(X[a:], X[a:b], bandwidth=bandwidth)

        map_blocks(fill, row_blocks(X.shape[0], _GRAM_ROWS), None)
        gram[np.diag_indices_from(gram)] += setting.penalty
    computed = clock.total()
    with clock.phase("solve"):
        targets = encoding.encode(training.y)
        factor = scipy.linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        weights = scipy.linalg.cho_solve(factor, targets, check_finite=False)
    # The penalty of the mean loss is lambda / (2 n) a'K a, with K a = y - lambda a.
    norm = float(np.sum(weights * (targets - setting.penalty * weights)))
    penalty = 0.5 * setting.penalty / X.shape[0] * norm
    facts = {
        "size": X.shape[0],
        "bandwidth": setting.bandwidth,
        "columns": X.shape[0],
        "seconds": clock.total() - started,
        "feature_seconds": computed - started,
    }

    def outputs(rows: Any) -> NDArray[np.float64]:
        values: NDArray[np.float64] = kernel.gram(rows, X, bandwidth=bandwidth) @ weights
        return values

    return _snapshot(encoding, setting, outputs, penalty, facts, rows_at_once=_GRAM_ROWS)


def _snapshot(
    encoding: TargetEncoding,
    setting: Setting,
    outputs: Outputs,
    penalty: float,
    facts: dict[str, Any],
    rows_at_once: int = ROWS_AT_ONCE,
) -> Snapshot:
    def outputs_by_blocks(rows: Any) -> NDArray[np.float64]:
        X = setting.rows(rows)
        blocks = row_blocks(X.shape[0], rows_at_once)
        return np.concatenate([outputs(X[a:b]) for a, b in blocks])

    return Snapshot(
        lambda rows: encoding.decode(outputs_by_blocks(rows)),
        lambda rows: encoding.responses(outputs_by_blocks(rows)),
        penalty,
        facts,
    )


TRAINERS: dict[str, Trainer] = {
    "binning": partial(least_squares, RandomBinning),
    "fourier": partial(least_squares, RandomFourier),
    "nystrom": partial(least_squares, Nystrom),
    "blocks": partial(least_squares, IndependentBlocks),
    **{
        f"chosen {name}": partial(chosen_bandwidth, kind)
        for name, kind in (
            ("binning", RandomBinning),
            ("fourier", RandomFourier),
            ("nystrom", Nystrom),
            ("blocks", IndependentBlocks),
        )
    },
    "exact": exact,
    "pattern": pattern,
    "simultaneous descent": simultaneous_descent,
    "shared descent": shared_descent,
}
