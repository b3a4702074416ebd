"""Rows and targets, and the problems that are solved over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.threads import cached_property
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.stacked import with_ones
from gramless.penalties import L2, ElasticNet, Penalty
from gramless.preprocessing.rows import Rows
from gramless.preprocessing.scaling import Scaler, ScalingKind
from gramless.solvers.objective import Problem, check_weights_memory

# ``score(predictions, targets, sample_weight)``; lower is better.
Score = Callable[[Vector, Vector, NDArray[np.float64] | None], float]


@dataclass(frozen=True)
class Data:
    """Rows with their encoded targets, and the score of predictions.

    Attributes
    ----------
    targets : array (n,) or (n, K)
        Encoded targets.
    intercept : bool
        Whether predictions have an unpenalised constant.
    categorical : array (n_inputs,) of bool, or None
        Which inputs are categories; None if there are none.
    count_unit : float or None
        Sample weights times this unit count rows. Without it, the weights of a subset of the rows
        are scaled to a mean of 1.
    measure : str
        The name of the score.
    n_validation : int
        The number of rows at the end that are only for validation, and never fitted.
    outlier_bound : float or None
        The largest size of targets in fits by least squares, if the loss is robust.
    """

    rows: Rows
    targets: Vector
    sample_weight: NDArray[np.float64] | None
    score: Score
    intercept: bool
    categorical: NDArray[np.bool_] | None = None
    count_unit: float | None = None
    measure: str = "squared error"
    n_validation: int = 0
    outlier_bound: float | None = None

    @cached_property
    def for_squares(self) -> Data:
        """The data for fits by least squares, which outliers would dominate."""
        if self.outlier_bound is None:
            return self
        clipped = np.clip(self.targets, -self.outlier_bound, self.outlier_bound)
        return replace(self, targets=clipped, outlier_bound=None)

    @property
    def n_outputs(self) -> int:
        return 1 if self.targets.ndim == 1 else self.targets.shape[1]

    @property
    def n_fitted(self) -> int:
        """The number of rows of the final fit, which come first."""
        return len(self.targets) - self.n_validation

    @property
    def fitted(self) -> slice:
        return slice(None) if self.n_validation == 0 else slice(0, self.n_fitted)

    def with_validation_rows(
        self, rows: Rows, targets: Vector, sample_weight: NDArray[np.float64] | None
    ) -> Self:
        """Return the data with validation rows at the end, which are never fitted."""
        weights = self.sample_weight
        if sample_weight is not None:
            weights = np.ones(len(self.targets)) if weights is None else weights
            weights = np.concatenate([weights, sample_weight])
        both = [self.rows, rows]
        return replace(
            self,
            rows=sp.vstack(both, format="csr") if sp.issparse(rows) else np.concatenate(both),
            targets=np.concatenate([self.targets, targets]),
            sample_weight=weights,
            n_validation=len(targets),
        )

    def matrix(self, features: FeatureMatrix) -> FeatureMatrix:
        return with_ones(features) if self.intercept else features

    def problem(
        self, matrix: FeatureMatrix, alpha: float, rows: NDArray[np.intp] | slice = slice(None)
    ) -> Problem:
        # Before targets are copied, which takes seconds with thousands of outputs.
        check_weights_memory(matrix.shape[1], self.n_outputs)
        penalty, weights = self.penalty(alpha), self.weights_of(rows)
        return Problem(matrix, self.targets[rows], penalty, sample_weight=weights)

    def penalty(self, alpha: float, l1_ratio: float = 0.0) -> Penalty:
        n_free = int(self.intercept)
        return ElasticNet(alpha, l1_ratio, n_free) if l1_ratio > 0 else L2(alpha, n_free)

    def scaler(self, kind: ScalingKind) -> Scaler:
        """Return a scaler fitted to the rows of the final fit."""
        if kind not in self._scalers:
            fitted = self.take(self.fitted) if self.n_validation > 0 else self
            weights, categorical = fitted.sample_weight, fitted.categorical
            self._scalers[kind] = Scaler.fit(kind, fitted.rows, weights, categorical)
        return self._scalers[kind]

    @cached_property
    def _scalers(self) -> dict[ScalingKind, Scaler]:
        return {}

    def take(self, rows: NDArray[np.intp] | slice) -> Data:
        """Return the data of some rows, without validation rows."""
        weights = self.weights_of(rows)
        return replace(
            self,
            rows=self.rows[rows],
            targets=self.targets[rows],
            sample_weight=weights,
            n_validation=0,
        )

    def weights_of(self, rows: NDArray[np.intp] | slice) -> NDArray[np.float64] | None:
        return None if self.sample_weight is None else self.sample_weight[rows]

    def mass_of(self, rows: NDArray[np.intp]) -> float:
        """Return the number of some rows, or the sum of their weights if these count rows."""
        if self.sample_weight is None or self.count_unit is None:
            return float(len(rows))
        return float(self.sample_weight[rows].sum() / self.sample_weight.mean())

    def counts_of(self, rows: NDArray[np.intp]) -> NDArray[np.float64] | None:
        """Return the sample weights of some rows scaled to a mean of 1, or None without weights."""
        weights = self.weights_of(rows)
        return None if weights is None else weights / weights.mean()

    def row_counts(self, rows: NDArray[np.intp]) -> NDArray[np.float64] | None:
        """Return the number of rows that each of some rows counts for."""
        weights = self.weights_of(rows)
        if weights is None or self.count_unit is None:
            return self.counts_of(rows)
        return weights * self.count_unit
