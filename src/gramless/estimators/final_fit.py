"""The fit to all rows: its start, its solution and its weights in units of the targets."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from gramless.base.lazy_rows import take_rows
from gramless.base.numeric import rounded_to_multiples, rounded_to_single
from gramless.base.random import stream
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.estimators.steps import Selection
from gramless.features.base import FeatureMap
from gramless.features.binning import BinningMap, GivenBinning
from gramless.features.hybrid import JoinedMaps, parts_of
from gramless.losses import Loss
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import take_array_rows
from gramless.matrices.weighted import first_part, remove_factors, unscale_weights
from gramless.selection.validation import relative_error
from gramless.solvers.objective import Solution

_BACKGROUND_ROWS = 200  # rows of the fit that a model keeps to explain predictions by
# Warm starts have a smaller tolerance, so that rows absent from the earlier fit still matter.
WARM_TOL = 0.3
# Below a tenth of the targets' standard deviation, the tolerance is proportional to the validation
# error, down to a minimum.
_ERROR_FACTOR, _MIN_TOL = 10.0, 1e-4


@dataclass(frozen=True, kw_only=True, eq=False)
class SolvedProblem:
    """The solution of the problem over all rows.

    ``attributes`` are fitted attributes of one kind of model that were solved for, too.
    """

    solution: Solution
    loss: Loss
    solver_reason: str
    attributes: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class FinalFit:
    """The weights of all rows in units of the targets, after rounding and without unused bins."""

    solved: SolvedProblem
    feature_map: FeatureMap
    weights: FloatArray
    intercept: FloatArray | float
    sparsity: float
    n_rows: int
    limits: list[str]


def warm_start(selection: Selection, tol: float) -> tuple[Vector | None, float]:
    """Return the first weights of the final fit, and the factor of its tolerance."""
    result, start, tighten = selection.selected.validation, None, 1.0
    if result is not None and result.weights is not None:
        start, tighten = result.weights, WARM_TOL
    elif selection.selected.start is not None:
        start, tighten = selection.selected.start, WARM_TOL
    if result is not None:
        lowest = _MIN_TOL / max(tol, _MIN_TOL)
        factor = _ERROR_FACTOR * relative_error(selection.goal, result)
        tighten *= float(np.clip(factor, lowest, 1.0))
    return start, tighten


def finish_fit(
    solved: SolvedProblem,
    selection: Selection,
    *,
    matrix: FeatureMatrix | None,
    n_rows: int,
    is_sparse: bool,
    keeps_bins: bool,
    n_jobs: int | None,
) -> FinalFit:
    """Decode and round the weights, drop unused bins of the selected features, and report it.

    ``matrix`` holds the training rows, or is None if they are elsewhere. Bins of weight 0 are
    dropped if an L1 penalty made the weights sparse, or after rounding unless ``keeps_bins``.
    """
    solution, selected = solved.solution, selection.selected
    weights = solution.weights if matrix is None else unscale_weights(matrix, solution.weights)
    n_columns = selected.feature_map.n_features_out
    used = np.ones(n_columns, bool)
    if is_sparse:
        used[:] = weights[:n_columns].reshape(n_columns, -1).any(axis=1)
        used[0] |= not used.any()
    if not used.all() and isinstance(selected.feature_map, BinningMap):
        selected.feature_map.keep_bins(used)
        weights = weights[np.append(used, np.ones(len(weights) - n_columns, bool))]
    decoded, intercept = selection.encoder.decode_weights(weights)
    rounded = _rounded_weights(decoded, selection, matrix, keeps_bins, n_jobs)
    feature_map = selected.feature_map
    if selected.added is not None:
        # The intercept is multiplied before it is decoded, which adds the mean of the targets.
        constant = selected.added.factor * weights[len(decoded) :]
        added = np.concatenate([selected.added.weights, constant])
        added, intercept = selection.encoder.decode_weights(added)
        rounded = np.concatenate([selected.added.factor * rounded, added])
        maps = [*parts_of(feature_map), selected.added.expansion]
        feature_map = JoinedMaps.of(maps, [1.0] * len(maps), n_jobs)
    ended, limits = selection.report.ended, list(selected.limits)
    if solution.status == "stopped" and "solve" not in ended:
        limits.append("time: the final solve was cut short")
    limits += [f"callback: {stage} was ended early" for stage in sorted(ended)]
    selection.report(
        "final fit",
        f"final fit: {n_rows} rows, {len(solution.weights)} columns, {solved.solver_reason}; "
        f"{solution.status} after {solution.n_iter} iterations",
        n_rows=n_rows,
        n_columns=len(solution.weights),
        status=solution.status,
        n_iter=solution.n_iter,
    )
    return FinalFit(
        solved=solved,
        feature_map=feature_map,
        weights=rounded,
        intercept=intercept,
        sparsity=1.0 - np.count_nonzero(used) / n_columns,
        n_rows=n_rows,
        limits=limits,
    )


def _rounded_weights(
    weights: FloatArray,
    selection: Selection,
    matrix: FeatureMatrix | None,
    keeps_bins: bool,
    n_jobs: int | None,
) -> FloatArray:
    """Round the weights of grown grids as far as validation rows allow, and drop unused bins."""
    bins, step = parts_of(selection.selected.feature_map)[0], selection.selected.rounding_step
    # Weights of other features keep all digits, because features can nearly cancel, which
    # amplifies rounding. Bins and whitened kernel values do not cancel.
    if not isinstance(bins, GivenBinning):
        return weights
    if step <= 0.0:
        return rounded_to_single(weights)
    # Steps are powers of two, of which files store only the exponent.
    unit, _ = selection.encoder.decode_weights(np.ones((2, *weights.shape[1:])))
    tiny = np.finfo(np.float64).tiny
    steps = 2.0 ** np.floor(np.log2(np.maximum(step * np.abs(unit[0]), tiny)))
    weights = rounded_to_multiples(weights, steps, n_jobs)
    if keeps_bins:
        return weights
    n_bins = bins.n_features_out
    used: BoolArray = (weights[:n_bins].reshape(n_bins, -1) != 0.0).any(axis=1)
    used[0] |= not used.any()
    kept = _keep_bins(selection, matrix, bins, used, n_jobs)
    indices = np.concatenate([kept, np.arange(n_bins, len(weights))])
    columns = take_array_rows(weights.reshape(len(weights), -1), indices, n_jobs)
    return columns.reshape(-1, *weights.shape[1:])


def _keep_bins(
    selection: Selection,
    matrix: FeatureMatrix | None,
    bins: GivenBinning,
    used: BoolArray,
    n_jobs: int | None,
) -> IntArray:
    """Drop the unused bins, and return the former indices of the kept ones."""
    first = None if matrix is None else first_part(remove_factors(matrix))
    # An L1 penalty may have dropped bins before, and large matrices and rows are on disk.
    if isinstance(first, BinnedMatrix) and first.shape[1] == len(used):
        selected = selection.selected
        rows = selected.scaler.ordered(selection.data.rows, selected.order, n_jobs)
        if isinstance(rows, np.ndarray):
            return bins.keep_ranked(used, first, rows)
    bins.keep_bins(used)
    return np.flatnonzero(used)


def background_rows(selection: Selection) -> AnyArray | None:
    """Return training rows sampled by their weights, or None if rows are sparse."""
    data, given = selection.data, selection.given
    if sp.issparse(data.rows):
        return None
    targets = given.targets[given.used][data.fitted]
    weight = selection.encoder.unweigh(targets, data.weights_of(data.fitted))
    p = None if weight is None else weight / weight.sum()
    size = min(data.n_fitted, _BACKGROUND_ROWS) if p is None else _BACKGROUND_ROWS
    # Drawing from random_state would advance the generator of a user.
    sample = stream(0, "background").choice(data.n_fitted, size, p is not None, p)
    return np.array(take_rows(data.rows, np.sort(sample)))
