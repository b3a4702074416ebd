"""The pages for developers: links lead somewhere, and lists and tables are complete."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FOLDERS = ("docs", "benchmarks", "campaigns", "harness", "studies")
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(page for f in FOLDERS for page in (ROOT / f).rglob("*.md"))]
    if not path.is_relative_to(DOCS / "gallery")
)
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
BUILT = ("gallery/", "reference/", "reference.")  # by Sphinx, which checks links to them
NUMBER = re.compile(r"(?<![\w.^-])\d[\d,]*(?:\.\d+)?")


def pages_linked_by(page: Path) -> list[str]:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    return [target for target in targets if "://" not in target and not target.startswith("mailto")]


def test_links_have_targets() -> None:
    assert len(PAGES) > 60
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in pages_linked_by(page)
        if not target.removeprefix("../").startswith(BUILT) and not (page.parent / target).exists()
    ]
    assert not broken, f"links without a file: {broken}"


def test_index_of_decisions_is_complete() -> None:
    index = DOCS / "decisions" / "README.md"
    pages = {page.name for page in index.parent.glob("*.md")} - {index.name}
    assert pages <= set(pages_linked_by(index))
    assert 25 <= len(pages) <= 30, "a decision joins the page of its topic"


def test_decisions_are_not_numbered() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    numbered = [
        str(path.relative_to(ROOT))
        for path, text in (texts | sources).items()
        if re.search(r"\bdecisions? \d|decisions/\d", text, re.IGNORECASE)
    ]
    assert not numbered, f"decisions are named by their topic: {numbered}"


def test_measured_tables_name_their_command_and_hold_one_number_a_cell() -> None:
    text = (DOCS / "measured.md").read_text(encoding="utf-8")
    blocks = re.split(r"\n\n+", text)
    sections = re.split(r"\n## ", text)[1:]
    assert all("Measured on " in section for section in sections)
    has_command = False
    for block in blocks:
        if not block.startswith("|"):
            has_command |= "Command" in block
            continue
        assert has_command, f"no command above: {block}"
        for row in block.splitlines()[2:]:
            cells = row.strip("|").split("|")[1:]
            crowded = [cell for cell in cells if len(NUMBER.findall(cell)) > 1]
            assert not crowded, f"more than one number a cell: {row}"
        has_command = False


def test_list_of_files_is_complete() -> None:
    text = (DOCS / "files.md").read_text(encoding="utf-8")
    listed = {
        f"{folder}/{name}"
        for folder, section in re.findall(r"\n## `(.+?)/`\n(.*?)(?=\n## |\Z)", text, re.DOTALL)
        for name in re.findall(r"^\| `(\w+\.py)` \| \S", section, re.MULTILINE)
    }
    modules = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "gramless").rglob("*.py")
        if path.name != "__init__.py"
    }
    assert listed == modules, "run `python docs/list_files.py`"
