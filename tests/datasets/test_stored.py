"""Tables on a disk: what read_table reads, and the models that are fitted to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from gramless import KernelRegressor
from gramless.base.errors import DataFileError, InputError
from gramless.base.lazy_rows import LazyRows
from gramless.datasets import ReadLimits, StoredTable, Table, read_table, store_table
from gramless.datasets.stored import StoredRows

N_ROWS = 1500
rng = np.random.default_rng(0)
NUMBERS = np.round(rng.normal(size=(N_ROWS, 4)), 3)
NUMBERS[rng.random(NUMBERS.shape) < 0.02] = np.nan
KINDS = rng.choice(["tin", "iron", ""], N_ROWS)
LABELS = np.round(np.nan_to_num(NUMBERS).sum(axis=1) + (KINDS == "tin"), 3)
SMALL = ReadLimits(block_bytes=1 << 13)
"""So that tables come in several pieces."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tables")
    lines = ["a,b,c,d,kind,target"]
    for row, kind, label in zip(NUMBERS.tolist(), KINDS, LABELS.tolist(), strict=True):
        cells = ["" if value != value else str(value) for value in row]
        lines.append(",".join([*cells, str(kind), str(label)]))
    (place / "mixed.csv").write_text("\n".join(lines) + "\n")
    plain = [",".join([*line.split(",")[:4], line.split(",")[5]]) for line in lines]
    (place / "plain.csv").write_text("\n".join(plain) + "\n")
    polars = pytest.importorskip("polars")
    polars.read_csv(place / "mixed.csv").write_parquet(place / "mixed.parquet")
    np.save(place / "rows.npy", np.column_stack([NUMBERS, LABELS]).astype(np.float32))
    np.save(place / "columns.npy", np.asfortranarray(np.column_stack([NUMBERS, LABELS])))
    np.savez(place / "apart.npz", X=NUMBERS, y=LABELS)
    return place


FILES = ["mixed.csv", "plain.csv", "mixed.parquet", "rows.npy", "columns.npy", "apart.npz"]


@pytest.mark.parametrize("name", FILES)
def test_stored_table_gives_the_same_table_and_model(folder: Path, name: str) -> None:
    inside = read_table(folder / name)
    outside = store_table(folder / name, limits=SMALL)
    assert (len(outside), outside.names) == (len(inside), inside.names)
    assert outside.shape == inside.shape
    assert outside.categorical == inside.categorical
    for column in inside.names or ():
        np.testing.assert_array_equal(outside.column(column), inside.column(column))
    X, y, names = inside.split_target()
    result, labels, own_names = outside.split_target()
    assert own_names == names
    np.testing.assert_array_equal(labels, y)
    assert isinstance(result, StoredTable if isinstance(X, Table) else LazyRows)
    model = KernelRegressor(effort=1, n_grids=24, grids="grown", random_state=0)
    weight = np.arange(N_ROWS) % 4
    expected = model.fit(X, y, sample_weight=weight)
    few = X.take_rows(slice(0, 50)) if isinstance(X, Table) else X[:50]
    coef, predicted = expected.weights_, expected.predict(few)
    model.set_params(memory_budget="500 MB").fit(result, labels, sample_weight=weight)
    np.testing.assert_array_equal(model.weights_, coef)
    np.testing.assert_array_equal(model.predict(few), predicted)


def test_mapped_rows_give_the_same_kernel_ridge_model(tmp_path: Path) -> None:
    """Kernel ridge regression is taken, which needs all rows."""
    X = rng.uniform(-2, 2, size=(600, 2))
    y = np.sin(2 * X[:, 0]) * X[:, 1]
    np.save(tmp_path / "X.npy", X)
    stored, _, _ = store_table(tmp_path / "X.npy").split_target("x2", ["x1"])
    assert stored.shape == (600, 1)
    expected = KernelRegressor(random_state=0).fit(X, y)
    assert type(expected.features_).__name__ == "KernelExpansion"
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    result = KernelRegressor(memory_budget="500 MB", random_state=0).fit(mapped, y)
    np.testing.assert_array_equal(result.weights_, expected.weights_)


def test_selected_columns_are_read(folder: Path) -> None:
    table = store_table(folder / "mixed.csv", limits=SMALL)
    chosen = table.select(["c", "a"])
    assert isinstance(chosen, StoredRows)
    np.testing.assert_array_equal(chosen[3:900], NUMBERS[3:900, [2, 0]])
    np.testing.assert_array_equal(chosen[:, 1], NUMBERS[:, 0])
    np.testing.assert_array_equal(chosen[np.array([1400, 2, 2])], NUMBERS[[1400, 2, 2]][:, [2, 0]])
    mixed = table.select(["kind", "b"])
    assert isinstance(mixed, StoredTable)
    assert mixed.take_rows(np.array([7, 1200])).column("kind").tolist() == KINDS[[7, 1200]].tolist()
    rows = store_table(folder / "rows.npy").select(["x3"])
    np.testing.assert_array_equal(rows[10:20], NUMBERS[10:20, [2]].astype(np.float32))
    assert repr(table).startswith("StoredTable(1,500 x 6, from ")


def test_numbers_can_be_stored_as_categories(folder: Path) -> None:
    table = store_table(folder / "mixed.csv", categorical=["a"], limits=SMALL)
    assert "a" in table.categorical
    assert "a" in table.declared
    assert table.column("a")[:3].tolist() == [
        "" if value != value else f"{value:g}" for value in NUMBERS[:3, 0]
    ]


def test_sparse_rows_and_late_text_are_rejected(folder: Path) -> None:
    sparse_rows = sparse.random(20, 5, 0.2, "csr", random_state=0)
    parts = {f"X_{name}": getattr(sparse_rows, name) for name in ("data", "indices", "indptr")}
    np.savez(folder / "sparse.npz", X_shape=sparse_rows.shape, y=np.ones(20), **parts)
    with pytest.raises(InputError, match="sparse rows, which store_table does not take"):
        store_table(folder / "sparse.npz")
    (folder / "late.csv").write_text("a,target\n" + "1,2\n" * 90_000 + "tin,3\n")
    with pytest.raises(DataFileError, match="'tin'"):
        store_table(folder / "late.csv", limits=ReadLimits(block_bytes=1 << 16))


def test_targets_of_another_length_are_rejected(folder: Path) -> None:
    X, y, _ = store_table(folder / "rows.npy").split_target()
    with pytest.raises(InputError, match="1500 rows and y 1499"):
        KernelRegressor().fit(X, y[1:])


def test_infinity_in_mapped_rows_is_rejected(tmp_path: Path) -> None:
    rows = np.ones((50, 2))
    rows[40, 1] = np.inf
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    with pytest.raises(InputError, match="infinity in rows 0 to 49"):
        KernelRegressor(memory_budget="100 MB").fit(mapped, np.ones(50))
