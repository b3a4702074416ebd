"""LightGBM, stopped early."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import lightgbm
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split

from harness.peers.base import BoostedTrees


class EarlyStopped(BaseEstimator):
    """Holds rows back and stops adding trees when they are predicted no better.

    Parameters
    ----------
    model : LGBMClassifier or LGBMRegressor
    held_back : float
        Share of the rows, classes in proportion.
    patience : int
        Trees that may pass without a gain.
    random_state : int
    """

    def __init__(self, model: Any, held_back: float, patience: int, random_state: int) -> None:
        self.model = model
        self.held_back = held_back
        self.patience = patience
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> EarlyStopped:
        """Train on the rows that are not held back."""
        classes = isinstance(self.model, lightgbm.LGBMClassifier)
        alike = y if classes and np.unique(y, return_counts=True)[1].min() > 1 else None
        X, X_held, y, y_held = train_test_split(
            X, y, test_size=self.held_back, random_state=self.random_state, stratify=alike
        )
        stop = lightgbm.early_stopping(self.patience, verbose=False)
        with warnings.catch_warnings():
            # Versions 4.3 to 4.6 know no other way to pass the rows held back.
            warnings.filterwarnings("ignore", message="The argument 'eval_set'")
            self.model.fit(X, y, eval_set=[(X_held, y_held)], callbacks=[stop])
        if classes:
            self.classes_ = self.model.classes_
        return self

    def predict(self, X: Any) -> Any:
        with warnings.catch_warnings():
            # LightGBM names the columns of arrays itself, and scikit-learn then misses the names.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return self.model.predict(X)

    def predict_proba(self, X: Any) -> Any:
        return self.model.predict_proba(X)


@dataclass(frozen=True)
class LightGBM(BoostedTrees):
    """Up to 1,000 trees, learning rate 0.1, early stopping after 50 on 20 % held back."""

    name: ClassVar[str] = "lightgbm"

    def classifier(self) -> Any:
        return self._stopped(lightgbm.LGBMClassifier)

    def regressor(self) -> Any:
        return self._stopped(lightgbm.LGBMRegressor)

    def trees(self, model: Any) -> int:
        return int(model.model.best_iteration_ or self.n_trees)

    def _stopped(self, kind: type[Any]) -> EarlyStopped:
        model = kind(
            n_estimators=self.n_trees,
            learning_rate=self.learning_rate,
            random_state=self.seed,
            n_jobs=self.n_jobs or -1,
            verbosity=-1,
        )
        return EarlyStopped(model, self.held_back, self.patience, self.seed)
