"""Data frames and tables of mixed columns into one matrix of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.features.columns import (
    MISSING,
    Values,
    finite_numbers,
    is_frame,
    labels,
    named_columns,
)

__all__ = ["MAX_CATEGORIES", "ColumnCode", "TableEncoder", "is_frame"]

MAX_CATEGORIES = 255

_NAMES_SHOWN = 10
_DTYPES: dict[str, np.dtype[Any]] = {"float32": np.dtype("f4"), "float64": np.dtype("f8")}


@dataclass(frozen=True)
class ColumnCode:
    """How one column of a table becomes columns of numbers; plain data.

    Parameters
    ----------
    name : str
    fill : float, default=None
        What stands for a missing number; None for a column of categories.
    indicator : bool, default=False
        Whether a 0/1 column follows that says where a number was missing.
    categories : tuple of str, default=()
        One 0/1 column each; ``""`` is the missing value.
    other : bool, default=False
        Whether a last 0/1 column stands for all further categories.
    """

    name: str
    fill: float | None = None
    indicator: bool = False
    categories: tuple[str, ...] = ()
    other: bool = False

    def output_names(self) -> list[str]:
        """Return one name a column written."""
        if self.fill is not None:
            return [self.name, f"{self.name} (missing)"] if self.indicator else [self.name]
        names = [f"{self.name}={category or '(missing)'}" for category in self.categories]
        return [*names, f"{self.name}=(other)"] if self.other else names

    def write(self, values: Values, out: NDArray[Any]) -> None:
        """Write the plain values of the column into ``out``, which holds zeros."""
        if self.fill is not None:
            found = finite_numbers(self.name, values)
            missing = np.isnan(found)
            out[:, 0] = np.where(missing, self.fill, found)
            if self.indicator:
                out[:, 1] = missing
            return
        place = {category: j for j, category in enumerate(self.categories)}
        unknown = len(self.categories) if self.other else -1
        found = np.fromiter((place.get(v, unknown) for v in labels(values)), np.intp, len(out))
        rows = np.flatnonzero(found >= 0)
        out[rows, found[rows]] = 1.0


class TableEncoder:
    """Turns a table of mixed columns into a matrix of numbers.

    Numbers and booleans pass as they are, dates and durations as seconds. A
    missing number becomes the median; if any was missing in ``fit``, a 0/1
    column says where. Text, categories and other objects become one 0/1
    column a category, with the missing value as a category of its own. Of more
    than 255 categories the most frequent are kept, and all others, those never
    seen included, share one column; with fewer, a category never seen is all
    zeros.

    Attributes
    ----------
    columns : tuple of ColumnCode
        The columns of the table, in the order of ``fit``.
    dtype : dtype
        float32 if that holds every column of numbers exactly, else float64.

    Notes
    -----
    The matrix takes 4 or 8 bytes a row and output column: many categories are
    costly. Neither pandas nor polars is imported.

    Examples
    --------
    >>> from gramless.datasets import Table
    >>> age, pet = np.array([3.0, np.nan, 5.0]), np.array(["cat", "", "dog"], object)
    >>> table = Table({"age": age, "pet": pet})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.output_names
    ('age', 'age (missing)', 'pet=(missing)', 'pet=cat', 'pet=dog')
    >>> encoder.transform(table)
    array([[3., 0., 0., 1., 0.],
           [4., 1., 1., 0., 0.],
           [5., 0., 0., 0., 1.]])
    """

    columns: tuple[ColumnCode, ...] = ()
    dtype: np.dtype[Any] = np.dtype(np.float64)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that ``transform`` asks for."""
        return tuple(column.name for column in self.columns)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the columns that ``transform`` returns."""
        return tuple(name for column in self.columns for name in column.output_names())

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of the columns that are taken as categories."""
        return tuple(column.name for column in self.columns if column.fill is None)

    def fit(self, X: Any) -> TableEncoder:
        """Learn the medians and the categories.

        Parameters
        ----------
        X : pandas or polars data frame, or gramless.datasets.Table

        Returns
        -------
        TableEncoder

        Raises
        ------
        InputError
            If ``X`` is no table, two columns have one name, there are no rows
            or columns, or a column holds infinity or objects that are no
            categories.
        """
        codes: list[ColumnCode] = []
        dtypes = [np.dtype(np.float32)]
        for name, read in named_columns(X).items():
            values, categorical = read()
            if not len(values):
                raise InputError(f"TableEncoder: column {name!r} has no rows; give at least 1.")
            codes.append(_learn_text(name, values) if categorical else _learn_number(name, values))
            if not categorical:
                dtypes.append(values.dtype)
        if not codes:
            raise InputError("TableEncoder: the table has no columns; give at least 1.")
        self.columns = tuple(codes)
        self.dtype = np.result_type(*dtypes)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Encode rows.

        Parameters
        ----------
        X : data frame or Table
            The columns of ``fit`` in any order, matched by name.

        Returns
        -------
        array (n_samples, n_outputs)
            In Fortran order: each input is contiguous.

        Raises
        ------
        InputError
            If ``X`` is no table, columns are missing or unknown, or a column
            of numbers holds text or infinity.
        """
        found = named_columns(X)
        self._check_names(list(found))
        out = np.zeros((int(X.shape[0]), len(self.output_names)), self.dtype, order="F")
        start = 0
        for column in self.columns:
            values, _ = found[column.name]()
            stop = start + len(column.output_names())
            column.write(values, out[:, start:stop])
            start = stop
        return out

    def fit_transform(self, X: Any) -> NDArray[Any]:
        """Learn from the rows and encode them."""
        return self.fit(X).transform(X)

    def to_config(self) -> dict[str, Any]:
        """Describe the encoder in plain data, ready for JSON.

        Returns
        -------
        dict
            :meth:`from_config` undoes it.
        """
        plain = [{**asdict(c), "categories": list(c.categories)} for c in self.columns]
        return {"dtype": self.dtype.name, "columns": plain}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> TableEncoder:
        """Build an encoder from what :meth:`to_config` returned.

        Parameters
        ----------
        config : mapping

        Returns
        -------
        TableEncoder

        Raises
        ------
        InputError
            If the data do not describe an encoder.

        Examples
        --------
        >>> config = {"dtype": "float32", "columns": [{"name": "age", "fill": 4.0}]}
        >>> TableEncoder.from_config(config).output_names
        ('age',)
        """
        encoder = cls()
        try:
            encoder.columns = tuple(_checked(ColumnCode(**c)) for c in config["columns"])
            encoder.dtype = _DTYPES[config["dtype"]]
        except (TypeError, KeyError, ValueError) as fault:
            raise InputError(f"These data describe no TableEncoder ({fault!r}).") from fault
        if not encoder.columns or len(set(encoder.names)) != len(encoder.columns):
            raise InputError("These data describe no TableEncoder (names missing or repeated).")
        return encoder

    def _check_names(self, found: Sequence[str]) -> None:
        known, given = set(self.names), set(found)
        missing = [name for name in self.names if name not in given]
        unknown = [name for name in found if name not in known]
        if not missing and not unknown:
            return
        parts = []
        if missing:
            parts.append(f"missing now: {_listing(missing)}")
        if unknown:
            parts.append(f"not seen in fit: {_listing(unknown)}")
        raise InputError(
            f"TableEncoder: the columns must be those of fit, in any order; {'; '.join(parts)}. "
            "Select the same columns."
        )


def _learn_text(name: str, values: Values) -> ColumnCode:
    counts = Counter(labels(values))
    ranked = sorted(counts, key=lambda label: (label != MISSING, -counts[label], label))
    kept = tuple(sorted(ranked[:MAX_CATEGORIES]))
    return ColumnCode(name, categories=kept, other=len(ranked) > len(kept))


def _learn_number(name: str, values: Values) -> ColumnCode:
    found = finite_numbers(name, values)
    missing = np.isnan(found)
    present = found[~missing]
    fill = float(np.median(present)) if len(present) else 0.0
    return ColumnCode(name, fill=fill, indicator=bool(missing.any()))


def _checked(column: ColumnCode) -> ColumnCode:
    """Check a column built from foreign data, whose types nothing guarantees."""
    number = column.fill is not None
    fits = (
        isinstance(column.name, str)
        and isinstance(column.indicator, bool)
        and isinstance(column.other, bool)
        and isinstance(column.categories, (list, tuple))
        and all(isinstance(category, str) for category in column.categories)
        and len(set(column.categories)) == len(column.categories)
        and (not number or (isinstance(column.fill, float) and np.isfinite(column.fill)))
        and number != bool(column.categories)
    )
    if not fits:
        raise ValueError(f"bad column {str(column.name)[:40]!r}")
    return ColumnCode(**{**asdict(column), "categories": tuple(column.categories)})


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
