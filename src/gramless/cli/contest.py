"""The methods that the demonstration compares, each on the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from gramless import KernelClassifier

_INK = 16.0
_WARM_UP_ROWS = 200
_GAMMA_FACTORS = (0.25, 0.5, 1.0, 2.0)
_RIDGES = (0.01, 0.1, 1.0)
_COMPONENTS = 2000


@dataclass(frozen=True)
class Digits:
    """Handwritten digits, 8 x 8 pixels in [0, 1], in training and test rows."""

    X_train: NDArray[np.float64]
    y_train: NDArray[Any]
    X_test: NDArray[np.float64]
    y_test: NDArray[Any]


@dataclass
class Entry:
    """One method and what became of it.

    Attributes
    ----------
    name, chosen : str
    error : float
        Share of the test rows predicted wrongly.
    fit_seconds, predict_seconds : float
        Choosing options counts as fitting.
    n_bytes : int
        Size of the file, or of the arrays that prediction needs.
    model : estimator
    """

    name: str
    chosen: str
    error: float
    fit_seconds: float
    predict_seconds: float
    n_bytes: int
    model: Any

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the model."""
        return {key: value for key, value in vars(self).items() if key != "model"}


def load_digits(seed: int) -> Digits:
    """Split scikit-learn's digits, four fifths to learn from.

    Examples
    --------
    >>> len(load_digits(0).y_test)
    360
    """
    X, y = datasets.load_digits(return_X_y=True)
    parts = train_test_split(X / _INK, y, test_size=0.2, stratify=y, random_state=seed)
    return Digits(parts[0], parts[2], parts[1], parts[3])


def compile_loops(digits: Digits, seed: int, n_jobs: int | None) -> float:
    """Run once on a few rows and return how much longer that took than a second time."""
    few = Digits(*(part[:_WARM_UP_ROWS] for part in vars(digits).values()))
    first, second = (binning(few, seed, n_jobs).fit_seconds for _ in range(2))
    return max(0.0, first - second)


def binning(digits: Digits, seed: int, n_jobs: int | None) -> Entry:
    """Enter this package with its defaults."""
    model = KernelClassifier(random_state=seed, n_jobs=n_jobs)
    return _run("gramless, defaults", "see below", model, digits)


def exact(digits: Digits, seed: int, n_jobs: int | None) -> Entry:
    """Enter the exact kernel machine; it has no seed and one thread."""
    entry = _run("SVC, Gaussian kernel", "C 10, gamma 'scale'", SVC(C=10.0), digits)
    machine = entry.model
    parts = (machine.support_vectors_, machine.dual_coef_, machine.intercept_)
    entry.n_bytes = sum(part.nbytes for part in parts)
    return entry


def fourier(digits: Digits, seed: int, n_jobs: int | None) -> Entry:
    """Enter random Fourier features, gamma and ridge chosen on held-back rows."""
    started = time.perf_counter()
    scale = 1.0 / (digits.X_train.shape[1] * digits.X_train.var())
    split = train_test_split(
        digits.X_train, digits.y_train, test_size=0.25, stratify=digits.y_train, random_state=seed
    )
    options = [(factor * scale, ridge) for factor in _GAMMA_FACTORS for ridge in _RIDGES]
    scores = [_rff(*o, seed).fit(split[0], split[2]).score(split[1], split[3]) for o in options]
    gamma, ridge = options[int(np.argmax(scores))]
    searching = time.perf_counter() - started
    chosen = f"gamma {gamma:.3g}, alpha {ridge:g}, the best of {len(options)}"
    name = f"RBFSampler({_COMPONENTS}), ridge"
    entry = _run(name, chosen, _rff(gamma, ridge, seed), digits)
    sampler, linear = entry.model[0], entry.model[1]
    parts = (sampler.random_weights_, sampler.random_offset_, linear.coef_)
    entry.n_bytes = sum(part.nbytes for part in parts)
    entry.fit_seconds += searching
    return entry


METHODS: dict[str, Callable[[Digits, int, int | None], Entry]] = {
    "gramless": binning,
    "the exact kernel machine": exact,
    "random Fourier features": fourier,
}


def _rff(gamma: float, ridge: float, seed: int) -> Any:
    sampler = RBFSampler(gamma=gamma, n_components=_COMPONENTS, random_state=seed)
    return make_pipeline(sampler, RidgeClassifier(alpha=ridge))


def _run(name: str, chosen: str, model: Any, digits: Digits) -> Entry:
    started = time.perf_counter()
    model.fit(digits.X_train, digits.y_train)
    fitted = time.perf_counter()
    wrong = model.predict(digits.X_test) != digits.y_test
    done = time.perf_counter()
    return Entry(name, chosen, float(wrong.mean()), fitted - started, done - fitted, 0, model)
