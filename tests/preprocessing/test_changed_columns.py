"""Columns of new rows whose type, form or values differ from those of fit."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramless.base.columns import category_labels, labels
from gramless.base.errors import InputError
from gramless.base.notation import NOTATIONS, notation_of
from gramless.datasets import Table
from gramless.preprocessing.encoder import TableEncoder

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

DAY = 86400.0
START = dt.datetime(2024, 1, 31)
VALUES: dict[str, list[Any]] = {
    "numbers": [1.5, 7.0, 3.0],
    "text": ["red", "blue", "red"],
    "booleans": [True, False, True],
    "datetimes": [START, START + dt.timedelta(hours=30), START + dt.timedelta(days=9)],
    "timedeltas": [dt.timedelta(hours=26), dt.timedelta(minutes=1), dt.timedelta(days=3)],
    "times of day": [dt.time(12, 30), dt.time(0, 0, 1), dt.time(23)],
}


def frame(values: Any, name: str = "a") -> Any:
    return pd.DataFrame({name: pd.Series(values)})


def codes_of(fitted: Any, new: Any) -> Any:
    """Return the first output of new rows, read by the encoder of a fitted column."""
    return TableEncoder().fit(frame(fitted)).transform(frame(new))[:, 0]


def test_changed_type_is_rejected_by_name_unless_empty():
    for was, fitted in VALUES.items():
        encoder = TableEncoder().fit(frame(fitted))
        for now, values in VALUES.items():
            assert len(encoder.transform(frame(values)[:0])) == 0
            if was != now and (was, now) != ("numbers", "booleans"):
                message = f"column 'a' held {was} in fit and holds {now} now"
                with pytest.raises(InputError, match=message):
                    encoder.transform(frame(values))


def test_empty_column_is_accepted_for_every_type():
    for values in VALUES.values():
        for missing in ([None, None], [np.nan], [pd.NaT], ["", None]):
            TableEncoder().fit(frame(values)).transform(frame(missing))


def test_integers_are_rejected_for_datetimes():
    for numbers in ([1706659200], [20240131.0], ["1706659200"]):
        with pytest.raises(InputError, match="'a' held datetimes in fit"):
            codes_of(VALUES["datetimes"], numbers)


TEXTS = {
    "datetimes": ["2024-01-31", "2024-02-01T06:00:00.000", "2024-02-09 00:00"],
    "timedeltas": ["P1DT2H", "0 days 00:01:00", "3 days"],
    "times of day": ["12:30:00", "00:00:01", "23:00:00.000"],
    "booleans": ["true", "FALSE", "True"],
    "numbers": ["1.5", "7", "3.0"],
}


@pytest.mark.parametrize("kind", TEXTS)
def test_text_is_read_as_the_fitted_type(kind):
    for module in (pd, pl):
        values, text = module.DataFrame({"a": VALUES[kind]}), module.DataFrame({"a": TEXTS[kind]})
        for fitted, new in ((values, text), (text, values)):
            encoder = TableEncoder().fit(fitted)
            np.testing.assert_array_equal(encoder.transform(new), encoder.transform(fitted))


@given(st.timedeltas(dt.timedelta(days=-900), dt.timedelta(days=900)))
def test_written_durations_are_read(duration):
    read = NOTATIONS["P1DT2H"].read
    stamp = pd.Timedelta(duration)
    for text in (str(duration), str(stamp), stamp.isoformat()):
        assert read(text) == pytest.approx(duration.total_seconds(), abs=1e-6)


def test_invalid_durations_are_rejected():
    for text in ("P", "PT", "1 02:00:00", "02:00", "days", "1.5", "-"):
        with pytest.raises(ValueError, match=text):
            NOTATIONS["P1DT2H"].read(text)


def test_ambiguous_text_is_not_a_duration():
    assert notation_of(["P1D", "P2W"]) is None
    assert notation_of(["100:00:00", "90:00:00"]) is None
    assert notation_of(["P1D", "PT2H"]) == "P1DT2H"


def test_zero_and_one_match_booleans():
    for numbers in ([0, 1], [0.0, 1.0], ["0", "1"], ["0.0", "1.0"]):
        result = codes_of([False, True], numbers)
        np.testing.assert_array_equal(result, codes_of([False, True], [False, True]))
        np.testing.assert_array_equal(codes_of(numbers, [False, True]), codes_of(numbers, numbers))


def test_boolean_text_allows_blanks_and_missing_words():
    encoder = TableEncoder().fit(frame([" true", "FALSE", "NA", None]))
    assert encoder.columns[0].categories == ("", "False", "True")
    new = encoder.transform(frame(["1", "false ", "null", True]))
    assert new[:, 0].tolist() == [2, 1, 0, 2]


def test_other_numbers_are_rejected_for_booleans():
    with pytest.raises(InputError, match="'a' held booleans in fit and holds numbers now"):
        codes_of([False, True], [0, 2])


def test_booleans_for_numbers_warn():
    with pytest.warns(UserWarning, match="column 'a' held numbers.*booleans now"):
        assert codes_of([5.0, 7.0], [True]) == [1.0]


def test_time_zones_are_converted_and_missing_ones_warn(recwarn):
    naive = pd.Series(pd.to_datetime(["2024-01-31 12:00", "2024-02-01 00:00"]))
    paris = naive.dt.tz_localize("UTC").dt.tz_convert("Europe/Paris")
    text = ["2024-01-31T13:00:00+01", "2024-02-01 00:00Z"]
    expected = TableEncoder().fit(frame(paris)).transform(frame(paris))
    np.testing.assert_array_equal(TableEncoder().fit(frame(paris)).transform(frame(text)), expected)
    assert not recwarn.list
    for fitted, new in ((naive, paris), (paris, naive), (naive, text)):
        with pytest.warns(UserWarning, match="column 'a'.*without a time zone count as UTC"):
            result = TableEncoder().fit(frame(fitted)).transform(frame(new))
        np.testing.assert_array_equal(result, expected)


ONES = [1, 1.0, "1", "1.0", "1.00", np.int8(1), np.float32(1), Decimal(1), Decimal("1.0")]


def test_integer_is_one_category_in_every_spelling():
    for one in ONES:
        assert [*category_labels([one])] == ["1"], repr(one)


def test_other_text_is_its_own_category():
    for value in ("01", "01.0", "1e3", "nan", "inf", "1.10", "-", "0x1", "1_0", str(2**53 + 1)):
        assert [*category_labels([value])] == [value]


LABELS = [
        (-0.0, "0"), ("-0.0", "0"), (Decimal("-0.0"), "0"), (Decimal("1.50"), "1.5"), (1.5, "1.5"),
        (2**53 + 1, str(2**53 + 1)), (Decimal("1E+3"), "1000"), (True, "True"), (None, ""),
        (dt.date(2024, 1, 31), "2024-01-31"), (START, "2024-01-31"), (pd.NaT, ""),
        ("2024-01-31 00:00:00", "2024-01-31"), ("2024-01-31T12:30", "2024-01-31 12:30:00"),
        ("2024-01-31 12:30:00+01", "2024-01-31 11:30:00"), ("2024-13-31 00:00", "2024-13-31 00:00"),
        (pd.Timestamp("2024-01-31 12:30"), "2024-01-31 12:30:00"), (float("inf"), "inf"),
        (dt.timedelta(hours=26), "1 days 02:00:00"), (np.timedelta64(26, "h"), "1 days 02:00:00"),
]  # fmt: skip


def test_category_labels_normalize_numbers_and_dates():
    for value, label in LABELS:
        assert [*category_labels([value])] == [label], repr(value)


def test_target_labels_keep_their_spelling():
    assert [*labels(["1.0", 1.0])] == ["1.0", "1"]


@pytest.mark.parametrize("form", [[1, 2, None], ["1", "2", None], ["1.0", "2.0", ""]], ids=repr)
def test_categorical_codes_allow_missing_values(form):
    encoder, column = TableEncoder().fit(pd.DataFrame({"a": [1, 2, 1]}), ["a"]), pd.Series(form)
    whole = pd.to_numeric(column).astype("Int64")
    for given_as in (column, column.astype("category"), column.astype(object), whole):
        new = encoder.transform(pd.DataFrame({"a": given_as}))
        assert new[:, 0].tolist() == [0, 1, 2]


LARGE = [2**53, 2**53 + 1, None]


@pytest.mark.parametrize(
    "column",
    [
        pd.DataFrame({"a": pd.Series(LARGE, dtype="Int64")}),
        pd.DataFrame({"a": pd.Series(LARGE, dtype=object)}),
        pd.DataFrame({"a": pd.Series(LARGE, dtype="int64[pyarrow]")}),
        pl.DataFrame({"a": LARGE}),
        pa.table({"a": LARGE}),
    ],
    ids=["Int64", "object", "arrow in pandas", "polars", "arrow"],
)
def test_large_integers_are_different_categories(column):
    encoder = TableEncoder().fit(column, ["a"])
    assert set(encoder.columns[0].categories) == {"", str(2**53), str(2**53 + 1)}
    text = pd.DataFrame({"a": [str(2**53), str(2**53 + 1), ""]})
    np.testing.assert_array_equal(encoder.transform(text), encoder.transform(column))


def test_numbers_match_text_of_digits_but_not_names():
    fitted = ["1", "2", "x"]
    np.testing.assert_array_equal(codes_of(fitted, [1.0, 2.0]), codes_of(fitted, ["1", "2"]))
    with pytest.raises(InputError, match="'a' held text in fit and holds numbers now"):
        codes_of(["x", "y"], [1.0, 2.0])


def test_zero_and_one_match_boolean_categories():
    fitted = pd.Series([True, False]).astype("category")
    np.testing.assert_array_equal(codes_of(fitted, [1, 0]), codes_of(fitted, [True, False]))


def test_categorical_dates_match_their_text():
    dates = pd.Series(pd.date_range("2024-01-31", periods=4, freq="36h"))
    for column, named in ((dates, ["a"]), (dates.astype("category"), None)):
        encoder = TableEncoder().fit(frame(column), named)
        for new in (dates, dates.astype(str)):
            assert encoder.transform(frame(new))[:, 0].tolist() == [0, 1, 2, 3]


def test_frequent_unknown_categories_warn(recwarn):
    encoder = TableEncoder().fit(frame(["x", "y", "z", None]))
    encoder.transform(frame(["x", "v", None, None, None]))
    assert not recwarn.list
    with pytest.warns(UserWarning, match="column 'a': 67 % of the values .* 'v', 'w'"):
        encoder.transform(frame(["x", "v", "w", None, None]))


def test_unknown_categories_do_not_warn_after_merging_rare_ones(recwarn):
    encoder = TableEncoder(max_categories=2).fit(frame(["x", "x", "y", "y", "z"]))
    encoder.transform(frame(["z", "z"]))
    assert not recwarn.list


def test_values_of_a_column_empty_in_fit_are_missing():
    for empty in ([None, None], [np.nan, np.nan], ["", ""], [pd.NaT, pd.NaT]):
        encoder = TableEncoder().fit(frame(empty))
        expected = encoder.transform(frame([None, None]))
        for values in VALUES.values():
            with pytest.warns(UserWarning, match="column 'a' held no values in fit"):
                result = encoder.transform(frame(values[:2]))
            np.testing.assert_array_equal(result, expected)


def test_mixed_types_in_a_column_are_rejected():
    with pytest.raises(InputError, match="column 'a' holds datetimes and numbers"):
        codes_of(np.array([1.5, START], object), [1.5])


def test_types_survive_serialization():
    for values in VALUES.values():
        encoder = TableEncoder().fit(frame(values))
        again = TableEncoder.from_state(json.loads(json.dumps(encoder.state())))
        assert again.columns == encoder.columns
        assert again.columns[0].type is not None


def test_encoder_state_without_types_is_read(recwarn):
    state = TableEncoder().fit(pd.DataFrame({"n": [1.5, 2.0], "t": ["x", "y"]})).state()
    for column in state["columns"]:
        del column["type"]
    encoder = TableEncoder.from_state(state)
    new = pd.DataFrame({"n": pd.to_datetime(["1970-01-02"] * 2), "t": [1.0, 2.0]})
    np.testing.assert_array_equal(encoder.transform(new), [[DAY, 2], [DAY, 2]])
    assert not recwarn.list


def test_tables_from_files_keep_column_types(tmp_path):
    values = {key: VALUES[key] for key in ("datetimes", "timedeltas", "times of day", "booleans")}
    pl.DataFrame(values).write_parquet(tmp_path / "table.parquet")
    from gramless.datasets import read_parquet

    table = read_parquet(tmp_path / "table.parquet")
    encoder = TableEncoder().fit(pd.DataFrame(values))
    expected = encoder.transform(pd.DataFrame(values))
    np.testing.assert_array_equal(encoder.transform(table), expected)
    again = TableEncoder().fit(table.take_rows(slice(0, 3)))
    np.testing.assert_array_equal(again.transform(pd.DataFrame(TEXTS)), expected)
    numbers = Table({name: np.ones(3) for name in values})
    with pytest.raises(InputError, match="'datetimes' held datetimes in fit and holds numbers"):
        again.transform(numbers)
