"""``gramless datasets``: known data sets, listed or fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gramless.base.formatting import sized
from gramless.cli.options import AsJson, Debug
from gramless.cli.report import Report, facts, listing, reporting

Name = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="One to load; without it, all are listed.")
]
Folder = Annotated[
    Path | None,
    typer.Option(
        help="Where they are kept; by default GRAMLESS_DATA, else the cache folder.",
        show_default=False,
    ),
]
Download = Annotated[bool, typer.Option("--download", help="Fetch it if it is not there.")]


def datasets(
    name: Name = None,
    folder: Folder = None,
    download: Download = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the known data sets, or load one and tell its sizes.

    Files that have a known checksum are verified.
    """
    with reporting(as_json, debug) as report:
        if name is None:
            _list(report, folder)
        else:
            _load(report, name, folder, download)


def _list(report: Report, folder: Path | None) -> None:
    from gramless.datasets import available, data_folder

    infos, where = available(folder), data_folder(folder)
    rows = [
        [info.name, info.task, "yes" if info.present else "", info.description] for info in infos
    ]
    table = listing(f"Data sets (folder: {where})", ["name", "task", "here", "what"], rows)
    for column in table.columns[1:]:
        column.justify = "left"
    document = {"folder": where, "datasets": [vars(info) for info in infos]}
    report.result(document, table)


def _load(report: Report, name: str, folder: Path | None, download: bool) -> None:
    from gramless.datasets import load

    with report.stage("load", f"loading {name}") as show_line:

        def progress(file: str, done: int, total: int | None) -> None:
            show_line(f"{file}, {sized(done)}{f' of {sized(total)}' if total else ''}")

        loaded = load(name, folder=folder, download=download, progress=progress)
    n_rows, n_columns = loaded.X_train.shape
    document = {
        "name": loaded.name,
        "task": loaded.task,
        "training_rows": n_rows,
        "test_rows": loaded.X_test.shape[0],
        "columns": n_columns,
    }
    shown = {key.replace("_", " "): value for key, value in document.items()}
    report.result(document | {"seconds": report.seconds}, facts(shown))
