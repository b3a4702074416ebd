"""The methods that the demonstration compares, each on the same rows."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn import datasets
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.svm import SVC

from gramless import KernelClassifier, KernelRegressor
from gramless.base.types import AnyArray, FloatArray, IntArray

_MAX_BRIGHTNESS, _KNOWN_SHARE = 255.0, 0.1
_N_TREES, _N_NEIGHBOURS, _N_SPLITS = 100, 5, 5


class Photograph(NamedTuple):
    """A photograph with colours (height, width, 3) in [0, 1] and the indices of known pixels."""

    colours: FloatArray
    known: IntArray

    def rows(self, pixels: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the coordinates of pixels, (n, 2), and their colours, (n, 3)."""
        width = self.colours.shape[1]
        coordinates = np.column_stack(np.divmod(pixels, width)).astype(np.float64)
        return coordinates, self.colours.reshape(-1, 3)[pixels]

    @property
    def unknown(self) -> IntArray:
        return np.setdiff1d(np.arange(self.colours.size // 3), self.known)

    def fill_unknown(self, predicted: FloatArray | float) -> FloatArray:
        """Return the photograph with predicted colours at the unknown pixels."""
        colours = self.colours.reshape(-1, 3).copy()
        colours[self.unknown] = np.clip(predicted, 0.0, 1.0)
        return colours.reshape(self.colours.shape)


def load_photograph(seed: int) -> Photograph:
    colours = datasets.load_sample_image("china.jpg") / _MAX_BRIGHTNESS
    n_pixels = colours.size // 3
    order = np.random.default_rng(seed).permutation(n_pixels)
    return Photograph(colours, order[: int(_KNOWN_SHARE * n_pixels)])


class Digits(NamedTuple):
    """Handwritten digits, 8 x 8 pixels, in training and test rows."""

    X_train: FloatArray
    X_test: FloatArray
    y_train: AnyArray
    y_test: AnyArray

    def head(self, n_rows: int) -> Digits:
        return Digits(*(part[:n_rows] for part in self))


def load_digits(seed: int) -> list[Digits]:
    """Split scikit-learn's digits five times, four fifths for training."""
    X, y = datasets.load_digits(return_X_y=True)
    splitter = StratifiedShuffleSplit(_N_SPLITS, test_size=0.2, random_state=seed)
    return [Digits(X[a], X[b], y[a], y[b]) for a, b in splitter.split(X, y)]


@dataclass
class Entry:
    """A method with its test error, its costs and its fitted model.

    ``error`` is the share of wrong digits, or the mean squared error of colours. ``fit_seconds``
    includes model selection. ``n_bytes`` is the size of the model file, or of a pickle for other
    methods; it is None if it was not measured.
    """

    name: str
    chosen: str
    error: float
    fit_seconds: float
    predict_seconds: float
    n_bytes: int | None
    model: BaseEstimator = field(repr=False)
    predicted: AnyArray = field(repr=False)

    @property
    def psnr(self) -> float:
        return float(-10.0 * np.log10(self.error))

    def as_dict(self) -> dict[str, object]:
        return {k: v for k, v in vars(self).items() if k not in ("model", "predicted")}


def photograph_methods(
    photograph: Photograph, seed: int = 0, n_jobs: int | None = None
) -> dict[str, Callable[[], Entry]]:
    threads = -1 if n_jobs is None else n_jobs
    boosting = HistGradientBoostingRegressor(max_iter=300, early_stopping=True, random_state=seed)
    methods = {
        "gramless, defaults": (KernelRegressor(random_state=seed, n_jobs=threads), "see below"),
        "nearest neighbours": (
            KNeighborsRegressor(_N_NEIGHBOURS, weights="distance", n_jobs=threads),
            f"{_N_NEIGHBOURS}, weighted by distance",
        ),
        "ExtraTrees": (
            ExtraTreesRegressor(_N_TREES, random_state=seed, n_jobs=threads),
            f"{_N_TREES} trees",
        ),
        "HistGradientBoosting": (
            MultiOutputRegressor(boosting),
            "at most 300 trees per colour, stopped early",
        ),
    }
    return {
        name: partial(_evaluate_on_photograph, name, model, chosen, photograph)
        for name, (model, chosen) in methods.items()
    }


def _evaluate_on_photograph(
    name: str, model: BaseEstimator, chosen: str, photograph: Photograph
) -> Entry:
    coordinates, colours = photograph.rows(photograph.unknown)
    entry = _fit_and_predict(name, model, chosen, photograph.rows(photograph.known), coordinates)
    # Colours outside [0, 1] are clipped, as the picture shows them.
    entry.error = float(np.mean((np.clip(entry.predicted, 0.0, 1.0) - colours) ** 2))
    return entry


def digits_methods(
    splits: list[Digits], seed: int = 0, n_jobs: int | None = None
) -> dict[str, Callable[[], Entry]]:
    ours = KernelClassifier(random_state=seed, n_jobs=n_jobs)
    neighbours = KNeighborsClassifier(_N_NEIGHBOURS, weights="distance")
    methods = {
        "gramless, defaults": (ours, "see below"),
        "SVC, Gaussian kernel": (SVC(C=10.0), "C 10, gamma 'scale'"),
        "nearest neighbours": (neighbours, f"{_N_NEIGHBOURS}, weighted by distance"),
    }
    return {
        name: partial(_evaluate_on_digits, name, model, chosen, splits)
        for name, (model, chosen) in methods.items()
    }


def _evaluate_on_digits(
    name: str, model: BaseEstimator, chosen: str, splits: list[Digits]
) -> Entry:
    """Return the model of the last split, with the mean error and mean times of all splits."""
    entries = []
    for split in splits:
        known = split.X_train, split.y_train
        entry = _fit_and_predict(name, clone(model), chosen, known, split.X_test)
        entry.error = float(np.mean(entry.predicted != split.y_test))
        entry.n_bytes = len(pickle.dumps(entry.model))
        entries.append(entry)
    for key in ("error", "fit_seconds", "predict_seconds"):
        setattr(entries[-1], key, float(np.mean([getattr(entry, key) for entry in entries])))
    return entries[-1]


def _fit_and_predict(
    name: str,
    model: BaseEstimator,
    chosen: str,
    known: tuple[FloatArray, AnyArray],
    new: FloatArray,
) -> Entry:
    """Time the fit and the predictions of new rows; the caller sets the error."""
    started = time.perf_counter()
    model.fit(*known)
    fitted = time.perf_counter()
    predicted = model.predict(new)
    seconds = fitted - started, time.perf_counter() - fitted
    return Entry(name, chosen, np.nan, *seconds, None, model, predicted)
