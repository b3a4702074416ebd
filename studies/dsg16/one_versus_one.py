"""Support vector machines of all pairs of classes, by doubly stochastic gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from gramless import DoublyStochasticClassifier
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.estimators.streamed import LearnedTargets
from gramless.estimators.targets import ClassEncoder
from gramless.streaming.summary_statistics import Summary


class PairEncoder(ClassEncoder):
    """One column for each pair of classes: 1 for its first class, -1 for its second, else 0.

    The hinge loss of a target of 0 is constant, so a row does not change the pairs without its
    class. The class that wins most pairs is predicted, the first one of a tie.
    """

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        return np.triu_indices(len(self.classes), 1)

    @property
    def n_outputs(self) -> int:
        return len(self.pairs[0])

    def encode(self, y: ArrayLike) -> FloatArray:
        indices, (first, second) = self.class_numbers(y)[:, None], self.pairs
        return (indices == first).astype(np.float64) - (indices == second)

    def decode(self, responses: FloatArray) -> AnyArray:
        return np.asarray(self.classes[self.winners(responses)])

    def winners(self, responses: FloatArray) -> IntArray:
        """Return the index of the class of each row that wins most pairs."""
        wins = np.zeros((len(responses), len(self.classes)))
        for pair, (first, second) in enumerate(zip(*self.pairs, strict=True)):
            wins[:, first] += responses[:, pair] > 0
            wins[:, second] += responses[:, pair] < 0
        return wins.argmax(axis=1)


class OneVersusOne(DoublyStochasticClassifier):
    """An output for each pair of classes (DSG16, Figure 2); all pairs share their blocks."""

    @property
    def _encoder(self) -> PairEncoder:
        return PairEncoder(self.classes_)

    def _learn_targets(self, summary: Summary, classes: ArrayLike | None) -> LearnedTargets:
        learned = super()._learn_targets(summary, classes)
        return replace(learned, encoder=PairEncoder(np.asarray(learned.attributes["classes_"])))

    def _error(self, responses: FloatArray, targets: FloatArray) -> float:
        winners = self._encoder.winners
        return float(np.mean(winners(responses) != winners(targets)))
