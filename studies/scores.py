"""Scores of models, computed from their predictions and responses in the same way for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.losses import Hinge, Huber, Logistic, Loss, Multinomial, Squared, SquaredHinge
from harness.known_sets import Task
from studies.study import Snapshot

LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (Squared(), Logistic(), SquaredHinge(), Hinge(), Multinomial(), Huber())
}


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows on which scores are computed.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_inputs)
    y : ndarray of shape (n_rows,)
    """

    X: Any
    y: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Outputs:
    """The outputs of a model for some rows, with the true targets.

    Parameters
    ----------
    task : {"binary", "multiclass", "regression"}
    y : ndarray of shape (n_rows,)
        True labels or targets.
    values : ndarray
        Predictions of shape (n_rows,), or responses of shape (n_rows,) or (n_rows, n_outputs).
    classes : ndarray, default=()
        All classes in order, for responses.
    loss : Loss, default=None
    penalty : float, default=0.0
    """

    task: Task
    y: NDArray[Any]
    values: NDArray[Any]
    classes: Any = ()
    loss: Loss | None = None
    penalty: float = 0.0


def error(outputs: Outputs) -> float:
    """Return the misclassification rate, or for regression the RMSE over the deviation of ``y``.

    Examples
    --------
    >>> error(Outputs("binary", np.array([0, 1, 1, 1]), np.array([0, 1, 1, 0])))
    0.25
    """
    if outputs.task != "regression":
        return float(np.mean(outputs.values != outputs.y))
    return float(np.sqrt(mean_squared_error(outputs)) / np.std(outputs.y))


def relative_error(outputs: Outputs) -> float:
    """Return ``|y - prediction| / |y|``, as in RR07, or the misclassification rate."""
    if outputs.task != "regression":
        return error(outputs)
    return float(np.linalg.norm(outputs.y - outputs.values) / np.linalg.norm(outputs.y))


def mean_squared_error(outputs: Outputs) -> float:
    """Return the mean of ``(y - prediction)^2``.

    Raises
    ------
    InputError
        If the task is not regression.
    """
    if outputs.task != "regression":
        raise InputError("The mean squared error needs numbers, not labels; use an error score.")
    return float(np.mean((outputs.y - outputs.values) ** 2))


def mean_loss(outputs: Outputs) -> float:
    """Return the mean loss over the rows, summed over outputs.

    Labels are encoded as -1 and 1. One column of responses is for the second of two classes; with
    one column per class, each class is compared with all others.

    Raises
    ------
    InputError
        If no loss is given, or the shape of the responses does not fit the labels.

    Examples
    --------
    >>> y, z = np.array([0, 1]), np.array([0.0, -1.0])
    >>> mean_loss(Outputs("binary", y, z, np.array([0, 1]), LOSSES["squared_hinge"]))
    1.25
    """
    if outputs.loss is None:
        raise InputError(f'A loss needs the option "loss": one of {", ".join(LOSSES)}.')
    z = np.asarray(outputs.values, dtype=np.float64)
    losses = outputs.loss.value(z, _targets(outputs, z))
    return float(losses.sum() / len(z))


def objective(outputs: Outputs) -> float:
    """Return the mean loss plus the penalty."""
    return mean_loss(outputs) + outputs.penalty


@dataclass(frozen=True)
class Score:
    """The definition of a score.

    Parameters
    ----------
    part : {"train", "test"}
        The rows on which it is computed.
    uses : {"predictions", "responses"}
        The outputs of the model from which it is computed.
    compute : callable
        Maps :class:`Outputs` to the score.
    """

    part: Literal["train", "test"]
    uses: Literal["predictions", "responses"]
    compute: Callable[[Outputs], float]


