"""The kernel machines of one machine, fitted to Dask collections."""

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
from gramless.base.memory import limited_memory
from gramless.base.random import seed_from
from gramless.base.reporting import Callbacks
from gramless.base.state import State
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, TableLike
from gramless.distributed.bins import BinKeys, code_type
from gramless.distributed.blocks import Layout, NewBlock, RowPlan, Table, keys_of, n_rows_of
from gramless.distributed.checkpoints import Resumable, solved
from gramless.distributed.cluster import Cluster, release, shared_out
from gramless.distributed.newton import ClusterNewtonState
from gramless.distributed.partitions import Collection, Partitions, Sizes, lengths_of, row_parts
from gramless.distributed.rows import ClusterRows, mean_squares, means_and_right
from gramless.distributed.samples import Sample
from gramless.distributed.solving import ClusterProblem, squares
from gramless.estimators.available import available_if
from gramless.estimators.base import KernelMachine
from gramless.estimators.classifier import KernelClassifier, _check_probabilities
from gramless.estimators.given_rows import EvalSet, ValidationArguments
from gramless.estimators.parameters import is_auto
from gramless.estimators.regressor import KernelRegressor
from gramless.estimators.steps import Selection
from gramless.estimators.targets import ClassEncoder, NumberEncoder, plain_labels
from gramless.features.binning import BinningMap, GivenBinning
from gramless.features.hybrid import Hybrid, JoinedMaps, parts_of
from gramless.features.smooth import SmoothBinning
from gramless.losses import SmoothPinball
from gramless.matrices.base import Vector
from gramless.matrices.scaled_bins import multiplied, plain_matrix, unscaled_weights
from gramless.selection.bin_priors import prior_deviations, row_counts
from gramless.selection.selected import SelectedModel
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Solution

_MERGED = 8
"""Tables of bins that a task merges."""
_SOLVERS = "auto", "pcg", "newton"

T = TypeVar("T")
Answer: TypeAlias = Any
"""An array for rows in memory, a lazy Dask array for collections."""


if TYPE_CHECKING:
    _Machine = KernelMachine
else:
    # Between a machine and its Dask twin, fields of their common base would come back.
    _Machine = object


