"""The page that compares: every published number beside ours, as HTML and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gramless.base.markup import escape
from studies import html
from studies.catalogue import PAPERS
from studies.drawing import sheet
from studies.marks import Mark, marks_of
from studies.numbers import measured, printed, ratio
from studies.report import COMPARISON, MEANING, WHAT, pages_of, short, write_text
from studies.results import (
    StudyResults,
    by_paper,
    collect_results,
    command,
    counted,
    machines,
    misses,
    plural,
    verdicts,
)
from studies.study import Comparison, Record, Study, TableOf

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$])")
_LOSSES = "Where we are worse"
_NO_LOSS = "No measured number is worse than the published one by more than its tolerance."


def write_comparison(
    studies: Sequence[Study], records_by_study: Mapping[str, list[Record]], folder: Path
) -> Path:
    """Write every published number beside ours: ``comparison.html``, ``README.md``, pictures.

    Parameters
    ----------
    studies : sequence of Study
    records_by_study : mapping of str to list of dict
        By the studies' keys.
    folder : Path
        Made if it is not there. ``pictures/`` in it gets an SVG file for each study that has
        panels; those of a study that has none any more are removed.

    Returns
    -------
    Path
        ``comparison.html`` in the folder.

    Raises
    ------
    OSError
        If a file cannot be written; no file is ever left half written.
    """
    shown = collect_results(studies, records_by_study)
    papers = by_paper(shown)
    marks = marks_of([panel for one in shown for panel in one.panels])
    body = _page(papers)
    page = html.page("All numbers, theirs and ours", COMPARISON, pages_of(papers), body)
    _write_pictures(shown, marks, folder)
    write_text(folder / COMPARISON, page)
    write_text(folder / "README.md", _markdown(papers))
    return folder / COMPARISON


def _page(papers: Mapping[str, list[StudyResults]]) -> str:
    every = [one for own in papers.values() for one in own]
    counts = verdicts(every)
    parts = [
        html.paragraphs(f"{plural(sum(counts.values()), 'published number')}.", "lead"),
        html.tally(counts),
        html.paragraphs(MEANING, "soft small"),
        html.paragraphs(_measured_on(every), "soft small"),
        f'<section class="study" id="losses"><h2>{_LOSSES}</h2>',
    ]
    lost = _lost(every)
    parts.append(html.versus(lost, _LOSSES, "losses") if lost else html.paragraphs(_NO_LOSS))
    parts.append("</section>")
    for paper, own in papers.items():
        if not verdicts(own):
            continue
        parts += [
            f'<section class="study" id="{escape(paper)}"><h2>{escape(short(paper))}</h2>',
            html.paragraphs(PAPERS.get(paper, ""), "soft"),
            html.tally(verdicts(own)),
        ]
        for one in own:
            if one.comparisons:
                place = f"{paper}.html#{one.study.name}"
                parts.append(f'<h3><a href="{place}">{escape(one.study.title)}</a></h3>')
                parts.append(
                    html.versus(one.comparisons, one.study.title, f"{paper}-{one.study.name}")
                )
        parts.append("</section>")
    return "\n".join(parts)


def _lost(shown: Sequence[StudyResults]) -> list[Comparison]:
    return [
        replace(one, what=f"{short(own.study.paper)}: {one.what}")
        for own in shown
        for one in own.comparisons
        if one.verdict == "worse"
    ]


def _picture(study: Study) -> str:
    return f"{study.paper}-{study.name}.svg"


def _write_pictures(shown: Sequence[StudyResults], marks: Mapping[str, Mark], folder: Path) -> None:
    pictures = folder / "pictures"
    for one in shown:
        path = pictures / _picture(one.study)
        if one.panels:
            title = f"{short(one.study.paper)}: {one.study.title}"
            write_text(path, sheet(one.panels, marks, title))
        else:
            path.unlink(missing_ok=True)


def _markdown(papers: Mapping[str, list[StudyResults]]) -> str:
    every = [one for own in papers.values() for one in own]
    counts = verdicts(every)
    parts = [
        "# The papers, run again",
        f"{WHAT} Written by `python -m studies all`, as are pages for a browser: "
        "[index.html](index.html).",
        _plain(_measured_on(every)),
        f"**{plural(sum(counts.values()), 'published number')}: {', '.join(counted(counts))}.**"
        if counts
        else "No published number has been measured yet.",
        MEANING,
        f"## {_LOSSES}",
        _table(_lost(every)) if _lost(every) else _NO_LOSS,
    ]
    for paper, own in papers.items():
        parts.append(f"## {short(paper)}")
        parts.append(_plain(f"{PAPERS.get(paper, '')}."))
        if verdicts(own):
            parts.append(f"{', '.join(counted(verdicts(own))).capitalize()}.")
        for one in own:
            parts += _study(one)
    return "\n\n".join(filter(None, parts)) + "\n"


def _measured_on(shown: Sequence[StudyResults]) -> str:
    found = machines(record for one in shown for record in one.records)
    return f"Measured on: {'; '.join(found)}." if found else ""


def _study(one: StudyResults) -> list[str]:
    study = one.study
    parts = [f"### {_plain(study.title)}", *_paragraphs(study.about), f"    {command(study)}"]
    if one.panels:
        parts.append(f"![{_plain(study.title)}](pictures/{_picture(study)})")
        parts += [
            f"{_plain(panel.title)}: {_plain(panel.note)}" for panel in one.panels if panel.note
        ]
    told, reasons = misses(one.records)
    if told or not one.records:
        parts.append(told or "Not run yet.")
        parts.append("\n".join(f"- {_plain(reason)}" for reason in reasons))
    if one.comparisons:
        parts.append(_table(one.comparisons))
    for table in one.tables:
        parts += [f"**{_plain(table.title)}**", _own_table(table), _plain(table.note)]
    return parts


def _paragraphs(text: str) -> list[str]:
    return [_plain(part) for part in text.split("\n\n")]


def _table(comparisons: Sequence[Comparison]) -> str:
    lines = [
        "| published number | theirs | ours | ours ÷ theirs | verdict | note |",
        "|---|--:|--:|--:|---|---|",
    ]
    return "\n".join([*lines, *map(_row, comparisons)])


def _own_table(table: TableOf) -> str:
    rows = [table.columns, ["---"] * len(table.columns), *table.rows]
    cells = [[cell if set(cell) == {"-"} else _plain(cell) or "–" for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _row(one: Comparison) -> str:
    unit = f" {one.unit}" if one.unit else ""
    give = f" ± {printed(one.tolerance, 3)}" if one.tolerance else ""
    larger = "" if one.smaller_is_better else " (larger is better)"
    cells = [f"{one.what}{larger}", f"{printed(one.theirs)}{give}{unit}"]
    if one.ours is None:
        cells += ["–", "–"]
    else:
        cells += [f"{measured(one.ours, one.theirs)}{unit}", ratio(one.ours, one.theirs)]
    return f"| {' | '.join(map(_plain, [*cells, one.verdict, one.note]))} |"


def _plain(text: str) -> str:
    r"""Return text that Markdown takes as text, on one line.

    Examples
    --------
    >>> _plain("house_16H: a | b")
    'house\\_16H: a \\| b'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
