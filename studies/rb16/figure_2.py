"""Figure 2: the non-zeros of a small feature matrix, and how many columns a bandwidth makes."""

from __future__ import annotations

from studies.comparisons import Comparison, compare
from studies.published import published
from studies.rb16.figures import LAMBDA
from studies.rb16.sets import GAMMAS, SETS
from studies.records import completed
from studies.settings import words
from studies.study import Job, Line, Panel, Record, Study

NAME = "rb16/figure-2"
ROWS, GRIDS = 200, 10
DATA = "cadata"


def jobs() -> list[Job]:
    """Return the one job."""
    options = {
        "size": GRIDS,
        "bandwidth": words(1.0 / gamma for gamma in GAMMAS),
        "penalty": LAMBDA,
        "units": SETS[DATA].units,
    }
    return [Job(NAME, DATA, "pattern", options, n_train=ROWS, scores=(), seconds=3.0)]


def panels(records: list[Record]) -> list[Panel]:
    """Return the picture of the paper, and that of D against the bandwidth."""
    found, chosen = completed(records), nearest(records)
    shown: list[Panel] = []
    if chosen is not None:
        columns = chosen["facts"]["pattern"]
        at = [k // GRIDS for k in range(len(columns))]
        title = f"Z, {ROWS} rows, D = {chosen['facts']['columns']}"
        line = Line("non-zeros", columns, [float(row) for row in at])
        note = f"{DATA}, gamma {_gamma(chosen):.3g}: the bandwidth whose D is nearest the paper's."
        shown.append(Panel(title, "column", "row", (line,), note=note, dots=True))
    gammas = [_gamma(one) for one in found]
    counts = [float(one["facts"]["columns"]) for one in found]
    lines = (
        Line("columns D", gammas, counts),
        Line("R", list(GAMMAS), [float(GRIDS)] * len(GAMMAS), kind="law"),
        Line("N R", list(GAMMAS), [float(ROWS * GRIDS)] * len(GAMMAS), kind="law"),
    )
    note = "R ≤ D ≤ N R, section 2.2."
    axes = ("1 / bandwidth", "columns")
    return [*shown, Panel("Columns", *axes, lines, x_log=True, y_log=True, note=note)]


def nearest(records: list[Record]) -> Record | None:
    """Return the record whose D is nearest the paper's; None if there is none."""
    theirs = published("rb16")["figure-2/columns"].value
    return min(
        completed(records), key=lambda one: abs(one["facts"]["columns"] - theirs), default=None
    )


def comparisons(records: list[Record]) -> list[Comparison]:
    """Return columns and non-zeros beside the caption's."""
    chosen, numbers = nearest(records), published("rb16")
    runs = [] if chosen is None else [chosen]
    return [
        compare(
            numbers["figure-2/columns"], runs, lambda record: float(record["facts"]["columns"])
        ),
        compare(
            numbers["figure-2/nonzeros"],
            runs,
            lambda record: float(len(record["facts"]["pattern"])),
        ),
    ]


def _gamma(record: Record) -> float:
    return 1.0 / float(record["facts"]["bandwidth"])


FIGURE_2 = Study(
    "rb16",
    "figure-2",
    "The non-zeros of Z for 200 rows and 10 grids",
    "Each row has one non-zero in each grid: 2,000 in all, whatever the bandwidth. How many "
    "columns there are depends on it. The paper's caption gives N, R, D and the non-zeros, but "
    "neither data nor bandwidth: shown is the bandwidth of the paper's list at which D is nearest.",
    jobs,
    1.0,
    panels,
    comparisons=comparisons,
)
