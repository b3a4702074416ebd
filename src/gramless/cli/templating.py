"""Pages and texts from jinja2 templates."""

from __future__ import annotations

import re

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def environment(*packages: str) -> Environment:
    """Return the templates of some packages, the first that has a template first.

    What templates insert into HTML is escaped, characters that XML forbids become a mark, and a
    name that is not defined is an error: pages are well-formed XML whatever columns are called.
    Each package has a folder ``templates``.

    Examples
    --------
    >>> page = environment("gramless.cli").from_string("<p>{{ name }}</p>")
    >>> page.render(name="a < b")
    '<p>a &lt; b</p>'
    """
    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=select_autoescape(["html"], default_for_string=True),
        undefined=StrictUndefined,
        finalize=_inserted,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def printable(text: object) -> str:
    """Return text without the characters that XML forbids: a mark stands for each.

    Examples
    --------
    >>> printable("a" + chr(0))
    'a\ufffd'
    """
    return _FORBIDDEN.sub("\ufffd", str(text))


def _inserted(value: object) -> str:
    return value if isinstance(value, Markup) else printable(value)
