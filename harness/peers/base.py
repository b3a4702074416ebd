"""What is asked of a method: a name, and an estimator for a task and a size."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid, train_test_split
from sklearn.preprocessing import LabelEncoder

from gramless.base.random import stream


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

    @classmethod
    def rows(cls, X: Any) -> Any:
        """Return rows as the method takes them: dense where they must be."""
        return X if cls.takes_sparse else dense(X)

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


@dataclass(frozen=True)
class BoostedTrees(Peer):
    """Boosted trees, stopped early when rows held back are predicted no better.

    Parameters
    ----------
    held_back : float, default=0.2
        Share of the rows.
    n_trees : int, default=1000
        The most.
    learning_rate : float, default=0.1
    patience : int, default=50
        Trees that may pass without a gain.
    """

    held_back: float = 0.2
    n_trees: int = 1000
    learning_rate: float = 0.1
    patience: int = 50

    @abstractmethod
    def trees(self, model: Any) -> int:
        """Return how many trees a fitted estimator has kept."""


@dataclass(frozen=True)
class StoppedTrees(BoostedTrees):
    """Boosted trees of a package that is given the rows held back.

    Its estimators are ``kinds``, of classes and of numbers; ``of_classes`` and ``of_numbers`` are
    the parameters that only these have.
    """

    kinds: ClassVar[tuple[type[Any], type[Any]]]
    of_classes: ClassVar[dict[str, Any]] = {}
    of_numbers: ClassVar[dict[str, Any]] = {}

    def classifier(self) -> Any:
        return self._stopped(self.kinds[0](**self.parameters(), **self.of_classes))

    def regressor(self) -> Any:
        return self._stopped(self.kinds[1](**self.parameters(), **self.of_numbers))

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of both estimators."""

    @abstractmethod
    def train(self, model: Any, X: Any, y: Any, X_held: Any, y_held: Any) -> None:
        """Fit to rows and targets, and stop by those held back."""

    def _stopped(self, model: Any) -> EarlyStopped:
        return EarlyStopped(model, self.train, self.held_back, self.seed)


class EarlyStopped(BaseEstimator):
    """Holds rows back and lets boosted trees stop when they are predicted no better.

    Classes are numbers from 0 on for the model.

    Parameters
    ----------
    model : classifier or regressor
    train : callable
        Called with the model, rows and targets to train on, and rows and targets held back.
    held_back : float
        Share of the rows, classes in proportion.
    random_state : int
    """

    def __init__(
        self, model: Any, train: Callable[..., Any], held_back: float, random_state: int
    ) -> None:
        self.model = model
        self.train = train
        self.held_back = held_back
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> EarlyStopped:
        """Train on the rows that are not held back."""
        alike = None
        if is_classifier(self.model):
            labels = LabelEncoder().fit(y)
            self.classes_, y = labels.classes_, labels.transform(y)
            alike = y if np.bincount(y).min() > 1 else None
        X, X_held, y, y_held = train_test_split(
            X, y, test_size=self.held_back, random_state=self.random_state, stratify=alike
        )
        self.train(self.model, X, y, X_held, y_held)
        return self

    def predict(self, X: Any) -> Any:
        """Predict classes or numbers."""
        if is_classifier(self.model):
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        with _ignoring_missing_names():
            return self.model.predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the classes."""
        with _ignoring_missing_names():
            return self.model.predict_proba(X)


@contextmanager
def _ignoring_missing_names() -> Iterator[None]:
    with warnings.catch_warnings():
        # LightGBM names the columns of arrays itself, and scikit-learn then misses the names.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield


def dense(X: Any) -> Any:
    """Return rows as an array."""
    return X.toarray() if sp.issparse(X) else X


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
        """Choose the setting of the best score and fit it to all rows."""
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
        """Predict with the best setting."""
        return self.estimator_.predict(X)
