"""Portable models predict data frames as the models do, and say what is wrong with files."""

from __future__ import annotations

import datetime
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gramless
from gramless import KernelClassifier, KernelRegressor
from gramless.portable import PortableModel

N = 200
RNG = np.random.default_rng(0)


def table(seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": np.where(random.random(N) < 0.1, np.nan, random.normal(size=N)),
            "colour": np.array(["red", "green", "blue", None], object)[random.integers(0, 4, N)],
            "store": pd.Categorical(random.integers(1, 5, N)),
            "when": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(random.integers(0, 400, N), unit="D"),
            "open": random.random(N) > 0.5,
            "span": pd.to_timedelta(random.integers(0, 400, N), unit="h"),
        }
    )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[KernelRegressor, PortableModel]:
    frame = table()
    y = (
        frame["size"].fillna(2.0)
        + 2.0 * (frame["colour"] == "red")
        + (frame["store"] == 3)
        + frame["open"]
        + frame["when"].dt.month / 6
        + frame["span"].dt.total_seconds() / 1e6
    )
    model = KernelRegressor(effort=1, random_state=0).fit(frame, y)
    path = tmp_path_factory.mktemp("portable") / "model"
    gramless.save(model, path)
    return model, PortableModel(path)


def without_index(frame: pd.DataFrame) -> Any:
    return {name: frame[name].tolist() for name in frame}


