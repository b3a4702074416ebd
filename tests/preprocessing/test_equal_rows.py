"""Groups of equal rows, compared with those from sorting whole rows in NumPy."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gramless.preprocessing.equal_rows import equal_rows, row_hashes

NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1.0 + 2**-52, 2.0**-1074, 1e300, 1.7e9])


def groups_of(labels):
    return {tuple(np.flatnonzero(labels == label)) for label in set(labels.tolist())}


@given(arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(0, 3)), elements=NUMBERS))
def test_equal_rows_groups_identical_rows(X) -> None:
    first, group = equal_rows(X)
    rows = [tuple(row + 0.0) for row in X]
    number = {row: k for k, row in enumerate(dict.fromkeys(rows))}
    assert groups_of(group) == groups_of(np.array([number[row] for row in rows]))
    assert [rows.index(rows[k]) for k in first] == first.tolist()
    assert group[first].tolist() == list(range(len(first)))


@given(arrays(np.float64, (5, 4), elements=NUMBERS), st.permutations(range(5)))
def test_row_hashes_do_not_depend_on_order_or_format(X, order) -> None:
    hashes = row_hashes(X)
    np.testing.assert_array_equal(row_hashes(X[order]), hashes[order])
    np.testing.assert_array_equal(row_hashes(sp.csr_array(X)), hashes)
    parts = row_hashes(X[:, :1]) + row_hashes(X[:, 1:], 1)
    np.testing.assert_array_equal(parts, hashes)


def test_row_hashes_of_integers_do_not_collide() -> None:
    values = np.arange(300.0)
    X = np.stack(np.meshgrid(values, values), axis=-1).reshape(-1, 2)
    assert len(np.unique(row_hashes(X))) == len(X)
