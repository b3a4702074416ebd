"""What the benchmark asks of a method: a name, and an estimator for a task and a size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid

from gramless.base.random import stream
from gramless.datasets import Dataset


@dataclass(frozen=True)
class Peer(ABC):
    """One method, with the settings that its users would take.

    Parameters
    ----------
    seed : int, default=0
    n_jobs : int or None, default=None
        Threads of methods that have them.
    """

    name: ClassVar[str]
    max_rows: ClassVar[int | None] = None
    why: ClassVar[str] = ""
    """Why there is no estimator for more than ``max_rows`` rows."""
    takes_sparse: ClassVar[bool] = True
    is_random: ClassVar[bool] = True

    seed: int = 0
    n_jobs: int | None = None

    def make(self, task: str, n_rows: int) -> Any | None:
        """Return an estimator, not fitted; None where it cannot take so many rows (``why``)."""
        if self.max_rows is not None and n_rows > self.max_rows:
            return None
        return self.regressor() if task == "regression" else self.classifier()

    @abstractmethod
    def classifier(self) -> Any:
        """Return an estimator of classes."""

    @abstractmethod
    def regressor(self) -> Any:
        """Return an estimator of numbers."""


def rows_for(peer: type[Peer], data: Dataset) -> Dataset:
    """Return the data set with rows that the method takes: dense where it must be."""
    X, X_test = data.X_train, data.X_test
    if not peer.takes_sparse and not isinstance(X, np.ndarray):
        X, X_test = X.toarray(), X_test.toarray()
    return Dataset(X, data.y_train, X_test, data.y_test, data.task, data.name)


class BestOnSample(MetaEstimatorMixin, BaseEstimator):
    """Tries settings on a sample, a quarter of it held back, and fits the best to all rows.

    For methods that are of no use with their default bandwidth.

    Parameters
    ----------
    estimator : estimator
    settings : dict
        As in ``ParameterGrid``.
    n_rows : int
        Rows of the sample.
    random_state : int
    """

    def __init__(
        self, estimator: Any, settings: dict[str, Any], n_rows: int = 4000, random_state: int = 0
    ) -> None:
        self.estimator = estimator
        self.settings = settings
        self.n_rows = n_rows
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> BestOnSample:
        sample = stream(self.random_state, "sample").permutation(len(y))[: self.n_rows]
        validation, training = np.split(sample, [len(sample) // 4])

        def score(setting: dict[str, Any]) -> float:
            tried = clone(self.estimator).set_params(**setting)
            tried.fit(X[training], y[training])
            return float(tried.score(X[validation], y[validation]))

        self.best_ = max(ParameterGrid(self.settings), key=score)
        self.estimator_ = clone(self.estimator).set_params(**self.best_).fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        return self.estimator_.predict(X)
