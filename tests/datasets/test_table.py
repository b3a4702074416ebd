"""Conversion of a table to numbers, categories and frames."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.utils import _safe_indexing

from gramless.base.arrays import as_floats
from gramless.base.errors import InputError
from gramless.datasets import Table
from gramless.datasets.table import with_text


def words(*values: str) -> np.ndarray:
    return np.array(values, dtype=object)


@pytest.fixture
def mixed() -> Table:
    return Table(
        {
            "age": np.array([3, 5, 7]),
            "kind": words("cat", "", "dog"),
            "weight": np.array([1.5, np.nan, 2.0], dtype=np.float32),
            "Class": words("a", "b", "a"),
        }
    )


@pytest.fixture
def rows() -> sparse.csr_matrix:
    return sparse.csr_matrix(np.array([[1.0, 0, 2], [0, 3, 0]]))


def test_as_floats_keeps_the_precision_of_the_type() -> None:
    cases = [
        ("bool", "float32"),
        ("uint8", "float32"),
        ("int16", "float32"),
        ("int32", "float64"),
        ("int64", "float64"),
        ("float16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("longdouble", "float64"),
    ]
    for kind, expected in cases:
        assert as_floats(np.ones(2, dtype=kind)).dtype == np.dtype(expected)


def test_text_columns_are_categorical(mixed: Table) -> None:
    assert mixed.categorical == ("kind", "Class")
    assert mixed.is_categorical("kind")
    assert not mixed.is_categorical("age")
    assert mixed.column("age").dtype == np.float64
    assert mixed.column("weight").dtype == np.float32


def test_booleans_are_categories() -> None:
    table = Table({"b": np.array([True, False])})
    assert_array_equal(table.column("b"), words("True", "False"))


def test_mixed_features_stay_a_table(mixed: Table) -> None:
    X, y, names = mixed.split_target()
    assert isinstance(X, Table)
    assert X.shape == (3, 3)
    assert names == X.names == ("age", "kind", "weight")
    assert_array_equal(y, words("a", "b", "a"))


def test_numeric_features_keep_their_names(mixed: Table) -> None:
    X, y, names = mixed.split_target("kind", ["weight", "age"])
    assert isinstance(X, Table)
    assert_array_equal(X, np.array([[1.5, 3], [np.nan, 5], [2, 7]]))
    assert names == X.names == ("weight", "age")
    assert_array_equal(y, words("cat", "", "dog"))


def test_default_target_is_named_or_last() -> None:
    cases = [
        (["a", "Y", "b"], "Y"),
        (["y", "b", "Label"], "Label"),
        (["class", "TARGET", "b"], "TARGET"),
        (["a", "b", "c"], "c"),
    ]
    for names, expected in cases:
        table = Table({name: np.array([float(j)]) for j, name in enumerate(names)})
        assert table.split_target()[1][0] == names.index(expected)


def test_target_can_be_given_by_position() -> None:
    table = Table(matrix=np.arange(6.0).reshape(2, 3))
    assert_array_equal(table.split_target(0)[1], [0, 3])
    X, y, names = table.split_target(-1)
    assert_array_equal(X, [[0, 1], [3, 4]])
    assert_array_equal(y, [2, 5])
    assert names == ("x1", "x2")


def test_own_target_costs_no_copy(rows: sparse.csr_matrix) -> None:
    table = Table(matrix=rows, target=np.array([1.0, -1.0]))
    X, y, names = table.split_target()
    assert X is table.matrix
    assert names is None
    assert_array_equal(y, [1, -1])
    assert_array_equal(table.split_target("y", ["x3"])[0].toarray(), [[2], [0]])


def test_sparse_tables_know_their_columns(rows: sparse.csr_matrix) -> None:
    table = Table(matrix=rows)
    assert table.names is None
    assert_array_equal(table.column("x2"), [0, 3])
    X, y, names = table.split_target("x1")
    assert sparse.issparse(X)
    assert names is None
    assert_array_equal(y, [1, 0])
    with pytest.raises(InputError, match="x1 to x3"):
        table.column("x4")


def test_sparse_indices_get_sorted() -> None:
    unsorted = sparse.csr_matrix((np.array([2, 1]), np.array([1, 0]), np.array([0, 2])))
    table = Table(matrix=unsorted)
    assert table.matrix.has_sorted_indices
    assert_array_equal(table.matrix.toarray(), [[1, 2]])


def test_take_rows_selects_rows_and_labels(mixed: Table, rows: sparse.csr_matrix) -> None:
    assert mixed.take_rows(np.array([2, 0])).column("age").tolist() == [7, 3]
    labelled = Table(matrix=rows, target=np.array([1, 2])).take_rows(np.array([False, True]))
    assert labelled.shape == (1, 3)
    assert_array_equal(labelled.target, [2])


def test_table_converts_to_an_array(mixed: Table, rows: sparse.csr_matrix) -> None:
    numbers = np.asarray(mixed.split_target("kind", ["weight", "age"])[0], np.float32)
    assert numbers.dtype == np.float32
    assert np.asarray(mixed).dtype == object
    assert_array_equal(np.asarray(Table(matrix=rows)), rows.toarray())


def test_scikit_learn_indexes_rows_of_a_table(mixed: Table) -> None:
    for part in ([2, 0], slice(1, 3), np.array([True, False, True])):
        expected = np.array([3.0, 5.0, 7.0])[part]
        assert_array_equal(_safe_indexing(mixed, part).column("age"), expected)
        if isinstance(part, slice):
            assert_array_equal(mixed[part].column("age"), expected)


def test_len_and_repr_describe_the_table(mixed: Table, rows: sparse.csr_matrix) -> None:
    assert len(mixed) == 3
    assert repr(mixed) == "Table(3 x 4, columns, from the table)"
    assert "csr" in repr(Table(matrix=rows))


def test_invalid_tables_are_rejected() -> None:
    cases = [
        (lambda: Table(), "exactly one"),
        (lambda: Table({}, matrix=np.eye(2)), "exactly one"),
        (lambda: Table({}), "at least one"),
        (lambda: Table({"a": np.ones(2), "b": np.ones(3)}), "one length"),
        (lambda: Table({"a": np.ones((2, 2))}), "one-dimensional"),
        (lambda: Table(matrix=np.eye(2), names=["a"]), "1 names for 2 columns"),
        (lambda: Table(matrix=np.eye(2), names=["a", "a"]), "differ"),
        (lambda: Table(matrix=np.eye(2), target=np.ones(3)), "3 labels for 2 rows"),
        (lambda: Table(matrix=np.ones(3)), "1 axes"),
        (lambda: Table(matrix=np.array([["a"]])), "matrix of numbers"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()  # type: ignore[operator]


def test_invalid_splits_are_rejected(mixed: Table) -> None:
    cases = [
        ("nothing", None, "no column 'nothing'; it has age, kind"),
        (9, None, "no column 9"),
        (True, None, "no column True"),
        ("age", ["age"], "also among the features"),
        ("age", ["kind", "kind"], "each once"),
        ("age", [], "at least one column"),
        ("age", "kind", "must be a list"),
    ]
    for target, features, message in cases:
        with pytest.raises(InputError, match=message):
            mixed.split_target(target, features)


def test_wide_tables_list_some_columns() -> None:
    with pytest.raises(InputError, match=r"x20, \.\.\. \(30 columns\)"):
        Table(matrix=np.ones((1, 30))).column("z")


def test_rounded_numbers_do_not_become_categories() -> None:
    table = Table({"id": np.array([2.0**53, 1.0])}, source="a.parquet")
    with pytest.raises(InputError, match="column 'id' holds numbers beyond 2.53"):
        with_text(table, ["id"])
