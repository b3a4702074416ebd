"""Missing numbers in plain arrays: filled, and marked where they were missing in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.threads import row_blocks
from gramless.preprocessing.rows import Rows, check_width

MISSING_CATEGORY = -(2.0**51)
"""What stands for NaN among categories: a whole number that no category is likely to be."""

_SAMPLE_ROWS = 2000
_NUMBERS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Imputer:
    """What stands for NaN in each input, and which inputs get a 0/1 column beside them.

    An input of numbers is filled by its median. Where numbers were missing in
    ``fit``, a column follows all inputs that says where: it is a category. In an
    input of categories the missing value is one more category. A value missing
    for the first time in new rows is so a median, or a category never seen.

    Attributes
    ----------
    fill : array (n_features,)
    marked : array (n_marked,) of int64
        The inputs that have a 0/1 column, in the order of these columns.

    Notes
    -----
    The median is that of 2,000 evenly spaced rows, and in an input with gaps that
    of all rows: the lower one of two, so that it is one of the values.

    Examples
    --------
    >>> X = np.array([[1.0, 5.0], [np.nan, 6.0], [3.0, 7.0]])
    >>> gaps = Imputer.fit(X, np.array([False, False]))
    >>> gaps.transform(X)
    array([[1., 5., 0.],
           [1., 6., 1.],
           [3., 7., 0.]])
    >>> gaps.transform(np.array([[2.0, np.nan]]))
    array([[2., 6., 0.]])
    """

    fill: NDArray[np.float64]
    marked: NDArray[np.int64]

    @classmethod
    def fit(cls, X: NDArray[Any], categorical: NDArray[np.bool_]) -> Imputer:
        """Learn the medians, and which inputs have gaps.

        Parameters
        ----------
        X : array (n_samples, n_features)
            NaN where a value is missing.
        categorical : array (n_features,) of bool

        Returns
        -------
        Imputer
        """
        gaps = _with_gaps(X)
        sample = np.asfortranarray(X[:: max(1, len(X) // _SAMPLE_ROWS)])
        fill = [_middle(X[:, j] if gaps[j] else sample[:, j]) for j in range(X.shape[1])]
        marked = np.flatnonzero(gaps & ~categorical)
        return cls(np.where(categorical, MISSING_CATEGORY, fill), marked.astype(np.int64))

    def transform(self, X: Any) -> Rows:
        """Fill the gaps of rows.

        Parameters
        ----------
        X : array (n_samples, n_features), or CSR, which has no gaps

        Returns
        -------
        array (n_samples, n_features + n_marked), or CSR
            ``X`` itself where nothing is marked or missing, else a copy in its
            precision and order; CSR shares its numbers with ``X``.

        Raises
        ------
        InputError
            If the rows have other columns than those of the fit.
        """
        check_width("Imputer", X, len(self.fill))
        if sp.issparse(X):
            shape = X.shape[0], X.shape[1] + len(self.marked)
            return sp.csr_array((X.data, X.indices, X.indptr), shape)
        if not len(self.marked) and not _with_gaps(X).any():
            return X
        n_rows, n_features = X.shape
        dtype = np.result_type(X.dtype, np.float32)
        order: Any = "F" if X.flags.f_contiguous else "C"
        out = np.empty((n_rows, n_features + len(self.marked)), dtype, order=order)
        for a, b in row_blocks(n_rows, _rows_at_once(n_features)):
            missing = np.isnan(X[a:b])
            out[a:b, :n_features] = np.where(missing, self.fill, X[a:b])
            out[a:b, n_features:] = missing[:, self.marked]
        return out

    def sources(self) -> NDArray[np.intp]:
        """Return which input each column that :meth:`transform` returns tells of."""
        return np.append(np.arange(len(self.fill)), self.marked)


def _with_gaps(X: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which columns hold NaN."""
    gaps = np.zeros(X.shape[1], bool)
    if X.dtype.kind == "f":
        for a, b in row_blocks(len(X), _rows_at_once(X.shape[1])):
            gaps |= np.isnan(X[a:b]).any(axis=0)
    return gaps


def _middle(values: NDArray[Any]) -> float:
    """Return the lower median of the numbers that are not missing; 0 if all are."""
    present = values[~np.isnan(values)]
    if not len(present):
        return 0.0
    at = (len(present) - 1) // 2
    return float(np.partition(present, at)[at])


def _rows_at_once(n_features: int) -> int:
    return max(1, _NUMBERS_AT_ONCE // max(1, n_features))
