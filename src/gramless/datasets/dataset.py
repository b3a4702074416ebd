"""A data set with its split into training and test rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramless.base.types import AnyArray
from gramless.datasets.known import Task
from gramless.datasets.table import Matrix


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Training and test rows of one learning task.

    Parameters
    ----------
    X_train, X_test : ndarray or CSR matrix of shape (n_rows, n_columns)
        float32 or float64.
    y_train, y_test : ndarray of shape (n_rows,)
        float64 for regression; int64 or object arrays of str for classes.
    task : {"binary", "multiclass", "regression"}
    name : str

    Examples
    --------
    >>> rows, labels = np.eye(2), np.array([0, 1])
    >>> Dataset(rows, labels, rows, labels, "binary", "tiny")
    Dataset('tiny', binary, 2 + 2 rows x 2 columns)
    """

    X_train: Matrix
    y_train: AnyArray
    X_test: Matrix
    y_test: AnyArray
    task: Task
    name: str

    def __repr__(self) -> str:
        """Say what it is, never the numbers."""
        (n_train, n_columns), n_test = self.X_train.shape, self.X_test.shape[0]
        rows = f"{n_train:,} + {n_test:,} rows x {n_columns:,} columns"
        return f"Dataset({self.name!r}, {self.task}, {rows})"


def labels_for(task: Task, y: AnyArray) -> AnyArray:
    """Return labels as float64 for regression, whole numbers as int64 for classes."""
    if task == "regression":
        return y.astype(np.float64, copy=False)
    if y.dtype.kind == "f":
        whole = y.astype(np.int64) if np.isfinite(y).all() else y
        return whole if np.array_equal(whole, y) else y
    return y.astype(np.int64, copy=False) if y.dtype.kind in "biu" else y


def guess_task(y: AnyArray) -> Task:
    """Return the task that labels suggest: floats of more than two values are measured."""
    n_values = len(np.unique(y))
    if n_values == 2:
        return "binary"
    return "regression" if y.dtype.kind == "f" or y.ndim > 1 else "multiclass"