class DaskMachine(_Machine):
    """What the Dask estimators share: a fit to collections, and lazy predictions."""

    sizes: ClassVar[Sizes] = Sizes()
    _local_class: ClassVar[type[KernelMachine]]
    client: Client | None
    _sample: Sample
    """Only while a fit chooses."""

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
        """Choose what was left on "auto" by a sample of the rows, then fit to all rows.

        Parameters
        ----------
        X : Dask array or data frame (n_samples, n_features)
            A block has whole rows. What columns may hold is told at :class:`KernelRegressor`.
        y, sample_weight, groups : Dask array, or column of the same data frame
            Also arrays in memory, where X knows the number of rows of its blocks.
        callbacks : callable or list of callables, optional
            Called with a :class:`~gramless.base.reporting.Progress` after each step; where one
            returns True the step's stage ends.
        X_val, y_val, sample_weight_val, eval_set, offset : None
            Only fits on one machine take these.
        checkpoint : path, optional
            Where the state of the final solve is kept, every half minute and when the fit fails. A
            fit to the same rows with the same parameters goes on there, to the same bits, and
            removes the file at its end.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        ValueError
            As the fit on one machine, and where collections do not fit each other.
        ClusterError
            If there is no worker for a minute, or the scheduler is gone.
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
        labels = isinstance(self, KernelClassifier)
        seed = seed_from(self.random_state)
        named = None if is_auto(self.categorical_features) else self.categorical_features
        sample = Sample.of(cluster, parts, seed, labels, self.sizes.sample_rows, named)
        if not sample.complete and isinstance(self.cv, Iterable):
            raise InputError(
                f"{name}: cv names rows of the whole table, and a sample of {sample.n_rows:,} rows "
                f"chooses; give a splitter, a number of folds or groups."
            )
        self._sample = sample
        try:
            with limited_memory(self._memory()):
                selection = self._select_model(*sample.rows, callbacks)
        finally:
            del self._sample
        selection.report(
            "sample",
            f"chosen by {len(selection.data.targets)} of {sample.n_rows} rows in "
            f"{len(parts.parts)} partitions",
        )
        if selection.selected.weights is not None:
            self._solve(selection)
        else:
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
                self._fit_everywhere(cluster, parts, sample, selection, checkpoint)
        self._learn_errors(selection)
        return self

    def partial_fit(
        self, X: Collection, y: Collection, *arguments: object, **options: object
    ) -> Self:
        """Refuse: rows are added on one machine.

        Parameters
        ----------
        X, y, *arguments, **options
            Not taken.
        """
        raise InputError(
            f"{type(self).__name__} has no partial_fit; add rows to what its to_local() returns."
        )

    def to_local(self) -> KernelMachine:
        """Return the ordinary estimator with the same parameters and, if fitted, the same fit.

        It needs neither Dask nor a cluster, and can be saved.
        """
        local = self._local_class(**self._local_params())
        local.__setstate__({**KernelMachine.__getstate__(local), **self._fitted()})
        return local

    def predict(self, X: Collection, *arguments: object, **options: object) -> Answer:
        """Return predictions, of collections lazily as Dask arrays; else as the local estimator.

        Parameters
        ----------
        X : dask collection, array or data frame (n_samples, n_features)
            Rows to predict.
        *arguments, **options
            Further ones of the local estimator; none for collections.
        """
        if not is_dask_collection(X):
            return super().predict(X, *arguments, **options)
        if arguments or options:
            raise InputError(
                f"{type(self).__name__}: predict of collections takes rows alone; use "
                f"to_local() for standard deviations."
            )
        return self._lazily("predict", X)

    def state(self) -> State:
        """Refuse: files hold the local estimator."""
        raise InputError(
            f"{type(self).__name__} is not saved itself; save what its to_local() returns, which "
            f"predicts the same."
        )

    def _lazily(self, name: str, X: Collection, **options: object) -> da.Array:
        """Return what a method of the local estimator answers for each partition of a collection.

        Rows are predicted where they are; a partition whose worker died is predicted again.
        """
        owner, like = type(self).__name__, self._like(name)
        lengths, parts = lengths_of(owner, X), row_parts(owner, X)
        known = delayed(self.to_local(), pure=False, traverse=False)
        task = delayed(_answer, pure=False)
        found = []
        for i, part in enumerate(parts):
            shape = np.nan if lengths is None else lengths[i], *like.shape[1:]
            answer = task(known, name, part, like, **options)
            found.append(da.from_delayed(answer, shape, meta=like))
        return da.concatenate(found, allow_unknown_chunksizes=True)

    def _like(self, name: str) -> AnyArray:
        """Return what a method answers for no rows."""
        check_is_fitted(self, "weights_")
        return np.empty((0, *self.weights_.shape[1:]))

    def _local_params(self) -> dict[str, Any]:
        return {k: v for k, v in self.get_params(deep=False).items() if k != "client"}

    def _check_distributable(self) -> None:
        """Refuse what only one machine can do."""
        name = type(self).__name__
        if self.solver not in _SOLVERS or self.l1_ratio != 0:
            raise InputError(
                f"{name}: on a cluster fits are by conjugate gradients: solver must be 'auto', "
                f"'pcg' or 'newton' and l1_ratio 0, got solver={self.solver!r} and "
                f"l1_ratio={self.l1_ratio!r}."
            )
        if self.warm_start or self.monotonic_cst is not None:
            raise InputError(
                f"{name}: warm_start and monotonic_cst are for fits on one machine; leave them out."
            )
        by_name = isinstance(self.features, str) and self.features == "smooth"
        if by_name or isinstance(self.features, (SmoothBinning, Hybrid)):
            raise InputError(
                f"{name}: workers merge plain bins only; use features='binning', or ones without "
                f"bins such as 'fourier' and 'nystrom', got features={self.features!r}."
            )

    def _fit_everywhere(
        self,
        cluster: Cluster,
        parts: Partitions,
        sample: Sample,
        selection: Selection,
        checkpoint: str | Path | None,
    ) -> None:
        """Bin all rows on the cluster, and solve for them."""
        layout, rows, known = self._binned(cluster, parts, sample, selection)
        try:
            selected = self._for_all_rows(selection, sample, rows, known)
            selection = replace(selection, selected=selected)
            self._keep_selected(selected)
            n_chosen = len(selection.data.targets)
            if not sample.complete:
                self.limits_.append(f"sample: chosen by {n_chosen} of {sample.n_rows} rows")
            bound = max(1.0, rows.largest_target)
            both = rows.summed(means_and_right, bound, rows.n_rows, rows.total)
            first = parts_of(selected.feature_map)[0]
            if isinstance(first, BinningMap) and layout.offsets is not None:
                shares = both[: layout.offsets[-1], 0] / layout.scale
                first.describe(np.maximum.reduceat(shares, layout.offsets[:-1]))
            factors = _factors(selection, rows.n_rows, layout, both[:, 1])
            order = selected.order if isinstance(selected.order, np.ndarray) else None
            problem = ClusterProblem(
                rows,
                layout,
                selection.data.penalty(selected.alpha),
                both[:, 0],
                multiplied(np.ascontiguousarray(both[:, 2:]), factors),
                sum(rows.per_block(mean_squares, rows.total)),
                order if sample.complete and n_chosen == rows.n_rows else None,
                factors,
                self.n_jobs,
            )
            solution = self._solved_there(problem, selection, checkpoint)
            solution = replace(solution, weights=multiplied(solution.weights, factors))
            self._keep_solution(solution, selection, rows.n_rows)
        finally:
            rows.release()

    def _keep_bins(self, selection: Selection, bins: GivenBinning, used: BoolArray) -> IntArray:
        # The rows of the bins are elsewhere.
        bins.keep_bins(used)
        return np.flatnonzero(used)

    def _solved_there(
        self, problem: ClusterProblem, selection: Selection, checkpoint: str | Path | None
    ) -> Solution:
        """Solve by the workers."""
        start, tighten = self._warm_start(selection)
        start = None if start is None else multiplied(start, 1.0 / problem.factors)
        tol = tighten * float(self.tol)
        watch, max_iter = selection.watch(), int(self.max_iter)
        state: Resumable
        if self.loss_.name == "squared":
            state, name = squares(problem, tol, start), "pcg"
        else:
            options = NewtonCG(tol=tol, max_iter=max_iter, n_jobs=self.n_jobs)
            state, name = ClusterNewtonState(problem, self.loss_, start, options), "newton"
        self.solver_reason_ = (
            f"{name}: {self.loss_.name} loss, {len(problem.rows.blocks)} blocks of rows on a "
            f"cluster, preconditioned with a sample of the rows"
        )
        n_columns, n_outputs = problem.right.shape
        shape = (n_columns,) if selection.encoder.n_outputs == 1 else (n_columns, n_outputs)
        cluster = problem.rows.cluster
        before = cluster.traffic()
        mark = problem.mark(name, tol, start)
        solution = solved(state, shape, max_iter, watch, checkpoint, mark)
        n_rounds, n_tasks, n_bytes = (
            after - own for own, after in zip(before, cluster.traffic(), strict=True)
        )
        selection.report(
            "solve",
            f"{solution.n_iter} iterations in {n_rounds} round trips: {n_tasks} tasks, "
            f"{n_bytes / 1e6:.3g} MB of vectors",
            n_rounds=n_rounds,
            n_tasks=n_tasks,
            n_bytes=n_bytes,
        )
        return solution

    def _binned(
        self, cluster: Cluster, parts: Partitions, sample: Sample, selection: Selection
    ) -> tuple[Layout, ClusterRows, BinKeys | None]:
        """Bin all rows; return where they are, and the keys of the bins that they fell into."""
        features = selection.selected.feature_map
        maps = parts_of(features)
        first = maps[0]
        grids = first.grids if isinstance(first, BinningMap) else None
        others = maps[1:] if grids is not None else maps
        plan = RowPlan(
            self._unfitted(),
            selection.selected.scaler,
            grids,
            others,
            selection.encoder,
            sample.largest_weight,
            self._class_factors(sample),
        )
        make, told = delayed(RowPlan.block, pure=False), delayed(plan, pure=False, traverse=False)
        new = cluster.started(
            [
                make(told, number, *chain.from_iterable(parts.parts[i] for i in own))
                for number, own in enumerate(self.sizes.blocks(sample.lengths))
            ]
        )
        known, offsets, scale = None, None, 1.0
        if isinstance(first, BinningMap):
            keys = _merged_keys(cluster, new)
            known, offsets, scale = keys, keys.offsets, first.scale_
        scales = features.scales_ if isinstance(features, JoinedMaps) else None
        layout = Layout(offsets, scale, scales, selection.data.intercept)
        shared = cluster.submit(_as_it_is, [(known,), (layout,)])
        # A worker that was quicker for a moment has binned more: all rounds would wait for it.
        workers = shared_out(cluster.places(new), cluster.workers())
        blocks = cluster.submit(
            NewBlock.numbered, [(own, *shared) for own in new], workers, elsewhere=True
        )
        n_columns = sum(own._n_features_out for own in others) + int(layout.intercept)
        n_columns += 0 if offsets is None else int(offsets[-1])
        # Tasks that need them keep them, and make them again where their worker died.
        release([*new, *shared])
        rows = ClusterRows(cluster, blocks)
        selection.report("bins", f"{rows.n_rows} rows in {len(blocks)} blocks, {n_columns} columns")
        return layout, rows, known

    def _unfitted(self) -> KernelMachine:
        """Return a local estimator that knows what columns mean, and nothing else."""
        local = self._local_class(**self._local_params())
        for name in ("inputs_", "n_features_in_", "feature_names_in_"):
            if name in vars(self):
                setattr(local, name, vars(self)[name])
        return local

    def _class_factors(self, sample: Sample) -> FloatArray | None:
        """Return what weights of the rows of each class are multiplied by."""
        return None

    def _for_all_rows(
        self, selection: Selection, sample: Sample, rows: ClusterRows, known: BinKeys | None
    ) -> SelectedModel:
        """Return what was chosen by the sample, with the bins and the penalty of all rows.

        Weights are those of the bins themselves.
        """
        selected, validation = selection.selected, selection.selected.validation
        if validation is not None and validation.weights is not None:
            own = unscaled_weights(selected.matrix, validation.weights)
            validation = replace(validation, weights=own)
        selected = replace(selected, matrix=plain_matrix(selected.matrix))
        first = parts_of(selected.feature_map)[0]
        if known is not None and isinstance(first, BinningMap):
            if validation is not None and validation.weights is not None:
                old = BinKeys(first.keys, first.offsets_)
                weights = _moved(validation.weights, known, old)
                validation = replace(validation, weights=weights)
            offsets = known.offsets
            first.take_bins(known.keys, offsets, code_type(offsets))
        settings = selected.settings
        if self._given_alpha() is None:
            share = len(selection.data.targets) / rows.n_rows
            settings = replace(settings, alpha=settings.alpha * share)
        return replace(selected, settings=settings, validation=validation)

    def __sklearn_clone__(self) -> Self:
        copies = {k: clone(v, safe=False) for k, v in self._local_params().items()}
        return type(self)(**copies, client=self.client)

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "client": None}


@dataclass(eq=False, repr=False, kw_only=True)
class DaskKernelRegressor(DaskMachine, KernelRegressor):
    """:class:`KernelRegressor` for Dask arrays and data frames.

    Scaling, grids, penalty and errors are chosen by a sample of at most 100,000 rows, gathered by
    the client; then workers bin all rows, and conjugate gradients make one round trip an iteration.
    The fit is the same to the last bit for any number of workers, and goes on where workers die.
    Up to 100,000 rows predictions are those of the local estimator but for rounding.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        None: the one that the program made last.
    loss, quantile, power, fit_intercept, intervals, n_posterior : as in :class:`KernelRegressor`
        But several quantiles and ``intervals="quantiles"`` are not taken, ``n_posterior`` and
        ``l1_ratio`` must be 0, and ``solver`` "auto", "pcg" or "newton".
    features, bandwidth, scaling, categorical_features, relevance : as in :class:`KernelRegressor`
        Which rows are alike.
    grids, n_grids, effort, l1_ratio, alpha : as in :class:`KernelRegressor`
        How grids are grown, and how strong the penalty is.
    monotonic_cst, calibrate, scoring, cv : as in :class:`KernelRegressor`
        Constraints, and the rows that judge.
    solver, tol, max_iter, time_budget, memory_budget : as in :class:`KernelRegressor`
        How the fit is solved, and what it may take.
    random_state, warm_start, n_jobs, verbose : as in :class:`KernelRegressor`
        Seed, threads and what is logged.

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
    ) -> tuple[Answer, Answer]:
        """Return bounds as the local estimator does, of collections two lazy arrays.

        Parameters
        ----------
        X : dask collection, array or data frame (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Share of targets that lie within.
        method : {"auto", "split"}, default="auto"
            As in :meth:`KernelRegressor.predict_interval`.
        offset : array-like (n_samples,), optional
            Not for collections.
        """
        if not is_dask_collection(X):
            return super().predict_interval(X, coverage, method, offset)
        if offset is not None:
            raise InputError("DaskKernelRegressor: collections are predicted without an offset.")
        self._interval_model(method)
        self._held_back_errors("predict_interval")
        both = self._lazily("predict_interval", X, coverage=coverage)
        return both[..., 0], both[..., 1]

    def _like(self, name: str) -> AnyArray:
        like = super()._like(name)
        return like if name == "predict" else np.empty((*like.shape, 2))

    def _target_encoder(self, y: AnyArray, weight: FloatArray | None) -> NumberEncoder:
        own, sample = super()._target_encoder(y, weight), self._sample
        if sample.complete or sample.moments is None or self._named_loss().robust:
            return own
        return sample.moments.encoder(self._named_loss(), self.fit_intercept)

    def _check_distributable(self) -> None:
        super()._check_distributable()
        if self.n_posterior:
            raise InputError(
                "DaskKernelRegressor: n_posterior must be 0: draws are made on one machine; fit "
                "KernelRegressor to a sample of the rows."
            )
        loss = self._named_loss()
        several = isinstance(loss, SmoothPinball) and loss.levels.ndim == 1
        if several or self.intervals != "split":
            raise InputError(
                "DaskKernelRegressor: one quantile, and intervals='split', are what clusters fit; "
                "fit a model for each quantile, or KernelRegressor to a sample of the rows."
            )


