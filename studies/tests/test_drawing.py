"""Pictures of panels: points where their axes say, marks that tell lines apart."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.drawing import HEIGHT, WIDTH, drawing, left_out, sheet
from studies.marks import N_COLOURS, SHAPES, Mark, marks_of
from studies.study import Line, Panel

SVG = "{http://www.w3.org/2000/svg}"
RADIUS = 3.6


def panel(*lines: Line, **options) -> Panel:
    return Panel("letter", "grids", "error, %", lines, **options)


def drawn(one: Panel) -> ET.Element:
    return ET.fromstring(drawing(one, marks_of([one])))


def paths(picture, style) -> list[str]:
    return [path.get("d") for path in picture.iter(f"{SVG}path") if path.get("class") == style]


def middles(picture) -> list[tuple[float, float]]:
    """Return the middles of marks that are circles."""
    starts = [re.match(r"M([-\d.]+),([-\d.]+)a", path).groups() for path in paths(picture, "mark")]
    return [(float(x) + RADIUS, float(y)) for x, y in starts]


def heights_of_rules(picture) -> dict[str, float]:
    """Return where the rules are, by the names that stand beside them."""
    rules = [float(re.search(r",([\d.]+)H", path).group(1)) for path in paths(picture, "rule")]
    found = {}
    for text in picture.iter(f"{SVG}text"):
        near = [down for down in rules if abs(down + 4 - float(text.get("y"))) < 0.01]
        if text.get("text-anchor") == "end" and near:
            found[text.text] = near[0]
    return found


@pytest.mark.parametrize("is_log", [False, True])
def test_points_stand_at_their_ticks(is_log):
    values = [1.0, 10.0, 100.0] if is_log else [0.0, 50.0, 100.0]
    picture = drawn(panel(Line("binning", values, values), x_log=is_log, y_log=is_log))
    rules = heights_of_rules(picture)
    for value, (_, down) in zip(values, middles(picture), strict=True):
        if f"{value:g}" in rules:
            assert down == pytest.approx(rules[f"{value:g}"], abs=0.11)
    assert {"1", "100"} <= set(rules) if is_log else {"0", "100"} <= set(rules)
    across = [x for x, _ in middles(picture)]
    assert across[1] == pytest.approx((across[0] + across[2]) / 2, abs=0.11)
    assert across == sorted(across)


def test_lines_break_where_a_number_is_missing():
    picture = drawn(panel(Line("binning", [1, 2, 3, 4, 5], [5.0, 4.0, math.nan, 3.0, 2.0])))
    (path,) = paths(picture, "line")
    assert path.count("M") == 2
    assert len(middles(picture)) == 4


def test_logarithmic_axes_have_no_zero():
    one = panel(Line("binning", [0.0, 1.0, 2.0], [3.0, -1.0, 2.0]), x_log=True, y_log=True)
    assert left_out(one) == 2
    assert len(middles(drawn(one))) == 1
    assert left_out(panel(Line("binning", [0.0], [math.nan]), y_log=True)) == 0


def test_dots_run_downwards():
    picture = drawn(panel(Line("rows", [0, 1, 1], [0, 9, 9]), dots=True))
    (path,) = paths(picture, "dots")
    places = re.findall(r"M([\d.]+),([\d.]+)h0", path)
    assert len(places) == 2, "the same place twice"
    assert float(places[1][1]) > float(places[0][1])


def test_nothing_to_draw():
    assert "Nothing measured yet" in "".join(drawn(panel()).itertext())
    assert "Nothing measured yet" in "".join(drawn(panel(Line("a", [1], [math.inf]))).itertext())


def test_numbers_far_from_zero_do_not_start_there():
    far = heights_of_rules(drawn(panel(Line("a", [1, 2], [95.0, 96.0]))))
    near = heights_of_rules(drawn(panel(Line("a", [1, 2], [5.0, 96.0]))))
    assert "0" not in far
    assert "0" in near


def test_labels_that_meet_differ():
    labels = [f"method {k}" for k in range(N_COLOURS)]
    first = panel(*(Line(label, [1], [1]) for label in labels[:5]))
    second = panel(*(Line(label, [1], [1]) for label in labels[3:]))
    marks = marks_of([first, second])
    for one in (first, second):
        own = [marks[line.label] for line in one.lines]
        assert len({mark.colour for mark in own}) == len(own)
        assert len({mark.shape for mark in own}) == len(own)
    many = marks_of([panel(*(Line(f"method {k}", [1], [1]) for k in range(20)))])
    assert len(set(many.values())) == 20
    assert {mark.shape for mark in many.values()} == set(SHAPES)


def test_kinds_of_lines():
    both = [Line("binning", [1, 2], [1, 2], kind) for kind in ("measured", "published", "law")]
    groups = [group.get("class") for group in drawn(panel(*both)).iter(f"{SVG}g")]
    assert groups == ["published c0", "law c0", "measured c0"]
    law = drawn(panel(both[2]))
    assert not paths(law, "mark")


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_are_around_their_point(shape):
    path = Mark(0, shape).outline(50.0, 60.0, 4.0)
    assert path.startswith("M")
    assert path.endswith("z")
    if shape != "circle":
        corners = [
            tuple(map(float, pair.split(","))) for pair in re.findall(r"[\d.]+,[\d.]+", path)
        ]
        assert sum(x for x, _ in corners) / len(corners) == pytest.approx(50.0, abs=0.2)
        assert sum(y for _, y in corners) / len(corners) == pytest.approx(60.0, abs=0.2)


def test_a_sheet_holds_all_panels_and_one_legend():
    odd = 'a <b> & "c"\x00'
    panels = [panel(Line(odd, [1, 2], [1, 2]), Line("b", [1], [2])) for _ in range(3)]
    picture = ET.fromstring(sheet(panels, marks_of(panels), odd).encode())
    words = [text.text for text in picture.iter(f"{SVG}text")]
    assert words.count("letter") == 3
    assert sum('a <b> & "c"' in word for word in words) == 1
    _, _, width, height = map(float, picture.get("viewBox").split())
    assert width > 2 * WIDTH
    assert height > 2 * HEIGHT


def test_long_names_are_cut():
    picture = drawn(Panel("", "x" * 200, "y" * 200, (Line("a", [1], [1]),)))
    hints = [text[0].text for text in picture.iter(f"{SVG}text") if len(text)]
    assert hints == ["x" * 200, "y" * 200]


NUMBERS = st.floats(-1e12, 1e12, allow_subnormal=False) | st.sampled_from([math.nan, math.inf])
POINTS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30)


@settings(max_examples=60, deadline=None)
@given(POINTS, POINTS, st.booleans(), st.booleans(), st.booleans())
def test_everything_is_inside(first, second, x_log, y_log, dots):
    lines = [
        Line(name, [x for x, _ in points], [y for _, y in points])
        for name, points in (("one", first), ("two", second))
    ]
    picture = drawn(panel(*lines, x_log=x_log, y_log=y_log, dots=dots))
    for element in picture.iter():
        for x, y in re.findall(r"[ML](-?[\d.]+|nan|inf),(-?[\d.]+|nan|inf)", element.get("d", "")):
            assert -6.0 <= float(x) <= WIDTH + 6.0
            assert -6.0 <= float(y) <= HEIGHT + 6.0
        if element.tag == f"{SVG}text":
            assert 0.0 <= float(element.get("x")) <= WIDTH
