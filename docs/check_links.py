"""Checks that every link within a built site has a page, a file or a heading to go to.

``python docs/check_links.py out/docs`` prints the broken ones, and fails if there are any. It also
fails where a page takes a script, a style or a picture from elsewhere: the site works offline.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href"}
"""What a page fetches to be shown, by the attribute that says where."""


class Page(HTMLParser):
    """The links, loaded files and anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag points to, and its name."""
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag in LOADED and LOADED[tag] in found:
            self.loaded.append(found[LOADED[tag]])


def faults(site: Path) -> list[str]:
    """Return what is wrong, a line each."""
    paths = sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in paths}
    found = []
    for path, page in pages.items():
        shown = path.relative_to(site.resolve())
        for link in page.loaded + page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    found.append(f"{shown} loads {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                found.append(f"{shown} links to {link}, which is not there")
            elif target in pages and parts.fragment:
                known = unquote(parts.fragment) in pages[target].anchors
                found += [] if known else [f"{shown} links to {link}: no such heading"]
    return sorted(set(found))


def main() -> None:
    """Check the site that the command line names."""
    site = Path(sys.argv[1])
    found = faults(site)
    print("\n".join(found) if found else f"{site}: every link within the site leads somewhere")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
