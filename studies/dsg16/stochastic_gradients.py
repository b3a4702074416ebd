"""Stochastic gradients that race: DSG, UDSG and CDSG of DSG16, ours, and SVRG on kept features."""

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
"""DSG16's steps and function: no constant, no averaging."""
RUNS: dict[str, Mapping[str, Any]] = {
    DSG: {"strategy": "grow", **PAPER_UPDATE},
    UDSG: {"strategy": "uniform", **PAPER_UPDATE},
    CDSG: {"strategy": "cdsg", **PAPER_UPDATE},
    OURS_GRADIENT: {"strategy": "checking", "update": "gradient"},
    OURS: {"strategy": "checking"},
}
"""Parameters of :class:`DoublyStochasticClassifier` by label."""
_SIZES = ("batch_size", "block_size")
_FIRST_SHARE = 1 / 64
"""Of a run's seconds, at which its first snapshot is due."""
_EPOCHS = 1_000_000
"""No run takes so many."""
_BRIGHTEST = 255
_COMPONENT_ROWS = 20_000
"""From which principal components are found."""


@dataclass(frozen=True)
class State:
    """A run as it stands, until its next step.

    Parameters
    ----------
    computed : float
        Random features so far: a step's frequencies times its rows. SVRG's are read, not computed.
    snapshot : callable
        Makes a snapshot.
    """

    computed: float
    snapshot: Callable[[], Snapshot]


@dataclass(frozen=True)
class Course:
    """Rows in an endless order, and how rows become inputs.

    Parameters
    ----------
    read : callable
        From two positions to inputs and targets.
    project : callable
        From rows as the runner has them to inputs.
    """

    read: Callable[[int, int], tuple[Any, NDArray[Any]]]
    project: Callable[[Any], Any]


class SnapshotTimes:
    """When snapshots are due: at times that grow by the same factor, the last at the end.

    Parameters
    ----------
    end : float
        Of the whole run, in seconds or features computed.
    count : int

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
        """Tell whether the last one is past."""
        return not self._left

    def due(self, now: float) -> bool:
        """Tell whether a time has passed since the last question."""
        left = [time for time in self._left if time > now]
        passed = len(left) < len(self._left)
        self._left = left
        return passed


@dataclass(eq=False)
class Run:
    """A course of training with a clock of its own.

    Parameters
    ----------
    steps : iterator
        Takes a step each time it is asked.
    snapshots : SnapshotTimes
    seconds : float, default=0.0
    state : State, default=None
        After the latest step; None before the first.
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
        """Return what the runner judges, with the label and the run's own seconds.

        Raises
        ------
        RuntimeError
            Before the first step.
        """
        if self.state is None:
            raise RuntimeError(f"{label}: no step was taken")
        found = self.state.snapshot()
        return replace(found, facts={**found.facts, "run": label, "seconds": self.seconds})


def race(training: Training, options: Mapping[str, Any], clock: Clock) -> Iterator[Snapshot]:
    """Train by several stochastic gradients, which take steps by turns.

    The next step is always that of the run whose clock is the furthest behind: whatever else the
    machine is doing hits all alike.

    Parameters
    ----------
    training : Training
    options : mapping
        ``runs``: labels, with :data:`SEPARATOR` between them; ``seconds`` of each or
        features ``computed`` by each, where it ends; ``snapshots`` of each; ``components``: of
        rows, by principal component analysis, None for the rows as they are; ``deformed``: whether
        rows are images that the stream deforms; ``loss``, a name in
        :data:`~studies.scores.LOSSES`; ``alpha``; ``batch_size``, ``block_size``: of all runs but
        that of our defaults; ``pairs``: whether DSG, UDSG and CDSG learn all pairs of classes,
        with the hinge loss; ``frequencies``: those that SVRG keeps; ``n_jobs``.
    clock : Clock
        Phase ``"prepare"``: principal components.

    Yields
    ------
    Snapshot
        Its facts hold ``run``, a label, and ``seconds``, those of the run alone.
    """
    with clock.phase("prepare"):
        course = course_of(training, options.get("components"), options.get("deformed", False))
    measure = "computed" if "computed" in options else "seconds"
    runs = {
        label: Run(
            _steps_of(label, training, course, options),
            SnapshotTimes(options[measure], options["snapshots"]),
        )
        for label in options["runs"].split(SEPARATOR)
    }
    while runs:
        label = min(runs, key=lambda one: runs[one].seconds)
        run = runs[label]
        if run.snapshots.due(getattr(run, measure)):
            yield run.snapshot(label)
        began = clock.total()
        with clock.phase(label):
            state = None if run.snapshots.ended else next(run.steps, None)
        run.seconds += clock.total() - began
        run.state = state or run.state
        if state is None:
            del runs[label]
            if not run.snapshots.ended:
                yield run.snapshot(label)


def _steps_of(
    label: str, training: Training, course: Course, options: Mapping[str, Any]
) -> Iterator[State]:
    if label == SVRG_LABEL:
        return _svrg_steps(training, course, options)
    return _gradient_steps(label, training, course, options)


def _gradient_steps(
    label: str, training: Training, course: Course, options: Mapping[str, Any]
) -> Iterator[State]:
    """Take doubly stochastic steps without end."""
    model = _estimator(label, training, options)
    regression = training.task == "regression"
    classes = {} if regression else {"classes": np.unique(training.y)}
    # The paper's functions have no constant; all runs fit centred numbers.
    centre = training.y.mean() if regression else 0.0
    batch_rows = int(model.batch_size)
    for step in count():
        X, y = course.read(step * batch_rows, (step + 1) * batch_rows)
        targets = y - centre if regression else y
        model.partial_fit(X, targets, **(classes if step == 0 else {}))
        yield State(_computed(model), lambda: _snapshot(model, course, centre))


