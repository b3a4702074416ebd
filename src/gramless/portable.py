"""Predictions from a model file with NumPy alone: nothing is compiled, and nothing else imported.

For services that start cold, and a reader of the file format to copy: this one file needs neither
the rest of gramless nor numba, SciPy or scikit-learn. The rest of gramless reads the values of
tables by functions of this file, so that both read them in the same way.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import math
import numbers
import os
import re
import stat
import warnings
import zlib
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
"""An array of numbers, truth values or text of any type."""
Fitted: TypeAlias = Any
"""What a model file holds: an array, a number, text, None, or a list or dict of such."""
Part: TypeAlias = dict[str, Fitted]
"""The attributes of an object in a model file, and the name of its class."""

_TYPES = {"BOOL": "?"} | {f"{k.upper()}{8 * n}": f"<{k}{n}" for k in "fiu" for n in (1, 2, 4, 8)}
_IDENTITY, _EXPONENTIAL = ("Squared", "Huber"), ("Poisson", "Gamma", "Tweedie")
_MOST_WEIGHT = 1e300
_MOST_NUMBERS = 1 << 22
"""Computed at once, in blocks of rows."""


class PortableModel:
    """A saved ``KernelRegressor``, ``KernelClassifier`` or ``KernelSurvival``, by NumPy alone.

    Covers bins of grids, Gaussian kernels and trends beside them and kernel ridge regression, as
    default fits choose; data frames, categories, gaps and several outputs. Predictions differ from
    those of the model by rounding, some 1e-15 of the largest response.

    Parameters
    ----------
    path : str or path-like
        A file that :func:`gramless.save` wrote. Nothing in it is executed.

    Raises
    ------
    ValueError
        If the file is damaged, or holds what is not covered: fits to sparse rows with many columns,
        other feature maps, ordered classes, several labels, quantile losses.

    Notes
    -----
    Large batches are some ten times as fast by :func:`gramless.load`.

    Examples
    --------
    >>> import tempfile
    >>> from gramless import KernelRegressor, save
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> model = KernelRegressor(n_grids=16, random_state=0).fit(X, X[:, 0] * X[:, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, os.path.join(folder, "model"))
    ...     portable = PortableModel(os.path.join(folder, "model"))
    >>> bool(np.allclose(portable.predict(X[:3]), model.predict(X[:3]), rtol=1e-12))
    True
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ValueError(f"{path} is no regular file; name a model file.")
        try:
            self._read(path)
        except _NotCoveredError as fault:
            raise ValueError(f"{path}: {fault}") from None
        # A damaged header leads to errors of many kinds.
        except (
            *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError),
            *(RecursionError, AssertionError, StopIteration, zlib.error, np.linalg.LinAlgError),
        ) as fault:
            raise ValueError(
                f"{path} is damaged or no model of gramless ({type(fault).__name__}: "
                f"{str(fault)[:200]}); copy it again, or save the model again."
            ) from fault

    def _read(self, path: str | os.PathLike[str]) -> None:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= os.fstat(file.fileno()).st_size - 8:
                raise ValueError("its header is cut off")
            text = file.read(length)
            data = file.read()
        header = json.loads(text)
        metadata = header.pop("__metadata__")
        # The signature is that of the header with zeros in its place.
        signature = metadata["header_sha256"].encode()
        signed = length.to_bytes(8, "little") + text
        entry = b'"header_sha256":"%s"'
        unsigned = signed.replace(entry % signature, entry % (b"0" * 64))
        if hashlib.sha256(unsigned).hexdigest().encode() != signature:
            raise ValueError("its header does not have its checksum")
        if hashlib.sha256(data).hexdigest() != metadata["data_sha256"]:
            raise ValueError("its data do not have their checksum")
        self._tensors = {name: _tensor(data, entry) for name, entry in header.items()}
        self.fitted: Part = self._decoded({"model": json.loads(metadata["model"])})
        fitted, inputs = self.fitted, self.fitted["inputs_"]
        loss = fitted["loss_"]["class"]
        if "classes_" in fitted:
            covered = not fitted["multilabel_"] and loss != "CumulativeLogistic"
        else:
            covered = loss in _IDENTITY + _EXPONENTIAL
        if not covered:
            raise _NotCoveredError(f"{loss} models of this kind need gramless.load.")
        if inputs["kept"] is not None:
            raise _NotCoveredError("fits to sparse rows of many columns need gramless.load.")
        features = fitted["features_"]
        joined = features["class"] == "JoinedMaps"
        maps = features["maps_"] if joined else [features]
        scales = features["scales_"] if joined else [1.0]
        # Files up to version 0.2 call the weights coef_.
        weights = fitted["weights_"] if "weights_" in fitted else fitted["coef_"]
        self._parts, start = [], 0
        for part, scale in zip(maps, scales, strict=True):
            kind = _PARTS.get(part["class"])
            if kind is None:
                raise _NotCoveredError(f"{part['class']} features need gramless.load.")
            n_columns = kind.n_columns(part)
            scaled = scale * weights[start : start + n_columns]
            # NaN is not below the bound either.
            if not np.abs(scaled).max(initial=0.0) < _MOST_WEIGHT:
                raise ValueError(f"its weights are not finite or beyond {_MOST_WEIGHT:g}")
            self._parts.append(kind(part, scaled))
            start += n_columns
        # Predictions show faults of the header that reading it does not.
        trial: Any = np.zeros((2, fitted["n_features_in_"]))
        if inputs["encoder"] is not None:
            trial = {str(code["name"]): [None, None] for code in inputs["encoder"]["columns"]}
        raw = self.decision_function(trial)
        if raw.shape != (2, *weights.shape[1:]) or not np.isfinite(raw).all():
            raise ValueError("its predictions are not finite or do not fit its weights")
        self.predict(trial)
        if fitted.get("calibration_") is not None:
            finite = np.isfinite(fitted["calibration_"]["slopes"]).all()
            if not finite or not np.isfinite(self.predict_proba(trial)).all():
                raise ValueError("its probabilities are not finite")

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the raw responses of rows, as of the saved model.

        Parameters
        ----------
        X : array-like of numbers (n_samples, n_features), data frame, or dict of columns
            NaN where a number is missing. A model that was fitted to a data frame takes one of
            pandas, polars or pyarrow, or a dict, and matches its columns by name.

        Returns
        -------
        array (n_samples,) or (n_samples, n_outputs)
        """
        encoder = self.fitted["inputs_"]["encoder"]
        if encoder is None:
            inputs = self._filled(np.asarray(X, np.float64))
        else:
            inputs = _encoded(encoder, X).astype(np.float64)
        rows = self._scaled(inputs)
        step = max(1, _MOST_NUMBERS // max(part.numbers_a_row for part in self._parts))
        # At least one block, of no rows if there are none.
        blocks = [rows[a : a + step] for a in range(0, max(1, len(rows)), step)]
        sums = [sum(part(block) for part in self._parts) for block in blocks]
        return np.concatenate(sums) + self.fitted["intercept_"]

    def predict(self, X: ArrayLike) -> Array:
        """Return numbers, the most likely class of each row, or the logarithm of its risk.

        Parameters
        ----------
        X : array-like of numbers (n_samples, n_features)
            NaN where a number is missing.

        Returns
        -------
        array (n_samples,) or (n_samples, n_outputs)
        """
        raw = self.decision_function(X)
        if "classes_" in self.fitted:
            return self.fitted["classes_"][raw.argmax(1) if raw.ndim > 1 else (raw > 0).astype(int)]
        is_survival = "baseline_" in self.fitted
        has_means = self.fitted["loss_"]["class"] in _EXPONENTIAL and not is_survival
        return np.exp(raw) if has_means else raw

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the calibrated probability of each class, of classifiers that have them.

        Parameters
        ----------
        X : array-like of numbers (n_samples, n_features)
            NaN where a number is missing.

        Returns
        -------
        array (n_samples, n_classes)
        """
        link = self.fitted.get("calibration_")
        if link is None:
            raise ValueError("the model has no probabilities; fit a classifier that is calibrated.")
        z = self.decision_function(X)
        z, scores = z[:, None] if z.ndim == 1 else z, np.zeros((1, 1))
        ends = [-np.inf, *link["knots"][1:-1], np.inf]
        for slope, low, high in zip(link["slopes"], ends[:-1], ends[1:], strict=True):
            scores = scores + slope * (np.clip(z, low, high) - np.clip(0.0, low, high))
        scores = np.hstack([np.zeros_like(z), scores]) if z.shape[1] == 1 else scores
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return (1.0 - link["floor"]) * shares + link["floor"] / shares.shape[1]

    def _filled(self, X: Array) -> Array:
        gaps, categories = self.fitted["inputs_"]["gaps"], self.fitted["inputs_"].get("categories")
        if X.ndim != 2 or X.shape[1] != self.fitted["n_features_in_"]:
            raise ValueError(f"rows must have {self.fitted['n_features_in_']} numbers each.")
        empty = self.fitted["inputs_"].get("empty")
        if empty is not None and np.size(empty):
            if not np.isnan(X[:, empty]).all():
                warnings.warn(
                    "inputs that held no values in fit hold numbers now, which are treated as "
                    "missing.",
                    stacklevel=2,
                )
            X = X.copy()
            X[:, empty] = np.nan
        X = X if categories is None else _with_codes(categories, X)
        if gaps is None:
            return X
        missing = np.isnan(X)
        return np.hstack([np.where(missing, gaps["fill"], X), missing[:, gaps["marked"]]])

    def _scaled(self, X: Array) -> Array:
        scaler = self.fitted["scaler_"]
        if scaler.get("limits") is not None:
            X = np.clip(X, *scaler["limits"])
        if scaler["kind"] in ("none", "standard"):
            return X
        if scaler["kind"] == "whiten":
            return self._whitened(scaler["whitening"], X)
        first = X.shape[1] if scaler["kind"] == "both" else 0
        out = np.zeros((len(X), len(scaler["unit"])))
        for j, unit in enumerate(scaler["unit"]):
            category = scaler["categorical"] is not None and scaler["categorical"][j]
            if j < first or category:
                out[:, j] = X[:, j % X.shape[1]]
            elif np.isfinite(unit):
                column, own = X[:, j % X.shape[1]], j - first
                out[:, j] = np.interp(column, scaler["knots"][own], scaler["levels"][own])
        return out

    @staticmethod
    def _whitened(whitening: Fitted, X: Array) -> Array:
        # Terms are added one after the other, as in the fit, for the same bits.
        sums = np.zeros(X.shape[::-1])
        for column, mean, axes in zip(X.T, whitening["mean"], whitening["axes"], strict=True):
            sums += axes[:, None] * (column - mean)
        return sums.T.astype(X.dtype, copy=False)

    def _decoded(self, value: Fitted) -> Fitted:
        if isinstance(value, list):
            return [self._decoded(item) for item in value]
        if not isinstance(value, dict):
            return value
        mark, content = next(iter(value.items()))
        if mark in ("tensor", "list"):
            return self._tensors[content]
        if mark == "text":
            return np.array(content)
        if mark == "float":
            return float(content)
        if mark == "dict":
            return {name: self._decoded(item) for name, item in content.items()}
        if mark == "array":
            return ARRAY_FORMS[content](**self._decoded({"dict": value["fields"]}))
        if mark == "record":
            return {"class": content, **self._decoded({"dict": value["fields"]})}
        if mark == "model":
            values = content["params"] | (content.get("state") or {})
            return {"class": content["class"], **self._decoded({"dict": values})}
        return self._decoded(content)


