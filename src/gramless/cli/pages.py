"""Self-contained HTML pages made of sections with text, tables and charts."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self, TypeAlias

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import style
from matplotlib.figure import Figure

import gramless
from gramless.base.formatting import format_scientific
from gramless.base.types import FloatArray

COLOURS = (
    *("#0b66ab", "#c9500c", "#0a8464", "#a8417f", "#a67200", "#2f94c4", "#3f444c", "#77731f"),
)
GREY = "#9aa1aa"
MAX_NAME_LENGTH, _MAX_LABEL_LENGTH = 120, 46  # characters; longer names and labels are truncated
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))

# Decorator of functions that draw charts for pages. It makes their result independent of the
# matplotlib settings of the user.
chart_style = style.context(
    [
        "default",
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "gramless",
            "text.parse_math": False,
            "figure.constrained_layout.use": True,
            "figure.facecolor": "none",
            "figure.dpi": 72.0,
            "font.sans-serif": ["DejaVu Sans"],
            "axes.titlesize": 11.0,
            "axes.titlelocation": "left",
            "axes.facecolor": "none",
            "axes.edgecolor": GREY,
            "axes.formatter.useoffset": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
            "axes.grid": True,
            "axes.grid.axis": "y",
            "grid.color": "#e6e8eb",
            "legend.frameon": False,
            "legend.fontsize": 9.0,
        },
    ]
)


class Chart:
    """A matplotlib figure with one pair of axes, and a title for the page."""

    kind: ClassVar[str] = "chart"

    def __init__(self, title: str, x_label: str, y_label: str, height: float = 270.0) -> None:
        self.title, self._description = title, ": ".join(filter(None, (title, y_label)))
        # At 72 dots an inch, matplotlib's points are the page's pixels.
        self._figure = Figure(figsize=(420.0 / 72.0, height / 72.0))
        self.axes = self._figure.subplots()
        self.axes.set_xlabel(truncate(x_label, _MAX_LABEL_LENGTH))
        self.axes.set_title(truncate(y_label, _MAX_LABEL_LENGTH))

    @cached_property
    def svg(self) -> Markup:
        file = io.StringIO()
        self._figure.savefig(file, format="svg", metadata=_NO_METADATA)
        _, _, svg = file.getvalue().partition("<svg")
        label = Markup('<svg role="img" aria-label="{}"').format(printable(self._description))
        return label + Markup(svg)


@dataclass(frozen=True)
class Cell:
    """A cell with text over a bar from ``start`` to ``end``, in fractions of the cell's width.

    ``strength``, at most 1, is the opacity of the bar; the text stays readable at any strength.
    """

    text: str
    start: float = 0.0
    end: float = 0.0
    colour: str = COLOURS[0]
    strength: float = 0.8

    @property
    def css(self) -> str:
        if not self.end > self.start:
            return ""
        tint = f"{self.colour}{round(115 * self.strength):02x}"
        return f"--from: {100 * self.start:.1f}%; --to: {100 * self.end:.1f}%; --tint: {tint}"


# Cells by the heading of their column; the first column has the names of the rows.
Columns: TypeAlias = dict[str, Sequence[str | Cell]]


@dataclass(frozen=True)
class ShadedTable:
    """A table of named rows of cells, also used for bars and heat maps."""

    caption: str
    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    is_map: bool = False
    kind: ClassVar[str] = "table"

    @classmethod
    def of(cls, columns: Columns, caption: str = "") -> Self:
        rows = [
            (str(name), [cell if isinstance(cell, Cell) else Cell(cell) for cell in cells])
            for name, *cells in zip(*columns.values(), strict=True)
        ]
        return cls(caption, list(columns), rows)


@dataclass(frozen=True)
class Note:
    text: str
    kind: ClassVar[str] = "note"


@dataclass(frozen=True)
class Heading:
    text: str
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True)
class Card:
    heading: str
    note: str
    table: ShadedTable
    kind: ClassVar[str] = "card"


@dataclass(frozen=True)
class Grid:
    parts: Sequence[Chart | ShadedTable | Card]
    kind: ClassVar[str] = "grid"


Part: TypeAlias = str | Note | Heading | Grid | ShadedTable  # strings are paragraphs, if not empty


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading; the reader must open a folded section."""

    key: str
    heading: str
    parts: Sequence[Part]
    is_folded: bool = False