def as_polars(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("polars").from_pandas(frame)


def as_arrow(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "shuffled columns": lambda frame: frame[[*frame][::-1]].assign(more=1),
    "polars": as_polars,
    "arrow": as_arrow,
    "dict": without_index,
    "numbers as text": lambda frame: frame.assign(size=frame["size"].map(str)),
    "dates as text": lambda frame: frame.assign(when=frame["when"].dt.strftime("%Y-%m-%d")),
    "dates as objects": lambda frame: frame.assign(
        when=frame["when"].astype(object).map(lambda moment: moment.to_pydatetime())
    ),
    "booleans as numbers": lambda frame: frame.assign(open=frame["open"].astype(float)),
    "booleans as text": lambda frame: frame.assign(open=frame["open"].map(str).str.lower()),
    "codes as floats": lambda frame: frame.assign(store=frame["store"].astype(float)),
    "codes as text": lambda frame: frame.assign(store=frame["store"].astype(float).map(str)),
    "nullable": lambda frame: frame.convert_dtypes(),
    "unknown categories": lambda frame: frame.assign(colour=["red"] * 150 + ["pink"] * 50),
    "no values": lambda frame: frame.assign(colour=None, size=np.nan),
}


def test_frames_are_predicted_like_the_model(pair: tuple[KernelRegressor, PortableModel]) -> None:
    for form in FORMS:
        model, portable = pair
        rows = FORMS[form](table(1))
        whole = rows if not isinstance(rows, dict) else table(1)
        np.testing.assert_allclose(
            portable.predict(rows), model.predict(whole), rtol=1e-9, atol=1e-9
        )


CHANGED: dict[str, dict[str, Any]] = {
    "dates as numbers": {"when": np.arange(N)},
    "numbers as dates": {"size": pd.Timestamp("2024-01-01")},
    "numbers as words": {"size": "large"},
    "words as numbers": {"colour": np.arange(N)},
    "words as dates": {"colour": pd.Timestamp("2024-01-01")},
    "words as booleans": {"colour": True},
    "booleans as other numbers": {"open": 2},
    "booleans as words": {"open": "perhaps"},
    "durations as numbers": {"span": np.arange(N)},
    "durations as dates": {"span": pd.Timestamp("2024-01-01")},
    "dates as durations": {"when": pd.Timedelta("1D")},
    "infinity": {"size": np.inf},
}


def test_other_types_are_rejected_like_the_model(
    pair: tuple[KernelRegressor, PortableModel],
) -> None:
    for kind in CHANGED:
        rows = table(1).assign(**CHANGED[kind])
        (name,) = CHANGED[kind]
        for predictor in pair:
            with pytest.raises(ValueError, match=f"'{name}'|{name}"):
                predictor.predict(rows)


def test_frequent_unknown_categories_warn(pair: tuple[KernelRegressor, PortableModel]) -> None:
    rows = table(1).assign(colour="pink")
    with pytest.warns(UserWarning, match=r"'colour'.* are none of the categories"):
        result = pair[1].predict(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(result, pair[0].predict(rows), rtol=1e-9)


def test_missing_columns_are_rejected(pair: tuple[KernelRegressor, PortableModel]) -> None:
    for rows in [np.zeros((3, 6)), [[0.0] * 6], {"size": [1.0]}, pd.DataFrame({"size": [1.0]})]:
        with pytest.raises(ValueError, match="the rows have no column"):
            pair[1].predict(rows)


def test_probabilities_of_frames_match_the_model(tmp_path: Path) -> None:
    frame = table()
    y = np.where(frame["colour"] == "red", "yes", "no")
    model = KernelClassifier(effort=1, random_state=0).fit(frame, y)
    gramless.save(model, tmp_path / "model")
    portable, new = PortableModel(tmp_path / "model"), table(1)
    np.testing.assert_array_equal(portable.predict(new), model.predict(new))
    np.testing.assert_allclose(portable.predict_proba(new), model.predict_proba(new), atol=1e-9)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("content") / "model"
    X = RNG.normal(size=(40, 2))
    gramless.save(KernelRegressor("nystrom", bandwidth=1.0, alpha=1e-3).fit(X, X[:, 0]), path)
    return path.read_bytes()


def with_header(content: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    text = json.dumps(change(header)).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def put(*path: Any) -> Callable[[dict[str, Any]], Any]:
    def change(header: dict[str, Any]) -> dict[str, Any]:
        place: Any = header
        for key in path[:-2]:
            place = place[key]
        place[path[-2]] = path[-1]
        return header

    return change


HEADERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a list": lambda header: [header],
    "a number": lambda header: 3,
    "nothing": lambda header: {},
    "no metadata": lambda header: {k: v for k, v in header.items() if k != "__metadata__"},
    "metadata of text": put("__metadata__", "x"),
    "no checksum": lambda header: put("__metadata__", {"model": "{}"})(header),
    "model no JSON": put("__metadata__", "model", "{"),
    "model of numbers": put("__metadata__", "model", "[1, 2]"),
    "a value without a tag": put("__metadata__", "model", '{"class": "A", "params": {"a": {}}}'),
    "model of null": put("__metadata__", "model", "null"),
    "model without state": put("__metadata__", "model", '{"class": "KernelRegressor"}'),
    "model deeply nested": put("__metadata__", "model", "[" * 100_000 + "]" * 100_000),
    "unknown dtype": put("weights_", "dtype", "F128"),
    "dtype of a list": put("weights_", "dtype", []),
    "shape too large": put("weights_", "shape", [1 << 40]),
    "shape of text": put("weights_", "shape", "x"),
    "shape negative": put("weights_", "shape", [-3, -7]),
    "offsets of text": put("weights_", "data_offsets", ["a", "b"]),
    "offsets swapped": put("weights_", "data_offsets", [80, 0]),
    "offsets short": put("weights_", "data_offsets", [0]),
    "entry of null": put("weights_", None),
    "no weights": lambda header: {k: v for k, v in header.items() if k != "weights_"},
}


def test_error_on_a_damaged_header_names_the_file(content: bytes, tmp_path: Path) -> None:
    for kind in HEADERS:
        path = tmp_path / "model"
        path.write_bytes(with_header(content, HEADERS[kind]))
        with pytest.raises(ValueError, match=r"model is damaged or not a gramless model"):
            PortableModel(path)


def test_error_on_a_truncated_file_names_it(content: bytes, tmp_path: Path) -> None:
    for length in [0, 1, 7, 8, 9, 100, -1]:
        path = tmp_path / "model"
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"model is damaged or not a gramless model"):
            PortableModel(path)


def test_error_on_other_files_names_them(tmp_path: Path) -> None:
    for content in [b"a,b\n1,2\n" * 9, b"\xff" * 99, bytes(99)]:
        path = tmp_path / "model"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"model is damaged or not a gramless model"):
            PortableModel(path)


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")
def test_pipes_are_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a regular file"):
        PortableModel(tmp_path / "pipe")


def both(model: KernelRegressor, path: Path) -> list[Any]:
    gramless.save(model, path)
    return [model, PortableModel(path)]


