"""The report's pages: everything that was measured, and what was not, as it is."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from studies.numbers import measured, printed, ratio
from studies.report import write_report
from studies.results import collect_results, verdicts
from studies.study import Comparison, Study, TableOf

from .made_up import PANELS_OF_FIGURE_5, RECORDS, STUDIES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("report")
    write_report(STUDIES, RECORDS, made)
    return made


def words(element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def section(folder, page, name) -> ET.Element:
    root = ET.parse(folder / page).getroot()
    return next(one for one in root.iter("section") if one.get("id") == name)


def test_files_that_are_written(folder):
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    pages = {"index.html", "comparison.html", "rb16.html", "rr07.html"}
    pictures = {"pictures/rb16-figure-2.svg", "pictures/rb16-figure-5.svg"}
    assert found == pages | pictures | {"README.md"}


def test_pages_need_nothing_else(folder):
    for path in folder.glob("*.html"):
        text = path.read_text()
        root = ET.fromstring(text)
        assert not list(root.iter("script")), path
        assert not re.findall(r'(?:src|href)="(?:https?:|//)', text), path
        assert "url(" not in text, path
        for link in root.iter("a"):
            target, _, place = link.get("href").partition("#")
            other = ET.parse(folder / (target or path.name)).getroot()
            assert not place or any(one.get("id") == place for one in other.iter()), link.get(
                "href"
            )


@pytest.mark.slow
def test_the_same_records_give_the_same_bytes(folder, tmp_path):
    write_report(STUDIES, RECORDS, tmp_path)
    for path in filter(lambda path: path.is_file(), folder.rglob("*")):
        assert (tmp_path / path.relative_to(folder)).read_bytes() == path.read_bytes(), path


def test_all_numbers_stand_beside_ours(folder):
    rows = [words(row) for row in section(folder, "comparison.html", "rb16").iter("tr")]
    lines = (folder / "README.md").read_text().splitlines()
    for one in STUDIES[0].comparisons(RECORDS["rb16/figure-5"]):
        (row,) = (row for row in rows if row.startswith(one.what))
        line = next(line for line in lines if line.startswith(f"| {one.what}"))
        assert one.verdict in row
        assert f"| {one.verdict} |" in line
        parts = [printed(one.theirs), printed(one.tolerance, 3)]
        if one.ours is not None:
            parts += [measured(one.ours, one.theirs), ratio(one.ours, one.theirs)]
        assert all(part in row and part in line for part in parts), (row, line)


def test_losses_come_first_and_are_told_again(folder):
    page = words(ET.parse(folder / "comparison.html").getroot())
    loss = "cod-rna, Fourier, D = 4096, test error"
    assert page.count(loss) == 2
    assert loss in words(section(folder, "comparison.html", "losses"))
    assert page.index("Where we are worse") < page.index("letter, binning, R = 256")
    text = (folder / "README.md").read_text()
    assert text.count(loss) == 2
    assert text.index(loss) < text.index("## RB16")


def test_counts_are_those_of_the_verdicts(folder):
    shown = collect_results(STUDIES, RECORDS)
    assert verdicts(shown) == {"better": 4, "agrees": 2, "worse": 1, "not measured": 1}
    told = "4 better 2 agree 1 worse 1 not measured"
    for page in ("index.html", "rb16.html", "comparison.html"):
        assert told in words(ET.parse(folder / page).getroot()), page
    assert "**8 published numbers: 4 better, 2 agree" in (folder / "README.md").read_text()


def test_runs_that_did_not_end_are_told(folder):
    told = [words(section(folder, "rb16.html", "figure-5")), (folder / "README.md").read_text()]
    for text in told:
        assert "4 of 72 runs were not measured to the end." in text
        assert "over time: binning on letter, size 256; fourier on letter, size 256" in text
        assert "not available here: blocks on cod-rna, size 256 (the data set" in text
    assert "failed: fourier on covtype, size 8 (MemoryError: <no room> for 8 GB)" in told[0]


def test_what_was_not_run_is_told(folder):
    told = words(section(folder, "rr07.html", "table-1"))
    assert "Nothing of this has been run yet." in told
    assert "python -m studies rr07 --table 1" in told
    assert "Error of <four> methods & the exact kernel" in told
    text = (folder / "README.md").read_text()
    assert r"### Error of \<four\> methods & the exact kernel" in text
    assert "Not run yet." in text


def test_how_it_was_run(folder):
    told = words(next(section(folder, "rb16.html", "figure-5").iter("details")))
    assert "python -m studies rb16 --figure 5" in told
    assert "68 done, 2 over time, 1 failed, 1 not available here" in told
    assert "A processor of 2.9 GHz, 2 cores, 8.3 GB, Linux" in told
    assert "python 3.12, gramless 0.1, numpy 2.1" in told
    assert "lightgbm" not in told
    assert "2025-03-04" in told


def test_panels_have_axes_legends_and_notes(folder):
    figures = list(section(folder, "rb16.html", "figure-5").iter("figure"))
    assert len(figures) == PANELS_OF_FIGURE_5
    for figure in figures:
        told = words(figure)
        assert "test error, %" in told
        assert "features R (grids, columns, landmarks)" in told
        for label in ("binning", "nystrom", "binning (paper)", "binning (formula)"):
            assert label in told
    assert "First 20,000 rows in place of all 581,012." in words(figures[1])


def test_columns_of_numbers_are_aligned(folder):
    (table,) = (
        table
        for table in section(folder, "rb16.html", "figure-5").iter("table")
        if table.get("class") is None
    )
    heads = {words(head): head.get("class") for head in table.iter("th")}
    assert heads["rows"] == heads["Fourier + LS"] == "n"
    assert heads["data"] is None
    assert heads["exact SVM"] is None, "it has words"


def study(**options) -> Study:
    return replace(Study("rr07", "logs", "Title", "About.", lambda scale: []), **options)


def test_numbers_that_are_not_finite_are_not_measured(tmp_path):
    one = Comparison("a", 1.0, float("nan"), "%", 0.1)
    write_report([study(comparisons=lambda records: [one])], {}, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "| a | 1 ± 0.1 % | – | – | not measured |  |" in text
    assert "nan" not in text


def test_a_note_of_many_rows_stands_once(tmp_path):
    rows = [Comparison(name, 1.0, 2.0, "s", 0.1, note="A stand-in.") for name in "abc"]
    write_report([study(comparisons=lambda records: rows)], {}, tmp_path)
    told = words(section(tmp_path, "rr07.html", "logs"))
    assert told.count("A stand-in.") == 1
    assert told.count("Note 1") == 4


@pytest.mark.slow
def test_pictures_of_nothing_are_removed(tmp_path):
    drawn, blank = STUDIES[0], replace(STUDIES[0], panels=lambda records: [])
    write_report([drawn], RECORDS, tmp_path)
    assert (tmp_path / "pictures" / "rb16-figure-5.svg").is_file()
    write_report([blank], RECORDS, tmp_path)
    assert not list((tmp_path / "pictures").iterdir())
    assert "pictures/" not in (tmp_path / "README.md").read_text()


def test_text_of_markdown_and_html_stays_text(tmp_path):
    odd = "a|b *c* <i>d</i> `e` $f$\n\ng & \x00"
    table = TableOf(odd, (odd, "n"), ((odd, "1"), (odd, "-")), odd)
    one = study(title=odd, about=odd, tables=lambda records: [table])
    write_report([one], {}, tmp_path)
    root = ET.parse(tmp_path / "rr07.html").getroot()
    assert not list(root.iter("i"))
    lines = (tmp_path / "README.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| a")]
    assert len(rows) == 3
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)
    assert not any("<i>" in line or "*c*" in line.replace(r"\*", "") for line in lines)


def test_no_study_at_all(tmp_path):
    index = write_report([], {}, tmp_path)
    assert "The papers, run again" in words(ET.parse(index).getroot())
    assert "No published number" in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(
    ("ours", "theirs", "shown", "times"),
    [
        (3.14159, 3.5, "3.14", "0.90"),
        (0.04912, 0.0491, "0.0491", "1.00"),
        (123456.7, 4000.0, "123,457", "31"),
        (0.0, 4.0, "0", "0"),
        (0.00001232, 4.0, "1.23·10⁻⁵", "3.08·10⁻⁶"),
        (250.0, 1.0, "250", "250"),
    ],
)
def test_numbers_for_people(ours, theirs, shown, times):
    assert measured(ours, theirs) == shown
    assert ratio(ours, theirs) == times
