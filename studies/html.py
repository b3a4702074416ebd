"""Pieces of the report's pages: frame, tables, counts of verdicts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources

import gramless
from gramless.base.markup import escape
from studies.drawing import drawing, key, left_out, picture_style
from studies.marks import Mark, entries, named
from studies.numbers import measured, printed, ratio
from studies.results import VERDICTS, counted, plural
from studies.study import Comparison, Panel, TableOf

_CLASSES = {"better": "is-better", "agrees": "is-agrees", "worse": "is-worse"}
_OTHER = "is-none"
_NUMBER = re.compile(r"[<>~≈±−+\-]?\s?[\d.,]*\d[\d.,]*(e[+-]?\d+)?(\s?\S{1,5})?( ± [\d.,]+\S*)?")
_MISSING = ("", "-", "–", "—", "n/a")
_OFTEN = 3
"""A note that so many rows share stands once, below the table."""


def page(title: str, here: str, places: Mapping[str, str], body: str) -> str:
    """Return a whole page, with its style inside.

    Parameters
    ----------
    title : str
    here : str
        The name of its file.
    places : mapping of str to str
        Files that belong together, and their names in the line on top.
    body : str
        HTML.
    """
    style = resources.files("studies").joinpath("page.css").read_text(encoding="utf-8")
    links = "".join(_link(file, name, here) for file, name in places.items())
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8" />'
        '<meta name="viewport" content="width=device-width, initial-scale=1" />'
        f"<title>{escape(title)}</title>\n"
        '<link rel="icon" href="data:," />\n'
        f"<style>{style}\n{picture_style()}</style></head>\n<body>\n"
        f'<header class="top"><nav aria-label="Pages">{links}</nav></header>\n'
        f"<main>\n<h1>{escape(title)}</h1>\n{body}\n"
        f"<footer>Written by gramless {escape(gramless.__version__)} from its records alone. "
        "Every score was computed by the same code, whatever the method.</footer>\n"
        "</main>\n</body></html>\n"
    )


def paragraphs(text: str, style: str = "") -> str:
    """Return text as paragraphs; an empty line parts them."""
    of_style = f' class="{style}"' if style else ""
    parts = [" ".join(part.split()) for part in text.split("\n\n")]
    return "".join(f"<p{of_style}>{escape(part)}</p>\n" for part in parts if part)


def tally(counts: Counter[str], style: str = "") -> str:
    """Return counts of verdicts as a bar and in words."""
    total = sum(counts.values())
    if not total:
        return ""
    bar = "".join(
        f'<span class="{_CLASSES.get(name, _OTHER)}" style="flex-grow:{counts[name]}"></span>'
        for name in VERDICTS
        if counts[name]
    )
    names = [name for name in VERDICTS if counts[name]]
    words = "".join(
        f'<li class="{_CLASSES.get(name, _OTHER)}">{escape(text)}</li>'
        for name, text in zip(names, counted(counts), strict=True)
    )
    told = escape(f"Of {plural(total, 'published number')}: {', '.join(counted(counts))}")
    return (
        f'<div class="tally {style}"><div class="bar" role="img" aria-label="{told}">{bar}</div>'
        f'<ul class="counts">{words}</ul></div>\n'
    )


def figures(panels: Sequence[Panel], marks: Mapping[str, Mark]) -> str:
    """Return panels with their titles, legends and notes."""
    inside = "".join(_figure(panel, marks) for panel in panels)
    return f'<div class="panels">\n{inside}</div>\n' if panels else ""


def table(one: TableOf) -> str:
    """Return a table in a box of its own, which scrolls where it is too wide."""
    rows = [[cell.strip() for cell in row] for row in one.rows]
    styles = [_style([row[k] for row in rows]) for k in range(len(one.columns))]
    head = "".join(
        f'<th scope="col"{style}>{escape(name)}</th>'
        for name, style in zip(one.columns, styles, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            f"<td{style}>{escape(cell) or '–'}</td>"
            for cell, style in zip(row, styles, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f"<h3>{escape(one.title)}</h3>\n"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(one.title)}">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n"
        + paragraphs(one.note, "soft small")
    )


def versus(comparisons: Sequence[Comparison], name: str, place: str) -> str:
    """Return published numbers beside ours; on a narrow screen a block each, not a row.

    Parameters
    ----------
    comparisons : sequence of Comparison
    name : str
        Of the table, for those who hear the page.
    place : str
        What the ids of its notes begin with.
    """
    times = Counter(one.note for one in comparisons if one.note)
    often = [note for note, count in times.items() if count >= _OFTEN]
    rows = "\n".join(_versus_row(one, often, place) for one in comparisons)
    heads = ("published number", "theirs", "ours", "ours ÷ theirs", "verdict", "note")
    styles = ("", "n", "n", "n", "", "")
    head = "".join(
        f'<th scope="col" class="{style}">{text}</th>'
        for text, style in zip(heads, styles, strict=True)
    )
    notes = "".join(
        f'<p class="soft small" id="{escape(place)}-note-{k}">Note {k}: {escape(note)}</p>\n'
        for k, note in enumerate(often, 1)
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f'<table class="versus"><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>'
        f"</div>\n{notes}"
    )


def _versus_row(one: Comparison, often: Sequence[str], place: str) -> str:
    note = escape(one.note)
    if one.note in often:
        k = often.index(one.note) + 1
        note = f'<a href="#{escape(place)}-note-{k}">Note {k}</a>'
    larger = "" if one.smaller_is_better else '<br /><span class="give">larger is better</span>'
    give = f' <span class="give">±\u00a0{printed(one.tolerance, 3)}</span>' if one.tolerance else ""
    unit = f'\u00a0<span class="unit">{escape(one.unit)}</span>' if one.unit else ""
    if one.ours is None:
        ours, times = "–", "–"
    else:
        ours, times = f"{measured(one.ours, one.theirs)}{unit}", ratio(one.ours, one.theirs)
    style = _CLASSES.get(one.verdict, _OTHER)
    return (
        f'<tr class="{style}"><td class="what">{escape(one.what)}{larger}</td>'
        f'<td class="n"><span class="label">theirs</span>{printed(one.theirs)}{give}{unit}</td>'
        f'<td class="n ours"><span class="label">ours</span>{ours}</td>'
        f'<td class="n"><span class="label">ours ÷ theirs</span>{times}</td>'
        f'<td class="says"><span class="verdict {style}">{one.verdict}</span></td>'
        f'<td class="told">{note}</td></tr>'
    )


def _link(file: str, name: str, here: str) -> str:
    current = ' aria-current="page"' if file == here else ""
    return f'<a href="{file}"{current}>{escape(name)}</a>'


def _figure(panel: Panel, marks: Mapping[str, Mark]) -> str:
    legend = "".join(
        f"<li>{key(line, marks[line.label], panel.dots)}<span>{escape(named(line))}</span></li>"
        for line in entries(panel.lines)
        if line.label
    )
    away = left_out(panel)
    notes = [panel.note, *(f"{named(line)}: {line.note}" for line in panel.lines if line.note)]
    if away:
        verb = "has" if away == 1 else "have"
        notes.append(f"{plural(away, 'point')} at or below zero {verb} no place on these axes.")
    return (
        f"<figure><figcaption>{escape(panel.title)}</figcaption>\n{drawing(panel, marks)}"
        f'<ul class="legend">{legend}</ul>\n'
        + "".join(paragraphs(note, "small") for note in dict.fromkeys(notes))
        + "</figure>\n"
    )


def _style(cells: Sequence[str]) -> str:
    """Return the class of a column of numbers; no class for words."""
    there = [cell for cell in cells if cell not in _MISSING]
    return ' class="n"' if there and all(map(_NUMBER.fullmatch, there)) else ""
