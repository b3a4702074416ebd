"""Scores of models, computed here alone: from what they predict, never from what they report."""

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
    """Rows that judge.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_inputs)
    y : ndarray of shape (n_rows,)
    """

    X: Any
    y: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says of some rows, and the truth.

    Parameters
    ----------
    task : {"binary", "multiclass", "regression"}
    y : ndarray of shape (n_rows,)
    given : ndarray
        Predictions (n_rows,), or responses (n_rows,) or (n_rows, n_outputs).
    classes : ndarray, default=()
        All classes in their order, for responses.
    loss : Loss, default=None
    penalty : float, default=0.0
    """

    task: Task
    y: NDArray[Any]
    given: NDArray[Any]
    classes: Any = ()
    loss: Loss | None = None
    penalty: float = 0.0


def error(answers: Answers) -> float:
    """Return the share of wrong labels; of numbers, RMSE over the standard deviation of ``y``.

    Examples
    --------
    >>> error(Answers("binary", np.array([0, 1, 1, 1]), np.array([0, 1, 1, 0])))
    0.25
    """
    if answers.task != "regression":
        return float(np.mean(answers.given != answers.y))
    return float(np.sqrt(mean_square(answers)) / np.std(answers.y))


def relative_error(answers: Answers) -> float:
    """Return ``|y - prediction| / |y|``, as RR07 does; of labels the share wrong."""
    if answers.task != "regression":
        return error(answers)
    return float(np.linalg.norm(answers.y - answers.given) / np.linalg.norm(answers.y))


def mean_square(answers: Answers) -> float:
    """Return the mean of ``(y - prediction)^2``, for numbers.

    Raises
    ------
    InputError
        For labels.
    """
    if answers.task != "regression":
        raise InputError("A mean square is of numbers: these rows have labels; ask for an error.")
    return float(np.mean((answers.y - answers.given) ** 2))


def mean_loss(answers: Answers) -> float:
    """Return the mean over the rows of the loss, added over its outputs.

    Labels are -1 and 1: the second of two classes against the first, or each class against all
    others where there is a column of responses for each.

    Raises
    ------
    InputError
        If no loss is named, or the responses have a shape that the labels do not allow.

    Examples
    --------
    >>> y, z = np.array([0, 1]), np.array([0.0, -1.0])
    >>> mean_loss(Answers("binary", y, z, np.array([0, 1]), LOSSES["squared_hinge"]))
    1.25
    """
    if answers.loss is None:
        raise InputError(f'A loss needs the option "loss": one of {", ".join(LOSSES)}.')
    z = np.asarray(answers.given, dtype=np.float64)
    values = answers.loss.value(z, _targets(answers, z))
    return float(values.sum() / len(z))


def objective(answers: Answers) -> float:
    """Return the mean loss and the penalty."""
    return mean_loss(answers) + answers.penalty


@dataclass(frozen=True)
class Score:
    """How a score is computed.

    Parameters
    ----------
    part : {"train", "test"}
        The rows.
    asks : {"predictions", "responses"}
    measure : callable
        From :class:`Answers` to a number.
    """

    part: Literal["train", "test"]
    asks: Literal["predictions", "responses"]
    measure: Callable[[Answers], float]


SCORES: dict[str, Score] = {
    "test_error": Score("test", "predictions", error),
    "train_error": Score("train", "predictions", error),
    "relative_error": Score("test", "predictions", relative_error),
    "train_relative_error": Score("train", "predictions", relative_error),
    "test_mse": Score("test", "predictions", mean_square),
    "train_mse": Score("train", "predictions", mean_square),
    "test_loss": Score("test", "responses", mean_loss),
    "train_loss": Score("train", "responses", mean_loss),
    "objective": Score("train", "responses", objective),
}


@dataclass(frozen=True, eq=False)
class Judge:
    """Computes the scores of snapshots.

    Parameters
    ----------
    task : {"binary", "multiclass", "regression"}
    classes : ndarray
        Of all training rows, in their order.
    train, test : Rows
    names : sequence of str
        Of :data:`SCORES`.
    loss : str, default=None
        Of :data:`LOSSES`; needed where a loss is asked for.

    Raises
    ------
    InputError
        If a name is not known.

    Examples
    --------
    >>> rows = Rows(np.zeros((4, 1)), np.array([0, 1, 1, 1]))
    >>> judge = Judge("binary", np.array([0, 1]), rows, rows, ["test_error"])
    >>> judge.scores(Snapshot(lambda X: np.ones(len(X))))
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
            raise InputError(f"{unknown[0]!r} is no score; there are {', '.join(SCORES)}.")
        if self.loss is not None and self.loss not in LOSSES:
            raise InputError(f"{self.loss!r} is no loss; there are {', '.join(LOSSES)}.")

    def scores(
        self, snapshot: Snapshot, predictions: NDArray[Any] | None = None
    ) -> dict[str, float]:
        """Return the scores of a snapshot by their names.

        Parameters
        ----------
        snapshot : Snapshot
        predictions : ndarray of shape (n_test,), default=None
            Of the test rows, where they are known already.

        Raises
        ------
        InputError
            If the model answers in another shape than the rows ask for.
        """
        known: dict[tuple[str, str], NDArray[Any]] = {}
        if predictions is not None:
            known["test", "predictions"] = predictions
        found = {}
        for name in self.names:
            score = SCORES[name]
            asked = score.part, score.asks
            if asked not in known:
                known[asked] = self._ask(snapshot, score)
            found[name] = score.measure(self._answers(score, known[asked], snapshot.penalty))
        return found

    def _ask(self, snapshot: Snapshot, score: Score) -> NDArray[Any]:
        rows = self.train if score.part == "train" else self.test
        if score.asks == "predictions":
            return snapshot.predict(rows.X)
        if snapshot.responses is None:
            raise InputError("A loss is asked for, but this method has no responses.")
        return snapshot.responses(rows.X)

    def _answers(self, score: Score, given: NDArray[Any], penalty: float) -> Answers:
        y = (self.train if score.part == "train" else self.test).y
        given = np.asarray(given)
        if len(given) != len(y) or (score.asks == "predictions" and given.ndim != 1):
            raise InputError(f"{len(y)} rows were answered by an array of shape {given.shape}.")
        loss = None if self.loss is None else LOSSES[self.loss]
        return Answers(self.task, y, given, self.classes, loss, penalty)


def _targets(answers: Answers, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what responses are compared with, in their shape."""
    if answers.task == "regression":
        targets = np.asarray(answers.y, dtype=np.float64)
    elif z.ndim == 1 and len(answers.classes) == 2:
        targets = np.where(answers.y == answers.classes[1], 1.0, -1.0)
    else:
        targets = np.where(answers.y[:, None] == np.asarray(answers.classes), 1.0, -1.0)
    if targets.shape != z.shape:
        raise InputError(f"Responses have shape {z.shape}; the labels need {targets.shape}.")
    return targets