def test_large_integers_with_gaps_keep_every_digit(tmp_path: Path) -> None:
    shops = np.arange(N) % 4
    frame = pd.DataFrame({"shop": 2**53 + shops, "other": RNG.normal(size=N)})
    model = KernelRegressor(effort=1, random_state=0, categorical_features=["shop"])
    model, portable = both(model.fit(frame, 1.0 * shops), tmp_path / "model")
    gaps = frame.assign(shop=frame["shop"].astype("Int64").mask(np.arange(N) == 3))
    np.testing.assert_allclose(portable.predict(gaps), model.predict(gaps), atol=1e-9)


def test_categorical_datetimes_match_their_text(tmp_path: Path) -> None:
    day = np.arange(N) % 4
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")
    frame = pd.DataFrame({"when": when, "other": RNG.normal(size=N)})
    model = KernelRegressor(effort=1, random_state=0, categorical_features=["when"])
    model, portable = both(model.fit(frame, 1.0 * day), tmp_path / "model")
    text = frame.assign(when=when.strftime("%Y-%m-%dT%H:%M:%S"))
    np.testing.assert_allclose(portable.predict(text), model.predict(frame), atol=1e-9)


def test_categorical_durations_and_times_match_the_model(tmp_path: Path) -> None:
    for kind in [lambda hour: datetime.timedelta(hours=hour), datetime.time]:
        hour = np.arange(N) % 4
        times = [kind(k) for k in hour.tolist()]
        frame = pd.DataFrame({"when": times, "other": RNG.normal(size=N)})
        model = KernelRegressor(effort=1, random_state=0, categorical_features=["when"])
        model, portable = both(model.fit(frame, 1.0 * hour), tmp_path / "model")
        np.testing.assert_allclose(portable.predict(frame), model.predict(frame), atol=1e-9)


def test_datetime_text_with_hour_offsets_matches_the_model(tmp_path: Path) -> None:
    day = np.arange(N) % 4
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")
    frame = pd.DataFrame({"when": when.strftime("%Y-%m-%d %H:%M:%S+02"), "other": 1.0 * day})
    model, portable = both(KernelRegressor(effort=1).fit(frame, 1.0 * day), tmp_path / "model")
    np.testing.assert_allclose(portable.predict(frame), model.predict(frame), atol=1e-9)


def test_numeric_column_names_match_the_model(tmp_path: Path) -> None:
    frame = pd.DataFrame(RNG.normal(size=(N, 2)))
    model = KernelRegressor(effort=1, random_state=0).fit(frame, frame[0])
    model, portable = both(model, tmp_path / "model")
    np.testing.assert_allclose(portable.predict(frame), model.predict(frame), atol=1e-9)


def test_changed_time_zones_warn(tmp_path: Path) -> None:
    when = pd.date_range("2024-01-01", periods=N, freq="h")
    frame = pd.DataFrame({"when": when, "other": RNG.normal(size=N)})
    zoned = frame.assign(when=when.tz_localize("UTC"))
    for fitted, new in ((frame, zoned), (zoned, frame), (frame, zoned.astype({"when": str}))):
        model = KernelRegressor(effort=1, random_state=0).fit(fitted, np.arange(N))
        for predictor in both(model, tmp_path / "model"):
            with pytest.warns(UserWarning, match="'when'.*UTC"):
                predictor.predict(new)


def test_unknown_categories_and_empty_columns_of_arrays_warn(tmp_path: Path) -> None:
    X = np.column_stack([np.arange(N) % 4, np.full(N, np.nan), RNG.normal(size=N)])
    model = KernelRegressor(effort=1, random_state=0, categorical_features=[0]).fit(X, X[:, 0])
    for predictor in both(model, tmp_path / "model"):
        with pytest.warns(UserWarning, match="input 0: 100 % of the values"):
            predictor.predict(X + np.array([10.0, 0.0, 0.0]))
        with pytest.warns(UserWarning, match="held no values in fit"):
            predictor.predict(np.nan_to_num(X))


def test_postcodes_without_leading_zeros_warn(tmp_path: Path) -> None:
    text = np.array(["01234", "51234", "61234", "71234"], object)[np.arange(N) % 4]
    frame = pd.DataFrame({"postcode": text, "other": RNG.normal(size=N)})
    model = KernelRegressor(effort=1, random_state=0).fit(frame, frame["other"])
    for predictor in both(model, tmp_path / "model"):
        with pytest.warns(UserWarning, match="'postcode' holds numbers such as 1234 now"):
            predictor.predict(frame.astype({"postcode": int}))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            predictor.predict(frame[frame["postcode"] > "1"].astype({"postcode": int}))
