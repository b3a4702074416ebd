"""Histogram gradient boosting of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from harness.peers.base import BoostedTrees


@dataclass(frozen=True)
class HistGradientBoosting(BoostedTrees):
    """Up to 1,000 trees with early stopping, configured as LightGBM is."""

    name: ClassVar[str] = "hist gradient boosting"
    takes_sparse: ClassVar[bool] = False

    def classifier(self) -> Any:
        return HistGradientBoostingClassifier(**self._settings())

    def regressor(self) -> Any:
        return HistGradientBoostingRegressor(**self._settings())

    def trees(self, model: Any) -> int:
        return int(model.n_iter_)

    def _settings(self) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate,
            "max_iter": self.n_trees,
            "early_stopping": True,
            "n_iter_no_change": self.patience,
            "validation_fraction": self.held_back,
            "random_state": self.seed,
        }
