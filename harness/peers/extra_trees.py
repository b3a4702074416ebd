"""Extremely randomised trees of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from harness.peers.base import Peer


@dataclass(frozen=True)
class ExtraTrees(Peer):
    """100 trees."""

    name: ClassVar[str] = "extra trees"

    def classifier(self) -> Any:
        return ExtraTreesClassifier(random_state=self.seed, n_jobs=self.n_jobs or -1)

    def regressor(self) -> Any:
        return ExtraTreesRegressor(random_state=self.seed, n_jobs=self.n_jobs or -1)
