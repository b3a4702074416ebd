"""Columns of new rows with another type or form than in the fit: every pair of types and forms."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
import warnings
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from gramless import KernelRegressor
from gramless.base.errors import InputError
from gramless.datasets import read_table

PROMISE = (
    "if a column of new rows has another type or form than in the fit, the predictions are right, "
    "or an error names the column and both types, or a warning names the column"
)
SECONDS = 60.0
MEMORY = 2 << 30
ENVIRONMENTS: dict[str, dict[str, str]] = {"plain": {}}

START = dt.datetime(2024, 1, 30, 6, 30)
_STEPS = [dt.timedelta(hours=7 * k * k + k) for k in range(4)]
# The four values of a column of each type, on which the targets depend.
LEVELS: dict[str, list[Any]] = {
    "number": [1.5, 2.5, 4.0, 7.5],
    "whole": [1, 2, 3, 4],
    "bits": [0, 1, 0, 1],
    "decimal": [Decimal("1.5"), Decimal("2.5"), Decimal("4.0"), Decimal("7.5")],
    "digits": ["0", "1", "2", "3"],
    "text": ["red", "blue", "green", "black"],
    "category": ["red", "blue", "green", "black"],
    "boolean": [False, True, False, True],
    "datetime": [START + step for step in _STEPS],
    "date": [dt.date(2024, 1, 30) + dt.timedelta(days=k) for k in range(4)],
    "zoned": [(START + step).replace(tzinfo=dt.UTC) for step in _STEPS],
    "timedelta": [dt.timedelta(minutes=1) + step for step in _STEPS],
    "time": [dt.time(0, 0, 1), dt.time(6, 30), dt.time(12), dt.time(23, 59, 59)],
    "empty": [None, None, None, None],
}
# The words of error messages for the values of each type.
WORDS = {
    "number": "numbers", "whole": "numbers", "bits": "numbers", "decimal": "numbers",
    "digits": "text", "text": "text", "category": "categories", "boolean": "booleans",
    "datetime": "datetimes", "date": "datetimes", "zoned": "datetimes with a time zone",
    "timedelta": "timedeltas", "time": "times of day", "empty": "no values",
}  # fmt: skip
NUMBERS = "number", "whole", "bits", "decimal"
NAMES = "digits", "text", "category"
DATES = "datetime", "date", "zoned"
TIMES = *DATES, "timedelta", "time"
TEXTUAL_FORMS = "csv", "json"


def type_after_conversion(kind: str, form: str) -> str:
    """Return the type of a column after conversion to a form: CSV and JSON lack some types."""
    if kind == "category" and form in (*TEXTUAL_FORMS, "objects"):
        return "text"
    if kind == "digits" and form == "csv":
        return "whole"
    if kind == "decimal" and form in TEXTUAL_FORMS:
        return "number"
    return kind


def _expected_table() -> dict[tuple[str, str], str]:
    """Return the expected outcome for each pair of types in the fit and in new rows."""
    table = dict.fromkeys(product(LEVELS, LEVELS), "refused")
    table |= {(kind, kind): "right" for kind in LEVELS}
    table |= dict.fromkeys(product(NUMBERS, NUMBERS), "right")
    table |= dict.fromkeys(product(NUMBERS, ["digits"]), "right")
    table |= dict.fromkeys(product(NUMBERS, ["boolean"]), "right, with a warning")
    table |= {("bits", "boolean"): "right", ("boolean", "bits"): "right"}
    table |= dict.fromkeys(product(DATES, DATES), "right")
    for other in ("datetime", "date"):
        table |= dict.fromkeys([("zoned", other), (other, "zoned")], "right, with a warning")
    table |= dict.fromkeys(product(NAMES, NAMES), "a warning")
    table |= {("text", "category"): "right", ("category", "text"): "right"}
    table |= {(kind, kind): "right" for kind in NAMES}
    # Whole numbers match categories that are digits; 1.5 matches none.
    table |= {("digits", "whole"): "right", ("digits", "bits"): "right"}
    table |= {("digits", "number"): "a warning", ("digits", "decimal"): "a warning"}
    table |= dict.fromkeys(product(["empty"], LEVELS), "right, with a warning")
    table |= dict.fromkeys(product(LEVELS, ["empty"]), "right")
    return table


EXPECTED = _expected_table()


def expected_outcome(was: str, now: str, form: str) -> str:
    """Return the expected outcome for a column of type ``was`` in the fit and ``now`` later."""
    if form in TEXTUAL_FORMS:
        # These forms store such values as text, which can be the name of an unknown category.
        if was in NAMES and (now in TIMES or (now == "boolean" and form == "csv")):
            return "a warning"
        if (was, now) == ("timedelta", "time"):
            return "right"
    return EXPECTED[was, now]


def equivalent_values(was: str, values: list[Any]) -> list[Any]:
    """Return the values of the type in the fit that correspond to given values."""
    convert: Callable[[Any], Any] = {
        "digits": lambda value: str(int(value)),
        "boolean": bool,
        "datetime": _moment,
        "date": _moment,
        "zoned": lambda value: _moment(value).replace(tzinfo=dt.UTC),
        "timedelta": _duration,
        "empty": lambda value: None,
        **dict.fromkeys(NUMBERS, float),
    }.get(was, lambda value: value)
    return [None if value is None else convert(value) for value in values]


def _moment(value: dt.date) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return dt.datetime(value.year, value.month, value.day)


def _duration(value: dt.time | dt.timedelta) -> dt.timedelta:
    if isinstance(value, dt.timedelta):
        return value
    return dt.timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)


# ---- Forms.


def _objects(values: list[Any]) -> Any:
    return np.array([*values, None], dtype=object)[:-1]


def pandas_frame(kind: str, values: list[Any], other: Any) -> pd.DataFrame:
    is_plain = kind in ("date", "decimal", "time", "empty", "text", "digits")
    column = pd.Series(_objects(values)) if is_plain else pd.Series(values)
    return pd.DataFrame({"kind": column.astype("category") if kind == "category" else column,
                         "other": other})  # fmt: skip


def polars_frame(kind: str, values: list[Any], other: Any) -> pl.DataFrame:
    column = pl.Series(values, dtype=pl.Categorical if kind == "category" else None)
    return pl.DataFrame({"kind": column, "other": other})


def arrow_table(kind: str, values: list[Any], other: Any) -> pa.Table:
    column = pa.array(values)
    return pa.table({
        "kind": column.dictionary_encode() if kind == "category" else column, "other": other,
    })  # fmt: skip


def object_array(kind: str, values: list[Any], other: Any) -> Any:
    return np.column_stack([_objects(values), _objects(other.tolist())])


def csv_table(kind: str, values: list[Any], other: Any) -> Any:
    text = pandas_frame(kind, values, other).to_csv(index=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")
        path.write_text(text, encoding="utf-8")
        return read_table(path)


def json_frame(kind: str, values: list[Any], other: Any) -> pd.DataFrame:
    """Return columns of objects as JSON stores them: numbers, text, booleans and None."""
    decoded = json.loads(json.dumps(values, default=_as_json))
    return pd.DataFrame({"kind": _objects(decoded), "other": _objects(other.tolist())})


def _as_json(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return pd.Timedelta(value).isoformat() if isinstance(value, dt.timedelta) else value.isoformat()


FORMS: dict[str, Callable[[str, list[Any], Any], Any]] = {
    "pandas": pandas_frame,
    "polars": polars_frame,
    "pyarrow": arrow_table,
    "csv": csv_table,
    "json": json_frame,
    "objects": object_array,
}
FITTED_FORMS = [form for form in FORMS if form != "objects"]
CASES = [*product(LEVELS, LEVELS, FITTED_FORMS, FORMS)]
FULL, SHORT = len(CASES), 240


@cache
def fitted(kind: str, form: str) -> KernelRegressor:
    levels = np.arange(80) % 4
    other = np.random.default_rng(0).normal(size=80)
    values = [LEVELS[kind][level] for level in levels]
    y = np.array([0.0, 3.0, -2.0, 5.0])[levels] + 0.1 * other
    return KernelRegressor(effort=1, random_state=0).fit(FORMS[form](kind, values, other), y)


def check(number: int, seed: int) -> str:
    """Fit a column of one type in one form, and predict another in another form."""
    order = np.random.default_rng([seed, 1]).permutation(len(CASES))
    rng = np.random.default_rng([seed, number])
    was, now, fitted_form, form = CASES[order[number % len(CASES)]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fitted(was, fitted_form)
    values = [LEVELS[now][level] for level in rng.permutation(np.arange(8) % 4)]
    if rng.random() < 0.3:
        values[0] = None
    other = rng.normal(size=8)
    was, now = type_after_conversion(was, fitted_form), type_after_conversion(now, form)
    outcome = expected_outcome(was, now, form)
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        try:
            result = model.predict(FORMS[form](now, values, other))
        except InputError as error:
            _check_error(str(error), was, now, form, outcome)
            return "refused"
    messages = [
        str(each.message) for each in caught_warnings if "column 'kind'" in str(each.message)
    ]
    assert outcome != "refused", f"{was} to {now} in {form}: predicted"
    assert bool(messages) == (outcome != "right"), (was, now, form, outcome, messages)
    if outcome != "a warning":
        equivalent = pandas_frame(
            was, equivalent_values(was, values if was != "empty" else [None] * 8), other
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            correct = model.predict(equivalent)
        np.testing.assert_allclose(result, correct, rtol=1e-9, atol=1e-9)
    return outcome


def _check_error(message: str, was: str, now: str, form: str, outcome: str) -> None:
    assert outcome == "refused", f"{was} to {now} in {form} should be {outcome}: {message}"
    held = f"column 'kind' held {WORDS[was]}"
    assert held in message or (was in DATES and "'kind' held datetimes" in message), message
    words = (WORDS[now], "text") if form in TEXTUAL_FORMS else (WORDS[now],)
    assert any(f"holds {word} now" in message for word in words), message
