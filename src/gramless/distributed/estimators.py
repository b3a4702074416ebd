"""Kernel machines that are fitted to Dask collections."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar

import dask
import dask.array as da
import numpy as np
from dask.base import is_dask_collection
from dask.delayed import delayed
from distributed import Client, Future
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from gramless.base.errors import InputError
from gramless.base.memory import limit_fit_memory
from gramless.base.progress import Callbacks
from gramless.base.random import seed_from
from gramless.base.state import State
from gramless.base.threads import run_serially_if_small
from gramless.base.types import AnyArray, FloatArray, TableLike
from gramless.distributed.bins import BinKeys, code_type
from gramless.distributed.blocks import Layout, NewBlock, RowPlan, Table, keys_of, n_rows_of
from gramless.distributed.checkpoints import Resumable, solve_with_checkpoint
from gramless.distributed.cluster import Cluster, assign_blocks, release
from gramless.distributed.newton import ClusterNewtonState
from gramless.distributed.partitions import Collection, Partitions, Sizes, lengths_of, row_parts
from gramless.distributed.rows import ClusterRows, mean_squares, means_and_rhs
from gramless.distributed.samples import Sample
from gramless.distributed.solving import ClusterProblem, ridge_solver
from gramless.estimators.available import available_if
from gramless.estimators.base import KernelMachine
from gramless.estimators.classifier import KernelClassifier, check_probabilities
from gramless.estimators.final_fit import FinalFit, SolvedProblem, finish_fit, warm_start
from gramless.estimators.given_rows import EvalSet, ValidationArguments
from gramless.estimators.parameters import is_auto
from gramless.estimators.regressor import KernelRegressor
from gramless.estimators.steps import FitArguments, Selection
from gramless.estimators.targets import ClassEncoder, LabelsEncoder, TargetEncoder, class_weights
from gramless.features.binning import BinningMap
from gramless.features.hybrid import Hybrid, JoinedMaps, parts_of
from gramless.features.smooth import SmoothBinning
from gramless.losses import SmoothPinball
from gramless.matrices.base import Vector
from gramless.matrices.weighted import multiply_first, remove_factors, unscale_weights
from gramless.selection.bins import prior_deviations, row_counts
from gramless.selection.selected import SelectedModel
from gramless.solvers.newton_cg import NewtonCG

_TABLES_PER_MERGE = 8  # tables of bin keys that one task merges
_SOLVERS = "auto", "pcg", "newton"

T = TypeVar("T")
Predictions: TypeAlias = Any  # an array for rows in memory, a lazy Dask array for collections


if TYPE_CHECKING:
    _Machine = KernelMachine
else:
    # With KernelMachine as base, its dataclass fields would override those of the local class.
    _Machine = object


class DaskMachine(_Machine):
    """Base of the Dask estimators, with fits to collections and lazy predictions."""

    sizes: ClassVar[Sizes] = Sizes()
    _local_class: ClassVar[type[KernelMachine]]
    client: Client | None

    def fit(
        self,
        X: Collection,
        y: Collection,
        sample_weight: Collection = None,
        groups: Collection = None,
        *,
        X_val: TableLike | None = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        callbacks: Callbacks = None,
        eval_set: EvalSet = None,
        offset: ArrayLike | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Select the parameters left on "auto" with a sample of the rows, then fit to all rows.

        Parameters
        ----------
        X : Dask array or data frame (n_samples, n_features)
            Training rows. Each block must have whole rows. See :class:`KernelRegressor` for the
            types of columns.
        y, sample_weight, groups : Dask array, or column of the same data frame
            Targets, weights and groups. They can be arrays in memory if X knows the number of rows
            of its blocks.
        callbacks : callable or list of callables, optional
            Called with a :class:`~gramless.base.progress.Progress` after each step. If one of them
            returns True, the stage of the step ends.
        X_val, y_val, sample_weight_val, eval_set, offset : None
            Only for fits on one machine.
        checkpoint : path, optional
            File for the state of the final solve, which is written every half minute and if the fit
            fails. A fit to the same rows with the same parameters resumes from it with the same
            bits, and removes the file at its end.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        ValueError
            For the same reasons as a fit on one machine, and if collections do not match.
        ClusterError
            If there is no worker for a minute, if the scheduler is gone, if workers die too often,
            or if a lost worker had rows that cannot be computed again.
        """
        name = type(self).__name__
        self._check_distributable()
        validation = ValidationArguments.of(name, eval_set, X_val, y_val, sample_weight_val)
        if validation is not None:
            raise InputError(
                f"{name}: {validation.name} is for fits on one machine; give cv or groups."
            )
        if offset is not None:
            raise InputError(
                f"{name}: offset is for fits on one machine; for loss='poisson' fit counts over "
                f"exposures, with the exposures as sample_weight."
            )
        cluster = Cluster(self.client, name)
        parts = Partitions.of(name, X, y, sample_weight, groups)
        has_classes = isinstance(self, KernelClassifier)
        seed = seed_from(self.random_state)
        categorical = None if is_auto(self.categorical_features) else self.categorical_features
        sample = Sample.of(cluster, parts, seed, has_classes, self.sizes.sample_rows, categorical)
        if not sample.complete and isinstance(self.cv, Iterable):
            raise InputError(
                f"{name}: cv lists indices of rows of the whole table, but models are selected on "
                f"a sample of {sample.n_rows:,} rows; give a splitter, a number of folds or groups."
            )
        with limit_fit_memory(self._memory()):
            encoded = self._encode(FitArguments(*sample.rows, callbacks=callbacks))
            if isinstance(encoded.encoder, LabelsEncoder):
                raise InputError(
                    f"{name}: several labels per row are only for fits on one machine; y should be "
                    f"a 1d array, with one class per row."
                )
            if not sample.complete and sample.moments is not None and not self._named_loss().robust:
                encoded = sample.moments.encode(encoded, self._named_loss())
            with run_serially_if_small(encoded.data.rows.shape, self.n_jobs):
                selection = self._select(encoded)
        selection.report(
            "sample",
            f"chosen by {len(selection.data.targets)} of {sample.n_rows} rows in "
            f"{len(parts.parts)} partitions",
        )
        if selection.selected.weights is not None:
            final = self._solve(selection)
        else:
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
                selection, final = self._fit_all_rows(cluster, parts, sample, selection, checkpoint)
        self._set_fitted(selection, final, self._learn_errors(selection, final))
        return self

    def partial_fit(
        self, X: Collection, y: Collection, *arguments: object, **options: object
    ) -> Self:
        """Raise InputError, because rows can be added only on one machine.

        Parameters
        ----------
        X, y, *arguments, **options
            Not used.
        """
        raise InputError(
            f"{type(self).__name__} has no partial_fit; add rows to the result of its to_local()."
        )

    def to_local(self) -> KernelMachine:
        """Return the local estimator with the same parameters and, if fitted, the same fit.

        It needs neither Dask nor a cluster, and can be saved.
        """
        local = self._local_class(**self._local_params())
        local.__setstate__({**KernelMachine.__getstate__(local), **self._fitted()})
        return local

    def predict(self, X: Collection, *arguments: object, **options: object) -> Predictions:
        """Return predictions: lazy Dask arrays for collections, else those of the local estimator.

        Parameters
        ----------
        X : dask collection, array or data frame (n_samples, n_features)
            Rows to predict.
        *arguments, **options
            Other arguments of the local estimator; not for collections.
        """
        if not is_dask_collection(X):
            return super().predict(X, *arguments, **options)
        if arguments or options:
            raise InputError(
                f"{type(self).__name__}: predict has no options for collections; use to_local() "
                f"for standard deviations."
            )
        return self._predict_lazily("predict", X)

    def state(self) -> State:
        """Raise InputError, because files contain the local estimator."""
        raise InputError(
            f"{type(self).__name__} cannot be saved; save the result of its to_local(), which "
            f"predicts the same."
        )

    def _predict_lazily(self, name: str, X: Collection, **options: object) -> da.Array:
        """Return a lazy array of the results of a method for each partition of a collection.

        Workers predict the rows that they have; a partition whose worker died is predicted again.
        """
        owner, like = type(self).__name__, self._empty_result(name)
        lengths, parts = lengths_of(owner, X), row_parts(owner, X)
        model = delayed(self.to_local(), pure=False, traverse=False)
        task = delayed(_predict_partition, pure=False)
        results = []
        for i, part in enumerate(parts):
            shape = np.nan if lengths is None else lengths[i], *like.shape[1:]
            result = task(model, name, part, like, **options)
            results.append(da.from_delayed(result, shape, meta=like))
        return da.concatenate(results, allow_unknown_chunksizes=True)

    def _empty_result(self, name: str) -> AnyArray:
        """Return the result of the method ``name`` for no rows."""
        check_is_fitted(self, "weights_")
        return np.empty((0, *self.weights_.shape[1:]))

    def _local_params(self) -> dict[str, Any]:
        return {k: v for k, v in self.get_params(deep=False).items() if k != "client"}

    def _check_distributable(self) -> None:
        name = type(self).__name__
        if self.solver not in _SOLVERS or self.l1_ratio != 0:
            raise InputError(
                f"{name}: fits on a cluster use conjugate gradients, so that solver must be "
                f"'auto', 'pcg' or 'newton' and l1_ratio 0; got solver={self.solver!r} and "
                f"l1_ratio={self.l1_ratio!r}."
            )
        if self.warm_start or self.monotonic_cst is not None:
            raise InputError(
                f"{name}: warm_start and monotonic_cst are for fits on one machine; leave them out."
            )
        by_name = isinstance(self.features, str) and self.features == "smooth"
        if by_name or isinstance(self.features, (SmoothBinning, Hybrid)):
            raise InputError(
                f"{name}: workers can merge only plain bins; use features='binning', or features "
                f"without bins such as 'fourier' and 'nystrom'; got features={self.features!r}."
            )

    def _fit_all_rows(
        self,
        cluster: Cluster,
        parts: Partitions,
        sample: Sample,
        selection: Selection,
        checkpoint: str | Path | None,
    ) -> tuple[Selection, FinalFit]:
        layout, rows, known = self._learn_bins(cluster, parts, sample, selection)
        try:
            selected = self._adapt_to_all_rows(selection, sample, rows, known)
            selection = replace(selection, selected=selected)
            n_chosen = len(selection.data.targets)
            bound = max(1.0, rows.largest_target)
            both = rows.sum_over_blocks(means_and_rhs, bound, rows.n_rows, rows.total)
            first = parts_of(selected.feature_map)[0]
            if isinstance(first, BinningMap) and layout.offsets is not None:
                shares = both[: layout.offsets[-1], 0] / layout.scale
                first.describe(np.maximum.reduceat(shares, layout.offsets[:-1]))
            factors = _bin_factors(selection, rows.n_rows, layout, both[:, 1])
            order = selected.order if isinstance(selected.order, np.ndarray) else None
            problem = ClusterProblem(
                rows,
                layout,
                selection.data.penalty(selected.alpha),
                both[:, 0],
                multiply_first(np.ascontiguousarray(both[:, 2:]), factors),
                sum(rows.map_over_blocks(mean_squares, rows.total)),
                order if sample.complete and n_chosen == rows.n_rows else None,
                factors,
                self.n_jobs,
            )
            solved = self._solve_on_cluster(problem, selection, checkpoint)
            weights = multiply_first(solved.solution.weights, factors)
            solved = replace(solved, solution=replace(solved.solution, weights=weights))
            final = finish_fit(
                solved,
                selection,
                matrix=None,
                n_rows=rows.n_rows,
                is_sparse=False,
                keeps_bins=False,
                n_jobs=self.n_jobs,
            )
            return selection, final
        finally:
            rows.release()

    def _solve_on_cluster(
        self, problem: ClusterProblem, selection: Selection, checkpoint: str | Path | None
    ) -> SolvedProblem:
        start, tighten = warm_start(selection, float(self.tol))
        start = None if start is None else multiply_first(start, 1.0 / problem.factors)
        tol = tighten * float(self.tol)
        watch, max_iter = selection.watch(), int(self.max_iter)
        state: Resumable
        loss = selection.selected.loss
        if loss.name == "squared":
            state, name = ridge_solver(problem, tol, start), "pcg"
        else:
            options = NewtonCG(tol=tol, max_iter=max_iter, n_jobs=self.n_jobs)
            state, name = ClusterNewtonState(problem, loss, start, options), "newton"
        reason = (
            f"{name}: {loss.name} loss, {len(problem.rows.blocks)} blocks of rows on a "
            f"cluster, preconditioned with a sample of the rows"
        )
        n_columns, n_outputs = problem.rhs.shape
        shape = (n_columns,) if selection.encoder.n_outputs == 1 else (n_columns, n_outputs)
        cluster = problem.rows.cluster
        before = cluster.traffic()
        identity = problem.identifying_bytes(name, tol, start)
        solution = solve_with_checkpoint(state, shape, max_iter, watch, checkpoint, identity)
        n_rounds, n_tasks, n_bytes = (
            after - earlier for earlier, after in zip(before, cluster.traffic(), strict=True)
        )
        selection.report(
            "solve",
            f"{solution.n_iter} iterations in {n_rounds} round trips: {n_tasks} tasks, "
            f"{n_bytes / 1e6:.3g} MB of vectors",
            n_rounds=n_rounds,
            n_tasks=n_tasks,
            n_bytes=n_bytes,
        )
        return SolvedProblem(solution=solution, loss=loss, solver_reason=reason)

    def _learn_bins(
        self, cluster: Cluster, parts: Partitions, sample: Sample, selection: Selection
    ) -> tuple[Layout, ClusterRows, BinKeys | None]:
        """Bin all rows; return the layout of the features, the rows, and the keys of their bins."""
        features = selection.selected.feature_map
        maps = parts_of(features)
        first = maps[0]
        grids = first.grids if isinstance(first, BinningMap) else None
        others = maps[1:] if grids is not None else maps
        plan = RowPlan(
            self._unfitted_model(),
            selection.inputs,
            self._reader,
            selection.selected.scaler,
            grids,
            others,
            selection.encoder,
            sample.largest_weight,
            self._class_factors(sample, selection.encoder),
        )
        make = delayed(RowPlan.encode_block, pure=False)
        shared_plan = delayed(plan, pure=False, traverse=False)
        new = cluster.start(
            [
                make(shared_plan, number, *chain.from_iterable(parts.parts[i] for i in indices))
                for number, indices in enumerate(self.sizes.blocks(sample.lengths))
            ]
        )
        known, offsets, scale = None, None, 1.0
        if isinstance(first, BinningMap):
            keys = _merge_keys(cluster, new)
            known, offsets, scale = keys, keys.offsets, first.scale_
        scales = features.scales_ if isinstance(features, JoinedMaps) else None
        layout = Layout(offsets, scale, scales, selection.data.intercept)
        shared = cluster.submit(_identity, [(known,), (layout,)])
        # A worker that was faster for a moment has binned more blocks, and all rounds would wait
        # for it.
        workers = assign_blocks(cluster.locate(new), cluster.workers())
        blocks = cluster.submit(
            NewBlock.with_columns,
            [(block, *shared) for block in new],
            workers,
            allow_other_workers=True,
        )
        n_columns = sum(part.n_features_out for part in others) + int(layout.intercept)
        n_columns += 0 if offsets is None else int(offsets[-1])
        # Tasks that need these results keep them, and compute them again if their worker dies.
        release([*new, *shared])
        rows = ClusterRows(cluster, blocks)
        selection.report("bins", f"{rows.n_rows} rows in {len(blocks)} blocks, {n_columns} columns")
        return layout, rows, known

    def _unfitted_model(self) -> KernelMachine:
        """Return an unfitted local estimator with the number and names of the columns of tables."""
        local = self._local_class(**self._local_params())
        for name in ("n_features_in_", "feature_names_in_"):
            if name in vars(self):
                setattr(local, name, vars(self)[name])
        return local

    def _class_factors(self, sample: Sample, encoder: TargetEncoder) -> FloatArray | None:
        """Return the factor of the weights of the rows of each class, or None for no factors."""
        return None

    def _adapt_to_all_rows(
        self, selection: Selection, sample: Sample, rows: ClusterRows, known: BinKeys | None
    ) -> SelectedModel:
        """Return the model selected on the sample, with the bins and the penalty of all rows.

        Its weights on validation rows are converted to those of unscaled bins.
        """
        selected, validation = selection.selected, selection.selected.validation
        if validation is not None and validation.weights is not None:
            weights = unscale_weights(selected.matrix, validation.weights)
            validation = replace(validation, weights=weights)
        selected = replace(selected, matrix=remove_factors(selected.matrix))
        first = parts_of(selected.feature_map)[0]
        if known is not None and isinstance(first, BinningMap):
            if validation is not None and validation.weights is not None:
                old = BinKeys(first.keys, first.offsets_)
                weights = _map_weights(validation.weights, known, old)
                validation = replace(validation, weights=weights)
            offsets = known.offsets
            first.take_bins(known.keys, offsets, code_type(offsets))
        settings = selected.settings
        if self._given_alpha() is None:
            share = len(selection.data.targets) / rows.n_rows
            settings = replace(settings, alpha=settings.alpha * share)
        limits = list(selected.limits)
        if not sample.complete:
            n_chosen = len(selection.data.targets)
            limits.append(f"sample: chosen by {n_chosen} of {sample.n_rows} rows")
        return replace(selected, settings=settings, validation=validation, limits=limits)

    def __sklearn_clone__(self) -> Self:
        copies = {k: clone(v, safe=False) for k, v in self._local_params().items()}
        return type(self)(**copies, client=self.client)

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "client": None}


