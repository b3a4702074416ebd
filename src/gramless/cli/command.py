"""The ``gramless`` command: it says what to install if packages are missing."""

from __future__ import annotations

import io
import sys
from importlib.util import find_spec

PACKAGES = ("typer", "rich", "polars", "matplotlib", "jinja2")
"""Packages of the extra ``cli``."""


def main() -> None:
    """Run the command line, or exit with one line if its packages are not installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        sys.exit(
            f"error: the gramless command needs {', '.join(missing)}, not installed here: "
            'pip install "gramless[cli]".'
        )
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
        # What goes to a file or a pipe is UTF-8 on every system, as are the files of verbs.
        sys.stdout.reconfigure(encoding="utf-8")
    from gramless.cli.main import app

    app()
