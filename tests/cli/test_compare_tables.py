"""``gramless compare-tables``: verdict, page, exit codes, and what it refuses."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from .conftest import N_ROWS

VERB = "compare-tables"
FEW = ("--permutations", "39")


@pytest.fixture
def files(write):
    rng = np.random.default_rng(1)
    sizes, weights = rng.normal(size=(2, N_ROWS))
    chosen = ("size", "weight", "colour")
    before = write("before.csv", (*chosen, "price"))
    same = write("same.csv", chosen, size=sizes, weight=weights)
    after = write("after.csv", chosen, size=sizes + 2.0, weight=weights)
    return before, same, after


def test_changed_tables_exit_with_code_3_and_a_page(shell, files, tmp_path) -> None:
    before, _, after = files
    out = tmp_path / "page.html"
    printed = shell(VERB, before, after, "-o", out, *FEW, code=3).stdout
    assert "has changed (p-value 0.025)" in printed
    assert "Columns that changed: 1 of 3" in printed
    root = ET.parse(out).getroot()
    words = " ".join("".join(root.itertext()).split())
    assert "The distribution has changed" in words
    assert "before.csv alone has the column price" in words
    assert len(root.findall(".//{http://www.w3.org/2000/svg}svg")) == 1


def test_unchanged_tables_exit_with_code_0(shell, files) -> None:
    before, same, _ = files
    document = shell.json(VERB, before, same, *FEW)
    assert document["changed"] is False
    assert document["p_value"] > 0.05
    assert [one["name"] for one in document["columns"]] == ["size", "weight", "colour"]
    assert document["only_before"] == ["price"]


def test_dates_in_text_are_drawn_as_shares(shell, write, tmp_path) -> None:
    days = np.array([f"2021-0{1 + k % 9}-1{k % 7}" for k in range(N_ROWS)])
    before, after = (
        write(f"{k}.csv", ("size",), day=np.roll(days, k * N_ROWS // 2)) for k in (0, 1)
    )
    out = tmp_path / "page.html"
    assert shell(VERB, before, after, "-o", out, *FEW)
    assert "2021-01-10" in out.read_text(encoding="utf-8")


def test_columns_can_be_ignored_or_declared_categorical(shell, files, write) -> None:
    before, _, after = files
    document = shell.json(VERB, before, after, "--ignore", "size", *FEW)
    assert document["changed"] is False
    codes = write("codes.csv", ("size", "kind"), kind=np.arange(N_ROWS) % 3)
    document = shell.json(VERB, codes, codes, "--categorical", "kind", *FEW)
    assert [one["is_category"] for one in document["columns"]] == [False, True]


def test_invalid_input_is_rejected(shell, files, write, tmp_path) -> None:
    before, _, after = files
    other = write("other.csv", ("kind",))
    assert "no columns in common" in shell.error(VERB, after, other)
    assert "neither table has a column 'age'" in shell.error(VERB, before, after, "--ignore", "age")
    assert "the first table" in shell.error(VERB, before, after, "-o", before)
    shell.error(VERB, before, after, "--alpha", "1", code=2)
    assert before.exists()
