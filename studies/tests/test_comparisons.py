"""Verdicts, counts and reasons of published numbers, on made-up measurements."""

from __future__ import annotations

from dataclasses import replace

from studies.comparisons import (
    Comparison,
    compare,
    error_verdicts,
    headline,
    mark_repeated,
    reasons,
)
from studies.published import Published

NUMBER = Published("table-1", "a", "a", 5.0, "%", "Table 1", rows=1000)
FIVE = (4.0, 4.5, 5.0, 5.5, 6.0)


def error(shift: float = 0.0, **changes) -> Comparison:
    measured = tuple(value + shift for value in FIVE)
    return replace(Comparison(NUMBER, measured, rows=1000), **changes)


def other(key: str, value: float = 5.0, **changes) -> Published:
    return replace(NUMBER, key=key, identity=key, value=value, **changes)


def test_agreement_is_the_spread_of_five_repetitions():
    for shift, verdict in [
        (0.0, "agrees"),
        (1.0, "agrees"),
        (1.01, "higher"),
        (-1.0, "agrees"),
        (-1.01, "lower"),
    ]:
        assert error(shift).verdict == verdict


def test_a_rounded_number_agrees_if_what_was_rounded_may_lie_in_the_spread():
    rounded = replace(NUMBER, rounding=0.05)
    assert error(1.04, number=rounded).verdict == "agrees"
    assert error(1.06, number=rounded).verdict == "higher"


def test_fewer_than_five_repetitions_have_no_verdict():
    assert error(measured=FIVE[:4]).verdict == "not measured"
    assert error(measured=FIVE[:4]).reason == "4 of 5 repetitions"
    # LIBSVM on fixed rows gives one number, however often it runs.
    assert error(measured=(5.01,), repetitions=1).verdict == "higher"


def test_other_numbers_of_rows_are_other_data():
    assert error(rows=981).verdict == "agrees"
    assert error(rows=979).verdict == "other data"
    assert error(rows=979).reason == "979 training rows, not 1,000"
    assert error(number=replace(NUMBER, rows=None)).verdict == "agrees"
    stand_in = error(other_data="half of the rows")
    assert (stand_in.verdict, stand_in.reason) == ("other data", "half of the rows")


def test_seconds_and_counts_are_never_lower_or_higher():
    for unit in ["s", "columns"]:
        for shift in (-3.0, 0.0, 3.0):
            assert error(shift, number=replace(NUMBER, unit=unit)).verdict == "no verdict"
        assert error(number=replace(NUMBER, unit=unit), rows=10).verdict == "other data"


def test_a_number_in_several_figures_counts_once():
    again = replace(NUMBER, study="figure-4", key="b")
    marked = mark_repeated([error(), error(number=again)])
    assert [one.same_as for one in marked] == ["", "a"]
    assert error_verdicts(marked) == {"agrees": 1}


def test_of_repeated_numbers_one_that_was_measured_counts():
    again = replace(NUMBER, study="figure-4", key="b")
    marked = mark_repeated([error(measured=(), missing="too long"), error(number=again)])
    assert [one.same_as for one in marked] == ["b", ""]
    assert error_verdicts(marked) == {"agrees": 1}


def test_the_headline_counts_errors_alone():
    comparisons = [
        error(),
        error(2.0, number=other("b")),
        error(3.0, number=other("c")),
        error(-2.0, number=other("d")),
        error(number=other("e"), other_data="a part"),
        error(number=other("f"), measured=(), missing="no data"),
        error(number=other("g"), measured=(), missing="no data"),
        error(number=other("h", unit="s")),
        error(number=other("i", unit="columns")),
    ]
    assert headline(comparisons) == (
        "Of 4 published errors that we measured on the same data and the same number of rows, 1 of "
        "ours is lower, 1 agrees and 2 are higher; 1 is on other data, 2 were not measured."
    )
    assert reasons(comparisons) == [("not measured", "no data", 2), ("other data", "a part", 1)]


def test_records_become_repetitions():
    records = [
        {"rows": [1000, 9], "error": 4.0, "when": "2026-11-27T10:00:00", "commit": "aa"},
        {"rows": [1000, 9], "error": float("nan"), "when": "2026-11-28T09:00:00", "commit": "cc"},
        {"rows": [1000, 9], "error": 6.0, "when": "2026-11-28T10:00:00", "commit": "bb"},
    ]
    comparison = compare(NUMBER, records, lambda record: record["error"], repetitions=2)
    assert (comparison.measured, comparison.rows, comparison.verdict) == (
        (4.0, 6.0),
        1000,
        "agrees",
    )
    assert (comparison.when, comparison.commit) == ("2026-11-28", "bb")
    nothing = compare(NUMBER, [], lambda record: record["error"], missing="no data")
    assert (nothing.verdict, nothing.reason) == ("not measured", "no data")


def test_the_headline_says_if_nothing_is_compared():
    comparisons = [error(measured=(), missing="not run yet")]
    assert headline(comparisons).startswith("We have not measured any published error")
