"""Write the report: a page and pictures per paper, and CSV files of all published numbers."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from jinja2 import Environment, PackageLoader, StrictUndefined

from gramless.base.files import open_replacement
from gramless.base.formatting import format_duration
from studies.catalogue import PAPERS
from studies.comparisons import Comparison, headline, reasons
from studies.panels import chart_of, marks_of, notes_of
from studies.results import (
    StudyResults,
    by_paper,
    collect_results,
    command,
    fits,
    jobs_of,
    machines,
    misses,
    others_at_work,
    plural,
    when_and_where,
)
from studies.sheet import sheet
from studies.study import Record, Study, TableOf

INDEX = "index.md"
TABLES = {"error": "errors.csv", "count": "counts.csv", "seconds": "seconds.csv"}
_COLUMNS = (
    "paper",
    "study",
    "number",
    "published",
    "unit",
    "ours, median",
    "ours, least",
    "ours, largest",
    "repetitions",
    "published rows",
    "our rows",
    "verdict",
    "reason",
    "same number as",
    "source",
    "date",
    "commit",
)
_MAX_ROWS = 12  # Longer tables are written to separate CSV files.
_MARKDOWN_CHARACTERS = re.compile(r"([\\`*_{}\[\]<>|#~$])")


def write_report(
    studies: Sequence[Study], records_by_study: Mapping[str, list[Record]], folder: Path
) -> Path:
    """Write the pages, the pictures and the tables of published numbers.

    ``index.md`` links to a page for each paper, with an SVG file in ``pictures/`` for each study
    that has panels. Errors, counts and seconds have a CSV file each, with a row for every
    published number, measured or not.

    Parameters
    ----------
    studies : sequence of Study
    records_by_study : mapping of str to list of dict
        Records by the keys of their studies.
    folder : Path
        Created if it does not exist.

    Returns
    -------
    Path
        ``index.md`` in the folder.

    Raises
    ------
    OSError
        If a file cannot be written. Files are replaced as a whole, never written in part.
    """
    results = collect_results(studies, records_by_study)
    marks = marks_of([panel for result in results for panel in result.panels])
    for result in results:
        path = folder / _picture(result.study)
        if result.panels and result.records:
            title = f"{result.study.paper.upper()}: {result.study.title}"
            _write(path, sheet(title, [chart_of(panel, marks) for panel in result.panels]))
        else:
            path.unlink(missing_ok=True)
        for number, table in enumerate(result.tables):
            if is_long(table):
                path = folder / table_file(result.study, number)
                _write(path, _as_csv(table.columns, table.rows))
    rows = [(result.study, one) for result in results for one in result.comparisons]
    for kind, name in TABLES.items():
        lines = [
            _row(study, comparison) for study, comparison in rows if comparison.number.kind == kind
        ]
        _write(folder / name, _as_csv(_COLUMNS, lines))
    templates = _templates(results)
    papers = by_paper(results)
    for paper, of_paper in papers.items():
        _write_page(folder / f"{paper}.md", templates, "paper.md", paper=paper, results=of_paper)
    _write_page(folder / INDEX, templates, "index.md", papers=papers, results=results)
    return folder / INDEX


def _row(study: Study, comparison: Comparison) -> tuple[str, ...]:
    number, ours = comparison.number, comparison.measured
    spread = [median(ours), min(ours), max(ours)] if ours else []
    return (
        study.paper,
        study.name,
        number.what,
        f"{number.value:.7g}",
        number.unit,
        *([f"{value:.5g}" for value in spread] or ["", "", ""]),
        str(len(ours)),
        str(number.rows or ""),
        str(comparison.rows or ""),
        comparison.verdict,
        comparison.reason,
        comparison.same_as,
        number.source,
        comparison.when,
        comparison.commit,
    )


def _as_csv(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def is_long(table: TableOf) -> bool:
    """Return whether a table has a file of its own."""
    return len(table.rows) > _MAX_ROWS


def table_file(study: Study, number: int) -> str:
    """Return the name of a long table's file."""
    return f"{study.paper}-{study.name}-{number + 1}.csv"


def _picture(study: Study) -> str:
    return f"pictures/{study.paper}-{study.name}.svg"


def _templates(results: Sequence[StudyResults]) -> Environment:
    environment = Environment(
        loader=PackageLoader("studies"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["plain"] = plain
    functions = (
        *(command, fits, headline, is_long, misses, notes_of),
        *(others_at_work, plural, reasons, table_file, when_and_where),
    )
    environment.globals.update({function.__name__: function for function in functions})
    environment.globals.update(
        TABLES=TABLES,
        about=lambda paper: PAPERS.get(paper, ""),
        compared=lambda results: [one for result in results for one in result.comparisons],
        measured=_all_records,
        picture=_picture,
        run=_run(_all_records(results)),
    )
    return environment


def _all_records(results: Iterable[StudyResults]) -> list[Record]:
    return [record for result in results for record in result.records]


def _run(records: Sequence[Record]) -> dict[str, str]:
    """Return the commits, dates, machines and total time of the records, as text."""
    days = sorted({str(record["when"])[:10] for record in records if record.get("when")})
    commits = dict.fromkeys(record["commit"] for record in records if record.get("commit"))
    seconds = sum(_finite(job[0].get("wall")) for job in jobs_of(records))
    facts = {
        "commit": ", ".join(commits),
        "date": " to ".join(dict.fromkeys([*days[:1], *days[-1:]])),
        "machine": "; ".join(machines(records)),
        "time": format_duration(seconds) if seconds else "",
    }
    return {name: text for name, text in facts.items() if text}


def _write_page(path: Path, templates: Environment, name: str, **content: object) -> None:
    text = templates.get_template(name).render(**content)
    _write(path, re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_replacement(path) as file:
        file.write(text.encode())


def _finite(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else 0.0


def plain(text: str) -> str:
    r"""Return text on one line, with the special characters of Markdown escaped.

    Examples
    --------
    >>> plain("house_16H: a | b")
    'house\\_16H: a \\| b'
    """
    return _MARKDOWN_CHARACTERS.sub(r"\\\1", " ".join(text.split()))
