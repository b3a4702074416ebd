"""The runs of DSG16's figures and tables: their jobs, curves and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from studies.dsg16.theorems import complexity_ratio, features_ratio
from studies.records import completed
from studies.study import Job, Line, Panel, Record, TableOf

DSG, UDSG, CDSG = "DSG", "UDSG", "CDSG"
OURS_GRADIENT, OURS = "CDSG, gramless gradient", "CDSG, gramless default"
SVRG_LABEL = "SVRG"  # on Fourier features that are computed before the run
SEPARATOR = " | "  # between the labels in the option "runs"
PAPER_RUNS = (DSG, UDSG, CDSG)
RUNS = (*PAPER_RUNS, SVRG_LABEL, OURS, OURS_GRADIENT)
METHOD = "stochastic gradients"
COMPONENTS = 100
_SNAPSHOTS = 20
_SCORING_FACTOR = 1.25  # expected total time of a run divided by its training time
_START_SECONDS = 5.0
_FEATURES_PER_SECOND = 8e7  # on two cores
# The facts of snapshots over which curves are drawn; the paper uses features and steps.
AXES = {"computed": "random features computed", "steps": "steps", "seconds": "training time, s"}


@dataclass(frozen=True)
class Setting:
    """The parameters shared by all runs on a data set.

    Parameters
    ----------
    data : str
    title : str
    batch_size, block_size : int
        The paper's B and F.
    alpha : float
        The paper's lambda.
    loss : str, default="multinomial"
        Loss of the runs and of the scores.
    components : int, default=100
        Number of principal components used as inputs, None for the original inputs.
    """

    data: str
    title: str
    batch_size: int
    block_size: int
    alpha: float
    loss: str = "multinomial"
    components: int | None = COMPONENTS


def race(
    study: str,
    setting: Setting,
    labels: Sequence[str],
    until: Mapping[str, float],
    scores: Sequence[str],
    *,
    n_train: int | None = None,
    **more: Any,
) -> Job:
    """Return the job of a race: several runs on the same rows.

    Parameters
    ----------
    study : str
    setting : Setting
    labels : sequence of str
    until : mapping of str to float
        End of each run: ``"seconds"`` of training, or number of random features ``"computed"``.
    scores : sequence of str
    n_train : int, default=None
    **more
        Further options of the trainer.
    """
    options = {
        "runs": SEPARATOR.join(labels),
        **until,
        "snapshots": _SNAPSHOTS,
        "components": setting.components,
        "loss": setting.loss,
        "alpha": setting.alpha,
        "batch_size": setting.batch_size,
        "block_size": setting.block_size,
        **more,
    }
    seconds = until.get("seconds", until.get("computed", 0.0) / _FEATURES_PER_SECOND)
    expected = _START_SECONDS + _SCORING_FACTOR * seconds * len(labels)
    return Job(
        study, setting.data, METHOD, options, n_train, scores=tuple(scores), seconds=expected
    )


def course(records: list[Record], data: str, label: str, pairs: bool | None = None) -> list[Record]:
    """Return the snapshots of a run on a data set, in chronological order."""
    snapshots = completed(records, data=data, method=METHOD, options={"pairs": pairs})
    return [snapshot for snapshot in snapshots if snapshot["facts"]["run"] == label]


def curves(
    records: list[Record],
    data: str,
    labels: Sequence[str],
    score: str,
    factor: float = 1.0,
    *,
    x: str = "seconds",
    pairs: bool | None = None,
) -> tuple[Line, ...]:
    """Return one line per label that was run: a score over one of :data:`AXES`."""
    lines = []
    for label in labels:
        points = [
            (one["facts"][x], factor * one["scores"][score])
            for one in course(records, data, label, pairs)
            if score in one["scores"] and x in one["facts"]
        ]
        if points:
            xs, ys = zip(*points, strict=True)
            lines.append(Line(label, xs, ys))
    return tuple(lines)


def panel(
    title: str,
    lines: tuple[Line, ...],
    what: str,
    note: str = "",
    y_log: bool = False,
    *,
    x: str = "seconds",
) -> Panel:
    """Return a panel of curves over one of :data:`AXES`."""
    return Panel(title, AXES[x], what, lines, x_log=True, y_log=y_log, note=note)


def objective_panels(records: list[Record], setting: Setting, labels: Sequence[str]) -> list[Panel]:
    """Return a panel of the objective over each of :data:`AXES`."""
    return [
        panel(
            f"{setting.title}: objective by {x}",
            curves(records, setting.data, labels, "objective", x=x),
            "mean objective of training rows",
            x=x,
        )
        for x in AXES
    ]


def savings(records: list[Record], setting: Setting) -> TableOf | None:
    """Return a table of the cost at which the paper's runs reach DSG's last objective."""
    ends = course(records, setting.data, DSG)
    if not ends:
        return None
    goal = ends[-1]["scores"]["objective"]
    rows = []
    for label in PAPER_RUNS:
        snapshots = course(records, setting.data, label)
        reached = next((one for one in snapshots if one["scores"]["objective"] <= goal), None)
        if reached is None:
            rows.append((label, "not reached", "", "", ""))
            continue
        facts = reached["facts"]
        rows.append(
            (
                label,
                f"{facts['steps']:,}",
                f"{facts['computed']:.3g}",
                f"{facts['computed'] / ends[-1]['facts']['computed']:.2f}",
                f"{facts['seconds']:.1f}",
            )
        )
    columns = ("run", "steps", "features computed", "relative to DSG", "time, s")
    note = (
        "The first snapshots with that objective. Features computed: frequencies times rows of "
        "the batch, summed over the steps. By the bounds of Theorems 3 and 4 UDSG (G = U = 1) "
        f"computes {features_ratio(1, 1):g} times as many as DSG; the paper's r is "
        f"{complexity_ratio(1, 1):g}."
    )
    title = f"{setting.title}: until the objective is {goal:.4g}, where DSG ends"
    return TableOf(title, columns, tuple(rows), note)


def late_fall(snapshots: Sequence[Record]) -> float:
    """Return the relative decrease of the objective in the second half of a run's time.

    Examples
    --------
    >>> half = {"facts": {"seconds": 4.0}, "scores": {"objective": 0.5}}
    >>> end = {"facts": {"seconds": 8.0}, "scores": {"objective": 0.49}}
    >>> round(late_fall([half, end]), 3)
    0.02
    """
    end = snapshots[-1]
    middle = end["facts"]["seconds"] / 2.0
    before = [one for one in snapshots if one["facts"]["seconds"] <= middle] or snapshots[:1]
    return 1.0 - float(end["scores"]["objective"] / before[-1]["scores"]["objective"])
