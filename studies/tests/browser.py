"""Opens pages in a headless Chromium at some widths, and tells what is wrong with them.

All pages are frames of one page: the browser is started once, and a frame has exactly the width
that it is given. Copies of the pages get a script that tells what it saw.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--virtual-time-budget=4000",
    "--window-size=1400,900",
    "--dump-dom",
)
_HEARD = """<script>
const faults = [];
addEventListener("error", e => faults.push(
  e.target === window ? e.message : "not loaded: " + (e.target.src || e.target.href)), true);
for (const name of ["error", "warn"]) console[name] = (...told) => faults.push(told.join(" "));
</script>"""
_TOLD = """<script>
addEventListener("load", () => {
  const wide = [], empty = [], cut = [], right = document.documentElement.clientWidth;
  const within = e => e.closest(".scroll") && e.closest(".scroll") !== e;
  for (const e of document.body.querySelectorAll("*")) {
    const box = e.getBoundingClientRect();
    if (box.width && (box.right > right + 1 || box.left < -1) && !within(e))
      wide.push(e.tagName + " " + (e.getAttribute("class") || "") + " " + Math.round(box.right));
  }
  for (const e of document.images)
    if (!e.complete || !e.naturalWidth) empty.push(e.getAttribute("src"));
  for (const e of document.querySelectorAll("svg")) {
    const box = e.getBoundingClientRect();
    if (!box.width || !box.height || !e.getElementsByTagName("path").length)
      empty.push("svg " + e.textContent.trim().slice(0, 60));
    for (const text of e.querySelectorAll("text")) {
      const own = text.getBoundingClientRect();
      if (own.right > box.right + 1 || own.left < box.left - 1) cut.push(text.textContent);
    }
  }
  parent.postMessage(JSON.stringify({
    frame: window.name, faults, wide: wide.slice(0, 5), empty, cut, width: innerWidth,
    scroll: document.documentElement.scrollWidth,
    images: document.images.length, drawn: document.querySelectorAll("figure > svg").length,
  }), "*");
});
</script>"""
_HARNESS = """<!DOCTYPE html><meta charset="utf-8"><pre id="told"></pre><script>
const all = [];
addEventListener("message", e => {{ all.push(JSON.parse(e.data));
  document.getElementById("told").textContent = JSON.stringify(all); }});
</script>{frames}"""


def find_browser() -> str | None:
    """Return the browser's path; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def looked_at(pages: Sequence[Path], widths: Sequence[int], folder: Path) -> list[dict[str, Any]]:
    """Return what was seen of every page at every width.

    Pages keep their folders: a copy lies beside each in ``folder``, with links to what is there.
    A dictionary has ``page``, ``width``, ``scroll`` (what the page takes), ``faults`` (errors),
    ``wide`` (elements beyond the edge), ``empty`` (pictures that show nothing), ``cut`` (texts
    beyond their picture), ``images`` and ``drawn`` (how many there are).
    """
    frames, of_frame = [], {}
    for k, page in enumerate(pages):
        copy = folder / str(k) / page.name
        shutil.copytree(page.parent, copy.parent)
        text = copy.read_text(encoding="utf-8")
        copy.write_text(text.replace("<head>", f"<head>{_HEARD}", 1) + _TOLD, encoding="utf-8")
        for width in widths:
            name = f"{k} {width}"
            of_frame[name] = page
            frames.append(
                f'<iframe name="{name}" src="{k}/{page.name}" width="{width}" height="800" '
                'style="border:0"></iframe>'
            )
    harness = folder / "harness.html"
    harness.write_text(_HARNESS.format(frames="".join(frames)), encoding="utf-8")
    found = _opened(harness, folder)
    assert {one["frame"] for one in found} == set(of_frame), "some pages told nothing"
    return [{**one, "page": of_frame[one["frame"]]} for one in found]


def _opened(harness: Path, folder: Path) -> list[dict[str, Any]]:
    command = [str(find_browser()), *_OPTIONS, f"--user-data-dir={folder / 'browser'}"]
    done = subprocess.run(
        [*command, harness.as_uri()], capture_output=True, text=True, timeout=100, check=False
    )
    told = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told, f"the browser gave no page: {done.stderr[-2000:]}"
    return json.loads(html.unescape(told.group(1)) or "[]")
