"""What regressor and classifier share: rows to features, choices, the final fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from gramless.base.errors import InputError
from gramless.base.random import RandomState, seed_from
from gramless.base.threads import row_blocks, thread_count
from gramless.estimators.parameters import check_count, check_number
from gramless.features.binning import RandomBinning
from gramless.features.inputs import ROW_OPTIONS, Rows, check_rows, normalise_rows
from gramless.features.scaling import SCALINGS, Scaler, ScalingKind
from gramless.features.table import TableEncoder, is_frame
from gramless.kernels import bandwidth_vector
from gramless.losses import Loss
from gramless.matrices.base import Vector
from gramless.solvers.choose import choose_solver
from gramless.solvers.objective import Solver
from gramless.tuning.alpha import Goal, mean_loss, search_alpha
from gramless.tuning.data import Data, Score
from gramless.tuning.search import Choices, Search, Settings

FEATURE_MAPS = {"binning": RandomBinning}
"""Feature maps by name."""

LEAST_GRIDS, MOST_GRIDS = 512, 2048
_DEFAULT_NONZEROS = 1 << 24
"""A feature map given by name has as many grids as this allows, between the two bounds."""

_ENOUGH_TO_SEARCH = 40
_DEFAULT_ALPHA = 1e-3
_PREDICT_ROWS = 65_536


class KernelMachine(BaseEstimator, ABC):
    """Common base of :class:`KernelRegressor` and :class:`KernelClassifier`."""

    _free_intercept: ClassVar[bool]
    _losses: ClassVar[dict[str, Loss]]

    def __init__(
        self,
        features: str | RandomBinning = "binning",
        *,
        loss: str | Loss = "squared",
        bandwidth: float | Any | str = "auto",
        alpha: float | str = "auto",
        scaling: str = "auto",
        relevance: str = "auto",
        l1_ratio: float = 0.0,
        solver: str | Solver = "auto",
        tol: float = 1e-2,
        max_iter: int = 100,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.loss = loss
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.scaling = scaling
        self.relevance = relevance
        self.l1_ratio = l1_ratio
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Choose what was left on "auto", then fit to all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame (n_samples, n_features)
            Text and categorical columns of a data frame are encoded.
        y : array-like (n_samples,) or, in regression, (n_samples, n_outputs)
        sample_weight : array-like (n_samples,), optional
            Not negative; rows of weight zero count as absent.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        ValueError
            On NaN, infinity, one class, wrong shapes or wrong parameters.
        """
        self._solver(self._named_loss())
        rows, y = self._check_training(X, y)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(
                sample_weight, rows, dtype=np.float64, ensure_non_negative=True
            )
            kept = weight > 0
            if not kept.any():
                raise InputError(f"{type(self).__name__}: every sample weight is zero.")
            rows, y, weight = rows[kept], y[kept], weight[kept] / weight.max()
        weight = self._weigh(y, weight)
        data = Data(
            rows, self._encode_targets(y, weight), weight, self._score, self._free_intercept
        )
        self.loss_ = self._loss_of(data.n_outputs)
        solver, self.solver_reason_ = self._solver(self.loss_)
        seed = seed_from(self.random_state)
        feature_map = self._feature_map(data, seed)
        search = self._search(data, clone(feature_map), seed)
        settings = self._settings(search)
        self._final_fit(data, feature_map, settings, search, solver)
        return self

    def _solver(self, loss: Loss) -> tuple[Solver, str]:
        """Check what a solve needs; return the solver and the reason."""
        thread_count(self.n_jobs)
        tol, max_iter = check_number(self, "tol"), check_count(self, "max_iter")
        return choose_solver(
            self.solver,
            tol=tol,
            max_iter=max_iter,
            loss=loss,
            l1_ratio=check_number(self, "l1_ratio", high=1.0),
            n_jobs=self.n_jobs,
        )

    def _named_loss(self) -> Loss:
        """Return the loss by its name, or as it is given."""
        if isinstance(self.loss, str) and self.loss in self._losses:
            return self._losses[self.loss]
        if not isinstance(self.loss, str) and type(self.loss) in map(type, self._losses.values()):
            return self.loss
        raise InputError(
            f"{type(self).__name__}: loss must be one of {', '.join(map(repr, self._losses))}; "
            f"got {self.loss!r}."
        )

    def _loss_of(self, n_outputs: int) -> Loss:
        """Return the loss of so many outputs."""
        return self._named_loss()

    def _weigh(self, y: NDArray, weight: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """Return the weights of the rows, with those that the targets ask for."""
        return weight

    def _check_training(self, X: Any, y: Any) -> tuple[Rows, NDArray]:
        self.encoder_ = None
        if is_frame(X):
            self.encoder_ = TableEncoder().fit(X)
        encoded = X if self.encoder_ is None else self.encoder_.transform(X)
        rows, y = validate_data(self, encoded, y, **ROW_OPTIONS, **self._target_options())
        if self.encoder_ is not None:
            self.feature_names_in_ = np.asarray(self.encoder_.names, dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        return normalise_rows(rows), self._check_targets(y)

    def _feature_map(self, data: Data, seed: int) -> RandomBinning:
        if isinstance(self.features, str):
            if self.features not in FEATURE_MAPS:
                raise InputError(
                    f"unknown features {self.features!r}; use one of "
                    f"{', '.join(map(repr, FEATURE_MAPS))} or a feature map such as "
                    f"RandomBinning(n_grids=1024)."
                )
            affordable = _DEFAULT_NONZEROS // (data.rows.shape[0] * data.n_outputs)
            return FEATURE_MAPS[self.features](
                n_grids=int(np.clip(affordable, LEAST_GRIDS, MOST_GRIDS)),
                random_state=seed,
                n_jobs=self.n_jobs,
            )
        if not hasattr(self.features, "fit_rows") or isinstance(self.features, type):
            raise InputError(
                f"features must be a name or a feature map such as RandomBinning(), "
                f"got {self.features!r}."
            )
        chosen: RandomBinning = clone(self.features)
        chosen.check_parameters()
        if chosen.random_state is None:
            chosen.set_params(random_state=seed)
        if chosen.n_jobs is None:
            chosen.set_params(n_jobs=self.n_jobs)
        return chosen

    def _search(self, data: Data, feature_map: RandomBinning, seed: int) -> Search:
        if self.relevance not in ("auto", "equal"):
            raise InputError(f"relevance must be 'auto' or 'equal', got {self.relevance!r}.")
        choices = Choices(
            self._scalings(data.rows),
            self._given_bandwidth(data.rows.shape[1]),
            self._given_alpha(),
            self.relevance == "auto",
        )
        return Search(data, feature_map, choices, seed, self.n_jobs, self._say)

    def _settings(self, search: Search) -> Settings:
        """Return what to fit with: as given, searched, or by rule when rows are few."""
        choices = search.choices
        given = choices.bandwidth is not None and choices.alpha is not None
        decided = given and len(choices.scalings) == 1
        if decided or search.data.rows.shape[0] < _ENOUGH_TO_SEARCH:
            alpha = _DEFAULT_ALPHA if choices.alpha is None else choices.alpha
            return choices.settings(alpha)
        settings = search.run()
        if choices.alpha is None and (self.loss_.name != "squared" or self.l1_ratio > 0):
            score = self._score if self.loss_.name == "squared" else self._score_of(self.loss_)
            goal = Goal(self.loss_, float(self.l1_ratio), score)
            settings = search_alpha(search, settings, goal)
        return settings

    def _final_fit(
        self,
        data: Data,
        feature_map: RandomBinning,
        settings: Settings,
        search: Search,
        solver: Solver,
    ) -> None:
        self.settings_, self.search_ = settings, [trial.as_dict() for trial in search.trials]
        self.alpha_ = settings.alpha
        equal = Scaler.fit(settings.scaling, data.rows, data.sample_weight)
        self.scaler_ = equal.weighted(settings.relevance)
        self.relevance_ = (
            np.ones(len(equal.unit)) if settings.relevance is None else settings.relevance
        )
        self.bandwidth_ = search.bandwidth(settings, self.scaler_)
        feature_map.set_params(bandwidth=self.bandwidth_ * self.scaler_.unit)
        Z = data.matrix(feature_map.fit_rows(self.scaler_.rows(data.rows, self.n_jobs)))
        self.features_ = feature_map
        penalty = data.penalty(self.alpha_, float(self.l1_ratio))
        problem = replace(data.problem(Z, self.alpha_), loss=self.loss_, penalty=penalty)
        solution = solver.solve(problem)
        weights = self._without_zeros(solution.weights, feature_map)
        self.coef_, self.intercept_ = self._in_units(weights)
        self.n_iter_, self.status_, self.history_ = (
            solution.n_iter,
            solution.status,
            solution.history,
        )
        self._say(
            f"final fit: {Z.shape[0]} rows, {Z.shape[1]} columns, {self.solver_reason_}; "
            f"{self.status_} after {self.n_iter_} iterations"
        )

    def _without_zeros(self, weights: Vector, feature_map: RandomBinning) -> Vector:
        """Forget the bins that an L1 penalty has left without weight, and say how many."""
        n_bins = int(feature_map.offsets_[-1])
        used = np.ones(n_bins, bool)
        if self.l1_ratio > 0:
            used[:] = weights[:n_bins].reshape(n_bins, -1).any(axis=1)
            used[0] |= not used.any()
            feature_map.keep_bins(used)
        self.sparsity_ = 1.0 - np.count_nonzero(used) / n_bins
        return weights[np.append(used, np.ones(len(weights) - n_bins, bool))]

    def _responses(self, X: Any) -> Vector:
        """Return ``Z w + intercept`` for new rows, a block at a time."""
        check_is_fitted(self, "coef_")
        rows = self._check_new(X)
        out = np.empty((rows.shape[0], *self.coef_.shape[1:]))
        for a, b in row_blocks(rows.shape[0], _PREDICT_ROWS):
            part = self.scaler_.rows(rows[a:b], self.n_jobs)
            self.features_.rows_matrix(part).matvec(self.coef_, out[a:b])
        out += self.intercept_
        return out

    def _check_new(self, X: Any) -> Rows:
        if self.encoder_ is None:
            return check_rows(self, X, reset=False)
        if is_frame(X):
            return normalise_rows(self.encoder_.transform(X))
        raise InputError(
            f"{type(self).__name__} was fitted on a table with named columns; pass a data frame "
            f"with the columns {', '.join(map(str, self.encoder_.names[:5]))}, ..."
        )

    def _scalings(self, rows: Rows) -> tuple[ScalingKind, ...]:
        if self.scaling == "auto":
            return ("standard", "none") if sp.issparse(rows) else ("standard", "quantile")
        for kind in SCALINGS:
            if self.scaling == kind:
                return (kind,)
        raise InputError(
            f"scaling must be 'auto' or one of {', '.join(map(repr, SCALINGS))}, "
            f"got {self.scaling!r}."
        )

    def _given_bandwidth(self, n_features: int) -> NDArray[np.float64] | None:
        own = getattr(self.features, "bandwidth", "median")
        given = self.bandwidth if not _is_auto(self.bandwidth) else own
        if isinstance(given, str) and given in ("auto", "median"):
            return None
        bandwidth_vector(given, n_features)
        return np.asarray(given, np.float64)

    def _given_alpha(self) -> float | None:
        return None if _is_auto(self.alpha) else check_number(self, "alpha")

    def _say(self, line: str) -> None:
        if self.verbose:
            print(f"[{type(self).__name__}] {line}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _score_of(self, loss: Loss) -> Score:
        """Return how alpha is judged for a loss: by its mean on held-back rows."""
        return mean_loss(loss)

    @abstractmethod
    def _target_options(self) -> dict[str, Any]:
        """Return how ``validate_data`` treats the targets."""

    @abstractmethod
    def _check_targets(self, y: NDArray) -> NDArray:
        """Return the targets in the shape that the estimator works with."""

    @abstractmethod
    def _encode_targets(self, y: NDArray, weight: NDArray[np.float64] | None) -> Vector:
        """Return the numbers to fit, (n,) or (n, K); learn what undoes it."""

    @abstractmethod
    def _in_units(self, weights: Vector) -> tuple[Vector, Any]:
        """Return (coef, intercept) in units of the targets as given."""

    @staticmethod
    @abstractmethod
    def _score(z: Vector, y: Vector, weight: NDArray[np.float64] | None) -> float:
        """Judge predictions of held-back rows; smaller is better."""


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
