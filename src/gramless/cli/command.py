"""The ``gramless`` command: it says what to install if packages are missing."""

from __future__ import annotations

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
    from gramless.cli.main import app

    app()
