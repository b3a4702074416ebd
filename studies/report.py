"""The report of what was run: a page a paper, and one that leads to them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from gramless.base.files import replacing
from gramless.base.markup import escape
from gramless.base.words import duration, sized
from studies import html
from studies.catalogue import PAPERS
from studies.marks import Mark, marks_of
from studies.results import (
    ENDS,
    StudyResults,
    by_paper,
    collect_results,
    command,
    jobs_of,
    machines,
    misses,
    plural,
    verdicts,
)
from studies.study import Record, Study

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


def write_report(
    studies: Sequence[Study], records_by_study: Mapping[str, list[Record]], folder: Path
) -> Path:
    """Write a page of HTML for each paper, and the page that leads to them.

    Each page is one file, its pictures inside, and needs no script. They link to the page that
    :func:`studies.comparing.write_comparison` writes into the same folder.

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
        If a page cannot be written; no page is ever left half written.
    """
    shown = collect_results(studies, records_by_study)
    papers = by_paper(shown)
    places = pages_of(papers)
    marks = marks_of([panel for one in shown for panel in one.panels])
    for paper, own in papers.items():
        body = _paper(paper, own, marks)
        write_text(folder / f"{paper}.html", html.page(short(paper), f"{paper}.html", places, body))
    title = "The papers, run again"
    write_text(folder / INDEX, html.page(title, INDEX, places, _index(papers)))
    return folder / INDEX


def pages_of(papers: Mapping[str, list[StudyResults]]) -> dict[str, str]:
    """Return the files of a report and their names, in the order in which they are linked."""
    own = {f"{paper}.html": short(paper) for paper in papers}
    return {INDEX: "Overview", **own, COMPARISON: "All numbers"}


def short(paper: str) -> str:
    """Return the short name of a paper.

    Examples
    --------
    >>> short("rb16")
    'RB16'
    """
    return paper.upper()


def write_text(path: Path, text: str) -> None:
    """Write a file that is whole or not there, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode())


def _index(papers: Mapping[str, list[StudyResults]]) -> str:
    every = [one for own in papers.values() for one in own]
    total = sum(verdicts(every).values())
    parts = [
        html.paragraphs(
            WHAT,
            "lead",
        )
    ]
    if total:
        parts.append(f"<p>{plural(total, 'published number')}:</p>")
        parts += [html.tally(verdicts(every)), html.paragraphs(MEANING, "soft small")]
        parts.append(f'<p><a href="{COMPARISON}">All numbers, theirs and ours</a></p>')
    parts.append('<ul class="contents">')
    for paper, own in papers.items():
        parts += [
            f'<li><a class="name" href="{paper}.html">{escape(short(paper))}</a>',
            f'<span class="soft">{escape(PAPERS.get(paper, ""))}. {_extent(own)}.</span>',
            html.tally(verdicts(own), "slim"),
            "</li>",
        ]
    return "\n".join([*parts, "</ul>"])


def _extent(own: Sequence[StudyResults]) -> str:
    n_studies = f"{len(own)} study" if len(own) == 1 else f"{len(own)} studies"
    return f"{n_studies}, {plural(sum(len(jobs_of(one.records)) for one in own), 'run')}"


def _paper(paper: str, own: Sequence[StudyResults], marks: Mapping[str, Mark]) -> str:
    parts = [html.paragraphs(PAPERS.get(paper, ""), "lead"), html.tally(verdicts(own))]
    if verdicts(own):
        parts.append(html.paragraphs(MEANING, "soft small"))
    parts.append('<ul class="contents">')
    for one in own:
        parts += [
            f'<li><a class="name" href="#{one.study.name}">{escape(one.study.title)}</a>',
            html.tally(verdicts([one]), "slim") or f'<span class="soft">{_told_runs(one)}</span>',
            "</li>",
        ]
    parts.append("</ul>")
    return "\n".join([*parts, *(_study(one, marks) for one in own)])


def _told_runs(one: StudyResults) -> str:
    n_runs = len(jobs_of(one.records))
    return f"{plural(n_runs, 'run')}; no published number" if n_runs else "Not run yet"


def _study(one: StudyResults, marks: Mapping[str, Mark]) -> str:
    study = one.study
    parts = [
        f'<section class="study" id="{escape(study.name)}">',
        f'<p class="tag">{short(study.paper)} · {escape(study.name.replace("-", " "))}</p>',
        f"<h2>{escape(study.title)}</h2>",
        html.paragraphs(study.about, "about"),
        _not_done(one),
        html.figures(one.panels, marks),
    ]
    if one.comparisons:
        parts.append("<h3>Published and measured</h3>")
        name = f"{study.title}: published and measured"
        parts.append(html.versus(one.comparisons, name, study.name))
    parts += [html.table(table) for table in one.tables]
    return "\n".join([*parts, _how_run(one), "</section>"])


def _not_done(one: StudyResults) -> str:
    """Say what was not measured, and why."""
    if not one.records:
        return (
            '<div class="alert"><p>Nothing of this has been run yet. This runs it:</p>'
            f"<pre><code>{escape(command(one.study))}</code></pre></div>"
        )
    told, reasons = misses(one.records)
    lines = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    return f'<div class="alert"><p>{told}</p><ul>{lines}</ul></div>' if told else ""


def _how_run(one: StudyResults) -> str:
    jobs = jobs_of(one.records)
    if not jobs:
        return ""
    statuses = Counter(job[-1]["status"] for job in jobs)
    seconds = sum(_finite(job[-1].get("seconds", {}).get("total")) for job in jobs)
    ended = ", ".join(f"{count} {ENDS.get(name, name)}" for name, count in statuses.items())
    largest = max((_finite(record.get("memory")) for record in one.records), default=0.0)
    days = sorted({str(record["when"])[:10] for record in one.records if record.get("when")})
    facts = {
        "Command": f"<code>{escape(command(one.study))}</code>",
        "Runs": escape(f"{ended}; each in a process of its own"),
        "Seeds": escape(", ".join(map(str, sorted({job[0].get("seed", 0) for job in jobs})))),
        "Training": f"{duration(seconds)} together" if seconds else "",
        "Most memory": f"{sized(int(largest))} above the loaded data" if largest else "",
        "Days": " to ".join(dict.fromkeys([*days[:1], *days[-1:]])),
        "Machine": "<br />".join(map(escape, machines(one.records))),
        "Versions": "<br />".join(dict.fromkeys(map(_versions, one.records))),
    }
    listed = "".join(f"<dt>{name}</dt><dd>{told}</dd>" for name, told in facts.items() if told)
    return f"<details><summary>How it was run</summary><dl>{listed}</dl></details>"


def _versions(record: Record) -> str:
    found = record.get("versions", {})
    return escape(", ".join(f"{name} {version}" for name, version in found.items() if version))


def _finite(value: float | None) -> float:
    """Return a number that was measured; nothing counts as zero."""
    return value if value is not None and math.isfinite(value) else 0.0