class _NotCoveredError(ValueError):
    """A model that needs the whole of gramless."""


# Values of tables.

# What stands for a missing value among numbers and dates written as text: the words that pandas
# reads so, and some that other programs write.
MISSING_WORDS = frozenset(
    [
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"),
        *("1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
        *("?", "NAN", "NaT", "\\N"),  # \N: MySQL, PostgreSQL
    ]
)
# How files and other programs spell truth values.
BOOLEAN_SPELLINGS = dict.fromkeys(("true", "TRUE", "True", "1"), "True")
BOOLEAN_SPELLINGS |= dict.fromkeys(("false", "FALSE", "False", "0"), "False")
# ISO 8601, to the month or finer.
DATE = re.compile(
    r"\d{4}-\d{2}(-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}(:?\d{2})?)?)?)?", re.ASCII
)
_OFFSET = re.compile(r":.*(Z|[+-]\d{2})", re.ASCII)
_WHOLE_FLOAT = re.compile(r"(-?(?:0|[1-9]\d*))\.0+", re.ASCII)
_POSITIVE_ZERO = {"-0": "0"}
_EPOCH = datetime.datetime(1970, 1, 1)
_DAY = 86400.0


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        # A comparison of pandas' NA has no truth value.
        return True


def type_of(value: object) -> str:
    """Return the type of a value that is not missing, as files name the types of columns."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, (bool, np.bool_)):
        return "boolean"
    # NumPy's durations count as integers.
    if isinstance(value, (datetime.timedelta, np.timedelta64)):
        return "timedelta"
    if isinstance(value, datetime.datetime):
        return "datetime" if value.tzinfo is None else "zoned"
    if isinstance(value, (datetime.date, np.datetime64)):
        return "datetime"
    if isinstance(value, datetime.time):
        return "time"
    return "number" if isinstance(value, (numbers.Real, Decimal)) else "category"


def seconds_or_number(value: Any) -> float:
    """Return a number, or the seconds of a date (since 1970 in UTC), duration or time of day."""
    if isinstance(value, np.datetime64):
        return float((value - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "s"))
    if isinstance(value, datetime.datetime):
        local = value.replace(tzinfo=None) - _EPOCH
        return (local - (value.utcoffset() or datetime.timedelta(0))).total_seconds()
    if isinstance(value, datetime.date):
        return (value - _EPOCH.date()).total_seconds()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.time):
        return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    return float(value)


def seconds_of_date(cell: str) -> float:
    """Return the seconds since 1970 in UTC of an ISO date; raise ValueError for other text."""
    if DATE.fullmatch(cell) is None:
        raise ValueError(cell)
    whole = cell if len(cell) > len("2020-01") else f"{cell}-01"
    return seconds_or_number(datetime.datetime.fromisoformat(whole))


def has_offset(cell: str) -> bool:
    """Return whether an ISO date has a time zone, such as "Z" or "+02:00"."""
    return _OFFSET.search(cell) is not None


def label(value: Any) -> str:
    """Return a value as text, whole numbers without ".0", and "" for a missing one."""
    if isinstance(value, str):
        return value
    if is_missing(value):
        return ""
    is_whole = isinstance(value, (float, np.floating)) and value.is_integer()
    return str(int(value) if is_whole else value)


def category_label(value: Any) -> str:
    """Return the label of a category, one for all values that are equal, and "" for a missing one.

    1, 1.0, "1" and "1.0" are "1", but "01" stays. Datetimes, also as text, are as in
    "2024-01-31 12:30:00", in UTC, without the time at midnight.
    """
    if isinstance(value, str):
        return _label_of_text(value)
    if is_missing(value):
        return ""
    write = LABEL_WRITERS.get(type_of(value))
    if write is not None:
        return write(seconds_or_number(value))
    if isinstance(value, Decimal) and value.is_finite():
        text = f"{value.normalize():f}"
        return _POSITIVE_ZERO.get(text, text)
    return label(value)


def _label_of_text(text: str) -> str:
    if text.endswith("0") and (whole := _WHOLE_FLOAT.fullmatch(text)) is not None:
        return _POSITIVE_ZERO.get(whole[1], whole[1])
    if len(text) > len("2024-01-31") and text[4] == text[7] == "-":
        with contextlib.suppress(ValueError, OverflowError):
            return _written_datetime(seconds_of_date(text))
    return text


def _written_datetime(seconds: float) -> str:
    moment = str(np.datetime64(round(seconds * 1e6), "us")).replace("T", " ")
    return moment.removesuffix(".000000").removesuffix(" 00:00:00")


def _written_time(seconds: float) -> str:
    clock = (datetime.datetime.min + datetime.timedelta(seconds=seconds % _DAY)).time()
    return clock.isoformat()


def _written_timedelta(seconds: float) -> str:
    return f"{int(seconds // _DAY)} days {_written_time(seconds)}"


# How categories are written whose values are seconds, by their type.
LABEL_WRITERS = {
    "datetime": _written_datetime,
    "zoned": _written_datetime,
    "timedelta": _written_timedelta,
    "time": _written_time,
}


# Tables.

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_ZEROS = re.compile(r"0+[1-9]\d*", re.ASCII)
_CLOCK = re.compile(r"(-?\d+ days )?\d\d:\d\d:\d\d(\.\d{6})?", re.ASCII)
# Labels of categories that values of a type can have.
_ALLOWED = {
    **{"number": _NUMBER, "datetime": DATE, "zoned": DATE},
    **{"timedelta": _CLOCK, "time": _CLOCK},
}
# Types of new columns that can be read as the type of the fit.
_READABLE = {
    "number": ("number", "boolean", "text"),
    "datetime": ("datetime", "zoned", "text"),
    "zoned": ("datetime", "zoned", "text"),
    "timedelta": ("timedelta",),
    "time": ("time",),
    "boolean": ("boolean", "number", "text"),
}
_MOST_UNKNOWN = 0.5


def _encoded(encoder: Part, X: Any) -> Array:
    """Return the columns of the fit as inputs, matched by name: see TableEncoder."""
    columns = [(code, _values(str(code["name"]), X)) for code in encoder["columns"]]
    lengths = {len(values) for _, values in columns}
    if len(lengths) != 1:
        raise ValueError(f"the columns have different lengths: {sorted(lengths)}.")
    inputs = [_inputs_of(code, values) for code, values in columns]
    return np.hstack(inputs).astype(encoder["dtype"])


def _values(name: str, X: Any) -> list[Any]:
    """Return the values of a column as Python's or NumPy's, None where missing."""
    try:
        keys = {str(key): key for key in getattr(X, "columns", ()) if isinstance(key, int)}
        column = X[keys.get(name, name)]
    # Frames raise errors of their own for a column that they lack.
    except Exception as fault:
        raise ValueError(
            f"the rows have no column {name!r}; give a data frame or a dict with the columns of "
            "the fit."
        ) from fault
    if type(column).__module__.partition(".")[0] == "pyarrow":
        column = column.to_pylist()
    array = np.asarray(column) if not isinstance(column, list) else None
    if array is not None and array.ndim != 1:
        raise ValueError(f"column {name!r} holds more than one value a row.")
    # NumPy turns integers with gaps into floats, and drops time zones.
    dtype = str(getattr(column, "dtype", "")).lower()
    as_given = "int" in dtype or (array is not None and array.dtype.kind == "M")
    values: Iterable[Any] = column if array is None or as_given else array
    return [None if is_missing(value) else value for value in values]


def _inputs_of(code: Part, values: list[Any]) -> Array:
    """Return the columns that stand for one column of a table."""
    present = [value for value in values if value is not None and value != ""]
    if code.get("type") == "empty":
        if present:
            warnings.warn(
                f"column {code['name']!r} held no values in fit; its values are treated as "
                "missing.",
                stacklevel=2,
            )
        return np.tile([0.0, 1.0] if code["indicator"] else [0.0], (len(values), 1))
    if code["fill"] is None:
        return _codes(code, values, present)[:, None]
    read = _numbers(code, values, present)
    missing = np.isnan(read)
    if np.isinf(read).any():
        raise ValueError(f"column {code['name']!r} holds infinity; give finite numbers.")
    filled = np.where(missing, code["fill"], read)
    return np.column_stack([filled, missing] if code["indicator"] else [filled])


def _numbers(code: Part, values: list[Any], present: list[Any]) -> Array:
    """Return the numbers of a column, NaN where missing."""
    type_ = code.get("type") or "number"
    for now in {type_of(value) for value in present}:
        # Files of 0.2.0 have no types: seconds and numbers are the same.
        if now not in _READABLE[type_] and (code.get("type") or now in ("text", "category")):
            raise _refused(code, now, present)
    are_booleans = any(type_of(value) == "boolean" for value in present)
    if type_ == "number" and are_booleans and not 0.0 <= code["fill"] <= 1.0:
        warnings.warn(
            f"column {code['name']!r} held numbers in fit and holds booleans now; they are read "
            "as 1 and 0.",
            stacklevel=2,
        )
    has_zone = any(
        has_offset(value) if isinstance(value, str) else type_of(value) == "zoned"
        for value in present
    )
    if present and type_ == ("datetime" if has_zone else "zoned"):
        warnings.warn(
            f"column {code['name']!r}: only its datetimes in fit or only those now have a time "
            "zone; those without count as UTC.",
            stacklevel=2,
        )
    are_dates = type_ in ("datetime", "zoned")
    numbers_read = []
    for value in values:
        is_text = isinstance(value, str)
        if value is None or (is_text and value.strip() in MISSING_WORDS):
            numbers_read.append(np.nan)
            continue
        try:
            if not is_text:
                numbers_read.append(seconds_or_number(value))
            elif are_dates:
                numbers_read.append(seconds_of_date(value.strip()))
            else:
                numbers_read.append(_written_number(value.strip(), code["notation"]))
        except (ValueError, OverflowError):
            raise _refused(code, type_of(value), [value]) from None
    return np.array(numbers_read, np.float64)


def _written_number(cell: str, notation: str) -> float:
    """Return a number that is written plainly, or as the text of the fit was."""
    if cell.lower() in ("true", "false"):
        return float(cell.lower() == "true")
    if _NUMBER.fullmatch(cell) and notation in ("1234.5", "1,234.5", "1 234.5", "1'234.5"):
        return float(cell)
    # Such as 1.234,5: the mark before the last digit parts decimals, the other one thousands.
    group, decimal = (notation[1], notation[-2]) if len(notation) == 7 else ("", ".")
    groups = " \u00a0\u202f" if group == " " else "'\u2019" if group == "'" else group
    part = f"[{re.escape(groups)}]" if groups else "(?!)"
    whole = rf"(?:\d+|[1-9]\d{{0,2}}(?:{part}\d{{3}})+)"
    mark = re.escape(decimal)
    if not re.fullmatch(
        rf"[+-]?(?:{whole}(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?", cell, re.ASCII
    ):
        raise ValueError(cell)
    return float(cell.translate({ord(mark): None for mark in groups} | {ord(decimal): "."}))


def _codes(code: Part, values: list[Any], present: list[Any]) -> Array:
    """Return the numbers of the categories of a column."""
    places = {category: k for k, category in enumerate(code["categories"])}
    type_, unknown = code.get("type"), len(places)
    if places.keys() <= {"", "True", "False"}:
        places |= {word: places[name] for word, name in BOOLEAN_SPELLINGS.items() if name in places}
    elif type_ and places.keys() <= {"", "0", "1"}:
        digits = {"True": "1", "False": "0"}
        spelled = [(word, digits[name]) for word, name in BOOLEAN_SPELLINGS.items()]
        places |= {word: places[digit] for word, digit in spelled if digit in places}
    if type_ == "boolean":
        places |= dict.fromkeys(MISSING_WORDS, places.get("", unknown))
    cells = [*map(category_label if type_ else label, values)]
    if type_:
        _check_categories(code, places, cells, present)
    codes = np.array([places.get(cell, unknown) for cell in cells], np.float64)
    odd = [cell for cell, place in zip(cells, codes, strict=True) if cell and place == unknown]
    is_complete = len(code["categories"]) < 50_000
    if type_ in ("text", "category") and is_complete and len(odd) > _MOST_UNKNOWN * len(present):
        warnings.warn(
            f"column {code['name']!r}: {100 * len(odd) / len(present):.0f} % of the values are "
            f"none of the categories in fit, such as {odd[0][:40]!r}.",
            stacklevel=2,
        )
    return codes


def _check_categories(
    code: Part, places: dict[str, int], cells: list[str], present: list[Any]
) -> None:
    """Raise ValueError unless a column can hold the categories of the fit."""
    for now in {type_of(value) for value in present}:
        if code["type"] == "boolean":
            odd = [c for c in cells if c not in BOOLEAN_SPELLINGS and c not in MISSING_WORDS]
            fits = now in _READABLE["boolean"] and not odd
        elif now == "boolean":
            fits = bool(places.keys() & {"True", "False"})
        elif now in _ALLOWED:
            fits = any(map(_ALLOWED[now].fullmatch, code["categories"]))
        else:
            fits = now in ("text", "category")
        if not fits:
            raise _refused(code, now, present)
        without = {name.lstrip("0"): name for name in code["categories"] if _ZEROS.fullmatch(name)}
        lost = [cell for cell in cells if cell in without] if now == "number" else []
        if lost:
            warnings.warn(
                f"column {code['name']!r} holds numbers such as {lost[0]} now, and "
                f"{without[lost[0]]!r} "
                "was a category in fit, which is another one.",
                stacklevel=2,
            )


def _refused(code: Part, now: str, values: list[Any]) -> ValueError:
    held = code.get("type") or "number"
    return ValueError(
        f"column {code['name']!r} held values of the type {held} in fit and holds {now} now, such "
        f"as {str(values[0])[:40]!r}; give values as in fit, or predict with gramless.load, which "
        "reads more forms."
    )


def _with_codes(categories: Part, X: Array) -> Array:
    """Return rows with codes in place of categories: -1 for NaN, the last code if unknown."""
    out, ends = X.copy(), categories["starts"][1:]
    for j, known in zip(categories["columns"], np.split(categories["values"], ends), strict=False):
        order = np.append(np.argsort(known), len(known))
        places = order[np.searchsorted(known, X[:, j], sorter=order[:-1])]
        out[:, j] = np.where(np.append(known, np.nan)[places] == X[:, j], places, len(known))
        is_missing = np.isnan(X[:, j])
        out[is_missing, j] = -1.0
        share = np.mean(out[~is_missing, j] == len(known)) if not is_missing.all() else 0.0
        if share > _MOST_UNKNOWN:
            warnings.warn(
                f"input {j}: {100 * share:.0f} % of the values are none of the categories in fit.",
                stacklevel=2,
            )
    return out


class _Bins:
    """Bins of grids: each has a weight, found by its 64-bit key."""

    def __init__(self, part: Part, weights: Array) -> None:
        self.shifts, self.inverse = part["shifts_"], 1.0 / part["widths_"]
        self.projection = part.get("projection")
        self.multipliers, self.begun = part["multipliers"], part["cell_offsets"]
        with np.errstate(divide="ignore", over="ignore"):
            far = 1e18 / self.inverse.max(axis=0)
        self.limits = np.minimum(far, np.finfo(float).max)
        is_category = (self.inverse == 1.0) & (self.shifts == 0.5)
        is_short = (self.multipliers & (2**24 - 1) == 0) & ~is_category
        self.most_cells = np.where(is_short, float(0x5555555555), 2.0**62)
        self.first, self.end = part["offsets_"][:-1], part["offsets_"][1:]
        ranges = zip(self.first, self.end, strict=True)
        keys = part["keys"] if "keys" in part else _keys_of_cells(part)
        order = np.concatenate([a + np.argsort(keys[a:b]) for a, b in ranges])
        self.keys = keys[order]
        self.weights = weights[order] * part.get("scale_", len(self.inverse) ** -0.5)
        self.numbers_a_row = self.inverse.size + self.weights[0].size * len(self.inverse)

    @staticmethod
    def n_columns(part: Part) -> int:
        return int(part["offsets_"][-1])

    def __call__(self, X: Array) -> Array:
        """Return sums of weights; rows in a bin never seen add nothing in its grid."""
        if self.projection is not None:
            X = _with_combinations(X, self.projection)
        X = np.clip(X, -self.limits, self.limits)[:, None]
        scaled = np.clip((X - self.shifts) * self.inverse, -self.most_cells, self.most_cells)
        cells = np.floor(scaled).astype(np.int64)
        keys = (cells * self.multipliers).sum(axis=2) + self.begun
        at = np.broadcast_to(self.first, keys.shape)
        # A search by halves in all grids at once: how many of a grid's keys are below.
        for bit in range(int((self.end - self.first).max()).bit_length() - 1, -1, -1):
            beyond = at + (1 << bit)
            below = (beyond <= self.end) & (self.keys.take(beyond - 1, mode="clip") < keys)
            at = np.where(below, beyond, at)
        at = np.minimum(at, self.end - 1)
        own = self.weights[at]
        own[self.keys[at] != keys] = 0.0
        return own.sum(axis=1)


def _with_combinations(X: Array, projection: Array) -> Array:
    """Return rows with linear combinations of their inputs behind them.

    Terms are added one after the other: a sum in another order may lie in another cell.
    """
    sums = np.zeros((len(X), projection.shape[1]))
    with np.errstate(over="ignore"):
        for column, factors in zip(X.T, projection, strict=True):
            sums += np.clip(column[:, None] * factors, -1e100, 1e100)
    return np.hstack([X, sums])


def _keys_of_cells(part: Part) -> Array:
    """Return the keys of bins that are given by the ranks of their cells in boxes."""
    cells, divided = part["cells"], np.isfinite(part["widths_"])
    ends, keys = np.cumsum(divided.sum(axis=1)), []
    gaps = np.split(cells["gaps"], np.cumsum(cells["runs"])[:-1])
    ranks = np.concatenate([np.cumsum(own + 1) - 1 for own in gaps])
    for r, (a, b) in enumerate(zip(part["offsets_"][:-1], part["offsets_"][1:], strict=True)):
        columns = np.flatnonzero(divided[r])
        own = slice(ends[r] - len(columns), ends[r])
        lowest, lengths, rest = cells["lowest"][own], cells["lengths"][own], ranks[a:b]
        if not lengths.all():
            keys.append(rest << 24)
            continue
        found = np.full(b - a, part["cell_offsets"][r])
        for k in range(len(columns) - 1, -1, -1):
            rest, cell = np.divmod(rest, lengths[k])
            found += part["multipliers"][r, columns[k]] * (cell + lowest[k])
        keys.append(found)
    return np.concatenate(keys)


class _Gaussians:
    """A Gaussian kernel between rows and landmarks, whose weights may have been whitened."""

    def __init__(self, part: Part, weights: Array) -> None:
        kernel = part["kernel"]
        if (kernel if isinstance(kernel, str) else kernel.get("name")) != "gaussian":
            raise _NotCoveredError("kernels other than the Gaussian need gramless.load.")
        if not (part["bandwidth_"] > 0.0).all():
            raise ValueError("its bandwidths are not positive")
        self.landmarks, self.inverse = part["landmarks_"], 1.0 / part["bandwidth_"]
        self.numbers_a_row = self.landmarks.size
        self.categorical = np.zeros(len(self.inverse), bool)
        if part.get("categorical_", part.get("categorical")) is not None:
            self.categorical[part.get("categorical_", part.get("categorical"))] = True
        whitened = "factor_" in part
        self.weights = np.linalg.solve(part["factor_"].T, weights) if whitened else weights

    @staticmethod
    def n_columns(part: Part) -> int:
        return len(part["landmarks_"])

    def __call__(self, X: Array) -> Array:
        """Return weighted sums of kernel values."""
        apart = X[:, None] - self.landmarks
        apart[..., self.categorical] = apart[..., self.categorical] != 0.0
        return np.exp(-0.5 * np.square(apart * self.inverse).sum(axis=2)) @ self.weights


class _Projected:
    """A Gaussian kernel between projections of rows and landmarks."""

    def __init__(self, part: Part, weights: Array) -> None:
        self.projection, self.inner = part["projection_"], _Gaussians(part["map_"], weights)
        self.numbers_a_row = self.inner.numbers_a_row

    @staticmethod
    def n_columns(part: Part) -> int:
        return _Gaussians.n_columns(part["map_"])

    def __call__(self, X: Array) -> Array:
        """Return weighted sums of kernel values."""
        return self.inner(X @ self.projection)


class _Trend:
    """Products of two standardised inputs, or of one and 1, and indicators of categories."""

    def __init__(self, part: Part, weights: Array) -> None:
        self.centre, self.spread, self.means = part["centre_"], part["spread_"], part["means_"]
        self.first, self.second = part["factors_"].T
        columns, self.values = part.get("categories_", np.empty((0, 2))).T
        self.columns = columns.astype(np.intp)
        self.weights = (part["scales_"] * weights.T).T
        self.numbers_a_row = len(self.first)

    @staticmethod
    def n_columns(part: Part) -> int:
        return len(part["factors_"])

    def __call__(self, X: Array) -> Array:
        """Return weighted sums of products, less their means."""
        scores = np.clip((X - self.centre) / self.spread, -6.0, 6.0)
        # The last one is what -1 stands for.
        scores = np.hstack([scores, X[:, self.columns] == self.values, np.ones((len(X), 1))])
        return (scores[:, self.first] * scores[:, self.second] - self.means) @ self.weights


_PARTS: dict[str, type[_Bins | _Gaussians | _Projected | _Trend]] = {
    **dict.fromkeys(("GivenBinning", "RandomBinning"), _Bins),
    **dict.fromkeys(("Nystrom", "KernelExpansion"), _Gaussians),
    "ProjectedMap": _Projected,
    "PolynomialTrend": _Trend,
}


def _tensor(data: bytes, entry: Part) -> Array:
    first, last = entry["data_offsets"]
    numbers = np.frombuffer(data[first:last], _TYPES[entry["dtype"]])
    return numbers.reshape(entry["shape"]).astype(numbers.dtype.newbyteorder("="), copy=False)


def _require(is_sound: bool) -> None:
    if not is_sound:
        raise ValueError("a compact form of an array is damaged")


def _is_array(array: Fitted, dtype: type[np.generic]) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim > 0


def _n_numbers(shape: list[int]) -> int:
    _require(all(type(length) is int and length > 0 for length in shape))
    return math.prod(shape)


def _inflated(data: Array, size: int) -> Array:
    """Return so many bytes of a foreign file, never more."""
    _require(_is_array(data, np.uint8))
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data.tobytes(), size)
        # zlib checks the checksum only when it reads on.
        more = stream.decompress(stream.unconsumed_tail, 1)
    except zlib.error as fault:
        raise ValueError("a compact form of an array is damaged") from fault
    _require(len(content) == size and not more and stream.eof and not stream.unused_data)
    return np.frombuffer(content, np.uint8)


def _deflated(data: Array, dtype: str, shape: list[int], n_planes: int) -> Array:
    _require(dtype in ("float64", "int64") and n_planes in (1, 8))
    planes = _inflated(data, 8 * _n_numbers(shape)).reshape(n_planes, -1)
    numbers = planes.T.flatten().view(f"<{dtype[0]}8")
    return numbers.reshape(tuple(shape)).astype(dtype, copy=False)


# Files of version 0.2.0 hold the following forms.


def _single_precision(values: Array) -> Array:
    _require(_is_array(values, np.float32))
    return values.astype(np.float64)


def _mostly_one(fill: float, places: Array, others: Array, shape: list[int]) -> Array:
    size = _n_numbers(shape)
    _require(_is_array(places, np.uint8) and places.shape == (-(-size // 8),))
    _require(_is_array(others, np.float64) or _is_array(others, np.int64))
    _require(others.ndim == 1)
    array = np.full(size, fill, others.dtype)
    array[np.unpackbits(places, count=size).view(bool)] = others
    return array.reshape(tuple(shape))


def _high_bytes(high: Array) -> Array:
    _require(_is_array(high, np.uint8) and 4 <= high.shape[-1] < 8)
    numbers = np.zeros((*high.shape[:-1], 8), np.uint8)
    numbers[..., 8 - high.shape[-1] :] = high
    return numbers.view("<i8")[..., 0].astype(np.int64, copy=False)


def _fixed_point(exponents: list[int], planes: list[Array], shape: list[int]) -> Array:
    size = _n_numbers(shape)
    _require(all(type(exponent) is int and abs(exponent) <= 2048 for exponent in exponents))
    _require(len(planes) <= 6)
    zigzag = np.zeros(size, np.int64)
    for k, plane in enumerate(planes):
        zigzag |= _inflated(plane, size).astype(np.int64) << 8 * k
    multiples = (zigzag >> 1) ^ -(zigzag & 1)
    if not exponents:
        return multiples.reshape(tuple(shape))
    columns = multiples.reshape(shape[0], -1)
    _require(columns.shape[1] == len(exponents))
    with np.errstate(over="ignore"):
        return np.ldexp(columns, exponents).reshape(tuple(shape))


ARRAY_FORMS: dict[str, Callable[..., Array]] = {
    "Deflated": _deflated,
    "FixedPoint": _fixed_point,
    "MostlyOne": _mostly_one,
    "SinglePrecision": _single_precision,
    "HighBytes": _high_bytes,
}
"""Functions that restore arrays from their fields in a file, by the names that files give them."""
