"""Charts as SVG: points where their axes say, text as it is, the same text every time."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramless.cli.charts import (
    HEIGHT,
    WIDTH,
    Cell,
    Chart,
    Series,
    aligned,
    bar_cells,
    heat_map,
    key,
    line_chart,
)
from gramless.cli.svg import COLOURS, DARK, LIGHT, variables

SVG = "{http://www.w3.org/2000/svg}"
MARKED = {"marker": "o", "color": COLOURS[0]}
ODD = "a\x00<b>\x1f\ud800 & $x_1$ \U0001f600 _"
SHOWN = "a\ufffd<b>\ufffd\ufffd & $x_1$ \U0001f600 _"


def chart(x, y, look=MARKED, **options) -> Chart:
    return Chart("letter", "grids", "error, %", [Series(x, y, look, "binning")], **options)


def texts(picture) -> dict[str, ET.Element]:
    return {text.text: text for text in picture.iter(f"{SVG}text")}


def marks(picture) -> list[tuple[float, float]]:
    """Return where the marks are that have a hint."""
    found = [mark for mark in picture.iter(f"{SVG}use") if len(mark)]
    return [(float(mark.get("x")), float(mark.get("y"))) for mark in found]


@pytest.mark.parametrize("is_log", [False, True])
def test_points_stand_at_their_ticks(is_log):
    values = [1.0, 10.0, 100.0] if is_log else [0.0, 50.0, 100.0]
    picture = ET.fromstring(line_chart(chart(values, values, x_log=is_log, y_log=is_log)))
    places, names = marks(picture), texts(picture)
    assert len(places) == 3
    across = [x for x, _ in places]
    assert across[1] == pytest.approx((across[0] + across[2]) / 2, abs=0.01)
    ends = [text for text in picture.iter(f"{SVG}text") if text.text == "100"]
    assert float(ends[0].get("x")) == pytest.approx(across[2], abs=0.01)
    # The name's middle is beside its point.
    assert float(ends[1].get("y")) == pytest.approx(places[2][1] + 4.5, abs=1.0)
    assert {"grids", "error, %"} <= set(names)


def test_lines_break_where_a_number_is_missing():
    text = line_chart(chart([1, 2, 3, 4, 5], [5.0, 4.0, math.nan, 3.0, 2.0]))
    line = next(path for path in re.findall(r' d="([^"]+)"', text) if path.count("M") == 2)
    assert line.count("L") == 2
    assert text.count("<title>binning: ") == 4


def test_dots_are_one_path():
    dots = Series([0, 1, 2], [0, 1, 9], {"linewidth": 4.0, "solid_capstyle": "round"}, is_dots=True)
    for y_down in (False, True):
        picture = line_chart(Chart("", "", "", [dots], y_down=y_down))
        (path,) = (one for one in re.findall(r' d="([^"]+)"', picture) if one.count("M") == 3)
        heights = [float(y) for y in re.findall(r"M [\d.]+ ([\d.]+)", path)]
        assert heights == sorted(heights, reverse=not y_down)


def test_ticks_have_names_that_tell_them_apart():
    names = texts(ET.fromstring(line_chart(chart([1e6, 1e6 + 3], [0.3, 0.31], y_log=True))))
    assert {"1000001", "1000002"} <= set(names)
    assert len([name for name in names if name.startswith("0.3")]) >= 2
    named = chart([0.0, 1.0], [0.0, 1.0], x_ticks={0.0: "least", 1.0: "largest"})
    assert {"least", "largest"} <= set(texts(ET.fromstring(line_chart(named))))


def test_axes_hold_what_they_must():
    far = texts(ET.fromstring(line_chart(chart([1, 2], [95.0, 96.0]))))
    held = texts(ET.fromstring(line_chart(chart([1, 2], [95.0, 96.0], y_held=(0.0,)))))
    assert "0" not in far
    assert "0" in held


def test_nothing_to_draw():
    for y in ([], [math.inf]):
        assert "Nothing measured yet" in line_chart(chart(range(len(y)), y))


def test_text_stays_text():
    odd = Chart(ODD, ODD, ODD, [Series([1, 2], [1, 2], MARKED, ODD)])
    picture = ET.fromstring(line_chart(odd).encode())
    assert SHOWN in texts(picture)
    assert picture.find(f"{SVG}title").text.startswith(SHOWN)


def test_long_names_are_cut():
    long = ET.fromstring(line_chart(Chart("", "x" * 200, "y" * 200, [])))
    assert sum(name.endswith("…") for name in texts(long)) == 2
    assert "x" * 200 in long.find(f"{SVG}title").text


def test_bars_have_the_lengths_of_their_values():
    cells = bar_cells([4.0, -2.0, 0.0, math.nan], ["a", "b", "c", "d"])
    lengths = [cell.end - cell.start for cell in cells]
    assert lengths == pytest.approx([2 / 3, 1 / 3, 0.0, 0.0])
    assert cells[0].start == cells[1].end == pytest.approx(1 / 3)
    assert [cell.css == "" for cell in cells] == [False, False, True, True]
    assert "--from: 33.3%; --to: 100.0%" in cells[0].css
    assert [cell.text for cell in cells] == ["a", "b", "c", "d"]
    assert Cell("").css == bar_cells([0.0])[0].css == ""


def test_maps_are_darker_where_numbers_are_larger():
    found = heat_map("", ["a", "b"], ["c", "d"], np.array([[0.0, 5.0], [10.0, 2.5]]))
    assert [[cell.strength for cell in cells] for _, cells in found.rows] == [[0, 0.5], [1, 0.25]]
    assert [[cell.text for cell in cells] for _, cells in found.rows] == [
        ["0.0", "5.0"],
        ["10.0", "2.5"],
    ]
    assert aligned(np.zeros(2)) == ["0", "0"]
    same = heat_map("", ["a"], ["c"], np.ones((1, 1)))
    assert same.rows[0][1][0].strength == 0.0


@pytest.mark.parametrize(("x", "has"), [([1, 1, 1], False), ([1, 2, 1], False), ([1, 2, 3], True)])
def test_a_course_has_several_places(x, has):
    assert chart(x, [1.0, 2.0, 3.0]).has_course is has


def test_colours_follow_the_page():
    text = line_chart(chart([1, 2], [1, 2], {**MARKED, "markeredgecolor": LIGHT["page"]}))
    assert "stroke: var(--c0)" in text
    assert "stroke: var(--page)" in text
    assert not re.findall("#[0-9a-f]{6}", text)
    assert set(LIGHT) == set(DARK)
    assert f"--c0: {LIGHT['c0']};" in variables().partition("dark")[0]
    assert f"--c0: {DARK['c0']};" in variables().partition("dark")[2]


def test_the_same_chart_is_the_same_text_whatever_the_settings():
    one = chart([1, 2, 3], [3.0, 1.0, 2.0])
    first = line_chart(one), key(one.series[0])
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "svg.fonttype": "path"}):
        assert (line_chart(one), key(one.series[0])) == first


def test_a_legend_has_each_name_once():
    few, many = Series([1], [1], MARKED, "a"), Series([1, 2], [1, 2], MARKED, "a")
    nameless, empty = Series([1], [1], MARKED), Series([], [], MARKED, "b")
    assert Chart("", "", "", [few, nameless, many, empty]).legend == [many]


NUMBERS = st.floats(-1e12, 1e12, allow_subnormal=False) | st.sampled_from([math.nan, math.inf])
POINTS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=20)


@settings(max_examples=15, deadline=None)
@given(POINTS, st.booleans(), st.booleans(), st.booleans())
def test_everything_is_inside(points, x_log, y_log, is_dots):
    series = Series([x for x, _ in points], [y for _, y in points], MARKED, "one", is_dots)
    options = {"x_log": x_log, "y_log": y_log}
    picture = ET.fromstring(line_chart(Chart("", "x", "y", [series], **options)))
    for element in picture.iter():
        for x, y in re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", element.get("d", "")):
            assert -10.0 <= float(x) <= WIDTH + 10.0
            assert -10.0 <= float(y) <= HEIGHT + 10.0
        if element.tag == f"{SVG}text":
            assert 0.0 <= float(element.get("x")) <= WIDTH
