"""Every type of column of pandas, polars and pyarrow, and what docs/tables.md says of it."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gramless.base.columns import named_columns
from gramless.base.errors import InputError
from gramless.preprocessing.encoder import TableEncoder

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tables.md"
INTS, FLOATS, TRUTHS, WORDS = [1, 2, 3], [1.0, None, 2.0], [True, None, False], ["a", None, "b"]
DECIMALS = [Decimal("1.5"), None, Decimal(2)]
DATES = [dt.date(1970, 1, 2), None, dt.date(1970, 1, 3)]
MOMENTS = [dt.datetime(1970, 1, 2), None, dt.datetime(1970, 1, 3)]
PERIODS = [dt.timedelta(days=1), None, dt.timedelta(days=2)]
TIMES = [dt.time(1), None, dt.time(2)]
BYTES = [b"a", None, b"b"]


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


def objects(values: list[Any]) -> Any:
    return pd.Series(np.array([*values, None], dtype=object)[:-1])


def arrow(values: list[Any], kind: Any) -> Any:
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values, kind)))


def dates(**options: Any) -> Any:
    return pd.Series(pd.to_datetime(MOMENTS, **options))


WHOLE = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
SINGLE, DOUBLE = ["float16", "float32", "float64"], ["Float32", "Float64"]
PANDAS = {
    "`int8` to `int64`, `uint8` to `uint64`, `Int8` to `UInt64`": [
        *(pd.Series(INTS, dtype=kind) for kind in WHOLE),
        *(pd.Series([1, None, 2], dtype=f"{sign}nt{bits}")
          for sign in ("I", "UI") for bits in (8, 16, 32, 64)),
    ],
    "`float16`, `float32`, `float64`, `Float32`, `Float64`": [
        pd.Series(FLOATS, dtype=kind) for kind in (*SINGLE, *DOUBLE)
    ],
    "`Sparse[...]` of numbers": [pd.Series(pd.arrays.SparseArray([0, 0, 5]))],
    "`bool`, `boolean`": [
        pd.Series([True, False, True]), pd.Series(TRUTHS, dtype="boolean"),
    ],
    "`category`, of text, numbers or anything else, ordered or not": [
        pd.Series(WORDS, dtype="category"), pd.Series(FLOATS, dtype="category"),
        pd.Series(pd.Categorical(WORDS, ordered=True)),
        pd.Series(pd.cut(np.arange(9.0), 3)), dates().astype("category"),
    ],
    "`interval`": [pd.Series(pd.interval_range(0, 3))],
    "`datetime64[...]`, with or without a time zone": [
        dates(), dates(utc=True), dates().dt.tz_localize("Europe/Paris"),
        pd.Series(np.array(["1500-01-01", "NaT"], "datetime64[s]")),
    ],
    "`timedelta64[...]`": [pd.Series(pd.to_timedelta(PERIODS))],
    "`period[...]`": [pd.Series(pd.PeriodIndex(["1970-01", None, "1970-02"], freq="M"))],
    "`object` or `string` of text, `str`": [
        objects(WORDS), pd.Series(WORDS, dtype="string"), pd.Series(WORDS, dtype="str"),
        pd.Series(WORDS, dtype="string[pyarrow]"), objects([1, "a", None]),
    ],
    "`object` of numbers, `Decimal`": [objects(FLOATS), objects(DECIMALS)],
    "`object` of dates or durations of `datetime`": [
        objects(DATES), objects(MOMENTS), objects(PERIODS), objects(TIMES),
    ],
    "`object` of tuples, bytes, truth values, other hashable values that print something": [
        objects([(1, 2), (1, 3)]), objects(BYTES), objects(TRUTHS), objects([Named("x")]),
    ],
    "`object` of lists, dictionaries, other objects": [
        objects([[1], [2]]), objects([{"a": 1}]), objects([object()]),
    ],
    "`complex128`": [pd.Series([1j, 2])],
    "`...[pyarrow]`": [
        arrow([1, None, 2], pa.int64()), arrow(WORDS, pa.string()), arrow(DATES, pa.date32()),
        arrow(MOMENTS, pa.timestamp("us", "UTC")), arrow(DECIMALS, pa.decimal128(5, 2)),
        arrow(WORDS, pa.dictionary(pa.int8(), pa.string())), arrow(TRUTHS, pa.bool_()),
        arrow([[1], None], pa.list_(pa.int8())),
    ],
}  # fmt: skip
OTHERS = {name: vars(pl)[name] for name in ("Int128", "UInt128", "Float16") if name in vars(pl)}
POLARS = {
    "`Int8` to `Int64`, `UInt8` to `UInt64`": [
        pl.Series([1, None, 2], dtype=vars(pl)[f"{sign}Int{bits}"])
        for sign in ("", "U") for bits in (8, 16, 32, 64)
    ],
    "`Int128`, `UInt128`": [
        pl.Series([1, None, 2], dtype=OTHERS[name])
        for name in OTHERS if "Int" in name
    ],
    "`Float16`, `Float32`, `Float64`": [
        pl.Series(FLOATS, dtype=kind)
        for kind in (pl.Float32, pl.Float64, OTHERS.get("Float16", pl.Float32))
    ],
    "`Decimal`": [pl.Series(DECIMALS, dtype=pl.Decimal(10, 2), strict=False)],
    "`Boolean`": [pl.Series(TRUTHS), pl.Series([True, False])],
    "`String`": [pl.Series(WORDS)],
    "`Categorical`, `Enum`": [
        pl.Series(WORDS, dtype=pl.Categorical), pl.Series(WORDS, dtype=pl.Enum(["b", "a"])),
        pl.Series(["1.5", "2.5"], dtype=pl.Categorical),
    ],
    "`Date`, `Datetime`, with or without a time zone": [
        pl.Series(DATES), *(pl.Series(MOMENTS, dtype=pl.Datetime(unit)) for unit in ("ms", "us")),
        pl.Series(MOMENTS).dt.replace_time_zone("Europe/Paris"),
    ],
    "`Duration`": [pl.Series(PERIODS)],
    "`Time`": [pl.Series(TIMES)],
    "`Null`": [pl.Series([None, None], dtype=pl.Null)],
    "`Binary`": [pl.Series(BYTES)],
    "`Object`": [
        pl.Series(FLOATS, dtype=pl.Object), pl.Series([Named("x")], dtype=pl.Object),
        pl.Series([object()], dtype=pl.Object),
    ],
    "`List`, `Array`, `Struct`, `Map`": [
        pl.Series([[1], [2]]), pl.Series([[1], [2]], dtype=pl.Array(pl.Int8, 1)),
        pl.Series([{"a": 1}]),
        *([pl.Series([{"a": 1}], dtype=pl.Map(pl.String, pl.Int8))] if "Map" in vars(pl) else []),
    ],
}  # fmt: skip
ARROW = {
    "`int8` to `int64`, `uint8` to `uint64`": [
        pa.array([1, None, 2], vars(pa)[kind]()) for kind in WHOLE
    ],
    "`float16`, `float32`, `float64`": [
        pa.array([np.float16(1), None], pa.float16()), pa.array(FLOATS, pa.float32()),
        pa.array(FLOATS),
    ],
    "`decimal128`, `decimal256`": [
        pa.array(DECIMALS, kind(5, 2)) for kind in (pa.decimal128, pa.decimal256)
    ],
    "`bool_`": [pa.array(TRUTHS)],
    "`string`, `large_string`": [pa.array(WORDS), pa.array(WORDS, pa.large_string())],
    "`dictionary`, of text or numbers": [
        pa.array(WORDS).dictionary_encode(), pa.array(FLOATS).dictionary_encode(),
    ],
    "`date32`, `date64`, `timestamp`, with or without a time zone": [
        pa.array(DATES), pa.array(DATES, pa.date64()), pa.array(MOMENTS, pa.timestamp("ns")),
        pa.array(MOMENTS, pa.timestamp("us", "Europe/Paris")),
    ],
    "`duration`": [pa.array(PERIODS)],
    "`time32`, `time64`": [pa.array(TIMES, pa.time32("s")), pa.array(TIMES, pa.time64("us"))],
    "`month_day_nano_interval`": [pa.array([(1, 2, 3), None], pa.month_day_nano_interval())],
    "`null`": [pa.array([None, None])],
    "`binary`, `large_binary`, of a fixed size or not": [
        pa.array(BYTES), pa.array(BYTES, pa.large_binary()), pa.array(BYTES, pa.binary(1)),
    ],
    "`run_end_encoded`": [pc.run_end_encode(pa.array([1, 1, 2]))],
    "`list_`, `large_list`, of a fixed size or not": [
        pa.array([[1], None]), pa.array([[1], None], pa.large_list(pa.int8())),
        pa.array([[1], None], pa.list_(pa.int8(), 1)),
    ],
    "`struct`, `map_`, `union`": [
        pa.array([{"a": 1}]), pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
        pa.UnionArray.from_sparse(
            pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]
        ),
    ],
}  # fmt: skip
ELSEWHERE = {
    "as the type of pyarrow": [
        *("number", "text", "seconds", "seconds", "number", "category", "category", "refused")
    ],
    "as `object` of pandas": ["number", "category", "refused"],
    "as its values": ["number"],
}
"""What becomes of the examples of rows that point to others."""
EXAMPLES = {
    "pandas": (PANDAS, lambda column: pd.DataFrame({"c": column})),
    "polars": (POLARS, lambda column: pl.DataFrame({"c": column})),
    "pyarrow": (ARROW, lambda column: pa.table({"c": column})),
}


def page() -> dict[str, dict[str, str]]:
    """Return what the page says of each type of each library."""
    sections = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text_of = dict(zip(sections[1::2], sections[2::2], strict=True))
    row = re.compile(r"^\| (`.*) \| (.*) \|$", re.MULTILINE)
    return {name: dict(row.findall(text_of[name])) for name in EXAMPLES}


def becomes(frame: Any) -> str:
    """Return what a column becomes, in the words of the page."""
    try:
        column = named_columns(frame)["c"]()
    except InputError as fault:
        return "refused" if "column 'c'" in str(fault) else "an error without a name"
    encoder = TableEncoder().fit(frame)
    rows = encoder.transform(frame)
    assert bool(encoder.categorical) == column.is_category
    if column.is_category:
        return "text" if column.is_text else "category"
    present = rows[:, 0] if rows.shape[1] == 1 else rows[rows[:, 1] == 0, 0]
    # Examples of numbers are small; those of dates, durations and times begin at an hour.
    return "seconds" if len(present) and np.abs(present).max() >= 3600 else "number"


def test_page_lists_every_type():
    for library, rows in page().items():
        assert list(rows) == list(EXAMPLES[library][0])


@pytest.mark.parametrize("library", EXAMPLES)
def test_columns_become_what_the_page_says(library: str) -> None:
    columns, frame_of = EXAMPLES[library]
    for kind, message in page()[library].items():
        kind_on_page = re.split(r"[,;]", message)[0]
        results = [becomes(frame_of(column)) for column in columns[kind]]
        assert results == ELSEWHERE.get(kind_on_page, [kind_on_page] * len(results)), kind


def test_page_lists_every_polars_type():
    listed = set(re.findall(r"`(\w+)`", " ".join(POLARS))) | {"Int16", "Int32", "UInt16", "UInt32"}
    known = {
        name for name, kind in vars(pl).items()
        if isinstance(kind, type) and issubclass(kind, pl.DataType) and kind is not pl.DataType
    }  # fmt: skip
    abstract = {"Unknown", "Utf8", "BaseExtension", "Extension", "Field"}
    assert known - abstract <= listed
