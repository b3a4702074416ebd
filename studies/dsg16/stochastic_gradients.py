"""A race of stochastic gradients: DSG, UDSG and CDSG of DSG16, ours, and SVRG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless import DoublyStochasticClassifier, DoublyStochasticRegressor, RandomFourier
from gramless.penalties import L2
from gramless.preprocessing.median import median_distance
from gramless.solvers.objective import Problem, columns
from gramless.streaming.principal_components import Projection
from gramless.streaming.sources import ArraySource
from gramless.streaming.summary_statistics import summarise
from studies.deformed import DeformedDigits
from studies.dsg16.one_versus_one import OneVersusOne
from studies.dsg16.runs import (
    CDSG,
    DSG,
    OURS,
    OURS_GRADIENT,
    PAPER_RUNS,
    SEPARATOR,
    SVRG_LABEL,
    UDSG,
)
from studies.scores import LOSSES
from studies.study import Clock, Snapshot, Trainer, Training
from studies.svrg import SVRG
from studies.targets import TargetEncoding

PAPER_UPDATE = {"update": "gradient", "fit_intercept": False, "average": False}
# Parameters of DoublyStochasticClassifier by label.
RUNS: dict[str, Mapping[str, Any]] = {
    DSG: {"strategy": "grow", **PAPER_UPDATE},
    UDSG: {"strategy": "uniform", **PAPER_UPDATE},
    CDSG: {"strategy": "cdsg", **PAPER_UPDATE},
    OURS_GRADIENT: {"strategy": "checking", "update": "gradient"},
    OURS: {"strategy": "checking"},
}
_SIZES = ("batch_size", "block_size")
_FIRST_SHARE = 1 / 64  # the share of a run after which its first snapshot is due
_MAX_EPOCHS = 1_000_000  # more than any run takes, because runs end by time or features
_WHITE = 255
_COMPONENT_ROWS = 20_000  # rows from which principal components are computed


@dataclass(frozen=True)
class State:
    """The state of a run after a step, valid until its next step.

    Parameters
    ----------
    computed : float
        Random features computed so far: the sum over steps of frequencies times rows. SVRG counts
        the stored features that it reads.
    snapshot : callable
        Returns a snapshot of the model.
    """

    computed: float
    snapshot: Callable[[], Snapshot]


@dataclass(frozen=True)
class RowStream:
    """Training rows in an endless order, and the projection of rows to inputs.

    Parameters
    ----------
    read : callable
        Maps a start and a stop position to inputs and targets.
    project : callable
        Maps rows of the data set to inputs.
    """

    read: Callable[[int, int], tuple[Any, NDArray[Any]]]
    project: Callable[[Any], Any]


class SnapshotTimes:
    """A geometric sequence of times at which snapshots are due, the last one at the end.

    Parameters
    ----------
    end : float
        End of the run, in seconds or features computed.
    count : int
        Number of snapshots.

    Examples
    --------
    >>> times = SnapshotTimes(64.0, 3)
    >>> [times.due(now) for now in (0.5, 1.5, 2.0, 9.0, 80.0)]
    [False, True, False, True, True]
    """

    def __init__(self, end: float, count: int) -> None:
        self._left = list(np.geomspace(_FIRST_SHARE * end, end, count))

    @property
    def ended(self) -> bool:
        """Whether all times have passed."""
        return not self._left

    def due(self, now: float) -> bool:
        """Return whether a time has passed since the last call."""
        left = [time for time in self._left if time > now]
        passed = len(left) < len(self._left)
        self._left = left
        return passed


@dataclass(eq=False)
class Run:
    """A participant of a race, with the time spent on its steps.

    Parameters
    ----------
    steps : iterator
        Takes one step per item.
    snapshots : SnapshotTimes
    seconds : float, default=0.0
        Time spent on its steps.
    state : State, default=None
        State after the latest step, None before the first one.
    """

    steps: Iterator[State]
    snapshots: SnapshotTimes
    seconds: float = 0.0
    state: State | None = None

    @property
    def computed(self) -> float:
        """The features computed so far."""
        return 0.0 if self.state is None else self.state.computed

    def snapshot(self, label: str) -> Snapshot:
        """Return a snapshot with the label and the seconds of this run as facts.

        Raises
        ------
        RuntimeError
            Before the first step.
        """
        if self.state is None:
            raise RuntimeError(f"{label}: no step was taken")
        snapshot = self.state.snapshot()
        facts = {**snapshot.facts, "run": label, "seconds": self.seconds}
        return replace(snapshot, facts=facts)


def race(training: Training, options: Mapping[str, Any], clock: Clock) -> Iterator[Snapshot]:
    """Train by several stochastic gradients that alternate their steps.

    The next step is always that of the run with the least time so far. Interruptions by other
    programs therefore affect all runs equally.

    Parameters
    ----------
    training : Training
    options : mapping
        - ``runs``: labels, joined by :data:`SEPARATOR`.
        - ``seconds`` or ``computed``: time, or number of computed features, at which a run ends.
        - ``snapshots``: number of snapshots per run.
        - ``components``: number of principal components used as inputs, None for all inputs.
        - ``deformed``: whether rows are images, to be deformed at random.
        - ``loss``: a key of :data:`~studies.scores.LOSSES`.
        - ``alpha``; ``batch_size`` and ``block_size``, which our defaults ignore; ``n_jobs``.
        - ``pairs``: whether DSG, UDSG and CDSG use one-vs-one classes and the hinge loss.
        - ``frequencies``: number of stored frequencies of SVRG.
    clock : Clock
        Phase ``"prepare"`` for principal components, and one phase per run.

    Yields
    ------
    Snapshot
        With the facts ``run``, its label, and ``seconds``, the time of this run.
    """
    with clock.phase("prepare"):
        rows = open_rows(training, options.get("components"), options.get("deformed", False))
    measure = "computed" if "computed" in options else "seconds"
    runs = {
        label: Run(
            _steps(label, training, rows, options),
            SnapshotTimes(options[measure], options["snapshots"]),
        )
        for label in options["runs"].split(SEPARATOR)
    }
    while runs:
        label = min(runs, key=lambda one: runs[one].seconds)
        run = runs[label]
        if run.snapshots.due(getattr(run, measure)):
            yield run.snapshot(label)
        started = clock.total()
        with clock.phase(label):
            state = None if run.snapshots.ended else next(run.steps, None)
        run.seconds += clock.total() - started
        run.state = state or run.state
        if state is None:
            del runs[label]
            if not run.snapshots.ended:
                yield run.snapshot(label)


def _steps(
    label: str, training: Training, rows: RowStream, options: Mapping[str, Any]
) -> Iterator[State]:
    if label == SVRG_LABEL:
        return _svrg_epochs(training, rows, options)
    return _gradient_steps(label, training, rows, options)


def _gradient_steps(
    label: str, training: Training, rows: RowStream, options: Mapping[str, Any]
) -> Iterator[State]:
    """Yield the states after doubly stochastic steps, without end."""
    model = _estimator(label, training, options)
    is_regression = training.task == "regression"
    classes = {} if is_regression else {"classes": np.unique(training.y)}
    # The paper's functions have no intercept, so all runs fit centred targets.
    centre = training.y.mean() if is_regression else 0.0
    batch_rows = int(model.batch_size)
    for step in count():
        X, y = rows.read(step * batch_rows, (step + 1) * batch_rows)
        targets = y - centre if is_regression else y
        model.partial_fit(X, targets, **(classes if step == 0 else {}))
        yield State(_computed(model), lambda: _snapshot(model, rows, centre))


def _svrg_epochs(
    training: Training, rows: RowStream, options: Mapping[str, Any]
) -> Iterator[State]:
    """Yield the states after epochs of SVRG on stored Fourier features."""
    X = rows.project(training.X)
    bandwidth = median_distance(X, training.seed, None, "euclidean")
    fourier = RandomFourier(
        bandwidth=bandwidth, n_components=2 * options["frequencies"], random_state=training.seed
    ).fit(X)
    encoding = TargetEncoding.of(training.task, training.y, centred=training.task == "regression")
    targets = columns(encoding.encode(training.y))
    penalty = L2(options["alpha"])
    problem = Problem(fourier.feature_matrix(X), targets, penalty, LOSSES[options["loss"]])
    solver = SVRG(tol=1e-6, max_iter=_MAX_EPOCHS, seed=training.seed)
    # An epoch begins with the gradient of all rows, which reads all features once.
    features_per_epoch = (1.0 + solver.epoch_factor) * len(X) * options["frequencies"]
    for epoch, weights in solver.steps(problem):
        model = LinearModel(fourier, rows.project, encoding, weights)
        yield State(features_per_epoch * epoch, partial(model.snapshot, penalty, epoch))


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A linear model of Fourier features.

    Parameters
    ----------
    fourier : RandomFourier
    project : callable
        Maps rows to inputs.
    encoding : TargetEncoding
        The encoding of the targets that the weights fit.
    weights : array (n_columns, n_outputs)
    """

    fourier: RandomFourier
    project: Callable[[Any], Any]
    encoding: TargetEncoding
    weights: NDArray[np.float64]

    def outputs(self, X: Any) -> NDArray[np.float64]:
        """Return the outputs, as a vector if there is only one output."""
        outputs = self.fourier.feature_matrix(self.project(X)).matvec(self.weights)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def snapshot(self, penalty: L2, epoch: int) -> Snapshot:
        """Return a snapshot of the model after an epoch."""
        return Snapshot(
            predict=lambda X: self.encoding.decode(self.outputs(X)),
            responses=lambda X: self.encoding.responses(self.outputs(X)),
            penalty=float(penalty.value(self.weights)),
            facts={"epochs": epoch, "features": len(self.weights)},
        )


