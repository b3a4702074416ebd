"""Predictions from a model file with NumPy alone.

This one file needs neither the rest of gramless nor numba, SciPy or scikit-learn, and compiles
nothing. It is meant for services that start cold, and can be copied as a reader of the file format.
The rest of gramless converts the values of tables by functions of this file, so that both agree.
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
# A value in a model file: an array, a number, text, None, or a list or dict of such.
Fitted: TypeAlias = Any
# The attributes of an object in a model file, and its class under the key "class".
Part: TypeAlias = dict[str, Fitted]

_TYPES = {"BOOL": "?"} | {f"{k.upper()}{8 * n}": f"<{k}{n}" for k in "fiu" for n in (1, 2, 4, 8)}
# Losses by the link between predictions and raw responses.
_IDENTITY_LINK, _LOG_LINK = ("Squared", "Huber"), ("Poisson", "Gamma", "Tweedie")
_MAX_WEIGHT = 1e300  # sums of larger weights could overflow
_NUMBERS_AT_ONCE = 1 << 22  # numbers of intermediate results for one block of rows


class PortableModel:
    """A saved kernel regressor, classifier or survival model that predicts with NumPy alone.

    It supports the features that default fits select: binning, Gaussian kernels, trends, their
    combinations, and kernel ridge regression. It also supports data frames, categories, missing
    values and several outputs. Predictions differ from those of the model by rounding errors of
    about 1e-15 of the largest response.

    Parameters
    ----------
    path : str or path-like
        A file written by :func:`gramless.save`. Nothing in it is executed.

    Raises
    ------
    ValueError
        If the path is not a regular file, or if the file is damaged or holds an unsupported model:
        a fit to sparse rows with many columns, another feature map, ordered classes, several
        labels, or a quantile loss.
    OSError
        If the file does not exist or cannot be read.

    Notes
    -----
    Models loaded by :func:`gramless.load` predict large batches about ten times as fast.

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
            raise ValueError(f"{path} is not a regular file; name a model file.")
        try:
            self._read(path)
        except _NotCoveredError as error:
            raise ValueError(f"{path}: {error}") from None
        # A damaged header leads to errors of many kinds.
        except (
            *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError),
            *(RecursionError, AssertionError, StopIteration, zlib.error, np.linalg.LinAlgError),
        ) as error:
            raise ValueError(
                f"{path} is damaged or not a gramless model ({type(error).__name__}: "
                f"{str(error)[:200]}); copy it again, or save the model again."
            ) from error

    def _read(self, path: str | os.PathLike[str]) -> None:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= os.fstat(file.fileno()).st_size - 8:
                raise ValueError("its header is cut off")
            text = file.read(length)
            data = file.read()
        header = json.loads(text)
        metadata = header.pop("__metadata__")
        # The header contains its own digest, which was computed with zeros in its place.
        digest = metadata["header_sha256"].encode()
        content = length.to_bytes(8, "little") + text
        entry = b'"header_sha256":"%s"'
        digested = content.replace(entry % digest, entry % (b"0" * 64))
        if hashlib.sha256(digested).hexdigest().encode() != digest:
            raise ValueError("the checksum of its header is wrong")
        if hashlib.sha256(data).hexdigest() != metadata["data_sha256"]:
            raise ValueError("the checksum of its data is wrong")
        self._tensors = {name: _read_tensor(data, entry) for name, entry in header.items()}
        self.fitted: Part = self._decode({"model": json.loads(metadata["model"])})
        fitted, inputs = self.fitted, self.fitted["inputs_"]
        loss = fitted["loss_"]["class"]
        if "classes_" in fitted:
            is_covered = not fitted["multilabel_"] and loss != "CumulativeLogistic"
        else:
            is_covered = loss in _IDENTITY_LINK + _LOG_LINK
        if not is_covered:
            raise _NotCoveredError(f"{loss} models of this kind need gramless.load.")
        if inputs["kept"] is not None:
            raise _NotCoveredError("fits to sparse rows of many columns need gramless.load.")
        features = fitted["features_"]
        is_joined = features["class"] == "JoinedMaps"
        maps = features["maps_"] if is_joined else [features]
        scales = features["scales_"] if is_joined else [1.0]
        # Files up to version 0.2 call the weights coef_.
        weights = fitted["weights_"] if "weights_" in fitted else fitted["coef_"]
        self._parts, start = [], 0
        for part, scale in zip(maps, scales, strict=True):
            part_class = _PARTS.get(part["class"])
            if part_class is None:
                raise _NotCoveredError(f"{part['class']} features need gramless.load.")
            n_columns = part_class.n_columns(part)
            scaled = scale * weights[start : start + n_columns]
            # This comparison is False for NaN, too.
            if not np.abs(scaled).max(initial=0.0) < _MAX_WEIGHT:
                raise ValueError(f"its weights are not finite or beyond {_MAX_WEIGHT:g}")
            self._parts.append(part_class(part, scaled))
            start += n_columns
        # Some errors of the header show only in predictions, so two rows are predicted.
        rows: Any = np.zeros((2, fitted["n_features_in_"]))
        if inputs["encoder"] is not None:
            rows = {str(code["name"]): [None, None] for code in inputs["encoder"]["columns"]}
        raw = self.decision_function(rows)
        if raw.shape != (2, *weights.shape[1:]) or not np.isfinite(raw).all():
            raise ValueError("its predictions are not finite or do not fit its weights")
        self.predict(rows)
        if fitted.get("calibration_") is not None:
            is_finite = np.isfinite(fitted["calibration_"]["slopes"]).all()
            if not is_finite or not np.isfinite(self.predict_proba(rows)).all():
                raise ValueError("its probabilities are not finite")

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the raw responses of the saved model.

        Parameters
        ----------
        X : array-like of numbers (n_samples, n_features), data frame, or dict of columns
            Missing numbers are NaN. A model that was fitted to a data frame needs a data frame of
            pandas, polars or pyarrow, or a dict; columns are matched by name.

        Returns
        -------
        array (n_samples,) or (n_samples, n_outputs)
        """
        encoder = self.fitted["inputs_"]["encoder"]
        if encoder is None:
            inputs = self._impute(np.asarray(X, np.float64))
        else:
            inputs = _encode(encoder, X).astype(np.float64)
        rows = self._scale(inputs)
        step = max(1, _NUMBERS_AT_ONCE // max(part.numbers_per_row for part in self._parts))
        # Without rows, there is one empty block.
        blocks = [rows[a : a + step] for a in range(0, max(1, len(rows)), step)]
        sums = [sum(part(block) for part in self._parts) for block in blocks]
        return np.concatenate(sums) + self.fitted["intercept_"]

    def predict(self, X: ArrayLike) -> Array:
        """Return predicted numbers, the most likely classes, or the logarithms of the risks.

        Parameters
        ----------
        X : array-like of numbers (n_samples, n_features), data frame, or dict of columns
            As in :meth:`decision_function`.

        Returns
        -------
        array (n_samples,) or (n_samples, n_outputs)
        """
        raw = self.decision_function(X)
        if "classes_" in self.fitted:
            return self.fitted["classes_"][raw.argmax(1) if raw.ndim > 1 else (raw > 0).astype(int)]
        is_survival = "baseline_" in self.fitted
        has_log_link = self.fitted["loss_"]["class"] in _LOG_LINK and not is_survival
        return np.exp(raw) if has_log_link else raw

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the calibrated probability of each class.

        Raises ``ValueError`` if the model has no probabilities.

        Parameters
        ----------
        X : array-like of numbers (n_samples, n_features), data frame, or dict of columns
            As in :meth:`decision_function`.

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

    def _impute(self, X: Array) -> Array:
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
        X = X if categories is None else _replace_categories(categories, X)
        if gaps is None:
            return X
        missing = np.isnan(X)
        return np.hstack([np.where(missing, gaps["fill"], X), missing[:, gaps["marked"]]])

    def _scale(self, X: Array) -> Array:
        scaler = self.fitted["scaler_"]
        if scaler.get("limits") is not None:
            X = np.clip(X, *scaler["limits"])
        if scaler["kind"] in ("none", "standard"):
            return X
        if scaler["kind"] == "whiten":
            means, axes = scaler["whitening"]["mean"], scaler["whitening"]["axes"]
            # The terms are added in the same order as in the fit, for the same bits.
            sums = np.zeros(X.shape[::-1])
            for column, mean, directions in zip(X.T, means, axes, strict=True):
                sums += directions[:, None] * (column - mean)
            return sums.T.astype(X.dtype, copy=False)
        first_rank = X.shape[1] if scaler["kind"] == "both" else 0
        out = np.zeros((len(X), len(scaler["unit"])))
        for j, unit in enumerate(scaler["unit"]):
            is_category = scaler["categorical"] is not None and scaler["categorical"][j]
            if j < first_rank or is_category:
                out[:, j] = X[:, j % X.shape[1]]
            elif np.isfinite(unit):
                column, k = X[:, j % X.shape[1]], j - first_rank
                out[:, j] = np.interp(column, scaler["knots"][k], scaler["levels"][k])
        return out

    def _decode(self, value: Fitted) -> Fitted:
        if isinstance(value, list):
            return [self._decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        tag, content = next(iter(value.items()))
        if tag in ("tensor", "list"):
            return self._tensors[content]
        if tag == "text":
            return np.array(content)
        if tag == "float":
            return float(content)
        if tag == "dict":
            return {name: self._decode(item) for name, item in content.items()}
        if tag == "array":
            return ARRAY_FORMS[content](**self._decode({"dict": value["fields"]}))
        if tag == "record":
            return {"class": content, **self._decode({"dict": value["fields"]})}
        if tag == "model":
            values = content["params"] | (content.get("state") or {})
            return {"class": content["class"], **self._decode({"dict": values})}
        return self._decode(content)


class _NotCoveredError(ValueError):
    """A model that this file does not support."""


# Values of tables.

# Words for missing values in text columns of numbers or dates: those of pandas and of some other
# programs.
MISSING_WORDS = frozenset(
    [
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"),
        *("1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
        *("?", "NAN", "NaT", "\\N"),  # \N: MySQL, PostgreSQL
    ]
)
# Labels of booleans by their spellings in files and other programs.
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
        # Comparisons with pandas' NA have no truth value.
        return True


def type_of(value: object) -> str:
    """Return the type of a value that is not missing, a key of ``columns.COLUMN_TYPES``."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, (bool, np.bool_)):
        return "boolean"
    # Before numbers, because NumPy's durations are instances of integers.
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
    """Return a number as a float, or the seconds of a date, duration or time of day.

    Dates count from 1970 in UTC.
    """
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
    """Return a value as text, with whole numbers without ".0" and missing values as ""."""
    if isinstance(value, str):
        return value
    if is_missing(value):
        return ""
    is_whole = isinstance(value, (float, np.floating)) and value.is_integer()
    return str(int(value) if is_whole else value)


