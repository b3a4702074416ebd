"""A loss whose own parameters follow the predictions, such as thresholds of ordered classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gramless.selection.candidate import Fitted, GrownFeatures, Refinement
from gramless.selection.goal import mean_loss
from gramless.selection.task import SelectionTask

_MOST_ADAPTATIONS = 4


class AdaptedLoss(Refinement):
    """The best features, with parameters of the loss fitted to predictions of validation rows."""

    name = "the adaptation of the loss"

    def is_wanted(self, task: SelectionTask) -> bool:
        """Return True: most losses have no parameters, and nothing is fitted then."""
        return True

    def refine(self, task: SelectionTask, best: GrownFeatures) -> GrownFeatures | None:
        """Fit the parameters of the loss and the weights in turns; None if the loss has none."""
        adapted = best
        for _ in range(_MOST_ADAPTATIONS):
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
        """Return True: the parameters that the loss begins with are only a start."""
        return True
