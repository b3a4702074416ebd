"""The common base of the estimators: validate, encode, select, solve, learn errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from gramless.base.columns import target_name
from gramless.base.errors import InputError
from gramless.base.lazy_rows import take_rows
from gramless.base.memory import limit_fit_memory, parse_bytes, release_freed_memory
from gramless.base.progress import Callbacks, Deadline, Reporter
from gramless.base.random import RandomStateLike, seed_from
from gramless.base.state import (
    State,
    StatefulEstimator,
    array_in,
    number_in,
    part_in,
    require,
)
from gramless.base.threads import run_serially_if_small, thread_count
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, TableLike
from gramless.estimators.continued import Batch, earlier_fit, keeps_choice, steering_parameters
from gramless.estimators.features import check_fitted_features, feature_blocks, given_map, named_map
from gramless.estimators.final_fit import (
    WARM_TOL,
    FinalFit,
    SolvedProblem,
    background_rows,
    finish_fit,
    warm_start,
)
from gramless.estimators.given_rows import (
    EvalRows,
    EvalSet,
    GivenRows,
    ValidationArguments,
    describe_cv,
    rows_with_weight,
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
from gramless.estimators.steps import (
    EncodedRows,
    FitArguments,
    Selection,
    scores_by_round,
    with_scorer,
)
from gramless.estimators.targets import TargetEncoder, TargetReader
from gramless.estimators.validation_warnings import warn_of_validation_rows
from gramless.features.base import SizedMap
from gramless.features.binning import RandomBinning
from gramless.features.shapley import shapley_values
from gramless.features.shapley_grids import Players
from gramless.kernels import bandwidth_vector
from gramless.losses import LOSSES, OUTLIER_BOUND, Loss, Squared, TargetKind
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.preprocessing.encoder import TableEncoder
from gramless.preprocessing.rows import Rows, checked_weights, relative_weights
from gramless.selection.bandwidth_search import RELEVANCES
from gramless.selection.budget import (
    MIN_GROWTH_ROWS,
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
from gramless.selection.splits import drawn_rows
from gramless.selection.task import FixedChoices, HeldBackRows, SelectionTask
from gramless.solvers.base import Solver
from gramless.solvers.choose import choose_solver
from gramless.solvers.monotone import MonotoneBins
from gramless.solvers.objective import Problem, Solution, columns
from gramless.uncertainty.conformal import Conformal


@dataclass(eq=False, repr=False)
class KernelMachine(StatefulEstimator, ABC):
    """Common base of :class:`KernelRegressor` and :class:`KernelClassifier`.

    The parameters are fields of a dataclass, which writes the constructors of both.
    """

    _former_attributes: ClassVar = {"coef_": "weights_"}
    _losses: ClassVar[dict[str, Loss]]
    _target_kinds: ClassVar[tuple[TargetKind, ...]]
    _reader: ClassVar[TargetReader]

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
    random_state: RandomStateLike = None
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
        validation = ValidationArguments.of(
            type(self).__name__, eval_set, X_val, y_val, sample_weight_val
        )
        return self._fit(FitArguments(X, y, sample_weight, groups, callbacks, validation))

    def _fit(self, arguments: FitArguments) -> Self:
        with limit_fit_memory(self._memory()):
            encoded = self._encode(arguments)
            with run_serially_if_small(encoded.data.rows.shape, self.n_jobs):
                selection = self._select(encoded)
                if arguments.validation is not None:
                    warn_of_validation_rows(self, selection)
                final = self._solve(selection)
                self._set_fitted(selection, final, self._learn_errors(selection, final))
        return self

    def _set_fitted(self, selection: Selection, final: FinalFit, errors: dict[str, object]) -> None:
        """Set all fitted attributes, except for those of scikit-learn's validation."""
        selected, solved = selection.selected, final.solved
        scorer, cv = selection.goal.scorer, describe_cv(self.cv, selection.given.groups)
        has_eval_set = selection.data.n_validation > 0
        self.target_name_: str | None = target_name(selection.arguments.y)
        self.inputs_ = selection.inputs
        self.settings_, self.search_ = selected.settings, selected.trials
        self.growth_, self.relevance_ = selected.growth, selected.relevance
        self.alpha_: float = selected.alpha
        self.bandwidth_ = selected.bandwidth
        self.scaler_, self.features_ = selected.scaler, final.feature_map
        self.scorer_ = "loss" if scorer is None else scorer.name
        self.cv_ = "eval_set" if has_eval_set else cv
        self.evals_result_ = {"valid_0": scores_by_round(selection)} if has_eval_set else {}
        self.loss_, self.solver_reason_ = solved.loss, solved.solver_reason
        self.weights_, self.intercept_ = final.weights, final.intercept
        self.sparsity_, self.limits_ = final.sparsity, final.limits
        self.n_samples_fit_: int = final.n_rows
        self.n_iter_, self.status_ = solved.solution.n_iter, solved.solution.status
        self.history_ = solved.solution.history
        self.background_ = background_rows(selection)
        self.__dict__.update(selection.encoder.attributes() | solved.attributes | errors)
        self._choice = steering_parameters(self)

    def _add_rows(self, arguments: FitArguments) -> Self:
        """Update the weights by a batch of rows, see :meth:`KernelRegressor.partial_fit`."""
        owner, X, weight = type(self).__name__, arguments.X, arguments.sample_weight
        used = rows_with_weight(owner, weight, X, arguments.y)
        arguments = arguments if used is None else arguments.take(used)
        inputs, rows, targets = self._known_rows(arguments)
        weight = np.ones(len(targets))
        if arguments.sample_weight is not None:
            weight = _checked_weight(owner, arguments.sample_weight, rows)
        encoder = self._encoder_of_batch(targets)
        weight = np.asarray(self._weigh(targets, weight, arguments))
        batch = Batch.of(self, rows, encoder)
        n_rows = self.n_samples_fit_ + len(targets)
        given, share = self._given_alpha(), len(targets) / n_rows
        alpha = self.alpha_ * (1.0 - share) if given is None else given
        solver, _ = self._solver(Squared(), batch.matrix, tighten=WARM_TOL)
        codes, intercept = encoder.encode(targets), encoder.fits_intercept
        weights = batch.step(self.loss_, codes, weight, share, alpha, intercept, solver)
        self.inputs_, self.features_ = inputs, batch.all_features(self.n_jobs)
        self.alpha_ = alpha
        self.n_samples_fit_ = n_rows
        self.weights_, self.intercept_ = encoder.decode_weights(weights)
        self.__dict__.update(encoder.attributes())
        return self

    def _encoder_of_batch(self, y: AnyArray) -> TargetEncoder:
        """Return the encoder of a batch of targets, in the units of the weights."""
        return self._target_encoder_again(y, None)

    def _target_encoder_again(self, y: AnyArray, weight: FloatArray | None) -> TargetEncoder:
        """Return the target encoder for a further fit of a fitted model."""
        return self._target_encoder(y, weight, None)

    def _encode(self, arguments: FitArguments) -> EncodedRows:
        """Return encoded rows, targets and weights after checks.

        Rows of weight 0 are left out, and some others if a time budget is too short for all rows.
        """
        self._solver(self._named_loss())
        self._search_config()
        deadline, owner = self._deadline(), type(self).__name__
        report = Reporter(owner, arguments.callbacks, bool(self.verbose))
        validation = arguments.validation
        eval_rows = None if validation is None else EvalRows.of(self, self._reader, validation)
        used = rows_with_weight(owner, arguments.sample_weight, arguments.X, arguments.y)
        kept = arguments if used is None else arguments.take(used)
        goes_on = keeps_choice(self, vars(self).get("_choice"), kept.X)
        inputs, rows, targets = self._known_rows(kept) if goes_on else self._new_rows(kept)
        check_table(rows)
        weight = None
        if kept.sample_weight is not None:
            weight = _checked_weight(owner, kept.sample_weight, rows)
        given = GivenRows.of(self, arguments.X, targets, weight, arguments.groups, used)
        if weight is not None and not weight.all():
            rows, targets, weight = _take(weight > 0, rows, targets, weight)
        weight = self._weigh(targets, weight, arguments)
        if goes_on:
            encoder = self._target_encoder_again(targets, weight)
        else:
            encoder = self._target_encoder(targets, weight, kept)
        n_given, seed = len(targets), seed_from(self.random_state)
        classes = encoder.class_numbers(targets)
        max_rows = rows_in_time(rows, encoder.n_outputs, deadline.seconds)
        if max_rows < n_given:
            sample = drawn_rows(n_given, max_rows, seed, classes)
            rows, targets, weight = _take(sample, rows, targets, weight)
            given = given.keep_used(sample)
            classes = None if classes is None else classes[sample]
        data = Data(
            rows,
            encoder.encode(targets),
            encoder.weigh(targets, weight),
            encoder.score,
            encoder.fits_intercept,
            inputs.categorical,
            measure=encoder.measure,
            outlier_bound=OUTLIER_BOUND if self._named_loss().robust else None,
        )
        has_splits = self.cv is not None or given.groups is not None or eval_rows is not None
        if has_splits and data.sample_weight is not None:
            count = _count(arguments.sample_weight, given.used)
            data = replace(data, count_unit=count / data.sample_weight.sum())
        encoded = EncodedRows(
            inputs=inputs,
            data=data,
            given=given,
            arguments=arguments,
            classes=classes,
            encoder=encoder,
            seed=seed,
            n_given=n_given,
            goes_on=goes_on,
            deadline=deadline,
            report=report,
        )
        if eval_rows is None:
            return encoded
        return self._with_eval_rows(encoded, eval_rows, targets, weight)

    def _with_eval_rows(
        self,
        encoded: EncodedRows,
        eval_rows: EvalRows,
        targets: AnyArray,
        weight: FloatArray | None,
    ) -> EncodedRows:
        """Return the rows followed by the validation rows of the user.

        ``targets`` and ``weight`` are those of the rows.
        """
        owner, encoder = type(self).__name__, encoded.encoder
        given, classes = encoded.given, encoded.classes
        data = encoded.data.with_validation_rows(
            eval_rows.encoded(self, encoded.inputs, encoded.data.rows),
            eval_rows.codes(owner, encoder, targets, self._named_loss()),
            encoder.weigh(eval_rows.targets, eval_rows.weight_like(weight)),
        )
        indices = encoder.class_numbers(eval_rows.targets)
        if classes is not None and indices is not None:
            classes = np.concatenate([classes, indices])
        plain_weight = eval_rows.weight_like(given.weight)
        given = given.followed_by(eval_rows.table, eval_rows.targets, plain_weight)
        return replace(encoded, data=data, classes=classes, given=given)

    def _new_rows(self, arguments: FitArguments) -> tuple[RowInputs, Rows, AnyArray]:
        """Return rows and targets, and the conversion of the columns that the rows determine."""
        owner, reader = type(self).__name__, self._reader
        plain = reader.plain(arguments.y, owner)
        # As in scikit-learn, validation sets n_features_in_ and feature_names_in_.
        inputs, rows, targets = RowInputs.fit(
            self, arguments.X, plain, self.categorical_features, reader.options
        )
        return inputs, rows, reader.check(targets, owner)

    def _known_rows(self, arguments: FitArguments) -> tuple[RowInputs, Rows, AnyArray]:
        """Return more rows by the conversion of the first fit, extended by their categories."""
        inputs = self.inputs_.with_categories_of(self, arguments.X)
        rows = inputs.transform(self, arguments.X)
        targets = self._reader.read(self, arguments.y)
        if rows.shape[0] != len(targets):
            raise InputError(
                f"{type(self).__name__}: X has {rows.shape[0]} rows and y {len(targets)}; give one "
                f"target per row."
            )
        return inputs, rows, targets

    def _select(self, encoded: EncodedRows) -> Selection:
        """Select everything that is left on "auto"."""
        data, given, encoder = encoded.data, encoded.given, encoded.encoder
        held_back = HeldBackRows(
            data=data,
            seed=encoded.seed,
            report=encoded.report,
            n_jobs=self.n_jobs,
            classes=encoded.classes,
            folds=given.folds(self, encoded.classes, encoded.seed),
        )
        feature_map = self._feature_map(data, encoded.seed)
        fixed = self._fixed_choices(encoded, feature_map)
        monotone = monotone_inputs(self, encoded.inputs, data.n_outputs)
        if encoded.goes_on:
            grows = self.settings_.grids == "grown"
        else:
            grows = self._grows_grids(held_back, feature_map, fixed, monotone)
        loss = self._loss_of(encoder, grows)
        self._solver(loss)
        n_given = encoded.n_given + data.n_validation
        earlier = None
        if encoded.goes_on:
            earlier = earlier_fit(self, encoder, data.n_fitted, self._given_alpha())
        task = SelectionTask(
            data=data,
            held_back=held_back,
            goal=Goal(loss, float(self.l1_ratio), encoder.score_of(loss)),
            least_squares=self._least_squares(encoder),
            fixed=fixed,
            feature_map=feature_map,
            config=self._search_config().of_targets(loss, data.n_fitted),
            budget=Budget(
                data.rows.shape, encoded.deadline, encoded.report, data.n_outputs, n_given
            ),
            seed=encoded.seed,
            n_jobs=self.n_jobs,
            report=encoded.report,
            grows_grids=grows,
            earlier=earlier,
            monotone=monotone,
        )
        has_new_rows = data.n_validation > 0 and not encoded.goes_on
        task = replace(task, validates=self._learns_errors(task, loss) or has_new_rows)
        scorer = NamedScorer.of(self)
        task = task if scorer is None else with_scorer(scorer, task, given, encoder)
        selected = select(task)
        errors = selected.validation if self._learns_errors(task, selected.loss) else None
        if errors is not None:
            errors = errors.of_rows(task.budget.calibration_rows(len(errors.rows)))
        goal = replace(task.goal, loss=selected.loss)
        return Selection(**vars(encoded), goal=goal, selected=selected, errors=errors)

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

    def _loss_of(self, encoder: TargetEncoder, grows: bool) -> Loss:
        """Return the loss for these targets, over grown grids or other features."""
        return self._named_loss()

    def _least_squares(self, encoder: TargetEncoder) -> Goal | None:
        """Return the goal of kernel ridge regression, or None if it must not be tried."""
        loss = self._named_loss()
        if self.grids == "grown" or loss.name != "squared" or not encoder.has_least_squares:
            return None
        return Goal(loss, 0.0, encoder.score_of(loss))

    def _weigh(
        self, y: AnyArray, weight: FloatArray | None, arguments: FitArguments
    ) -> FloatArray | None:
        """Return the sample weights multiplied by the weights of the classes."""
        return weight

    def _feature_map(self, data: Data, seed: int) -> SizedMap:
        n_grids, shape = self._given_grids(), data.rows.shape
        if isinstance(self.features, str):
            return named_map(self.features, shape, data.n_outputs, n_grids, seed, self.n_jobs)
        return given_map(self.features, type(self).__name__, shape, n_grids, seed, self.n_jobs)

    def _fixed_choices(self, encoded: EncodedRows, feature_map: SizedMap) -> FixedChoices:
        rows, inputs, given = encoded.data.rows, encoded.inputs, self.bandwidth
        scalings = scalings_of(self.scaling, sp.issparse(rows))
        if is_auto(given):
            given = getattr(self.features, "bandwidth", "median")
        bandwidth = None
        if not isinstance(given, str) or given not in ("auto", "median", "own"):
            n_inputs = rows.shape[1] if inputs.kept is None else self.n_features_in_
            bandwidth_vector(given, n_inputs)  # checks it
            bandwidth = inputs.of_inputs(np.asarray(given, np.float64))
        return FixedChoices(
            scalings=scalings,
            bandwidth=bandwidth,
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

    def _learns_errors(self, task: SelectionTask, loss: Loss) -> bool:
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
        has_enough_rows = not sp.issparse(rows) and rows.shape[0] >= MIN_GROWTH_ROWS
        can_be_halved = folds is None or folds.can_be_halved
        is_open = isinstance(self.features, str) and self.features == "binning"
        is_open = is_open and self.scaling == "auto" and self.l1_ratio == 0 and can_be_halved
        is_open = is_open and fixed.bandwidth is None
        if monotone is not None:
            if not (is_open and has_enough_rows and grids != "random"):
                raise InputError(
                    f"{owner}: monotonic_cst is for grown grids: at least {MIN_GROWTH_ROWS} dense "
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
                f"{MIN_GROWTH_ROWS}, got n_samples={rows.shape[0]}; use grids='auto'."
            )
        if not can_be_halved:
            raise InputError(
                f"{owner}: grids='grown' needs training rows of two groups in every fold, one for "
                f"each half; use grids='auto', or give more groups."
            )
        return True

    def _solve(self, selection: Selection) -> FinalFit:
        """Fit the selected model to all rows."""
        selected, tol = selection.selected, float(self.tol)
        start, tighten = warm_start(selection, tol)
        release_freed_memory()
        if selected.weights is None:
            problem = selection.problem(tol * tighten)
            solved = self._solve_problem(problem, start, tighten, selection)
            solved = self._refine(problem, solved, selection)
        else:
            solved = SolvedProblem(
                solution=Solution(selected.weights, "converged", 1, []),
                loss=selected.loss,
                solver_reason="cholesky: kernel ridge regression, an unknown a row",
            )
        if selected.shrinkage is not None:
            weights = selected.shrinkage.applied_to(solved.solution.weights)
            solved = replace(solved, solution=replace(solved.solution, weights=weights))
        return finish_fit(
            solved,
            selection,
            matrix=selected.matrix,
            n_rows=selection.data.n_fitted,
            is_sparse=self.l1_ratio > 0,
            keeps_bins=self._needs_all_bins(),
            n_jobs=self.n_jobs,
        )

    def _solve_problem(
        self, problem: Problem, start: Vector | None, tighten: float, selection: Selection
    ) -> SolvedProblem:
        n_outputs = columns(problem.targets).shape[1]
        solver, reason = self._solver(problem.loss, problem.matrix, n_outputs, tighten)
        if selection.selected.signs is not None:
            solver = MonotoneBins(solver, selection.selected.signs)
        solution = solver.solve(problem, start, callback=selection.watch())
        return SolvedProblem(solution=solution, loss=problem.loss, solver_reason=reason)

    def _refine(
        self, problem: Problem, solved: SolvedProblem, selection: Selection
    ) -> SolvedProblem:
        """Fit parameters of the loss or of the targets alternately with the weights."""
        return solved

    def _needs_all_bins(self) -> bool:
        """Return whether bins with weight 0 matter for more than predictions."""
        return False

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
        values, _ = shapley_values_of(self, self.background_, self.background_)
        sizes = np.abs(values).mean(axis=0)
        totals = sizes.sum(axis=0)
        is_variable = totals > 0
        if not is_variable.any():
            return np.zeros(len(sizes))
        return np.asarray((sizes[:, is_variable] / totals[is_variable]).mean(axis=1))

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
        fits = coef.ndim in (1, 2) and len(coef) == features.n_features_out and coef.size > 0
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
    def _target_encoder(
        self, y: AnyArray, weight: FloatArray | None, arguments: FitArguments | None
    ) -> TargetEncoder:
        """Return the encoder of the targets ``y``; ``arguments`` are those of a new fit."""

    def _held_back_errors(self, method: str) -> Conformal:
        check_is_fitted(self, "weights_")
        if self.errors_ is None:
            raise InputError(
                f"{type(self).__name__}: {method} needs errors of validation rows; fit again with "
                f"calibrate=True."
            )
        return self.errors_

    @abstractmethod
    def _learn_errors(self, selection: Selection, final: FinalFit) -> dict[str, object]:
        """Return fitted attributes by name: the size of errors, learned on validation rows."""


def shapley_values_of(
    model: KernelMachine, inputs: Rows, background: Rows
) -> tuple[FloatArray, FloatArray]:
    """Return Shapley values (n_rows, n_features, K) and the mean raw prediction (K,).

    Rows are inputs, as :class:`RowInputs` returns them. The players are the columns of the table,
    each with all of its inputs.
    """
    scaler, n_features = model.scaler_, model.n_features_in_
    if scaler.whitening is not None:
        raise InputError(
            f"{type(model).__name__}: exact Shapley values need separate inputs, but "
            f"scaling='whiten' combines them; use permutation_importance of sklearn.inspection."
        )
    rows, others = (scaler.rows(part, model.n_jobs) for part in (inputs, background))
    owners = np.resize(model.inputs_.sources(n_features), rows.shape[1])
    weights = model.weights_.reshape(len(model.weights_), -1)
    values, mean = shapley_values(
        model.features_, weights, rows, others, Players(owners, n_features), n_jobs=model.n_jobs
    )
    return values, mean + model.intercept_


def _checked_weight(owner: str, sample_weight: ArrayLike, rows: Rows) -> FloatArray:
    """Return sample weights relative to the largest, with negligible ones as zeros."""
    weight = checked_weights(sample_weight, rows.shape[0], owner)
    return relative_weights(weight, weight.max())


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
