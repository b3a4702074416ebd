"""CatBoost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import catboost

from harness.peers.base import Peer


@dataclass(frozen=True)
class CatBoost(Peer):
    """1,000 symmetric trees, with a learning rate by its own rule."""

    name: ClassVar[str] = "catboost"

    def classifier(self) -> Any:
        return catboost.CatBoostClassifier(**self._settings())

    def regressor(self) -> Any:
        return catboost.CatBoostRegressor(**self._settings())

    def _settings(self) -> dict[str, Any]:
        quiet = {"verbose": 0, "allow_writing_files": False}
        return {"random_seed": self.seed, "thread_count": self.n_jobs or -1, **quiet}
