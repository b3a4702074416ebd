"""Missing numbers in plain arrays: filled, and marked where they were missing in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gramless.base.state import Stateful, array_in, require
from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.preprocessing.rows import Rows, check_width

_SAMPLE_ROWS = 2000
_NUMBERS_AT_ONCE = 2_000_000


@dataclass(frozen=True, repr=False)
class Imputer(Stateful, former=("GapFiller",)):
    """What stands for NaN in each input, and which inputs get a 0/1 column beside them.

    An input is filled with its median. If it had missing numbers in ``fit``, a categorical 0/1
    column that marks them follows all inputs. A value missing for the first time in new rows is
    therefore a median. Categories have codes for NaN instead
    (:class:`~gramless.preprocessing.categories.CategoryCodes`); in files up to version 0.2 they are
    filled with -2**51.

    The median is that of 2,000 evenly spaced rows, or of all rows in an input with missing
    numbers: the lower one of two, so that it is one of the values.
    """

    fill: FloatArray
    marked: IntArray
    """The inputs that have a 0/1 column, in the order of these columns."""

    def check(self) -> None:
        """Check that the parts of an imputer from a file fit each other."""
        fill = array_in(vars(self), "fill", np.float64, (None,), finite=True)
        marked = array_in(vars(self), "marked", np.int64, (None,))
        require(((marked >= 0) & (marked < len(fill))).all(), "an imputer marks no inputs")

    @classmethod
    def fit(cls, X: Rows) -> Imputer:
        """Learn the medians, and which inputs have missing numbers."""
        incomplete = _with_missing(X)
        sample, fill = X[:: max(1, len(X) // _SAMPLE_ROWS)], np.empty(X.shape[1])
        for a, b in row_blocks(X.shape[1], _rows_at_once(len(sample))):
            # Columns of a C-contiguous copy would be read with long strides.
            columns = np.asfortranarray(sample[:, a:b])
            for j in range(a, b):
                fill[j] = _lower_median(X[:, j] if incomplete[j] else columns[:, j - a])
        return cls(fill, np.flatnonzero(incomplete).astype(np.int64))

    def transform(self, X: Rows) -> Rows:
        """Fill missing numbers and append the 0/1 columns: (n_samples, n_features + n_marked).

        Returns ``X`` itself where nothing is marked or missing, else a copy in its precision and
        order.
        """
        check_width("Imputer", X, len(self.fill))
        if not len(self.marked) and not _with_missing(X).any():
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
        """Return the input from which each column of :meth:`transform` comes."""
        return np.append(np.arange(len(self.fill)), self.marked)


def _with_missing(X: Rows) -> BoolArray:
    """Tell which columns hold NaN."""
    found = np.zeros(X.shape[1], bool)
    if X.dtype.kind == "f":
        for a, b in row_blocks(len(X), _rows_at_once(X.shape[1])):
            found |= np.isnan(X[a:b]).any(axis=0)
    return found


def _lower_median(values: AnyArray) -> float:
    """Return the lower median of the numbers that are not missing; 0 if all are."""
    present = values[~np.isnan(values)]
    if not len(present):
        return 0.0
    at = (len(present) - 1) // 2
    return float(np.partition(present, at)[at])


def _rows_at_once(n_features: int) -> int:
    return max(1, _NUMBERS_AT_ONCE // max(1, n_features))
