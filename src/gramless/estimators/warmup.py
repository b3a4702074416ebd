"""Compile the loops of default fits and predictions in advance."""

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

# Numbers of rows: enough for a single validation split; few enough for cross-validation.
_N_ROWS, _N_FEW = 1200, 200
_N_GRIDS = 24
# Numbers of bins per grid. Products with many bins have separate loops.
_FEW_BINS, _MANY_BINS = 2, 1 << 12


def warmup(*, n_jobs: int | None = None) -> None:
    """Compile the loops of default fits and predictions.

    Without it, the first fit and prediction compile them. Compiled loops are stored on disk, so one
    call per installation is enough, for example when the image of a container is built. The command
    ``gramless warmup`` does the same.

    Parameters
    ----------
    n_jobs : int or None, default=None
        The number of threads; None uses every processor.

    Notes
    -----
    The first call takes about ten seconds, mostly in one thread because numba compiles one loop at
    a time, and later calls about two seconds. Loops of streams, files and other features are
    compiled when they are first needed.

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
    # Few rows with several classes use this loop.
    product_of_rows(np.zeros((4, 4), np.float32), np.zeros((4, 2)))(0, 4)


def _default_fits(n_jobs: int | None) -> Iterator[tuple[KernelMachine, AnyArray, AnyArray]]:
    """Yield unfitted models with tables that need different loops."""
    generator = stream(0, "warmup")
    X = generator.normal(size=(_N_ROWS, 8))
    z = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    labels = np.digitize(z, [-1.0, 1.0])
    common: dict[str, Any] = {"random_state": 0, "n_jobs": n_jobs}
    # A few grown grids need the same loops as the default number, and are fitted sooner.
    grown = {**common, "n_grids": _N_GRIDS}
    yield KernelRegressor(**grown), X, z
    yield KernelRegressor(**grown), X.astype(np.float32), z
    yield KernelRegressor(**grown), X, np.column_stack([z, X[:, 3]])
    yield KernelClassifier(**grown), X, z > 0
    yield KernelClassifier(**grown), X, labels
    # The loops for many classes depend on whether there are several threads.
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
    """Compile products of one and of several columns with codes of a type."""
    codes = np.ones((8, 64), kind)
    offsets = np.arange(9) * n_bins
    for has_unseen in (False, True):
        matrix = BinnedMatrix(codes, offsets, has_unseen=has_unseen, n_jobs=n_jobs)
        for shape in ((), (3,)):
            matrix.matvec(np.zeros((matrix.shape[1], *shape)))
            matrix.rmatvec(np.zeros((matrix.shape[0], *shape)))
