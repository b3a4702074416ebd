"""Figure 2: the non-zeros of a small feature matrix, and the number of columns by bandwidth."""

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
    """Return a single job with all bandwidths."""
    options = {
        "size": GRIDS,
        "bandwidth": words(1.0 / gamma for gamma in GAMMAS),
        "penalty": LAMBDA,
        "units": SETS[DATA].units,
    }
    return [Job(NAME, DATA, "pattern", options, n_train=ROWS, scores=(), seconds=3.0)]


def panels(records: list[Record]) -> list[Panel]:
    """Return the paper's picture of the non-zeros, and a picture of D by bandwidth."""
    fits, best = completed(records), nearest(records)
    panels: list[Panel] = []
    if best is not None:
        columns = best["facts"]["pattern"]
        rows = [float(k // GRIDS) for k in range(len(columns))]
        title = f"Z, {ROWS} rows, D = {best['facts']['columns']}"
        line = Line("non-zeros", columns, rows)
        note = f"{DATA}, gamma {_gamma(best):.3g}: the bandwidth whose D is nearest the paper's."
        panels.append(Panel(title, "column", "row", (line,), note=note, dots=True))
    gammas = [_gamma(record) for record in fits]
    counts = [float(record["facts"]["columns"]) for record in fits]
    lines = (
        Line("columns D", gammas, counts),
        Line("R", list(GAMMAS), [float(GRIDS)] * len(GAMMAS), kind="law"),
        Line("N R", list(GAMMAS), [float(ROWS * GRIDS)] * len(GAMMAS), kind="law"),
    )
    note = "R ≤ D ≤ N R, section 2.2."
    axes = ("1 / bandwidth", "columns")
    return [*panels, Panel("Columns", *axes, lines, x_log=True, y_log=True, note=note)]


def nearest(records: list[Record]) -> Record | None:
    """Return the record whose D is nearest to the paper's, or None if there is no record."""
    paper_columns = published("rb16")["figure-2/columns"].value
    return min(
        completed(records),
        key=lambda record: abs(record["facts"]["columns"] - paper_columns),
        default=None,
    )


def comparisons(records: list[Record]) -> list[Comparison]:
    """Return the comparisons of the columns and non-zeros in the paper's caption."""
    best, numbers = nearest(records), published("rb16")
    runs = [] if best is None else [best]
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