SCORES: dict[str, Score] = {
    "test_error": Score("test", "predictions", error),
    "train_error": Score("train", "predictions", error),
    "relative_error": Score("test", "predictions", relative_error),
    "train_relative_error": Score("train", "predictions", relative_error),
    "test_mse": Score("test", "predictions", mean_squared_error),
    "train_mse": Score("train", "predictions", mean_squared_error),
    "test_loss": Score("test", "responses", mean_loss),
    "train_loss": Score("train", "responses", mean_loss),
    "objective": Score("train", "responses", objective),
}


@dataclass(frozen=True, eq=False)
class Scorer:
    """Computes the scores of snapshots.

    Parameters
    ----------
    task : {"binary", "multiclass", "regression"}
    classes : ndarray
        The sorted classes of all training rows.
    train, test : Rows
    names : sequence of str
        Keys of :data:`SCORES`.
    loss : str, default=None
        A key of :data:`LOSSES`, required by the scores that use a loss.

    Raises
    ------
    InputError
        If a name is unknown.

    Examples
    --------
    >>> rows = Rows(np.zeros((4, 1)), np.array([0, 1, 1, 1]))
    >>> scorer = Scorer("binary", np.array([0, 1]), rows, rows, ["test_error"])
    >>> scorer.scores(Snapshot(lambda X: np.ones(len(X))))
    {'test_error': 0.25}
    """

    task: Task
    classes: NDArray[Any]
    train: Rows
    test: Rows
    names: Sequence[str]
    loss: str | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.names if name not in SCORES]
        if unknown:
            raise InputError(f"{unknown[0]!r} is not a score; there are {', '.join(SCORES)}.")
        if self.loss is not None and self.loss not in LOSSES:
            raise InputError(f"{self.loss!r} is not a loss; there are {', '.join(LOSSES)}.")

    def scores(
        self, snapshot: Snapshot, predictions: NDArray[Any] | None = None
    ) -> dict[str, float]:
        """Return the scores of a snapshot by their names.

        Parameters
        ----------
        snapshot : Snapshot
        predictions : ndarray of shape (n_test,), default=None
            Predictions for the test rows, if they were computed already.

        Raises
        ------
        InputError
            If the shape of the model's outputs does not fit the rows.
        """
        computed: dict[tuple[str, str], NDArray[Any]] = {}
        if predictions is not None:
            computed["test", "predictions"] = predictions
        scores = {}
        for name in self.names:
            score = SCORES[name]
            needed = score.part, score.uses
            if needed not in computed:
                computed[needed] = self._compute(snapshot, score)
            outputs = self._outputs(score, computed[needed], snapshot.penalty)
            scores[name] = score.compute(outputs)
        return scores

    def _compute(self, snapshot: Snapshot, score: Score) -> NDArray[Any]:
        rows = self.train if score.part == "train" else self.test
        if score.uses == "predictions":
            return snapshot.predict(rows.X)
        if snapshot.responses is None:
            raise InputError("A loss score needs responses, but this method has no responses.")
        return snapshot.responses(rows.X)

    def _outputs(self, score: Score, values: NDArray[Any], penalty: float) -> Outputs:
        y = (self.train if score.part == "train" else self.test).y
        values = np.asarray(values)
        if len(values) != len(y) or (score.uses == "predictions" and values.ndim != 1):
            raise InputError(f"The model returned shape {values.shape} for {len(y)} rows.")
        loss = None if self.loss is None else LOSSES[self.loss]
        return Outputs(self.task, y, values, self.classes, loss, penalty)


def _targets(outputs: Outputs, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the targets of the loss, in the shape of the responses."""
    if outputs.task == "regression":
        targets = np.asarray(outputs.y, dtype=np.float64)
    elif z.ndim == 1 and len(outputs.classes) == 2:
        targets = np.where(outputs.y == outputs.classes[1], 1.0, -1.0)
    else:
        targets = np.where(outputs.y[:, None] == np.asarray(outputs.classes), 1.0, -1.0)
    if targets.shape != z.shape:
        raise InputError(f"Responses have shape {z.shape}; the labels need {targets.shape}.")
    return targets