@dataclass(eq=False, repr=False, kw_only=True)
class DaskKernelRegressor(DaskMachine, KernelRegressor):
    """:class:`KernelRegressor` for Dask arrays and data frames.

    The client selects scaling, grids, penalty and errors with a sample of 100,000 rows and further
    rows with rare values. Then the workers bin all rows, and conjugate gradients need one round
    trip per iteration. The fit has the same bits for any number of workers, and continues if
    workers die. For up to 100,000 rows, predictions equal those of the local estimator up to
    rounding.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        Client of the cluster; None is the current client of Dask.
    loss, quantile, power, fit_intercept, intervals, n_posterior : as in :class:`KernelRegressor`
        Several quantiles and ``intervals="quantiles"`` are not supported; ``n_posterior`` and
        ``l1_ratio`` must be 0, and ``solver`` must be "auto", "pcg" or "newton".
    features, bandwidth, scaling, categorical_features, relevance : as in :class:`KernelRegressor`
        The kernel and its inputs.
    grids, n_grids, effort, l1_ratio, alpha : as in :class:`KernelRegressor`
        The growth of grids and the penalty.
    monotonic_cst, calibrate, scoring, cv : as in :class:`KernelRegressor`
        Constraints, and model selection.
    solver, tol, max_iter, time_budget, memory_budget : as in :class:`KernelRegressor`
        The solver, and limits of the fit.
    random_state, warm_start, n_jobs, verbose : as in :class:`KernelRegressor`
        Seed, threads and logging.

    Attributes
    ----------
    weights_, intercept_, features_, ... : as in :class:`KernelRegressor`

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from gramless.distributed import DaskKernelRegressor
    >>> client = Client()  # doctest: +SKIP
    >>> X = da.random.uniform(-3, 3, size=(1_000_000, 2), chunks=(100_000, 2))
    >>> y = da.sin(X[:, 0]) + 0.3 * X[:, 1]
    >>> model = DaskKernelRegressor(random_state=0).fit(X, y)  # doctest: +SKIP
    >>> model.predict(X).mean().compute()  # doctest: +SKIP
    """

    client: Client | None = None
    _local_class = KernelRegressor

    def predict_interval(
        self,
        X: Collection,
        coverage: float = 0.9,
        method: str = "auto",
        offset: ArrayLike | None = None,
    ) -> tuple[Predictions, Predictions]:
        """Return the bounds of prediction intervals, two lazy arrays for collections.

        Parameters
        ----------
        X : dask collection, array or data frame (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Share of targets inside their interval.
        method : {"auto", "split"}, default="auto"
            See :meth:`KernelRegressor.predict_interval`.
        offset : array-like (n_samples,), optional
            Not for collections.
        """
        if not is_dask_collection(X):
            return super().predict_interval(X, coverage, method, offset)
        if offset is not None:
            raise InputError("DaskKernelRegressor: offset cannot be used for collections.")
        self._interval_model(method)
        self._held_back_errors("predict_interval")
        both = self._predict_lazily("predict_interval", X, coverage=coverage)
        return both[..., 0], both[..., 1]

    def _empty_result(self, name: str) -> AnyArray:
        like = super()._empty_result(name)
        return like if name == "predict" else np.empty((*like.shape, 2))

    def _check_distributable(self) -> None:
        super()._check_distributable()
        if self.n_posterior:
            raise InputError(
                "DaskKernelRegressor: n_posterior must be 0, because draws need one machine; fit "
                "KernelRegressor to a sample of the rows."
            )
        loss = self._named_loss()
        has_several = isinstance(loss, SmoothPinball) and loss.levels.ndim == 1
        if has_several or self.intervals != "split":
            raise InputError(
                "DaskKernelRegressor: only one quantile and intervals='split' are supported; fit a "
                "model for each quantile, or KernelRegressor to a sample of the rows."
            )


