"""One column of a table as columns of numbers, and which columns of new rows can stand for it."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from gramless.base.columns import (
    COLUMN_TYPES,
    MISSING,
    PlainColumn,
    finite_numbers,
    labels,
)
from gramless.base.errors import InputError
from gramless.base.notation import (
    DATES,
    DURATIONS,
    NOTATIONS,
    PLAIN,
    TIMES,
    notation_of,
    seems_to_hold,
)
from gramless.base.state import Json, require
from gramless.base.types import AnyArray, BoolArray
from gramless.portable import BOOLEAN_SPELLINGS, MISSING_WORDS, has_offset

_BOOLEAN_WORDS = frozenset(BOOLEAN_SPELLINGS) - {"0", "1"}
_BOOLEAN_NUMBERS = {"True": "1", "False": "0"}
_TEXT = "text", "category"
_READABLE = {
    "number": ("number", "boolean", *_TEXT),
    "datetime": ("datetime", "zoned", *_TEXT),
    "zoned": ("datetime", "zoned", *_TEXT),
    "timedelta": ("timedelta", *_TEXT),
    "time": ("time", *_TEXT),
    "boolean": ("boolean", "number", *_TEXT),
}
"""Types of new columns that can be read as the type in fit."""
_WRITTEN = {
    "number": PLAIN,
    "datetime": DATES,
    "zoned": DATES,
    "timedelta": DURATIONS,
    "time": TIMES,
}
_REMEDIES = {
    "number": "give numbers",
    "datetime": "give datetimes, or text such as '2024-01-31 12:30:00'",
    "zoned": "give datetimes, or text such as '2024-01-31 12:30:00+00:00'",
    "timedelta": "give timedeltas, or text such as '1 days 02:00:00' or 'P1DT2H'",
    "time": "give times of day, or text such as '12:30:00'",
    "boolean": "give booleans, 0 and 1, or the words true and false",
    "text": "give text",
    "category": "give the same kind of categories",
}
_ZEROS = re.compile(r"0+[1-9]\d*", re.ASCII)
_SHOWN = 3
MOST_UNKNOWN = 0.5  # share of the values of a column that may be unknown without a warning


@dataclass(frozen=True)
class ColumnCode:
    """How one column of a table becomes columns of numbers; plain data.

    ``fill`` replaces missing numbers and is None for a column of categories. With ``indicator`` a
    0/1 column follows that marks missing numbers. ``categories`` are in the order of their codes 0,
    1, ...; ``""`` is the missing value, and the code after the last is for all other values.
    ``notation`` is how numbers are written where they come as text. ``type`` is what the column
    held in ``fit``, one of ``COLUMN_TYPES``; None in files of version 0.2.0, for which any type is
    read as well as it can be.
    """

    name: str
    fill: float | None = None
    indicator: bool = False
    categories: tuple[str, ...] = ()
    notation: str = PLAIN
    type: str | None = None

    @classmethod
    def fit(cls, name: str, column: PlainColumn, is_named: bool, most: int) -> ColumnCode:
        """Learn the median or the categories of a column.

        If ``is_named``, numbers and dates are categories too. The ``most`` frequent are kept.
        """
        is_category = is_named or column.is_category
        if not _has_values(column):
            if is_category:
                return cls(name, categories=(MISSING,), type="empty")
            return cls(name, fill=0.0, indicator=True, type="empty")
        if is_named and column.type != "boolean":
            return _with_categories(name, "category", [*column.category_labels()], most)
        type_, notation = column.type, PLAIN
        if column.is_text:
            type_, notation = _type_of_text(name, [*labels(column.values)])
        if type_ == "boolean":
            cells = [*map(_boolean_label, column.category_labels())]
            return _with_categories(name, type_, cells, most)
        if type_ in _TEXT:
            return _with_categories(name, type_, [*column.category_labels()], most)
        numbers = finite_numbers(name, column.values, notation)
        missing = np.isnan(numbers)
        fill = float(np.median(numbers[~missing])) if not missing.all() else 0.0
        return cls(name, fill, bool(missing.any()), notation=notation, type=type_)

    @classmethod
    def from_state(cls, state: dict[str, Json]) -> ColumnCode:
        """Build the code of a column from foreign data, which may hold any types."""
        column = cls(**state)
        is_number = column.fill is not None
        types = (*_WRITTEN, "empty") if is_number else (*_TEXT, "boolean", "empty")
        fits = (
            isinstance(column.name, str)
            and isinstance(column.indicator, bool)
            and isinstance(column.categories, (list, tuple))
            and all(isinstance(category, str) for category in column.categories)
            and len(set(column.categories)) == len(column.categories)
            and (not is_number or (isinstance(column.fill, float) and np.isfinite(column.fill)))
            and is_number != bool(column.categories)
            and column.notation in NOTATIONS
            and (column.type is None or column.type in types)
        )
        require(fits, f"bad column {str(column.name)[:40]!r}")
        return cls(**{**asdict(column), "categories": tuple(column.categories)})

    def outputs(self) -> list[tuple[str, bool]]:
        """Return the name of each column written, and whether it holds categories."""
        first = [(self.name, self.fill is None)]
        return [*first, (f"{self.name} (missing)", True)] if self.indicator else first

    def write(self, column: PlainColumn, out: AnyArray, is_complete: bool = True) -> None:
        """Write a column of new rows into ``out``.

        Raises InputError if its values cannot be read as those of ``fit``. Warns if most of them
        are unknown categories, unless categories were left out in ``fit`` (not ``is_complete``).
        """
        if self.type == "empty":
            if _has_values(column):
                warnings.warn(
                    f"column {self.name!r} held no values in fit and holds "
                    f"{COLUMN_TYPES[column.type]} now, which are treated as missing; fit again "
                    f"with these values, or drop the column.",
                    stacklevel=2,
                )
            out[:, 0], out[:, 1:] = 0.0, 1.0
        elif self.fill is None:
            out[:, 0] = self.codes(column, is_complete)
        else:
            numbers = self.numbers(column)
            missing = np.isnan(numbers)
            out[:, 0] = np.where(missing, self.fill, numbers)
            if self.indicator:
                out[:, 1] = missing

    def numbers(self, column: PlainColumn) -> AnyArray:
        """Return the numbers of a column, NaN where missing; see :meth:`write`."""
        if self.type is None:
            return self._read(column, self.notation)
        if not _has_values(column):
            return np.full(len(column.values), np.nan)
        if column.type not in _READABLE[self.type]:
            raise self._refused(column)
        if column.type not in _TEXT:
            self._warn_of_doubt(column.type)
            return self._read(column, PLAIN)
        numbers = self._read(column, self.notation if self.type == "number" else self._written)
        if self._written == DATES:
            has_zone = any(map(has_offset, labels(column.values)))
            self._warn_of_doubt("zoned" if has_zone else "datetime")
        elif any(cell.strip() in _BOOLEAN_WORDS for cell in labels(column.values)):
            self._warn_of_doubt("boolean")
        return numbers

    def _read(self, column: PlainColumn, notation: str) -> AnyArray:
        try:
            return finite_numbers(self.name, column.values, notation)
        except InputError:
            raise
        except ValueError as fault:
            raise self._refused(column, str(fault)) from None

    @property
    def _written(self) -> str:
        """The notation of text that stands for the values of the column."""
        return PLAIN if self.type is None else _WRITTEN[self.type]

    def codes(self, column: PlainColumn, is_complete: bool) -> AnyArray:
        """Return the numbers of the categories of a column; see :meth:`write`."""
        place, unknown = self._places(), len(self.categories)
        if self.type is None:
            cells = [*labels(column.values)]
        else:
            cells = [*column.category_labels()]
            if self.type == "boolean":
                cells = [*map(_boolean_label, cells)]
            if _has_values(column):
                self._check_categories(column, cells)
        codes = np.fromiter((place.get(cell, unknown) for cell in cells), np.float64, len(cells))
        if self.type in _TEXT and is_complete and (codes == unknown).any():
            self._warn_of_unknown(cells, codes == unknown)
        return codes

    def _places(self) -> dict[str, int]:
        places = {category: k for k, category in enumerate(self.categories)}
        if places.keys() <= {MISSING, "True", "False"}:
            spelled = BOOLEAN_SPELLINGS.items()
            places |= {word: places[label] for word, label in spelled if label in places}
        elif self.type is not None and places.keys() <= {MISSING, "0", "1"}:
            numbered = (
                (word, _BOOLEAN_NUMBERS[label]) for word, label in BOOLEAN_SPELLINGS.items()
            )
            places |= {word: places[number] for word, number in numbered if number in places}
        return places

    def _check_categories(self, column: PlainColumn, cells: list[str]) -> None:
        """Raise InputError unless a column can hold the categories of ``fit``."""
        if self.type == "boolean":
            odd = next((cell for cell in cells if cell not in ("True", "False", MISSING)), None)
            if column.type not in _READABLE["boolean"] or odd is not None:
                raise self._refused(column, odd)
        elif column.type == "boolean":
            if not self._places().keys() & {"True", "False"}:
                raise self._refused(column)
        elif column.type not in _TEXT:
            allowed = NOTATIONS[_WRITTEN[column.type]].allowed
            if not any(map(allowed.fullmatch, self._places())):
                raise self._refused(column)
            self._warn_of_lost_zeros(cells)

    def _warn_of_lost_zeros(self, cells: list[str]) -> None:
        """Warn of numbers that are categories in fit but for leading zeros."""
        without = {name.lstrip("0"): name for name in self.categories if _ZEROS.fullmatch(name)}
        odd = next((cell for cell in cells if cell in without), None)
        if odd is not None:
            warnings.warn(
                f"column {self.name!r} holds numbers such as {odd} now, and {without[odd]!r} was a "
                f"category in fit, which is another one; read the column as text.",
                stacklevel=2,
            )

    def _warn_of_unknown(self, cells: list[str], unknown: BoolArray) -> None:
        n_present = len(cells) - cells.count(MISSING)
        odd = [cell for cell, is_unknown in zip(cells, unknown, strict=True) if is_unknown and cell]
        if len(odd) > MOST_UNKNOWN * n_present:
            warn_of_unknown(f"column {self.name!r}", odd, len(odd) / n_present)

    def _warn_of_doubt(self, now: str) -> None:
        """Warn if values of another type can be read, but hardly were meant so."""
        assert self.type is not None
        if {self.type, now} == {"datetime", "zoned"}:
            what = "those without a time zone count as UTC"
        elif self.type == "number" and now == "boolean" and not 0 <= (self.fill or 0) <= 1:
            what = "they are read as 1 and 0"
        else:
            return
        warnings.warn(
            f"column {self.name!r} held {COLUMN_TYPES[self.type]} in fit and holds "
            f"{COLUMN_TYPES[now]} now; {what}.",
            stacklevel=2,
        )

    def _refused(self, column: PlainColumn, cell: str | None = None) -> InputError:
        held = "numbers" if self.type is None else COLUMN_TYPES[self.type]
        example = "" if cell is None else f", such as {cell[:40]!r}"
        remedy = _REMEDIES[self.type or "number"]
        return InputError(
            f"column {self.name!r} held {held} in fit and holds {COLUMN_TYPES[column.type]} now"
            f"{example}; {remedy}, or fit again with the column as it is now."
        )


def warn_of_unknown(where: str, cells: Iterable[str], share: float) -> None:
    """Warn that a share of the values of a column, ``cells``, are unknown categories."""
    shown = ", ".join(repr(cell[:40]) for cell in [*dict.fromkeys(cells)][:_SHOWN])
    warnings.warn(
        f"{where}: {100 * share:.0f} % of the values are none of the categories in fit, such as "
        f"{shown}; predictions for them rest on the other columns. Check that the values are "
        f"written as in fit.",
        stacklevel=2,
    )


def _with_categories(name: str, type_: str, cells: Sequence[str], most: int) -> ColumnCode:
    counts = Counter(cells)
    ranked = sorted(counts, key=lambda label: (label != MISSING, -counts[label], label))
    return ColumnCode(name, categories=tuple(ranked[:most]), type=type_)


def _boolean_label(cell: str) -> str:
    word = cell.strip()
    return MISSING if word in MISSING_WORDS else BOOLEAN_SPELLINGS.get(word, word)


def _has_values(column: PlainColumn) -> bool:
    """Return whether some value of a column is not missing."""
    values = column.values
    if values.dtype == object:
        return any(cell != MISSING for cell in labels(values))
    return len(values) > 0 and (values.dtype == bool or not bool(np.isnan(values).all()))


def _type_of_text(name: str, cells: list[str]) -> tuple[str, str]:
    """Return the type of a column of text and how it is written, if that is certain."""
    present = {cell.strip() for cell in cells} - MISSING_WORDS
    if present and present <= _BOOLEAN_WORDS:
        return "boolean", PLAIN
    notation = notation_of(cells)
    if notation is None:
        doubt = seems_to_hold(cells)
        if doubt is not None:
            warnings.warn(
                f"column {name!r} holds text that looks like {doubt}, and is taken as categories. "
                f"If they are numbers or dates, convert the column; if not, name it in "
                f"categorical_features, or declare it a category.",
                stacklevel=2,
            )
        return "text", PLAIN
    if notation == DATES:
        return "zoned" if any(map(has_offset, present)) else "datetime", notation
    return {TIMES: "time", DURATIONS: "timedelta"}.get(notation, "number"), notation
