"""The report in a browser: no error, nothing beyond the edge, all pictures there."""

from __future__ import annotations

import pytest

from studies.report import write_report

from .browser import find_browser, looked_at
from .made_up import RECORDS, STUDIES

WIDTHS = (360, 1280)
BROKEN = """<!DOCTYPE html><html><head></head><body><p style="width:500px">too wide</p>
<img src="missing.svg"><script>throw new Error("on purpose")</script>
<svg class="plot" width="80" height="20"><path d="M0,0h9"/><text x="60" y="9">too long</text></svg>
</body></html>"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_browser() is None, reason="needs Chromium or Chrome"),
]


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Return what was seen, by the name of the page's folder, the page and the width."""
    root = tmp_path_factory.mktemp("pages")
    made, broken = root / "made", root / "broken"
    write_report(STUDIES, RECORDS, made)
    names = sorted(path.name for path in (made / "pictures").iterdir())
    shown = "".join(f'<img style="max-width:100%" src="pictures/{name}">' for name in names)
    (made / "pictures.html").write_text(f"<html><head></head><body>{shown}</body></html>")
    broken.mkdir()
    (broken / "broken.html").write_text(BROKEN)
    pages = [*made.glob("*.html"), *broken.glob("*.html")]
    found = looked_at(pages, WIDTHS, root / "copies")
    return {(one["page"].parent.name, one["page"].name, one["width"]): one for one in found}


def test_pages_have_no_fault(seen):
    good = {name: one for name, one in seen.items() if name[0] != "broken"}
    assert len(good) >= len(WIDTHS) * 5
    for name, one in good.items():
        wrong = {key: one[key] for key in ("faults", "wide", "empty", "cut") if one[key]}
        assert not wrong, (name, wrong)
        assert one["scroll"] <= one["width"], name


@pytest.mark.parametrize("width", WIDTHS)
def test_pictures_are_there(seen, width):
    assert seen["made", "rb16.html", width]["drawn"] == 5
    assert seen["made", "pictures.html", width]["images"] == 2


def test_faults_are_seen(seen):
    one = seen["broken", "broken.html", 360]
    assert any("on purpose" in fault for fault in one["faults"])
    assert any("missing.svg" in fault for fault in one["faults"])
    assert one["wide"]
    assert one["scroll"] > 360
    assert one["empty"] == ["missing.svg"]
    assert one["cut"] == ["too long"]
