"""What a figure or table of a paper is: jobs to run, and what their records show."""

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

Record = dict[str, Any]
"""One measured point as plain data; ``records.py`` says what it holds."""


@dataclass(frozen=True)
class Job:
    """One fit to measure, in a process of its own.

    Parameters
    ----------
    study : str
        Such as ``"rb16/figure-3"``.
    data : str
        Name of a data set.
    method : str
        Name of a trainer.
    options : mapping of str to str, number, bool or None
        What the trainer is given.
    n_train, n_test : int, default=None
        The most training and test rows, drawn at random with ``seed``; all by default.
    seed : int, default=0
        Of the rows drawn, and the trainer.
    split : int, default=None
        Seed of another split into training and test rows than the one that the data set comes
        with.
    scores : tuple of str, default=("test_error",)
        What is computed from each snapshot: names of ``scores.SCORES``.
    seconds : float, default=1.0
        What it is expected to take on two cores, loading and scoring included. A run that takes
        far more is ended. Not part of the job's identity.

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
        """Everything that the measured numbers depend on."""
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
        """A short name, the same for the same job everywhere."""
        text = json.dumps(self.identity, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, eq=False)
class Training:
    """What a trainer is given.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_inputs)
    y : ndarray of shape (n_rows,)
        Numbers for regression, labels for classes.
    task : {"binary", "multiclass", "regression"}
    seed : int
    """

    X: Any
    y: NDArray[Any]
    task: Task
    seed: int


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A model as a trainer hands it over; the runner computes its scores.

    Parameters
    ----------
    predict : callable
        From rows to labels or numbers, as ``Training.y``.
    responses : callable, default=None
        From rows to raw responses of shape (n_rows,) or (n_rows, n_classes), for losses.
    penalty : float, default=0.0
        The penalty at the model's weights, for objectives.
    facts : mapping, default={}
        Plain numbers, text or lists worth keeping: columns, bytes of features, iterations.
    """

    predict: Callable[[Any], NDArray[Any]]
    responses: Callable[[Any], NDArray[Any]] | None = None
    penalty: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)


class Clock(Protocol):
    """Counts the seconds that a trainer spends; stands still while a snapshot is scored."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Count what happens inside to this phase, such as ``"features"`` or ``"solve"``."""
        ...

    def total(self) -> float:
        """Return the seconds counted so far, all phases and what lies between."""
        ...


Trainer = Callable[[Training, Mapping[str, Any], Clock], Iterator[Snapshot]]
"""A generator: one snapshot for a fit, several for a course of training.

It is called with a few of the rows first, as far as its first snapshot, which is not measured:
compiled loops are loaded then, and packages imported.
"""


@dataclass(frozen=True)
class Line:
    """Points of a panel, of one kind.

    Parameters
    ----------
    label : str
        The same label has the same colour in all panels of a report.
    x, y : sequence of float
    kind : {"measured", "published", "law"}, default="measured"
        Ours, the paper's numbers, or what a formula says.
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
        Such as the data set.
    x_label, y_label : str
        With units.
    lines : tuple of Line
    x_log, y_log : bool, default=False
    note : str, default=""
        A sentence below the picture.
    dots : bool, default=False
        Points without a line between them, such as the non-zeros of a matrix; y downwards.
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
    """A table of ready text.

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
    """A figure or a table of a paper, run again.

    Parameters
    ----------
    paper : str
        ``"rr07"``, ``"rb16"`` or ``"dsg16"``.
    name : str
        ``"figure-3"``, ``"table-1"``, ``"logs"``, ``"beyond"``.
    title, about : str
        One line; then what it shows, what differs here and why, in a few plain sentences.
    jobs : callable
        Returns the jobs in order of priority.
    minutes : float
        The budget: jobs are run in their order until their expected seconds exceed it.
    panels, tables, comparisons : callable
        Compute from the study's records what the report shows. They accept any part of the
        records. Comparisons are one for each published number, measured or not.
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
        """Such as ``"rb16/figure-3"``."""
        return f"{self.paper}/{self.name}"
