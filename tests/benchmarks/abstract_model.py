"""A stand-in for AutoGluon's ``AbstractModel``, for tests without AutoGluon.

It follows the steps of ``autogluon.core.models.AbstractModel`` 1.6, with the same names and
arguments. Hyperparameters of the user replace defaults, and the seed is set if neither has it.
Columns of types that the model does not support are dropped, and so are constant ones. Labels are
numbered from 0, predictions are float32, and two classes have only the probability of the second. A
model is saved in one file.
"""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def raw_type(column: pd.Series) -> str:
    """Return AutoGluon's name of a column's type."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "category"
    names = {"b": "bool", "i": "int", "u": "int", "f": "float", "M": "datetime"}
    return names.get(column.dtype.kind, "object") if isinstance(column.dtype, np.dtype) else "text"


class AbstractModel:
    ag_key: str | None = None
    ag_name: str | None = None
    seed_name: str | None = None

    def __init__(
        self,
        path: str,
        name: str,
        problem_type: str,
        eval_metric: str | None = None,
        hyperparameters: dict[str, Any] | None = None,
    ) -> None:
        self.path, self.name = str(Path(path) / name), name
        self.problem_type, self.eval_metric = problem_type, eval_metric
        self.model: Any = None
        self.num_classes: int | None = None
        self.params: dict[str, Any] = {}
        self._user_params = dict(hyperparameters or {})

    def fit(
        self,
        *,
        X: pd.DataFrame,
        y: pd.Series,
        num_classes: int | None = None,
        random_seed: int = 0,
        time_limit: float | None = None,
        num_cpus: int = 1,
        num_gpus: int = 0,
        verbosity: int = 0,
        **kwargs: Any,
    ) -> AbstractModel:
        start = time.time()
        allowed = self.supported_problem_types()
        assert allowed is None or self.problem_type in allowed
        self.num_classes = num_classes
        self._set_default_params()
        self.params |= self._user_params
        if self.seed_name is not None:
            self.params.setdefault(self.seed_name, random_seed)
        valid = self._get_default_auxiliary_params()["valid_raw_types"]
        kept = [name for name in X.columns if valid is None or raw_type(X[name]) in valid]
        self.features = [name for name in kept if X[name].nunique(dropna=False) > 1]
        assert self.features, "no valid features"
        self.memory = self._estimate_memory_usage(X=X, y=y, num_cpus=num_cpus, **kwargs)
        if time_limit is not None:
            time_limit -= time.time() - start
        limits = {"time_limit": time_limit, "num_cpus": num_cpus, "num_gpus": num_gpus}
        out = self._fit(X=X, y=y, verbosity=verbosity, **limits, **kwargs)
        return self if out is None else out

    def preprocess(self, X: pd.DataFrame, **kwargs: Any) -> Any:
        return self._preprocess(X[self.features], **kwargs)

    def predict_proba(self, X: pd.DataFrame, **kwargs: Any) -> np.ndarray:
        return self._predict_proba(X=X, **kwargs).astype(np.float32)

    def predict(self, X: pd.DataFrame, **kwargs: Any) -> np.ndarray:
        result = self.predict_proba(X, **kwargs)
        if self.problem_type == "regression":
            return result
        return (result >= 0.5).astype(int) if result.ndim == 1 else result.argmax(axis=1)

    def save(self) -> str:
        Path(self.path).mkdir(parents=True)
        (Path(self.path) / "model.pkl").write_bytes(pickle.dumps(self))
        return self.path

    @classmethod
    def load(cls, path: str) -> AbstractModel:
        return pickle.loads((Path(path) / "model.pkl").read_bytes())

    @classmethod
    def estimate_memory_usage_static(cls, *, X: pd.DataFrame, **kwargs: Any) -> int:
        return cls._estimate_memory_usage_static(X=X, **kwargs)

    @classmethod
    def supported_problem_types(cls) -> list[str] | None:
        return None

    def _get_model_params(self) -> dict[str, Any]:
        return dict(self.params)

    def _predict_proba(self, X: pd.DataFrame, **kwargs: Any) -> np.ndarray:
        rows = self.preprocess(X, **kwargs)
        if self.problem_type == "regression":
            return self.model.predict(rows)
        result = self.model.predict_proba(rows)
        return result[:, 1] if self.problem_type == "binary" else result

    # What models may change.

    def _set_default_params(self) -> None:
        pass

    def _get_default_auxiliary_params(self) -> dict[str, Any]:
        return {"valid_raw_types": None}

    def _preprocess(self, X: pd.DataFrame, **kwargs: Any) -> Any:
        return X

    def _estimate_memory_usage(self, X: pd.DataFrame, **kwargs: Any) -> int:
        return 4 * int(X.memory_usage().sum())

    @classmethod
    def _estimate_memory_usage_static(cls, *, X: pd.DataFrame, **kwargs: Any) -> int:
        raise NotImplementedError

    def _fit(self, X: pd.DataFrame, y: pd.Series, **kwargs: Any) -> None:
        raise NotImplementedError
