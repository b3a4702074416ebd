"""Table 1: error and training time of random features, and of an exact machine."""

from __future__ import annotations

from statistics import median

from studies.comparisons import Comparison, compare
from studies.numbers import printed
from studies.published import Published, published
from studies.records import completed, fit_seconds, reason_missing
from studies.rr07.sets import METHODS, SETS, UNAVAILABLE, PaperSet
from studies.study import Job, Line, Panel, Record, Study, TableOf

NAME = "rr07/table-1"
TRAINERS = {"fourier": "fourier", "binning": "binning", "exact": "LIBSVM"}
"""Ours, by the paper's columns; of CVM there is none."""
_MOST_TEST_ROWS = 50_000
_SECONDS = {
    "cpu": {"fourier": 3.0, "binning": 3.0, "exact": 8.0},
    "adult": {"fourier": 4.0, "binning": 3.0, "exact": 80.0},
    "forest": {"fourier": 160.0, "binning": 6.0, "exact": 300.0},
    "kdd99": {"fourier": 8.0, "binning": 8.0, "exact": 5.0},
}
_NO_CVM = "there is no Core Vector Machine for Python"


def jobs() -> list[Job]:
    """Return the jobs, the cheap ones first."""
    found = [
        _job(own, method, seed)
        for own in SETS.values()
        for method in TRAINERS
        for seed in range(_repetitions(own, method))
    ]
    return sorted(found, key=lambda job: job.seconds)


def _repetitions(own: PaperSet, method: str) -> int:
    """Return one for LIBSVM on fixed rows: nothing in it is random."""
    return 1 if method == "exact" and not own.is_split else own.repetitions


def _job(own: PaperSet, method: str, seed: int) -> Job:
    rows = own.exact_rows if method == "exact" else None
    return Job(
        NAME,
        own.data,
        TRAINERS[method],
        getattr(own, method),
        n_train=rows,
        n_test=_MOST_TEST_ROWS if own.key == "kdd99" else None,
        seed=seed,
        split=seed if own.is_split else None,
        scores=("relative_error",),
        seconds=_SECONDS[own.key][method],
    )


def panels(records: list[Record]) -> list[Panel]:
    """Return a picture of each data set: error by time, ours and the paper's."""
    numbers = published("rr07")
    found = []
    for own in SETS.values():
        lines = []
        for method, title in METHODS.items():
            runs = _runs(records, own, method)
            if runs:
                x = [median(map(fit_seconds, runs))]
                lines.append(Line(title, x, [median(map(_error, runs))]))
            theirs = [numbers.get(f"{own.key}/{method}/{what}") for what in ("seconds", "error")]
            if theirs[0] is not None and theirs[1] is not None:
                x, y = [theirs[0].value], [theirs[1].value]
                lines.append(Line(title, x, y, kind="published"))
        found.append(
            Panel(
                own.title,
                "training time, s",
                _error_name(own),
                tuple(lines),
                x_log=True,
                note=own.other_data,
            )
        )
    return found


def tables(records: list[Record]) -> list[TableOf]:
    """Return Table 1, the paper's errors and ours in each cell, rows in the head."""
    numbers = published("rr07")
    heads, rows = [], []
    for own in SETS.values():
        theirs = numbers[f"{own.key}/fourier/error"].rows
        heads.append(f"{own.title}: {theirs:,} rows | {own.n_train:,} rows")
    for method, title in METHODS.items():
        cells = [
            _cell(numbers.get(f"{own.key}/{method}/error"), _runs(records, own, method))
            for own in SETS.values()
        ]
        rows.append((title, *cells))
    return [
        TableOf(
            "Table 1: errors, the paper's | ours",
            ("method", *heads),
            tuple(rows),
            "Ours: the least and the largest of five repetitions, or one run. Share of test rows "
            "wrong; for CPU the norm of the error over the norm of the targets. LIBSVM stands in "
            "for the paper's exact machines.",
        )
    ]


def _cell(number: Published | None, runs: list[Record]) -> str:
    theirs = "–" if number is None else f"{printed(number.value)} %"
    errors = [f"{error:.2f}" for error in sorted(map(_error, runs))]
    if not errors:
        return f"{theirs} | –"
    ours = errors[0] if errors[0] == errors[-1] else f"{errors[0]} to {errors[-1]}"
    fewer = f" ({runs[0]['rows'][0]:,} rows)" if runs[0]["n_train"] else ""
    return f"{theirs} | {ours} %{fewer}"


def comparisons(records: list[Record]) -> list[Comparison]:
    """Return every number of the table and ours."""
    return [
        _comparison(records, number)
        for number in published("rr07").values()
        if number.study == "table-1"
    ]


def _comparison(records: list[Record], number: Published) -> Comparison:
    key, method, what = number.key.split("/")
    if key in UNAVAILABLE or method not in TRAINERS:
        return Comparison(number, missing=UNAVAILABLE.get(key, _NO_CVM))
    own = SETS[key]
    return compare(
        number,
        _runs(records, own, method),
        _error if what == "error" else fit_seconds,
        repetitions=_repetitions(own, method),
        other_data=own.other_data,
        missing=reason_missing(records, data=own.data, method=TRAINERS[method]),
    )


def _runs(records: list[Record], own: PaperSet, method: str) -> list[Record]:
    if method not in TRAINERS:
        return []
    return completed(records, data=own.data, method=TRAINERS[method])


def _error(record: Record) -> float:
    return 100.0 * float(record["scores"]["relative_error"])


def _error_name(own: PaperSet) -> str:
    return "|y - prediction| / |y|, %" if own.key == "cpu" else "test error, %"


TABLE_1 = Study(
    "rr07",
    "table-1",
    "Error and training time of random features beside an exact machine",
    "Least squares on random Fourier features and on random bins, with the paper's numbers of "
    "frequencies (D) and grids (P), and LIBSVM as the exact machine. The paper gives neither "
    "bandwidths nor penalties: ours are the best of a coarse grid on training rows that were "
    "held back, chosen once. Its times are of a machine of 2007. CPU has a random split in each "
    "repetition. KDDCUP99's exact machine gets 50 rows, as the paper's footnote 1 says; 50,000 of "
    "its official test rows are used.",
    jobs,
    20.0,
    panels,
    tables,
    comparisons,
)
