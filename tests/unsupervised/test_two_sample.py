"""Two-sample tests: sums of blocks against dense features, MMDs against Gram matrices, validity."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import binom, ks_2samp

from gramless import RandomBinning, RandomFourier, SmoothBinning, two_sample_test
from gramless.base.errors import InputError
from gramless.datasets import Table
from gramless.unsupervised import permutations, two_sample
from gramless.unsupervised.permutations import (
    RowBlocks,
    adjusted_p_values,
    block_gram,
    p_value,
    standardise,
)

QUICK = {"n_grids": 32, "n_permutations": 99, "random_state": 0}


@pytest.fixture(scope="module")
def normal():
    rng = np.random.default_rng(0)
    return rng.normal(size=(230, 3)), rng.normal(size=(310, 3))


def test_block_gram_matches_dense_features(normal, monkeypatch) -> None:
    for feature_map in [
        RandomBinning(n_grids=9),
        SmoothBinning(n_grids=5),
        RandomFourier(n_components=20),
    ]:
        for few_rows in [0, 1000]:
            monkeypatch.setattr(permutations, "FEW_ROWS", few_rows)
            rows = np.concatenate(normal)
            blocks = RowBlocks.draw(230, 310, seed=3)
            weights = np.random.default_rng(1).uniform(0.5, 2.0, len(rows))
            feature_map.set_params(random_state=0, bandwidth=2.0)
            result = block_gram(feature_map.fit_matrix(rows), blocks, weights)
            dense = feature_map.transform(rows)
            dense = dense.toarray() if sp.issparse(dense) else dense
            belongs = np.eye(blocks.n_blocks)[blocks.numbers] * weights[:, None]
            sums = dense.T @ belongs
            # Fourier features are computed in float32 for matrices.
            np.testing.assert_allclose(result, sums.T @ sums, rtol=1e-4, atol=1e-4)


def test_excess_bins_are_merged_in_order_of_appearance(normal, monkeypatch) -> None:
    monkeypatch.setattr(permutations, "FEW_ROWS", 0)
    monkeypatch.setattr(permutations, "_MAX_CELLS", 4)
    matrix = RandomBinning(n_grids=3, bandwidth=0.5, random_state=0).fit_matrix(normal[0])
    blocks = RowBlocks.draw(120, 110, seed=0)
    cells = (matrix.codes - 1) % 4
    belongs = np.eye(blocks.n_blocks)[blocks.numbers]
    sums = [np.eye(4)[part].T @ belongs for part in cells.astype(int)]
    expected = sum(part.T @ part for part in sums) / 3
    np.testing.assert_allclose(block_gram(matrix, blocks, np.ones(230)), expected, rtol=1e-12)


def test_blocks_have_equal_sizes_and_permutations_keep_their_numbers() -> None:
    for n, m in [(2, 3), (100, 90), (5000, 4000), (7, 3000), (3000, 100)]:
        blocks = RowBlocks.draw(n, m, seed=1)
        sizes = np.bincount(blocks.numbers, minlength=blocks.n_blocks)
        assert len(set(sizes[:-2])) == 1
        assert blocks.n_blocks <= permutations.MAX_BLOCKS + 2
        assert min(blocks.n_first, blocks.n_second) >= min(n, m, 64)
        first = np.isin(blocks.numbers, [*range(blocks.n_first), blocks.n_blocks - 2])
        assert first[:n].all()
        assert not first[n:].any()
        placed = blocks.in_first(20, seed=1)
        assert (placed[:-2].sum(axis=0) == blocks.n_first).all()
        assert placed[-2].all()
        assert not placed[-1].any()
        assert placed[: blocks.n_first, 0].all()
        assert not placed[blocks.n_first : -2, 0].any()


def test_mmd_matches_the_gram_matrix(normal) -> None:
    for weighted in [False, True]:
        X, Y = normal
        drawn = np.random.default_rng(1)
        u, v = drawn.uniform(0.5, 2.0, len(X)), drawn.uniform(0.5, 2.0, len(Y))
        feature_map = RandomBinning(n_grids=16, bandwidth=1.5, random_state=1)
        options = {"x_weight": u, "y_weight": v} if weighted else {}
        result = two_sample_test(
            X, Y, features=feature_map, scaling="none", n_permutations=99, random_state=0, **options
        )
        Z = feature_map.fit(np.concatenate(normal)).transform(np.concatenate(normal))
        u, v = (u / u.sum(), v / v.sum()) if weighted else (1 / len(X), 1 / len(Y))
        signed = np.concatenate([np.full(len(X), 1.0) * u, np.full(len(Y), -1.0) * v])
        (kernel,) = result.kernels
        assert kernel.bandwidth == 1.5
        assert kernel.mmd**2 == pytest.approx(signed @ (Z @ Z.T) @ signed, rel=1e-9)


def test_p_value_matches_exhaustive_permutations() -> None:
    """Of few rows each is a block: statistics of permutations against literal ones."""
    X, Y = np.array([[0.0], [1.0], [2.0], [2.5]]), np.array([[2.0], [3.0], [4.0]])
    feature_map = RandomBinning(n_grids=64, bandwidth=1.0, random_state=0)
    result = two_sample_test(
        X, Y, features=feature_map, scaling="none", n_permutations=1999, random_state=0
    )
    Z = feature_map.fit(np.concatenate([X, Y])).transform(np.concatenate([X, Y])).toarray()
    gram, literal = Z @ Z.T, []
    for chosen in combinations(range(7), 4):
        signed = np.where(np.isin(np.arange(7), chosen), 1 / 4, -1 / 3)
        literal.append(signed @ gram @ signed)
    exact = np.mean(np.array(literal) >= literal[0] - 1e-12)
    # 35 divisions, of which 1,999 are drawn: five standard errors.
    assert result.kernels[0].p_value == pytest.approx(exact, abs=5 * np.sqrt(exact / 2000))


def test_distances_match_kolmogorov_and_total_variation(normal) -> None:
    X, Y = normal
    codes = [np.random.default_rng(k).integers(3, size=len(part)) for k, part in enumerate(normal)]
    tables = [np.column_stack([part[:, 0], code]) for part, code in zip(normal, codes, strict=True)]
    result = two_sample_test(*tables, categorical_features=[1], **QUICK)
    number, category = result.inputs
    assert (number.is_category, category.is_category) == (False, True)
    assert number.distance == pytest.approx(ks_2samp(X[:, 0], Y[:, 0]).statistic)
    shares = [np.bincount(code, minlength=3) / len(code) for code in codes]
    assert category.distance == pytest.approx(np.abs(shares[0] - shares[1]).sum() / 2)


def test_changed_columns_are_named(normal) -> None:
    X, Y = normal
    pets = np.array(["cat", "dog", "newt"], object)
    rng = np.random.default_rng(2)
    first = pd.DataFrame(X, columns=["a", "b", "c"]).assign(pet=pets[rng.integers(3, size=len(X))])
    second = pd.DataFrame(Y, columns=["a", "b", "c"]).assign(pet=pets[rng.integers(3, size=len(Y))])
    assert two_sample_test(first, second, **QUICK).p_value > 0.05
    changed = second.assign(b=second["b"] * 2, pet="cat")
    result = two_sample_test(first, changed[["pet", "c", "b", "a"]], **QUICK)
    assert result.p_value == 0.01
    assert {one.name for one in result.changed()} == {"b", "pet"}
    assert [one.name for one in result.inputs] == ["a", "b", "c", "pet"]


def test_missing_values_are_reported_as_a_change(normal) -> None:
    X, Y = (part.copy() for part in normal)
    X[:5, 0], Y[:150, 0] = np.nan, np.nan
    for tables in ((X, Y), (pd.DataFrame(X), pd.DataFrame(Y))):
        result = two_sample_test(*tables, **QUICK)
        (changed,) = result.changed()
        assert changed.name in ("x1 (missing)", "0 (missing)")
        gone = np.isnan(Y[:, 0]).mean() - np.isnan(X[:, 0]).mean()
        assert changed.distance == pytest.approx(gone)
    Y[:, 0] = np.nan
    result = two_sample_test(X, Y, **QUICK)
    assert "x1" not in {one.name for one in result.inputs}


def test_changed_dependence_is_detected(normal) -> None:
    X, Y = normal
    rng = np.random.default_rng(5)
    Y = np.column_stack([Y[:, 0], Y[:, 0] + 0.3 * rng.normal(size=len(Y)), Y[:, 2]])
    Y[:, 1] /= np.sqrt(1.09)
    result = two_sample_test(X, Y, **QUICK)
    assert result.p_value == 0.01
    assert not result.changed()


def test_number_of_threads_does_not_change_the_test(normal) -> None:
    X, Y = normal
    one, two = (two_sample_test(X, Y, n_jobs=n, **QUICK) for n in (1, 2))
    assert one == two


def test_zero_weight_rows_do_not_change_the_test(normal) -> None:
    X, Y = normal
    far = np.concatenate([X, np.full((5, 3), 1e6)])
    weight = np.repeat([1.0, 0.0], [len(X), 5])
    assert two_sample_test(far, Y, x_weight=weight, **QUICK).p_value == pytest.approx(
        two_sample_test(X, Y, **QUICK).p_value
    )


def test_sparse_rows_give_the_result_of_dense_ones(normal) -> None:
    X, Y = (np.where(part > 0.5, part, 0.0) for part in normal)
    dense = two_sample_test(X, Y, scaling="standard", bandwidth=2.0, **QUICK)
    sparse = two_sample_test(sp.csr_array(X), Y, scaling="standard", bandwidth=2.0, **QUICK)
    assert sparse.p_value == pytest.approx(dense.p_value, abs=0.021)
    assert sparse.kernels[0].mmd == pytest.approx(dense.kernels[0].mmd, rel=1e-6)


def test_inputs_of_largest_variance_are_tested(normal, monkeypatch) -> None:
    for make in [np.asarray, sp.csr_array]:
        monkeypatch.setattr(two_sample, "_MAX_INPUTS", 2)
        # The least varied input is above 1.5 in some 7 % of the rows.
        X, Y = (make(np.where(part > [0.0, 1.5, -1.0], part, 0.0)) for part in normal)
        assert [one.name for one in two_sample_test(X, Y, **QUICK).inputs] == ["x1", "x3"]


def test_equal_tables_are_not_different() -> None:
    ones = np.ones((20, 2))
    result = two_sample_test(ones, ones, **QUICK)
    assert (result.p_value, result.inputs) == (1.0, ())
    X = np.random.default_rng(0).normal(size=(60, 2))
    assert two_sample_test(X, X, **QUICK).p_value > 0.5


def test_invalid_input_is_rejected() -> None:
    for first, second, options, message in [
        (np.ones((5, 2)), np.ones((5, 3)), {}, "2 and 3 columns"),
        (np.ones((5, 2)), pd.DataFrame({"a": [1.0]}), {}, "column names"),
        (pd.DataFrame({"a": [1.0, 2]}), pd.DataFrame({"b": [1.0, 2]}), {}, "no column 'a'"),
        (np.ones((5, 2)), np.ones((1, 2)), {}, "two rows"),
        (np.ones((5, 2)), np.full((5, 2), np.inf), {}, "infinity"),
        (np.ones((5, 2)), np.ones((5, 2)), {"n_permutations": 5}, "at least 19"),
        (np.ones((5, 2)), np.ones((5, 2)), {"bandwidth": "wide"}, "bandwidth must be"),
        (np.ones((5, 2)), np.ones((5, 2)), {"bandwidth": -1.0}, "bandwidth"),
        (np.ones((5, 2)), np.ones((5, 2)), {"x_weight": [1.0]}, "sample_weight"),
        (np.ones((5, 2)), np.ones((5, 2)), {"y_weight": [1, 0, 0, 0, 0]}, "a positive weight"),
        (np.ones((5, 2)), np.ones((5, 2)), {"features": "splines"}, "unknown features"),
        (3.0, np.ones((5, 2)), {}, "2D array"),
    ]:
        with pytest.raises(InputError, match=message):
            two_sample_test(first, second, **options)


def test_text_in_one_table_makes_a_column_categorical() -> None:
    numbers = Table({"a": np.array([1.0, 2.0, 1.0, 2.0] * 10)})
    mixed = Table({"a": np.array(["1", "2", "?", "2"] * 10, object)})
    result = two_sample_test(numbers, mixed, **QUICK)
    assert result.inputs[0].is_category
    assert result.inputs[0].distance == pytest.approx(0.25)


def test_adjusted_p_values_use_the_largest_statistic() -> None:
    rng = np.random.default_rng(0)
    statistics = standardise(rng.normal(size=(4, 50)) ** 2)
    np.testing.assert_allclose(statistics.mean(axis=1), 0.0, atol=1e-12)
    largest = statistics.max(axis=0)
    literal = [np.mean(largest >= row[0]) for row in statistics]
    np.testing.assert_allclose(adjusted_p_values(statistics), literal)
    assert p_value(largest) == np.mean(largest >= largest[0])
    assert (standardise(np.full((2, 5), 3.0)) == 0.0).all()


@pytest.mark.slow
def test_false_alarm_rate_is_the_level() -> None:
    """400 null draws of odd sizes: rejections within the binomial distribution at 5 %."""
    alarms, of_inputs = 0, 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        X, Y = rng.standard_t(2, size=(43, 2)), rng.standard_t(2, size=(151, 2))
        result = two_sample_test(X, Y, n_grids=16, n_permutations=99, random_state=seed)
        alarms += result.p_value <= 0.05
        of_inputs += bool(result.changed())
    low, high = binom.ppf([0.0005, 0.9995], 400, 0.05)
    assert low <= alarms <= high
    assert low <= of_inputs <= high
