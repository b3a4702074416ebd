"""Replaced columns, partial dependence and shared grids against slow references."""

from __future__ import annotations

from copy import deepcopy
from itertools import combinations, pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.datasets import Table
from gramless.datasets.table import take_rows
from gramless.inspection.explanation import (
    column_values,
    dependence_on,
    grid_use,
    input_columns,
    joint_dependence_on,
    main_effect,
    model_grid_use,
    partial_dependence,
    with_column_from,
)

N_ROWS = 400
GIVEN = {"bandwidth": 4.0, "alpha": 1e-4, "scaling": "standard", "random_state": 0}
KINDS = ("array", "float32", "csr", "table", "matrix table", "pandas", "polars")


def numbers() -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(N_ROWS, 4)).round(1)
    return X * (np.abs(X) > 0.3)


def as_kind(kind: str, X: np.ndarray):
    columns = {f"c{j}": column for j, column in enumerate(X.T)}
    if kind in ("pandas", "polars"):
        return pytest.importorskip(kind).DataFrame(columns)
    made = {
        "array": lambda: X,
        "float32": lambda: X.astype(np.float32),
        "csr": lambda: sp.csr_matrix(X),
        "table": lambda: Table(columns),
        "matrix table": lambda: Table(matrix=X, names=list(columns)),
    }
    return made[kind]()


def dense(X) -> np.ndarray:
    return np.column_stack([column_values(X, j)[0] for j in range(X.shape[1])])


def mixed(n_rows: int = N_ROWS) -> Table:
    rng = np.random.default_rng(1)
    age = rng.uniform(0, 15, n_rows)
    age[::9] = np.nan
    pet = rng.choice(np.array(["cat", "dog", "", "snake"], object), n_rows, p=[0.4, 0.3, 0.2, 0.1])
    return Table({"age": age, "pet": pet, "noise": rng.normal(size=n_rows)})


@pytest.fixture(scope="module")
def pets() -> tuple[KernelRegressor, Table]:
    table = mixed()
    y = np.nan_to_num(table.column("age")) * (table.column("pet") == "cat")
    model = KernelRegressor(RandomBinning(n_grids=64), **GIVEN)
    return model.fit(table, y), table


# One column's values from other rows.


def test_one_column_gets_the_values_of_other_rows_and_the_rest_stays():
    order = np.random.default_rng(0).permutation(N_ROWS)
    for kind in KINDS:
        X = as_kind(kind, numbers())
        before = dense(X)
        changed = with_column_from(X, 2, order)
        expected = before.copy()
        expected[:, 2] = before[order, 2]
        np.testing.assert_array_equal(dense(changed), expected)
        np.testing.assert_array_equal(dense(X), before)
        assert changed.shape == X.shape
        assert isinstance(changed, Table if isinstance(X, Table) else type(X))


def test_shuffled_categories_and_dates_keep_their_type():
    pd = pytest.importorskip("pandas")
    days = pd.Timestamp("2024-05-01") + pd.to_timedelta(np.arange(60), unit="D")
    frame = pd.DataFrame({"day": days, "kind": pd.Categorical(list("abc") * 20)})
    for column in (0, 1):
        changed = with_column_from(frame, column, np.arange(60)[::-1])
        assert (changed.dtypes == frame.dtypes).all()
        assert list(changed.iloc[:, column]) == list(frame.iloc[::-1, column])


def test_take_rows_keeps_the_given_order():
    for kind in KINDS:
        rows = np.array([5, 1, 1])
        np.testing.assert_array_equal(
            dense(take_rows(as_kind(kind, numbers()), rows)), dense(as_kind(kind, numbers()[rows]))
        )


def test_replaced_columns_of_a_table_keep_their_types() -> None:
    days = np.arange(60) * 86400.0
    table = Table({"day": days, "kind": np.array(list("abc") * 20)}, types={"day": "datetime"})
    model = KernelRegressor(RandomBinning(n_grids=8), **GIVEN).fit(table, days)
    changed = with_column_from(table, 1, np.arange(60)[::-1])
    assert changed.types == table.types
    assert changed.declared == table.declared
    assert model.predict(changed).shape == (60,)


# Partial dependence.


def brute_force(response, X: Table, column: int, donors) -> np.ndarray:
    """One row at a time, each with the donor's value."""
    names, means = list(X.columns), []
    for donor in donors:
        total = 0.0
        for row in range(len(X)):
            cells = {name: X.column(name)[[row]] for name in names}
            cells[names[column]] = X.column(column)[[donor]]
            total = total + response(Table(cells))[0]
        means.append(total / len(X))
    return np.array(means)


def test_partial_dependence_matches_means_of_single_rows(pets):
    for column in [0, 1]:
        model, table = pets
        few = take_rows(table, np.arange(20))
        donors = np.array([3, 0, 7])
        result = partial_dependence(model.predict, few, column, donors)
        np.testing.assert_allclose(result, brute_force(model.predict, few, column, donors))


