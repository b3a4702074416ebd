"""Tables of mixed columns: every kind, missing values, rare categories, names, plain data."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gramless.base.columns import is_frame
from gramless.base.errors import InputError
from gramless.datasets import Table
from gramless.preprocessing.encoder import TableEncoder

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

DAY = 86400.0


def encoded(frame):
    encoder = TableEncoder().fit(frame)
    return encoder.output_names, encoder.transform(frame)


def objects(*values):
    return np.array([*values, None], dtype=object)[:-1]


def test_is_frame_accepts_every_table_type():
    assert is_frame(pd.DataFrame({"a": [1]}))
    assert is_frame(pl.DataFrame({"a": [1]}))
    assert is_frame(Table({"a": np.array([1.0])}))
    assert is_frame(pa.table({"a": [1]}))
    assert is_frame(pa.RecordBatch.from_pydict({"a": [1]}))
    for other in (np.eye(2), [[1]], pd.Series([1]), pl.Series([1]), pl.LazyFrame({"a": [1]}), None):
        assert not is_frame(other)


PANDAS_COLUMNS = {
    "int": (pd.Series([1, 2, 3]), [1, 2, 3]),
    "nullable int": (pd.Series([1, 2, 3], dtype="Int64"), [1, 2, 3]),
    "uint8": (pd.Series([1, 2, 255], dtype="uint8"), [1, 2, 255]),
    "sparse": (pd.Series(pd.arrays.SparseArray([0, 0, 5])), [0, 0, 5]),
    "dates": (pd.Series(pd.to_datetime(["1970-01-02", "1970-01-01", "2000-01-01"])),
              [DAY, 0, 946684800]),
    "time zone": (pd.Series(pd.to_datetime(["1970-01-02"] * 3)).dt.tz_localize("Europe/Paris"),
                  [DAY - 3600] * 3),
    "durations": (pd.Series(pd.to_timedelta([1, 60, 0], unit="s")), [1, 60, 0]),
    "decimals": (pd.Series([Decimal("1.5"), Decimal(2), Decimal(3)]), [1.5, 2, 3]),
    "date objects": (pd.Series([dt.date(1970, 1, 2), dt.date(1970, 1, 1), dt.date(1969, 12, 31)]),
                     [DAY, 0, -DAY]),
    "object numbers": (pd.Series([1, 2.5, True], dtype=object), [1, 2.5, 1]),
}  # fmt: skip


def test_pandas_numbers_are_kept():
    for kind, (column, expected) in PANDAS_COLUMNS.items():
        names, X = encoded(pd.DataFrame({"a": column}))
        assert names == ("a",)
        np.testing.assert_array_equal(X[:, 0], expected, err_msg=kind)
        assert not TableEncoder().fit(pd.DataFrame({"a": column})).categorical_outputs.any()


POLARS_COLUMNS = {
    "int": ([1, 2, 3], pl.Int64, [1, 2, 3]),
    "date": ([dt.date(1970, 1, 2)] * 3, pl.Date, [DAY] * 3),
    "time": ([dt.time(0, 1, 0, 500000)] * 3, pl.Time, [60.5] * 3),
    "duration": ([dt.timedelta(minutes=2)] * 3, pl.Duration, [120] * 3),
    "decimal": ([Decimal("1.5")] * 3, pl.Decimal(10, 2), [1.5] * 3),
}


def test_polars_numbers_are_kept():
    for kind, (values, dtype, expected) in POLARS_COLUMNS.items():
        names, X = encoded(pl.DataFrame({"a": pl.Series(values, dtype=dtype)}))
        assert names == ("a",)
        np.testing.assert_array_equal(X[:, 0], expected, err_msg=kind)
    zoned = pl.Series([dt.datetime(1970, 1, 1, 0, 0, 1)] * 3).dt.replace_time_zone("Europe/Paris")
    np.testing.assert_array_equal(encoded(pl.DataFrame({"a": zoned}))[1][:, 0], [1 - 3600] * 3)


WITH_A_GAP = [
    pd.Series([1, None, 3], dtype="Int64"),
    pd.Series([1.0, np.nan, 3.0]),
    pd.Series([1, None, 3], dtype=object),
    pl.Series([1, None, 3]),
    pl.Series([1.0, None, 3.0], dtype=pl.Float32),
]


def test_missing_number_is_the_median_and_marked():
    for column in WITH_A_GAP:
        frame = (pd if isinstance(column, pd.Series) else pl).DataFrame({"a": column})
        encoder = TableEncoder().fit(frame)
        assert encoder.output_names == ("a", "a (missing)")
        assert encoder.categorical_outputs.tolist() == [False, True]
        assert encoder.categorical == ()
        np.testing.assert_array_equal(encoder.transform(frame), [[1, 0], [2, 1], [3, 0]])


def test_missing_number_in_new_rows_is_the_median():
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1.0, 2.0, 9.0]}))
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"a": [np.nan, 5]})), [[2], [5]])


def test_empty_column_is_zero_and_marked():
    names, X = encoded(pd.DataFrame({"a": [np.nan, np.nan]}))
    assert names == ("a", "a (missing)")
    np.testing.assert_array_equal(X, [[0, 1], [0, 1]])


WORDS = ["b", "a", None, "b"]
TEXT = {
    "pandas object": pd.DataFrame({"t": objects(*WORDS)}),
    "pandas string": pd.DataFrame({"t": pd.Series(WORDS, dtype="string")}),
    "pandas category": pd.DataFrame({"t": pd.Categorical(WORDS)}),
    "polars": pl.DataFrame({"t": WORDS}),
    "polars categorical": pl.DataFrame({"t": pl.Series(WORDS, dtype=pl.Categorical)}),
    "polars enum": pl.DataFrame({"t": pl.Series(WORDS, dtype=pl.Enum(["b", "a"]))}),
    "table": Table({"t": objects("b", "a", "", "b")}),
    "arrow": pa.table({"t": WORDS}),
    "arrow dictionary": pa.table({"t": pa.array(WORDS).dictionary_encode()}),
    "arrow batch": pa.RecordBatch.from_pydict({"t": WORDS}),
}


def test_text_becomes_codes_in_every_library():
    for fitted in TEXT.values():
        encoder = TableEncoder().fit(fitted)
        assert encoder.output_names == encoder.categorical == ("t",)
        assert encoder.columns[0].categories == ("", "b", "a")
        assert encoder.categorical_outputs.tolist() == [True]
        for applied in TEXT.values():
            np.testing.assert_array_equal(encoder.transform(applied)[:, 0], [1, 2, 0, 1])


def test_categories_that_are_numbers_match_their_text():
    encoder = TableEncoder().fit(pd.DataFrame({"t": pd.Categorical([3, 1, 3])}))
    assert encoder.columns[0].categories == ("3", "1")
    for same in ([3, 1], [3.0, 1.0], ["3", "1"]):
        frame = pd.DataFrame({"t": same})
        np.testing.assert_array_equal(encoder.transform(frame), [[0], [1]])


def test_numbers_can_be_declared_categorical():
    frame = pd.DataFrame({"x": [0.5, 1.5, 2.5], "n": [7.0, np.nan, 7.0], "t": ["a", "b", "a"]})
    later = pd.DataFrame({"x": [1.0] * 4, "n": ["7", 7, None, 8.5], "t": ["a"] * 4})
    for chosen in (["n"], [1], [False, True, False], np.array([0, 1, 0], bool)):
        encoder = TableEncoder().fit(frame, chosen)
        assert encoder.categorical == ("n", "t")
        assert encoder.columns[1].categories == ("", "7")
        np.testing.assert_array_equal(encoder.transform(later)[:, 1], [1, 1, 0, 2])


def test_unknown_categorical_features_are_rejected():
    frame = pd.DataFrame({"x": [0.5], "n": [7], "t": ["a"]})
    for chosen in (["z"], [3], ["x", None], [True], "x"):
        with pytest.raises(InputError, match="categorical_features"):
            TableEncoder().fit(frame, chosen)


TRUTHS = {
    "pandas": pd.DataFrame({"b": [True, False, True]}),
    "pandas nullable": pd.DataFrame({"b": pd.Series([True, False, True], dtype="boolean")}),
    "pandas object": pd.DataFrame({"b": pd.Series([True, False, True], dtype=object)}),
    "polars": pl.DataFrame({"b": [True, False, True]}),
    "table": Table({"b": objects("True", "False", "True")}),
}


def test_booleans_are_categories_in_every_spelling():
    others = [pd.DataFrame({"b": b}) for b in ([1, 0, 1], ["true", "FALSE", "1"])]
    for fitted in TRUTHS.values():
        encoder = TableEncoder().fit(fitted)
        assert encoder.categorical == ("b",)
        assert encoder.columns[0].categories == ("True", "False")
        for spelled in (*TRUTHS.values(), *others):
            np.testing.assert_array_equal(encoder.transform(spelled)[:, 0], [0, 1, 0])


@pytest.mark.parametrize("module", [pd, pl])
def test_missing_boolean_is_a_category(module):
    encoder = TableEncoder().fit(module.DataFrame({"b": [True, None, True]}))
    assert encoder.columns[0].categories == ("", "True")
    codes = encoder.transform(module.DataFrame({"b": [None, True, False]}))
    np.testing.assert_array_equal(codes[:, 0], [0, 1, 2])


def test_numbers_are_read_from_text():
    encoder = TableEncoder().fit(pd.DataFrame({"n": [1.5, 2]}))
    table = Table({"n": objects(" 2.5", "", "true")})
    np.testing.assert_array_equal(encoder.transform(table), [[2.5], [1.75], [1]])


TEXT_OF_NUMBERS = {
    "plain": (["0.5", "-2", " 1e3", "NA"], [0.5, -2, 1000, 0.5]),
    "decimal commas": (["0,5", "12,25", "1.234,5", "7"], [0.5, 12.25, 1234.5, 7]),
    "thousands": (["1,234.5", "12", "2,000,000", "0.25"], [1234.5, 12, 2e6, 0.25]),
    "thousands by spaces": (["1\u202f234,5", "12", "2 000 000", "0,25"], [1234.5, 12, 2e6, 0.25]),
    "dates": (["1970-01-02", "1970-01-01 00:00:01", "1970-02", "1970-01-01T01:00+01:00"],
              [DAY, 1, 31 * DAY, 0]),
}  # fmt: skip


@pytest.mark.parametrize("kind", TEXT_OF_NUMBERS)
def test_unambiguous_text_is_read_as_numbers_or_dates(kind, recwarn):
    cells, expected = TEXT_OF_NUMBERS[kind]
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        frame = make({"a": cells})
        encoder = TableEncoder().fit(frame)
        assert encoder.categorical == ()
        np.testing.assert_array_equal(encoder.transform(frame)[:, 0], expected)
    assert not recwarn.list


def test_ambiguous_cell_is_read_as_in_fit():
    encoder = TableEncoder().fit(pl.DataFrame({"a": ["0,5", "1,25"]}))
    np.testing.assert_array_equal(encoder.transform(pl.DataFrame({"a": ["1,234"]})), [[1.234]])
    np.testing.assert_array_equal(encoder.transform(pl.DataFrame({"a": [3.5]})), [[3.5]])
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.state())))
    np.testing.assert_array_equal(again.transform(pl.DataFrame({"a": ["1,234"]})), [[1.234]])
    encoder = TableEncoder().fit(pl.DataFrame({"a": ["0.5", "1,234.0"]}))
    np.testing.assert_array_equal(encoder.transform(pl.DataFrame({"a": ["1,234"]})), [[1234]])
    with pytest.raises(InputError, match="'a' held numbers in fit .* text now, such as '0,5'"):
        encoder.transform(pl.DataFrame({"a": ["0,5"]}))


def test_commas_are_thousands_if_small_numbers_have_none():
    cells = [f"{k:,}" for k in range(500, 9000, 100)]
    encoder = TableEncoder().fit(pd.DataFrame({"a": cells}))
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"a": ["1,234"]})), [[1234]])


DOUBTS = {
    "whole numbers": [str(k) for k in range(1000, 1030)],
    "a comma or point that may be a decimal or a": [f"{k},{k + 100}" for k in range(1, 31)],
    "dates": [f"{k}/1/2020" for k in range(1, 31)],
    "numbers beside other text": [f"{k} EUR" for k in range(30)],
}


@pytest.mark.parametrize("problem", DOUBTS)
def test_text_that_looks_like_numbers_warns(problem):
    frame = pd.DataFrame({"a": DOUBTS[problem]})
    with pytest.warns(UserWarning, match=f"column 'a' .*{problem}.*categorical_features") as caught:
        assert TableEncoder().fit(frame).categorical == ("a",)
    assert repr(DOUBTS[problem][0]) in str(caught[0].message)


def test_declared_categories_stay_categories(recwarn):
    for cells in (*DOUBTS.values(), *(cells for cells, _ in TEXT_OF_NUMBERS.values())):
        frame = pd.DataFrame({"a": cells})
        table = Table({"a": np.array(cells, object)}, declared=["a"])
        polars = pl.DataFrame({"a": pl.Series(cells, dtype=pl.Categorical)})
        arrow = pa.table({"a": pa.array(cells).dictionary_encode()})
        for declared in (frame.astype("category"), polars, table, arrow):
            assert TableEncoder().fit(declared).categorical == ("a",)
        assert TableEncoder().fit(frame, ["a"]).categorical == ("a",)
    assert not recwarn.list


def test_text_of_few_integers_is_categorical(recwarn):
    frame = pd.DataFrame(
        {"a": ["20", "30", "20"], "b": ["1.0", "2.0", "1.0"], "c": ["x", "1.5", "2"]}
    )
    assert TableEncoder().fit(frame).categorical == ("a", "b", "c")
    assert not recwarn.list


def test_periods_become_their_first_second():
    months = pd.Series(pd.period_range("1970-01", periods=3, freq="M"))
    frame = pd.DataFrame({"a": months})
    np.testing.assert_array_equal(encoded(frame)[1][:, 0], [0, 31 * DAY, 59 * DAY])
    early = pd.DataFrame({"a": pd.Series(pd.period_range("1500", periods=3, freq="Y"))})
    with pytest.raises(InputError, match=r"column 'a' holds periods before 1678.*years"):
        TableEncoder().fit(early)


def test_unseen_category_has_a_separate_code():
    encoder = TableEncoder().fit(pd.DataFrame({"t": ["a", "b", "a"]}))
    X = encoder.transform(pd.DataFrame({"t": ["z", None, "a", "b"]}))
    np.testing.assert_array_equal(X[:, 0], [2, 2, 0, 1])


def test_rare_and_unseen_categories_share_a_code():
    cells = ["a", "b", "c"] * 2 + ["rare", "seldom", None]
    encoder = TableEncoder(max_categories=4).fit(pl.DataFrame({"t": cells}))
    assert encoder.columns[0].categories == ("", "a", "b", "c")
    X = encoder.transform(pl.DataFrame({"t": ["rare", "seldom", "new", "c", None]}))
    np.testing.assert_array_equal(X[:, 0], [4, 4, 4, 3, 0])


def test_many_categories_have_distinct_codes():
    cells = [f"c{i}" for i in range(50_000)]
    X = encoded(pl.DataFrame({"t": cells}))[1]
    assert X.dtype == np.float32
    assert len(np.unique(X)) == 50_000


def test_precision_follows_the_widest_number():
    single = {"a": np.array([1.5], np.float32), "t": objects("x")}
    assert TableEncoder().fit(Table(single)).dtype == np.float32
    assert TableEncoder().fit(Table({**single, "b": np.array([0.1])})).dtype == np.float64
    assert encoded(pd.DataFrame({"i": np.array([2**24 + 1])}))[1][0, 0] == 2**24 + 1
    assert encoded(pd.DataFrame({"i": np.array([1], np.int16), "b": [True]}))[1].dtype == np.float32
    named = TableEncoder().fit(Table({"b": np.array([0.1])}), ["b"])
    assert named.dtype == np.float32


def test_columns_are_matched_by_name():
    frame = pd.DataFrame({"a": [1.0], "t": ["x"], "b": [2.0]})
    encoder = TableEncoder().fit(frame)
    np.testing.assert_array_equal(
        encoder.transform(frame[["b", "t", "a"]]), encoder.transform(frame)
    )


def test_extra_columns_are_ignored():
    frame = pd.DataFrame({"a": [1.0], "b": [2.0]})
    encoder = TableEncoder().fit(frame)
    further = frame.assign(c="text", d=[[1]])
    np.testing.assert_array_equal(encoder.transform(further), encoder.transform(frame))


WRONG_COLUMNS = [
    ({"a": [1.0]}, "missing now: 'b'"),
    ({"a": [1.0], "c": [1.0]}, "missing now: 'b'"),
    ({"a": [1.0], "b": ["two"]}, "'b' held numbers in fit and holds text now, such as 'two'"),
    ({"a": [1.0], "b": [np.inf]}, "'b' holds infinity"),
]


def test_error_names_the_invalid_column():
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1.0], "b": [2.0]}))
    for columns, message in WRONG_COLUMNS:
        with pytest.raises(InputError, match=message):
            encoder.transform(pd.DataFrame(columns))


def test_missing_columns_are_listed_briefly():
    encoder = TableEncoder().fit(pd.DataFrame(np.ones((1, 40))))
    with pytest.raises(InputError, match="and 29 more") as caught:
        encoder.transform(pd.DataFrame({"0": [1.0]}))
    assert len(str(caught.value)) < 300


UNUSABLE = [
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are called 'a'"),
    (pd.DataFrame({"a": []}), "no rows"),
    (pd.DataFrame(index=[0]), "no columns"),
    (pd.DataFrame({"a": [np.inf]}), "infinity"),
    (pd.DataFrame({"a": [[1], [2]]}), "type list"),
    (pd.DataFrame({"a": [1j]}), "complex128"),
    (Table(matrix=sp.csr_array(np.eye(2))), "no column names"),
    (np.eye(2), "got ndarray"),
]


def test_invalid_tables_are_rejected():
    for frame, message in UNUSABLE:
        with pytest.raises(InputError, match=message):
            TableEncoder().fit(frame)


def test_column_names_become_text():
    frame = pd.DataFrame({"names": [1.0], ("a", 1): [2.0], 7: [3.0], "column": [4.0]})
    names, X = encoded(frame)
    assert names == ("names", "('a', 1)", "7", "column")
    np.testing.assert_array_equal(X, [[1, 2, 3, 4]])


def test_other_objects_are_categories():
    frame = pd.DataFrame({"bins": pd.cut([1.0, 9.0], 2), "pair": [(1, 2), (3, 4)]})
    names, X = encoded(frame)
    assert names == ("bins", "pair")
    np.testing.assert_array_equal(np.sort(X, axis=0), [[0, 0], [1, 1]])


CELLS = st.one_of(st.none(), st.text(max_size=4), st.floats(allow_infinity=False), st.booleans())


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=12))
def test_encoder_survives_serialization(rows):
    frame = pd.DataFrame({"a": objects(*(r[0] for r in rows)), "b": objects(*(r[1] for r in rows))})
    encoder = TableEncoder().fit(frame)
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.state())))
    assert again.columns == encoder.columns
    X = encoder.transform(frame)
    assert np.isfinite(X).all()
    assert X.flags.f_contiguous
    np.testing.assert_array_equal(again.transform(frame), X)


FOREIGN = [
    {"name": 3},
    {"fill": float("nan")},
    {"fill": "1"},
    {"indicator": 1},
    {"fill": None},
    {"categories": ["a"]},
    {"fill": None, "categories": ["a", "a"]},
    {"fill": None, "categories": [1]},
    {"surprise": 1},
    {"other": True},
]


def test_invalid_states_are_rejected():
    for change in FOREIGN:
        config = TableEncoder().fit(pd.DataFrame({"a": [1.0]})).state()
        config["columns"][0].update(change)
        with pytest.raises(InputError, match="describe no TableEncoder"):
            TableEncoder.from_state(config)
    for config in ({}, {"columns": []}, {"columns": [], "dtype": "float32"}, []):
        with pytest.raises(InputError, match="describe no TableEncoder"):
            TableEncoder.from_state(config)
