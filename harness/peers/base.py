"""Base classes of methods to compare with."""

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
    """A method to compare with, configured as its users would configure it.

    Parameters
    ----------
    seed : int, default=0
    n_jobs : int or None, default=None
        Number of threads, for methods that are multithreaded.
    """

    name: ClassVar[str]
    max_rows: ClassVar[int | None] = None
    why: ClassVar[str] = ""  # the reason for max_rows
    takes_sparse: ClassVar[bool] = True
    is_random: ClassVar[bool] = True

    seed: int = 0
    n_jobs: int | None = None

    @classmethod
    def rows(cls, X: Any) -> Any:
        """Return rows in a form that the method accepts: dense if it requires that."""
        return X if cls.takes_sparse else dense(X)

    def make(self, task: str, n_rows: int) -> Any | None:
        """Return an unfitted estimator, or None if ``n_rows`` exceeds ``max_rows``."""
        if self.max_rows is not None and n_rows > self.max_rows:
            return None
        return self.regressor() if task == "regression" else self.classifier()

    @abstractmethod
    def classifier(self) -> Any:
        """Return an unfitted classifier."""

    @abstractmethod
    def regressor(self) -> Any:
        """Return an unfitted regressor."""


@dataclass(frozen=True)
class BoostedTrees(Peer):
    """Boosted trees with early stopping on validation rows.

    Parameters
    ----------
    held_back : float, default=0.2
        Fraction of the rows used for validation.
    n_trees : int, default=1000
        Maximum number of trees.
    learning_rate : float, default=0.1
    patience : int, default=50
        Number of trees without improvement after which training stops.
    """

    held_back: float = 0.2
    n_trees: int = 1000
    learning_rate: float = 0.1
    patience: int = 50

    @abstractmethod
    def trees(self, model: Any) -> int:
        """Return the number of trees in a fitted estimator."""


@dataclass(frozen=True)
class StoppedTrees(BoostedTrees):
    """Boosted trees of a package that does not split off validation rows itself.

    ``estimator_classes`` are its classifier and its regressor; ``classifier_parameters`` and
    ``regressor_parameters`` are the parameters that only one of them gets.
    """

    estimator_classes: ClassVar[tuple[type[Any], type[Any]]]
    classifier_parameters: ClassVar[dict[str, Any]] = {}
    regressor_parameters: ClassVar[dict[str, Any]] = {}

    def classifier(self) -> Any:
        parameters = {**self.parameters(), **self.classifier_parameters}
        return self._with_early_stopping(self.estimator_classes[0](**parameters))

    def regressor(self) -> Any:
        parameters = {**self.parameters(), **self.regressor_parameters}
        return self._with_early_stopping(self.estimator_classes[1](**parameters))

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of both estimators."""

    @abstractmethod
    def train(self, model: Any, X: Any, y: Any, X_validation: Any, y_validation: Any) -> None:
        """Fit the model to training rows, with early stopping on validation rows."""

    def _with_early_stopping(self, model: Any) -> EarlyStopped:
        return EarlyStopped(model, self.train, self.held_back, self.seed)


class EarlyStopped(BaseEstimator):
    """Splits off validation rows and fits boosted trees with early stopping on them.

    Class labels are encoded as integers from 0 for the model.

    Parameters
    ----------
    model : classifier or regressor
    train : callable
        Called with the model, training rows, their targets, validation rows and their targets.
    held_back : float
        Fraction of the rows used for validation, stratified by class.
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
        """Fit the model to the training part of the rows."""
        strata = None
        if is_classifier(self.model):
            labels = LabelEncoder().fit(y)
            self.classes_, y = labels.classes_, labels.transform(y)
            # A class with a single row cannot be stratified.
            strata = y if np.bincount(y).min() > 1 else None
        X, X_validation, y, y_validation = train_test_split(
            X, y, test_size=self.held_back, random_state=self.random_state, stratify=strata
        )
        self.train(self.model, X, y, X_validation, y_validation)
        return self

    def predict(self, X: Any) -> Any:
        """Predict classes or targets."""
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
        # LightGBM gives names to the columns of arrays, so scikit-learn warns if arrays have none.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield


def dense(X: Any) -> Any:
    """Return rows as a dense array."""
    return X.toarray() if sp.issparse(X) else X


class BestOnSample(MetaEstimatorMixin, BaseEstimator):
    """Grid search on a sample, with a quarter of it for validation, and a fit to all rows.

    It is used for methods whose default bandwidth does not work in general.

    Parameters
    ----------
    estimator : estimator
    settings : dict
        Passed to ``ParameterGrid``.
    n_rows : int
        Number of rows of the sample.
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
        """Select the setting with the best score and fit it to all rows."""
        sample = stream(self.random_state, "sample").permutation(len(y))[: self.n_rows]
        validation, training = np.split(sample, [len(sample) // 4])

        def score(setting: dict[str, Any]) -> float:
            candidate = clone(self.estimator).set_params(**setting)
            candidate.fit(X[training], y[training])
            return float(candidate.score(X[validation], y[validation]))

        self.best_ = max(ParameterGrid(self.settings), key=score)
        self.estimator_ = clone(self.estimator).set_params(**self.best_).fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        """Predict with the best setting."""
        return self.estimator_.predict(X)
