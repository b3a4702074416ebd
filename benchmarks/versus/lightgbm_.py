"""LightGBM, stopped early."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import lightgbm
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from versus.peer import Peer

TREES, LEARNING_RATE, PATIENCE, HELD_BACK = 1000, 0.1, 50, 0.2


class EarlyStopped(BaseEstimator):
    """Holds rows back and stops adding trees when they are predicted no better.

    Parameters
    ----------
    model : LGBMClassifier or LGBMRegressor
    random_state : int
    """

    def __init__(self, model: Any, random_state: int = 0) -> None:
        self.model = model
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> EarlyStopped:
        classes = isinstance(self.model, lightgbm.LGBMClassifier)
        alike = y if classes and np.unique(y, return_counts=True)[1].min() > 1 else None
        X, X_held, y, y_held = train_test_split(
            X, y, test_size=HELD_BACK, random_state=self.random_state, stratify=alike
        )
        stop = lightgbm.early_stopping(PATIENCE, verbose=False)
        with warnings.catch_warnings():
            # Versions 4.3 to 4.6 know no other way to pass the rows held back.
            warnings.filterwarnings("ignore", message="The argument 'eval_set'")
            self.model.fit(X, y, eval_set=[(X_held, y_held)], callbacks=[stop])
        if classes:
            self.classes_ = self.model.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.model.predict(X)

    def predict_proba(self, X: Any) -> Any:
        return self.model.predict_proba(X)


class LightGBM(Peer):
    """Up to 1,000 trees, learning rate 0.1, early stopping after 50 on 20 % held back."""

    name: ClassVar[str] = "lightgbm"

    def classifier(self) -> Any:
        return EarlyStopped(lightgbm.LGBMClassifier(**self._settings()), self.seed)

    def regressor(self) -> Any:
        return EarlyStopped(lightgbm.LGBMRegressor(**self._settings()), self.seed)

    def _settings(self) -> dict[str, Any]:
        return {
            "n_estimators": TREES,
            "learning_rate": LEARNING_RATE,
            "random_state": self.seed,
            "n_jobs": self.n_jobs or -1,
            "verbosity": -1,
        }
