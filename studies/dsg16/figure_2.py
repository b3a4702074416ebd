"""Figure 2: a stream of deformed digits, in the place of MNIST-8M."""

from __future__ import annotations

from studies.comparisons import Comparison, compare
from studies.dsg16.runs import (
    METHOD,
    OURS,
    PAPER_RUNS,
    SVRG_LABEL,
    Setting,
    course,
    curves,
    panel,
    race,
)
from studies.published import published
from studies.records import fit_seconds, reason_missing
from studies.study import Job, Panel, Record, Study, TableOf

NAME = "dsg16/figure-2"
RUNS = (*PAPER_RUNS, OURS, SVRG_LABEL)
_DATA = "mnist"
SETTING = Setting(_DATA, "deformed digits", 20_000, 4096, 1e-6)
_STORED = 500
_SECONDS = 160.0
_SCORES = ("objective", "test_error")


def jobs() -> list[Job]:
    """Return the race of the runs, and of one on few stored features, as the text has it."""
    more = {"deformed": True, "frequencies": _STORED}
    return [race(NAME, SETTING, RUNS, _SECONDS, _SCORES, **more)]


def panels(records: list[Record]) -> list[Panel]:
    """Return objective and test error along the clock."""
    of_digits = "mean objective of the digits as they are"
    return [
        panel("Deformed digits: objective", curves(records, _DATA, RUNS, "objective"), of_digits),
        panel(
            "Deformed digits: test error",
            curves(records, _DATA, RUNS, "test_error", 100.0),
            "test error, %",
            y_log=True,
        ),
    ]


def tables(records: list[Record]) -> list[TableOf]:
    """Return where the runs ended."""
    rows = []
    for label in RUNS:
        snapshots = course(records, _DATA, label)
        if snapshots:
            end = snapshots[-1]
            steps, batch = end["facts"].get("steps"), end["facts"].get("batch_rows")
            rows.append(
                (
                    label,
                    f"{fit_seconds(end):.1f}",
                    f"{steps * batch:,}" if steps else f"{end['rows'][0]:,}, not deformed",
                    f"{end['facts']['features'] // 2:,}",
                    f"{end['scores']['objective']:.4g}",
                    f"{100 * end['scores']['test_error']:.2f} %",
                )
            )
    columns = ("run", "time, s", "rows seen", "frequencies", "objective", "test error")
    return [TableOf("The ends of the runs", columns, tuple(rows))] if rows else []


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
    "Deformed digits: objective and test error along the clock",
    "MNIST-8M is 8.1 million deformed digits. Here an endless stream of them is made while it "
    "is read: MNIST's training digits, turned, shifted and bent at random, on 100 principal "
    "components. Their making counts as training time. The objective is of 20,000 of the "
    "digits as they are, the test error of MNIST's test digits. B = 20,000, F = 4,096 as "
    "in the paper; lambda = 1e-6. The paper's one-vs-one "
    "hinge loss is not repeated. One run has 500 stored frequencies, as many as the paper's "
    "memory held.",
    jobs,
    30.0,
    panels,
    tables,
    comparisons,
)