def _svrg_steps(training: Training, course: Course, options: Mapping[str, Any]) -> Iterator[State]:
    """Go through epochs of stochastic variance-reduced gradients on Fourier features."""
    X = course.project(training.X)
    bandwidth = median_distance(X, training.seed, None, "euclidean")
    fourier = RandomFourier(
        bandwidth=bandwidth, n_components=2 * options["frequencies"], random_state=training.seed
    ).fit(X)
    encoding = TargetEncoding.of(training.task, training.y, centred=training.task == "regression")
    targets = columns(encoding.encode(training.y))
    penalty = L2(options["alpha"])
    problem = Problem(fourier.feature_matrix(X), targets, penalty, LOSSES[options["loss"]])
    solver = SVRG(tol=1e-6, max_iter=_EPOCHS, seed=training.seed)
    # An epoch begins with the gradient of all rows.
    read = (1.0 + solver.epoch_factor) * len(X) * options["frequencies"]
    for epoch, weights in solver.steps(problem):
        linear = Linear(fourier, course.project, encoding, weights)
        yield State(read * epoch, partial(linear.snapshot, penalty, epoch))


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear function of features that are computed for the rows asked about.

    Parameters
    ----------
    fourier : RandomFourier
    project : callable
        From rows to inputs.
    encoding : TargetEncoding
        Of what the weights were fitted to.
    weights : array (n_columns, n_outputs)
    """

    fourier: RandomFourier
    project: Callable[[Any], Any]
    encoding: TargetEncoding
    weights: NDArray[np.float64]

    def outputs(self, X: Any) -> NDArray[np.float64]:
        """Return outputs, one column of them as a vector."""
        found = self.fourier.feature_matrix(self.project(X)).matvec(self.weights)
        return found[:, 0] if found.shape[1] == 1 else found

    def snapshot(self, penalty: L2, epoch: int) -> Snapshot:
        """Return what the runner judges."""
        return Snapshot(
            predict=lambda X: self.encoding.decode(self.outputs(X)),
            responses=lambda X: self.encoding.responses(self.outputs(X)),
            penalty=float(penalty.value(self.weights)),
            facts={"epochs": epoch, "features": len(self.weights)},
        )


def course_of(training: Training, components: int | None, deformed: bool) -> Course:
    """Return the rows to train on: in random orders, deformed and projected as asked."""
    if deformed:
        return _deformed(training, components)
    X = training.X
    project: Callable[[Any], Any] = _as_they_are
    if components is not None and X.shape[1] > components:
        source = ArraySource(X, training.y, seed=training.seed)
        few = source.read(0, min(_COMPONENT_ROWS, X.shape[0]))
        project = _projection(few, components, training.seed).apply
        X = project(X)
    return Course(ArraySource(X, training.y, seed=training.seed).read, project)


def _deformed(training: Training, components: int | None) -> Course:
    """Return a stream of deformed images, whose pixels are from 0 to 1."""
    side = round(training.X.shape[1] ** 0.5)
    images = np.asarray(training.X, np.uint8).reshape(-1, side, side)
    digits = DeformedDigits(images, training.y, seed=training.seed)
    project: Callable[[Any], Any] = _as_they_are
    if components is not None:
        few = digits.batch(0, _COMPONENT_ROWS)
        project = _projection(few, components, training.seed).apply

    def read(start: int, stop: int) -> tuple[Any, NDArray[Any]]:
        X, y = digits.batch(start, stop)
        return project(X), y

    return Course(read, lambda rows: project(np.asarray(rows, np.float32) / _BRIGHTEST))


def _projection(rows: tuple[Any, NDArray[Any]], components: int, seed: int) -> Projection:
    return Projection.from_summary(summarise([rows], seed=seed, covariance=True), components)


def _as_they_are(rows: Any) -> Any:
    return rows


def _estimator(label: str, training: Training, options: Mapping[str, Any]) -> Any:
    """Return the estimator of a label; that of our defaults has its own sizes."""
    given = dict(RUNS[label])
    if label != OURS:
        given |= {name: options[name] for name in _SIZES}
    given |= {"alpha": options["alpha"], "n_jobs": options.get("n_jobs")}
    # Which of the two logistic losses it is, the estimator knows by the classes.
    given["loss"] = "logistic" if options["loss"] == "multinomial" else options["loss"]
    kind: Any = DoublyStochasticClassifier
    if training.task == "regression":
        kind = DoublyStochasticRegressor
    elif options.get("pairs") and label in PAPER_RUNS:
        kind, given["loss"] = OneVersusOne, "hinge"
    return kind(bandwidth="median", scaling="none", random_state=training.seed, **given)


def _snapshot(model: Any, course: Course, centre: float) -> Snapshot:
    """Return what the runner scores: the model as it is until the next step.

    ``centre`` has been subtracted from targets that are numbers.
    """
    blocks = len(model.weights_) // (2 * model.block_size_)
    squares = float(np.square(model.weights_, dtype=np.float64).sum())
    regression = isinstance(model, DoublyStochasticRegressor)
    # A regressor's weights are of targets in units of their deviation.
    unit = float(model.target_scale_[0]) if regression else 1.0
    answer = model.predict if regression else model.decision_function

    def responses(X: Any) -> Any:
        return answer(course.project(X)) + centre

    return Snapshot(
        predict=responses if regression else lambda X: model.predict(course.project(X)),
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
    """Return the random features computed so far: frequencies of each step times its rows."""
    # A step evaluates all blocks on its batch, one that it adds included.
    blocks = model.history_["n_blocks"].sum(dtype=np.float64)
    return float(blocks * model.block_size_ * model.batch_rows_)


TRAINERS: dict[str, Trainer] = {"stochastic gradients": race}
"""Trainers by name."""
