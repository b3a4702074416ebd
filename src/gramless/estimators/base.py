"""The common base of the estimators: validate, encode, select, solve, learn errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from gramless.base.columns import target_name
from gramless.base.errors import InputError
from gramless.base.lazy_rows import take_rows
from gramless.base.memory import limited_memory, parse_bytes, release_freed_memory
from gramless.base.numeric import rounded_to_multiples, rounded_to_single
from gramless.base.progress import Callbacks, Deadline, Reporter
from gramless.base.random import RandomState, seed_from, stream
from gramless.base.state import (
    State,
    StatefulEstimator,
    array_in,
    number_in,
    part_in,
    require,
)
from gramless.base.threads import one_thread_if_small, thread_count
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, TableLike
from gramless.estimators.continued import Batch, earlier_fit, keeps_choice, steering_parameters
from gramless.estimators.features import check_fitted_features, feature_blocks, given_map, named_map
from gramless.estimators.given_rows import (
    EvalRows,
    EvalSet,
    GivenRows,
    ValidationArguments,
    describe_cv,
    rows_with_weight,
    take_given_rows,
)
from gramless.estimators.inputs import RowInputs, monotone_inputs
from gramless.estimators.parameters import (
    check_choice,
    check_count,
    check_number,
    check_switch,
    is_auto,
    scalings_of,
    unknown_value,
)
from gramless.estimators.scoring import NamedScorer
from gramless.estimators.shared_docs import with_shared_docs
from gramless.estimators.steps import EncodedRows, Selection, scores_by_round, with_scorer
from gramless.estimators.targets import TargetEncoder
from gramless.estimators.validation_warnings import warn_of_validation_rows
from gramless.features.base import FeatureMap, SizedMap
from gramless.features.binning import BinningMap, GivenBinning, RandomBinning
from gramless.features.hybrid import JoinedMaps, parts_of
from gramless.features.shapley import shapley_values
from gramless.features.shapley_grids import Players
from gramless.kernels import bandwidth_vector
from gramless.losses import LOSSES, OUTLIER_BOUND, Loss, Squared, TargetKind
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import take_array_rows
from gramless.matrices.weighted import first_part, plain_matrix, unscaled_weights
from gramless.preprocessing.encoder import TableEncoder
from gramless.preprocessing.rows import Rows, checked_weights, relative_weights, validated_targets
from gramless.selection.bandwidth_search import RELEVANCES
from gramless.selection.budget import (
    LEAST_TO_GROW,
    Budget,
    can_grow,
    check_table,
    rows_in_time,
)
from gramless.selection.candidates.random_features import has_open_settings
from gramless.selection.config import EFFORTS, SearchConfig
from gramless.selection.data import Data
from gramless.selection.goal import Goal
from gramless.selection.pipeline import select
from gramless.selection.selected import AddedKernel, SelectedModel
from gramless.selection.splits import drawn_rows
from gramless.selection.task import FixedChoices, HeldBackRows, SelectionTask
from gramless.selection.validation import relative_error
from gramless.solvers.base import Solver
from gramless.solvers.choose import choose_solver
from gramless.solvers.monotone import MonotoneBins
from gramless.solvers.objective import Problem, Solution, columns
from gramless.uncertainty.conformal import Conformal

_BACKGROUND_ROWS = 200  # rows of the fit that a model keeps to explain predictions by
# Warm starts have a smaller tolerance, so that rows absent from the earlier fit still matter.
_WARM_TOL = 0.3
# Below a tenth of the targets' standard deviation, the tolerance is proportional to the validation
# error, down to a minimum.
_ERROR_FACTOR, _MIN_TOL = 10.0, 1e-4


@dataclass(eq=False, repr=False)
class KernelMachine(StatefulEstimator, ABC):
    """Common base of :class:`KernelRegressor` and :class:`KernelClassifier`.

    The parameters are fields of a dataclass, which writes the constructors of both.
    """

    _former_attributes: ClassVar = {"coef_": "weights_"}
    _losses: ClassVar[dict[str, Loss]]
    _target_kinds: ClassVar[tuple[TargetKind, ...]]
    _target_options: ClassVar[dict[str, object]]  # of scikit-learn's validate_data

    features: str | SizedMap = "binning"
    _: KW_ONLY
    loss: str | Loss = "squared"
    bandwidth: float | ArrayLike | str = "auto"
    alpha: float | str = "auto"
    scaling: str = "auto"
    categorical_features: str | ArrayLike = "auto"
    relevance: str = "auto"
    grids: str = "auto"
    n_grids: int | str = "auto"
    l1_ratio: float = 0.0
    monotonic_cst: ArrayLike | Mapping[str, int] | None = None
    calibrate: bool | str = "auto"
    scoring: str | Callable[..., float] | None = None
    cv: Any = None
    effort: int = 3
    time_budget: float | None = None
    memory_budget: int | float | str | None = None
    solver: str | Solver = "auto"
    tol: float = 1e-2
    max_iter: int = 100
    random_state: RandomState = None
    warm_start: bool = False
    n_jobs: int | None = None
    verbose: int = 0

    @with_shared_docs()
    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        X_val: TableLike | None = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        callbacks: Callbacks = None,
        eval_set: EvalSet = None,
    ) -> Self:
        """Select everything that is left on "auto", then fit the model to all rows.

        Parameters
        ----------
        %(fit_rows)s
        y : array-like (n_samples,) or, in regression, (n_samples, n_outputs)
            Targets.
        %(fit_options)s

        Returns
        -------
        The estimator itself.

        Raises
        ------
        ValueError
            If numbers are infinite, rows that stay sparse or targets hold NaN, there is only one
            class or one group, shapes or parameters are wrong, or scores are not finite.
        """
        with limited_memory(self._memory()):
            validation = ValidationArguments.of(
                type(self).__name__, eval_set, X_val, y_val, sample_weight_val
            )
            selection = self._select_model(X, y, sample_weight, groups, callbacks, validation)
            if validation is not None:
                warn_of_validation_rows(self, selection)
            with one_thread_if_small(selection.data.rows.shape, self.n_jobs):
                self._solve(selection)
                self._learn_errors(selection)
        self.target_name_: str | None = target_name(y)
        self._choice = steering_parameters(self)
        return self

    def _add_rows(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
    ) -> Self:
        """Update the weights by a batch of rows, see :meth:`KernelRegressor.partial_fit`."""
        used = rows_with_weight(type(self).__name__, sample_weight, X, y)
        if used is not None:
            X, y, sample_weight = (take_given_rows(part, used) for part in (X, y, sample_weight))
        rows, targets = self._known_rows(X, self._plain_targets(y))
        targets = self._check_targets(targets)
        weight = np.ones(len(targets))
        if sample_weight is not None:
            weight = self._check_weight(sample_weight, rows)
        encoder = self._encoder_of_batch(targets)
        weight = np.asarray(self._weigh(targets, weight))
        batch = Batch.of(self, rows, encoder)
        n_rows = self.n_samples_fit_ + len(targets)
        given, share = self._given_alpha(), len(targets) / n_rows
        alpha = self.alpha_ * (1.0 - share) if given is None else given
        solver, _ = self._solver(Squared(), batch.matrix, tighten=_WARM_TOL)
        codes, intercept = encoder.encode(targets), encoder.fits_intercept
        weights = batch.step(self.loss_, codes, weight, share, alpha, intercept, solver)
        self.features_ = batch.all_features(self.n_jobs)
        self.alpha_: float = alpha
        self.n_samples_fit_: int = n_rows
        self.weights_, self.intercept_ = encoder.decode_weights(weights)
        return self

    def _encoder_of_batch(self, y: AnyArray) -> TargetEncoder:
        """Return the encoder of a batch of targets, in the units of the weights."""
        return self._target_encoder_again(y, None)

    def _target_encoder_again(self, y: AnyArray, weight: FloatArray | None) -> TargetEncoder:
        """Return the target encoder for a further fit of a fitted model."""
        return self._target_encoder(y, weight)

    def _select_model(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
        callbacks: Callbacks,
        validation: ValidationArguments | None = None,
    ) -> Selection:
        """Validate and encode the rows, then select everything that is left on "auto"."""
        self._solver(self._named_loss())
        self._search_config()
        deadline = self._deadline()
        encoded = self._encode(X, y, sample_weight, groups, validation, deadline)
        report = Reporter(type(self).__name__, callbacks, bool(self.verbose))
        with one_thread_if_small(encoded.data.rows.shape, self.n_jobs):
            task = self._selection_task(encoded, report, deadline)
            return self._selection(task, encoded)

    def _encode(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
        validation: ValidationArguments | None,
        deadline: Deadline,
    ) -> EncodedRows:
        """Return encoded rows, targets and weights after checks.

        Rows of weight 0 are left out, and some others if a time budget is too short for all rows.
        """
        # Validation rows come first, because checks of training targets set attributes.
        validation_rows = None if validation is None else EvalRows.of(self, validation)
        table, used_weight = X, sample_weight
        used = rows_with_weight(type(self).__name__, sample_weight, X, y)
        if used is not None:
            X, y, used_weight = (take_given_rows(part, used) for part in (X, y, sample_weight))
        y, goes_on = self._plain_targets(y), keeps_choice(self, X)
        if goes_on:
            rows, targets = self._known_rows(X, y)
        else:
            self.inputs_, rows, targets = RowInputs.fit(
                self, X, y, self.categorical_features, self._target_options
            )
        check_table(rows)
        targets, weight = self._check_targets(targets), None
        if used_weight is not None:
            weight = self._check_weight(used_weight, rows)
        given = GivenRows.of(self, table, targets, weight, groups, used)
        if weight is not None and not weight.all():
            rows, targets, weight = _take(weight > 0, rows, targets, weight)
        weight = self._weigh(targets, weight)
        encode = self._target_encoder_again if goes_on else self._target_encoder
        encoder, n_given = encode(targets, weight), len(targets)
        seed, classes = seed_from(self.random_state), encoder.class_numbers(targets)
        max_rows = rows_in_time(rows, encoder.n_outputs, deadline.seconds)
        if max_rows < len(targets):
            sample = drawn_rows(len(targets), max_rows, seed, classes)
            rows, targets, weight = _take(sample, rows, targets, weight)
            given = given.keep_used(sample)
            classes = None if classes is None else classes[sample]
        data = self._data(rows, targets, weight, encoder)
        has_splits = self.cv is not None or groups is not None or validation_rows is not None
        if has_splits and weight is not None:
            data = replace(data, count_unit=_count(sample_weight, given.used) / weight.sum())
        if validation_rows is not None:
            data, given, classes = self._with_validation_rows(
                data, targets, given, classes, validation_rows, encoder
            )
        return EncodedRows(
            data=data,
            given=given,
            classes=classes,
            encoder=encoder,
            seed=seed,
            n_given=n_given,
            goes_on=goes_on,
        )

    def _known_rows(self, X: TableLike, y: ArrayLike) -> tuple[Rows, AnyArray]:
        """Return the inputs of more rows by the conversion of the first fit, and their targets."""
        self.inputs_ = self.inputs_.with_categories_of(self, X)
        rows = self.inputs_.transform(self, X)
        targets = validated_targets(self, y, **self._target_options)
        if rows.shape[0] != len(targets):
            raise InputError(
                f"{type(self).__name__}: X has {rows.shape[0]} rows and y {len(targets)}; give one "
                f"target per row."
            )
        return rows, targets

    def _selection_task(
        self, encoded: EncodedRows, report: Reporter, deadline: Deadline
    ) -> SelectionTask:
        """Return the selection task: rows, goals, fixed settings and budget."""
        data, given, encoder = encoded.data, encoded.given, encoded.encoder
        held_back = HeldBackRows(
            data=data,
            seed=encoded.seed,
            report=report,
            n_jobs=self.n_jobs,
            classes=encoded.classes,
            folds=given.folds(self, encoded.classes, encoded.seed),
        )
        n_given = encoded.n_given + data.n_validation
        feature_map = self._feature_map(data, encoded.seed)
        fixed, monotone = (
            self._fixed_choices(data, feature_map),
            monotone_inputs(self, data.n_outputs),
        )
        if encoded.goes_on:
            grows = self.settings_.grids == "grown"
        else:
            grows = self._grows_grids(held_back, feature_map, fixed, monotone)
        self.loss_ = self._loss_of(data.n_outputs, grows)
        self._solver(self.loss_)
        task = SelectionTask(
            data=data,
            held_back=held_back,
            goal=Goal(self.loss_, float(self.l1_ratio), encoder.score_of(self.loss_)),
            least_squares=self._least_squares(encoder),
            fixed=fixed,
            feature_map=feature_map,
            config=self._search_config().of_targets(self.loss_, data.n_fitted),
            budget=Budget(data.rows.shape, deadline, report, data.n_outputs, n_given),
            seed=encoded.seed,
            n_jobs=self.n_jobs,
            report=report,
            grows_grids=grows,
            earlier=earlier_fit(self, encoder, data.n_fitted) if encoded.goes_on else None,
            monotone=monotone,
        )
        has_new_rows = data.n_validation > 0 and not encoded.goes_on
        task = replace(task, validates=self._learns_errors(task) or has_new_rows)
        scorer = NamedScorer.of(self)
        return task if scorer is None else with_scorer(scorer, task, given, encoder)

    def _selection(self, task: SelectionTask, encoded: EncodedRows) -> Selection:
        """Select a model, and set the fitted attributes that describe the selection."""
        data, budget = task.data, task.budget
        selected = select(task)
        self.loss_ = selected.loss
        goal = replace(task.goal, loss=selected.loss)
        errors = selected.validation if self._learns_errors(task) else None
        if errors is not None:
            errors = errors.of_rows(budget.judged_rows(len(errors.rows)))
        self.scorer_ = "loss" if task.goal.scorer is None else task.goal.scorer.name
        self.cv_ = "eval_set" if data.n_validation else describe_cv(self.cv, encoded.given.groups)
        scores = {"valid_0": scores_by_round(selected, goal, data)} if data.n_validation else {}
        self.evals_result_ = scores
        return Selection(
            data=data,
            goal=goal,
            selected=selected,
            errors=errors,
            encoder=encoded.encoder,
            report=task.report,
            deadline=budget.deadline,
            given=encoded.given,
        )

    def _with_validation_rows(
        self,
        data: Data,
        targets: AnyArray,
        given: GivenRows,
        classes: IntArray | None,
        validation_rows: EvalRows,
        encoder: TargetEncoder,
    ) -> tuple[Data, GivenRows, IntArray | None]:
        """Return training rows followed by validation rows, and the classes of both."""
        rows = validation_rows.inputs(self, data.rows)
        codes = validation_rows.codes(self, encoder, targets)
        weight = self._validation_weights(validation_rows, data, given)
        if classes is not None:
            indices = encoder.class_numbers(validation_rows.targets)
            assert indices is not None
            classes = np.concatenate([classes, indices])
        plain_weight = validation_rows.weight_like(given.weight)
        given = given.followed_by(validation_rows.table, validation_rows.targets, plain_weight)
        return data.with_validation_rows(rows, codes, weight), given, classes

    def _validation_weights(
        self, validation_rows: EvalRows, data: Data, given: GivenRows
    ) -> FloatArray | None:
        """Return the weights of validation rows in losses, scaled to those of training rows."""
        return validation_rows.weight_like(data.sample_weight)

    def _data(
        self, rows: Rows, targets: AnyArray, weight: FloatArray | None, encoder: TargetEncoder
    ) -> Data:
        """Return the rows with their encoded targets."""
        return Data(
            rows,
            encoder.encode(targets),
            weight,
            encoder.score,
            encoder.fits_intercept,
            self.inputs_.categorical,
            measure=encoder.measure,
            outlier_bound=OUTLIER_BOUND if self._named_loss().robust else None,
        )

    def _check_weight(self, sample_weight: ArrayLike, rows: Rows) -> FloatArray:
        """Return sample weights relative to the largest, with negligible ones as zeros."""
        weight = checked_weights(sample_weight, rows.shape[0], type(self).__name__)
        return relative_weights(weight, weight.max())

    def _deadline(self) -> Deadline:
        """Return the time budget, which starts now."""
        has_budget = self.time_budget is not None
        return Deadline(check_number(self, "time_budget", low=1e-3) if has_budget else None)

    def _memory(self) -> int | None:
        """Return the limit of memory in bytes, or None if there is no limit."""
        if self.memory_budget is None:
            return None
        try:
            return parse_bytes(self.memory_budget)
        except InputError as fault:
            raise InputError(f"{type(self).__name__}: memory_budget: {fault}") from fault

    @property
    def encoder_(self) -> TableEncoder | None:
        """The encoder of data frames, or None if the model was fitted to an array."""
        return self.inputs_.encoder

    def _solver(
        self,
        loss: Loss,
        matrix: FeatureMatrix | None = None,
        n_outputs: int = 1,
        tighten: float = 1.0,
    ) -> tuple[Solver, str]:
        """Return the solver for a matrix and the reason for its choice; check its parameters."""
        thread_count(self.n_jobs)
        tol, max_iter = tighten * check_number(self, "tol"), check_count(self, "max_iter")
        return choose_solver(
            self.solver,
            tol=tol,
            max_iter=max_iter,
            loss=loss,
            l1_ratio=check_number(self, "l1_ratio", high=1.0),
            n_jobs=self.n_jobs,
            matrix=matrix,
            n_outputs=n_outputs,
        )

    def _named_loss(self) -> Loss:
        loss, named = self.loss, self._losses_by_name()
        if isinstance(loss, Loss) and self._suits(loss):
            return loss
        if isinstance(loss, str) and loss in named:
            return named[loss]
        raise unknown_value(self, "loss", named)

    def _losses_by_name(self) -> dict[str, Loss]:
        """Return the losses that users can name."""
        registered = [kind for kind in LOSSES.values() if self._suits(kind)]
        return {kind.name: kind() for kind in registered} | self._losses

    def _suits(self, loss: Loss | type[Loss]) -> bool:
        """Return whether a loss suits the targets and the solvers of this estimator."""
        return loss.smooth and not set(self._target_kinds).isdisjoint(loss.targets)

    def _loss_of(self, n_outputs: int, grows: bool) -> Loss:
        """Return the loss for ``n_outputs`` outputs, over grown grids or other features."""
        return self._named_loss()

    def _least_squares(self, encoder: TargetEncoder) -> Goal | None:
        """Return the goal of kernel ridge regression, or None if it must not be tried."""
        loss = self._loss_of(1, grows=False)
        if self.grids == "grown" or loss.name != "squared":
            return None
        return Goal(loss, 0.0, encoder.score_of(loss))

    def _weigh(self, y: AnyArray, weight: FloatArray | None) -> FloatArray | None:
        """Return the sample weights multiplied by the weights of the classes."""
        return weight

    def _feature_map(self, data: Data, seed: int) -> SizedMap:
        n_grids, shape = self._given_grids(), data.rows.shape
        if isinstance(self.features, str):
            return named_map(self.features, shape, data.n_outputs, n_grids, seed, self.n_jobs)
        return given_map(self.features, type(self).__name__, shape, n_grids, seed, self.n_jobs)

    def _fixed_choices(self, data: Data, feature_map: SizedMap) -> FixedChoices:
        return FixedChoices(
            scalings=scalings_of(self.scaling, sp.issparse(data.rows)),
            bandwidth=self._given_bandwidth(data.rows.shape[1]),
            alpha=self._given_alpha(),
            relevance=self._given_relevance(),
            n_grids=self._given_grids() if isinstance(self.features, str) else feature_map.size,
        )

    def _given_relevance(self) -> str:
        """Return the kind of relevance, which is "equal" for whitened inputs."""
        relevance = check_choice(self, "relevance", RELEVANCES)
        if self.scaling != "whiten":
            return relevance
        if relevance == "learned" or self.grids == "grown":
            raise InputError(
                f"{type(self).__name__}: scaling='whiten' combines the inputs, so it has no "
                f"relevance='learned' and no grids='grown', which treat inputs one by one; leave "
                f"these at 'auto', or use scaling='standard'."
            )
        return "equal"

    def _learns_errors(self, task: SelectionTask) -> bool:
        """Return whether the size of errors is estimated on validation rows."""
        if not is_auto(self.calibrate):
            return check_switch(self, "calibrate", others=" or 'auto'")
        return task.grows_grids or has_open_settings(task) or task.data.n_validation > 0

    def _search_config(self) -> SearchConfig:
        """Return the configuration of selection."""
        config = EFFORTS[check_count(self, "effort", high=max(EFFORTS))]
        # Named solvers, and those for an L1 penalty, may not support features other than bins.
        if self.monotonic_cst is None and is_auto(self.solver) and self.l1_ratio == 0:
            return config
        return replace(
            config, ridge_rows=0, n_landmarks=0, tries_trend=False, count_power=0.0, blends=False
        )

    def _grows_grids(
        self,
        held_back: HeldBackRows,
        feature_map: SizedMap,
        fixed: FixedChoices,
        monotone: IntArray | None,
    ) -> bool:
        """Return whether grids are grown instead of random features of one kernel."""
        grids = check_choice(self, "grids", ("auto", "random", "grown"))
        owner, rows, folds = type(self).__name__, held_back.data.rows, held_back.folds
        has_enough_rows = not sp.issparse(rows) and rows.shape[0] >= LEAST_TO_GROW
        can_be_halved = folds is None or folds.can_be_halved
        is_open = isinstance(self.features, str) and self.features == "binning"
        is_open = is_open and self.scaling == "auto" and self.l1_ratio == 0 and can_be_halved
        is_open = is_open and fixed.bandwidth is None
        if monotone is not None:
            if not (is_open and has_enough_rows and grids != "random"):
                raise InputError(
                    f"{owner}: monotonic_cst is for grown grids: at least {LEAST_TO_GROW} dense "
                    f"rows, features='binning', grids 'auto' or 'grown', scaling='auto', "
                    f"l1_ratio=0 and no bandwidth."
                )
            return True
        if grids != "grown":
            may_grow = is_open and grids == "auto" and fixed.alpha is None
            return may_grow and can_grow(held_back.data, held_back.classes is not None)
        if not isinstance(feature_map, RandomBinning):
            raise InputError(
                f"{owner}: grids='grown' chooses bins; use features='binning', or grids='auto' "
                f"with other features."
            )
        if not has_enough_rows:
            raise InputError(
                f"{owner}: grids='grown' needs dense rows, not sparse ones, at least "
                f"{LEAST_TO_GROW}, got n_samples={rows.shape[0]}; use grids='auto'."
            )
        if not can_be_halved:
            raise InputError(
                f"{owner}: grids='grown' needs training rows of two groups in every fold, one for "
                f"each half; use grids='auto', or give more groups."
            )
        return True

    def _solve(self, selection: Selection) -> None:
        self._keep_selected(selection.selected)
        start, tighten = self._warm_start(selection)
        release_freed_memory()
        if selection.selected.weights is None:
            problem = selection.problem(float(self.tol) * tighten)
            solution = self._solve_problem(problem, start, tighten, selection)
            solution = self._refine_solution(problem, solution, selection)
        else:
            solution = Solution(selection.selected.weights, "converged", 1, [])
            self.solver_reason_ = "cholesky: kernel ridge regression, an unknown a row"
        shrinkage = selection.selected.shrinkage
        if shrinkage is not None:
            solution = replace(solution, weights=shrinkage.applied_to(solution.weights))
        self._keep_solution(solution, selection, selection.data.n_fitted)

    def _refine_solution(
        self, problem: Problem, solution: Solution, selection: Selection
    ) -> Solution:
        """Fit parameters of the loss or of the targets alternately with the weights."""
        return solution

    def _keep_selected(self, selected: SelectedModel) -> None:
        self.settings_, self.search_ = selected.settings, selected.trials
        self.limits_ = list(selected.limits)
        self.growth_, self.relevance_ = selected.growth, selected.relevance
        self.alpha_, self.bandwidth_ = selected.alpha, selected.bandwidth
        self.scaler_, self.features_ = selected.scaler, selected.feature_map

    def _warm_start(self, selection: Selection) -> tuple[Vector | None, float]:
        """Return the first weights of the final fit, and the factor of its tolerance."""
        result, start, tighten = selection.selected.validation, None, 1.0
        if result is not None and result.weights is not None:
            start, tighten = result.weights, _WARM_TOL
        elif selection.selected.start is not None:
            start, tighten = selection.selected.start, _WARM_TOL
        if result is not None:
            lowest = _MIN_TOL / max(float(self.tol), _MIN_TOL)
            factor = _ERROR_FACTOR * relative_error(selection.goal, result)
            tighten *= float(np.clip(factor, lowest, 1.0))
        return start, tighten

    def _keep_solution(self, solution: Solution, selection: Selection, n_rows: int) -> None:
        """Set the fitted attributes, and report the final fit."""
        ended = selection.report.ended
        if solution.status == "stopped" and "solve" not in ended:
            self.limits_.append("time: the final solve was cut short")
        self.limits_ += [f"callback: {stage} was ended early" for stage in sorted(ended)]
        weights = unscaled_weights(selection.selected.matrix, solution.weights)
        weights = self._drop_unused_bins(weights, self.features_)
        self.weights_, self.intercept_ = selection.encoder.decode_weights(weights)
        self._round_weights(selection)
        if selection.selected.added is not None:
            self._add_kernel(selection.selected.added, selection.encoder)
        self.n_samples_fit_ = n_rows
        self.n_iter_, self.status_ = solution.n_iter, solution.status
        self.history_ = solution.history
        self.background_ = self._background(selection)
        n_columns = len(solution.weights)
        selection.report(
            "final fit",
            f"final fit: {n_rows} rows, {n_columns} columns, {self.solver_reason_}; "
            f"{self.status_} after {self.n_iter_} iterations",
            n_rows=n_rows,
            n_columns=n_columns,
            status=self.status_,
            n_iter=self.n_iter_,
        )

    def _add_kernel(self, added: AddedKernel, encoder: TargetEncoder) -> None:
        """Put a kernel machine beside the other features, whose weights are rounded already."""
        maps = [*parts_of(self.features_), added.expansion]
        self.features_ = JoinedMaps.of(maps, [1.0] * len(maps), self.n_jobs)
        weights, constant = encoder.decode_weights(added.weights)
        self.weights_ = np.concatenate([added.factor * self.weights_, weights])
        self.intercept_ = added.factor * self.intercept_ + constant

    def _round_weights(self, selection: Selection) -> None:
        """Round the weights of grown grids as far as validation rows allow, and drop zeros.

        Weights of other features keep all digits, because features can nearly cancel, which
        amplifies rounding. Bins and whitened kernel values do not cancel.
        """
        bins, step = parts_of(self.features_)[0], selection.selected.rounding_step
        if not isinstance(bins, GivenBinning):
            return
        if step <= 0.0:
            self.weights_ = rounded_to_single(self.weights_)
            return
        # Steps are powers of two, of which files store only the exponent.
        unit, _ = selection.encoder.decode_weights(np.ones((2, *self.weights_.shape[1:])))
        tiny = np.finfo(np.float64).tiny
        steps = 2.0 ** np.floor(np.log2(np.maximum(step * np.abs(unit[0]), tiny)))
        self.weights_ = rounded_to_multiples(self.weights_, steps, self.n_jobs)
        if self._needs_all_bins():
            return
        n_bins = bins._n_features_out
        used: BoolArray = (self.weights_[:n_bins].reshape(n_bins, -1) != 0.0).any(axis=1)
        used[0] |= not used.any()
        kept = self._keep_bins(selection, bins, used)
        indices = np.concatenate([kept, np.arange(n_bins, len(self.weights_))])
        columns = take_array_rows(
            self.weights_.reshape(len(self.weights_), -1), indices, self.n_jobs
        )
        self.weights_ = columns.reshape(-1, *self.weights_.shape[1:])

    def _keep_bins(self, selection: Selection, bins: GivenBinning, used: BoolArray) -> IntArray:
        """Drop the unused bins, and return the former indices of the kept ones."""
        selected = selection.selected
        matrix = first_part(plain_matrix(selected.matrix))
        # An L1 penalty may have dropped bins before, and large matrices and rows are on disk.
        if isinstance(matrix, BinnedMatrix) and matrix.shape[1] == len(used):
            rows = selected.scaler.ordered(selection.data.rows, selected.order, self.n_jobs)
            if isinstance(rows, np.ndarray):
                return bins.keep_ranked(used, matrix, rows)
        bins.keep_bins(used)
        return np.flatnonzero(used)

    def _needs_all_bins(self) -> bool:
        """Return whether bins with weight 0 matter for more than predictions."""
        return False

    def _background(self, selection: Selection) -> AnyArray | None:
        """Return training rows sampled by their weights, or None if rows are sparse."""
        rows, n_rows = selection.data.rows, selection.data.n_fitted
        if sp.issparse(rows):
            return None
        weight = self._given_weight(selection)
        p = None if weight is None else weight / weight.sum()
        size = min(n_rows, _BACKGROUND_ROWS) if p is None else _BACKGROUND_ROWS
        # Drawing from random_state would advance the generator of a user.
        sample = stream(0, "background").choice(n_rows, size, p is not None, p)
        return np.array(take_rows(rows, np.sort(sample)))

    def _given_weight(self, selection: Selection) -> FloatArray | None:
        """Return the sample weights of the training rows, multiplied by class weights."""
        return selection.data.weights_of(selection.data.fitted)

    @property
    def coef_(self) -> FloatArray:
        """Raise AttributeError: scikit-learn and shap read ``coef_`` as one weight per column."""
        raise AttributeError(
            f"{type(self).__name__} has no coef_, which would be one weight per column of the "
            f"table. weights_ holds one weight per feature; feature_importances_ has one number "
            f"per column."
        )

    @property
    def feature_importances_(self) -> FloatArray:
        """The importance of each column of the table for the predictions, summing to 1.

        It is the column's share of the mean absolute Shapley values (see
        :func:`gramless.inspection.shapley_values`), or the mean share over several outputs. The
        values are those of about 200 training rows, which the model keeps as ``background_``, with
        the same rows as the background. They are computed on access, and describe the model, not
        the quality of its predictions. Models of rows that stay sparse have no importances.
        """
        check_is_fitted(self, "weights_")
        if self.background_ is None:
            raise AttributeError(
                f"{type(self).__name__} has no feature_importances_, because it was fitted to "
                f"sparse rows or saved by an earlier version. Use shapley_values of "
                f"gramless.inspection with a background."
            )
        if self.scaler_.whitening is not None:
            raise AttributeError(
                f"{type(self).__name__} with scaling='whiten' has no feature_importances_, which "
                f"are Shapley values; use permutation_importance of "
                f"sklearn.inspection."
            )
        values, _ = self._shapley_values(self.background_, self.background_)
        sizes = np.abs(values).mean(axis=0)
        totals = sizes.sum(axis=0)
        is_variable = totals > 0
        if not is_variable.any():
            return np.zeros(len(sizes))
        return np.asarray((sizes[:, is_variable] / totals[is_variable]).mean(axis=1))

    def _shapley_values(self, inputs: Rows, background: Rows) -> tuple[FloatArray, FloatArray]:
        """Return Shapley values (n_rows, n_features, K) and the mean raw prediction (K,).

        Rows are inputs, as :class:`RowInputs` returns them. The players are the columns of the
        table, each with all of its inputs.
        """
        scaler, n_features = self.scaler_, self.n_features_in_
        if scaler.whitening is not None:
            raise InputError(
                f"{type(self).__name__}: exact Shapley values need separate inputs, but "
                f"scaling='whiten' combines them; use permutation_importance of "
                f"sklearn.inspection."
            )
        rows, others = (scaler.rows(part, self.n_jobs) for part in (inputs, background))
        owners = np.resize(self.inputs_.sources(n_features), rows.shape[1])
        coef = self.weights_.reshape(len(self.weights_), -1)
        values, mean = shapley_values(
            self.features_, coef, rows, others, Players(owners, n_features), n_jobs=self.n_jobs
        )
        return values, mean + self.intercept_

    def _solve_problem(
        self, problem: Problem, start: Vector | None, tighten: float, selection: Selection
    ) -> Solution:
        n_outputs = columns(problem.targets).shape[1]
        solver, self.solver_reason_ = self._solver(self.loss_, problem.matrix, n_outputs, tighten)
        if selection.selected.signs is not None:
            solver = MonotoneBins(solver, selection.selected.signs)
        return solver.solve(problem, start, callback=selection.watch())

    def _drop_unused_bins(self, weights: Vector, feature_map: FeatureMap) -> Vector:
        """Return the weights without bins that an L1 penalty made zero, and set ``sparsity_``."""
        n_columns = feature_map._n_features_out
        used = np.ones(n_columns, bool)
        if self.l1_ratio > 0:
            used[:] = weights[:n_columns].reshape(n_columns, -1).any(axis=1)
            used[0] |= not used.any()
        self.sparsity_ = 1.0 - np.count_nonzero(used) / n_columns
        if used.all() or not isinstance(feature_map, BinningMap):
            return weights
        feature_map.keep_bins(used)
        return weights[np.append(used, np.ones(len(weights) - n_columns, bool))]

    def __call__(self, X: TableLike) -> FloatArray:
        """Return predictions, or the values of ``decision_function`` of a classifier.

        ``shap.Explainer(model, X)`` calls the model.
        """
        numbers: FloatArray = self.predict(X)
        return numbers

    def _responses(self, X: TableLike) -> FloatArray:
        """Return ``Z w + intercept`` for new rows."""
        check_is_fitted(self, "weights_")
        parts = [Z.matvec(self.weights_) for Z in self._feature_blocks(X)]
        return np.concatenate([np.zeros((0, *self.weights_.shape[1:])), *parts]) + self.intercept_

    def _feature_blocks(self, X: TableLike) -> Iterator[FeatureMatrix]:
        return feature_blocks(
            self.features_, self.scaler_, self.inputs_.transform(self, X), self.n_jobs
        )

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        features, scaler = check_fitted_features(state)
        number_in(state, "alpha_", float)
        number_in(state, "n_samples_fit_", int, 0)
        for name in ("scorer_", "cv_"):
            part_in(state, name, str)
        require(isinstance(state.get("loss_"), Loss), "loss_ is not a loss")
        coef = array_in(state, "weights_", np.float64, finite=True)
        fits = coef.ndim in (1, 2) and len(coef) == features._n_features_out and coef.size > 0
        require(fits, "weights_ does not fit the bins")
        if coef.ndim == 1:
            number_in(state, "intercept_", float, -np.inf)
        else:
            array_in(state, "intercept_", np.float64, coef.shape[1:], finite=True)
        if state["background_"] is not None:
            background = part_in(state, "background_", np.ndarray)
            fits = background.dtype.kind in "iuf" and background.ndim == 2
            fits = fits and background.shape[0] > 0 and background.shape[1] == len(scaler.knots)
            require(
                fits and np.isfinite(background).all(), "background_ does not hold rows of inputs"
            )
        if state["errors_"] is not None:
            part_in(state, "errors_", Conformal)

    def _parameters_to_save(self) -> dict[str, object]:
        params = super()._parameters_to_save()
        if isinstance(self.features, SizedMap):
            params["features"] = clone(self.features)
        # Functions and splitters cannot be saved; ``scorer_`` and ``cv_`` describe them.
        if not isinstance(self.scoring, str):
            params["scoring"] = None
        if not isinstance(self.cv, (int, np.integer)):
            params["cv"] = None
        return params

    def _restore(self, fitted: dict[str, object]) -> None:
        if "inputs_" not in fitted:
            # Files written before arrays could have missing values.
            encoder = None
            if fitted.get("encoder_") is not None:
                encoder = part_in(fitted, "encoder_", TableEncoder)
            fitted.pop("encoder_", None)
            fitted["inputs_"] = RowInputs(encoder, None, None)
        fitted.setdefault("background_", None)
        # Models of earlier versions were selected by the loss on default validation rows.
        fitted.setdefault("scorer_", "loss")
        fitted.setdefault("cv_", describe_cv(None, None))
        fitted.setdefault("n_samples_fit_", 0)
        super()._restore(fitted)
        self._choice = steering_parameters(self)

    def _given_bandwidth(self, n_inputs: int) -> NDArray[np.float64] | None:
        given = self.bandwidth
        if is_auto(given):
            given = getattr(self.features, "bandwidth", "median")
        if isinstance(given, str) and given in ("auto", "median", "own"):
            return None
        bandwidth_vector(given, n_inputs if self.inputs_.kept is None else self.n_features_in_)
        return self.inputs_.of_inputs(np.asarray(given, np.float64))

    def _given_grids(self) -> int | None:
        return None if is_auto(self.n_grids) else check_count(self, "n_grids")

    def _given_alpha(self) -> float | None:
        return None if is_auto(self.alpha) else check_number(self, "alpha")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    @abstractmethod
    def _plain_targets(self, y: ArrayLike) -> ArrayLike:
        """Return targets with text converted to numbers; raise InputError if one is missing."""

    @abstractmethod
    def _check_targets(self, y: AnyArray) -> AnyArray:
        """Return the targets after checks, in the shape that the estimator needs."""

    @abstractmethod
    def _target_encoder(self, y: AnyArray, weight: FloatArray | None) -> TargetEncoder:
        """Return the encoder of the targets."""

    def _held_back_errors(self, method: str) -> Conformal:
        check_is_fitted(self, "weights_")
        if self.errors_ is None:
            raise InputError(
                f"{type(self).__name__}: {method} needs errors of validation rows; fit again with "
                f"calibrate=True."
            )
        return self.errors_

    @abstractmethod
    def _learn_errors(self, selection: Selection) -> None:
        """Estimate the size of errors on validation rows, and set ``errors_``."""


def _take(
    index: IntArray | BoolArray, rows: Rows, targets: AnyArray, weight: FloatArray | None
) -> tuple[Rows, AnyArray, FloatArray | None]:
    weight = None if weight is None else weight[index]
    return take_rows(rows, index), targets[index], weight


def _count(sample_weight: ArrayLike | None, used: IntArray) -> float:
    """Return the number of rows, or the sum of the weights if they are whole numbers."""
    weights = np.full(1, np.nan) if sample_weight is None else np.asarray(sample_weight, np.float64)
    are_counts = weights.ndim == 1 and (weights == np.round(weights)).all()
    return float(weights.sum()) if are_counts else float(len(used))
