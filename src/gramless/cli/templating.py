"""Pages and texts from jinja2 templates."""

from __future__ import annotations

import os
import re
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from gramless.base.errors import InputError
from gramless.base.files import replacing

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def environment(*packages: str) -> Environment:
    """Return the templates of packages, those of earlier packages first.

    Inserted values are escaped, characters forbidden in XML are replaced, and undefined names are
    errors: pages are well-formed XML whatever columns are called.

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
    """Return text in which a mark replaces each character that XML forbids."""
    return _FORBIDDEN.sub("\ufffd", str(text))


def write_page(path: Path, text: str, option: str) -> None:
    """Write a page whole or not at all; ``option`` named its place."""
    try:
        with replacing(Path(os.path.realpath(path))) as file:
            file.write(text.encode())
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise InputError(
            f"{option} {path} cannot be written ({reason}); name another place."
        ) from fault


def _inserted(value: object) -> str:
    return value if isinstance(value, Markup) else printable(value)
