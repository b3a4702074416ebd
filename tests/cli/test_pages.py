"""Pages: bars and maps as long and as dark as their values, text as it is, the same every time."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import matplotlib
import numpy as np
import pytest

from gramless.cli.pages import (
    Card,
    Cell,
    Chart,
    Grid,
    Heading,
    Note,
    Section,
    ShadedTable,
    align_numbers,
    bar_cells,
    chart_style,
    heat_map,
    render_page,
)

SVG = "{http://www.w3.org/2000/svg}"
ODD = "a\x00<b>\x1f\ud800 & $x_1$ \U0001f600 _"
SHOWN = "a\ufffd<b>\ufffd\ufffd & $x_1$ \U0001f600 _"


@chart_style
def drawn(*labels: str) -> Chart:
    chart = Chart(*labels)
    chart.axes.plot([1, 2, 3], [3.0, 1.0, 2.0], "o-", label="odd")
    chart.axes.legend()
    assert chart.svg
    return chart


def test_bar_lengths_are_proportional_to_values():
    cells = bar_cells([4.0, -2.0, 0.0, math.nan], ["a", "b", "c", "d"])
    lengths = [cell.end - cell.start for cell in cells]
    assert lengths == pytest.approx([2 / 3, 1 / 3, 0.0, 0.0])
    assert cells[0].start == cells[1].end == pytest.approx(1 / 3)
    assert [cell.css == "" for cell in cells] == [False, False, True, True]
    assert "--from: 33.3%; --to: 100.0%" in cells[0].css
    assert [cell.text for cell in cells] == ["a", "b", "c", "d"]
    assert Cell("").css == bar_cells([0.0])[0].css == ""


def test_heat_maps_are_darker_for_larger_numbers():
    result = heat_map("", ["a", "b"], ["c", "d"], np.array([[0.0, 5.0], [10.0, 2.5]]))
    assert [[cell.strength for cell in cells] for _, cells in result.rows] == [[0, 0.5], [1, 0.25]]
    assert [[cell.text for cell in cells] for _, cells in result.rows] == [
        ["0.0", "5.0"],
        ["10.0", "2.5"],
    ]
    assert align_numbers(np.zeros(2)) == ["0", "0"]
    same = heat_map("", ["a"], ["c"], np.ones((1, 1)))
    assert same.rows[0][1][0].strength == 0.0


def test_charts_do_not_depend_on_matplotlib_settings():
    first = drawn("letter", "grids", "error, %").svg
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "svg.fonttype": "path"}):
        assert drawn("letter", "grids", "error, %").svg == first


def test_text_is_escaped_in_every_part():
    table = ShadedTable.of({ODD: [ODD], "b": [ODD]}, ODD)
    grid = Grid([drawn(ODD, ODD, ODD), table, Card(ODD, ODD, table)])
    section = Section("one", ODD, [ODD, "", Note(ODD), Heading(ODD), table, grid])
    folded = Section("two", ODD, [ODD], is_folded=True)
    root = ET.fromstring(render_page(ODD, ODD, ODD, [section, folded]).encode())
    texts = [one.text for one in root.iter() if one.tag not in ("style", f"{SVG}style")]
    assert texts.count(SHOWN) == 25
    assert root.find(f".//{SVG}svg").get("aria-label").startswith(SHOWN)
    assert [one.text for one in root.iter("h2")] == [SHOWN, SHOWN]
    assert root.find("body/nav") is None


def test_long_names_are_truncated():
    chart = drawn("", "x" * 200, "y" * 200)
    assert chart.axes.get_xlabel().endswith("…")
    assert chart.axes.get_title("left").endswith("…")
    root = ET.fromstring(render_page("", "h" * 500, "", []))
    assert root.find(".//h1").text.endswith("h…")
