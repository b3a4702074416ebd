"""Charts of studies: points and ticks, and what is drawn where a number is missing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from gramless.cli.pages import COLOURS
from studies.charts import Chart, Series, draw

MARKED = {"marker": "o", "color": COLOURS[0]}


def drawn(x, y, look=MARKED, is_dots=False, **options):
    """Return the axes of a chart of one series."""
    series = [Series(x, y, look, "binning", is_dots)]
    axes = Figure().subplots()
    draw(axes, Chart("letter", "grids", "error, %", series, **options))
    return axes


def ticks(axis) -> list[str]:
    return axis.get_major_formatter().format_ticks(axis.get_majorticklocs())


@pytest.mark.parametrize("is_log", [False, True])
def test_axes_have_labels_and_round_ticks(is_log):
    axes = drawn([1.0, 10.0, 100.0], [1.0, 10.0, 100.0], x_log=is_log, y_log=is_log)
    assert (axes.get_xlabel(), axes.get_title()) == ("grids", "error, %")
    assert axes.get_xscale() == axes.get_yscale() == ("log" if is_log else "linear")
    assert {"100", "10" if is_log else "20"} <= set(ticks(axes.xaxis))


def test_ticks_have_names_that_tell_them_apart():
    axes = drawn([1e6, 1e6 + 3], [0.3, 0.31], y_log=True)
    assert {"1000001", "1000002"} <= set(ticks(axes.xaxis))
    assert len([name for name in ticks(axes.yaxis) if name.startswith("0.3")]) >= 2


def test_lines_break_where_a_number_is_missing():
    (line,) = drawn([1, 2, 3, 4, 5], [5.0, 4.0, math.nan, 3.0, 2.0]).get_lines()
    assert np.isnan(line.get_xdata()).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("y_down", [False, True])
def test_dots_are_one_line(y_down):
    axes = drawn([0, 1, 2], [0, 1, 9], {"linewidth": 4.0}, is_dots=True, y_down=y_down)
    (line,) = axes.get_lines()
    points = line.get_xydata()
    np.testing.assert_array_equal(points[~np.isnan(points[:, 0])][::2], [[0, 0], [1, 1], [2, 9]])
    assert bool(axes.yaxis_inverted()) is y_down


def test_axes_hold_what_they_must():
    assert drawn([1, 2], [95.0, 96.0]).get_ylim()[0] > 90.0
    assert drawn([1, 2], [95.0, 96.0], y_held=(0.0,)).get_ylim()[0] <= 0.0


def test_nothing_to_draw():
    for y in ([], [math.inf]):
        axes = drawn(range(len(y)), y)
        assert [text.get_text() for text in axes.texts] == ["Nothing measured yet"]


def test_long_labels_are_cut():
    axes = Figure().subplots()
    draw(axes, Chart("", "x" * 200, "y" * 200, []))
    assert axes.get_xlabel().endswith("…")
    assert axes.get_title().endswith("…")


def test_a_legend_has_each_name_once():
    few, many = Series([1], [1], MARKED, "a"), Series([1, 2], [1, 2], MARKED, "a")
    nameless, empty = Series([1], [1], MARKED), Series([], [], MARKED, "b")
    assert Chart("", "", "", [few, nameless, many, empty]).legend == [many]
