"""What the doubly stochastic regressor and classifier share: rows to a run, and its result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gramless.base.deadline import Deadline
from gramless.base.errors import InputError
from gramless.base.random import RandomState, seed_from
from gramless.base.threads import row_blocks
from gramless.estimators.checkpoints import Checkpoint
from gramless.estimators.parameters import check_count, check_switch
from gramless.estimators.stream_parameters import (
    check_parameters,
    given_alpha,
    given_limits,
    given_scalings,
    given_schedule,
    rows_to_hold_out,
)
from gramless.estimators.stream_run import (
    check_source,
    first_function,
    first_pass,
    given_block_size,
    mixed_rows,
    products_of,
    projection_of,
    tell_diverged,
)
from gramless.kernels import KernelLike, as_spectral_kernel
from gramless.losses import Loss
from gramless.preprocessing.rows import ROW_OPTIONS, Rows, check_rows, normalise_rows, validated
from gramless.streaming.bandwidth_selection import prepare
from gramless.streaming.doubly_stochastic import Step
from gramless.streaming.feature_blocks import BlockProducts
from gramless.streaming.sources import ArraySource, RowSource
from gramless.streaming.step_sizes import InverseTime, block_variance, largest_curvature
from gramless.streaming.strategies import Strategy
from gramless.streaming.summary_statistics import Summary, summarise
from gramless.streaming.training_loop import (
    EncodedSource,
    Evaluation,
    Training,
    columns_of,
    in_groups,
    rows_of,
)

Callback = Callable[[Step, Evaluation | None], Any]

_SAMPLE_ROWS = 2000
_CURVATURE_ROWS, _VARIANCE_ROWS = 1000, 400
_RUN = frozenset(("_training", "_run", "run_"))
"""Where a run is kept: in the model itself, in a copy of it, in one from a checkpoint."""
_PREDICT_ROWS = 4096


class StreamedMachine(BaseEstimator, ABC):
    """Common base of the doubly stochastic estimators; see those for the parameters."""

    _losses: ClassVar[dict[str, Loss]]

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        loss: str | Loss = "squared",
        strategy: str | Strategy = "checking",
        bandwidth: float | ArrayLike | str = "auto",
        alpha: float | str = "auto",
        update: str = "auto",
        schedule: str | InverseTime = "auto",
        block_size: int = 256,
        batch_size: int = 4096,
        max_steps: int = 500,
        fit_intercept: bool = True,
        average: bool = True,
        scaling: str = "auto",
        n_components: int | None = None,
        patience: int | None = 10,
        tol: float = 1e-2,
        time_budget: float | None = None,
        cache_bytes: int = 1 << 29,
        checkpoint: str | None = None,
        checkpoint_seconds: float = 60.0,
        device: str = "cpu",
        random_state: RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.strategy = strategy
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.update = update
        self.schedule = schedule
        self.block_size = block_size
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.fit_intercept = fit_intercept
        self.average = average
        self.scaling = scaling
        self.n_components = n_components
        self.patience = patience
        self.tol = tol
        self.time_budget = time_budget
        self.cache_bytes = cache_bytes
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, callback: Callback | None = None) -> Any:
        """Fit to rows in memory or in a memory-mapped file.

        Parameters
        ----------
        X : array-like, memmap or sparse matrix (n_samples, n_features)
        y : array-like (n_samples,) or, in regression, (n_samples, n_outputs)
        callback : callable, optional
            Called as ``callback(step, evaluation)`` after each step, the second None where
            nothing was judged; True ends the run.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        ValueError
            On NaN, infinity, one class, wrong shapes or wrong parameters.
        """
        rows, targets = self._checked(X, y, reset=True)
        earlier, seed = self._earlier()
        n_held_out = rows_to_hold_out(self, len(targets))
        source = ArraySource(rows, targets, seed=seed, n_held_out=n_held_out)
        return self._fit_source(source, seed, earlier, None, callback)

    def fit_stream(
        self,
        source: RowSource,
        *,
        classes: ArrayLike | None = None,
        callback: Callback | None = None,
    ) -> Any:
        """Fit to a stream of rows, which may be larger than memory.

        Parameters
        ----------
        source : RowSource
            Such as :class:`~gramless.streaming.sources.IteratorSource` or what
            :func:`~gramless.open_stream` returns. The rows that it holds out judge the run.
        classes : array-like, optional
            All labels of a classifier, where a look at the first rows may miss some.
        callback : callable, optional
            As in :meth:`fit`.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        ValueError
            As :meth:`fit`, naming rows of the stream.
        """
        check_source(self, source)
        self.__dict__.pop("feature_names_in_", None)
        names = getattr(source, "names", None)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        self.n_features_in_ = int(source.n_features)
        earlier, seed = self._earlier()
        return self._fit_source(source, seed, earlier, classes, callback)

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> Any:
        """Take a step with each batch of some rows.

        The rows of the first call decide the kernel's scale and the length of steps: give some
        hundreds of them, and no fewer a call later on.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
        y : array-like (n_samples,) or, in regression, (n_samples, n_outputs)
        classes : array-like, optional
            All labels, at the first call of a classifier whose first rows do not have them all.

        Returns
        -------
        The estimator itself.
        """
        begun = hasattr(self, "weights_")
        if begun and not _RUN & vars(self).keys():
            raise InputError(
                f"{type(self).__name__}: this model is from a file without the state of its run; "
                f"fit anew, with checkpoint= for a file that has it."
            )
        check_parameters(self, self._losses)
        rows, targets = self._checked(X, y, reset=not begun)
        source = ArraySource(rows, targets, seed=0, shuffle=False)
        most = check_count(self, "batch_size")
        if not begun:
            self._forget()  # Also a fit that was interrupted.
            batch = min(most, source.n_rows)
            self._begin(source.chunks(), None, batch, seed_from(self.random_state), classes)
        training = self._training_now()
        encoded = EncodedSource(source, self.preparation_.project, self._encode)
        for a, b in row_blocks(source.n_rows, most):
            training.take(*encoded.read(a, b))
        self._settle(training, "partial")
        return self

    def _fit_source(
        self,
        source: RowSource,
        seed: int,
        earlier: Any,
        classes: ArrayLike | None,
        callback: Callback | None,
    ) -> Any:
        deadline = Deadline(self.time_budget)
        self._forget()
        checkpoint = self._checkpoint() if self.checkpoint is not None else None
        rows = source if checkpoint is None else checkpoint.follow(source, earlier)
        if earlier is None:
            batch = min(check_count(self, "batch_size"), rows.n_rows or 2**63)
            self._begin(first_pass(self, rows), rows.n_rows, batch, seed, classes)
        else:
            for name in [name for name in vars(earlier) if name.endswith("_")]:
                setattr(self, name, getattr(earlier, name))
        training = self._training_now()
        limits = given_limits(self, deadline)

        def after(step: Step, evaluation: Evaluation | None) -> bool:
            self._tell(step, evaluation)
            if checkpoint is not None and checkpoint.due():
                self._settle(training, "running")
                checkpoint.write(self, training.state())
            return bool(callback is not None and callback(step, evaluation))

        encoded = EncodedSource(rows, self.preparation_.project, self._encode)
        self._settle(training, training.run(encoded, limits, after))
        if checkpoint is not None and not training.diverged:
            checkpoint.write(self, training.state())
        return self

    def _begin(
        self,
        chunks: Iterable[tuple[Rows, NDArray[Any]]],
        n_rows: int | None,
        batch_rows: int,
        seed: int,
        classes: ArrayLike | None,
    ) -> None:
        """Learn all that steps need from one pass over rows."""
        self.kernel_ = as_spectral_kernel(self.kernel)
        self.seed_, self.batch_rows_ = seed, batch_rows
        summary = summarise(
            chunks, seed=seed, sample_rows=_SAMPLE_ROWS, covariance=self.n_components is not None
        )
        self._learn_targets(summary, classes)
        projection = projection_of(self, summary)
        self.block_size_ = given_block_size(self, summary, projection)
        self.preparation_, self.reason_ = prepare(
            *(summary, self._encode(summary.sample_targets), projection, self.bandwidth),
            *(given_scalings(self), self.kernel_, seed),
        )
        self.alpha_ = given_alpha(self, n_rows)
        sample = mixed_rows(self, summary, _CURVATURE_ROWS)
        few = sample[:_VARIANCE_ROWS]
        self.variance_ = 0.0
        if len(few) > 1:
            self.variance_ = block_variance(self.kernel_, few, self.block_size_, seed)
        curvature = largest_curvature(self.kernel_, sample, centered=self.fit_intercept)
        self.schedule_ = given_schedule(self, curvature, self._n_outputs)

    def _training_now(self) -> Training:
        """Return the run as it stands: new, or as far as it came."""
        training: Training | None = vars(self).get("_training")
        if training is not None:
            return training
        machine = first_function(self, self._n_outputs)
        averaged = check_switch(self, "average")
        training = Training(machine, self.batch_rows_, averaged, self._error)
        state = self.__dict__.pop("_run", self.__dict__.pop("run_", None))
        if state is not None:
            training.restore(state)
            training.history = rows_of(self.history_)
            training.evaluations = rows_of(self.evaluations_)
        self._training = training
        return training

    def _settle(self, training: Training, status: str) -> None:
        """Take over what a run has found so far."""
        if training.diverged:
            tell_diverged(self, training)
        found = training.result()
        self.weights_, self.constant_ = found.weights, found.constant
        self.n_iter_, self.status_ = training.machine.iteration, status
        self.history_ = columns_of(training.history)
        self.evaluations_ = columns_of(training.evaluations)

    def _forget(self) -> None:
        for name in (*_RUN, "_products", "weights_"):
            self.__dict__.pop(name, None)

    def __getstate__(self) -> dict[str, Any]:
        """Leave frequencies out of copies, which draw them again."""
        state = dict(super().__getstate__())
        state.pop("_products", None)
        training: Training | None = state.pop("_training", None)
        return state if training is None else {**state, "_run": training.state()}

    def _responses(self, X: Any) -> NDArray[np.float64]:
        """Return the function at new rows, (n, n_outputs)."""
        check_is_fitted(self, "weights_")
        rows = check_rows(self, X, reset=False)
        products = self._predicting()
        size = 2 * self.block_size_
        weights = in_groups(self.weights_, size * products.blocks.group_blocks)
        parts = []
        for a, b in row_blocks(rows.shape[0], _PREDICT_ROWS):
            prepared = products.prepare(self.preparation_.project(rows[a:b]))
            parts.append(products.responses(prepared, weights, len(self.weights_) // size))
        return np.concatenate(parts) + self.constant_

    def _predicting(self) -> BlockProducts:
        """Return the products of the run, or new ones in a model from a file."""
        training: Training | None = vars(self).get("_training")
        if training is not None:
            return training.machine.products
        if "_products" not in vars(self):
            self._products = products_of(self)
        return self._products

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Rows, NDArray[Any]]:
        X, y = validated(self, X, y, reset=reset, **ROW_OPTIONS, **self._target_options())
        return normalise_rows(X), self._check_targets(y)

    def _earlier(self) -> tuple[Any, int]:
        """Return the model of an earlier part of this run, if there is one, and the seed."""
        check_parameters(self, self._losses)
        earlier = None if self.checkpoint is None else self._checkpoint().found(self)
        return earlier, seed_from(self.random_state) if earlier is None else earlier.seed_

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(Path(self.checkpoint), float(self.checkpoint_seconds))  # type: ignore[arg-type]

    def _tell(self, step: Step, evaluation: Evaluation | None) -> None:
        if self.verbose and evaluation is not None:
            print(
                f"[{type(self).__name__}] step {step.iteration}, {step.n_blocks} blocks: batch "
                f"{step.loss:.4f}, held back {evaluation.loss:.4f}, error {evaluation.error:.4f}"
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = "multi_output" in self._target_options()
        return tags

    @property
    @abstractmethod
    def _n_outputs(self) -> int:
        """How many functions are learned."""

    @abstractmethod
    def _target_options(self) -> dict[str, Any]:
        """Return how ``validate_data`` treats the targets."""

    @abstractmethod
    def _check_targets(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return the targets in the shape that a source keeps."""

    @abstractmethod
    def _learn_targets(self, summary: Summary, classes: ArrayLike | None) -> None:
        """Learn what :meth:`_encode` needs, and the loss as ``loss_``."""

    @abstractmethod
    def _encode(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the numbers to fit, (n, n_outputs)."""

    @abstractmethod
    def _error(self, responses: NDArray[np.float64], targets: NDArray[np.float64]) -> float:
        """Judge responses to held-back rows; smaller is better."""
