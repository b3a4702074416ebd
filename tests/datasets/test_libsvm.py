"""The reader of LIBSVM files: indices, labels, blocks and invalid lines."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from gramless.base.errors import DataFileError, InputError
from gramless.datasets import ReadLimits, read_libsvm, read_table
from harness.known_sets import KnownSet, read_original

from .conftest import PACKERS, Writer

TEXT = "# a comment\n1 1:0.5 3:-2e1\n\n-1 qid:7 2:1 # two\n+3.25\n"
DENSE = [[0.5, 0, -20], [0, 1, 0], [0, 0, 0]]


def test_libsvm_is_read_in_every_compression(write: Writer, packing: str) -> None:
    table = read_table(write(f"some.libsvm{packing}", TEXT))
    X, y, names = table.split_target()
    assert sparse.issparse(X)
    assert X.format == "csr"
    assert X.dtype == np.float64
    assert X.indices.dtype == np.int32
    assert names is None
    assert_array_equal(X.toarray(), DENSE)
    assert_array_equal(y, [1, -1, 3.25])


def test_libsvm_is_recognised_by_content(write: Writer) -> None:
    names = ("a9a", "a9a.t", "letter.scale.tr", "covtype.libsvm.binary", "x.txt")
    for name, packing in product(names, PACKERS):
        assert read_table(write(name + packing, TEXT)).shape == (3, 3)


def test_libsvm_with_a_very_long_line_is_recognised(write: Writer) -> None:
    line = "1 " + " ".join(f"{j}:0.25" for j in range(1, 20_000))
    assert read_table(write("epsilon", line + "\n")).shape == (1, 19_999)


def test_blocks_give_the_same_table(write: Writer) -> None:
    path = write("some.libsvm", TEXT + "2 4:7\n")
    whole = read_libsvm(path)
    blocks = read_libsvm(path, limits=ReadLimits(block_bytes=1))
    for got, expected in zip(blocks, whole, strict=True):
        expected, got = (a.toarray() if sparse.issparse(a) else a for a in (expected, got))
        assert_array_equal(got, expected)
    known = KnownSet("some", "regression", n_rows=4, n_columns=5, description="")
    (X, y), _ = read_original(known, path, None)
    assert X.dtype == np.float32
    assert_array_equal(X, np.pad(whole[0].toarray(), ((0, 0), (0, 1))))
    assert_array_equal(y, whole[1])


def test_zero_based_decides_the_first_index(write: Writer) -> None:
    cases = [
        ("auto", "1 1:5\n", [[5]]),
        ("auto", "1 1:5\n1 0:2\n", [[0, 5], [2, 0]]),
        (True, "1 1:5\n", [[0, 5]]),
        (False, "1 1:5\n", [[5]]),
    ]
    for zero_based, text, expected in cases:
        X, _ = read_libsvm(write("a.libsvm", text), zero_based=zero_based)  # type: ignore[arg-type]
        assert_array_equal(X.toarray(), expected)


def test_n_features_sets_the_number_of_columns(write: Writer) -> None:
    path = write("a.libsvm", "1 2:5\n1 4:1\n")
    assert read_libsvm(path, n_features=9)[0].shape == (2, 9)
    assert read_table(write("b.libsvm", "1\n2\n"), n_features=3).shape == (2, 3)
    with pytest.raises(DataFileError, match="line 2: index 4 is outside 1 to 3; say n_features=4"):
        read_libsvm(path, n_features=3)


def test_faults_name_their_line(write: Writer) -> None:
    cases = [
        ("1 1:5\n1 0:2\n", "line 2: index 0 is outside 1 to 1; say zero_based=True"),
        ("1 1:5\n\n1,3 1:5\n", "line 3: several labels"),
        ("one 1:5\n", "line 1: the label 'one' is not a number"),
        ("1:5 2:3\n", "line 1: the label is missing"),
        ("1 1:x\n", "line 1: '1:x' is not index:value"),
        ("1 1\n", "line 1: '1' is not index:value"),
        ("1 a:1\n", "line 1: 'a:1' is not index:value"),
        ("1 3:1 2:1\n", "line 1: index 2 after 3"),
        ("1 2:1 2:1\n", "line 1: index 2 after 2"),
        ("1 -1:1\n", "line 1: index '-1' is outside"),
        ("1 99999999999999999999:1\n", "line 1: index '9+' is outside"),
        ("# only a comment\n", "no rows"),
        ("1\n2\n", "no index:value pair"),
        ("\x00\x01", "not text"),
    ]
    for text, message in cases:
        with pytest.raises(DataFileError, match=message):
            read_libsvm(write("a.libsvm", text), zero_based=False)


def test_fault_in_a_later_block_names_its_line(write: Writer) -> None:
    path = write("a.libsvm", "1 1:5\n" * 30 + "x 1:5\n")
    with pytest.raises(DataFileError, match="line 31: the label 'x'"):
        read_libsvm(path, limits=ReadLimits(block_bytes=10))


def test_invalid_parameters_are_rejected(write: Writer) -> None:
    for wrong in ({"n_features": 0}, {"n_features": 2.5}, {"zero_based": "no"}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            read_libsvm(write("a.libsvm", TEXT), **wrong)


finite = st.floats(-1e300, 1e300, allow_subnormal=False)


@given(
    st.lists(st.lists(finite, min_size=4, max_size=4), min_size=1, max_size=8),
    st.data(),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_written_rows_are_read_back(
    tmp_path: Path, rows: list[list[float]], data: st.DataObject, zero_based: bool
) -> None:
    labels = data.draw(st.lists(finite, min_size=len(rows), max_size=len(rows)))
    X, path = sparse.csr_matrix(rows), tmp_path / "round.libsvm"
    dump_svmlight_file(X, labels, str(path), zero_based=zero_based)
    again, y = read_libsvm(path, n_features=4, zero_based=zero_based)
    assert again.has_sorted_indices
    # The writer keeps 16 digits.
    np.testing.assert_allclose(again.toarray(), X.toarray(), rtol=1e-15)
    np.testing.assert_allclose(y, labels, rtol=1e-15)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "part"), [("a9a", "train"), ("a9a.t", "test"), ("ijcnn1.tst.bz2", "test")]
)
def test_originals_agree_with_the_npz(data_folder: Path, name: str, part: str) -> None:
    with np.load(data_folder / f"{name.split('.')[0]}.npz") as stored:
        expected, labels = stored[f"X_{part}"], stored[f"y_{part}"]
    table = read_table(data_folder / "original" / name, n_features=expected.shape[1])
    X, y, _ = table.split_target()
    assert_array_equal(X.toarray().astype(np.float32), expected)
    assert_array_equal(y, labels)


@pytest.mark.data
def test_original_with_zero_based_indices_is_read(data_folder: Path) -> None:
    path = data_folder / "original" / "cpusmall_scale_part_zero_based.libsvm"
    X, y = read_libsvm(path)
    assert X.shape == (5_734, 12)
    assert X[0, 0] == -0.9837399999999999
    assert y[0] == 98
