"""Independence tests: shifts against literal permutations, validity, what tables may hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from gramless import RandomBinning, independence_test
from gramless.base.errors import InputError
from gramless.unsupervised import independence
from gramless.unsupervised.encoded_tables import EncodedTable
from gramless.unsupervised.independence import _of_few_rows, _of_many_rows, _orders, _Side

QUICK = {"n_permutations": 99, "random_state": 0}


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    return rng.normal(size=(203, 2)), rng.normal(size=(203, 3))


def sides(tables, features):
    parts = (EncodedTable.of(part, "auto", "a test") for part in tables)
    return [
        _Side.of(part, features, bandwidth, "auto", seed, None)
        for seed, (part, bandwidth) in enumerate(zip(parts, ("auto", "median"), strict=True))
    ]


@pytest.mark.parametrize("features", ["fourier", RandomBinning(n_grids=20)])
@pytest.mark.parametrize("is_few", [True, False])
def test_criteria_of_shifts_are_those_of_moved_rows(tables, features, is_few, monkeypatch) -> None:
    n_rows = len(tables[0])
    if not is_few:
        monkeypatch.setattr(independence, "_FEW_ROWS", 10)
        monkeypatch.setattr(independence, "_MOST_BLOCKS", 50)
        monkeypatch.setattr(independence, "_CHUNK_ROWS", 100)
    n_blocks = n_rows if is_few else 50
    first, second = sides(tables, features)
    orders = _orders(n_rows, 2 * n_blocks - 1, seed=0)
    assert len(orders) == 2
    found = (_of_few_rows if is_few else _of_many_rows)(first, second, orders, None)
    for (one, other), criteria, shift in zip(orders, found, (3, 0), strict=True):
        assert criteria.shape == (4, n_blocks)
        moved, whole = other.copy(), n_rows // n_blocks * n_blocks
        blocks = other[:whole].reshape(-1, n_blocks)
        moved[:whole] = np.roll(blocks, -shift, axis=1).ravel()
        A, B = (side.features(rows) for side, rows in ((first, one), (second, moved)))
        covariance = (A - A.mean(axis=0)).T @ (B - B.mean(axis=0)) / n_rows
        ends = zip(first.ends[:-1], first.ends[1:], strict=True)
        literal = [(covariance[a:b] ** 2).sum() for a, b in ends]
        np.testing.assert_allclose(criteria[:, shift], literal, rtol=1e-9)


@pytest.mark.parametrize("features", ["fourier", RandomBinning(n_grids=300)])
def test_bandwidths_share_the_features_of_a_table(features) -> None:
    X = np.random.default_rng(0).normal(size=(1001, 2))
    several, one = sides((X, X), features)
    assert np.diff(several.ends).tolist() == [64, 64, 64, 64]
    assert np.diff(one.ends).tolist() == [256]
    few, _ = sides((X[:1000], X[:1000]), features)
    assert np.diff(few.ends).tolist() == [256, 256, 256, 256]


def test_the_first_round_begins_with_the_rows_as_they_are(tables) -> None:
    orders = _orders(203, 499, seed=0)
    assert len(orders) == 3
    np.testing.assert_array_equal(*orders[0])
    assert (orders[1][0] != orders[1][1]).any()
    first, second = sides(tables, "fourier")
    found = independence_test(*tables, y_bandwidth="median", random_state=0)
    A, B = (side.features(np.arange(203)) for side in (first, second))
    covariance = (A - A.mean(axis=0)).T @ (B - B.mean(axis=0)) / 203
    literal = [
        (covariance[a:b] ** 2).sum() for a, b in zip(first.ends, first.ends[1:], strict=False)
    ]
    np.testing.assert_allclose(found.hsic[:, 0], literal, rtol=1e-6)
    assert found.n_permutations == 3 * 203 - 1


@pytest.mark.parametrize("n_rows", [150, 1200])
def test_dependence_is_found_and_its_absence(n_rows) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_rows, 2))
    noise = rng.normal(size=n_rows)
    assert independence_test(X, noise, **QUICK).p_value > 0.05
    assert independence_test(X, np.abs(X[:, 0]) + 0.3 * noise, **QUICK).p_value <= 0.01


def test_labels_frames_and_gaps() -> None:
    rng = np.random.default_rng(2)
    size = rng.normal(size=200)
    labels = np.where(size + rng.normal(size=200) > 0, "large", "small")
    X = pd.DataFrame({"size": size, "other": rng.normal(size=200)})
    frame = pd.DataFrame({"label": labels})
    for Y in (labels, labels == "large", frame, labels.tolist()):
        assert independence_test(X, Y, **QUICK).p_value <= 0.01
    X.loc[size > 1, "size"] = np.nan
    assert independence_test(X[["size"]], size > 1, **QUICK).p_value <= 0.01
    assert independence_test(X[["other"]], labels, **QUICK).p_value > 0.05


def test_same_bits_for_any_number_of_threads(tables) -> None:
    one, two = (independence_test(*tables, n_jobs=n, **QUICK) for n in (1, 2))
    assert one.p_value == two.p_value
    np.testing.assert_array_equal(one.hsic, two.hsic)


def test_constants_are_independent_of_all() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    assert independence_test(X, np.ones(30), **QUICK).p_value == 1.0


@pytest.mark.parametrize(
    ("first", "second", "options", "told"),
    [
        (np.ones((9, 2)), np.ones((8, 3)), {}, "9 and 8 rows"),
        (np.ones((2, 2)), np.ones((2, 3)), {}, "at least 4"),
        (np.ones((9, 2)), np.ones(9), {"n_permutations": 1.5}, "at least 19"),
        (np.ones((9, 2)), np.ones(9), {"x_bandwidth": "wide"}, "bandwidth must be"),
        (np.ones((9, 2)), np.full(9, np.inf), {}, "infinity"),
        (np.ones((9, 2)), 3.0, {}, "rows and columns"),
    ],
)
def test_bad_input_is_refused(first, second, options, told) -> None:
    with pytest.raises(InputError, match=told):
        independence_test(first, second, **options)


@pytest.mark.slow
def test_level_holds() -> None:
    """400 null draws: rejections within the binomial distribution at 5 %."""
    alarms = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        X, Y = np.exp(rng.normal(size=(103, 2))), rng.standard_t(2, size=(103, 1))
        alarms += independence_test(X, Y, n_permutations=99, random_state=seed).p_value <= 0.05
    low, high = binom.ppf([0.0005, 0.9995], 400, 0.05)
    assert low <= alarms <= high
