"""XGBoost with early stopping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import xgboost

from harness.peers.base import StoppedTrees


@dataclass(frozen=True)
class XGBoost(StoppedTrees):
    """Up to 1,000 trees with learning rate 0.1; stops after 50 trees without improvement."""

    name: ClassVar[str] = "xgboost"
    estimator_classes: ClassVar[tuple[type[Any], type[Any]]] = (
        xgboost.XGBClassifier,
        xgboost.XGBRegressor,
    )

    def parameters(self) -> dict[str, Any]:
        return {
            "n_estimators": self.n_trees,
            "learning_rate": self.learning_rate,
            "early_stopping_rounds": self.patience,
            "random_state": self.seed,
            "n_jobs": self.n_jobs,
        }

    def trees(self, model: Any) -> int:
        return int(model.model.best_iteration) + 1

    def train(self, model: Any, X: Any, y: Any, X_validation: Any, y_validation: Any) -> None:
        model.fit(X, y, eval_set=[(X_validation, y_validation)], verbose=False)
