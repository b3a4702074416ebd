"""Streams of rows whose labels are as those that ``gramless fit`` would have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gramless.base.errors import InputError
from gramless.cli.reading import decide_task, labels_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS_LOOKED_AT = 8192
"""Whose labels decide the task, besides those held back."""


@dataclass(frozen=True)
class Relabelled:
    """A source whose labels are brought into one form.

    Parameters
    ----------
    source : RowSource
    convert : callable
        From labels to labels.
    """

    source: Any
    convert: Callable[[NDArray[Any]], NDArray[Any]]

    @property
    def n_features(self) -> int:
        """Return the number of columns."""
        return int(self.source.n_features)

    @property
    def n_rows(self) -> int | None:
        """Return the rows of one epoch."""
        n_rows: int | None = self.source.n_rows
        return n_rows

    @property
    def names(self) -> tuple[str, ...] | None:
        """Return the names of the columns, where the file has any."""
        names: tuple[str, ...] | None = self.source.names
        return names

    def read(self, start: int, stop: int) -> tuple[Any, NDArray[Any]]:
        """Return rows of the endless order."""
        X, y = self.source.read(start, stop)
        return X, self.convert(y)

    def chunks(self) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Yield all training rows once."""
        return ((X, self.convert(y)) for X, y in self.source.chunks())

    def held_out(self) -> tuple[Any, NDArray[Any]]:
        """Return the rows kept back."""
        X, y = self.source.held_out()
        return X, self.convert(y)


def labelled(source: Any, task: str, data: Path) -> tuple[str, str, Any]:
    """Decide the task by some rows, and give a source the labels that ``fit`` would have.

    Parameters
    ----------
    source : RowSource
    task : {"auto", "classification", "regression"}
    data : Path
        For messages.

    Returns
    -------
    task, reason : str
    source : RowSource
        Classes that are whole numbers as integers, other numbers as text.

    Raises
    ------
    InputError
        If there are several labels a row, or text where numbers are needed.
    """
    import numpy as np

    seen = [source.held_out()[1], source.read(0, _ROWS_LOOKED_AT)[1]]
    y = np.concatenate(seen)
    if y.ndim > 1:
        raise InputError(f"{data} has {y.shape[1]} labels a row; one is needed.")
    kind, reason = decide_task(y, task)
    reason = f"{reason}, {len(y):,} rows looked at" if task == "auto" else reason
    if kind == "regression" or y.dtype.kind == "O":
        return kind, reason, source
    convert = _whole if labels_of(y, kind).dtype.kind == "i" else _named
    return kind, reason, Relabelled(source, convert)


def _whole(y: NDArray[Any]) -> NDArray[Any]:
    found = labels_of(y, "classification")
    if found.dtype.kind != "i":
        odd = y[y % 1 != 0][0]
        raise InputError(
            f"the target holds {odd:g} where others are whole numbers; if it measures something, "
            "ask for --task regression."
        )
    return found


def _named(y: NDArray[Any]) -> NDArray[Any]:
    """Return numbers that are no whole ones as text, also where all of a part are."""
    import numpy as np

    from gramless.features.columns import labels

    return np.array([*labels(y)], dtype=object)