def category_label(value: Any) -> str:
    """Return the label of a category, the same for all equal values, and "" for missing ones.

    1, 1.0, "1" and "1.0" are "1", but "01" stays. Datetimes, also as text, become UTC as in
    "2024-01-31 12:30:00", without the time if it is midnight.
    """
    if isinstance(value, str):
        if value.endswith("0") and (whole := _WHOLE_FLOAT.fullmatch(value)) is not None:
            return _POSITIVE_ZERO.get(whole[1], whole[1])
        if len(value) > len("2024-01-31") and value[4] == value[7] == "-":
            with contextlib.suppress(ValueError, OverflowError):
                return _datetime_label(seconds_of_date(value))
        return value
    if is_missing(value):
        return ""
    label_of = LABEL_WRITERS.get(type_of(value))
    if label_of is not None:
        return label_of(seconds_or_number(value))
    if isinstance(value, Decimal) and value.is_finite():
        text = f"{value.normalize():f}"
        return _POSITIVE_ZERO.get(text, text)
    return label(value)


def _datetime_label(seconds: float) -> str:
    moment = str(np.datetime64(round(seconds * 1e6), "us")).replace("T", " ")
    return moment.removesuffix(".000000").removesuffix(" 00:00:00")


def _time_label(seconds: float) -> str:
    clock = (datetime.datetime.min + datetime.timedelta(seconds=seconds % _DAY)).time()
    return clock.isoformat()


