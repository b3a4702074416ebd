"""Figure 2: a stream of deformed digits, in the place of MNIST-8M."""

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
_BESIDE = (OURS, SVRG_LABEL)
RUNS = (*PAPER_RUNS, *_BESIDE)
_DATA = "mnist"
SETTING = Setting(_DATA, "deformed digits", 20_000, 4096, 1e-6)
_STORED = 500
_UNTIL = {"computed": 3e9}
"""Random features, by each run: DSG then sees 180,000 rows."""
_SCORES = ("objective", "test_error")


def jobs() -> list[Job]:
    """Return the race of the paper's runs, of those beside them, and of pairs of classes."""
    more = {"deformed": True, "frequencies": _STORED}
    return [
        race(NAME, SETTING, PAPER_RUNS, _UNTIL, _SCORES, **more),
        race(NAME, SETTING, _BESIDE, _UNTIL, _SCORES, **more),
        race(NAME, SETTING, PAPER_RUNS, _UNTIL, ("test_error",), deformed=True, pairs=True),
    ]


def panels(records: list[Record]) -> list[Panel]:
    """Return the objective, and the test errors of both losses, by features, steps and seconds."""
    found = objective_panels(records, SETTING, RUNS)
    for loss, labels, pairs in (("logistic", RUNS, None), ("one-vs-one hinge", PAPER_RUNS, True)):
        for x in AXES:
            lines = curves(records, _DATA, labels, "test_error", 100.0, x=x, pairs=pairs)
            title = f"Deformed digits, {loss} loss: test error by {x}"
            found.append(panel(title, lines, "test error, %", y_log=True, x=x))
    return found


def tables(records: list[Record]) -> list[TableOf]:
    """Return where the runs ended."""
    rows = []
    for loss, labels, pairs in (("", RUNS, None), (", one-vs-one hinge", PAPER_RUNS, True)):
        for label in labels:
            snapshots = course(records, _DATA, label, pairs)
            if snapshots:
                rows.append((f"{label}{loss}", *_end(snapshots)))
    columns = (
        *("run", "time, s", "rows seen", "frequencies", "features computed"),
        *("objective", "fall in the second half", "test error"),
    )
    ends = [TableOf("The ends of the runs", columns, tuple(rows))] if rows else []
    return ends + [table for table in [savings(records, SETTING)] if table is not None]


def _end(snapshots: list[Record]) -> tuple[str, ...]:
    end = snapshots[-1]
    facts, scores = end["facts"], end["scores"]
    steps, batch = facts.get("steps"), facts.get("batch_rows")
    has_objective = "objective" in scores
    return (
        f"{fit_seconds(end):.1f}",
        f"{steps * batch:,}" if steps else f"{end['rows'][0]:,}, not deformed",
        f"{facts['features'] // 2:,}",
        f"{facts['computed']:.3g}" if "computed" in facts else "",
        f"{scores['objective']:.4g}" if has_objective else "",
        f"{100 * late_fall(snapshots):.2g} %" if has_objective else "",
        f"{100 * scores['test_error']:.2f} %",
    )


def comparisons(records: list[Record]) -> list[Comparison]:
    """Return the one number of the text: the error of few stored features."""
    return [
        compare(
            published("dsg16")["figure-2/MNIST-8M/stored/test_error"],
            course(records, _DATA, SVRG_LABEL)[-1:],
            lambda record: 100.0 * record["scores"]["test_error"],
            other_data=f"SVRG on {_STORED} frequencies of MNIST's digits, not of MNIST-8M",
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
