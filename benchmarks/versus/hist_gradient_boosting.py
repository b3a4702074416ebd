"""Histogram gradient boosting of scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from versus.peer import Peer


class HistGradientBoosting(Peer):
    """Up to 1,000 trees, stopped early: the same as LightGBM's."""

    name: ClassVar[str] = "hist gradient boosting"
    takes_sparse: ClassVar[bool] = False

    def classifier(self) -> Any:
        return HistGradientBoostingClassifier(**self._settings())

    def regressor(self) -> Any:
        return HistGradientBoostingRegressor(**self._settings())

    def _settings(self) -> dict[str, Any]:
        return {
            "learning_rate": 0.1,
            "max_iter": 1000,
            "early_stopping": True,
            "n_iter_no_change": 50,
            "validation_fraction": 0.2,
            "random_state": self.seed,
        }
