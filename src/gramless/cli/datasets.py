"""``gramless datasets``: known data sets, listed or fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from gramless.base.formatting import sized
from gramless.cli import options
from gramless.cli.report import Report, facts, listing, reporting


def datasets(
    name: Annotated[
        str | None, Argument(metavar="[NAME]", help="One to load; without it, all are listed.")
    ] = None,
    folder: Annotated[
        Path | None,
        Option(help="Where they are kept; by default GRAMLESS_DATA, else the cache folder."),
    ] = None,
    download: Annotated[bool, Option("--download", help="Fetch it if it is not there.")] = False,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
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
    rows = [(info.name, info.task, "yes" * info.present, info.description) for info in infos]
    table = listing(f"Data sets (folder: {where})", ["name", "task", "here", "what"], rows)
    for column in table.columns[1:]:
        column.justify = "left"
    report.result({"folder": where, "datasets": [vars(info) for info in infos]}, table)


def _load(report: Report, name: str, folder: Path | None, download: bool) -> None:
    from gramless.datasets import load

    with report.stage("load", f"loading {name}") as show_line:

        def progress(file: str, done: int, total: int | None) -> None:
            show_line(f"{file}, {sized(done)}{f' of {sized(total)}' if total else ''}")

        loaded = load(name, folder=folder, download=download, progress=progress)
    document = {
        "name": loaded.name,
        "task": loaded.task,
        "training_rows": loaded.X_train.shape[0],
        "test_rows": loaded.X_test.shape[0],
        "columns": loaded.X_train.shape[1],
    }
    shown = {key.replace("_", " "): value for key, value in document.items()}
    report.result(document | {"seconds": report.seconds}, facts(shown))
