"""Encoding of targets as numbers for least squares and other losses, and decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.known_sets import Task


@dataclass(frozen=True, eq=False)
class TargetEncoding:
    """An encoding of targets: one column per class, +1 for the class and -1 for all others.

    Two classes are encoded in one column, +1 for the second. Targets of regression are kept,
    minus ``centre``.

    Parameters
    ----------
    task : {"binary", "multiclass", "regression"}
    classes : ndarray (n_classes,)
        The sorted classes; empty for regression.
    centre : float or ndarray (n_outputs,)
        Subtracted from targets and added to responses: 0, or the means of the targets.
    copies : int, default=1
        Number of copies of a single output, to compare timings at equal numbers of outputs.
    without_last : bool, default=False
        Whether to never predict the last of several classes.

    Examples
    --------
    >>> encoding = TargetEncoding.of("multiclass", np.array([3, 5, 9]))
    >>> encoding.encode(np.array([5])).tolist()
    [[-1.0, 1.0, -1.0]]
    >>> encoding.decode(np.array([[0.1, 0.5, 0.2]]))
    array([5])
    """

    task: Task
    classes: NDArray[Any]
    centre: float | NDArray[np.float64] = 0.0
    copies: int = 1
    without_last: bool = False

    @classmethod
    def of(
        cls,
        task: Task,
        y: NDArray[Any],
        *,
        centred: bool = False,
        copies: int = 1,
        without_last: bool = False,
    ) -> TargetEncoding:
        """Return the encoding of the targets of training rows, with their means if ``centred``."""
        classes = y[:0] if task == "regression" else np.unique(y)
        plain = cls(task, classes, copies=copies)
        centre = plain.encode(y).mean(axis=0) if centred else 0.0
        return cls(task, classes, centre, copies, without_last)

    def encode(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the numbers to fit, (n_rows,) or (n_rows, n_outputs)."""
        if self.task == "regression":
            numbers = np.asarray(y, np.float64)
        elif len(self.classes) == 2:
            numbers = np.where(y == self.classes[1], 1.0, -1.0)
        else:
            numbers = np.where(y[:, None] == self.classes, 1.0, -1.0)
        if self.copies > 1:
            numbers = np.repeat(numbers[:, None], self.copies, axis=1)
        return numbers - self.centre

    def responses(self, fitted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the machine's outputs as they are compared with targets; of copies the first."""
        whole = fitted + self.centre
        return whole[:, 0] if self.copies > 1 else whole

    def decode(self, fitted: NDArray[np.float64]) -> NDArray[Any]:
        """Return numbers or labels from the machine's outputs."""
        responses = self.responses(fitted)
        if self.task == "regression":
            return responses
        if len(self.classes) == 2:
            return np.asarray(self.classes[(responses > 0.0).astype(np.intp)])
        predicted = responses[:, :-1] if self.without_last else responses
        return np.asarray(self.classes[predicted.argmax(axis=1)])
