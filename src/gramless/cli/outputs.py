"""Checks that outputs replace no input, and replace other files only with --force."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import typer

from gramless.base.errors import InputError
from gramless.base.files import reason_of

Kind = Literal["table", "model", "page", "picture"]

# Bytes near the beginning or end of files that gramless wrote. Tables have none, so they are never
# replaced without --force.
_SIGNATURES: dict[Kind, tuple[bytes, ...]] = {
    "model": (b'{"__metadata__":{"format":"gramless"',),
    "page": (b'<meta name="generator" content="gramless',),
    "picture": (
        b"tEXtSoftware\0gramless",
        b"<dc:title>gramless</dc:title>",
        b"/Creator (gramless)",
    ),
    "table": (),
}
_SIGNATURE_RANGE = 4096  # bytes at the beginning and at the end that are searched for a signature
_STREAM_PREFIXES = ("/dev/std", "/dev/fd/", "/proc/")


class Output(NamedTuple):
    option: str
    path: Path | None
    kind: Kind


def check_outputs(
    outputs: Sequence[Output], inputs: Mapping[str, Path | None], force: bool
) -> None:
    """Raise InputError if an output cannot be written or would replace a file of other origin.

    A file that gramless wrote as an output of the same kind may be replaced, except a table, which
    contains no signature. At a terminal the command asks before it replaces another file. ``force``
    allows all of this, but never to replace an input or another output. ``inputs`` has the files
    that the command reads, by their description in messages.
    """
    others = {description: path for description, path in inputs.items() if path is not None}
    for option, path, kind in outputs:
        if path is None:
            continue
        name = f"{option} {path}"
        try:
            _check_path(name, path, kind, others)
            if not force and path.is_file() and not _is_written_by_gramless(path, kind):
                if not (sys.stdin.isatty() and sys.stderr.isatty()):
                    raise InputError(f"{name} exists; name another file, or use --force.")
                typer.confirm(f"{path} exists. Replace it?", abort=True, err=True)
        except OSError as error:
            raise InputError(
                f"{name} cannot be written ({reason_of(error)}); name another file."
            ) from error
        others[f"the file of {option}"] = path


def _check_path(name: str, path: Path, kind: Kind, others: Mapping[str, Path]) -> None:
    folder = path.resolve().parent
    if not folder.is_dir():
        raise InputError(f"{name}: there is no folder {folder}; create it.")
    same = [
        description
        for description, other in others.items()
        if path.resolve() == other.resolve()
        or (os.path.exists(path) and os.path.exists(other) and path.samefile(other))
    ]
    if path.is_dir() or same:
        raise InputError(f"{name} is {' and '.join(same) or 'a folder'}; name another file.")
    is_stream = str(path).startswith(_STREAM_PREFIXES) or (path.exists() and not path.is_file())
    if kind != "table" and is_stream:
        raise InputError(f"{name} is a pipe or a device; a {kind} needs a file.")
    if not os.access(folder, os.W_OK) and not is_stream:
        raise InputError(f"{name}: the folder {folder} is not writable; name another.")


def _is_written_by_gramless(path: Path, kind: Kind) -> bool:
    with open(path, "rb") as file:
        head = file.read(_SIGNATURE_RANGE)
        file.seek(max(0, path.stat().st_size - _SIGNATURE_RANGE))
        ends = head + file.read(_SIGNATURE_RANGE)
    return any(signature in ends for signature in _SIGNATURES[kind])
