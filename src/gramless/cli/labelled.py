"""Streams of rows whose labels are as those that ``gramless fit`` would have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gramless.base.errors import InputError
from gramless.cli.reading import decide_task, labels_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS_LOOKED_AT = 8192
"""Whose labels decide the task, besides those held back."""


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

    from gramless.streaming.sources import MappedSource

    n_rows = min(_ROWS_LOOKED_AT, source.n_rows)
    seen = [source.held_out()[1], source.read(0, n_rows)[1]]
    y = np.concatenate(seen)
    if y.ndim > 1:
        raise InputError(f"{data} has {y.shape[1]} labels a row; one is needed.")
    kind, reason = decide_task(y, task)
    reason = f"{reason}, {len(y):,} rows looked at" if task == "auto" else reason
    if kind == "regression" or y.dtype.kind == "O":
        return kind, reason, source
    convert = _whole if labels_of(y, kind).dtype.kind == "i" else _named
    return kind, reason, MappedSource(source, convert)


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

    from gramless.preprocessing.columns import labels

    return np.array([*labels(y)], dtype=object)
