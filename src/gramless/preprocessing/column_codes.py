"""Encoding of one column of a table as columns of numbers, and checks of its type in new rows."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable
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
    describe_resemblance,
    notation_of,
)
from gramless.base.state import Json, require
from gramless.base.types import AnyArray
from gramless.portable import BOOLEAN_SPELLINGS, MISSING_WORDS, has_offset

_BOOLEAN_WORDS = frozenset(BOOLEAN_SPELLINGS) - {"0", "1"}
_BOOLEAN_NUMBERS = {"True": "1", "False": "0"}
_TEXT = "text", "category"
# The types in which a column of new rows can be read, by its type in fit.
_READABLE = {
    "number": ("number", "boolean", *_TEXT),
    "datetime": ("datetime", "zoned", *_TEXT),
    "zoned": ("datetime", "zoned", *_TEXT),
    "timedelta": ("timedelta", *_TEXT),
    "time": ("time", *_TEXT),
    "boolean": ("boolean", "number", *_TEXT),
}
# The notation of text in new rows, by the type of the column in fit. Numbers are read in the
# notation that fit detected, if any.
_TEXT_NOTATIONS = {
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
_WITH_LEADING_ZEROS = re.compile(r"0+[1-9]\d*", re.ASCII)
_SHOWN_CELLS = 3
MAX_UNKNOWN = 0.5  # share of the values of a column that may be unknown without a warning


@dataclass(frozen=True)
class ColumnCode:
    """The encoding of one column of a table as one or two columns of numbers; plain data.

    Attributes
    ----------
    name : str
    fill : float or None
        Replaces missing numbers; None for a column of categories.
    indicator : bool
        Whether a second, 0/1 column marks missing numbers.
    categories : tuple of str
        The categories in the order of their codes 0, 1, ...; ``""`` is the missing value. All other
        values get the next code.
    notation : str
        A key of ``NOTATIONS``: how numbers in text are written.
    type : str or None
        The type of the column in ``fit``, one of ``COLUMN_TYPES``. It is None in files of version
        0.2.0, for which every type of new rows is read if possible.
    """

    name: str
    fill: float | None = None
    indicator: bool = False
    categories: tuple[str, ...] = ()
    notation: str = PLAIN
    type: str | None = None

    @classmethod
    def fit(
        cls, name: str, column: PlainColumn, is_declared: bool, max_categories: int
    ) -> ColumnCode:
        """Learn the median or the categories of a column.

        If ``is_declared``, numbers and dates are categories too. Only the ``max_categories`` most
        frequent categories are kept.
        """
        if not _has_values(column):
            if is_declared or column.is_category:
                return cls(name, categories=(MISSING,), type="empty")
            return cls(name, fill=0.0, indicator=True, type="empty")
        type_, notation = column.type, PLAIN
        if is_declared and type_ != "boolean":
            type_ = "category"
        elif column.is_text:
            type_, notation = _type_of_text(name, [*labels(column.values)])
        if type_ == "boolean" or type_ in _TEXT:
            cells = [*column.category_labels()]
            if type_ == "boolean":
                cells = [*map(_boolean_label, cells)]
            counts = Counter(cells)
            ranked = sorted(counts, key=lambda label: (label != MISSING, -counts[label], label))
            return cls(name, categories=tuple(ranked[:max_categories]), type=type_)
        numbers = finite_numbers(name, column.values, notation)
        missing = np.isnan(numbers)
        fill = float(np.median(numbers[~missing])) if not missing.all() else 0.0
        return cls(name, fill, bool(missing.any()), notation=notation, type=type_)

    @classmethod
    def from_state(cls, state: dict[str, Json]) -> ColumnCode:
        """Build the code of a column from foreign data; raise ``ValueError`` if invalid."""
        column = cls(**state)
        is_number = column.fill is not None
        types = (*_TEXT_NOTATIONS, "empty") if is_number else (*_TEXT, "boolean", "empty")
        is_valid = (
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
        require(is_valid, f"bad column {str(column.name)[:40]!r}")
        return cls(**{**asdict(column), "categories": tuple(column.categories)})

    def outputs(self) -> list[tuple[str, bool]]:
        # The name of each encoded column, and whether it holds categories.
        outputs = [(self.name, self.fill is None)]
        return [*outputs, (f"{self.name} (missing)", True)] if self.indicator else outputs

    def write(self, column: PlainColumn, out: AnyArray, is_complete: bool = True) -> None:
        """Encode a column of new rows into ``out``.

        Raises InputError if the values cannot be read as the type in ``fit``. Warns if they are
        ignored because the column was empty in ``fit``, if their type makes the reading uncertain,
        or if most of them are unknown categories, unless ``fit`` left categories out
        (``is_complete`` is False).
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
        """Return the numbers of a column, NaN if missing; see :meth:`write`."""
        if self.type is None:
            return self._read(column, self.notation)
        if not _has_values(column):
            return np.full(len(column.values), np.nan)
        if column.type not in _READABLE[self.type]:
            raise self._type_error(column)
        if column.type not in _TEXT:
            self._warn_of_doubtful_type(column.type)
            return self._read(column, PLAIN)
        if self.type == "number":
            numbers = self._read(column, self.notation)
        else:
            numbers = self._read(column, _TEXT_NOTATIONS[self.type])
        if _TEXT_NOTATIONS[self.type] == DATES:
            has_zone = any(map(has_offset, labels(column.values)))
            self._warn_of_doubtful_type("zoned" if has_zone else "datetime")
        elif any(cell.strip() in _BOOLEAN_WORDS for cell in labels(column.values)):
            self._warn_of_doubtful_type("boolean")
        return numbers

    def _read(self, column: PlainColumn, notation: str) -> AnyArray:
        try:
            return finite_numbers(self.name, column.values, notation)
        except InputError:
            raise
        except ValueError as error:
            raise self._type_error(column, str(error)) from None

    def codes(self, column: PlainColumn, is_complete: bool) -> AnyArray:
        code_of, unknown = self._code_of_label(), len(self.categories)
        if self.type is None:
            cells = [*labels(column.values)]
        else:
            cells = [*column.category_labels()]
            if self.type == "boolean":
                cells = [*map(_boolean_label, cells)]
            if _has_values(column):
                self._check_category_type(column, cells)
        codes = np.fromiter((code_of.get(cell, unknown) for cell in cells), np.float64, len(cells))
        if self.type in _TEXT and is_complete and (codes == unknown).any():
            n_present = len(cells) - cells.count(MISSING)
            is_unknown = (codes == unknown).tolist()
            unseen = [cell for cell, new in zip(cells, is_unknown, strict=True) if new and cell]
            if len(unseen) > MAX_UNKNOWN * n_present:
                warn_of_unknown(f"column {self.name!r}", unseen, len(unseen) / n_present)
        return codes

    def _code_of_label(self) -> dict[str, int]:
        code_of = {category: k for k, category in enumerate(self.categories)}
        if code_of.keys() <= {MISSING, "True", "False"}:
            spellings = BOOLEAN_SPELLINGS.items()
            code_of |= {word: code_of[label] for word, label in spellings if label in code_of}
        elif self.type is not None and code_of.keys() <= {MISSING, "0", "1"}:
            numbers = ((word, _BOOLEAN_NUMBERS[label]) for word, label in BOOLEAN_SPELLINGS.items())
            code_of |= {word: code_of[number] for word, number in numbers if number in code_of}
        return code_of

    def _check_category_type(self, column: PlainColumn, cells: list[str]) -> None:
        if self.type == "boolean":
            odd = next((cell for cell in cells if cell not in ("True", "False", MISSING)), None)
            if column.type not in _READABLE["boolean"] or odd is not None:
                raise self._type_error(column, odd)
        elif column.type == "boolean":
            if not self._code_of_label().keys() & {"True", "False"}:
                raise self._type_error(column)
        elif column.type not in _TEXT:
            allowed = NOTATIONS[_TEXT_NOTATIONS[column.type]].allowed
            if not any(map(allowed.fullmatch, self._code_of_label())):
                raise self._type_error(column)
            padded_names = filter(_WITH_LEADING_ZEROS.fullmatch, self.categories)
            padded = {name.lstrip("0"): name for name in padded_names}
            stripped = next((cell for cell in cells if cell in padded), None)
            if stripped is not None:
                warnings.warn(
                    f"column {self.name!r} holds numbers such as {stripped} now, and "
                    f"{padded[stripped]!r} was a category in fit, which is another one; read the "
                    f"column as text.",
                    stacklevel=2,
                )

    def _warn_of_doubtful_type(self, now: str) -> None:
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

    def _type_error(self, column: PlainColumn, cell: str | None = None) -> InputError:
        held = "numbers" if self.type is None else COLUMN_TYPES[self.type]
        example = "" if cell is None else f", such as {cell[:40]!r}"
        remedy = _REMEDIES[self.type or "number"]
        return InputError(
            f"column {self.name!r} held {held} in fit and holds {COLUMN_TYPES[column.type]} now"
            f"{example}; {remedy}, or fit again with the column as it is now."
        )


