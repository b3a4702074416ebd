"""Inputs that are noise: correlations, groups on a line, and clusters among columns of noise."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score

from gramless import SpectralClustering, load, save
from gramless.base.errors import InputError
from gramless.unsupervised.clustering import (
    default_min_correlation,
    informative_inputs,
    variance_within_groups,
)


def moons_and_noise(n=1500, n_noise=6, seed=0):
    X, y = make_moons(n, noise=0.06, random_state=seed)
    noise = np.random.default_rng(seed).normal(size=(n, n_noise))
    return np.column_stack([X, noise]), y


def variance_left_literally(values, most):
    """Try every way to cut sorted values into groups."""
    x, shares = np.sort(values), []
    for k in range(2, most + 1):
        sums = [
            sum(((part - part.mean()) ** 2).sum() for part in np.split(x, cuts))
            for cuts in itertools.combinations(range(1, len(x)), k - 1)
        ]
        shares.append(k**2 * min(sums) / ((x - x.mean()) ** 2).sum())
    return min(shares)


@pytest.mark.parametrize("seed", range(3))
def test_variance_within_groups_matches_brute_force(monkeypatch, seed):
    module = "gramless.unsupervised.clustering"
    monkeypatch.setattr(f"{module}._TRIMMED", 0.0)
    monkeypatch.setattr(f"{module}._N_QUANTILES", 12)
    monkeypatch.setattr(f"{module}._MAX_GROUPS", 4)
    rng = np.random.default_rng(seed)
    values = rng.normal(size=12) + 4 * rng.integers(0, 3, 12)
    expected = variance_left_literally(values, 4)
    assert variance_within_groups(values) == pytest.approx(expected, rel=1e-9)


def test_variance_within_groups_is_small_only_for_groups():
    rng = np.random.default_rng(0)
    assert variance_within_groups(rng.random(100_000)) == pytest.approx(1.0, abs=0.02)
    for single in (rng.normal(size=2000), rng.exponential(size=2000), rng.standard_t(2, 2000)):
        assert variance_within_groups(single) > 1.1
    for k in (2, 4):
        assert variance_within_groups(rng.normal(size=2000) + 6 * rng.integers(0, k, 2000)) < 0.6
    assert variance_within_groups(np.ones(10)) == 1.0


def test_related_inputs_are_kept_and_noise_is_dropped():
    rng = np.random.default_rng(0)
    x, angle = rng.normal(size=2000), rng.uniform(0, 2 * np.pi, 2000)
    groups = rng.normal(size=2000) + 6 * rng.integers(0, 3, 2000)
    inputs = {
        "linear": [x, x + rng.normal(size=2000)],
        "circle": [np.cos(angle), np.sin(angle)],
        "groups": [groups],
        "noise": [rng.normal(size=2000), rng.random(2000), rng.standard_t(3, 2000)],
        "few values": [rng.integers(0, 5, 2000), rng.integers(0, 3, 2000)],
        "two values": [rng.random(2000) < 0.1, np.full(2000, 3.0)],
    }
    kinds = np.repeat(list(inputs), [len(columns) for columns in inputs.values()])
    result = informative_inputs(np.column_stack(list(itertools.chain(*inputs.values()))), 0.1)
    np.testing.assert_array_equal(result, ~np.isin(kinds, ["noise", "few values"]))


def test_noise_inputs_are_hardly_ever_kept():
    rng = np.random.default_rng(0)
    for n_rows in (200, 1000, 5000):
        rows = rng.normal(size=(n_rows, 20))
        rows[:, 1] += 3 * rows[:, 0]
        result = informative_inputs(rows, default_min_correlation(n_rows))
        assert result[:2].all()
        assert result[2:].sum() <= 1


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-150, 1.0, 1e150, 1e300]))
@pytest.mark.slow
def test_units_and_order_of_inputs_do_not_change_the_selection(seed, unit):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(300, 6)) + 3.0 * rng.integers(0, 2, (300, 1)) * [1, 1, 0, 0, 0, 0]
    expected, order = informative_inputs(rows, 0.25), rng.permutation(6)
    np.testing.assert_array_equal(informative_inputs(unit * rows[:, order], 0.25), expected[order])
    assert expected[:2].all()


def test_at_least_two_numeric_inputs_are_kept():
    # On a line a graph of few neighbours falls apart.
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(800, 3)), rng.integers(0, 3, 800)])
    assert informative_inputs(rows, 0.2).all()
    rows[:, 0] += 6 * rng.integers(0, 3, 800)
    assert informative_inputs(rows, 0.2).all()
    rows[:, 1] += 6 * rng.integers(0, 3, 800)
    np.testing.assert_array_equal(informative_inputs(rows, 0.2), [True, True, False, False])


def test_moons_are_separated_among_noise_columns(tmp_path):
    X, y = moons_and_noise()
    clusters = SpectralClustering(2, random_state=0).fit(X)
    assert clusters.ignored_columns_.tolist() == [2, 3, 4, 5, 6, 7]
    assert adjusted_rand_score(y, clusters.labels_) > 0.95
    new, y_new = moons_and_noise(500, seed=1)
    assert adjusted_rand_score(y_new, clusters.predict(new)) > 0.9
    moved = new + np.where(np.arange(8) < 2, 0.0, 1e6)
    np.testing.assert_array_equal(clusters.predict(moved), clusters.predict(new))
    save(clusters, tmp_path / "clusters")
    np.testing.assert_array_equal(load(tmp_path / "clusters").predict(new), clusters.predict(new))
    plain = SpectralClustering(2, min_correlation=0, random_state=0).fit(X)
    assert len(plain.ignored_columns_) == 0
    assert adjusted_rand_score(y, plain.labels_) < 0.8


def test_sparse_rows_ignore_the_same_columns():
    X, _ = moons_and_noise(400)
    dense, sparse = (
        SpectralClustering(2, random_state=0).fit(rows) for rows in (X, sp.csr_array(X))
    )
    np.testing.assert_array_equal(dense.ignored_columns_, sparse.ignored_columns_)


def test_ignored_columns_are_frame_positions_and_never_categories():
    X, _ = moons_and_noise(600, n_noise=2)
    kind = np.random.default_rng(0).choice(["a", "b"], 600)
    table = pd.DataFrame({"kind": kind, "first": X[:, 2], "x": X[:, 0], "y": X[:, 1]})
    table.insert(1, "late", X[:, 3])
    table.loc[5, ["first", "x"]] = np.nan
    clusters = SpectralClustering(2, random_state=0).fit(table)
    assert clusters.ignored_columns_.tolist() == [1, 2]


def test_kernel_features_ignore_inputs_only_if_min_correlation_is_given():
    X, _ = make_blobs(500, 2, centers=[[0, 0], [6, 6]], random_state=0)
    X = np.column_stack([X, np.random.default_rng(0).normal(size=(500, 3))])
    plain, selective = (
        SpectralClustering(2, features="binning", min_correlation=least, random_state=0).fit(X)
        for least in ("auto", 0.3)
    )
    assert len(plain.ignored_columns_) == 0
    assert selective.ignored_columns_.tolist() == [2, 3, 4]
    with pytest.raises(InputError, match="min_correlation must be a finite number"):
        SpectralClustering(2, min_correlation=1.5).fit(X)


@pytest.mark.slow
def test_correlations_use_a_sample_of_rows(monkeypatch):
    monkeypatch.setattr("gramless.unsupervised.clustering._CORRELATION_ROWS", 400)
    X, _ = moons_and_noise()
    some = SpectralClustering(2, random_state=0).fit(X)
    assert some.ignored_columns_.tolist() == [2, 3, 4, 5, 6, 7]
    monkeypatch.setattr("gramless.unsupervised.clustering._MAX_CORRELATED_INPUTS", 7)
    assert len(SpectralClustering(2, random_state=0).fit(X).ignored_columns_) == 0