def render_page(title: str, heading: str, note: str, sections: Sequence[Section]) -> str:
    """Return a page of HTML that is also well-formed XML, whatever its texts contain."""
    templates = Environment(
        loader=PackageLoader("gramless.cli"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else printable(value),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["brief"] = lambda text: truncate(text, MAX_NAME_LENGTH)
    return templates.get_template("page.html").render(
        title=title,
        heading=heading,
        note=f"{note} gramless {gramless.__version__}.",
        sections=sections,
        version=gramless.__version__,
    )


def printable(text: object) -> str:
    """Return text with U+FFFD in place of each character that XML forbids."""
    return _FORBIDDEN.sub("\ufffd", str(text))


def truncate(text: str, max_length: int) -> str:
    line = printable(text)
    return line if len(line) <= max_length else f"{line[: max_length - 1].rstrip()}…"


def bar_cells(
    values: Sequence[float], texts: Sequence[str] | None = None, colour: str = COLOURS[0]
) -> list[Cell]:
    """Return cells with bars from zero; bars of negative values extend to the left, in orange.

    Values that are not finite have no bar.

    Examples
    --------
    >>> [(cell.start, cell.end) for cell in bar_cells([3.0, -1.0])]
    [(0.25, 1.0), (0.0, 0.25)]
    """
    finite = [value if math.isfinite(value) else 0.0 for value in values]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    width = (high - low) or 1.0
    return [
        Cell(
            text,
            (min(0.0, value) - low) / width,
            (max(0.0, value) - low) / width,
            colour if value > 0.0 else COLOURS[1],
        )
        for value, text in zip(finite, texts or [""] * len(finite), strict=True)
    ]


def heat_map(
    caption: str, labels: Sequence[str], head: Sequence[str], values: FloatArray
) -> ShadedTable:
    """Return a table of numbers (n_labels, n_head), with darker cells for larger numbers."""
    shades = (values - values.min()) / (np.ptp(values) or 1.0)
    texts = np.reshape(align_numbers(values.ravel()), values.shape)
    rows = [
        (label, [Cell(text, 0.0, 1.0, strength=shade) for text, shade in zip(*row, strict=True)])
        for label, *row in zip(labels, texts.tolist(), shades.tolist(), strict=True)
    ]
    return ShadedTable(caption, ["", *head], rows, is_map=True)


def readable(value: float, digits: int = 4) -> str:
    """Return a number as text with this number of significant digits.

    Examples
    --------
    >>> [readable(value) for value in (0.123456, 27312.0, -3e12, 0.0, math.nan)]
    ['0.1235', '27,310', '-3·10¹²', '0', '–']
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else str(value).replace("inf", "∞")
    if value != 0.0 and not 1e-4 <= abs(value) < 1e9:
        return format_scientific(value)
    return f"{float(f'{value:.{digits}g}'):,.10g}"


def align_numbers(values: FloatArray, digits: int = 3) -> list[str]:
    """Return numbers as text with as many decimals as the largest needs for ``digits`` digits.

    If the largest is below 1e-4 or at least 1e9, each is formatted by :func:`readable` instead.

    Examples
    --------
    >>> align_numbers(np.array([0.5, 0.1234])), align_numbers(np.array([1234.5, 2.0]))
    (['0.500', '0.123'], ['1,234', '2'])
    """
    largest = float(np.abs(values).max(initial=0.0))
    if not 1e-4 <= largest < 1e9:
        return [readable(value, digits) for value in values.tolist()]
    decimals = max(0, digits - 1 - math.floor(math.log10(largest)))
    return [f"{value:,.{decimals}f}" for value in values.tolist()]