def _timedelta_label(seconds: float) -> str:
    return f"{int(seconds // _DAY)} days {_time_label(seconds)}"


# Functions from seconds to labels of categories, by type.
LABEL_WRITERS = {
    "datetime": _datetime_label,
    "zoned": _datetime_label,
    "timedelta": _timedelta_label,
    "time": _time_label,
}


# Tables.

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WITH_LEADING_ZEROS = re.compile(r"0+[1-9]\d*", re.ASCII)
_CLOCK = re.compile(r"(-?\d+ days )?\d\d:\d\d:\d\d(\.\d{6})?", re.ASCII)
# Patterns of the category labels of a type.
_LABEL_PATTERNS = {
    **{"number": _NUMBER, "datetime": DATE, "zoned": DATE},
    **{"timedelta": _CLOCK, "time": _CLOCK},
}
# Types of a column in new rows, by its type in the fit, that can be read.
_READABLE = {
    "number": ("number", "boolean", "text"),
    "datetime": ("datetime", "zoned", "text"),
    "zoned": ("datetime", "zoned", "text"),
    "timedelta": ("timedelta",),
    "time": ("time",),
    "boolean": ("boolean", "number", "text"),
}
_MAX_UNKNOWN_SHARE = 0.5


def _encode(encoder: Part, X: Any) -> Array:
    """Return the inputs of a table, as TableEncoder.transform does."""
    columns = [(code, _column_values(str(code["name"]), X)) for code in encoder["columns"]]
    lengths = {len(values) for _, values in columns}
    if len(lengths) != 1:
        raise ValueError(f"the columns have different lengths: {sorted(lengths)}.")
    inputs = [_encode_column(code, values) for code, values in columns]
    return np.hstack(inputs).astype(encoder["dtype"])


