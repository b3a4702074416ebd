"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, BadParameter, Option

Task = Literal["auto", "classification", "regression"]
Part = Literal["auto", "train", "test"]

PICTURE = "OUT.png|svg|pdf"  # how the help shows the value of --picture

DataFile = Annotated[
    Path,
    Argument(
        metavar="DATA",
        help="CSV, TSV, Parquet, ARFF, LIBSVM, NPZ or NPY, also compressed as .gz, .bz2 or .xz; - "
        "reads stdin.",
    ),
]
Categorical = Annotated[
    str | None, Option(metavar="A,B,...", help="Columns of numbers that are categories.")
]
Ignore = Annotated[
    str | None,
    Option("--ignore", metavar="A,B,...", help="Columns to leave out, such as known labels."),
]
ModelFile = Annotated[Path, Argument(metavar="MODEL", help="Model file written by fit or stream.")]
Target = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="Column to predict. By default the separate labels of the file, if it has any, else "
        "the column called target, label, class or y, else the last one.",
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
    Part, Option("--part", help="Part of an NPZ file with two parts; auto is the test part.")
]
Limits = Annotated[
    str,
    Option(
        metavar="NAME=NUMBER,...",
        help="Limits for reading the data, such as max_memory=8e9: max_line_bytes, max_ratio (of "
        "uncompressed to compressed size), max_memory.",
        show_default=False,
    ),
]
TaskOption = Annotated[
    Task,
    Option(help="auto is classification if the target is text or few distinct whole numbers."),
]
Alpha = Annotated[str, Option(metavar="auto|NUMBER", help="Weight of the penalty.")]
Jobs = Annotated[
    int | None, Option("--n-jobs", help="Number of threads; by default all processors.")
]
Output = Annotated[
    Path | None,
    Option(
        "--output",
        "-o",
        metavar="OUT.csv",
        help="CSV file to write; by default stdout.",
        callback=lambda path: None if str(path) in ("-", "/dev/stdout") else path,
    ),
]
Force = Annotated[
    bool, Option("--force", help="Replace existing files of any kind without asking.")
]
Ids = Annotated[
    str | None,
    Option("--id", metavar="A,B,...", help="Columns of DATA to copy to the output."),
]
AsJson = Annotated[bool, Option("--json", help="Print one JSON document and nothing else.")]
Debug = Annotated[bool, Option("--debug", help="Print the traceback of an error.")]


def split_names(text: str | None, option: str) -> list[str]:
    if text is None:
        return []
    result = [name.strip() for name in text.split(",")]
    if not all(result):
        raise BadParameter(f"{option} needs names separated by commas, got {text!r}.")
    return result


def check_inner_share(share: float | None) -> float | None:
    if share is not None and not 0.0 < share < 1.0:
        raise BadParameter(f"it must be above 0 and below 1, got {share}.")
    return share


def parse_auto_or_number(
    text: str, option: str, *words: str, number: Callable[[str], float] = float
) -> str | float:
    """Return the number in ``text``, or ``text`` unchanged if it is auto or one of ``words``."""
    allowed = ("auto", *words)
    try:
        return text if text in allowed else number(text)
    except ValueError:
        expected = " or ".join(("a number", *allowed))
        raise BadParameter(f"{option} needs {expected}, got {text!r}.") from None
