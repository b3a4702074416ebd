"""Data classes of studies: jobs, trainers and snapshots, and the panels and tables of a report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from harness.known_sets import Task

if TYPE_CHECKING:
    from studies.comparisons import Comparison

# The measurements of one snapshot as JSON data; studies.worker.measure lists the keys.
Record = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One training run to measure, in a separate process.

    Parameters
    ----------
    study : str
        Such as ``"rb16/figure-3"``.
    data : str
        Name of a data set.
    method : str
        Name of a trainer.
    options : mapping of str to str, number, bool or None
        Options of the trainer.
    n_train, n_test : int, default=None
        Maximum numbers of training and test rows, sampled with ``seed``; all rows by default.
    seed : int, default=0
        Seed of the sampled rows and of the trainer.
    split : int, default=None
        Seed of a random split into training and test rows, instead of the data set's own split.
    scores : tuple of str, default=("test_error",)
        Scores to compute from each snapshot: keys of ``scores.SCORES``.
    seconds : float, default=1.0
        Expected time on two cores, including loading and scoring. It determines the time limit,
        and is not part of the job's identity.

    Examples
    --------
    >>> Job("rb16/figure-4", "ijcnn1", "binning", {"n_grids": 8}).key
    'aa9d352ea46f'
    """

    study: str
    data: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    n_train: int | None = None
    n_test: int | None = None
    seed: int = 0
    split: int | None = None
    scores: tuple[str, ...] = ("test_error",)
    seconds: float = field(default=1.0, compare=False)

    @property
    def identity(self) -> Record:
        """All fields that the measurements depend on. Their JSON determines :attr:`key`."""
        return {
            "study": self.study,
            "data": self.data,
            "method": self.method,
            "options": dict(self.options),
            "n_train": self.n_train,
            "n_test": self.n_test,
            "seed": self.seed,
            **({} if self.split is None else {"split": self.split}),
            "scores": list(self.scores),
        }

    @property
    def key(self) -> str:
        """A short hash of the identity, the same on every machine."""
        text = json.dumps(self.identity, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, eq=False)
class Training:
    """The data that a trainer fits.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_inputs)
    y : ndarray of shape (n_rows,)
        Targets for regression, or class labels.
    task : {"binary", "multiclass", "regression"}
    seed : int
    """

    X: Any
    y: NDArray[Any]
    task: Task
    seed: int


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A model at one point of its training, from which the worker computes scores.

    Parameters
    ----------
    predict : callable
        Maps rows to predicted labels or targets, of the type of ``Training.y``.
    responses : callable, default=None
        Maps rows to raw responses of shape (n_rows,) or (n_rows, n_classes), for losses.
    penalty : float, default=0.0
        The penalty at the model's weights, for objectives.
    facts : mapping, default={}
        Further numbers, text or lists to record, such as columns, bytes of features, iterations.
    """

    predict: Callable[[Any], NDArray[Any]]
    responses: Callable[[Any], NDArray[Any]] | None = None
    penalty: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)


class Clock(Protocol):
    """Measures the time of a trainer; it is paused while a snapshot is scored."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Count the time inside the block for a phase, such as ``"features"`` or ``"solve"``."""
        ...

    def total(self) -> float:
        """Return the seconds counted so far, inside and outside phases."""
        ...


# A generator that yields one snapshot of a fit, or several along the training.
# The worker first calls it with few rows, unmeasured and only up to the first snapshot, so that
# packages are imported and compiled loops are loaded before the measured run.
Trainer = Callable[[Training, Mapping[str, Any], Clock], Iterator[Snapshot]]


@dataclass(frozen=True)
class Line:
    """Points of a panel that have one label and one source.

    Parameters
    ----------
    label : str
        The same label has the same colour in all panels of a report.
    x, y : sequence of float
    kind : {"measured", "published", "law"}, default="measured"
        Our measurements, numbers of the paper, or values of a formula.
    note : str, default=""
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    kind: str = "measured"
    note: str = ""


@dataclass(frozen=True)
class Panel:
    """One picture: lines on axes with names and units.

    Parameters
    ----------
    title : str
        For example the data set.
    x_label, y_label : str
        Including units.
    lines : tuple of Line
    x_log, y_log : bool, default=False
    note : str, default=""
        A sentence below the picture.
    dots : bool, default=False
        Whether to draw points only, with y growing downwards, as for the non-zeros of a matrix.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    x_log: bool = False
    y_log: bool = False
    note: str = ""
    dots: bool = False


@dataclass(frozen=True)
class TableOf:
    """A table of formatted text.

    Parameters
    ----------
    title : str
    columns : tuple of str
    rows : tuple of tuple of str
    note : str, default=""
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Study:
    """The reproduction of a figure or table of a paper.

    Parameters
    ----------
    paper : str
        ``"rr07"``, ``"rb16"`` or ``"dsg16"``.
    name : str
        ``"figure-3"``, ``"table-1"``, ``"logs"``, ``"beyond"``.
    title, about : str
        A title of one line, and a description of what the study shows and how it differs from the
        paper.
    jobs : callable
        Returns the jobs in order of priority.
    minutes : float
        The time budget. Jobs run in their order while their expected times fit it.
    panels, tables, comparisons : callable
        Compute the content of the report from the study's records, which may be incomplete.
        ``comparisons`` returns one comparison per published number, measured or not.
    """

    paper: str
    name: str
    title: str
    about: str
    jobs: Callable[[], list[Job]]
    minutes: float
    panels: Callable[[list[Record]], list[Panel]] = lambda records: []
    tables: Callable[[list[Record]], list[TableOf]] = lambda records: []
    comparisons: Callable[[list[Record]], list[Comparison]] = lambda records: []

    @property
    def key(self) -> str:
        """The name with its paper, such as ``"rb16/figure-3"``."""
        return f"{self.paper}/{self.name}"
