"""The runs that DSG16's figures and tables are made of: by label, and as curves along the clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from studies.records import completed, fit_seconds
from studies.study import Job, Line, Panel, Record

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
_SNAPSHOTS = 10
_OVERHEAD, _START = 1.5, 5.0
"""What scoring makes of a run's seconds, and what starting and loading add."""


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
    seconds: float,
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
    seconds : float
        Of training, of each.
    scores : sequence of str
    n_train : int, default=None
    **more
        Further options.
    """
    options = {
        "runs": SEPARATOR.join(labels),
        "seconds": seconds,
        "snapshots": _SNAPSHOTS,
        "components": setting.components,
        "loss": setting.loss,
        "alpha": setting.alpha,
        "batch_size": setting.batch_size,
        "block_size": setting.block_size,
        **more,
    }
    expected = _START + _OVERHEAD * seconds * len(labels)
    return Job(
        study, setting.data, METHOD, options, n_train, scores=tuple(scores), seconds=expected
    )


def course(records: list[Record], data: str, label: str) -> list[Record]:
    """Return the snapshots of a run on a data set, in the order of time."""
    found = completed(records, data=data, method=METHOD)
    return [one for one in found if one["facts"]["run"] == label]


def curves(
    records: list[Record],
    data: str,
    labels: Sequence[str],
    score: str,
    factor: float = 1.0,
) -> tuple[Line, ...]:
    """Return a line a label: a score along the clock; those that were run."""
    lines = []
    for label in labels:
        points = [one for one in course(records, data, label) if score in one["scores"]]
        if points:
            times = [fit_seconds(one) for one in points]
            lines.append(Line(label, times, [factor * one["scores"][score] for one in points]))
    return tuple(lines)


def panel(
    title: str, lines: tuple[Line, ...], what: str, note: str = "", y_log: bool = False
) -> Panel:
    """Return a picture of curves along the clock."""
    return Panel(title, "training time, s", what, lines, x_log=True, y_log=y_log, note=note)
