"""Generated polynomials of degree 1 and 2: default fits compared with linear models.

Inputs are normal, uniform and exponential. Quadratic functions have six products of two inputs. No
rule was chosen on these tables. For regression the error is the root mean squared difference from
the function, over its standard deviation; for two classes it is the log loss minus that of the true
probabilities. The peers are ridge regression, with its penalty chosen by cross-validation, and
logistic regression on polynomial features of the same degree, both scikit-learn's, and LightGBM
with early stopping.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from benchmarks.common import Report, Row, options, parse, stopped_lightgbm
from gramless import KernelClassifier, KernelRegressor

Array = NDArray[Any]
N_TEST = 5000
# Number of inputs and standard deviation of the noise, or None for two classes.
SHAPES = ((5, 0.2), (12, 1.0), (12, None), (40, 0.5), (40, None))


def polynomial(n_rows: int, n_inputs: int, degree: int, seed: int) -> tuple[Array, Array]:
    """Return rows, and a standardised polynomial of this degree at each row."""
    rng = np.random.default_rng((2026, seed))
    drawn = rng.normal(size=(3, n_rows, n_inputs))
    drawn[1] = rng.uniform(-1.7, 1.7, size=drawn[1].shape)
    drawn[2] = rng.exponential(size=drawn[2].shape)
    X = drawn[np.arange(n_inputs) % 3, :, np.arange(n_inputs)].T.copy()
    values = X @ rng.normal(size=n_inputs)
    if degree == 2:
        first, second = rng.integers(0, n_inputs, (2, 6))
        values += np.sqrt(n_inputs / 6) * (X[:, first] * X[:, second]) @ rng.normal(size=6)
    return X, (values - values.mean()) / values.std()


def methods(
    degree: int, is_classification: bool, seed: int, n_jobs: int | None
) -> dict[str, Callable[[Array, Array], Callable[[Array], Array]]]:
    """Return functions that fit a model and return its prediction function, by name.

    The prediction is a number, or the probability of the second of two classes.
    """

    def fitted(model: Any, X: Array, y: Array) -> Callable[[Array], Array]:
        model.fit(X, y)
        return (
            (lambda rows: model.predict_proba(rows)[:, 1]) if is_classification else model.predict
        )

    kind = KernelClassifier if is_classification else KernelRegressor
    linear = LogisticRegression() if is_classification else RidgeCV(np.logspace(-3, 3, 13))
    steps = StandardScaler(), PolynomialFeatures(degree), linear
    loss = "binary" if is_classification else "regression"
    return {
        "gramless": lambda X, y: fitted(kind(random_state=seed, n_jobs=n_jobs), X, y),
        "linear": lambda X, y: fitted(make_pipeline(*steps), X, y),
        "lightgbm": lambda X, y: stopped_lightgbm(X, y, n_jobs, loss).predict,
    }


def error(predicted: Array, truth: Array, labels: Array | None) -> float:
    """Return the error of predictions; ``labels`` is None for regression."""
    if labels is None:
        return float(np.sqrt(np.mean((predicted - truth) ** 2)) / truth.std())
    return float(log_loss(labels, predicted) - log_loss(labels, expit(3.0 * truth)))


def compare(n: int, n_inputs: int, noise: float | None, degree: int, args: Any) -> Row:
    """Return the mean errors and seconds of all methods; ``noise`` is None for two classes."""
    measurements: dict[str, list[float]] = {}
    for seed in range(args.repeats):
        X, truth = polynomial(n + N_TEST, n_inputs, degree, seed)
        rng = np.random.default_rng((2027, seed))
        if noise is None:
            y = (rng.uniform(size=len(truth)) < expit(3.0 * truth)).astype(int)
        else:
            y = truth + noise * rng.normal(size=len(truth))
        for name, fit in methods(degree, noise is None, seed, args.jobs).items():
            started = perf_counter()
            try:
                predict = fit(X[:n], y[:n])
            except ImportError:
                continue
            measurements.setdefault(f"{name} s", []).append(perf_counter() - started)
            labels = y[n:] if noise is None else None
            measurements.setdefault(name, []).append(error(predict(X[n:]), truth[n:], labels))
    averages = {name: float(np.mean(values)) for name, values in sorted(measurements.items())}
    targets = "two classes" if noise is None else f"noise {noise}"
    return {"rows": n, "inputs": n_inputs, "targets": targets, **averages}


def main() -> None:
    args = parse(options(__doc__, repeats=3))
    report = Report(args)
    sizes = (1000,) if args.quick else (1000, 5000, 20_000)
    for degree, title in ((1, "Linear functions"), (2, "Quadratic functions")):
        cases = product(sizes, SHAPES)
        rows = [compare(n, *shape, degree, args) for n, shape in cases]
        report.add(title, rows)
    report.close()


if __name__ == "__main__":
    main()
