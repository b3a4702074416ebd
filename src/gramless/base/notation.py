"""Notations of numbers and dates in text, and detection of the notation of a column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from gramless.base.types import FloatArray
from gramless.portable import DATE, MISSING_WORDS, seconds_of_date

PLAIN = "1234.5"  # as in programming languages
# Notations of dates and datetimes, of times of day, and of durations.
DATES, TIMES, DURATIONS = "2020-01-31", "12:30:00", "P1DT2H"

_FEW_VALUES = 20  # with at most this many distinct whole numbers, a column may well hold codes
# If there are numbers below 1,000 too, this many cells such as 1,234 show that the comma groups
# thousands.
_MIN_GROUPED = 10
_MAX_EXAMINED = 1000  # number of distinct cells of a column that are compared with the patterns
_MAX_UNITS = 3  # a column with more different units or signs is text
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
_FOREIGN_DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}(\D.*)?", re.ASCII)
_WITH_UNIT = re.compile(
    r"([^\w\s]{0,2}|[A-Za-z]{3} ) ?[+-]?\d[\d.,' \u00a0\u202f]*(\D{0,8})", re.ASCII
)


@dataclass(frozen=True)
class Notation:
    """One way to write numbers or dates: the pattern of cells, and their values."""

    allowed: re.Pattern[str]
    value: Callable[[str], float]

    @classmethod
    def of_numbers(cls, group: str, decimal: str) -> Notation:
        """Return the notation with this decimal mark and these thousands separators, if any."""
        part = f"[{re.escape(group)}]"
        whole = rf"(?:\d+|[1-9]\d{{0,2}}(?:{part}\d{{3}})+)" if group else r"\d+"
        mark = re.escape(decimal)
        number = rf"[+-]?(?:{whole}(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?"
        to_plain = {ord(mark): None for mark in group} | {ord(decimal): "."}
        return cls(re.compile(number, re.ASCII), lambda cell: float(cell.translate(to_plain)))

    def read(self, cell: str) -> float:
        """Return the value of a cell; dates are in seconds since 1970.

        Raises ``ValueError`` if the cell is not in this notation.
        """
        if self.allowed.fullmatch(cell) is None:
            raise ValueError(cell)
        return self.value(cell)


_PART = r"(?:(-?\d+){})?"
# Such as P1DT2H; pandas writes minus one hour as P-1DT23H0M0S.
_ISO_DURATION = re.compile(
    r"([+-]?)P(?=[-\dT])" + _PART.format("W") + _PART.format("D") + r"(?:T(?=[-\d])"
    rf"{_PART.format('H')}{_PART.format('M')}(?:(-?\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)
# Durations as in ISO 8601, as pandas and Python write them ("1 days 02:00:00", "1 day, 2:00:00"),
# or a clock alone.
_CLOCK = r"[+-]?\d+:[0-5]\d:[0-5]\d(?:\.\d{1,9})?"
_DURATION = re.compile(
    rf"{_ISO_DURATION.pattern}|[+-]?\d+ days?(?:,? {_CLOCK})?|{_CLOCK}", re.ASCII
)
_SECONDS_OF_UNITS = 604800, 86400, 3600, 60, 1
_NAMES_UNIT = re.compile(r"T|day")


def _duration(cell: str) -> float:
    parts = _ISO_DURATION.fullmatch(cell)
    if parts is not None:
        sign, *counts = parts.groups(default="0")
        seconds = sum(
            unit * float(count) for unit, count in zip(_SECONDS_OF_UNITS, counts, strict=True)
        )
        return -seconds if sign == "-" else seconds
    days, has_days, clock = cell.rpartition("day")
    # In "-1 days +02:00:00", the first sign refers to the days only.
    of_days = 86400.0 * int(days) if has_days else 0.0
    hours, _, rest = clock.lstrip("s, ").partition(":")
    minutes, _, seconds_of = rest.partition(":")
    of_clock = 3600 * abs(int(hours or 0)) + 60 * int(minutes or 0) + float(seconds_of or 0)
    return of_days - of_clock if hours.startswith("-") else of_days + of_clock


# The keys are the names in model files. Dates are those of ISO 8601.
NOTATIONS = {
    PLAIN: Notation.of_numbers("", "."),
    "1,234.5": Notation.of_numbers(",", "."),
    "1.234,5": Notation.of_numbers(".", ","),
    "1 234.5": Notation.of_numbers(" \u00a0\u202f", "."),
    "1 234,5": Notation.of_numbers(" \u00a0\u202f", ","),
    "1'234.5": Notation.of_numbers("'\u2019", "."),
    DATES: Notation(DATE, seconds_of_date),
    TIMES: Notation(
        re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?", re.ASCII), _duration
    ),
    DURATIONS: Notation(_DURATION, _duration),
}

NOTATIONS_OF_TIMES = DATES, TIMES, DURATIONS


def notation_of(cells: Iterable[str]) -> str | None:
    """Return the notation of the cells of a column, or None if no single reading is certain.

    The result is None if all cells are missing, or if a cell is neither a number nor a date. It is
    None if two notations read the same cells differently, such as 1,234, unless at least ten cells
    contain a comma and another is a whole number below 1,000. It is also None if the cells may be
    codes: if all are digits with or without a sign, if at most 20 distinct values are all whole
    numbers, or if all are durations such as P1D or 100:00:00 without a time or the word "day".

    Examples
    --------
    >>> notation_of(["0,5", "12", ""]), notation_of(["1,234", "5,678"]), notation_of(["1", "2"])
    ('1.234,5', None, None)
    """
    present = dict.fromkeys(cell.strip() for cell in cells)
    filled = [cell for cell in present if cell not in MISSING_WORDS]
    possible = dict(NOTATIONS)
    read: dict[str, list[float]] = {name: [] for name in possible}
    for cell in filled:
        for name, notation in list(possible.items()):
            try:
                read[name].append(notation.read(cell))
            except ValueError:
                del possible[name]
        if not possible:
            return None
    if not filled or all(map(_WHOLE.fullmatch, filled)):
        return None
    if PLAIN in possible:
        whole = all(value.is_integer() for value in read[PLAIN])
        return None if whole and len(filled) <= _FEW_VALUES else PLAIN
    if "1,234.5" in possible:
        n_grouped = sum("," in cell for cell in filled)
        has_small = any(_WHOLE.fullmatch(cell) and 0 < abs(int(cell)) < 1000 for cell in filled)
        if has_small and n_grouped >= _MIN_GROUPED:
            return "1,234.5"
    if DURATIONS in possible and TIMES not in possible and not any(map(_NAMES_UNIT.search, filled)):
        # Cells such as 100:00:00 or P1D may be codes.
        return None
    first, *others = possible
    return first if all(read[name] == read[first] for name in others) else None


def read_cells(cells: Iterable[str], notation: str) -> FloatArray:
    """Return the values of cells in a notation, NaN for missing ones.

    Raises ``ValueError`` with the first cell that is not in this notation.
    """
    read = NOTATIONS[notation].read
    stripped = (cell.strip() for cell in cells)
    return np.array([np.nan if cell in MISSING_WORDS else read(cell) for cell in stripped])


def describe_resemblance(cells: Iterable[str]) -> str | None:
    """Return a description of text that resembles numbers or dates, with an example.

    The result is None if at most half of the distinct cells resemble them in the same way, or if
    there are at most 20 distinct cells, which are categories.

    Examples
    --------
    >>> describe_resemblance(f"{k} EUR" for k in range(50))
    "numbers beside other text, such as '0 EUR'"
    """
    present = (cell.strip() for cell in cells)
    distinct = dict.fromkeys(islice((cell for cell in present if cell not in MISSING_WORDS), 10**5))
    examined = list(islice(distinct, _MAX_EXAMINED))
    if len(examined) <= _FEW_VALUES:
        return None
    for description, pattern in (
        ("whole numbers", _WHOLE),
        ("numbers with a comma or point that may be a decimal or a thousands separator", _GROUPED),
        ("dates", _FOREIGN_DATE),
    ):
        matches = [cell for cell in examined if pattern.fullmatch(cell)]
        if 2 * len(matches) > len(examined):
            return f"{description}, such as {matches[0]!r}"
    units = [match.groups() for cell in examined if (match := _WITH_UNIT.fullmatch(cell))]
    if 2 * len(units) > len(examined) and len(set(units)) <= _MAX_UNITS:
        plain = NOTATIONS[PLAIN].allowed
        odd = next((cell for cell in examined if not plain.fullmatch(cell)), examined[0])
        return f"numbers beside other text, such as {odd[:40]!r}"
    return None
