"""The report's pages and tables: everything that was measured, and what was not, as it is."""

from __future__ import annotations

import csv
import re
from dataclasses import replace

import pytest

from studies.comparisons import Comparison
from studies.published import Published
from studies.report import write_report
from studies.study import Study, TableOf

from .made_up import RECORDS, STUDIES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("report")
    write_report(STUDIES, RECORDS, made)
    return made


def rows(path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_files_that_are_written(folder):
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    pictures = {"pictures/rb16-figure-2.svg", "pictures/rb16-figure-5.svg"}
    tables = {"errors.csv", "counts.csv", "seconds.csv"}
    assert found == {"index.md", "rb16.md", "rr07.md"} | pictures | tables


def test_links_lead_to_files(folder):
    for page in folder.glob("*.md"):
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            assert (folder / target).is_file(), (page, target)


@pytest.mark.slow
def test_the_same_records_give_the_same_bytes(folder, tmp_path):
    write_report(STUDIES, RECORDS, tmp_path)
    for path in filter(lambda path: path.is_file(), folder.rglob("*")):
        assert (tmp_path / path.relative_to(folder)).read_bytes() == path.read_bytes(), path


def test_every_number_is_in_one_table(folder):
    names = {"error": "errors.csv", "count": "counts.csv", "seconds": "seconds.csv"}
    given = STUDIES[0].comparisons(RECORDS["rb16/figure-5"])
    for kind, name in names.items():
        shown = rows(folder / name)
        expected = [one.number.what for one in given if one.number.kind == kind]
        assert [row["number"] for row in shown] == expected
    verdicts = [row["verdict"] for row in rows(folder / "errors.csv")]
    assert verdicts == ["lower", "agrees", "agrees", "higher", "other data", "not measured"]
    assert [row["verdict"] for row in rows(folder / "seconds.csv")] == ["no verdict"]


def test_rows_tell_the_spread_and_where_it_is_from(folder):
    first, agrees, again, *_ = rows(folder / "errors.csv")
    assert [agrees[name] for name in ("ours, median", "ours, least", "ours, largest")] == [
        "3",
        "2.98",
        "3.02",
    ]
    assert (agrees["repetitions"], agrees["published rows"], agrees["our rows"]) == (
        "5",
        "9000",
        "9000",
    )
    assert again["same number as"] == agrees["number"]
    assert (first["date"], first["commit"]) == ("2025-03-04", "1234abcd")


def test_the_index_has_the_headline_and_a_reason_for_each_error_without_comparison(folder):
    text = (folder / "index.md").read_text()
    assert "**Of 3 published errors that we measured on the same data" in text
    assert "1 of ours is lower, 1 agrees and 1 is higher; 1 is on other data, 1 was not" in text
    assert "| other data | The first 20,000 rows stand in" in text
    assert "| not measured | The set is not there. | 1 |" in text
    for line in ("Commit: 1234abcd", "Date: 2025-03-04", "Machine: A processor of 2.9 GHz"):
        assert line in text
    assert re.search("Time: .* min", text)


def test_the_index_says_how_much_was_measured(folder, tmp_path):
    # One of 72 failed, and may be run again; that of another study has no budget for more.
    assert "- Fits: 72 measured; the budgets allow 1 more\n" in (folder / "index.md").read_text()
    write_report([replace(STUDIES[0], minutes=10.0 / 60.0)], {}, tmp_path)
    assert "- Fits: 0 measured; the budgets allow 10 more\n" in (tmp_path / "index.md").read_text()


def test_sets_that_are_not_there_are_not_allowed_by_budgets(tmp_path):
    (*_, last) = RECORDS["rb16/figure-5"]
    gone = {**last, "facts": {"missing": "data set"}}
    own = replace(STUDIES[0], jobs=lambda: STUDIES[0].jobs()[-1:])
    write_report([own], {own.key: [gone]}, tmp_path)
    assert "- Fits: 0 measured\n" in (tmp_path / "index.md").read_text()
    assert "programs" not in (tmp_path / "rb16.md").read_text()


def test_seconds_of_a_busy_machine_are_told(tmp_path):
    own = STUDIES[0]
    first, second, *others = RECORDS[own.key]
    busy = [{**first, "others": 0.75}, {**second, "others": 1.25}]
    quiet = [{**one, "others": 0.02} for one in others]
    write_report([own], {own.key: [*busy, *quiet]}, tmp_path)
    said = "Seconds are not reliable: other programs kept 1.0 cores busy during 2 of 72 fits."
    assert f"no verdict. {said}\n" in (tmp_path / "index.md").read_text()
    page = (tmp_path / "rb16.md").read_text()
    assert f"Measured 2025-03-04 at 1234abcd. {said}\n" in page
    write_report([own], {own.key: [*quiet, first]}, tmp_path)
    said = "No other program was at work; of 1 fit it is not recorded."
    assert f"Measured 2025-03-04 at 1234abcd. {said}\n" in (tmp_path / "rb16.md").read_text()


def test_runs_that_did_not_end_are_told(folder):
    assert "4 of 72 runs were not measured to the end." in (folder / "rb16.md").read_text()


def test_what_was_not_run_is_told(folder):
    text = (folder / "rr07.md").read_text()
    assert "`python -m studies rr07 --table 1`, at most 1 minute. Not run yet." in text
    assert r"Error of \<four\> methods & the exact kernel" in text


def test_budgets_are_stated(folder):
    assert "at most 12.5 minutes" in (folder / "rb16.md").read_text()


def study(**options) -> Study:
    return replace(Study("rr07", "logs", "Title", "About.", list, 1.0), **options)


def test_numbers_of_a_row_are_those_of_the_comparison(tmp_path):
    number = Published("logs", "a, b", "a", 1.5, "%", "text", rows=12)
    one = Comparison(number, (2.0, 1.0, 4.0), rows=12, repetitions=3)
    write_report([study(comparisons=lambda records: [one])], {}, tmp_path)
    (row,) = rows(tmp_path / "errors.csv")
    assert (row["number"], row["published"], row["verdict"]) == ("a, b", "1.5", "agrees")
    assert (row["ours, median"], row["ours, least"], row["ours, largest"]) == ("2", "1", "4")


def test_long_tables_are_files(tmp_path):
    long = TableOf("Long", ("n",), tuple((str(n),) for n in range(20)), "A note.")
    short = TableOf("Short", ("n",), (("1",),))
    own = study(tables=lambda records: [short, long])
    record = {"key": "a", "status": "done", "method": "a", "data": "b"}
    write_report([own], {own.key: [record]}, tmp_path)
    text = (tmp_path / "rr07.md").read_text()
    assert "| 1 |" in text
    assert "[Long](rr07-logs-2.csv). A note." in text
    assert len(rows(tmp_path / "rr07-logs-2.csv")) == 20
    assert not (tmp_path / "rr07-logs-1.csv").exists()


@pytest.mark.slow
def test_pictures_of_nothing_are_removed(tmp_path):
    drawn, blank = STUDIES[0], replace(STUDIES[0], panels=lambda records: [])
    write_report([drawn], RECORDS, tmp_path)
    assert (tmp_path / "pictures" / "rb16-figure-5.svg").is_file()
    write_report([blank], RECORDS, tmp_path)
    assert not list((tmp_path / "pictures").iterdir())
    assert "pictures/" not in (tmp_path / "rb16.md").read_text()


def test_text_of_markdown_stays_text(tmp_path):
    odd = "a|b *c* <i>d</i> `e` $f$\n\ng & \x00"
    table = TableOf(odd, (odd, "n"), ((odd, "1"), (odd, "-")), odd)
    record = {"key": "a", "status": "done", "method": "a", "data": "b"}
    one = study(title=odd, about=odd, tables=lambda records: [table])
    write_report([one], {one.key: [record]}, tmp_path)
    lines = (tmp_path / "rr07.md").read_text().splitlines()
    cells = [line for line in lines if line.startswith("| a")]
    assert len(cells) == 3
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in cells)
    assert not any("<i>" in line or "*c*" in line.replace(r"\*", "") for line in lines)


def test_no_study_at_all(tmp_path):
    index = write_report([], {}, tmp_path)
    assert "not measured any published error" in index.read_text()