def _column_values(name: str, X: Any) -> list[Any]:
    """Return the values of a column as Python or NumPy objects, None for missing ones."""
    try:
        keys = {str(key): key for key in getattr(X, "columns", ()) if isinstance(key, int)}
        column = X[keys.get(name, name)]
    # Libraries raise different errors for a column that does not exist.
    except Exception as error:
        raise ValueError(
            f"the rows have no column {name!r}; give a data frame or a dict with the columns of "
            "the fit."
        ) from error
    if type(column).__module__.partition(".")[0] == "pyarrow":
        column = column.to_pylist()
    array = np.asarray(column) if not isinstance(column, list) else None
    if array is not None and array.ndim != 1:
        raise ValueError(f"column {name!r} holds more than one value per row.")
    # NumPy converts integers with missing values to floats, and drops time zones.
    dtype = str(getattr(column, "dtype", "")).lower()
    loses_information = "int" in dtype or (array is not None and array.dtype.kind == "M")
    values: Iterable[Any] = column if array is None or loses_information else array
    return [None if is_missing(value) else value for value in values]


def _encode_column(code: Part, values: list[Any]) -> Array:
    """Return the inputs of one column of a table, as ColumnCode.write does."""
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
        return _category_codes(code, values, present)[:, None]
    column = _parse_column(code, values, present)
    missing = np.isnan(column)
    if np.isinf(column).any():
        raise ValueError(f"column {code['name']!r} holds infinity; give finite numbers.")
    filled = np.where(missing, code["fill"], column)
    return np.column_stack([filled, missing] if code["indicator"] else [filled])


def _parse_column(code: Part, values: list[Any], present: list[Any]) -> Array:
    type_ = code.get("type") or "number"
    for new_type in {type_of(value) for value in present}:
        is_readable = new_type in _READABLE[type_]
        # Files of 0.2.0 have no types, and do not distinguish seconds from other numbers.
        if not is_readable and (code.get("type") or new_type in ("text", "category")):
            raise _type_error(code, new_type, present)
    has_booleans = any(type_of(value) == "boolean" for value in present)
    if type_ == "number" and has_booleans and not 0.0 <= code["fill"] <= 1.0:
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
    is_date = type_ in ("datetime", "zoned")
    floats = []
    for value in values:
        is_text = isinstance(value, str)
        if value is None or (is_text and value.strip() in MISSING_WORDS):
            floats.append(np.nan)
            continue
        try:
            if not is_text:
                floats.append(seconds_or_number(value))
            elif is_date:
                floats.append(seconds_of_date(value.strip()))
            else:
                floats.append(_parse_number(value.strip(), code["notation"]))
        except (ValueError, OverflowError):
            raise _type_error(code, type_of(value), [value]) from None
    return np.array(floats, np.float64)


