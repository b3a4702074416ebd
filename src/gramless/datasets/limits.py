"""Limits on the memory that reading a data file may take."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path

from gramless.base.errors import DataFileError, InputError
from gramless.base.formatting import format_bytes
from gramless.base.memory import free_memory


@dataclass(frozen=True)
class ReadLimits:
    """Limits on memory and size while a data file is read.

    The defaults allow every table that fits into memory. They stop hostile or damaged files of a
    few megabytes that unpack to many gigabytes.

    Parameters
    ----------
    max_line_bytes : int, default=64 MiB
        Length of a line of text, or of a row of delimited text that spans several lines.
    max_ratio : float, default=1000
        Ratio of unpacked to compressed size. It does not apply to files that unpack to less than
        ``unchecked_bytes``.
    max_memory : int, default=free memory
        Bytes for a whole table and the copies made while reading it, or for one chunk if the table
        is read in chunks.
    unchecked_bytes : int, default=1 GiB
        Unpacked size up to which ``max_ratio`` does not apply.
    block_bytes : int, default=4 MiB
        Bytes of a file that are parsed at once. Smaller blocks take less memory and more time.

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
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise InputError(f"{name} must be a positive number, got {value!r}.")

    def check_memory(self, path: Path, what: str, needed: int, remedy: str = "") -> None:
        """Raise DataFileError if ``what`` needs too much memory.

        ``remedy``, a sentence, comes before the advice to raise the limit.
        """
        if needed > self.max_memory:
            limit = format_bytes(int(self.max_memory))
            problem = f"{what} takes {format_bytes(needed)} of memory, but the limit is {limit}."
            raise self._error(path, problem, "max_memory", needed, remedy)

    def check_line(self, path: Path, n_bytes: int) -> None:
        """Raise DataFileError if a line, or a row of several lines, is too long."""
        if n_bytes > self.max_line_bytes:
            problem = f"a row is longer than {format_bytes(int(self.max_line_bytes))}."
            raise self._error(path, problem, "max_line_bytes", 8 * n_bytes)

    def check_unpacked(self, path: Path, packed: int, unpacked: int) -> None:
        """Raise DataFileError if compressed data unpacks to more than ``max_ratio`` times its size.

        Up to ``unchecked_bytes`` of unpacked data are always allowed.
        """
        if unpacked > max(self.unchecked_bytes, self.max_ratio * packed):
            problem = f"{format_bytes(packed)} unpack to more than {format_bytes(unpacked - 1)}."
            raise self._error(path, problem, "max_ratio", 8 * unpacked // packed)

    def rows_of_block(self, row_bytes: int) -> int:
        """Return the number of rows of this size that are read at once."""
        return int(max(1, min(1 << 16, self.block_bytes // max(1, row_bytes))))

    def _error(
        self, path: Path, problem: str, name: str, enough: int, remedy: str = ""
    ) -> DataFileError:
        return DataFileError(
            f"{path}: {problem} {remedy + ' ' if remedy else ''}If you trust the file, raise the "
            f"limit with limits=ReadLimits({name}={enough}), or on the command line with --limits "
            f"{name}={enough}."
        )


LIMITS = tuple(limit.name for limit in fields(ReadLimits))


def parse_limits(text: str) -> ReadLimits:
    """Return limits from the text of a command line option: ``max_memory=8e9,max_ratio=5000``."""
    values: dict[str, float] = {}
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
        values[name] = number if name == "max_ratio" else int(number)
    return ReadLimits(**values)  # type: ignore[arg-type]
