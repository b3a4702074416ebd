"""LightGBM with early stopping, with its default parameters and with those of pytabkit."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import lightgbm

from harness.peers.base import StoppedTrees


@dataclass(frozen=True)
class LightGBM(StoppedTrees):
    """Up to 1,000 trees with learning rate 0.1; stops after 50 trees without improvement."""

    name: ClassVar[str] = "lightgbm"
    estimator_classes: ClassVar[tuple[type[Any], type[Any]]] = (
        lightgbm.LGBMClassifier,
        lightgbm.LGBMRegressor,
    )

    def parameters(self) -> dict[str, Any]:
        return {
            "n_estimators": self.n_trees,
            "learning_rate": self.learning_rate,
            "random_state": self.seed,
            "n_jobs": self.n_jobs or -1,
            "verbosity": -1,
        }

    def trees(self, model: Any) -> int:
        return int(model.model.best_iteration_ or self.n_trees)

    def train(self, model: Any, X: Any, y: Any, X_validation: Any, y_validation: Any) -> None:
        stop = lightgbm.early_stopping(self.patience, verbose=False)
        with warnings.catch_warnings():
            # The replacement of eval_set does not exist in the versions 4.3 to 4.6.
            warnings.filterwarnings("ignore", message="The argument 'eval_set'")
            model.fit(X, y, eval_set=[(X_validation, y_validation)], callbacks=[stop])


@dataclass(frozen=True)
class TunedLightGBM(LightGBM):
    """The tuned defaults of pytabkit, the best of 1,000 trees by class error or RMSE."""

    name: ClassVar[str] = "lightgbm_tuned"
    classifier_parameters: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.04,
        "subsample": 0.75,
        "num_leaves": 50,
        "min_child_samples": 40,
    }
    regressor_parameters: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.05,
        "subsample": 0.7,
        "num_leaves": 100,
        "min_child_samples": 3,
        "metric": "rmse",
    }
    patience: int = 300

    def parameters(self) -> dict[str, Any]:
        common = super().parameters()
        del common["learning_rate"]
        return {**common, "subsample_freq": 1, "min_child_weight": 1e-7, "reg_lambda": 0.0}

    def train(self, model: Any, X: Any, y: Any, X_validation: Any, y_validation: Any) -> None:
        if isinstance(model, lightgbm.LGBMClassifier):
            model.set_params(metric="multi_error" if y.max() > 1 else "binary_error")
        super().train(model, X, y, X_validation, y_validation)
