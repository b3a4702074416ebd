"""Errors of the kernel against loops over pairs, and against the variance of draws."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from gramless import RandomBinning
from gramless.base.errors import InputError
from gramless.features.blocks import IndependentBlocks
from gramless.features.exact import ExactKernel
from gramless.features.fourier import RandomFourier
from gramless.features.hybrid import Hybrid
from gramless.features.nystrom import Nystrom
from gramless.features.smooth import SmoothBinning
from gramless.inspection.kernel_errors import (
    exact_gram,
    feature_bytes,
    kernel_effective_dimension,
    kernel_errors,
    sampled,
)
from gramless.kernels import Laplacian

ROWS = np.random.default_rng(0).normal(size=(120, 3))

MAPS = {
    "binning": RandomBinning(random_state=3),
    "paired": RandomFourier(random_state=3),
    "shifted": RandomFourier(random_state=3, map="shifted"),
    "nystrom": Nystrom(random_state=3),
    "smooth": SmoothBinning(random_state=3),
}


def without_seconds(found):
    return [{**one.as_dict(), "seconds": None} for one in found]


@pytest.mark.parametrize("name", MAPS)
def test_errors_against_a_loop_over_pairs(name):
    template = clone(MAPS[name]).set_params(bandwidth=[1.0, 2.0, 3.0])
    (found,) = kernel_errors(template, ROWS, [16], n_rows=20, n_seeds=2)
    chosen = ROWS[sampled(len(ROWS), 20, seed=3)]
    exact = exact_gram(template, chosen)
    numbers = []
    for seed in (3, 4):
        own = template.resized(16).set_params(random_state=seed).fit(ROWS)
        Z = own.transform(chosen)
        Z = Z.toarray() if sp.issparse(Z) else Z
        errors = [abs(Z[i] @ Z[j] - exact[i, j]) for i in range(20) for j in range(i)]
        squares = [error**2 for error in errors]
        numbers.append((max(errors), np.mean(errors), np.mean(squares)))
    expected = np.mean(numbers, axis=0)
    np.testing.assert_allclose(
        [found.sup, found.mean, found.rms**2], expected, rtol=1e-4, atol=1e-7
    )
    assert (found.size, found.n_pairs) == (16, 190)


def test_the_exact_kernel_is_exact():
    (found,) = kernel_errors(ExactKernel(), ROWS, [1000], n_seeds=1)
    assert found.sup < 1e-4
    assert found.hoeffding is None


def test_blocks_miss_what_lies_between_them():
    (found,) = kernel_errors(IndependentBlocks(), ROWS, [40], n_seeds=1)
    (whole,) = kernel_errors(IndependentBlocks(), ROWS, [120], n_seeds=1)
    assert whole.sup < 1e-4 < 0.1 < found.sup


def variance(name, k, k_twice):
    return {"binning": k * (1 - k), "paired": (1 + k_twice - 2 * k**2) / 2}[name]


@pytest.mark.parametrize(("name", "draws"), [("binning", 64), ("paired", 32)])
def test_squares_of_errors_are_the_variance_of_a_draw(name, draws):
    rows = np.random.default_rng(1).uniform(-2, 2, size=(60, 2))
    template = clone(MAPS[name]).set_params(bandwidth=1.0)
    found = kernel_errors(template, rows, [64], n_rows=60, n_seeds=80)[0].rms
    pairs = np.triu_indices(60, 1)
    k = exact_gram(template, rows)[pairs]
    k_twice = exact_gram(template, 2.0 * rows)[pairs]
    assert found == pytest.approx(np.sqrt(variance(name, k, k_twice).mean() / draws), rel=0.03)


@pytest.mark.parametrize("name", ["binning", "paired", "shifted"])
def test_bounds_hold(name):
    found = kernel_errors(MAPS[name], ROWS, [64, 256, 1024], n_rows=50, n_seeds=1, failure=0.05)
    for one in found:
        assert one.sup < one.hoeffding
        assert one.mean < one.hoeffding_pair < one.hoeffding
        assert one.claim is None or one.claim > one.sup
    assert (found[-1].claim is None) == (name == "shifted")
    assert found[0].hoeffding == pytest.approx(4 * found[2].hoeffding)


def test_one_pair_is_outside_its_bound_as_rarely_as_promised():
    rows, failure = np.array([[0.0, 0.0], [0.5, 0.5]]), 0.5
    template = RandomBinning(bandwidth=1.0, random_state=0)
    runs = [
        kernel_errors(
            template.set_params(random_state=seed), rows, [32], failure=failure, n_seeds=1
        )
        for seed in range(30)
    ]
    outside = np.mean([run[0].sup > run[0].hoeffding_pair for run in runs])
    assert 0 < outside <= failure


def test_the_median_bandwidth_is_that_of_the_first_seed():
    (found,) = kernel_errors(RandomBinning(random_state=5), ROWS, [32], n_seeds=2)
    own = RandomBinning(random_state=5).fit(ROWS).bandwidth_
    given = RandomBinning(random_state=5, bandwidth=own)
    assert without_seconds([found]) == without_seconds(kernel_errors(given, ROWS, [32], n_seeds=2))


@pytest.mark.parametrize("name", MAPS)
def test_threads_change_nothing(name):
    one, two = (
        kernel_errors(clone(MAPS[name]).set_params(n_jobs=n), ROWS, [32], n_rows=30, n_seeds=1)
        for n in (1, 2)
    )
    assert without_seconds(one) == without_seconds(two)


def test_sparse_rows_are_as_dense_ones():
    dense = np.where(ROWS > 0.8, ROWS, 0.0)
    dense = np.column_stack([dense, np.zeros(len(dense))])
    template = RandomBinning(bandwidth=1.5, random_state=0)
    one, two = (kernel_errors(template, X, [32], n_rows=40) for X in (dense, sp.csr_array(dense)))
    assert one[0].rms == pytest.approx(two[0].rms)
    assert exact_gram(template, sp.csr_array(dense[:5])) == pytest.approx(
        exact_gram(template, dense[:5])
    )


def test_categories_are_compared_as_the_map_does():
    codes = np.random.default_rng(2).integers(0, 3, size=(80, 2)).astype(float)
    template = RandomBinning(bandwidth=1.0, categorical=[0, 1], random_state=0)
    few, many = kernel_errors(template, codes, [32, 512], n_rows=40, n_seeds=4)
    assert few.rms / many.rms == pytest.approx(4.0, rel=0.4)
    assert few.claim is None


def test_bytes_are_those_kept():
    assert feature_bytes(RandomFourier(n_components=64).fit_matrix(ROWS)) == 120 * 64 * 4
    matrix = RandomBinning(n_grids=7).fit_matrix(ROWS)
    assert matrix.codes.nbytes <= feature_bytes(matrix) == matrix.nbytes
    blocks = IndependentBlocks(block_rows=60, random_state=0)
    assert feature_bytes(blocks.fit_matrix(ROWS)) == 2 * 60 * 60 * 4
    both = Hybrid([blocks, RandomFourier(n_components=8)]).fit_matrix(ROWS)
    assert feature_bytes(both) == 2 * 60 * 60 * 4 + 120 * 8 * 4


@pytest.mark.parametrize("alpha", [1e-1, 1e-4])
def test_effective_dimension_against_its_formula(alpha):
    template = RandomBinning(bandwidth=2.0)
    gram = Laplacian().gram(ROWS, bandwidth=2.0)
    expected = np.trace(gram @ np.linalg.inv(gram + len(ROWS) * alpha * np.eye(len(ROWS))))
    found = kernel_effective_dimension(template, ROWS, alpha)
    assert found == pytest.approx(expected)
    part = [kernel_effective_dimension(template, ROWS, alpha, n_rows=60, seed=k) for k in range(8)]
    assert np.mean(part) < found


WRONG_NUMBERS = [{"n_seeds": 0}, {"n_rows": 1}, {"sizes": []}, {"n_rows": 9.5}, {"n_seeds": 1.5}]


@pytest.mark.parametrize("wrong", WRONG_NUMBERS)
def test_numbers_that_are_none(wrong):
    with pytest.raises(InputError, match="needs a size, a seed and two rows"):
        kernel_errors(RandomBinning(), ROWS, **{"sizes": [8], **wrong})


@pytest.mark.parametrize("failure", [-1.0, 0.0, 1.0, np.nan])
def test_what_is_no_probability(failure):
    with pytest.raises(InputError, match="failure must be between 0 and 1"):
        kernel_errors(RandomBinning(), ROWS, [8], failure=failure)


def test_one_row_has_no_pairs():
    with pytest.raises(ValueError, match="minimum of 2"):
        kernel_errors(RandomBinning(), ROWS[:1], [8])


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.nan])
def test_no_penalty_no_dimension(alpha):
    with pytest.raises(InputError, match="alpha must be above 0"):
        kernel_effective_dimension(RandomBinning(bandwidth=1.0), ROWS, alpha)
