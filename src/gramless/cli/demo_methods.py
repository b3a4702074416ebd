"""The methods that the demonstration compares, each on the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from sklearn import datasets
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from gramless import KernelClassifier
from gramless.base.types import AnyArray, FloatArray

_INK = 16.0
_GAMMA_FACTORS = (0.25, 0.5, 1.0, 2.0)


class Digits(NamedTuple):
    """Handwritten digits, 8 x 8 pixels in [0, 1], in training and test rows."""

    X_train: FloatArray
    X_test: FloatArray
    y_train: AnyArray
    y_test: AnyArray

    def head(self, n_rows: int) -> Digits:
        """Return the first rows of each part."""
        return Digits(*(part[:n_rows] for part in self))


def load_digits(seed: int) -> Digits:
    """Split scikit-learn's digits, four fifths for training."""
    X, y = datasets.load_digits(return_X_y=True)
    return Digits(*train_test_split(X / _INK, y, test_size=0.2, stratify=y, random_state=seed))


@dataclass
class Entry:
    """One method with its test error, its costs and its fitted model.

    The time of a fit includes choosing options; ``n_bytes`` is the size of the file, or of the
    arrays that prediction needs.
    """

    name: str
    chosen: str
    error: float
    fit_seconds: float
    predict_seconds: float
    n_bytes: int
    model: Any

    def as_dict(self) -> dict[str, object]:
        """Return everything but the model."""
        return {key: value for key, value in vars(self).items() if key != "model"}


@dataclass(frozen=True)
class Contest:
    """The rows that all methods get, and the options of each.

    ``n_grids`` is for this package; random Fourier features have ``n_components`` and try all
    ``ridges``. Loops are compiled with ``warm_up_rows``.
    """

    digits: Digits
    seed: int = 0
    n_jobs: int | None = None
    n_grids: int | Literal["auto"] = "auto"
    n_components: int = 2000
    ridges: tuple[float, ...] = (0.01, 0.1, 1.0)
    warm_up_rows: int = 200

    def methods(self) -> dict[str, Callable[[], Entry]]:
        """Return, by name, functions that run each method."""
        return {
            "gramless": self.binning,
            "the exact kernel machine": self.exact,
            "random Fourier features": self.fourier,
        }

    def compile_loops(self) -> float:
        """Fit a few rows twice and return how much longer the first time takes."""
        few = replace(self, digits=self.digits.head(self.warm_up_rows))
        first, second = (few.binning().fit_seconds for _ in range(2))
        return max(0.0, first - second)

    def binning(self) -> Entry:
        """Run this package with its defaults."""
        model = KernelClassifier(n_grids=self.n_grids, random_state=self.seed, n_jobs=self.n_jobs)
        return self._run("gramless, defaults", model)

    def exact(self) -> Entry:
        """Run the exact kernel machine, which has no seed and one thread."""
        entry = self._run("SVC, Gaussian kernel", SVC(C=10.0), "C 10, gamma 'scale'")
        fitted = entry.model
        entry.n_bytes = _n_bytes(fitted.support_vectors_, fitted.dual_coef_, fitted.intercept_)
        return entry

    def fourier(self) -> Entry:
        """Run random Fourier features, with gamma and ridge chosen on held-back rows."""
        X = self.digits.X_train
        sampler = RBFSampler(n_components=self.n_components, random_state=self.seed)
        scale = 1.0 / (X.shape[1] * X.var())
        grid = {
            "rbfsampler__gamma": [factor * scale for factor in _GAMMA_FACTORS],
            "ridgeclassifier__alpha": self.ridges,
        }
        held_back = StratifiedShuffleSplit(1, test_size=0.25, random_state=self.seed)
        search = GridSearchCV(make_pipeline(sampler, RidgeClassifier()), grid, cv=held_back)
        entry = self._run(f"RBFSampler({self.n_components}), ridge", search)
        gamma, ridge = search.best_params_.values()
        n_tried = len(search.cv_results_["params"])
        entry.chosen = f"gamma {gamma:.3g}, alpha {ridge:g}, the best of {n_tried}"
        sampler, linear = search.best_estimator_
        entry.n_bytes = _n_bytes(sampler.random_weights_, sampler.random_offset_, linear.coef_)
        return entry

    def _run(self, name: str, model: Any, chosen: str = "see below") -> Entry:
        started = time.perf_counter()
        model.fit(self.digits.X_train, self.digits.y_train)
        fitted = time.perf_counter()
        wrong = model.predict(self.digits.X_test) != self.digits.y_test
        done = time.perf_counter()
        return Entry(name, chosen, float(wrong.mean()), fitted - started, done - fitted, 0, model)


def _n_bytes(*arrays: AnyArray) -> int:
    return sum(array.nbytes for array in arrays)