def _parse_number(cell: str, notation: str) -> float:
    """Return a number written plainly or in the notation of the fit."""
    if cell.lower() in ("true", "false"):
        return float(cell.lower() == "true")
    if _NUMBER.fullmatch(cell) and notation in ("1234.5", "1,234.5", "1 234.5", "1'234.5"):
        return float(cell)
    # In a notation such as 1.234,5, the first mark separates groups of three digits, and the second
    # one decimals.
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


def _category_codes(code: Part, values: list[Any], present: list[Any]) -> Array:
    code_of = {category: k for k, category in enumerate(code["categories"])}
    type_, unknown = code.get("type"), len(code_of)
    if code_of.keys() <= {"", "True", "False"}:
        spellings = BOOLEAN_SPELLINGS.items()
        code_of |= {word: code_of[name] for word, name in spellings if name in code_of}
    elif type_ and code_of.keys() <= {"", "0", "1"}:
        digits = {"True": "1", "False": "0"}
        numbered = [(word, digits[name]) for word, name in BOOLEAN_SPELLINGS.items()]
        code_of |= {word: code_of[digit] for word, digit in numbered if digit in code_of}
    if type_ == "boolean":
        code_of |= dict.fromkeys(MISSING_WORDS, code_of.get("", unknown))
    cells = [*map(category_label if type_ else label, values)]
    if type_:
        _check_category_type(code, code_of, cells, present)
    codes = np.array([code_of.get(cell, unknown) for cell in cells], np.float64)
    unseen = [cell for cell, k in zip(cells, codes, strict=True) if cell and k == unknown]
    is_complete = len(code["categories"]) < 50_000
    if (
        type_ in ("text", "category")
        and is_complete
        and len(unseen) > _MAX_UNKNOWN_SHARE * len(present)
    ):
        warnings.warn(
            f"column {code['name']!r}: {100 * len(unseen) / len(present):.0f} % of the values are "
            f"none of the categories in fit, such as {unseen[0][:40]!r}.",
            stacklevel=2,
        )
    return codes


def _check_category_type(
    code: Part, code_of: dict[str, int], cells: list[str], present: list[Any]
) -> None:
    """Raise ValueError if a column of new rows cannot hold the categories of the fit."""
    for new_type in {type_of(value) for value in present}:
        if code["type"] == "boolean":
            odd = [c for c in cells if c not in BOOLEAN_SPELLINGS and c not in MISSING_WORDS]
            is_readable = new_type in _READABLE["boolean"] and not odd
        elif new_type == "boolean":
            is_readable = bool(code_of.keys() & {"True", "False"})
        elif new_type in _LABEL_PATTERNS:
            is_readable = any(map(_LABEL_PATTERNS[new_type].fullmatch, code["categories"]))
        else:
            is_readable = new_type in ("text", "category")
        if not is_readable:
            raise _type_error(code, new_type, present)
        padded_names = filter(_WITH_LEADING_ZEROS.fullmatch, code["categories"])
        padded = {name.lstrip("0"): name for name in padded_names}
        stripped = [cell for cell in cells if cell in padded] if new_type == "number" else []
        if stripped:
            warnings.warn(
                f"column {code['name']!r} holds numbers such as {stripped[0]} now, and "
                f"{padded[stripped[0]]!r} was a category in fit, which is another one.",
                stacklevel=2,
            )


def _type_error(code: Part, new_type: str, values: list[Any]) -> ValueError:
    held = code.get("type") or "number"
    return ValueError(
        f"column {code['name']!r} held values of the type {held} in fit and holds {new_type} now, "
        f"such as {str(values[0])[:40]!r}; give values as in fit, or predict with gramless.load, "
        "which reads more forms."
    )