@dataclass(eq=False, repr=False, kw_only=True)
class DaskKernelClassifier(DaskMachine, KernelClassifier):
    """:class:`KernelClassifier` for Dask arrays and data frames; see :class:`DaskKernelRegressor`.

    The classes are those of all partitions; a class may be in a single partition. Ordered classes
    and several labels per row are not supported.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        Client of the cluster; None is the current client of Dask.
    loss, class_weight : as in :class:`KernelClassifier`
        ``l1_ratio`` must be 0, and ``solver`` must be "auto", "pcg" or "newton".
    features, bandwidth, scaling, categorical_features, relevance : as in :class:`KernelClassifier`
        The kernel and its inputs.
    grids, n_grids, effort, l1_ratio, alpha : as in :class:`KernelClassifier`
        The growth of grids and the penalty.
    monotonic_cst, calibrate, scoring, cv : as in :class:`KernelClassifier`
        Constraints, and model selection.
    solver, tol, max_iter, time_budget, memory_budget : as in :class:`KernelClassifier`
        The solver, and limits of the fit.
    random_state, warm_start, n_jobs, verbose : as in :class:`KernelClassifier`
        Seed, threads and logging.

    Attributes
    ----------
    classes_, weights_, features_, ... : as in :class:`KernelClassifier`

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from gramless.distributed import DaskKernelClassifier
    >>> client = Client()  # doctest: +SKIP
    >>> X = da.random.uniform(-3, 3, size=(1_000_000, 2), chunks=(100_000, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> model = DaskKernelClassifier(random_state=0).fit(X, y)  # doctest: +SKIP
    >>> model.predict_proba(X)[:3].compute()  # doctest: +SKIP
    """

    client: Client | None = None
    _local_class = KernelClassifier

    def decision_function(self, X: Collection) -> Predictions:
        """Return the decision function, a lazy array for collections.

        Parameters
        ----------
        X : dask collection, array or data frame (n_samples, n_features)
            Rows to predict.
        """
        return self._call(super().decision_function, X)

    @available_if(check_probabilities)
    def predict_proba(self, X: Collection) -> Predictions:
        """Return the probability of each class, a lazy array for collections.

        Parameters
        ----------
        X : dask collection, array or data frame (n_samples, n_features)
            Rows to predict.
        """
        return self._call(super().predict_proba, X)

    @available_if(check_probabilities)
    def predict_log_proba(self, X: Collection) -> Predictions:
        """Return the logarithms of :meth:`predict_proba`, a lazy array for collections.

        Parameters
        ----------
        X : dask collection, array or data frame (n_samples, n_features)
            Rows to predict.
        """
        return self._call(super().predict_log_proba, X)

    def predict_set(self, X: Collection, coverage: float = 0.9) -> Predictions:
        """Return prediction sets of classes, a lazy array for collections.

        Parameters
        ----------
        X : dask collection, array or data frame (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Share of rows whose set contains the true class.
        """
        if is_dask_collection(X):
            self._held_back_errors("predict_set")
        return self._call(super().predict_set, X, coverage=coverage)

    def _call(
        self, method: Callable[..., AnyArray], X: Collection, **options: object
    ) -> Predictions:
        """Return the result of a method, a lazy array for collections."""
        if not is_dask_collection(X):
            return method(X, **options)
        return self._predict_lazily(method.__name__, X, **options)

    def _empty_result(self, name: str) -> AnyArray:
        raw = super()._empty_result(name)
        if name == "decision_function":
            return raw
        if name == "predict":
            return self.classes_[:0]
        kind = bool if name == "predict_set" else float
        return np.empty((0, len(self.classes_)), kind)

    def _check_distributable(self) -> None:
        super()._check_distributable()
        if self.loss == "cumulative":
            raise InputError(
                "DaskKernelClassifier: loss='cumulative' is only for fits on one machine; use "
                "another loss, or fit KernelClassifier to a sample of the rows."
            )

    def _class_factors(self, sample: Sample, encoder: TargetEncoder) -> FloatArray | None:
        if self.class_weight is None:
            return None
        assert isinstance(encoder, ClassEncoder)
        sums = [sample.classes[label] for label in encoder.classes.tolist()]
        factors = class_weights(self.class_weight, encoder.classes, np.array(sums))
        return factors / factors.max()


