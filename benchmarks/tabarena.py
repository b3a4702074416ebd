"""gramless as a model of TabArena, and of any AutoGluon predictor.

Needs ``autogluon.core``; ``config_generator`` needs ``tabarena`` as well. TabArena pickles the
class by its module: run experiments from the root of this repository, or copy this file. As in

    from benchmarks.tabarena import config_generator

    experiments = config_generator().generate_all_bag_experiments(num_random_configs=25)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from autogluon.core.models import AbstractModel

from gramless import KernelClassifier, KernelRegressor, warmup
from gramless.selection.budget import max_grown_grids
from gramless.selection.config import EFFORTS

# Bytes of the interpreter, its packages and compiled loops.
_OVERHEAD = 400e6
# Largest number of bytes of one smooth kernel's features.
_MAX_SMOOTH = 400e6
# Bytes per row: codes of bins, copies of the table, and vectors during the growth of grids.
_BYTES_PER_GRID, _BYTES_PER_INPUT, _BYTES_PER_OUTPUT = 4, 32, 100
# Largest number of rows of kernel ridge regression with two and with more classes.
_BLENDED_ROWS = (1500, 5000)
_BYTES_PER_PAIR_OF_ROWS = 24


class GramlessModel(AbstractModel):
    """The estimators with their defaults; hyperparameters are the estimators' parameters.

    The estimators handle categories and missing values. The rows of ``X_val`` are not used: the
    estimators split ``X`` themselves, so that ``X_val`` stays unseen. The time limit is the
    estimators' ``time_budget``.
    """

    ag_key = "GRAMLESS"
    ag_name = "gramless"
    seed_name = "random_state"

    def _fit(
        self,
        X: Any,
        y: Any,
        time_limit: float | None = None,
        num_cpus: int = 1,
        sample_weight: Any = None,
        **kwargs: Any,
    ) -> None:
        kind = KernelRegressor if self.problem_type == "regression" else KernelClassifier
        parameters = {"time_budget": time_limit, "n_jobs": num_cpus, **self._get_model_params()}
        rows = self.preprocess(X, is_train=True)
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        self.model = kind(**parameters).fit(rows, np.asarray(y), sample_weight=weights)

    @classmethod
    def warmup(cls) -> None:
        """Compile all loops, once per installation, so that compilation does not count in a fit."""
        warmup()

    def _get_default_auxiliary_params(self) -> dict[str, Any]:
        return {
            **super()._get_default_auxiliary_params(),
            "valid_raw_types": ["bool", "int", "float", "category"],
        }

    @classmethod
    def supported_problem_types(cls) -> list[str]:
        return ["binary", "multiclass", "regression"]

    def _estimate_memory_usage(self, X: Any, **kwargs: Any) -> int:
        return self.estimate_memory_usage_static(
            X=X,
            problem_type=self.problem_type,
            num_classes=self.num_classes,
            hyperparameters=self._get_model_params(),
            **kwargs,
        )

    @classmethod
    def _estimate_memory_usage_static(
        cls,
        *,
        X: Any,
        hyperparameters: dict[str, Any] | None = None,
        num_classes: int | None = 1,
        **kwargs: Any,
    ) -> int:
        config = EFFORTS[(hyperparameters or {}).get("effort", 3)]
        n_rows, n_inputs = X.shape
        n_outputs = num_classes if num_classes and num_classes > 2 else 1
        n_grids = config.n_seeds * max_grown_grids(n_rows, n_outputs, config.most_grids)
        bytes_per_row = (
            _BYTES_PER_GRID * n_grids + _BYTES_PER_INPUT * n_inputs + _BYTES_PER_OUTPUT * n_outputs
        )
        smooth_bytes = min(8.0 * config.n_landmarks * n_rows, _MAX_SMOOTH) * len(
            config.smooth_inverse_bandwidths
        )
        n_blended = (
            min(n_rows, _BLENDED_ROWS[n_outputs > 1]) if config.blends and num_classes else 0
        )
        return int(
            _OVERHEAD
            + n_rows * bytes_per_row
            + smooth_bytes
            + _BYTES_PER_PAIR_OF_ROWS * n_blended**2
        )

    @classmethod
    def _class_tags(cls) -> dict[str, bool]:
        return {"can_estimate_memory_usage_static": True}

    def _more_tags(self) -> dict[str, bool]:
        # A fit does not depend on the validation rows.
        return {"can_refit_full": True}


def config_generator() -> Any:
    """Return TabArena's generator of configurations: the defaults, then random ones.

    The ranges are untested: this model has not been tuned on TabArena.
    """
    from autogluon.common.space import Categorical, Int
    from tabarena.utils.config_utils import ConfigGenerator

    space = {"effort": Categorical(3, 2, 4, 5), "n_grids": Int(160, 1280, default=640)}
    return ConfigGenerator(model_cls=GramlessModel, manual_configs=[{}], search_space=space)