def open_rows(training: Training, components: int | None, deformed: bool) -> RowStream:
    """Return a stream of the training rows in random order, deformed or projected if requested."""
    if deformed:
        return _deformed_rows(training, components)
    X = training.X
    project: Callable[[Any], Any] = _identity
    if components is not None and X.shape[1] > components:
        source = ArraySource(X, training.y, seed=training.seed)
        sample = source.read(0, min(_COMPONENT_ROWS, X.shape[0]))
        project = _projection(sample, components, training.seed).apply
        X = project(X)
    return RowStream(ArraySource(X, training.y, seed=training.seed).read, project)


def _deformed_rows(training: Training, components: int | None) -> RowStream:
    """Return a stream of deformed images, with pixels scaled to [0, 1]."""
    side = round(training.X.shape[1] ** 0.5)
    images = np.asarray(training.X, np.uint8).reshape(-1, side, side)
    digits = DeformedDigits(images, training.y, seed=training.seed)
    project: Callable[[Any], Any] = _identity
    if components is not None:
        sample = digits.batch(0, _COMPONENT_ROWS)
        project = _projection(sample, components, training.seed).apply

    def read(start: int, stop: int) -> tuple[Any, NDArray[Any]]:
        X, y = digits.batch(start, stop)
        return project(X), y

    return RowStream(read, lambda rows: project(np.asarray(rows, np.float32) / _WHITE))


