"""Predictions from a model file with NumPy alone: nothing is compiled, and nothing else imported.

For services that start cold, and a reader of the file format to copy: this one file needs neither
the rest of gramless nor numba, SciPy or scikit-learn.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zlib
from collections.abc import Callable
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
_MOST_NUMBERS = 1 << 22
"""Computed at once, in blocks of rows."""


class PortableModel:
    """A saved ``KernelRegressor``, ``KernelClassifier`` or ``KernelSurvival``, by NumPy alone.

    Covers bins of grids, Gaussian kernels and trends beside them and kernel ridge regression, as
    default fits to arrays choose; categories, gaps and several outputs. Predictions differ from the
    model's own by rounding, some 1e-15 of the largest response.

    Parameters
    ----------
    path : str or path-like
        A file that :func:`gramless.save` wrote. Nothing in it is executed.

    Raises
    ------
    ValueError
        If the file is damaged, or holds what is not covered: fits to data frames or to sparse rows
        with many columns, other feature maps, ordered classes, several labels, quantile losses.

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
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            data = file.read()
        metadata = header.pop("__metadata__")
        if hashlib.sha256(data).hexdigest() != metadata["data_sha256"]:
            raise ValueError(f"{path} is damaged: its data do not have their checksum.")
        self._tensors = {name: _tensor(data, entry) for name, entry in header.items()}
        self.fitted: Part = self._decoded({"model": json.loads(metadata["model"])})
        fitted, inputs = self.fitted, self.fitted["inputs_"]
        loss = fitted["loss_"]["class"]
        if "classes_" in fitted:
            covered = not fitted["multilabel_"] and loss != "CumulativeLogistic"
        else:
            covered = loss in _IDENTITY + _EXPONENTIAL
        if not covered:
            raise ValueError(f"{path}: {loss} models of this kind need gramless.load.")
        if inputs["encoder"] is not None or inputs["kept"] is not None:
            raise ValueError(
                f"{path} was fitted to a data frame or sparse rows: use gramless.load."
            )
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
                raise ValueError(f"{path}: {part['class']} features need gramless.load.")
            n_columns = kind.n_columns(part)
            self._parts.append(kind(part, scale * weights[start : start + n_columns]))
            start += n_columns

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the raw responses of rows, as of the saved model.

        Parameters
        ----------
        X : array-like of numbers (n_samples, n_features)
            NaN where a number is missing.

        Returns
        -------
        array (n_samples,) or (n_samples, n_outputs)
        """
        rows = self._scaled(self._filled(np.asarray(X, np.float64)))
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
        link, z = self.fitted["calibration_"], self.decision_function(X)
        z, scores = z.reshape(len(z), -1), np.zeros((1, 1))
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
        X = X if categories is None else _with_codes(categories, X)
        if gaps is None:
            return X
        missing = np.isnan(X)
        return np.hstack([np.where(missing, gaps["fill"], X), missing[:, gaps["marked"]]])

    def _scaled(self, X: Array) -> Array:
        scaler = self.fitted["scaler_"]
        if scaler["kind"] in ("none", "standard"):
            return X
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
            return _FORMS[content](**self._decoded({"dict": value["fields"]}))
        if mark == "record":
            return {"class": content, **self._decoded({"dict": value["fields"]})}
        if mark == "model":
            values = content["params"] | (content.get("state") or {})
            return {"class": content["class"], **self._decoded({"dict": values})}
        return self._decoded(content)


def _with_codes(categories: Part, X: Array) -> Array:
    """Return rows with codes in place of categories: -1 for NaN, a further one if unknown."""
    out, ends = X.copy(), categories["starts"][1:]
    for j, known in zip(categories["columns"], np.split(categories["values"], ends), strict=False):
        order = np.append(np.argsort(known), len(known))
        places = order[np.searchsorted(known, X[:, j], sorter=order[:-1])]
        out[:, j] = np.where(np.append(known, np.nan)[places] == X[:, j], places, len(known))
        out[np.isnan(X[:, j]), j] = -1.0
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
            raise ValueError("kernels other than the Gaussian need gramless.load.")
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


def _mostly_one(fill: float, places: Array, others: Array, shape: list[int]) -> Array:
    array = np.full(math.prod(shape), fill, others.dtype)
    array[np.unpackbits(places, count=array.size).view(bool)] = others
    return array.reshape(tuple(shape))


def _high_bytes(high: Array) -> Array:
    own = np.zeros((*high.shape[:-1], 8), np.uint8)
    own[..., 8 - high.shape[-1] :] = high
    return own.view("<i8")[..., 0]


def _fixed_point(exponents: list[int], planes: list[Array], shape: list[int]) -> Array:
    zigzag = np.zeros(math.prod(shape), np.int64)
    for k, plane in enumerate(planes):
        own = np.frombuffer(zlib.decompress(plane.tobytes()), np.uint8)
        zigzag |= own.astype(np.int64) << 8 * k
    multiples = (zigzag >> 1) ^ -(zigzag & 1)
    if exponents:
        multiples = np.ldexp(multiples.reshape(-1, len(exponents)), exponents)
    return multiples.reshape(tuple(shape))


_FORMS: dict[str, Callable[..., Array]] = {
    "FixedPoint": _fixed_point,
    "MostlyOne": _mostly_one,
    "SinglePrecision": lambda values: values.astype(np.float64),
    "HighBytes": _high_bytes,
}
