"""XGBoost, stopped early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import xgboost

from harness.peers.base import BoostedTrees, EarlyStopped


@dataclass(frozen=True)
class XGBoost(BoostedTrees):
    """Up to 1,000 trees, learning rate 0.1, early stopping after 50 on 20 % held back."""

    name: ClassVar[str] = "xgboost"

    def classifier(self) -> Any:
        return self._stopped(xgboost.XGBClassifier)

    def regressor(self) -> Any:
        return self._stopped(xgboost.XGBRegressor)

    def trees(self, model: Any) -> int:
        return int(model.model.best_iteration) + 1

    def _stopped(self, kind: type[Any]) -> EarlyStopped:
        model = kind(
            n_estimators=self.n_trees,
            learning_rate=self.learning_rate,
            early_stopping_rounds=self.patience,
            random_state=self.seed,
            n_jobs=self.n_jobs,
        )
        return EarlyStopped(model, _train, self.held_back, self.seed)


def _train(model: Any, X: Any, y: Any, X_held: Any, y_held: Any) -> None:
    model.fit(X, y, eval_set=[(X_held, y_held)], verbose=False)
