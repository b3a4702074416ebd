"""Compile ahead what default fits and predictions need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gramless.base.random import stream
from gramless.base.types import AnyArray
from gramless.estimators.base import KernelMachine
from gramless.estimators.classifier import KernelClassifier
from gramless.estimators.regressor import KernelRegressor
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.row_products import product_of_rows

_N_ROWS, _N_FEW = 1200, 200
"""Rows that are held back once, and rows that are so in turns or get random grids."""
_N_GRIDS = 24
_FEW_BINS, _MANY_BINS = 2, 1 << 12
"""Of a grid: products with many bins have loops of their own."""


def warmup(*, n_jobs: int | None = None) -> None:
    """Compile the loops of default fits and predictions, which the first ones do otherwise.

    Compiled loops are kept on the disk: once an installation is enough, in an image of a container
    for instance. ``gramless warmup`` does the same from the command line.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads; None means every processor.

    Notes
    -----
    Some ten seconds the first time, most of them in one thread, as numba compiles one loop at a
    time; about two seconds later. Streams, files and what defaults do not use are compiled when
    they are first needed.

    Examples
    --------
    >>> import gramless
    >>> gramless.warmup()  # doctest: +SKIP
    """
    for model, X, y in _default_fits(n_jobs):
        model.fit(X, y).predict(X[:1])
    for kind in (np.uint8, np.uint16):
        for n_bins in (_FEW_BINS, _MANY_BINS):
            _multiply(kind, n_bins, n_jobs)
    # Of few rows of several classes.
    product_of_rows(np.zeros((4, 4), np.float32), np.zeros((4, 2)))(0, 4)


def _default_fits(n_jobs: int | None) -> Iterator[tuple[KernelMachine, AnyArray, AnyArray]]:
    """Yield unfitted models with tables that need different loops."""
    generator = stream(0, "warmup")
    X = generator.normal(size=(_N_ROWS, 8))
    z = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    labels = np.digitize(z, [-1.0, 1.0])
    common: dict[str, Any] = {"random_state": 0, "n_jobs": n_jobs}
    grown = {**common, "n_grids": _N_GRIDS}
    yield KernelRegressor(**grown), X, z
    yield KernelRegressor(**grown), X.astype(np.float32), z
    yield KernelRegressor(**grown), X, np.column_stack([z, X[:, 3]])
    yield KernelClassifier(**grown), X, z > 0
    yield KernelClassifier(**grown), X, labels
    # Several threads take parts of many classes, one takes them all.
    for n_threads in (1, 2):
        many = KernelClassifier(effort=1, n_grids=_N_GRIDS, random_state=0, n_jobs=n_threads)
        yield many, X, np.arange(_N_ROWS) % 40
    categories = generator.integers(0, 2, (_N_ROWS, 8)).astype(np.float64)
    yield KernelClassifier(categorical_features=range(4), **grown), categories, z > 0
    often_zero = np.where(generator.random((_N_ROWS, 24)) < 0.1, 1.0 + X[:, :1], 0.0)
    yield KernelRegressor(**grown), often_zero, z
    few = slice(_N_FEW)
    yield KernelRegressor(**common), X[few], z[few]
    yield KernelRegressor(grids="random", **common), X[few], z[few]
    yield KernelClassifier(grids="random", **common), X[few], labels[few]


def _multiply(kind: type[np.unsignedinteger], n_bins: int, n_jobs: int | None) -> None:
    """Multiply with codes of a type, as they are where rows are many, one column and several."""
    codes = np.ones((8, 64), kind)
    offsets = np.arange(9) * n_bins
    for has_unseen in (False, True):
        matrix = BinnedMatrix(codes, offsets, has_unseen=has_unseen, n_jobs=n_jobs)
        for shape in ((), (3,)):
            matrix.matvec(np.zeros((matrix.shape[1], *shape)))
            matrix.rmatvec(np.zeros((matrix.shape[0], *shape)))
