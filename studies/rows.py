"""Load the rows of a job: a data set by name, reduced to the job's numbers of rows."""

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

_FRIEDMAN_ROWS = 12_500


def is_missing(name: str, folder: str | os.PathLike[str] | None = None) -> bool:
    """Return whether a data set is neither built in nor in the folder.

    Parameters
    ----------
    name : str
    folder : str or path-like, default=None
        Passed to :func:`harness.data_sets.data_folder`.

    Examples
    --------
    >>> is_missing("digits"), is_missing("ijcnn1", "no-such-folder")
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
    """Load a data set and sample its rows.

    Parameters
    ----------
    name : str
        ``"digits"`` (scikit-learn's, pixels in [0, 1]) and ``"friedman1"`` (generated) need no
        file. All others are read by :func:`harness.data_sets.load`, without downloads.
    folder : str or path-like, default=None
    n_train, n_test : int, default=None
        Maximum numbers of training and test rows, sampled without replacement and kept in order.
        A smaller sample with the same seed is part of a larger one.
    seed : int, default=0
    split : int, default=None
        Seed of a random split of all rows, with as many test rows as the data set has.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError, DataFileError
        Raised by :func:`harness.data_sets.load`.

    Examples
    --------
    >>> load_rows("digits", n_train=100)
    Dataset('digits', multiclass, 100 + 359 rows x 64 columns)
    """
    data = BUILT_IN[name]() if name in BUILT_IN else load(name, folder=folder, download=False)
    data = data if split is None else _resplit(data, split)
    train = sample_rows(len(data.y_train), n_train, seed, "training rows")
    test = sample_rows(len(data.y_test), n_test, seed, "test rows")
    return replace(
        data,
        X_train=data.X_train[train],
        y_train=data.y_train[train],
        X_test=data.X_test[test],
        y_test=data.y_test[test],
    )


def sample_rows(
    n_rows: int, max_rows: int | None, seed: int, purpose: str
) -> slice | NDArray[np.int64]:
    """Return the sorted indices of at most ``max_rows`` random rows, or a slice of all rows.

    Examples
    --------
    >>> sample_rows(5, 9, 0, "rows"), len(sample_rows(9, 5, 0, "rows"))
    (slice(None, None, None), 5)
    """
    if max_rows is None or max_rows >= n_rows:
        return slice(None)
    return np.sort(stream(seed, purpose).permutation(n_rows)[:max_rows])


def _resplit(data: Dataset, seed: int) -> Dataset:
    """Shuffle training and test rows together, and split them into parts of the same sizes."""
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
    return _split("friedman1", *friedman1(_FRIEDMAN_ROWS, seed=0), "regression")


def _split(name: str, X: NDArray[Any], y: NDArray[Any], task: Any) -> Dataset:
    """Split off a fifth of the rows, as :func:`harness.data_sets.load` does without a test set."""
    order = np.random.RandomState(0).permutation(len(y))
    train, test = np.split(order, [len(y) - round(0.2 * len(y))])
    return Dataset(X[train], y[train], X[test], y[test], task, name)


# Data sets that need no file.
BUILT_IN: dict[str, Callable[[], Dataset]] = {"digits": _digits, "friedman1": _friedman1}
