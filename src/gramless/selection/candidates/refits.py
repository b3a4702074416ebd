"""Refits of the best features: with an adapted loss, or with another penalty."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gramless.selection.candidate import Fitted, GrownFeatures, Refinement
from gramless.selection.goal import mean_loss
from gramless.selection.task import SelectionTask
from gramless.selection.validation import improve_alpha, with_row_products

_MAX_ADAPTATIONS = 4


class AdaptedLoss(Refinement):
    """The best features, with parameters of the loss fitted to predictions of validation rows."""

    name = "the adaptation of the loss"

    def is_wanted(self, task: SelectionTask) -> bool:
        return True  # nothing is fitted if the loss has no parameters

    def refine(self, task: SelectionTask, best: GrownFeatures) -> GrownFeatures | None:
        """Fit the parameters of the loss and the weights alternately; None if it has none."""
        adapted = best
        for _ in range(_MAX_ADAPTATIONS):
            goal, result = adapted.goal, adapted.result
            weights = task.data.counts_of(result.rows)
            weights = np.ones(len(result.rows)) if weights is None else weights
            loss = goal.loss.adapted(result.raw, task.data.targets[result.rows], weights)
            if loss == goal.loss:
                break
            goal = replace(goal, loss=loss, score=mean_loss(loss))
            adapted = replace(adapted, goal=goal).validated(task, result.alpha, result.weights)
        return None if adapted is best else adapted

    def replaces(self, task: SelectionTask, best: Fitted, fitted: Fitted) -> bool:
        return True  # the first parameters of the loss are only a start


@dataclass(frozen=True)
class NearbyPenalties(Refinement):
    """The best features with another penalty.

    For piecewise linear losses, penalties are tried before smooth kernels and with any effort,
    because the penalty of growth is a poor guess; for other losses they are tried afterwards.
    """

    of_piecewise_linear_losses: bool
    name = "the trial of nearby penalties"

    def is_wanted(self, task: SelectionTask) -> bool:
        is_open = task.fixed.alpha is None and not task.validation_has_ended
        if task.goal.loss.is_piecewise_linear:
            return is_open and self.of_piecewise_linear_losses
        has_turn = task.config.tries_nearby_alphas and not self.of_piecewise_linear_losses
        return is_open and has_turn

    def refine(self, task: SelectionTask, best: GrownFeatures) -> GrownFeatures:
        matrix = with_row_products(task, best.goal, best.matrix)
        result = improve_alpha(task, best.goal, matrix, task.split, best.result)
        return best.recorded(task, result)

    def replaces(self, task: SelectionTask, best: Fitted, fitted: Fitted) -> bool:
        return True  # the current penalty is among those compared
