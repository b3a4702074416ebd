"""Continued fits: ``warm_start`` with all rows, ``partial_fit`` with new rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.utils.validation import _num_samples

from gramless.base.errors import InputError
from gramless.base.lazy_rows import LazyRows
from gramless.base.state import StatefulEstimator
from gramless.base.threads import one_blas_thread
from gramless.base.types import AnyArray, FloatArray, RowTable, TableLike
from gramless.estimators.parameters import check_switch, is_auto
from gramless.estimators.targets import PROBABILISTIC, TargetEncoder
from gramless.features.base import FeatureMap
from gramless.features.binning import BinningMap
from gramless.features.expansion import KernelExpansion
from gramless.features.hybrid import JoinedMaps, parts_of
from gramless.losses import Loss, Squared
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import HStack, with_ones
from gramless.penalties import L2
from gramless.preprocessing.rows import Rows
from gramless.selection.task import EarlierFit
from gramless.solvers.base import Solver
from gramless.solvers.objective import Problem, columns

# A warm start of kernel ridge regression takes time proportional to the cube of the rows.
_MAX_LANDMARKS = 5000
# Parameters that do not affect the selection; a warm start ignores their changes.
FREE_TO_CHANGE = frozenset(
    [
        *(
            "alpha",
            "calibrate",
            "class_weight",
            "client",
            "max_iter",
            "memory_budget",
            "n_jobs",
            "solver",
        ),
        *("time_budget", "tol", "verbose", "warm_start"),
    ]
)

LOSSES_OF_BATCHES = "squared", "logistic", "multinomial", "squared_hinge"
_FURTHER_NAMES = "squared_error", "log_loss", "auto"  # of the parameter ``loss``, for these losses
# Curvatures are at least this share of their mean, so that steps are finite in linear parts.
_MIN_RELATIVE_CURVATURE = 1e-3
# A class that earlier rows lack has probabilities near 0, at which Newton steps diverge.
_MAX_STEP = 5.0
_JITTER = 1e-10


def steering_parameters(model: StatefulEstimator) -> dict[str, object]:
    """Return the parameters that affect the selection of a fit."""
    params = model.get_params().items()
    steering = {k: v for k, v in params if k.partition("__")[0] not in FREE_TO_CHANGE}
    return steering | {"chooses alpha": is_auto(model.alpha)}


def keeps_choice(
    model: StatefulEstimator, before: Mapping[str, object] | None, X: TableLike
) -> bool:
    """Return whether a fit to the rows ``X`` keeps the selection of the last fit.

    ``before`` are the steering parameters of that fit, or None if there was none.
    """
    if not check_switch(model, "warm_start") or before is None:
        return False
    if isinstance(X, (RowTable, LazyRows)):
        return False
    if isinstance(model.features_, KernelExpansion) and _num_samples(X) > _MAX_LANDMARKS:
        return False
    now = steering_parameters(model)
    # A selection for a given penalty need not be the best one if the penalty is selected too.
    if now.pop("chooses alpha") and not before["chooses alpha"]:
        return False
    same_names = before.keys() - {"chooses alpha"} == now.keys()
    return same_names and all(_are_equal(before[k], now[k]) for k in now)


def earlier_fit(
    model: StatefulEstimator, encoder: TargetEncoder, n_rows: int, alpha: float | None
) -> EarlierFit:
    """Return the selection of the last fit for a fit to ``n_rows`` rows.

    If ``alpha`` is None, the penalty is that of the last fit.
    """
    n_outputs = model.weights_[:1].size
    if encoder.n_outputs != n_outputs:
        raise InputError(
            f"{type(model).__name__}: targets have {encoder.n_outputs} outputs, but those of "
            f"the previous fit had {n_outputs}; set warm_start=False."
        )
    if alpha is None:
        alpha = model.alpha_ * (model.n_samples_fit_ or n_rows) / n_rows
    # The landmarks of a kernel machine are rows, which it predicts better than others: weights that
    # are fitted to the same rows would rely on it alone.
    features, _ = split_added_kernel(model.features_)
    weights = encoder.encode_weights(model.weights_, model.intercept_)
    weights, _ = split_weights(features, weights, len(model.weights_))
    return EarlierFit(
        # The limits follow from the earlier rows; these rows can exceed them.
        scaler=replace(model.scaler_, limits=None),
        feature_map=features,
        settings=model.settings_,
        alpha=alpha,
        bandwidth=model.bandwidth_,
        relevance=model.relevance_,
        growth=model.growth_,
        weights=weights,
    )


def split_added_kernel(features: FeatureMap) -> tuple[FeatureMap, KernelExpansion | None]:
    """Return the map without a kernel machine that was added to it, and that machine."""
    maps = parts_of(features)
    if not isinstance(features, JoinedMaps) or not isinstance(maps[-1], KernelExpansion):
        return features, None
    scales = features.scales_[:-1].tolist()
    rest = maps[0] if len(scales) == 1 else JoinedMaps.of(maps[:-1], scales, features.n_jobs)
    return rest, maps[-1]


def split_weights(features: FeatureMap, weights: Vector, n_columns: int) -> tuple[Vector, Vector]:
    """Return the weights of the first features and of the intercept, and those of other features.

    There are ``n_columns`` features in all; the weight of the intercept, if any, comes last.
    """
    n = features.n_features_out
    return np.concatenate([weights[:n], weights[n_columns:]]), weights[n:n_columns]


def _are_equal(first: object, second: object) -> bool:
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.array_equal(np.asarray(first), np.asarray(second))
    return first is second or (type(first) is type(second) and bool(first == second))


def check_batches(model: StatefulEstimator) -> None:
    """Raise ``AttributeError`` with the reason unless the model supports ``partial_fit``."""
    loss = model.loss_ if "weights_" in vars(model) else model.loss
    loss = loss.name if isinstance(loss, Loss) else loss
    if loss not in (*LOSSES_OF_BATCHES, *_FURTHER_NAMES):
        raise AttributeError(
            f"{type(model).__name__}: partial_fit supports the losses "
            f"{', '.join(map(repr, LOSSES_OF_BATCHES))}, got {loss!r}; use fit with "
            f"warm_start=True and all rows."
        )
    params = model.get_params(deep=False)
    required = {"l1_ratio": 0, "n_posterior": 0, "monotonic_cst": None, "intervals": "split"}
    for name, value in required.items():
        if name in params and params[name] != value:
            raise AttributeError(
                f"{type(model).__name__}: partial_fit needs {name}={value!r}, got "
                f"{params[name]!r}; use fit with warm_start=True and all rows."
            )


@dataclass(frozen=True, eq=False)
class Batch:
    """The features of new rows, and the weights of the fitted model for these features.

    A kernel machine that was ``added`` to the features keeps its weights, and adds ``added_raw`` to
    the raw predictions of the rows.
    """

    feature_map: FeatureMap
    matrix: FeatureMatrix
    weights: Vector
    root: FloatArray | None = None
    added: KernelExpansion | None = None
    added_weights: Vector | None = None
    added_raw: Vector | float = 0.0

    @classmethod
    def of(cls, model: StatefulEstimator, rows: Rows, encoder: TargetEncoder) -> Batch:
        """Return the features of rows, with additional columns for new bins."""
        features, added = split_added_kernel(model.features_)
        weights = encoder.encode_weights(model.weights_, model.intercept_)
        weights, added_weights = split_weights(features, weights, len(model.weights_))
        scaled = model.scaler_.rows(rows, model.n_jobs)
        batch = cls._of_features(features, scaled, weights, model.n_jobs)
        if added is None:
            return batch
        raw = added.rows_matrix(scaled).matvec(added_weights)
        return replace(batch, added=added, added_weights=added_weights, added_raw=raw)

    @classmethod
    def _of_features(
        cls, features: FeatureMap, scaled: Rows, weights: Vector, n_jobs: int | None
    ) -> Batch:
        maps = parts_of(features)
        if isinstance(features, KernelExpansion):
            # With whitened features, the penalty on |w|^2 is the norm of the function.
            with one_blas_thread():
                gram = features.transform(features.landmarks_)
                gram[np.diag_indices_from(gram)] += _JITTER * len(gram)
                root = cholesky(gram, lower=True)
                white = solve_triangular(root, features.transform(scaled).T, lower=True).T
                weights = np.concatenate([root.T @ weights[: len(gram)], weights[len(gram) :]])
            dense = DenseMatrix(np.ascontiguousarray(white), n_jobs)
            return cls(features, dense, weights, root)
        if not isinstance(maps[0], BinningMap):
            return cls(features, features.rows_matrix(scaled), weights)
        bins, matrix = maps[0].extended(scaled)
        weights = maps[0].weights_in(bins, weights)
        if not isinstance(features, JoinedMaps):
            return cls(bins, matrix, weights)
        scales = features.scales_.tolist()
        others = [DenseMatrix(np.asarray(part.transform(scaled)), n_jobs) for part in maps[1:]]
        joined = JoinedMaps.of([bins, *maps[1:]], scales, n_jobs)
        return cls(joined, HStack([matrix, *others], scales), weights)

    def all_features(self, n_jobs: int | None) -> FeatureMap:
        """Return the map with all of its parts."""
        if self.added is None:
            return self.feature_map
        maps, scales = parts_of(self.feature_map), [1.0]
        if isinstance(self.feature_map, JoinedMaps):
            scales = self.feature_map.scales_.tolist()
        return JoinedMaps.of([*maps, self.added], [*scales, 1.0], n_jobs)

    def step(
        self,
        loss: Loss,
        codes: AnyArray,
        weight: FloatArray,
        share: float,
        alpha: float,
        intercept: bool,
        solver: Solver,
    ) -> Vector:
        """Return the weights after a Newton step on all rows, of which these are a ``share``.

        The gradient of the earlier rows is assumed to be 0 at the weights, and their curvature to
        be like that of these rows.
        """
        matrix = with_ones(self.matrix) if intercept else self.matrix
        raw = matrix.matvec(self.weights) + self.added_raw
        gradients, curvatures = (
            columns(np.broadcast_to(derivative(raw, codes), raw.shape))
            for derivative in (loss.gradient, loss.surrogate_curvature)
        )
        updated = columns(self.weights.copy())
        for k in range(updated.shape[1]):
            gradient, curvature = gradients[:, k], curvatures[:, k]
            lowest = _MIN_RELATIVE_CURVATURE * max(curvature.mean(), 1e-300)
            curvature = np.maximum(curvature, lowest)
            if loss.name in PROBABILISTIC:
                curvature = np.maximum(curvature, np.abs(gradient) / _MAX_STEP)
            mean = float(np.average(curvature, weights=weight))
            problem = Problem(
                matrix,
                -share * gradient / curvature,
                L2(alpha / mean, int(intercept)),
                Squared(),
                weight * curvature,
            )
            updated[:, k] += solver.solve(problem).weights
        weights = updated.reshape(self.weights.shape)
        if self.added_weights is not None:
            n = self.matrix.shape[1]
            return np.concatenate([weights[:n], self.added_weights, weights[n:]])
        if self.root is None:
            return weights
        n = len(self.root)
        unwhitened = solve_triangular(self.root, weights[:n], lower=True, trans="T")
        return np.concatenate([unwhitened, weights[n:]])