def _predict_partition(
    model: KernelMachine, method: str, X: Table, like: AnyArray, **options: object
) -> AnyArray:
    """Return the result of a method for a partition; ``like`` is the result for no rows.

    Several arrays, such as the bounds of intervals, are stacked along a new last axis.
    """
    if n_rows_of(X) == 0:
        return like
    result = getattr(model, method)(X, **options)
    return np.stack(result, axis=-1) if isinstance(result, tuple) else result


def _merge_keys(cluster: Cluster, blocks: list[Future]) -> BinKeys:
    """Return the keys of all bins, merged by tasks of a few blocks each."""
    tables = cluster.submit(keys_of, [(block,) for block in blocks])
    merged = [tables]
    while len(tables) > _TABLES_PER_MERGE:
        groups = [
            (tables[i : i + _TABLES_PER_MERGE],) for i in range(0, len(tables), _TABLES_PER_MERGE)
        ]
        tables = cluster.submit(BinKeys.merge, groups)
        merged.append(tables)
    cluster.wait([*blocks, *tables])
    keys = cluster.gather(tables)
    for futures in merged:
        release(futures)
    return BinKeys.merge(keys)


def _bin_factors(
    selection: Selection, n_rows: int, layout: Layout, means: FloatArray
) -> FloatArray:
    """Return the factors of all bins, given the weighted means of their columns.

    The result is empty if all factors are 1, or if there are no bins.
    """
    power = selection.selected.count_power
    if power == 0.0 or layout.offsets is None:
        return np.empty(0)
    counts = row_counts(selection.data, slice(None))
    n_stood_for = counts.sum() * n_rows / len(counts)
    shares = means[: layout.offsets[-1]] / layout.scale
    return prior_deviations(shares * n_stood_for, power)


def _map_weights(weights: Vector, known: BinKeys, old: BinKeys) -> Vector:
    """Return weights of the bins ``old`` and of the columns after them as weights of all bins.

    Bins that are not in ``old`` have the weight 0.
    """
    n_old, n_new = int(old.offsets[-1]), int(known.offsets[-1])
    moved = np.zeros((n_new + len(weights) - n_old, *weights.shape[1:]))
    moved[known.columns_of(old).columns] = weights[:n_old]
    moved[n_new:] = weights[n_old:]
    return moved


def _identity(value: T) -> T:
    """Return the value (a task, so that a lost value can be computed again)."""
    return value
