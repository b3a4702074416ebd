"""Scores of held-back rows by a measure that a user names, and how scores compare."""

from __future__ import annotations

from abc import ABC, abstractmethod

from gramless.base.types import IntArray
from gramless.matrices.base import Vector


class RowScorer(ABC):
    """Scores raw predictions of rows that were held back by what a user asked for: its name."""

    name: str

    @property
    @abstractmethod
    def is_gradual(self) -> bool:
        """Whether small changes of predictions change the score a little: it may end growth."""

    @abstractmethod
    def __call__(self, raw: Vector, rows: IntArray, loss: float) -> float:
        """Return the score of some rows, smaller is better; ``loss`` may break ties."""


def scaled_score(score: float, factor: float) -> float:
    """Return a score that is worse by a factor above 1, or better by one below.

    Examples
    --------
    >>> scaled_score(2.0, 1.5), scaled_score(-2.0, 1.5)
    (3.0, -1.0)
    """
    return score * factor if score >= 0.0 else score * (2.0 - factor)