def _replace_categories(categories: Part, X: Array) -> Array:
    """Return rows with codes in place of categories, as CategoryCodes.transform does."""
    out, ends = X.copy(), categories["starts"][1:]
    for j, known in zip(categories["columns"], np.split(categories["values"], ends), strict=False):
        order = np.append(np.argsort(known), len(known))
        codes = order[np.searchsorted(known, X[:, j], sorter=order[:-1])]
        out[:, j] = np.where(np.append(known, np.nan)[codes] == X[:, j], codes, len(known))
        is_missing = np.isnan(X[:, j])
        out[is_missing, j] = -1.0
        share = np.mean(out[~is_missing, j] == len(known)) if not is_missing.all() else 0.0
        if share > _MAX_UNKNOWN_SHARE:
            warnings.warn(
                f"input {j}: {100 * share:.0f} % of the values are none of the categories in fit.",
                stacklevel=2,
            )
    return out


class _Bins:
    """Random binning features: the weights of the bins, sorted by 64-bit key in each grid."""

    def __init__(self, part: Part, weights: Array) -> None:
        self.shifts, self.inverse_widths = part["shifts_"], 1.0 / part["widths_"]
        self.projection = part.get("projection")
        self.multipliers, self.key_offsets = part["multipliers"], part["cell_offsets"]
        # The bounds of inputs and cells are those of features/grids.py, so that inputs far away
        # from the training rows get the same keys.
        with np.errstate(divide="ignore", over="ignore"):
            bound = 1e18 / self.inverse_widths.max(axis=0)
        self.input_bounds = np.minimum(bound, np.finfo(float).max)
        is_category = (self.inverse_widths == 1.0) & (self.shifts == 0.5)
        is_short = (self.multipliers & (2**24 - 1) == 0) & ~is_category
        self.cell_bounds = np.where(is_short, float(0x5555555555), 2.0**62)
        self.first, self.end = part["offsets_"][:-1], part["offsets_"][1:]
        ranges = zip(self.first, self.end, strict=True)
        keys = part["keys"] if "keys" in part else _keys_of_cells(part)
        order = np.concatenate([a + np.argsort(keys[a:b]) for a, b in ranges])
        self.keys = keys[order]
        n_grids = len(self.inverse_widths)
        self.weights = weights[order] * part.get("scale_", n_grids**-0.5)
        self.numbers_per_row = self.inverse_widths.size + self.weights[0].size * n_grids

    @staticmethod
    def n_columns(part: Part) -> int:
        return int(part["offsets_"][-1])

    def __call__(self, X: Array) -> Array:
        if self.projection is not None:
            # Linear combinations follow the inputs. Their terms are added in the order of the
            # inputs, because rounding in another order could move a sum into another cell.
            sums = np.zeros((len(X), self.projection.shape[1]))
            with np.errstate(over="ignore"):
                for column, factors in zip(X.T, self.projection, strict=True):
                    sums += np.clip(column[:, None] * factors, -1e100, 1e100)
            X = np.hstack([X, sums])
        X = np.clip(X, -self.input_bounds, self.input_bounds)[:, None]
        scaled = (X - self.shifts) * self.inverse_widths
        scaled = np.clip(scaled, -self.cell_bounds, self.cell_bounds)
        cells = np.floor(scaled).astype(np.int64)
        keys = (cells * self.multipliers).sum(axis=2) + self.key_offsets
        # A binary search in all grids at once, for the first key of a grid that is not smaller.
        positions = np.broadcast_to(self.first, keys.shape)
        for bit in range(int((self.end - self.first).max()).bit_length() - 1, -1, -1):
            candidates = positions + (1 << bit)
            is_smaller = self.keys.take(candidates - 1, mode="clip") < keys
            positions = np.where((candidates <= self.end) & is_smaller, candidates, positions)
        positions = np.minimum(positions, self.end - 1)
        bin_weights = self.weights[positions]
        bin_weights[self.keys[positions] != keys] = 0.0  # bins without training rows
        return bin_weights.sum(axis=1)


