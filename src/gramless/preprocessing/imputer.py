"""Imputation of missing numbers in arrays, with 0/1 columns that mark them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gramless.base.state import Stateful, array_in, require
from gramless.base.threads import row_blocks
from gramless.base.types import BoolArray, FloatArray, IntArray
from gramless.preprocessing.rows import Rows, check_width

_MIN_SAMPLE_ROWS = 2000
_NUMBERS_PER_BLOCK = 2_000_000


@dataclass(frozen=True, repr=False)
class Imputer(Stateful, former=("GapFiller",)):
    """Fills missing numbers with medians, and marks them in 0/1 columns.

    An input that had missing numbers in ``fit`` gets a categorical 0/1 column, which follows all
    inputs. An input that has them only in new rows is filled without such a column. Categories have
    codes for NaN instead (:class:`~gramless.preprocessing.categories.CategoryCodes`); in files up
    to version 0.2 they are filled with -2**51.

    The median is the lower median, so that it is one of the values. It is computed from 2,000 to
    4,000 evenly spaced rows, or from all rows if there are fewer or if the input has missing
    numbers. It is 0 if all numbers are missing.

    Attributes
    ----------
    fill : array (n_features,)
        The replacement of NaN in each input.
    marked : array (n_marked,)
        The inputs that have a 0/1 column, in the order of these columns.
    """

    fill: FloatArray
    marked: IntArray

    def check(self) -> None:
        fill = array_in(vars(self), "fill", np.float64, (None,), finite=True)
        marked = array_in(vars(self), "marked", np.int64, (None,))
        require(
            ((marked >= 0) & (marked < len(fill))).all(),
            "an imputer marks inputs that do not exist",
        )

    @classmethod
    def fit(cls, X: Rows) -> Imputer:
        has_missing = _has_missing(X)
        sample, fill = X[:: max(1, len(X) // _MIN_SAMPLE_ROWS)], np.empty(X.shape[1])
        for a, b in row_blocks(X.shape[1], _rows_at_once(len(sample))):
            # Columns of a C-contiguous array would be read with long strides.
            columns = np.asfortranarray(sample[:, a:b])
            for j in range(a, b):
                values = X[:, j] if has_missing[j] else columns[:, j - a]
                present = values[~np.isnan(values)]
                rank = (len(present) - 1) // 2  # that of the lower median
                fill[j] = np.partition(present, rank)[rank] if len(present) else 0.0
        return cls(fill, np.flatnonzero(has_missing).astype(np.int64))

    def transform(self, X: Rows) -> Rows:
        """Return filled rows and the 0/1 columns, (n_samples, n_features + n_marked).

        The result is ``X`` itself if there are no missing numbers and no 0/1 columns, else a copy
        in its precision and memory order.
        """
        check_width("Imputer", X, len(self.fill))
        if not len(self.marked) and not _has_missing(X).any():
            return X
        n_rows, n_features = X.shape
        dtype = np.result_type(X.dtype, np.float32)
        order: Literal["C", "F"] = "F" if X.flags.f_contiguous else "C"
        out = np.empty((n_rows, n_features + len(self.marked)), dtype, order=order)
        for a, b in row_blocks(n_rows, _rows_at_once(n_features)):
            missing = np.isnan(X[a:b])
            out[a:b, :n_features] = np.where(missing, self.fill, X[a:b])
            out[a:b, n_features:] = missing[:, self.marked]
        return out

    def sources(self) -> NDArray[np.intp]:
        """Return the input to which each column of :meth:`transform` belongs."""
        return np.append(np.arange(len(self.fill)), self.marked)


def _has_missing(X: Rows) -> BoolArray:
    mask = np.zeros(X.shape[1], bool)
    if X.dtype.kind == "f":
        for a, b in row_blocks(len(X), _rows_at_once(X.shape[1])):
            mask |= np.isnan(X[a:b]).any(axis=0)
    return mask


def _rows_at_once(n_features: int) -> int:
    return max(1, _NUMBERS_PER_BLOCK // max(1, n_features))
