"""Model selection: candidates are fitted one after the other, and the best is kept.

rows, goals, what is fixed --> candidates on one split --> cross-validation of few rows
|
final fit <-- SelectedModel <-- shrinkage
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gramless.losses import CumulativeLogistic
from gramless.selection.candidate import Candidate, Fitted
from gramless.selection.candidates.earlier_model import EarlierModel
from gramless.selection.candidates.grown_grids import GrownGridsCandidate
from gramless.selection.candidates.kernel_ridge import (
    FittedKernelRidge,
    KernelRidge,
    screen_kernel_ridge,
)
from gramless.selection.candidates.kernel_ridge_blend import KernelRidgeBlend
from gramless.selection.candidates.random_features import RandomFeatures
from gramless.selection.candidates.refits import AdaptedLoss, NearbyPenalties
from gramless.selection.candidates.smooth_kernels import SmoothKernels
from gramless.selection.candidates.trend import TrendCandidate, TrendOfFewRows
from gramless.selection.goal import mean_loss, scaled_score
from gramless.selection.kernel_ridge import calibrated_loss
from gramless.selection.selected import SelectedModel, shrink_to_constant
from gramless.selection.splits import MIN_ROWS_TO_VALIDATE_ONCE
from gramless.selection.task import SelectionTask
from gramless.selection.validation import joined

# Cross-validated grids must lower the loss of kernel ridge regression at least to this share. It
# replaces them at once if its loss on the first split is below this share of theirs.
_GAIN_OVER_KERNEL_RIDGE = 0.95

# Tried on one split, in this order.
CANDIDATES: tuple[Candidate, ...] = (
    EarlierModel(),
    RandomFeatures(),
    GrownGridsCandidate(),
    AdaptedLoss(),
    NearbyPenalties(of_piecewise_linear_losses=True),
    SmoothKernels(),
    KernelRidge(),
    NearbyPenalties(of_piecewise_linear_losses=False),
    TrendCandidate(),
    KernelRidgeBlend(),
)


def select(task: SelectionTask, candidates: Sequence[Candidate] | None = None) -> SelectedModel:
    """Select the features and the penalty of the final fit, by :data:`CANDIDATES` by default.

    With fewer than 300 rows and no given folds, a single validation split is too noisy, so the
    selection is cross-validated.
    """
    candidates = CANDIDATES if candidates is None else candidates
    best = select_on_split(task, candidates)
    assert best is not None
    best = best.prepared(task)
    has_few_rows = task.n_rows < MIN_ROWS_TO_VALIDATE_ONCE and task.held_back.folds is None
    # Thresholds between ordered classes are those of one fit only.
    is_ordered = isinstance(best.goal.loss, CumulativeLogistic)
    is_scored_once = best.validation is not None and not best.is_cross_validated
    if has_few_rows and is_scored_once and not is_ordered and not task.is_over("validation"):
        best = _cross_validate(task, best, candidates)
    best = _try_candidate(task, TrendOfFewRows(), best)
    assert best is not None
    return shrink_to_constant(best.finish(task), task)


def select_on_split(task: SelectionTask, candidates: Sequence[Candidate]) -> Fitted | None:
    best: Fitted | None = None
    for candidate in candidates:
        best = _try_candidate(task, candidate, best)
    return best


def _try_candidate(task: SelectionTask, candidate: Candidate, best: Fitted | None) -> Fitted | None:
    """Return the better of the best model so far and a candidate, if that applies."""
    if not candidate.applies(task, best):
        return best
    if not task.budget.allows(candidate.name, candidate.cost(task, best), candidate.time_share):
        return best
    fitted = candidate.fit(task, best)
    if fitted is None or (best is not None and not candidate.replaces(task, best, fitted)):
        return best
    return fitted


def _cross_validate(task: SelectionTask, best: Fitted, candidates: Sequence[Candidate]) -> Fitted:
    """Return the best model with predictions of all rows, each by a model selected without it.

    Kernel ridge regression replaces grids that are not clearly better on all rows.
    """
    screen = task.once(screen_kernel_ridge)
    ridge = None if screen is None else screen.best.cross_validated(task.unrecorded())
    if ridge is not None and isinstance(best, FittedKernelRidge):
        return ridge
    if screen is not None and best.validation is not None:
        rows, data = best.validation.rows, task.data
        score = mean_loss(best.goal.loss)
        of_grids = score(best.validation.raw, data.targets[rows], data.weights_of(rows))
        # Grids that lose clearly on the first split are not grown on the others.
        if ridge is not None and screen.loss < _GAIN_OVER_KERNEL_RIDGE * of_grids:
            return ridge
    results = [best.validation]
    for fold in range(1, len(task.held_back.splits)):
        # Kernel ridge regression has been cross-validated already.
        without_ridge = replace(task.unrecorded(fold), least_squares=None)
        fitted = select_on_split(without_ridge, candidates)
        results.append(None if fitted is None else fitted.validation)
    joint = joined([result for result in results if result is not None])
    if ridge is not None and ridge.validation is not None:
        loss, of_grids, of_ridge = task.goal.loss, joint.score, ridge.validation.score
        if task.least_squares is None or task.least_squares.loss != loss:
            # Kernel ridge regression fits classes by least squares, so scores are not comparable.
            of_grids, of_ridge = (
                calibrated_loss(task.data, result.rows, result.raw, loss)
                for result in (joint, ridge.validation)
            )
        if of_grids > scaled_score(of_ridge, _GAIN_OVER_KERNEL_RIDGE):
            return ridge
    return replace(best, validation=joint, is_cross_validated=True)