def warn_of_unknown(where: str, cells: Iterable[str], share: float) -> None:
    """Warn that a share of the values of a column, ``cells``, are unknown categories."""
    shown = ", ".join(repr(cell[:40]) for cell in [*dict.fromkeys(cells)][:_SHOWN_CELLS])
    warnings.warn(
        f"{where}: {100 * share:.0f} % of the values are none of the categories in fit, such as "
        f"{shown}; predictions for them rest on the other columns. Check that the values are "
        f"written as in fit.",
        stacklevel=2,
    )


def _boolean_label(cell: str) -> str:
    word = cell.strip()
    return MISSING if word in MISSING_WORDS else BOOLEAN_SPELLINGS.get(word, word)


def _has_values(column: PlainColumn) -> bool:
    values = column.values
    if values.dtype == object:
        return any(cell != MISSING for cell in labels(values))
    return len(values) > 0 and (values.dtype == bool or not bool(np.isnan(values).all()))


def _type_of_text(name: str, cells: list[str]) -> tuple[str, str]:
    """Return the type of a column of text and its notation; "text" if no reading is certain."""
    present = {cell.strip() for cell in cells} - MISSING_WORDS
    if present and present <= _BOOLEAN_WORDS:
        return "boolean", PLAIN
    notation = notation_of(cells)
    if notation is None:
        resemblance = describe_resemblance(cells)
        if resemblance is not None:
            warnings.warn(
                f"column {name!r} holds text that looks like {resemblance}, and is taken as "
                f"categories. If they are numbers or dates, convert the column; if not, name it in "
                f"categorical_features, or declare it a category.",
                stacklevel=2,
            )
        return "text", PLAIN
    if notation == DATES:
        return "zoned" if any(map(has_offset, present)) else "datetime", notation
    return {TIMES: "time", DURATIONS: "timedelta"}.get(notation, "number"), notation
