"""The output of commands: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import math
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from gramless.base.errors import GramlessError, InputError
from gramless.base.files import open_for_writing
from gramless.base.progress import LOGGER
from gramless.cli.messages import name_options

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gramless.base.types import AnyArray

INTERRUPTED, FAILED = 130, 1  # exit codes

# Only developers can act on these.
_HIDDEN_WARNINGS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning)


class Report:
    """The output of a command: tables on stdout, or one JSON document instead."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.seconds: dict[str, float] = {}
        self.out = Console(highlight=False, markup=False)
        self.err = Console(stderr=True, highlight=False, markup=False)

    @contextlib.contextmanager
    def stage(self, name: str, text: str) -> Iterator[Callable[[str], None]]:
        """Time a stage and show it on a terminal; yield a function that updates the line."""
        with self.time_stage(name):
            # Only a terminal can redraw the line; elsewhere nothing is shown.
            if self.err.is_terminal:
                with self.err.status(f"{text} ...") as status:
                    yield lambda line: status.update(f"{text}: {line}")
            else:
                yield lambda line: None

    @contextlib.contextmanager
    def time_stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - started

    def draw(self, picture: Path, draw: Callable[..., Figure], *arguments: object) -> None:
        from gramless.inspection.pictures import write_picture

        with self.stage("draw", "drawing"):
            write_picture(draw(*arguments), picture)

    def write_page(self, place: Path, option: str, page: Callable[..., str], *args: object) -> None:
        """Write the HTML that ``page(*args)`` returns; ``option`` is named in errors."""
        with self.stage("write", f"writing {place}"):
            text = page(*args)
            with open_for_writing(place, f"{option} {place}") as file:
                file.write(text.encode())

    def write_rows(
        self,
        columns: dict[str, AnyArray],
        output: Path | None,
        document: Mapping[str, object],
        lines: Mapping[str, object],
        has_summary: bool = False,
    ) -> None:
        """Write columns as CSV to a file, or else to stdout.

        If there is a file, stdout gets a summary: ``document`` as JSON, or ``lines`` as a table.
        With ``has_summary`` it gets the summary even without a file, and the columns are not
        written. JSON without a summary is the document together with the columns.
        """
        if output is not None:
            with open_for_writing(output, f"-o {output}") as file:
                text = io.TextIOWrapper(file, encoding="utf-8", newline="")
                _write_columns(text, columns)
                text.detach()
        if output is not None or has_summary:
            self.print_result(
                {**document, "output": output}, facts_table({**lines, "output": output})
            )
        elif self.as_json:
            self.print_result({**document, **columns})
        else:
            _write_columns(sys.stdout, columns)

    def print_result(self, document: Mapping[str, object], *tables: Table) -> None:
        """Print the tables, or only the document if the output is JSON."""
        if self.as_json:
            sys.stdout.write(json.dumps(json_data(document), indent=2, allow_nan=False) + "\n")
            return
        for table in tables:
            self.out.print(table)

    def log(self, line: str) -> None:
        LOGGER.info("%s", line)


class _StderrHandler(logging.Handler):
    """Prints log records on stderr; records of the progress of fits only if verbose."""

    def __init__(self, report: Report, verbose: bool) -> None:
        super().__init__(logging.INFO)
        self._report, self._verbose = report, verbose

    def emit(self, record: logging.LogRecord) -> None:
        if self._verbose or "progress" not in vars(record):
            self._report.err.print(record.getMessage(), soft_wrap=True)


@contextlib.contextmanager
def log_to_stderr(report: Report, verbose: bool = False) -> Iterator[None]:
    handler, level = _StderrHandler(report, verbose), LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


@contextlib.contextmanager
def open_report(as_json: bool, debug: bool, verbose: bool = False) -> Iterator[Report]:
    """Yield the report of a command, and handle its warnings and errors.

    Warnings become lines on stderr, except those for developers. An error becomes one line on
    stderr, after the traceback if ``debug``, and exit code 1. Ctrl-C becomes exit code 130, and a
    closed pipe exit code 1 without a line. Errors of typer pass unchanged.
    """
    report = Report(as_json)

    def log_warning(
        message: Warning | str, category: type[Warning], *_: object, **__: object
    ) -> None:
        if not issubclass(category, _HIDDEN_WARNINGS):
            LOGGER.warning("warning: %s", name_options(" ".join(str(message).split())))

    with warnings.catch_warnings(), log_to_stderr(report, verbose):
        warnings.showwarning = log_warning
        try:
            if sys.stdout is None:
                # The shell closed it. The next file to be opened would get its descriptor, and the
                # result would be written into that file.
                raise InputError("standard output is closed; redirect it to a file or /dev/null.")
            yield report
            sys.stdout.flush()
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            report.log("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader closed the pipe. Python must not fail again when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from None
        except Exception as error:
            if debug:
                traceback.print_exc()
            sys.stderr.write(f"error: {_error_line(error)}\n")
            raise typer.Exit(FAILED) from None


def _error_line(error: Exception) -> str:
    text = name_options(" ".join(str(error).split()))
    if isinstance(error, MemoryError):
        return f"not enough memory ({text or 'no details'}); use fewer rows, columns or grids."
    if isinstance(error, (GramlessError, ValueError)) and text:
        return text
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'standard output or a file'}: {error.strerror}."
    return f"{type(error).__name__}: {text} (--debug shows where)"


def _write_columns(file: IO[str], columns: dict[str, AnyArray]) -> None:
    """Write columns as CSV; an array of several numbers per row becomes several columns."""
    flat: dict[str, AnyArray] = {}
    for name, values in columns.items():
        if values.ndim == 1:
            flat[name] = values
        else:
            flat |= {f"{name}_{k + 1}": column for k, column in enumerate(values.T)}
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(flat)
    writer.writerows(zip(*(values.tolist() for values in flat.values()), strict=True))


def json_data(value: object) -> object:
    """Return a value as data for JSON, with None for NaN and infinity, and text for paths."""
    import numpy as np

    if isinstance(value, Mapping):
        return {str(key): json_data(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return json_data(value.tolist())
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_data(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def facts_table(rows: Mapping[str, object]) -> Table:
    """Return names and values as a table without borders, leaving out values that are None."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in rows.items():
        if value is not None:
            grid.add_row(name, short_text(value))
    return grid


def titled_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return a table with a title; all columns but the first are aligned to the right."""
    table = Table(title=title or None, title_justify="left")
    for j, column in enumerate(columns):
        table.add_column(column, justify="right" if j else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(short_text, row))
    return table


def short_text(value: object) -> str:
    """Return a value as a short line.

    Floats have four significant digits, integers all their digits, and lists at most eight items
    after their length.

    Examples
    --------
    >>> short_text(1234), short_text(0.123456), short_text(["a", "b"]), short_text({"read": 0.5})
    ('1,234', '0.1235', '2: a, b', 'read 0.5')
    """
    if isinstance(value, float):
        return short_number(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {short_text(item)}" for name, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        shown = ", ".join(map(str, value[:8]))
        return f"{len(value)}: {shown}{', ...' if len(value) > 8 else ''}"
    return str(value)


def short_number(value: float) -> str:
    return f"{value:.4g}"
