"""The rows of a job: a data set by name, cut to what the job asks for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gramless.base.random import stream
from gramless.datasets import friedman1
from harness.data_sets import Dataset, available, load

_MADE_UP_ROWS = 12_500


def missing(name: str, folder: str | os.PathLike[str] | None = None) -> bool:
    """Tell whether a data set is neither built in nor in the folder.

    Parameters
    ----------
    name : str
    folder : str or path-like, default=None
        As :func:`harness.data_sets.data_folder`.

    Examples
    --------
    >>> missing("digits"), missing("ijcnn1", "no-such-folder")
    (False, True)
    """
    return name not in BUILT_IN and not any(
        info.present for info in available(folder) if info.name == name
    )


def load_rows(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    n_train: int | None = None,
    n_test: int | None = None,
    seed: int = 0,
    split: int | None = None,
) -> Dataset:
    """Load a data set and draw rows from it.

    Parameters
    ----------
    name : str
        ``"digits"`` (scikit-learn's, pixels in [0, 1]) and ``"friedman1"`` (made up) need no
        file; all others are :func:`harness.data_sets.load`'s, which may use no network.
    folder : str or path-like, default=None
    n_train, n_test : int, default=None
        The most training and test rows, drawn without replacement, in their own order. Fewer
        rows of the same seed are among the more.
    seed : int, default=0
    split : int, default=None
        Seed of another split: all rows are shuffled, and as many held back as before.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError, DataFileError
        As :func:`harness.data_sets.load`.

    Examples
    --------
    >>> load_rows("digits", n_train=100)
    Dataset('digits', multiclass, 100 + 359 rows x 64 columns)
    """
    found = BUILT_IN[name]() if name in BUILT_IN else load(name, folder=folder, download=False)
    found = found if split is None else _split_anew(found, split)
    train = drawn(len(found.y_train), n_train, seed, "training rows")
    test = drawn(len(found.y_test), n_test, seed, "test rows")
    return replace(
        found,
        X_train=found.X_train[train],
        y_train=found.y_train[train],
        X_test=found.X_test[test],
        y_test=found.y_test[test],
    )


def drawn(n_rows: int, most: int | None, seed: int, purpose: str) -> slice | NDArray[np.int64]:
    """Return which of the rows are kept, in their order.

    Examples
    --------
    >>> drawn(5, 9, 0, "rows"), len(drawn(9, 5, 0, "rows"))
    (slice(None, None, None), 5)
    """
    if most is None or most >= n_rows:
        return slice(None)
    return np.sort(stream(seed, purpose).permutation(n_rows)[:most])


def _split_anew(data: Dataset, seed: int) -> Dataset:
    """Shuffle training and test rows together; sparse rows stay sparse."""
    rows = [data.X_train, data.X_test]
    X = sparse.vstack(rows, format="csr") if sparse.issparse(rows[0]) else np.concatenate(rows)
    y = np.concatenate([data.y_train, data.y_test])
    order = stream(seed, "split").permutation(len(y))
    train, test = np.split(order, [len(data.y_train)])
    return replace(data, X_train=X[train], y_train=y[train], X_test=X[test], y_test=y[test])


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return _split("digits", X / 16.0, y.astype(np.int64), "multiclass")


def _friedman1() -> Dataset:
    return _split("friedman1", *friedman1(_MADE_UP_ROWS, seed=0), "regression")


def _split(name: str, X: NDArray[Any], y: NDArray[Any], task: Any) -> Dataset:
    """Hold back the fifth that data sets without a test part hold back."""
    order = np.random.RandomState(0).permutation(len(y))
    train, test = np.split(order, [len(y) - round(0.2 * len(y))])
    return Dataset(X[train], y[train], X[test], y[test], task, name)


BUILT_IN: dict[str, Callable[[], Dataset]] = {"digits": _digits, "friedman1": _friedman1}
"""Data sets that need no file."""