@dataclass(eq=False, repr=False, kw_only=True)
class DaskKernelClassifier(DaskMachine, KernelClassifier):
    """:class:`KernelClassifier` for Dask arrays and data frames; see :class:`DaskKernelRegressor`.

    Classes are those of all partitions, and may be in one alone. They have no order, and each row
    has one.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        None: the one that the program made last.
    loss, class_weight : as in :class:`KernelClassifier`
        Note that ``l1_ratio`` must be 0, and ``solver`` "auto", "pcg" or "newton".
    features, bandwidth, scaling, categorical_features, relevance : as in :class:`KernelClassifier`
        Which rows are alike.
    grids, n_grids, effort, l1_ratio, alpha : as in :class:`KernelClassifier`
        How grids are grown, and how strong the penalty is.
    monotonic_cst, calibrate, scoring, cv : as in :class:`KernelClassifier`
        Constraints, and the rows that judge.
    solver, tol, max_iter, time_budget, memory_budget : as in :class:`KernelClassifier`
        How the fit is solved, and what it may take.
    random_state, warm_start, n_jobs, verbose : as in :class:`KernelClassifier`
        Seed, threads and what is logged.

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

    def decision_function(self, X: Collection) -> Answer:
        """Return the raw responses, of collections lazily.

        Parameters
        ----------
        X : dask collection, array or data frame (n_samples, n_features)
            Rows to predict.
        """
        return self._asked(super().decision_function, X)

    @available_if(_check_probabilities)
    def predict_proba(self, X: Collection) -> Answer:
        """Return the probability of each class, of collections lazily.

        Parameters
        ----------
        X : dask collection, array or data frame (n_samples, n_features)
            Rows to predict.
        """
        return self._asked(super().predict_proba, X)

    @available_if(_check_probabilities)
    def predict_log_proba(self, X: Collection) -> Answer:
        """Return the logarithms of :meth:`predict_proba`, of collections lazily.

        Parameters
        ----------
        X : dask collection, array or data frame (n_samples, n_features)
            Rows to predict.
        """
        return self._asked(super().predict_log_proba, X)

    def predict_set(self, X: Collection, coverage: float = 0.9) -> Answer:
        """Return sets of classes as the local estimator does, of collections lazily.

        Parameters
        ----------
        X : dask collection, array or data frame (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Share of rows whose set holds the true class.
        """
        if is_dask_collection(X):
            self._held_back_errors("predict_set")
        return self._asked(super().predict_set, X, coverage=coverage)

    def _asked(self, method: Callable[..., AnyArray], X: Collection, **options: object) -> Answer:
        """Return what a method answers, of collections lazily."""
        if not is_dask_collection(X):
            return method(X, **options)
        return self._lazily(method.__name__, X, **options)

    def _like(self, name: str) -> AnyArray:
        raw = super()._like(name)
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
                "DaskKernelClassifier: loss='cumulative' is fitted on one machine; take another "
                "loss, or fit KernelClassifier to a sample of the rows."
            )

    def _plain_targets(self, y: ArrayLike) -> ArrayLike:
        return plain_labels(y, type(self).__name__)

    def _check_targets(self, y: AnyArray) -> AnyArray:
        return ClassEncoder.check(y, warn=True)

    def _class_factors(self, sample: Sample) -> FloatArray | None:
        if self.class_weight is None:
            return None
        sums = [sample.classes[label] for label in self.classes_.tolist()]
        factors = self._class_weights(self.classes_, np.array(sums))
        return factors / factors.max()


def _answer(
    model: KernelMachine, method: str, X: Table, like: AnyArray, **options: object
) -> AnyArray:
    """Return what a method answers for the rows of a partition; ``like`` is that for no rows.

    Several arrays, such as the bounds of intervals, become one with another last axis.
    """
    if n_rows_of(X) == 0:
        return like
    answer = getattr(model, method)(X, **options)
    return np.stack(answer, axis=-1) if isinstance(answer, tuple) else answer


def _merged_keys(cluster: Cluster, blocks: list[Future]) -> BinKeys:
    """Return the keys of all bins, merged by tasks, a few blocks at a time."""
    tables = cluster.submit(keys_of, [(own,) for own in blocks])
    merged = [tables]
    while len(tables) > _MERGED:
        groups = [(tables[i : i + _MERGED],) for i in range(0, len(tables), _MERGED)]
        tables = cluster.submit(BinKeys.merged, groups)
        merged.append(tables)
    cluster.wait([*blocks, *tables])
    found = cluster.gather(tables)
    for own in merged:
        release(own)
    return BinKeys.merged(found)


def _factors(selection: Selection, n_rows: int, layout: Layout, means: FloatArray) -> FloatArray:
    """Return the factors of all bins, given the weighted means of their columns; none for 1."""
    power = selection.selected.count_power
    if power == 0.0 or layout.offsets is None:
        return np.empty(0)
    counts = row_counts(selection.data, slice(None))
    n_stood_for = counts.sum() * n_rows / len(counts)
    shares = means[: layout.offsets[-1]] / layout.scale
    return prior_deviations(shares * n_stood_for, power)


def _moved(weights: Vector, known: BinKeys, old: BinKeys) -> Vector:
    """Return weights of some bins, and of what lies beside them, as weights of all bins."""
    n_old, n_new = int(old.offsets[-1]), int(known.offsets[-1])
    moved = np.zeros((n_new + len(weights) - n_old, *weights.shape[1:]))
    moved[known.columns(old).columns] = weights[:n_old]
    moved[n_new:] = weights[n_old:]
    return moved


def _as_it_is(value: T) -> T:
    """Return a value: a task whose result can be computed again."""
    return value