def _keys_of_cells(part: Part) -> Array:
    """Return the keys of bins that a file stores as ranks of cells in the box of each grid."""
    cells, is_divided = part["cells"], np.isfinite(part["widths_"])
    ends, keys = np.cumsum(is_divided.sum(axis=1)), []
    gaps = np.split(cells["gaps"], np.cumsum(cells["runs"])[:-1])
    ranks = np.concatenate([np.cumsum(run + 1) - 1 for run in gaps])
    for r, (a, b) in enumerate(zip(part["offsets_"][:-1], part["offsets_"][1:], strict=True)):
        columns = np.flatnonzero(is_divided[r])
        box = slice(ends[r] - len(columns), ends[r])
        lowest, lengths, rest = cells["lowest"][box], cells["lengths"][box], ranks[a:b]
        if not lengths.all():
            # Without a box, the ranks are the upper 40 bits of the keys.
            keys.append(rest << 24)
            continue
        grid_keys = np.full(b - a, part["cell_offsets"][r])
        for k in range(len(columns) - 1, -1, -1):
            rest, cell = np.divmod(rest, lengths[k])
            grid_keys += part["multipliers"][r, columns[k]] * (cell + lowest[k])
        keys.append(grid_keys)
    return np.concatenate(keys)


class _Gaussians:
    """A Gaussian kernel between rows and landmarks, with or without Nystrom whitening."""

    def __init__(self, part: Part, weights: Array) -> None:
        kernel = part["kernel"]
        if (kernel if isinstance(kernel, str) else kernel.get("name")) != "gaussian":
            raise _NotCoveredError("kernels other than the Gaussian need gramless.load.")
        if not (part["bandwidth_"] > 0.0).all():
            raise ValueError("its bandwidths are not positive")
        self.landmarks, self.inverse_bandwidth = part["landmarks_"], 1.0 / part["bandwidth_"]
        self.numbers_per_row = self.landmarks.size
        self.categorical = np.zeros(len(self.inverse_bandwidth), bool)
        if part.get("categorical_", part.get("categorical")) is not None:
            self.categorical[part.get("categorical_", part.get("categorical"))] = True
        is_whitened = "factor_" in part
        self.weights = np.linalg.solve(part["factor_"].T, weights) if is_whitened else weights

    @staticmethod
    def n_columns(part: Part) -> int:
        return len(part["landmarks_"])

    def __call__(self, X: Array) -> Array:
        differences = X[:, None] - self.landmarks
        differences[..., self.categorical] = differences[..., self.categorical] != 0.0
        squares = np.square(differences * self.inverse_bandwidth).sum(axis=2)
        return np.exp(-0.5 * squares) @ self.weights


class _Projected:
    """A Gaussian kernel between projections of rows and landmarks."""

    def __init__(self, part: Part, weights: Array) -> None:
        self.projection, self.inner = part["projection_"], _Gaussians(part["map_"], weights)
        self.numbers_per_row = self.inner.numbers_per_row

    @staticmethod
    def n_columns(part: Part) -> int:
        return _Gaussians.n_columns(part["map_"])

    def __call__(self, X: Array) -> Array:
        return self.inner(X @ self.projection)


class _Trend:
    """A polynomial trend: products of up to two standardised inputs or category indicators."""

    def __init__(self, part: Part, weights: Array) -> None:
        self.centre, self.spread, self.means = part["centre_"], part["spread_"], part["means_"]
        self.first, self.second = part["factors_"].T
        columns, self.values = part.get("categories_", np.empty((0, 2))).T
        self.columns = columns.astype(np.intp)
        self.weights = (part["scales_"] * weights.T).T
        self.numbers_per_row = len(self.first)

    @staticmethod
    def n_columns(part: Part) -> int:
        return len(part["factors_"])

    def __call__(self, X: Array) -> Array:
        factors = np.clip((X - self.centre) / self.spread, -6.0, 6.0)
        # The factor -1, in products of one factor, refers to the ones at the end.
        factors = np.hstack([factors, X[:, self.columns] == self.values, np.ones((len(X), 1))])
        return (factors[:, self.first] * factors[:, self.second] - self.means) @ self.weights


