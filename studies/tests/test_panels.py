"""Panels as charts: colours and markers that tell lines apart, and what is left out."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

from gramless.cli.pages import COLOURS
from studies.charts import HEIGHT, WIDTH
from studies.panels import MARKERS, chart_of, marks_of, notes_of
from studies.sheet import sheet
from studies.study import Line, Panel


def panel(*lines: Line, **options) -> Panel:
    return Panel("letter", "grids", "error, %", lines, **options)


def chart(one: Panel):
    return chart_of(one, marks_of([one]))


def test_labels_that_meet_differ():
    labels = [f"method {k}" for k in range(len(COLOURS))]
    first = panel(*(Line(label, [1], [1]) for label in labels[:5]))
    second = panel(*(Line(label, [1], [1]) for label in labels[3:]))
    marks = marks_of([first, second])
    for one in (first, second):
        own = [marks[line.label] for line in one.lines]
        assert len({mark.colour for mark in own}) == len(own)
        assert len({mark.marker for mark in own}) == len(own)
    many = marks_of([panel(*(Line(f"method {k}", [1], [1]) for k in range(20)))])
    assert len(set(many.values())) == 20
    assert {mark.marker for mark in many.values()} == set(MARKERS)


def test_kinds_of_lines():
    kinds = ("measured", "published", "law")
    series = chart(panel(*(Line("binning", [1, 2], [1, 2], kind) for kind in kinds))).series
    assert [one.name for one in series] == ["binning", "binning (paper)", "binning (formula)"]
    assert len({one.look["color"] for one in series}) == 1
    assert "dashes" in series[1].look
    assert "marker" not in series[2].look
    assert series[0].look["zorder"] > 2, "over the rest"


def test_some_points_are_marked_the_last_always():
    y = [*range(1, 98), math.nan, 99, math.inf]
    (series,) = chart(panel(Line("binning", range(100), y))).series
    marked = series.look["markevery"]
    assert len(marked) <= 24
    assert marked[-1] == 98
    assert 97 not in marked


def test_points_without_a_place_are_counted():
    one = panel(Line("binning", [0.0, 1.0, 2.0], [3.0, -1.0, 2.0]), x_log=True, y_log=True)
    assert notes_of(one) == ["2 points at or below zero have no place on these axes."]
    assert not notes_of(panel(Line("binning", [0.0], [math.nan]), y_log=True))


def test_numbers_far_from_zero_do_not_start_there():
    assert chart(panel(Line("a", [1, 2], [95.0, 96.0]))).y_held == ()
    assert chart(panel(Line("a", [1, 2], [5.0, 96.0]))).y_held == (0.0,)
    assert chart(panel(Line("a", [1, 2], [5.0, 96.0]), y_log=True)).y_held == ()


def test_dots_on_one_place_are_drawn_once():
    one = chart(panel(Line("rows", [0, 1, 1, math.nan], [0, 9, 9, 1]), dots=True))
    assert (one.series[0].x, one.series[0].y) == ([0, 1], [0, 9])
    assert one.y_down
    empty = chart(panel(Line("rows", [], []), dots=True))
    assert "Nothing measured yet" in sheet("", [empty])


def test_a_sheet_holds_all_charts_and_one_legend():
    one = chart(panel(Line("a & <b>", [1, 2], [1, 2])))
    text = sheet("All", [one] * 3)
    assert text == sheet("All", [one] * 3)
    picture, svg = ET.fromstring(text.encode()), "{http://www.w3.org/2000/svg}"
    names = [name.text for name in picture.iter(f"{svg}text")]
    assert (names.count("letter"), names.count("a & <b>")) == (3, 1)
    width, height = (float(picture.get(side).removesuffix("pt")) for side in ("width", "height"))
    assert width > 2 * WIDTH
    assert height > 2 * HEIGHT
