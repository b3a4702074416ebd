"""The runs that DSG16's figures and tables are made of: by label, and as curves along the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from studies.dsg16.theorems import complexity_ratio, features_ratio
from studies.records import completed
from studies.study import Job, Line, Panel, Record, TableOf

DSG, UDSG, CDSG = "DSG", "UDSG", "CDSG"
"""Those of DSG16."""
OURS_GRADIENT, OURS = "CDSG, gramless gradient", "CDSG, gramless default"
SVRG_LABEL = "SVRG"
"""On Fourier features that are computed first."""
SEPARATOR = " | "
"""Between the labels of a race."""
PAPER_RUNS = (DSG, UDSG, CDSG)
RUNS = (*PAPER_RUNS, SVRG_LABEL, OURS, OURS_GRADIENT)
METHOD = "stochastic gradients"
COMPONENTS = 100
"""Principal components that rows are reduced to."""
_SNAPSHOTS = 20
_OVERHEAD, _START = 1.25, 5.0
"""What scoring makes of a run's seconds, and what starting and loading add."""
_COMPUTED_A_SECOND = 8e7
"""Features, on two cores."""
AXES = {"computed": "random features computed", "steps": "steps", "seconds": "training time, s"}
"""Facts of snapshots that curves are drawn over: features and steps as in the paper."""


@dataclass(frozen=True)
class Setting:
    """What all runs on a data set share.

    Parameters
    ----------
    data : str
    title : str
    batch_size, block_size : int
        B and F.
    alpha : float
        lambda.
    loss : str, default="multinomial"
        Of the scores, and of the runs.
    components : int, default=100
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
    """Return the job of several runs on the same rows.

    Parameters
    ----------
    study : str
    setting : Setting
    labels : sequence of str
    until : mapping of str to float
        Where each run ends: ``"seconds"`` of training or random features ``"computed"``.
    scores : sequence of str
    n_train : int, default=None
    **more
        Further options.
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
    seconds = until.get("seconds", until.get("computed", 0.0) / _COMPUTED_A_SECOND)
    expected = _START + _OVERHEAD * seconds * len(labels)
    return Job(
        study, setting.data, METHOD, options, n_train, scores=tuple(scores), seconds=expected
    )


def course(records: list[Record], data: str, label: str, pairs: bool | None = None) -> list[Record]:
    """Return the snapshots of a run on a data set, in the order of time."""
    found = completed(records, data=data, method=METHOD, options={"pairs": pairs})
    return [one for one in found if one["facts"]["run"] == label]


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
    """Return a line a label: a score over one of :data:`AXES`; those that were run."""
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
    """Return a picture of curves."""
    return Panel(title, AXES[x], what, lines, x_log=True, y_log=y_log, note=note)


def objective_panels(records: list[Record], setting: Setting, labels: Sequence[str]) -> list[Panel]:
    """Return the objective over each of :data:`AXES`."""
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
    """Return when the paper's runs have reached the objective at which DSG ended."""
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
    """Return by which share the objective fell in the second half of a run's time.

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
