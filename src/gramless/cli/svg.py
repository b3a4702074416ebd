"""matplotlib figures as SVG text, in the light or dark colours of the page that they stand in."""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from markupsafe import Markup
from matplotlib import style
from matplotlib.figure import Figure

_PALETTE = {
    "page": ("#ffffff", "#14171b"),
    "ink": ("#1d2126", "#e6e9ed"),
    "soft": ("#5a6069", "#a3abb5"),
    "rule": ("#e6e8eb", "#2a2f36"),
    "base": ("#9aa1aa", "#69717c"),
    "c0": ("#0b66ab", "#62b0f0"),
    "c1": ("#c9500c", "#ff9355"),
    "c2": ("#0a8464", "#43cda3"),
    "c3": ("#a8417f", "#ee8fc4"),
    "c4": ("#a67200", "#e5b745"),
    "c5": ("#2f94c4", "#9cdcf8"),
    "c6": ("#3f444c", "#c3cad3"),
    "c7": ("#77731f", "#c9c565"),
}
"""Colours by name, on light and on dark pages."""
LIGHT = {name: light for name, (light, _) in _PALETTE.items()}
"""Colours to draw with; pages have CSS variables of these names."""
DARK = {name: dark for name, (_, dark) in _PALETTE.items()}
COLOURS = tuple(LIGHT[f"c{k}"] for k in range(8))

_STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "path.simplify": False,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "font.size": 12.0,
    "text.color": LIGHT["ink"],
    "axes.labelcolor": LIGHT["ink"],
    "axes.titlesize": 12.0,
    "axes.titlelocation": "left",
    "axes.facecolor": "none",
    "axes.edgecolor": LIGHT["base"],
    "axes.spines.top": False,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.xmargin": 0.03,
    "axes.ymargin": 0.03,
    "grid.color": LIGHT["rule"],
    "grid.linewidth": 1.0,
    "legend.frameon": False,
    "xtick.color": LIGHT["base"],
    "xtick.labelcolor": LIGHT["soft"],
    "ytick.labelcolor": LIGHT["soft"],
    "ytick.major.size": 0.0,
}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_SVG, _HREF = "http://www.w3.org/2000/svg", "{http://www.w3.org/1999/xlink}href"
_FONT_FAMILY = re.compile(r"(?<=px) '[^;]+|font-family: [^;]+;? ?")
_NAMES = {colour: f"var(--{name})" for name, colour in LIGHT.items()}
_COLOUR = re.compile("|".join(_NAMES))

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

ET.register_namespace("", _SVG)


@contextmanager
def drawing(width: float, height: float) -> Iterator[Figure]:
    """Give a figure of a size in pixels, unaffected by the user's matplotlib settings."""
    with style.context(["default", _STYLE]), warnings.catch_warnings():
        # The browser draws the text, and has fonts for all of it.
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from font")
        # At 72 dots an inch, matplotlib's points are the page's pixels.
        yield Figure(figsize=(width / 72.0, height / 72.0), dpi=72)


def printable(text: object) -> str:
    """Return text in which a mark replaces each character that XML forbids."""
    return _FORBIDDEN.sub("\ufffd", str(text))


def cut(text: str, most: int) -> str:
    """Return text in at most so many characters, all of which XML allows."""
    line = printable(text)
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def svg_text(
    figure: Figure, title: str, hints: Mapping[str, Sequence[str]] | None = None, css: str = ""
) -> Markup:
    """Return a figure in the colours of ``LIGHT`` as an ``svg`` element, inside :func:`drawing`.

    ``title`` describes the picture to those who cannot see it. ``hints`` are shown where the
    pointer rests on the marks of a line, by its gid. ``css`` is for pictures outside of pages.

    Examples
    --------
    >>> with drawing(20.0, 10.0) as figure:
    ...     "<title>a &lt; b</title>" in svg_text(figure, "a < b")
    True
    """
    title, file = printable(title), io.BytesIO()
    with style.context({"svg.hashsalt": title}):
        figure.savefig(file, format="svg", facecolor="auto", metadata=_NO_METADATA)
    root = ET.fromstring(re.sub(rb">\s+<", b"><", file.getvalue()))
    _name(root, title, css)
    for element in list(root.iter()):
        marks = element.iter(f"{{{_SVG}}}use")
        for mark, hint in zip(marks, (hints or {}).get(element.get("id", ""), ()), strict=False):
            ET.SubElement(mark, f"{{{_SVG}}}title").text = printable(hint)
        _clean(element)
    return Markup(ET.tostring(root, encoding="unicode"))


def variables() -> str:
    """Return the CSS that defines the colours by name, for light and dark pages."""
    light, dark = (
        " ".join(f"--{name}: {colour};" for name, colour in colours.items())
        for colours in (LIGHT, DARK)
    )
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def _name(root: ET.Element, title: str, css: str) -> None:
    """Insert title and style in place of matplotlib's style, which would apply to a whole page."""
    width, height = root.attrib["viewBox"].split()[2:]
    root.attrib.update(width=width, height=height)
    root.attrib.update({"role": "img"} if title else {"aria-hidden": "true"})
    root.attrib["class"] = "plot"
    root.attrib["style"] = "stroke-linejoin: round"
    root.remove(root[0])
    for place, (tag, text) in enumerate((("title", title), ("style", css))):
        if text:
            element = ET.Element(f"{{{_SVG}}}{tag}")
            element.text = text
            root.insert(place, element)


def _clean(element: ET.Element) -> None:
    """Leave fonts and colours to the page; drop clips, and ids that other pictures share."""
    element.attrib.pop("clip-path", None)
    for child in element.findall(f"{{{_SVG}}}defs"):
        if child.find(f"{{{_SVG}}}clipPath") is not None:
            element.remove(child)
    if element.tag == f"{{{_SVG}}}g":
        element.attrib.pop("id", None)
    if _HREF in element.attrib:
        element.set("href", element.attrib.pop(_HREF))
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    if "d" in element.attrib:
        element.set("d", " ".join(element.attrib["d"].split()))
    if "style" in element.attrib:
        own = _FONT_FAMILY.sub("", element.attrib["style"])
        element.set("style", _COLOUR.sub(lambda found: _NAMES[found[0]], own))
