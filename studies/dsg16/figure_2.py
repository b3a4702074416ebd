"""Figure 2: a stream of deformed digits instead of MNIST-8M."""

from __future__ import annotations

from studies.comparisons import Comparison, compare
from studies.dsg16.runs import (
    AXES,
    METHOD,
    OURS,
    PAPER_RUNS,
    SVRG_LABEL,
    Setting,
    course,
    curves,
    late_fall,
    objective_panels,
    panel,
    race,
    savings,
)
from studies.published import published
from studies.records import fit_seconds, reason_missing
from studies.study import Job, Panel, Record, Study, TableOf

NAME = "dsg16/figure-2"
_OTHER_RUNS = (OURS, SVRG_LABEL)
RUNS = (*PAPER_RUNS, *_OTHER_RUNS)
_DATA = "mnist"
SETTING = Setting(_DATA, "deformed digits", 20_000, 4096, 1e-6)
_STORED_FREQUENCIES = 500
_END = {"computed": 3e9}  # random features computed by each run; DSG then has seen 180,000 rows
_SCORES = ("objective", "test_error")


def jobs() -> list[Job]:
    """Return the race of the paper's runs, that of the others, and that with one-vs-one classes."""
    options = {"deformed": True, "frequencies": _STORED_FREQUENCIES}
    return [
        race(NAME, SETTING, PAPER_RUNS, _END, _SCORES, **options),
        race(NAME, SETTING, _OTHER_RUNS, _END, _SCORES, **options),
        race(NAME, SETTING, PAPER_RUNS, _END, ("test_error",), deformed=True, pairs=True),
    ]


def panels(records: list[Record]) -> list[Panel]:
    """Return panels of the objective and of the test error of both losses over each axis."""
    panels = objective_panels(records, SETTING, RUNS)
    for loss, labels, pairs in (("logistic", RUNS, None), ("one-vs-one hinge", PAPER_RUNS, True)):
        for x in AXES:
            lines = curves(records, _DATA, labels, "test_error", 100.0, x=x, pairs=pairs)
            title = f"Deformed digits, {loss} loss: test error by {x}"
            panels.append(panel(title, lines, "test error, %", y_log=True, x=x))
    return panels


def tables(records: list[Record]) -> list[TableOf]:
    """Return tables of the runs' last snapshots and of their savings."""
    rows = []
    for loss, labels, pairs in (("", RUNS, None), (", one-vs-one hinge", PAPER_RUNS, True)):
        for label in labels:
            snapshots = course(records, _DATA, label, pairs)
            if snapshots:
                rows.append((f"{label}{loss}", *_last_snapshot(snapshots)))
    columns = (
        *("run", "time, s", "rows seen", "frequencies", "features computed"),
        *("objective", "fall in the second half", "test error"),
    )
    ends = [TableOf("The ends of the runs", columns, tuple(rows))] if rows else []
    return ends + [table for table in [savings(records, SETTING)] if table is not None]


def _last_snapshot(snapshots: list[Record]) -> tuple[str, ...]:
    record = snapshots[-1]
    facts, scores = record["facts"], record["scores"]
    steps, batch = facts.get("steps"), facts.get("batch_rows")
    has_objective = "objective" in scores
    return (
        f"{fit_seconds(record):.1f}",
        f"{steps * batch:,}" if steps else f"{record['rows'][0]:,}, not deformed",
        f"{facts['features'] // 2:,}",
        f"{facts['computed']:.3g}" if "computed" in facts else "",
        f"{scores['objective']:.4g}" if has_objective else "",
        f"{100 * late_fall(snapshots):.2g} %" if has_objective else "",
        f"{100 * scores['test_error']:.2f} %",
    )


def comparisons(records: list[Record]) -> list[Comparison]:
    """Return the comparison of the number in the paper's text: the error of stored features."""
    return [
        compare(
            published("dsg16")["figure-2/MNIST-8M/stored/test_error"],
            course(records, _DATA, SVRG_LABEL)[-1:],
            lambda record: 100.0 * record["scores"]["test_error"],
            other_data=(
                f"SVRG on {_STORED_FREQUENCIES} frequencies of MNIST's digits, not of MNIST-8M"
            ),
            missing=reason_missing(records, method=METHOD),
        )
    ]


FIGURE_2 = Study(
    "dsg16",
    "figure-2",
    "Deformed digits: objective and test error by features computed, steps and seconds",
    "MNIST-8M is 8.1 million deformed digits. Here an endless stream of them is made while it "
    "is read: MNIST's training digits, turned, shifted and bent at random, on 100 principal "
    "components. Their making counts as training time. The objective is of 20,000 of the "
    "digits as they are, the test error of MNIST's test digits. B = 20,000, F = 4,096 as in the "
    "paper; lambda = 1e-6. With the hinge loss the 45 pairs of classes share their features; the "
    "paper shows their test error alone, because their objective means less. One run has 500 "
    "stored frequencies, as many as the paper's memory held. Each run ends when it has computed "
    "3 * 10^9 random features, the last one when it has read as many.",
    jobs,
    10.0,
    panels,
    tables,
    comparisons,
)
