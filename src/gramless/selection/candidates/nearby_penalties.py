"""Penalties near that of growth."""

from __future__ import annotations

from dataclasses import dataclass

from gramless.selection.candidate import Fitted, GrownFeatures, Refinement
from gramless.selection.task import SelectionTask
from gramless.selection.validation import improve_alpha, with_row_products


@dataclass(frozen=True)
class NearbyPenalties(Refinement):
    """The best features with another penalty.

    For piecewise linear losses penalties are tried before smooth kernels, with any effort, because
    the penalty of growth tells little of theirs; for other losses afterwards.
    """

    of_piecewise_linear_losses: bool
    name = "the trial of nearby penalties"

    def is_wanted(self, task: SelectionTask) -> bool:
        """Return whether the penalty is still open, and this is its turn."""
        is_open = task.fixed.alpha is None and not task.validation_has_ended
        if task.goal.loss.is_piecewise_linear:
            return is_open and self.of_piecewise_linear_losses
        has_turn = task.config.tries_nearby_alphas and not self.of_piecewise_linear_losses
        return is_open and has_turn

    def refine(self, task: SelectionTask, best: GrownFeatures) -> GrownFeatures:
        """Validate penalties for as long as that helps."""
        matrix = with_row_products(task, best.goal, best.matrix)
        result = improve_alpha(task, best.goal, matrix, task.split, best.result)
        return best.recorded(task, result)

    def replaces(self, task: SelectionTask, best: Fitted, fitted: Fitted) -> bool:
        """Return True: the best penalty so far is among those compared."""
        return True
