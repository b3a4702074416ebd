"""The entry point of the ``gramless`` command, which names missing packages."""

from __future__ import annotations

import io
import sys
from importlib.util import find_spec

PACKAGES = ("typer", "rich", "polars", "matplotlib", "jinja2")  # the packages of the extra ``cli``


def main() -> None:
    """Run the command line, or exit with one line if its packages are not installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        sys.exit(
            f"error: the gramless command needs {', '.join(missing)}, not installed here: "
            'pip install "gramless[cli]".'
        )
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
        # Redirected output is UTF-8 on every system, like the files that commands write.
        sys.stdout.reconfigure(encoding="utf-8")
    from gramless.cli.main import app

    app()
