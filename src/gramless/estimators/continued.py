"""A fit that goes on: with all rows by ``warm_start``, with new ones by ``partial_fit``."""

from __future__ import annotations

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

_MOST_LANDMARKS = 5000
"""Of kernel ridge regression that goes on: its time grows with the cube of the rows."""
FREE_TO_CHANGE = frozenset(
    [
        *("alpha", "calibrate", "class_weight", "max_iter", "memory_budget", "n_jobs", "solver"),
        *("time_budget", "tol", "verbose", "warm_start"),
    ]
)
"""Parameters that steer no choice: with others, a warm start begins anew."""

LOSSES_OF_BATCHES = "squared", "logistic", "multinomial", "squared_hinge"
_LEAST_CURVATURE = 1e-3
"""Of the mean: where a loss is straight, steps must end too."""
# A class that earlier rows lacked has probabilities near 0, where Newton steps have no end.
_LONGEST_STEP = 5.0
_JITTER = 1e-10


def steering_parameters(model: StatefulEstimator) -> dict[str, object]:
    """Return the parameters that steer what a fit chooses."""
    given = model.get_params().items()
    steering = {k: v for k, v in given if k.partition("__")[0] not in FREE_TO_CHANGE}
    return steering | {"chooses alpha": is_auto(model.alpha)}


def keeps_choice(model: StatefulEstimator, X: TableLike) -> bool:
    """Tell whether a fit to rows keeps what the last one chose."""
    if not check_switch(model, "warm_start") or "weights_" not in vars(model):
        return False
    if isinstance(X, (RowTable, LazyRows)):
        return False
    if isinstance(model.features_, KernelExpansion) and _num_samples(X) > _MOST_LANDMARKS:
        return False
    before, now = dict(model._choice), steering_parameters(model)
    # What was found beside a penalty that was given need not be what would be chosen.
    chooses_now, chose_before = now.pop("chooses alpha"), before.pop("chooses alpha")
    if chooses_now and not chose_before:
        return False
    return before.keys() == now.keys() and all(_are_same(before[k], now[k]) for k in now)


def earlier_fit(model: StatefulEstimator, encoder: TargetEncoder, n_rows: int) -> EarlierFit:
    """Return what the last fit chose, for so many rows with encoded targets."""
    n_outputs = model.weights_[:1].size
    if encoder.n_outputs != n_outputs:
        raise InputError(
            f"{type(model).__name__}: targets have {encoder.n_outputs} outputs, and those of "
            f"the fit that goes on had {n_outputs}; set warm_start=False."
        )
    alpha = model._given_alpha()
    if alpha is None:
        alpha = model.alpha_ * (model.n_samples_fit_ or n_rows) / n_rows
    return EarlierFit(
        # Rows of this fit may lie beyond the limits that follow from those before.
        scaler=replace(model.scaler_, limits=None),
        feature_map=model.features_,
        settings=model.settings_,
        alpha=alpha,
        bandwidth=model.bandwidth_,
        relevance=model.relevance_,
        growth=model.growth_,
        weights=encoder.encode_weights(model.weights_, model.intercept_),
    )


def _are_same(first: object, second: object) -> bool:
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.array_equal(np.asarray(first), np.asarray(second))
    return first is second or (type(first) is type(second) and bool(first == second))


def check_batches(model: StatefulEstimator) -> None:
    """Raise ``AttributeError``, which says why, unless rows can be added to such fits."""
    if "weights_" in vars(model):
        loss = model.loss_.name
    else:
        given = model.loss
        named = model._losses_by_name().get(given) if isinstance(given, str) else given
        loss = named.name if isinstance(named, Loss) else given
    if loss not in LOSSES_OF_BATCHES:
        raise AttributeError(
            f"{type(model).__name__}: partial_fit is for the losses "
            f"{', '.join(map(repr, LOSSES_OF_BATCHES))}, got {loss!r}; use fit with "
            f"warm_start=True and all rows."
        )
    params = model.get_params(deep=False)
    settings = {"l1_ratio": 0, "n_posterior": 0, "monotonic_cst": None, "intervals": "split"}
    for name, needed in settings.items():
        if name in params and params[name] != needed:
            raise AttributeError(
                f"{type(model).__name__}: partial_fit needs {name}={needed!r}, got "
                f"{params[name]!r}; use fit with warm_start=True and all rows."
            )


@dataclass(frozen=True, eq=False)
class Batch:
    """New rows in front of a fitted model: their features, and the weights of the model."""

    feature_map: FeatureMap
    matrix: FeatureMatrix
    weights: Vector
    root: FloatArray | None = None

    @classmethod
    def of(cls, model: StatefulEstimator, rows: Rows, encoder: TargetEncoder) -> Batch:
        """Find the bins of rows, new ones too; other features stay as they are."""
        features, n_jobs = model.features_, model.n_jobs
        weights = encoder.encode_weights(model.weights_, model.intercept_)
        scaled = model.scaler_.rows(rows, n_jobs)
        maps = parts_of(features)
        if isinstance(features, KernelExpansion):
            # Whitened, so that the penalty is that of the weights of all landmarks.
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
        both = JoinedMaps.of([bins, *maps[1:]], scales, n_jobs)
        return cls(both, HStack([matrix, *others], scales), weights)

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
        """Return the weights after a Newton step that these rows have a share of.

        The loss of the other rows is taken for stationary at the weights, with the curvature that
        these rows have.
        """
        matrix = with_ones(self.matrix) if intercept else self.matrix
        raw = matrix.matvec(self.weights)
        slopes, bent = (
            columns(np.broadcast_to(own(raw, codes), raw.shape))
            for own in (loss.gradient, loss.surrogate_curvature)
        )
        moved = columns(self.weights.copy())
        for k in range(moved.shape[1]):
            curved = np.maximum(bent[:, k], _LEAST_CURVATURE * max(bent[:, k].mean(), 1e-300))
            if loss.name in PROBABILISTIC:
                curved = np.maximum(curved, np.abs(slopes[:, k]) / _LONGEST_STEP)
            own, mean = weight * curved, float(np.average(curved, weights=weight))
            problem = Problem(
                matrix,
                -share * slopes[:, k] / curved,
                L2(alpha / mean, int(intercept)),
                Squared(),
                own,
            )
            moved[:, k] += solver.solve(problem).weights
        weights = moved.reshape(self.weights.shape)
        if self.root is None:
            return weights
        n = len(self.root)
        unwhitened = solve_triangular(self.root, weights[:n], lower=True, trans="T")
        return np.concatenate([unwhitened, weights[n:]])
