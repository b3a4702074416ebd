"""Units of the inputs: deviations, mean distances, ranks; weights, extremes, sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.preprocessing.scaling import SCALINGS, Scaler

UNIFORM_STD = 12.0**-0.5
columns_of_numbers = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 60), st.integers(1, 3)),
    elements=st.integers(-1000, 1000).map(lambda k: k / 8),
)


@pytest.fixture
def X() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal([0.0, 5.0, -3.0], [1.0, 0.1, 30.0], size=(500, 3))


@pytest.fixture
def weight() -> NDArray[np.float64]:
    return np.random.default_rng(1).integers(1, 5, size=500).astype(float)


@pytest.fixture
def sparse() -> sp.csr_array:
    rows = sp.csr_array(sp.random(500, 6, density=0.3, random_state=np.random.default_rng(2)))
    rows.data -= 0.2
    return rows


def mean_distance(rows: NDArray, unit: NDArray, weight: NDArray | None = None) -> float:
    """Return the mean L1 distance of two random rows, over all pairs."""
    share = np.full(len(rows), 1.0) if weight is None else weight
    share = share / share.sum()
    gaps = np.abs(rows[:, None] - rows) / unit
    return float(share @ gaps.sum(axis=2) @ share)


def same_scalers(a: Scaler, b: Scaler, rtol: float = 1e-12) -> None:
    for name in ("unit", "spread", "knots", "levels"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, err_msg=name)


# Units.


def test_standard_unit_is_the_standard_deviation(X: NDArray) -> None:
    np.testing.assert_allclose(Scaler.fit("standard", X).unit, X.std(axis=0), rtol=1e-12)


def test_quantile_unit_is_that_of_a_uniform_distribution(X: NDArray) -> None:
    np.testing.assert_allclose(Scaler.fit("quantile", X).unit, UNIFORM_STD)


@pytest.mark.parametrize("kind", SCALINGS)
def test_integer_weights_equal_repeated_rows(X: NDArray, weight: NDArray, kind: Any) -> None:
    repeated = np.repeat(X, weight.astype(int), axis=0)
    same_scalers(Scaler.fit(kind, X, weight), Scaler.fit(kind, repeated))


def test_scale_of_weights_does_not_change_units(X: NDArray, weight: NDArray) -> None:
    for kind in SCALINGS:
        for factor in (2.0**-40, 2.0**40):
            same_scalers(Scaler.fit(kind, X, weight), Scaler.fit(kind, X, factor * weight))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_constant_columns_have_an_infinite_unit(form: Any) -> None:
    for value in (0.0, 0.1, -3.0, 1.7e9, 1e300, 1e-300):
        rows = np.full((7, 2), value)
        rows[:, 1] = np.arange(7)
        scaler = Scaler.fit("standard", form(rows))
        assert scaler.unit[0] == np.inf
        assert scaler.unit[1] == pytest.approx(2.0)
        assert scaler.spread == pytest.approx(mean_distance(rows[:, 1:], scaler.unit[1:]))


def test_column_is_constant_only_if_all_rows_are_equal() -> None:
    rows = np.zeros((100_001, 2))
    rows[501:1501:2, 0] = 1.0
    unit = Scaler.fit("standard", rows).unit
    assert unit[0] == pytest.approx(rows[:, 0].std(), rel=1e-6)
    assert unit[1] == np.inf


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_timestamps_keep_their_deviation(form: Any) -> None:
    near_zero = np.random.default_rng(3).normal(size=(400, 1))
    stamps = 1.7e9 + near_zero
    scaler = Scaler.fit("standard", form(stamps))
    assert scaler.unit[0] == pytest.approx((stamps - 1.7e9).std(), rel=1e-9)
    assert scaler.spread == pytest.approx(mean_distance(stamps, scaler.unit), rel=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_units_scale_with_extreme_values(X: NDArray, form: Any) -> None:
    plain = Scaler.fit("standard", form(X))
    for exponent in (-1000, -600, 200, 996):
        factor = 2.0**exponent
        scaled = Scaler.fit("standard", form(X * factor))
        np.testing.assert_allclose(scaled.unit / factor, plain.unit, rtol=1e-9)
        assert scaled.spread == pytest.approx(plain.spread, rel=1e-9)


def test_one_huge_value_gives_finite_units_and_distinct_ranks() -> None:
    rows = np.append(np.arange(99.0), 1e300)[:, None]
    scaler = Scaler.fit("standard", rows)
    assert scaler.unit[0] == pytest.approx(1e300 * np.sqrt(0.01 * 0.99))
    assert np.isfinite(scaler.spread)
    ranks = Scaler.fit("quantile", rows).rows(rows)
    assert (np.diff(ranks[:, 0]) > 0).all()


def test_relevance_divides_the_unit(X: NDArray) -> None:
    scaler = Scaler.fit("standard", X)
    relevance = np.array([1.0, 2.0, 0.5])
    np.testing.assert_array_equal(scaler.weighted(relevance).unit, scaler.unit / relevance)
    assert scaler.weighted(None) is scaler


def test_inputs_of_tiny_relevance_are_ignored(X: NDArray) -> None:
    """Divided by the largest float they were subnormal: products took a hundred times as long."""
    weighted = Scaler.fit("standard", X).weighted(np.array([1.0, 0.0, 1e-310]))
    assert weighted.unit[1] == np.inf
    assert np.isfinite(weighted.unit[[0, 2]]).all()
    np.testing.assert_array_equal(weighted.unscaled(2.0)[1], np.inf)


# The mean distance of two rows.


@pytest.mark.parametrize(("kind", "weighted"), [("none", True), ("standard", False)])
def test_spread_matches_brute_force(X: NDArray, weight: NDArray, kind: Any, weighted: bool) -> None:
    given_weight = weight if weighted else None
    scaler = Scaler.fit(kind, X, given_weight)
    expected = mean_distance(X, scaler.unit, given_weight)
    assert scaler.spread == pytest.approx(expected, rel=1e-12)


def test_spread_of_ranks_matches_brute_force(X: NDArray) -> None:
    scaler = Scaler.fit("quantile", X)
    assert scaler.spread == pytest.approx(mean_distance(scaler.rows(X), scaler.unit), rel=1e-12)
    # Two uniform numbers lie a third apart.
    assert scaler.spread == pytest.approx(3 / 3 / UNIFORM_STD, rel=0.01)


def test_spread_of_equal_rows_is_one() -> None:
    for kind in SCALINGS:
        assert Scaler.fit(kind, np.full((5, 2), 3.0)).spread == 1.0
        assert Scaler.fit(kind, np.array([[4.0, -1.0]])).spread == 1.0


# Sparse rows.


@pytest.mark.parametrize(
    ("kind", "weighted"), [("none", True), ("standard", False), ("standard", True)]
)
def test_sparse_units_and_spreads_match_dense_ones(
    sparse: sp.csr_array, weight: NDArray, kind: Any, weighted: bool
) -> None:
    given_weight = weight if weighted else None
    dense = Scaler.fit(kind, sparse.toarray(), given_weight)
    scaler = Scaler.fit(kind, sparse, given_weight)
    np.testing.assert_allclose(scaler.unit, dense.unit, rtol=1e-9)
    expected = mean_distance(sparse.toarray(), scaler.unit, given_weight)
    assert scaler.spread == pytest.approx(expected, rel=1e-9)


def test_sparse_rows_are_not_copied(sparse: sp.csr_array) -> None:
    assert Scaler.fit("standard", sparse).rows(sparse) is sparse


def test_unsupported_scalings_are_rejected(X: NDArray, sparse: sp.csr_array) -> None:
    with pytest.raises(InputError, match=r"quantile.*standard.*toarray"):
        Scaler.fit("quantile", sparse)
    with pytest.raises(InputError, match=r"sparse.*toarray"):
        Scaler.fit("quantile", X).rows(sp.csr_array(X))
    with pytest.raises(InputError, match="scaling must be one of none, standard, quantile"):
        Scaler.fit("minmax", X)  # type: ignore[arg-type]


# Ranks.


@given(columns_of_numbers)
def test_ranks_are_monotone_and_span_zero_to_one(X: NDArray) -> None:
    ranks = Scaler.fit("quantile", X).rows(X)
    for column, rank in zip(X.T, ranks.T, strict=True):
        order = np.argsort(column, kind="stable")
        assert (np.diff(rank[order]) >= 0).all()
        assert rank[order[0]] == 0.0
        assert rank[order[-1]] == (1.0 if column.min() < column.max() else 0.0)
        for value in np.unique(column):
            assert len(np.unique(rank[column == value])) == 1


@given(columns_of_numbers)
def test_few_distinct_values_keep_distinct_ranks(X: NDArray) -> None:
    ranks = Scaler.fit("quantile", X).rows(X)
    for column, rank in zip(X.T, ranks.T, strict=True):
        assert len(np.unique(rank)) == len(np.unique(column))


def test_ties_have_their_middle_rank() -> None:
    column = np.repeat([1.0, 2.0, 9.0], [10, 80, 10])[:, None]
    ranks = Scaler.fit("quantile", column).rows(column)
    assert ranks[50, 0] == pytest.approx(0.5, abs=0.01)


def test_values_outside_have_the_extreme_rank(X: NDArray) -> None:
    scaler = Scaler.fit("quantile", X)
    ranks = scaler.rows(np.array([[-1e300, 1e300, 0.0], [1e300, -1e300, 0.0]]))
    np.testing.assert_array_equal(ranks[:, :2], [[0, 1], [1, 0]])


def test_precision_is_kept(X: NDArray) -> None:
    single = X.astype(np.float32)
    for kind in SCALINGS:
        scaler = Scaler.fit(kind, single)
        assert scaler.unit.dtype == np.float64
        assert scaler.rows(single).dtype == np.float32
        assert scaler.rows(X).dtype == np.float64


def test_affine_scalings_do_not_copy_rows(X: NDArray) -> None:
    assert Scaler.fit("none", X).rows(X) is X
    assert Scaler.fit("standard", X).rows(X) is X


def test_ranks_do_not_depend_on_threads_or_other_rows(X: NDArray) -> None:
    scaler = Scaler.fit("quantile", X)
    whole = scaler.rows(X, n_jobs=1)
    np.testing.assert_array_equal(scaler.rows(X, n_jobs=3), whole)
    np.testing.assert_array_equal(np.concatenate([scaler.rows(X[i : i + 1]) for i in range(500)]),
                                  whole)  # fmt: skip