def test_partial_dependence_recovers_additive_parts():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(2500, 3))
    parts = [np.sin(2.0 * X[:, 0]), X[:, 1] ** 2, np.zeros(len(X))]
    model = KernelRegressor(RandomBinning(n_grids=256), **GIVEN).fit(X, sum(parts))
    few = X[:300]
    for j, part in enumerate(parts):
        result = dependence_on(lambda rows: model.predict(rows)[:, None], few, j, "x")
        inner = slice(2, -2)
        at = [int(np.flatnonzero(few[:, j] == value)[0]) for value in result.values[inner]]
        gap = result.means[inner, 0] - part[at]
        assert np.abs(gap - gap.mean()).max() < 0.15


def test_dependence_of_numbers_is_at_quantiles():
    x = np.append(np.repeat(0.0, 60), np.arange(1.0, 41.0))
    np.random.default_rng(0).shuffle(x)
    x[:5] = np.nan
    known = x[~np.isnan(x)]
    result = dependence_on(lambda rows: rows[:, :1], np.column_stack([x, x]), 0, "x")
    assert result.name == "x"
    assert (np.diff(result.values) > 0).all()
    assert (result.values[0], result.values[-1]) == (known.min(), known.max())
    reference = [np.mean(known < v) + 0.5 * np.mean(known == v) for v in result.values]
    np.testing.assert_allclose(result.shares, reference)
    np.testing.assert_allclose(result.means[:, 0], result.values)


def test_dependence_of_categories_is_sorted_by_frequency(pets):
    model, table = pets
    result = dependence_on(lambda rows: model.predict(rows)[:, None], table, 1, "pet")
    shares = {kind: float(np.mean(table.column(1) == kind)) for kind in table.column(1)}
    assert result.values.tolist() == sorted(shares, key=lambda kind: -shares[kind])
    np.testing.assert_allclose(result.shares, sorted(shares.values(), reverse=True))
    assert result.means.argmax() == 0


def test_dependence_keeps_the_most_frequent_categories():
    kinds = np.repeat(np.array([f"k{j:02d}" for j in range(30)], object), np.arange(1, 31))
    result = dependence_on(lambda rows: np.zeros((len(rows), 2)), Table({"kind": kinds}), 0, "kind")
    assert result.values.tolist() == [f"k{j:02d}" for j in range(29, 17, -1)]
    assert result.means.shape == (12, 2)


def test_empty_column_has_no_dependence():
    X = Table({"x": np.full(5, np.nan), "y": np.arange(5.0)})
    result = dependence_on(lambda rows: np.zeros((len(rows), 1)), X, 0, "x")
    assert len(result.values) == len(result.shares) == len(result.means) == 0


# Two columns together.


def test_joint_dependence_matches_partial_dependence(pets):
    model, table = pets
    few = take_rows(table, np.arange(20))

    def response(rows):
        return model.predict(rows)[:, None]

    result = joint_dependence_on(response, few, (0, 1), ("age", "pet"))
    assert result.means.shape == (len(result.values[0]), len(result.values[1]), 1)
    age = int(np.flatnonzero(few.column(0) == result.values[0][1])[0])
    columns = {name: few.column(name) for name in few.columns}
    same = Table(columns | {"age": np.full(20, columns["age"][age])})
    donors = [int(np.flatnonzero(few.column(1) == pet)[0]) for pet in result.values[1]]
    expected = partial_dependence(response, same, 1, np.array(donors))
    np.testing.assert_allclose(result.means[1], expected)


def test_interaction_of_sums_is_zero_and_of_products_positive():
    X = np.random.default_rng(0).uniform(-1, 1, (600, 2))

    def response(rows):
        return np.column_stack([rows[:, 0] + rows[:, 1] ** 2, rows[:, 0] * rows[:, 1]])

    result = joint_dependence_on(response, X, (0, 1), ("a", "b"))
    middles = np.quantile(X, (np.arange(6) + 0.5) / 6, axis=0)
    np.testing.assert_allclose(np.column_stack(result.values), middles, atol=0.02)
    assert result.interaction[0] == pytest.approx(0.0, abs=1e-12)
    assert result.interaction[1] == pytest.approx(1 / 9, rel=0.1)


# What a column explains by itself.


def test_main_effect_is_the_explained_share_of_variance():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, 4000))
    assert main_effect(a, a**2) > 0.9
    assert main_effect(a, a * b) < 0.02
    assert main_effect(b, a) < 0.02
    kinds = np.where(a > 0, "up", "down").astype(object)
    assert main_effect(kinds, np.sign(a)) == pytest.approx(1.0)
    both = main_effect(kinds, np.column_stack([np.sign(a), np.sign(b)]))
    assert both == pytest.approx(0.5, abs=0.03)


def test_main_effect_separates_frequent_and_missing_values():
    x = np.append(np.zeros(900), np.linspace(0.1, 1, 100))
    assert main_effect(x, (x > 0) * 1.0) == pytest.approx(1.0)
    x[:100] = np.nan
    assert main_effect(x, np.isnan(x) * 1.0) == pytest.approx(1.0)
    assert main_effect(np.full(10, np.nan), np.arange(10.0)) == pytest.approx(0.0)


# Which columns grids use.


