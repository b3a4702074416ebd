"""Published numbers: read as written, and refused with the place of a fault."""

from __future__ import annotations

import pytest

from gramless.base.errors import DataFileError, InputError
from studies.catalogue import PAPERS
from studies.published import published, read_published

GOOD = """
[[number]]
study = "table-1"
what = "cpu_small, Fourier + LS, D = 300"
key = "cpu/fourier/test_error"
value = 3.6
unit = "%"
rows = 6500
source = "Table 1"
"""


@pytest.fixture
def read(tmp_path):
    def reads(text):
        path = tmp_path / "published.toml"
        path.write_text(text)
        return read_published(path)

    return reads


def test_numbers_by_key(read):
    numbers = read(GOOD + GOOD.replace("fourier/", "binning/").replace("3.6", "5.3"))
    assert list(numbers) == ["cpu/fourier/test_error", "cpu/binning/test_error"]
    assert [one.value for one in numbers.values()] == [3.6, 5.3]
    first = numbers["cpu/fourier/test_error"]
    assert (first.rows, first.rounding, first.kind) == (6500, 0.05, "error")
    assert read("") == {}


def test_faults_are_named(read):
    for old, new, told in [
        ("value = 3.6", "value = '3.6'", "number 1: value must be a finite number, got '3.6'"),
        ("value = 3.6", "value = true", "value must be a finite number"),
        ("value = 3.6", "value = nan", "value must be a finite number"),
        ("rows = 6500", "rows = 0", "rows must be a positive whole number, got 0"),
        ("unit", "units", "missing or unknown: unit, units"),
        ('source = "Table 1"', "", "missing or unknown: source"),
        ('"table-1"', "1", "study must be text, got 1"),
        ("value", "[value", "cannot be read"),
    ]:
        with pytest.raises(DataFileError, match=told.replace("+", r"\+")):
            read(GOOD.replace(old, new))


def test_a_key_is_there_once(read):
    with pytest.raises(DataFileError, match="number 2: the key 'cpu/fourier/test_error'"):
        read(GOOD + GOOD)


def test_papers_that_there_are():
    assert all(published(paper) for paper in PAPERS)
    with pytest.raises(InputError, match="no paper 'rb17'; there are rr07, rb16, dsg16"):
        published("rb17")