def _projection(rows: tuple[Any, NDArray[Any]], components: int, seed: int) -> Projection:
    return Projection.from_summary(summarise([rows], seed=seed, covariance=True), components)


def _identity(rows: Any) -> Any:
    return rows


def _estimator(label: str, training: Training, options: Mapping[str, Any]) -> Any:
    """Return the estimator of a label; our defaults have their own batch and block sizes."""
    parameters = dict(RUNS[label])
    if label != OURS:
        parameters |= {name: options[name] for name in _SIZES}
    parameters |= {"alpha": options["alpha"], "n_jobs": options.get("n_jobs")}
    # The estimator selects the logistic or multinomial loss by the number of classes.
    parameters["loss"] = "logistic" if options["loss"] == "multinomial" else options["loss"]
    estimator_class: Any = DoublyStochasticClassifier
    if training.task == "regression":
        estimator_class = DoublyStochasticRegressor
    elif options.get("pairs") and label in PAPER_RUNS:
        estimator_class, parameters["loss"] = OneVersusOne, "hinge"
    parameters |= {"bandwidth": "median", "scaling": "none", "random_state": training.seed}
    return estimator_class(**parameters)


def _snapshot(model: Any, rows: RowStream, centre: float) -> Snapshot:
    """Return a snapshot of a model of targets minus ``centre``, valid until its next step."""
    blocks = len(model.weights_) // (2 * model.block_size_)
    squares = float(np.square(model.weights_, dtype=np.float64).sum())
    is_regression = isinstance(model, DoublyStochasticRegressor)
    # The weights of a regressor are for targets in units of their standard deviation.
    unit = float(model.target_scale_[0]) if is_regression else 1.0
    outputs = model.predict if is_regression else model.decision_function

    def responses(X: Any) -> Any:
        return outputs(rows.project(X)) + centre

    return Snapshot(
        predict=responses if is_regression else lambda X: model.predict(rows.project(X)),
        responses=responses,
        penalty=0.5 * model.alpha_ * blocks * squares * unit**2,
        facts={
            "steps": int(model.n_iter_),
            "batch_rows": int(model.batch_size),
            "blocks": blocks,
            "features": len(model.weights_),
            "computed": _computed(model),
        },
    )


def _computed(model: Any) -> float:
    """Return the random features computed so far: the sum over steps of frequencies times rows."""
    # A step evaluates all blocks on its batch, including a block that it adds.
    blocks = model.history_["n_blocks"].sum(dtype=np.float64)
    return float(blocks * model.block_size_ * model.batch_rows_)


TRAINERS: dict[str, Trainer] = {"stochastic gradients": race}
