"""The report of what was run: a page a paper, one that leads to them, one of all numbers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

import gramless
from gramless.base.files import replacing
from gramless.base.formatting import duration, sized
from gramless.cli.templating import environment
from studies.catalogue import PAPERS
from studies.numbers import measured, printed, ratio
from studies.panels import chart_of, marks_of, notes_of
from studies.results import (
    ENDS,
    VERDICTS,
    StudyResults,
    by_paper,
    collect_results,
    command,
    counted,
    jobs_of,
    machines,
    misses,
    plural,
    verdicts,
)
from studies.sheet import sheet
from studies.study import Comparison, Record, Study, TableOf

INDEX, COMPARISON = "index.html", "comparison.html"
WHAT = (
    "Figures and tables of papers on random features, run again with gramless; every published "
    "number that there is, beside ours."
)
MEANING = (
    "Agrees: the two differ by no more than two runs of the paper's own method may, which is the "
    "number after ±. Better and worse: by more than that. Other data: another set stands in, and "
    "neither number says anything of the other. Seconds and bytes of a paper were "
    "measured on its authors' machine; they are quoted as printed."
)
NO_LOSS = "No measured number is worse than the published one by more than its tolerance."

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$])")
_NUMBER = re.compile(r"[<>~≈±−+\-]?\s?[\d.,]*\d[\d.,]*(e[+-]?\d+)?(\s?\S{1,5})?( ± [\d.,]+\S*)?")
_MISSING = ("", "-", "–", "—", "n/a")
_OFTEN = 3
"""A note that so many rows share stands once, below the table."""


def write_report(
    studies: Sequence[Study], records_by_study: Mapping[str, list[Record]], folder: Path
) -> Path:
    """Write a page for each paper, one that leads to them, and every number beside ours.

    Each page is one file, its pictures inside, and needs no script. ``README.md`` has every
    number as Markdown, with an SVG file in ``pictures/`` for each study that has panels; those of
    studies that have none any more are removed.

    Parameters
    ----------
    studies : sequence of Study
    records_by_study : mapping of str to list of dict
        By the studies' keys; missing, failed and unavailable runs are told of.
    folder : Path
        Made if it is not there.

    Returns
    -------
    Path
        ``index.html`` in the folder.

    Raises
    ------
    OSError
        If a file cannot be written; no file is ever left half written.
    """
    shown = collect_results(studies, records_by_study)
    papers = by_paper(shown)
    marks = marks_of([panel for one in shown for panel in one.panels])
    templates = _templates(papers, shown)
    for one in shown:
        path = folder / "pictures" / _picture_of(one.study)
        if one.panels:
            title = f"{one.study.paper.upper()}: {one.study.title}"
            _write(path, sheet(title, [chart_of(panel, marks) for panel in one.panels]))
        else:
            path.unlink(missing_ok=True)
    text = templates.get_template("comparison.md").render()
    _write(folder / "README.md", re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")
    pages = {INDEX: "Overview", **{f"{paper}.html": paper.upper() for paper in papers}}
    pages[COMPARISON] = "All numbers"
    for paper, own in papers.items():
        page = templates.get_template("paper.html").render(
            title=paper.upper(),
            here=f"{paper}.html",
            pages=pages,
            paper=paper,
            own=own,
            marks=marks,
        )
        _write(folder / f"{paper}.html", page)
    titles = {INDEX: "The papers, run again", COMPARISON: "All numbers, theirs and ours"}
    for here, title in titles.items():
        page = templates.get_template(here).render(title=title, here=here, pages=pages)
        _write(folder / here, page)
    return folder / INDEX


def _templates(
    papers: Mapping[str, list[StudyResults]], shown: Sequence[StudyResults]
) -> Environment:
    """Return the templates, with what all of them show and compute."""
    found = environment("studies", "gramless.cli")
    found.filters["plain"] = _plain
    functions = (
        *(chart_of, command, counted, measured, misses, notes_of, plural),
        *(printed, ratio, verdicts),
    )
    found.globals.update({function.__name__: function for function in functions})
    machines_told = "; ".join(machines(record for one in shown for record in one.records))
    found.globals.update(
        {"COMPARISON": COMPARISON, "MEANING": MEANING, "NO_LOSS": NO_LOSS, "WHAT": WHAT},
        VERDICTS=VERDICTS,
        about=lambda paper: PAPERS.get(paper, ""),
        column_styles=_column_styles,
        counts=verdicts(shown),
        how_run=_how_run,
        losses=_losses(shown),
        measured_on=f"Measured on: {machines_told}." if machines_told else "",
        n_runs=lambda own: sum(len(jobs_of(one.records)) for one in own),
        papers=papers,
        picture_of=_picture_of,
        shared_notes=_shared_notes,
        version=gramless.__version__,
    )
    return found


def _write(path: Path, text: str) -> None:
    """Write a file that is whole or not there, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode())


def _picture_of(study: Study) -> str:
    return f"{study.paper}-{study.name}.svg"


def _losses(shown: Sequence[StudyResults]) -> list[Comparison]:
    return [
        replace(one, what=f"{own.study.paper.upper()}: {one.what}")
        for own in shown
        for one in own.comparisons
        if one.verdict == "worse"
    ]


def _shared_notes(comparisons: Sequence[Comparison]) -> list[str]:
    times = Counter(one.note for one in comparisons if one.note)
    return [note for note, count in times.items() if count >= _OFTEN]


def _column_styles(table: TableOf) -> list[Markup]:
    """Return the attribute of each column: columns of numbers are aligned, words are not."""
    styles = []
    for k in range(len(table.columns)):
        cells = [row[k].strip() for row in table.rows]
        there = [cell for cell in cells if cell not in _MISSING]
        is_number = there and all(map(_NUMBER.fullmatch, there))
        styles.append(Markup(' class="n"' if is_number else ""))
    return styles


def _how_run(one: StudyResults) -> dict[str, list[str]]:
    """Return facts of a study's runs, lines of text by name."""
    jobs = jobs_of(one.records)
    statuses = Counter(job[-1]["status"] for job in jobs)
    seconds = sum(_finite(job[-1].get("seconds", {}).get("total")) for job in jobs)
    ended = ", ".join(f"{count} {ENDS.get(name, name)}" for name, count in statuses.items())
    largest = max((_finite(record.get("memory")) for record in one.records), default=0.0)
    days = sorted({str(record["when"])[:10] for record in one.records if record.get("when")})
    facts = {
        "Runs": [f"{ended}; each in a process of its own"],
        "Seeds": [", ".join(map(str, sorted({job[0].get("seed", 0) for job in jobs})))],
        "Training": [f"{duration(seconds)} together"] if seconds else [],
        "Most memory": [f"{sized(int(largest))} above the loaded data"] if largest else [],
        "Days": [" to ".join(dict.fromkeys([*days[:1], *days[-1:]]))] if days else [],
        "Machine": machines(one.records),
        "Versions": list(filter(None, dict.fromkeys(map(_versions, one.records)))),
    }
    return {name: lines for name, lines in facts.items() if lines}


def _versions(record: Record) -> str:
    found = record.get("versions", {})
    return ", ".join(f"{name} {version}" for name, version in found.items() if version)


def _finite(value: float | None) -> float:
    """Return a number that was measured; nothing counts as zero."""
    return value if value is not None and math.isfinite(value) else 0.0


def _plain(text: str) -> str:
    r"""Return text that Markdown takes as text, on one line.

    Examples
    --------
    >>> _plain("house_16H: a | b")
    'house\\_16H: a \\| b'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
