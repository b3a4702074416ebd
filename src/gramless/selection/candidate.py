"""A candidate for the final model, and what fitting one returns."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import FloatArray
from gramless.features.base import FeatureMap
from gramless.features.binning import GivenBinning
from gramless.features.hybrid import JoinedMaps, parts_of
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.row_products import SingleRowProducts
from gramless.matrices.stacked import HStack, stacked_parts
from gramless.preprocessing.rows import Rows
from gramless.preprocessing.scaling import Scaler
from gramless.selection.budget import Cost
from gramless.selection.goal import Goal, scaled_score
from gramless.selection.selected import Order, SelectedModel, coarsest_step, final_rows
from gramless.selection.task import Hyperparameters, SelectionTask
from gramless.selection.validation import ValidationResult, record, validate, with_row_products

_COPIED_WEIGHTS = 1 << 15  # weights of each output that are copied at a time
REQUIRED_GAIN = 0.998  # a candidate must lower the score at least to this share of the best
MAX_NUMBERS = 50_000_000  # maximum of rows times dense features
# Trials of dense features must end within this fraction of the time budget.
DENSE_TIME_SHARE = 0.8
_ROUNDED_ROWS = 2048  # dense features are computed and rounded for this many rows at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted(ABC):
    """A candidate fitted to the training rows of a split, and scored on its validation rows.

    ``is_cross_validated`` is True if ``validation`` is by all splits instead.
    """

    goal: Goal
    relevance: FloatArray = field(repr=False)
    validation: ValidationResult | None = None
    is_cross_validated: bool = False

    @property
    def score(self) -> float:
        """The score of the validation rows; infinite if there is none."""
        return np.inf if self.validation is None else self.validation.score

    def prepared(self, task: SelectionTask) -> Fitted:
        """Return the candidate with everything that the final fit needs of the split."""
        return self

    @abstractmethod
    def finish(self, task: SelectionTask) -> SelectedModel:
        """Return the model with the features of all rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedFeatures(Fitted):
    """Features of all rows, in the order training, validation, neither.

    :class:`SelectedModel` documents the attributes.
    """

    scaler: Scaler
    feature_map: FeatureMap
    matrix: FeatureMatrix
    order: Order = field(repr=False)
    settings: Hyperparameters
    bandwidth: Any = None
    count_power: float = 0.0
    rounding_step: float = 0.0
    start: Vector | None = field(default=None, repr=False)
    products: SingleRowProducts | None = field(default=None, repr=False)

    def finish(self, task: SelectionTask) -> SelectedModel:
        order, matrix = final_rows(task.data, self.order, self.matrix)
        return SelectedModel(
            scaler=self.scaler,
            feature_map=self.feature_map,
            matrix=matrix,
            order=order,
            settings=self.settings,
            bandwidth=self.bandwidth,
            relevance=self.relevance,
            validation=self.validation,
            growth=task.growth,
            trials=[trial.as_dict() for trial in task.trials],
            limits=task.budget.limits,
            loss=self.goal.loss,
            start=self.start,
            signs=self.goal.signs,
            rounding_step=self.rounding_step,
            count_power=self.count_power,
            products=self.products,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class GrownFeatures(FittedFeatures):
    """Grown grids and the features beside them, or a trend in their place.

    ``rows`` are the scaled rows in the order of the features.
    """

    can_be_refined: ClassVar[bool] = True
    rows: Rows = field(repr=False)

    @property
    def result(self) -> ValidationResult:
        assert self.validation is not None
        return self.validation

    @property
    def weights(self) -> Vector:
        """The weights of the fit to the training rows, that of the intercept last."""
        assert self.result.weights is not None
        return self.result.weights

    @property
    def binning(self) -> GivenBinning:
        bins = parts_of(self.feature_map)[0]
        assert isinstance(bins, GivenBinning)
        return bins

    @property
    def parts(self) -> list[tuple[FeatureMap, FeatureMatrix]]:
        matrices = (matrix for _, matrix in stacked_parts(self.matrix))
        return list(zip(parts_of(self.feature_map), matrices, strict=True))

    def validated(
        self,
        task: SelectionTask,
        alpha: float,
        start: Vector | None = None,
        beat: float = np.inf,
        description: str | None = None,
    ) -> Self:
        matrix = with_row_products(task, self.goal, self.matrix)
        result = validate(task, self.goal, matrix, task.split, alpha, start, beat)
        return self.recorded(task, result, description)

    def recorded(
        self, task: SelectionTask, result: ValidationResult, description: str | None = None
    ) -> Self:
        settings = self.settings
        if task.fixed.alpha is None:
            settings = replace(settings, alpha=result.alpha / task.data.n_fitted)
        size = len(self.binning.grids) if description is None else self.matrix.shape[1]
        n_training = len(task.split[0])
        record(task, self.goal, "validation", settings, result, n_training, size, description)
        return replace(self, validation=result, settings=settings)

    def beside(
        self,
        task: SelectionTask,
        others: Sequence[tuple[FeatureMap, FeatureMatrix]],
        others_weights: Vector | None = None,
    ) -> Self:
        """Return these features with others beside them, validated.

        The fit starts from the weights of these features or, if they are given, from weights of
        the others alone, that of the intercept last.
        """
        weights, n_columns = self.weights, self.matrix.shape[1]
        parts = [*self.parts, *others]
        scales = [1.0] * len(parts)
        matrix = HStack([part_matrix for _, part_matrix in parts], scales)
        start = np.zeros((matrix.shape[1] + int(task.data.intercept), *weights.shape[1:]))

        def copy(first: int, last: int) -> None:
            start[first:last] = weights[first:last]

        if others_weights is None:
            start[matrix.shape[1] :] = weights[n_columns:]
            map_blocks(copy, row_blocks(n_columns, _COPIED_WEIGHTS), task.n_jobs)
        else:
            start[n_columns:] = others_weights
        feature_map = JoinedMaps.of([part for part, _ in parts], scales, task.n_jobs)
        both = replace(self, feature_map=feature_map, matrix=matrix)
        return both.validated(task, self.result.alpha, start, self.score)

    def prepared(self, task: SelectionTask) -> Self:
        """Return these features with the rounding step of weights, and the row products."""
        step = 0.0
        if isinstance(parts_of(self.feature_map)[0], GivenBinning):
            weights = self.result.weights
            step = coarsest_step(self.goal, task.data, self.matrix, task.split, weights)
        matrix = with_row_products(task, self.goal, self.matrix)
        if not isinstance(matrix, SingleRowProducts):
            return replace(self, rounding_step=step)
        products = final_rows(task.data, self.order, matrix)[1]
        assert isinstance(products, SingleRowProducts)
        return replace(self, rounding_step=step, products=products)


class Candidate(ABC):
    """A kind of model that selection may try: when, at what cost, and how it is fitted.

    Attributes
    ----------
    name : str
        The name in ``limits_`` if time or memory does not allow the trial.
    time_share : float
        The share of a time budget by which the trial must have ended.
    """

    name: ClassVar[str]
    time_share: ClassVar[float] = math.inf

    @abstractmethod
    def applies(self, task: SelectionTask, best: Fitted | None) -> bool:
        """Return whether the candidate is worth trying beside the best one so far."""

    def cost(self, task: SelectionTask, best: Fitted | None) -> Cost:
        """Return the seconds and bytes of a trial; nothing by default."""
        return Cost()

    @abstractmethod
    def fit(self, task: SelectionTask, best: Fitted | None) -> Fitted | None:
        """Fit and validate the candidate; None if it cannot beat the best."""

    def replaces(self, task: SelectionTask, best: Fitted, fitted: Fitted) -> bool:
        """Return whether a fitted candidate takes the place of the best one so far."""
        return fitted.score < scaled_score(best.score, REQUIRED_GAIN)


class Refinement(Candidate):
    """A candidate that changes grown features, or puts others beside them."""

    def applies(self, task: SelectionTask, best: Fitted | None) -> bool:
        is_open = isinstance(best, GrownFeatures) and best.can_be_refined
        return is_open and self.is_wanted(task)

    @abstractmethod
    def is_wanted(self, task: SelectionTask) -> bool:
        """Return whether the task and its configuration ask for the refinement."""

    def cost(self, task: SelectionTask, best: Fitted | None) -> Cost:
        assert isinstance(best, GrownFeatures)
        return self.refinement_cost(task, best)

    def refinement_cost(self, task: SelectionTask, best: GrownFeatures) -> Cost:
        """Return the seconds and bytes of :meth:`refine`; nothing by default."""
        return Cost()

    def fit(self, task: SelectionTask, best: Fitted | None) -> Fitted | None:
        assert isinstance(best, GrownFeatures)
        return self.refine(task, best)

    @abstractmethod
    def refine(self, task: SelectionTask, best: GrownFeatures) -> GrownFeatures | None:
        """Return the refined features, validated; None if they cannot be better."""


def dense_features(
    maps: Sequence[FeatureMap], rows: FloatArray, n_jobs: int | None
) -> list[tuple[FeatureMap, FeatureMatrix]]:
    """Return maps with their features of the rows in single precision."""
    # In single precision, because solvers read them many times.
    blocks = row_blocks(len(rows), _ROUNDED_ROWS)

    def compute(
        feature_map: FeatureMap, features: NDArray[np.float32], first: int, last: int
    ) -> None:
        features[first:last] = feature_map.transform(rows[first:last])

    parts: list[tuple[FeatureMap, FeatureMatrix]] = []
    for part in maps:
        features = np.empty((len(rows), len(part.get_feature_names_out())), np.float32)
        map_blocks(compute, [(part, features, *block) for block in blocks], n_jobs)
        parts.append((part, DenseMatrix(features, n_jobs)))
    return parts
