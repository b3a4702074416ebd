"""Support vector machines of all pairs of classes, by doubly stochastic gradients."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gramless import DoublyStochasticClassifier
from gramless.base.types import AnyArray, FloatArray, TableLike


class OneVersusOne(DoublyStochasticClassifier):
    """An output for each pair of classes (DSG16, Figure 2); all pairs share their blocks.

    The target of a row is 0 in pairs without its class: its hinge loss is then constant, and its
    derivative 0. The class with the most pairs won is predicted, the first of equal ones.
    """

    def predict(self, X: TableLike) -> AnyArray:
        """Return the class of each row that wins the most pairs."""
        return self.classes_[self._most_wins(self._responses(X))]

    @property
    def _pairs(self) -> tuple[AnyArray, AnyArray]:
        return np.triu_indices(len(self.classes_), 1)

    def _encode(self, y: ArrayLike) -> FloatArray:
        codes = np.searchsorted(self.classes_, np.asarray(y))[:, None]
        first, second = self._pairs
        return (codes == first).astype(np.float64) - (codes == second)

    def _error(self, responses: FloatArray, targets: FloatArray) -> float:
        return float(np.mean(self._most_wins(responses) != self._most_wins(targets)))

    def _most_wins(self, responses: FloatArray) -> AnyArray:
        wins = np.zeros((len(responses), len(self.classes_)))
        for pair, (first, second) in enumerate(zip(*self._pairs, strict=True)):
            wins[:, first] += responses[:, pair] > 0
            wins[:, second] += responses[:, pair] < 0
        return wins.argmax(axis=1)
