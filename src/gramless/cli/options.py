"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, BadParameter, Option

Task = Literal["auto", "classification", "regression"]
Part = Literal["auto", "train", "test"]

PICTURE = "OUT.png|svg|pdf"
"""The endings of pictures, as help shows them."""

DataFile = Annotated[
    Path,
    Argument(
        metavar="DATA",
        help="CSV, TSV, Parquet, ARFF, LIBSVM, NPZ or NPY, plain or .gz, .bz2, .xz; - is stdin.",
    ),
]
Categorical = Annotated[
    str | None, Option(metavar="A,B,...", help="Numbers to take as categories.")
]
Ignore = Annotated[
    str | None,
    Option("--ignore", metavar="A,B,...", help="Columns to leave out, such as known labels."),
]
ModelFile = Annotated[Path, Argument(metavar="MODEL", help="A file that fit or stream wrote.")]
Target = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="Column to predict. By default the labels that the file keeps apart, else the "
        "column called target, label, class or y, else the last one.",
    ),
]
KnownTarget = Annotated[
    str | None,
    Option(
        "--target",
        metavar="NAME",
        help="Column with the true labels. By default the one that the model was fitted to.",
    ),
]
PartOption = Annotated[
    Part, Option("--part", help="Part of an NPZ file with two; auto takes the test part.")
]
Limits = Annotated[
    str,
    Option(
        metavar="NAME=NUMBER,...",
        help="What reading the data may take, as in max_memory=8e9: max_line_bytes, max_ratio (of "
        "what compressed text unpacks to), max_memory.",
        show_default=False,
    ),
]
TaskOption = Annotated[
    Task, Option(help="auto takes text and few distinct whole numbers for classes.")
]
Alpha = Annotated[str, Option(metavar="auto|NUMBER", help="Weight of the penalty.")]
Jobs = Annotated[int | None, Option("--n-jobs", help="Threads; by default every processor.")]
Output = Annotated[
    Path | None,
    Option(
        "--output",
        "-o",
        metavar="OUT.csv",
        help="By default they go to stdout.",
        callback=lambda path: None if str(path) in ("-", "/dev/stdout") else path,
    ),
]
Force = Annotated[
    bool, Option("--force", help="Replace files that exist, of any kind, without asking.")
]
Ids = Annotated[
    str | None,
    Option("--id", metavar="A,B,...", help="Columns of DATA to write beside, as they are."),
]
AsJson = Annotated[bool, Option("--json", help="Print one JSON document, nothing else.")]
Debug = Annotated[bool, Option("--debug", help="Show where an error came from.")]


def names(text: str | None, option: str) -> list[str]:
    """Split a list of names at its commas; there are none in None."""
    if text is None:
        return []
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise BadParameter(f"{option} needs names separated by commas, got {text!r}.")
    return found


def inner_share(share: float | None) -> float | None:
    """Return an option's number if it lies strictly between 0 and 1."""
    if share is not None and not 0.0 < share < 1.0:
        raise BadParameter(f"it must be above 0 and below 1, got {share}.")
    return share


def auto_or_number(
    text: str, option: str, *words: str, number: Callable[[str], float] = float
) -> str | float:
    """Read a number, or the word auto or one of others."""
    allowed = ("auto", *words)
    try:
        return text if text in allowed else number(text)
    except ValueError:
        told = " or ".join(("a number", *allowed))
        raise BadParameter(f"{option} needs {told}, got {text!r}.") from None
