"""Limits on what a data file may unfold to while it is read."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path

from gramless.base.errors import DataFileError, InputError
from gramless.base.formatting import sized
from gramless.base.memory import free_memory


@dataclass(frozen=True)
class ReadLimits:
    """How much a data file may take while it is read.

    The defaults leave room for every table that fits into memory; they stop files made or damaged
    such that a few megabytes unfold to many gigabytes.

    Parameters
    ----------
    max_line_bytes : int, default=64 MiB
        Length of a line of text, and of a row of delimited text that spans lines.
    max_ratio : float, default=1000
        Bytes that one byte of a compressed file may unpack to. Files that unpack to less than
        ``unchecked_bytes`` are not held to it.
    max_memory : int, default=the memory that is free
        Bytes that reading may take: for a whole table, the table and the copies made of it; for
        a table in chunks, one chunk.
    unchecked_bytes : int, default=1 GiB
        What every compressed file may unpack to, however small it is.
    block_bytes : int, default=4 MiB
        How much of a file is parsed at once. Smaller blocks take less memory and more time.

    Raises
    ------
    InputError
        If a limit is not a positive number.

    Examples
    --------
    >>> from gramless.datasets import ReadLimits
    >>> ReadLimits(max_memory=8_000_000_000).max_memory
    8000000000
    """

    max_line_bytes: int = 1 << 26
    max_ratio: float = 1000.0
    max_memory: int = field(default_factory=free_memory)
    unchecked_bytes: int = 1 << 30
    block_bytes: int = 1 << 22

    def __post_init__(self) -> None:
        """Refuse limits that are not positive numbers."""
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise InputError(f"{name} must be a positive number, got {value!r}.")

    def check_memory(self, path: Path, what: str, needed: int, remedy: str = "") -> None:
        """Raise DataFileError, with a sentence of remedy, if ``what`` takes too much memory."""
        if needed > self.max_memory:
            taken = f"{what} takes {sized(needed)} of memory, and {sized(int(self.max_memory))}"
            raise self._error(path, f"{taken} may be taken.", "max_memory", needed, remedy)

    def check_line(self, path: Path, n_bytes: int) -> None:
        """Raise DataFileError if a line, or a row of several lines, is too long."""
        if n_bytes > self.max_line_bytes:
            what = f"a row is longer than {sized(int(self.max_line_bytes))}."
            raise self._error(path, what, "max_line_bytes", 8 * n_bytes)

    def check_unpacked(self, path: Path, packed: int, unpacked: int) -> None:
        """Raise DataFileError if compressed data unpacks to too many times its size."""
        if unpacked > max(self.unchecked_bytes, self.max_ratio * packed):
            what = f"{sized(packed)} unpack to more than {sized(unpacked - 1)}."
            raise self._error(path, what, "max_ratio", 8 * unpacked // packed)

    def rows_of_block(self, row_bytes: int) -> int:
        """Return how many rows of so many bytes are read at once."""
        return int(max(1, min(1 << 16, self.block_bytes // max(1, row_bytes))))

    def _error(
        self, path: Path, what: str, name: str, enough: int, remedy: str = ""
    ) -> DataFileError:
        return DataFileError(
            f"{path}: {what} {remedy + ' ' if remedy else ''}If the file is to be trusted, allow "
            f"more by limits=ReadLimits({name}={enough}), on the command line --limits "
            f"{name}={enough}."
        )


LIMITS = tuple(each.name for each in fields(ReadLimits))


def parse_limits(text: str) -> ReadLimits:
    """Read limits from text, as the command line gives them: ``max_memory=8e9,max_ratio=5000``."""
    given: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, value = (word.strip() for word in part.partition("="))
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if name not in LIMITS or not 0 < number < float("inf"):
            raise InputError(
                f"limits need NAME=NUMBER, with a NAME of {', '.join(LIMITS)} and a positive "
                f"number, got {part!r}."
            )
        given[name] = number if name == "max_ratio" else int(number)
    return ReadLimits(**given)  # type: ignore[arg-type]