def test_grid_use_counts_pairs_of_inputs():
    for most in [2, 3, 12]:
        rng = np.random.default_rng(0)
        uses, weights = rng.random((40, 6)) < 0.4, rng.random(40)
        result = grid_use(uses, weights, most)
        reference = dict.fromkeys(combinations(range(6), 2), 0.0)
        for row, weight in zip(uses, weights / weights.sum(), strict=True):
            if row.sum() <= most:
                for pair in combinations(np.flatnonzero(row).tolist(), 2):
                    reference[pair] += weight
        assert {(i, j): w for i, j, w in result.pairs} == pytest.approx(
            {pair: weight for pair, weight in reference.items() if weight > 0}
        )
        assert [w for _, _, w in result.pairs] == sorted(
            (w for _, _, w in result.pairs), reverse=True
        )
        np.testing.assert_allclose(result.share, weights @ uses / weights.sum())
        assert result.counts.tolist() == uses.sum(axis=1).tolist()
        assert result.is_selective


def test_grids_without_weight_count_equally():
    result = grid_use(np.array([[True, False], [True, True]]), np.zeros(2))
    assert result.share.tolist() == [1.0, 0.5]
    assert result.pairs == [(0, 1, 0.5)]


def test_unused_column_is_not_selective():
    assert not grid_use(np.array([[True, False], [True, False]]), np.ones(2)).is_selective
    assert grid_use(np.ones((2, 3), bool), np.ones(2)).pairs == [
        *((0, 1, 1.0), (0, 2, 1.0), (1, 2, 1.0))
    ]


def test_input_columns_maps_inputs_of_a_table(pets):
    model, _ = pets
    result = {name: inputs.tolist() for name, inputs in input_columns(model).items()}
    assert result == {"age": [0, 1], "pet": [2], "noise": [3]}
    assert len(model.relevance_) == 4


def test_input_columns_maps_inputs_of_an_array():
    X = numbers().copy()
    X[::9, [0, 2]] = np.nan
    model = KernelRegressor(RandomBinning(n_grids=8), **GIVEN).fit(X, X[:, 1])
    result = {name: inputs.tolist() for name, inputs in input_columns(model).items()}
    assert result == {"x1": [0, 4], "x2": [1], "x3": [2, 5], "x4": [3]}
    assert model_grid_use(model, X).share.tolist() == pytest.approx([1.0] * 4)


def test_grid_use_combines_inputs_and_ranks():
    X = numbers()
    model = KernelRegressor(RandomBinning(n_grids=8), **(GIVEN | {"scaling": "both"}))
    model.fit(X, X[:, 1])
    model.features_.widths_[:, [1, 2, 6]] = np.inf
    result = model_grid_use(model, X)
    np.testing.assert_allclose(result.share, [1.0, 1.0, 0.0, 1.0])


def test_grid_use_weights_grids_by_variance(pets):
    model, table = deepcopy(pets)
    widths = model.features_.widths_ = model.features_.widths_.copy()
    widths[::2, 3] = np.inf
    result = model_grid_use(model, table)
    Z = model.features_.rows_matrix(model.scaler_.rows(model.encoder_.transform(table))).toarray()
    ends = model.features_.offsets_
    parts = [Z[:, a:b] @ model.weights_[a:b] for a, b in pairwise(ends)]
    np.testing.assert_allclose(sum(parts) + model.intercept_, model.predict(table))
    weights = np.var(parts, axis=1)
    used = np.isfinite(widths)
    assert 0 < used[:, 2].sum() < len(used)  # Only some grids tell pets apart.
    expected = [1.0, weights[used[:, 2]].sum() / weights.sum(), weights[1::2].sum() / weights.sum()]
    np.testing.assert_allclose(result.share, expected)
    assert result.is_selective
    np.testing.assert_array_equal(result.counts, 1 + used[:, 2:].sum(axis=1))


def test_grid_use_of_sparse_rows_omits_ignored_inputs():
    X = sp.csr_matrix(numbers())
    y = np.asarray(X[:, [0]].toarray())[:, 0].round().astype(int) % 3
    widths = np.array([2.0, 2.0, 2.0, np.inf])
    model = KernelClassifier(RandomBinning(n_grids=16), **(GIVEN | {"bandwidth": widths})).fit(X, y)
    result = model_grid_use(model, X)
    np.testing.assert_allclose(result.share, [1.0, 1.0, 1.0, 0.0])
    assert not result.is_selective


def test_small_integer_codes_are_categories_in_ascending_order():
    X = np.array([[2.0, 10.0, np.nan, 2.0]]).T
    result = dependence_on(lambda rows: np.nan_to_num(rows, nan=-1.0), X, 0, "code")
    assert result.values.tolist() == ["2", "10", ""]
    np.testing.assert_array_equal(result.shares, [0.5, 0.25, 0.25])
    np.testing.assert_array_equal(result.means, [[2.0], [10.0], [-1.0]])


def test_other_numbers_are_not_categories():
    for values in [[0.5, 1.0], [-1.0, 1.0], [2020.0, 2021.0], list(map(float, range(13)))]:
        X = np.array([values]).T
        assert dependence_on(lambda rows: rows, X, 0, "number").values.dtype.kind == "f"
