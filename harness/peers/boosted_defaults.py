"""Boosted trees and forests of other packages, with nothing given but the seed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from harness.peers.base import Peer


@dataclass(frozen=True)
class ChimeraBoost(Peer):
    """ChimeraBoost: boosted trees in Python and numba."""

    name: ClassVar[str] = "chimeraboost"
    takes_sparse: ClassVar[bool] = False

    def classifier(self) -> Any:
        return import_module("chimeraboost").ChimeraBoostClassifier(random_state=self.seed)

    def regressor(self) -> Any:
        return import_module("chimeraboost").ChimeraBoostRegressor(random_state=self.seed)


@dataclass(frozen=True)
class CatBoost(Peer):
    """CatBoost: 1,000 symmetric trees, with a learning rate by its own rule."""

    name: ClassVar[str] = "catboost"

    def classifier(self) -> Any:
        return import_module("catboost").CatBoostClassifier(**self._settings())

    def regressor(self) -> Any:
        return import_module("catboost").CatBoostRegressor(**self._settings())

    def _settings(self) -> dict[str, Any]:
        quiet = {"verbose": 0, "allow_writing_files": False}
        return {"random_seed": self.seed, "thread_count": self.n_jobs or -1, **quiet}


@dataclass(frozen=True)
class ExtraTrees(Peer):
    """scikit-learn's extremely randomised trees, 100 of them."""

    name: ClassVar[str] = "extra trees"

    def classifier(self) -> Any:
        return ExtraTreesClassifier(random_state=self.seed, n_jobs=self.n_jobs or -1)

    def regressor(self) -> Any:
        return ExtraTreesRegressor(random_state=self.seed, n_jobs=self.n_jobs or -1)
