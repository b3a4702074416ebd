"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.models import OptionInfo

from gramless.base.errors import InputError

Task = Literal["auto", "classification", "regression"]
Part = Literal["auto", "train", "test"]

DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV, Parquet, ARFF, LIBSVM, NPZ or NPY, plain or .gz, .bz2, .xz.",
        show_default=False,
    ),
]
ModelFile = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A file that fit or stream wrote.", show_default=False),
]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column to predict. By default the labels that the file keeps apart, else the "
        "column called target, label, class or y, else the last one.",
        show_default=False,
    ),
]
PartOption = Annotated[
    Part, typer.Option("--part", help="Part of an NPZ file with two; auto takes the test part.")
]
Limits = Annotated[
    str,
    typer.Option(
        metavar="NAME=NUMBER,...",
        help="What reading the data may take, as in max_memory=8e9: max_line_bytes, max_ratio (of "
        "what compressed text unpacks to), max_memory.",
        show_default=False,
    ),
]
TaskOption = Annotated[
    Task, typer.Option(help="auto takes text and few distinct whole numbers for classes.")
]
Alpha = Annotated[str, typer.Option(metavar="auto|NUMBER", help="Weight of the penalty.")]
Jobs = Annotated[
    int | None,
    typer.Option("--n-jobs", help="Threads; by default every processor.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]


def picture_option(text: str) -> OptionInfo:
    """Return the option ``--picture``, with what it draws."""
    metavar = "OUT.png|svg|pdf"
    option: OptionInfo = typer.Option("--picture", metavar=metavar, help=text, show_default=False)
    return option


def names(text: str | None, option: str) -> list[str] | None:
    """Split a list of names at its commas."""
    if text is None:
        return None
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise typer.BadParameter(f"{option} needs names separated by commas, got {text!r}.")
    return found


def auto_or_number(text: str, option: str) -> str | float:
    """Read a number, or the word auto."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{option} needs a number or auto, got {text!r}.") from None


def check_output(option: str, path: Path, others: Mapping[str, Path]) -> None:
    """Refuse a file that cannot be written or would replace one of ``others``, before any work."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise InputError(f"{option} {path}: there is no folder {folder}; make it.")
    same = path.exists() and any(o.exists() and path.samefile(o) for o in others.values())
    if path.is_dir() or same or path.resolve() in [other.resolve() for other in others.values()]:
        *first, last = ("a folder", *others)
        names = f"{', '.join(first)} or {last}"
        raise InputError(f"{option} {path} is {names}; name another file.")
