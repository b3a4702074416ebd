"""The places that state the version and contents of a release agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import gramless

ROOT = Path(__file__).resolve().parents[1]


def test_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## \[([\d.]+)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0][0] == gramless.__version__
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", date) for _, date in headings)


def test_classifiers_begin_with_the_lowest_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert project["requires-python"] == f">={named[0]}"
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert all(f'"{version}"' in workflow for version in named)
