"""The common base of the doubly stochastic estimators."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from gramless.base.columns import target_name
from gramless.base.errors import InputError
from gramless.base.memory import check_memory, large_array_budget
from gramless.base.progress import Deadline, Reporter
from gramless.base.random import RandomStateLike, seed_from, stream
from gramless.base.state import (
    State,
    StatefulEstimator,
    check_columns,
    number_in,
    part_in,
    require,
)
from gramless.base.threads import row_blocks, thread_count
from gramless.base.types import AnyArray, FloatArray, TableLike
from gramless.estimators.checkpoints import Checkpoint
from gramless.estimators.parameters import (
    check_choice,
    check_count,
    check_number,
    check_switch,
    is_auto,
    unknown_value,
)
from gramless.estimators.targets import TargetEncoder
from gramless.kernels import KernelLike, SpectralKernel, as_kernel, as_spectral_kernel
from gramless.losses import OUTLIER_BOUND, Loss
from gramless.preprocessing.rows import ROW_OPTIONS, Rows, check_rows, normalise_rows, validate_rows
from gramless.streaming.bandwidth_selection import Preparation, select_preparation
from gramless.streaming.doubly_stochastic import (
    DoublyStochastic,
    FreeIntercept,
    NewtonStep,
    NoIntercept,
    Step,
    Update,
)
from gramless.streaming.feature_blocks import BlockProducts, CpuProducts, FrequencyBlocks
from gramless.streaming.feature_expansion import FeatureExpansion
from gramless.streaming.principal_components import Projection
from gramless.streaming.sources import (
    ArraySource,
    RowSource,
    default_held_out,
    names_of,
    target_name_of,
)
from gramless.streaming.step_sizes import (
    InverseTime,
    block_variance,
    first_step,
    largest_curvature,
    loss_curvature,
)
from gramless.streaming.strategies import Checking, Grow, Strategy, Uniform
from gramless.streaming.summary_statistics import Summary, summarise
from gramless.streaming.training_loop import (
    EncodedSource,
    Evaluation,
    Limits,
    Training,
    check_function,
    check_records,
    columns_to_records,
    records_to_columns,
    split_into_groups,
)

STRATEGIES: dict[str, Strategy] = {
    "checking": Checking(),  # CDSG's choice of the block, with the steps of the schedule
    "cdsg": Checking(longest=np.inf),  # the paper's
    "uniform": Uniform(),  # UDSG
    "grow": Grow(),  # DSG
}

# Called after each step, with an evaluation if there was one; a true result ends the run.
Callback = Callable[[Step, Evaluation | None], object]

# Attributes with the state of a run: of the model, of a copy, and of a model from a checkpoint.
_RUN = frozenset(("_training", "_run", "run_"))
_MAX_SHRINKING = 1e6  # the largest first step times alpha; far larger products overflow
_MIN_ALPHA = 1e-100
# Per frequency and input, per frequency and row of a batch, and per value of the sample.
_FREQUENCY_BYTES, _FEATURE_BYTES, _SAMPLE_BYTES = 24.0, 8.0, 24.0


@dataclass(frozen=True)
class StreamDefaults:
    """The default settings of streamed estimators."""

    theta_alpha: float = 1.5  # of the schedule; DSG16's Theorem 3 requires 1 to 2
    alpha_rows: float = 0.1  # alpha times the number of rows
    unknown_rows: int = 1_000_000  # assumed number of rows if it is unknown
    min_rows_to_hold_out: int = 200  # smaller tables hold out no rows
    max_newton_columns: int = 2048  # larger blocks take gradient steps
    min_ridge: float = 1e-6  # of Newton steps; above rounding errors in single precision
    sample_rows: int = 2000  # for the kernel's scale
    curvature_rows: int = 1000  # of the sample, for the first step
    variance_rows: int = 400  # of these, for the variance of blocks
    predict_rows: int = 4096  # per block of predictions


@dataclass(frozen=True)
class LearnedTargets:
    """The loss and the target encoder of a stream, and the fitted attributes to rebuild it."""

    loss: Loss
    encoder: TargetEncoder
    attributes: Mapping[str, object]


@dataclass(eq=False, repr=False)
class StreamedMachine(StatefulEstimator, ABC):
    """The common base of the doubly stochastic estimators, which document the parameters."""

    _rebuilt = frozenset(("_training", "_products"))
    _losses: ClassVar[dict[str, Loss]]
    _target_options: ClassVar[dict[str, object]]  # of scikit-learn's validate_data
    _defaults: ClassVar[StreamDefaults] = StreamDefaults()

    kernel: KernelLike = "gaussian"
    _: KW_ONLY
    loss: str = "squared"
    strategy: str | Strategy = "checking"
    bandwidth: float | ArrayLike | str = "auto"
    alpha: float | str = "auto"
    update: str = "auto"
    schedule: str | InverseTime = "auto"
    block_size: int = 256
    batch_size: int = 4096
    max_steps: int = 500
    fit_intercept: bool = True
    average: bool = True
    scaling: str = "auto"
    n_components: int | None = None
    patience: int | None = 10
    tol: float = 1e-2
    time_budget: float | None = None
    cache_bytes: int = 1 << 29
    checkpoint: str | None = None
    checkpoint_seconds: float = 60.0
    device: str = "cpu"
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: TableLike, y: ArrayLike, callback: Callback | None = None) -> Self:
        """Fit to rows in memory or in a memory-mapped file.

        Parameters
        ----------
        X : array-like, memmap or sparse matrix (n_samples, n_features)
            Training rows.
        y : array-like (n_samples,) or, in regression, (n_samples, n_outputs)
            Their targets.
        callback : callable, optional
            A function that is called as ``callback(step, evaluation)`` after each step. The
            evaluation is None if there was none. The run ends if it returns True.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        ValueError
            If there are NaN or infinite numbers, only one class, or wrong shapes or parameters.
        """
        rows, targets = self._validate(X, y, reset=True)
        self.target_name_ = target_name(y)

        def source(seed: int) -> ArraySource:
            n_held_out = self._rows_to_hold_out(len(targets))
            return ArraySource(rows, targets, seed=seed, n_held_out=n_held_out)

        return self._fit_source(source, None, callback)

    def fit_stream(
        self,
        source: RowSource,
        *,
        classes: ArrayLike | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Fit to a stream of rows, which may be larger than memory.

        Parameters
        ----------
        source : RowSource
            A source such as :class:`~gramless.streaming.sources.IteratorSource` or the result of
            :func:`~gramless.open_stream`. The run is evaluated on its held-out rows.
        classes : array-like, optional
            All labels of a classifier, if the first rows may lack some.
        callback : callable, optional
            See :meth:`fit`.

        Returns
        -------
        The estimator itself.
        """
        if not isinstance(source, RowSource):
            raise self._error_of(
                f"fit_stream needs a source of rows, got {type(source).__name__}; make one by "
                f"open_stream, IteratorSource or ArraySource, or pass arrays to fit."
            )
        self.__dict__.pop("feature_names_in_", None)
        names = names_of(source)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        self.n_features_in_ = int(source.n_features)
        self.target_name_ = target_name_of(source)
        return self._fit_source(lambda seed: source, classes, callback)

    def partial_fit(self, X: TableLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Take one step with each batch of the rows.

        The rows of the first call determine the kernel's scale and the length of steps, so there
        should be hundreds of them, and no fewer in later calls.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
            Further training rows.
        y : array-like (n_samples,) or, in regression, (n_samples, n_outputs)
            Their targets.
        classes : array-like, optional
            All labels, in the first call of a classifier if its rows may lack some.

        Returns
        -------
        The estimator itself.
        """
        is_fitted = "weights_" in vars(self)
        if is_fitted and not _RUN & vars(self).keys():
            raise self._error_of(
                "this model is from a file without the state of its run; fit a new model, with "
                "checkpoint= for a file with the state."
            )
        self.check_parameters()
        rows, targets = self._validate(X, y, reset=not is_fitted)
        source = ArraySource(rows, targets, seed=0, shuffle=False)
        batch_size = check_count(self, "batch_size")
        if not is_fitted:
            self._forget()  # An interrupted fit may have left its run.
            batch = min(batch_size, source.n_rows)
            self._prepare(source.chunks(), None, batch, seed_from(self.random_state), classes)
        training = self._current_training()
        encoded = EncodedSource(source, self.preparation_.project, self._encode)
        for a, b in row_blocks(source.n_rows, batch_size):
            training.partial_step(*encoded.read(a, b))
        self._store(training, "partial")
        return self

    def _fit_source(
        self,
        source: Callable[[int], RowSource],
        classes: ArrayLike | None,
        callback: Callback | None,
    ) -> Self:
        """Fit to the source of a seed, and resume from the checkpoint if there is one."""
        self.check_parameters()
        checkpoint = earlier = None
        if self.checkpoint is not None:
            checkpoint = Checkpoint(Path(self.checkpoint), float(self.checkpoint_seconds))
            earlier = checkpoint.load_earlier(self)
        seed = seed_from(self.random_state) if earlier is None else earlier.seed_
        rows = source(seed)
        deadline = Deadline(self.time_budget)
        report = Reporter(type(self).__name__, verbose=bool(self.verbose))
        self._forget()
        if checkpoint is not None:
            rows = checkpoint.follow(rows, None if earlier is None else vars(earlier)["run_"])
        if earlier is None:
            batch = min(check_count(self, "batch_size"), rows.n_rows or 2**63)
            self._prepare(self._first_pass(rows), rows.n_rows, batch, seed, classes)
        else:
            self.__dict__.update({k: v for k, v in vars(earlier).items() if k.endswith("_")})
        training = self._current_training()

        def after_step(step: Step, evaluation: Evaluation | None) -> bool:
            if evaluation is not None:
                report(
                    "training",
                    f"step {step.iteration}, {step.n_blocks} blocks: batch {step.loss:.4f}, "
                    f"held back {evaluation.loss:.4f}, error {evaluation.error:.4f}",
                    iteration=step.iteration,
                    batch_loss=step.loss,
                    loss=evaluation.loss,
                    error=evaluation.error,
                )
            if checkpoint is not None and checkpoint.is_due():
                self._store(training, "running")
                checkpoint.write(self, training.state())
            return bool(callback is not None and callback(step, evaluation))

        encoded = EncodedSource(rows, self.preparation_.project, self._encode)
        limits = Limits(int(self.max_steps), self._given_patience(), float(self.tol), deadline)
        self._store(training, training.run(encoded, limits, after_step))
        if checkpoint is not None and not training.has_diverged:
            checkpoint.write(self, training.state())
        return self

    def _first_pass(self, source: RowSource) -> Iterable[tuple[Rows, AnyArray]]:
        """Return the rows for the kernel's scale, which are all rows if their number is known."""
        if source.n_rows is not None:
            return source.chunks()
        held_out = source.held_out()
        if not len(held_out[1]):
            raise self._error_of(
                "a stream of unknown length needs held-out rows for the kernel's scale; use "
                "IteratorSource(batches, n_held_out=2000)."
            )
        return [held_out]

    def _prepare(
        self,
        chunks: Iterable[tuple[Rows, AnyArray]],
        n_rows: int | None,
        batch_rows: int,
        seed: int,
        classes: ArrayLike | None,
    ) -> None:
        """Set the attributes that steps need, from one pass over rows."""
        defaults, kernel = self._defaults, as_spectral_kernel(self.kernel)
        has_components = self.n_components is not None or self.scaling == "whiten"
        # The pass copies rows, so memory is checked before.
        n_sample = min(defaults.sample_rows, n_rows or defaults.sample_rows)
        n_inputs = self.n_features_in_
        check_memory(
            f"{type(self).__name__}: a sample of {n_sample:,} rows of {n_inputs:,} inputs",
            _SAMPLE_BYTES * n_sample * n_inputs,
            "take fewer inputs",
        )
        summary = summarise(
            chunks, seed=seed, sample_rows=defaults.sample_rows, covariance=has_components
        )
        learned = self._learn_targets(summary, classes)
        projection = self._projection(summary) if has_components else None
        block_size = self._check_block_size(summary, projection, batch_rows)
        targets = _encoded(learned.encoder, summary.sample_targets)
        if learned.loss.robust:
            # The bandwidth is selected by least squares, which outliers would dominate.
            targets = np.clip(targets, -OUTLIER_BOUND, OUTLIER_BOUND)
        n_outputs = targets.shape[1]
        preparation, reason = select_preparation(
            *(summary, targets, projection, self.bandwidth),
            *(self._given_scalings(), kernel, seed),
        )
        # The sample is in the order of the stream, which may be sorted.
        order = stream(seed, "rows of curvature").permutation(summary.sample.shape[0])
        sample = preparation.unit_rows(summary.sample[order[: defaults.curvature_rows]])
        rows = sample[: defaults.variance_rows]
        variance = block_variance(kernel, rows, block_size, seed) if len(rows) > 1 else 0.0
        alpha = self._given_alpha(n_rows)
        curvature = largest_curvature(kernel, sample, centered=self.fit_intercept)
        longest = first_step(learned.loss, n_outputs, curvature, block_size, batch_rows)
        schedule = self._given_schedule(alpha, longest)
        self.kernel_, self.seed_, self.loss_ = kernel, seed, learned.loss
        self.batch_rows_, self.block_size_ = batch_rows, block_size
        self.preparation_, self.reason_ = preparation, reason
        self.alpha_, self.variance_, self.schedule_ = alpha, variance, schedule
        self.constant_ = np.zeros(n_outputs)
        self.__dict__.update(learned.attributes)

    def _given_update(self) -> Update:
        """Return the update rule of the blocks, which needs the schedule."""
        if not self.fit_intercept:
            return NoIntercept()
        curvature = loss_curvature(self.loss_, len(self.constant_))
        is_small = 2 * self.block_size_ <= self._defaults.max_newton_columns
        if self.update == "newton" or (self.update == "auto" and is_small):
            ridge = max(1.0 / self.batch_rows_, self._defaults.min_ridge)
            return NewtonStep(curvature, self.schedule_.step(1), ridge)
        return FreeIntercept(1.0 / curvature)

    def _given_schedule(self, alpha: float, longest: float) -> InverseTime:
        """Return the given schedule, or one with a first step of at most ``longest``."""
        if isinstance(self.schedule, InverseTime):
            first = self.schedule.step(1) * alpha
            if first > _MAX_SHRINKING:
                raise self._error_of(
                    f"the first step of schedule={self.schedule!r} times alpha is {first:g}, where "
                    f"2 is long; give a longer delay."
                )
            return self.schedule
        theta = self._defaults.theta_alpha / alpha
        return InverseTime(theta, max(0.0, theta / longest - 1.0))

    def _projection(self, summary: Summary) -> Projection:
        if summary.n_rows == 1:
            raise self._error_of(
                "n_components and scaling='whiten' need different rows, got n_samples = 1; give "
                "more rows, or n_components=None and scaling='standard'."
            )
        width = len(summary.mean)
        n_components = width if self.n_components is None else check_count(self, "n_components")
        return Projection.from_summary(summary, n_components)

    def _check_block_size(
        self, summary: Summary, projection: Projection | None, batch_rows: int
    ) -> int:
        """Return the size of blocks; raise InputError if memory is too small."""
        block_size, n_sample = check_count(self, "block_size"), summary.sample.shape[0]
        n_inputs = len(summary.mean) if projection is None else projection.components.shape[1]
        frequency_bytes = _FREQUENCY_BYTES * n_inputs + _FEATURE_BYTES * batch_rows
        check_memory(
            f"{type(self).__name__}: block_size={block_size:,}, batches of {batch_rows:,} "
            f"rows and a sample of {n_sample:,}, of {n_inputs:,} inputs,",
            float(block_size) * frequency_bytes + _SAMPLE_BYTES * n_sample * n_inputs,
            "lower block_size or batch_size, or take fewer inputs",
        )
        return block_size

    def check_parameters(self) -> None:
        """Raise InputError for wrong parameters before any row is read."""
        as_spectral_kernel(self.kernel)
        self._given_loss()
        self._given_strategy()
        self._given_scalings()
        self._given_alpha(None)
        self._given_patience()
        if not isinstance(self.schedule, InverseTime) and not is_auto(self.schedule):
            raise unknown_value(self, "schedule", ("auto",), " or an InverseTime")
        for name in ("block_size", "batch_size", "max_steps"):
            check_count(self, name)
        check_count(self, "cache_bytes", low=0)
        if self.n_components is not None:
            check_count(self, "n_components")
        for name in ("fit_intercept", "average"):
            check_switch(self, name)
        update = check_choice(self, "update", ("auto", "newton", "gradient"))
        if update == "newton" and not self.fit_intercept:
            raise self._error_of("update='newton' needs fit_intercept=True, or use 'gradient'.")
        check_number(self, "tol", high=1.0)
        check_number(self, "checkpoint_seconds")
        if self.time_budget is not None:
            check_number(self, "time_budget")
        thread_count(self.n_jobs)
        if not isinstance(self.device, str):
            raise self._error_of(
                f"device must be 'cpu' or text that names a device of PyTorch; got {self.device!r}."
            )
        path = self.checkpoint
        if path is not None and not isinstance(path, str | os.PathLike):
            raise self._error_of(f"checkpoint must name a file; got {path!r}.")
        if path is not None and not Path(path).absolute().parent.is_dir():
            raise self._error_of(
                f"checkpoint {str(path)!r} is in a folder that does not exist; make it, or name "
                f"another file."
            )

    def _given_patience(self) -> int | None:
        return None if self.patience is None else check_count(self, "patience")

    def _rows_to_hold_out(self, n_rows: int) -> int:
        """Return the number of held-out rows, 0 without patience and for small tables."""
        if self._given_patience() is None or n_rows < self._defaults.min_rows_to_hold_out:
            return 0
        return default_held_out(n_rows)

    def _given_strategy(self) -> Strategy:
        given = self.strategy
        if isinstance(given, str) and given in STRATEGIES:
            return STRATEGIES[given]
        if isinstance(given, (Checking, Grow, Uniform)):
            return given
        raise unknown_value(self, "strategy", STRATEGIES, " or such an object")

    def _given_loss(self) -> Loss:
        return self._losses[check_choice(self, "loss", self._losses)]

    def _given_scalings(self) -> tuple[str, ...]:
        scaling = check_choice(self, "scaling", ("auto", "standard", "whiten", "none"))
        if scaling != "auto":
            return (scaling,)
        return ("none",) if self.n_components is not None else ("standard", "none")

    def _given_alpha(self, n_rows: int | None) -> float:
        """Return the penalty, which by default depends on the number of rows if it is known."""
        if is_auto(self.alpha):
            return self._defaults.alpha_rows / (n_rows or self._defaults.unknown_rows)
        return check_number(self, "alpha", low=_MIN_ALPHA)

    def _error_of(self, what: str) -> InputError:
        return InputError(f"{type(self).__name__}: {what}")

    def _current_training(self) -> Training:
        """Return the current run, or a new one."""
        training: Training | None = vars(self).get("_training")
        if training is not None:
            return training
        products = self._new_products()
        sizes = 2 * self.block_size_, products.blocks.group_blocks, len(self.constant_)
        machine = DoublyStochastic(
            *(products, FeatureExpansion(*sizes), self.loss_, self.alpha_, self.schedule_),
            *(self._given_strategy(), self._given_update(), self.seed_, self.variance_),
        )
        average = check_switch(self, "average")
        training = Training(machine, self.batch_rows_, average, self._error)
        state = self.__dict__.pop("_run", self.__dict__.pop("run_", None))
        if state is not None:
            training.restore(state)
            training.history = columns_to_records(self.history_)
            training.evaluations = columns_to_records(self.evaluations_)
        self._training = training
        return training

    def _new_products(self) -> BlockProducts:
        preparation = self.preparation_
        n_inputs = len(preparation.units)
        blocks = FrequencyBlocks(self.kernel_, self.seed_, self.block_size_, n_inputs)
        budget = check_count(self, "cache_bytes", low=0)
        sizes = blocks, preparation.center, preparation.inverse, budget
        if self.device == "cpu":
            return CpuProducts(*sizes, self.n_jobs)
        from gramless.streaming.torch_products import TorchProducts

        return TorchProducts(*sizes, self.device)

    def _store(self, training: Training, status: str) -> None:
        """Set the fitted attributes from the current result of a run."""
        if training.has_diverged:
            self._report_divergence(training)
        result = training.result()
        self.weights_, self.constant_ = result.weights, result.constant
        self.n_iter_, self.status_ = training.machine.iteration, status
        self.history_ = records_to_columns(training.history)
        self.evaluations_ = records_to_columns(training.evaluations)

    def _report_divergence(self, training: Training) -> None:
        """Warn of divergence, or raise InputError if no function improved on the first one."""
        error = self._error_of(
            f"steps became unstable and were given up after {training.machine.iteration}. Shorten "
            f"them by schedule=InverseTime(theta, delay) with a longer delay (this was "
            f"{self.schedule_}), or use larger batches."
        )
        losses = [e["loss"] for e in training.evaluations if training.best is not None]
        if not min(losses, default=np.inf) < training.history[0]["loss"]:
            raise error
        warnings.warn(f"{error} The best function until then is kept.", ConvergenceWarning, 5)

    def _forget(self) -> None:
        for name in (*_RUN, "_products", "weights_"):
            self.__dict__.pop(name, None)

    def __getstate__(self) -> dict[str, object]:
        """Return the state without frequencies, which copies draw again."""
        training: Training | None = vars(self).get("_training")
        run = {} if training is None else {"_run": training.state()}
        return super().__getstate__() | run

    def check_state(self, state: State) -> None:
        """Check that the parts of a model from a file fit each other."""
        preparation = part_in(state, "preparation_", Preparation)
        schedule = part_in(state, "schedule_", InverseTime)
        require(state.get("n_features_in_") == preparation.n_features, "n_features_in_ is wrong")
        check_columns(state, preparation.n_features)
        require(isinstance(state.get("kernel_"), SpectralKernel), "kernel_ has no frequencies")
        number_in(state, "seed_", int, 0, 2**64)
        size = number_in(state, "block_size_", int, 1)
        fits = _FREQUENCY_BYTES * size * len(preparation.units) <= large_array_budget()
        require(fits, "a block takes more memory than there is")
        n_outputs = check_function(state, "weights_", "constant_", 2 * size)
        alpha = number_in(state, "alpha_", float, 0.0)
        require(schedule.step(1) * alpha <= _MAX_SHRINKING, "schedule_ or alpha_ is too large")
        number_in(state, "variance_", float, 0.0)
        number_in(state, "batch_rows_", int, 1)
        n_steps = number_in(state, "n_iter_", int, 1)
        for name in ("status_", "reason_"):
            part_in(state, name, str)
        self._check_targets_state(state, n_outputs)
        check_records(state, "history_", {"iteration"}, n_steps)
        check_records(state, "evaluations_", {"iteration", "n_blocks", "loss", "error"})
        if "run_" in state:
            Training.check_state(part_in(state, "run_", dict), 2 * size, n_outputs, n_steps)

    def _parameters_to_save(self) -> dict[str, object]:
        kernel = self.kernel if isinstance(self.kernel, str) else as_kernel(self.kernel)
        return super()._parameters_to_save() | {"kernel": kernel}

    def _responses(self, X: TableLike) -> FloatArray:
        """Return the function at new rows, (n, n_outputs)."""
        check_is_fitted(self, "weights_")
        rows = check_rows(self, X, reset=False)
        products = self._current_products()
        size = 2 * self.block_size_
        weights = split_into_groups(self.weights_, size * products.blocks.group_blocks)
        parts = []
        for a, b in row_blocks(rows.shape[0], self._defaults.predict_rows):
            prepared = products.prepare(self.preparation_.project(rows[a:b]))
            parts.append(products.responses(prepared, weights, len(self.weights_) // size))
        return np.concatenate(parts) + self.constant_

    def _current_products(self) -> BlockProducts:
        """Return the products of the current run, or new ones for a model from a file."""
        training: Training | None = vars(self).get("_training")
        if training is not None:
            return training.machine.products
        if "_products" not in vars(self):
            self._products = self._new_products()
        return self._products

    def _validate(self, X: TableLike, y: ArrayLike, *, reset: bool) -> tuple[Rows, AnyArray]:
        options = ROW_OPTIONS | self._target_options
        rows, targets = validate_rows(self, X, self._plain_targets(y), reset=reset, **options)
        return normalise_rows(rows), self._check_targets(targets)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = "multi_output" in self._target_options
        return tags

    @abstractmethod
    def _check_targets_state(self, state: State, n_outputs: int) -> None:
        """Check the attributes of targets and loss in a file."""

    @abstractmethod
    def _plain_targets(self, y: ArrayLike) -> ArrayLike:
        """Return targets with text converted to numbers; raise InputError if one is missing."""

    @abstractmethod
    def _check_targets(self, y: AnyArray) -> AnyArray:
        """Return the targets after checks, in the shape that a source keeps."""

    @abstractmethod
    def _learn_targets(self, summary: Summary, classes: ArrayLike | None) -> LearnedTargets:
        """Return the loss and the encoder for the targets of a stream."""

    @property
    @abstractmethod
    def _encoder(self) -> TargetEncoder:
        """The target encoder of the fitted attributes."""

    def _encode(self, y: ArrayLike) -> FloatArray:
        return _encoded(self._encoder, y)

    @abstractmethod
    def _error(self, responses: FloatArray, targets: FloatArray) -> float:
        """Return the error of responses on held-out rows; lower is better."""


def _encoded(encoder: TargetEncoder, y: ArrayLike) -> FloatArray:
    """Return the encoded targets, (n, n_outputs)."""
    codes = encoder.encode(y)
    return codes.reshape(len(codes), -1)
