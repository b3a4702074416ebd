"""CatBoost, with its default parameters and with those of pytabkit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import catboost

from harness.peers.base import Peer, StoppedTrees


def settings(peer: Peer) -> dict[str, Any]:
    """Return the parameters for the seed, the threads, and no output to the terminal or disk."""
    quiet = {"verbose": 0, "allow_writing_files": False}
    return {"random_seed": peer.seed, "thread_count": peer.n_jobs or -1, **quiet}


@dataclass(frozen=True)
class CatBoost(Peer):
    """CatBoost's defaults: 1,000 symmetric trees and an automatic learning rate."""

    name: ClassVar[str] = "catboost"

    def classifier(self) -> Any:
        return catboost.CatBoostClassifier(**settings(self))

    def regressor(self) -> Any:
        return catboost.CatBoostRegressor(**settings(self))


@dataclass(frozen=True)
class TunedCatBoost(StoppedTrees):
    """The tuned defaults of pytabkit, the best of 1,000 trees by class error or RMSE."""

    name: ClassVar[str] = "catboost_tuned"
    estimator_classes: ClassVar[tuple[type[Any], type[Any]]] = (
        catboost.CatBoostClassifier,
        catboost.CatBoostRegressor,
    )
    classifier_parameters: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.08,
        "depth": 7,
        "random_strength": 0.8,
        "one_hot_max_size": 15,
        "leaf_estimation_iterations": 1,
        "eval_metric": "Accuracy",
    }
    regressor_parameters: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.09,
        "depth": 9,
        "random_strength": 0.0,
        "one_hot_max_size": 20,
        "leaf_estimation_iterations": 20,
        "eval_metric": "RMSE",
    }
    patience: int = 300

    def parameters(self) -> dict[str, Any]:
        trees = {"n_estimators": self.n_trees, "boosting_type": "Plain", "l2_leaf_reg": 1e-5}
        return {**settings(self), **trees, "bootstrap_type": "Bernoulli", "subsample": 0.9}

    def trees(self, model: Any) -> int:
        return int(model.model.tree_count_)

    def train(self, model: Any, X: Any, y: Any, X_validation: Any, y_validation: Any) -> None:
        validation = X_validation, y_validation
        model.fit(X, y, eval_set=validation, early_stopping_rounds=self.patience)