_PARTS: dict[str, type[_Bins | _Gaussians | _Projected | _Trend]] = {
    **dict.fromkeys(("GivenBinning", "RandomBinning"), _Bins),
    **dict.fromkeys(("Nystrom", "KernelExpansion"), _Gaussians),
    "ProjectedMap": _Projected,
    "PolynomialTrend": _Trend,
}


def _read_tensor(data: bytes, entry: Part) -> Array:
    first, last = entry["data_offsets"]
    numbers = np.frombuffer(data[first:last], _TYPES[entry["dtype"]])
    return numbers.reshape(entry["shape"]).astype(numbers.dtype.newbyteorder("="), copy=False)


def _require(is_valid: bool) -> None:
    if not is_valid:
        raise ValueError("a compact form of an array is damaged")


def _is_array(array: Fitted, dtype: type[np.generic]) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim > 0


def _checked_size(shape: list[int]) -> int:
    _require(all(type(length) is int and length > 0 for length in shape))
    return math.prod(shape)


def _decompress(data: Array, size: int) -> Array:
    """Return the decompressed data; raise ValueError unless it has exactly ``size`` bytes."""
    _require(_is_array(data, np.uint8))
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data.tobytes(), size)
        # Reading beyond the end makes zlib verify the checksum.
        more = stream.decompress(stream.unconsumed_tail, 1)
    except zlib.error as error:
        raise ValueError("a compact form of an array is damaged") from error
    _require(len(content) == size and not more and stream.eof and not stream.unused_data)
    return np.frombuffer(content, np.uint8)


def _restore_deflated(data: Array, dtype: str, shape: list[int], n_planes: int) -> Array:
    _require(dtype in ("float64", "int64") and n_planes in (1, 8))
    planes = _decompress(data, 8 * _checked_size(shape)).reshape(n_planes, -1)
    numbers = planes.T.flatten().view(f"<{dtype[0]}8")
    return numbers.reshape(tuple(shape)).astype(dtype, copy=False)


# Files of version 0.2.0 hold the following forms.


def _restore_single_precision(values: Array) -> Array:
    _require(_is_array(values, np.float32))
    return values.astype(np.float64)


# The names of the parameters are the keys in files.
def _restore_mostly_one(fill: float, places: Array, others: Array, shape: list[int]) -> Array:
    size = _checked_size(shape)
    _require(_is_array(places, np.uint8) and places.shape == (-(-size // 8),))
    _require(_is_array(others, np.float64) or _is_array(others, np.int64))
    _require(others.ndim == 1)
    array = np.full(size, fill, others.dtype)
    array[np.unpackbits(places, count=size).view(bool)] = others
    return array.reshape(tuple(shape))


def _restore_high_bytes(high: Array) -> Array:
    _require(_is_array(high, np.uint8) and 4 <= high.shape[-1] < 8)
    numbers = np.zeros((*high.shape[:-1], 8), np.uint8)
    numbers[..., 8 - high.shape[-1] :] = high
    return numbers.view("<i8")[..., 0].astype(np.int64, copy=False)


def _restore_fixed_point(exponents: list[int], planes: list[Array], shape: list[int]) -> Array:
    size = _checked_size(shape)
    _require(all(type(exponent) is int and abs(exponent) <= 2048 for exponent in exponents))
    _require(len(planes) <= 6)
    zigzag = np.zeros(size, np.int64)
    for k, plane in enumerate(planes):
        zigzag |= _decompress(plane, size).astype(np.int64) << 8 * k
    multiples = (zigzag >> 1) ^ -(zigzag & 1)
    if not exponents:
        return multiples.reshape(tuple(shape))
    columns = multiples.reshape(shape[0], -1)
    _require(columns.shape[1] == len(exponents))
    with np.errstate(over="ignore"):
        return np.ldexp(columns, exponents).reshape(tuple(shape))


# Functions that restore an array from its fields in a file, by the name of the form in files.
ARRAY_FORMS: dict[str, Callable[..., Array]] = {
    "Deflated": _restore_deflated,
    "FixedPoint": _restore_fixed_point,
    "MostlyOne": _restore_mostly_one,
    "SinglePrecision": _restore_single_precision,
    "HighBytes": _restore_high_bytes,
}
