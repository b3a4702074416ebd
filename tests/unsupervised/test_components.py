"""KernelPCA: the components of the features, of old rows and new."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from gramless import ExactKernel, KernelPCA, RandomBinning, load, save
from gramless.base.errors import InputError


def rows(n=200, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_components_match_pca_of_the_features():
    for features in ["fourier", "nystrom", RandomBinning(n_grids=32)]:
        X, new = rows(100, 2), rows(40, 2, seed=1)
        pca = KernelPCA(3, features=features, tol=1e-8, random_state=0).fit(X)
        Z, Z_new = (np.asarray(pca.features_.feature_matrix(part).toarray()) for part in (X, new))
        reference = PCA(3, svd_solver="full").fit(Z)
        np.testing.assert_allclose(pca.singular_values_, reference.singular_values_, rtol=1e-8)
        np.testing.assert_allclose(
            pca.explained_variance_, reference.explained_variance_, rtol=1e-8
        )
        ratios = reference.explained_variance_ratio_
        np.testing.assert_allclose(pca.explained_variance_ratio_, ratios, rtol=1e-8)
        np.testing.assert_allclose(pca.mean_, Z.mean(axis=0), atol=1e-12)
        signs = np.sign((pca.components_ * reference.components_).sum(axis=1))
        np.testing.assert_allclose(
            pca.transform(new), reference.transform(Z_new) * signs, atol=1e-6
        )


def test_bandwidth_may_be_a_number_vector_or_rule():
    X = rows()
    given = KernelPCA(n_grids=8, bandwidth=3.0, random_state=0).fit(X)
    np.testing.assert_allclose(given.features_.bandwidth_, 3.0 * X.std(axis=0))
    assert KernelPCA(n_grids=8, bandwidth=[1.0, 2.0, 3.0]).fit(X).bandwidth_.tolist() == [1, 2, 3]
    given_map = KernelPCA(features=RandomBinning(bandwidth=0.7, n_grids=8)).fit(X)
    assert given_map.bandwidth_ == 0.7
    auto, median = (
        KernelPCA(n_grids=8, bandwidth=rule, random_state=0).fit(X) for rule in ("auto", "median")
    )
    assert auto.bandwidth_ == median.bandwidth_
    near = KernelPCA(n_grids=8, bandwidth="neighbors", random_state=0).fit(X)
    assert 0 < near.bandwidth_ < median.bandwidth_
    with pytest.raises(InputError, match="bandwidth"):
        KernelPCA(n_grids=8, bandwidth="wide").fit(X)


def test_first_component_separates_text_of_a_frame():
    rng = np.random.default_rng(0)
    kind = rng.choice(["cat", "dog"], 200)
    table = pd.DataFrame({"kind": kind, "weight": rng.normal(size=200)})
    table.loc[::7, "weight"] = np.nan
    pca = KernelPCA(2, n_grids=64, random_state=0).fit(table)
    first = pca.transform(table)[:, 0]
    assert abs(np.corrcoef(first, kind == "cat")[0, 1]) > 0.7


def test_sparse_rows_have_the_components_of_dense_ones():
    X = sp.csr_array(sp.random(100, 6, density=0.4, random_state=np.random.default_rng(0)))
    sparse, dense = (
        KernelPCA(n_grids=16, bandwidth=1.0, scaling="none", random_state=0).fit(part)
        for part in (X, X.toarray())
    )
    np.testing.assert_allclose(sparse.transform(X), dense.transform(X.toarray()), atol=1e-9)


def test_wide_sparse_rows_are_transformed():
    X = sp.csr_array(sp.random(60, 1500, density=0.001, random_state=np.random.default_rng(0)))
    pca = KernelPCA(n_grids=16, random_state=0).fit(X)
    assert pca.transform(X).shape == (60, 2)


def test_saved_model_transforms_the_same(tmp_path):
    X = rows()
    pca = KernelPCA(3, n_grids=16, random_state=0).fit(X)
    save(pca, tmp_path / "components")
    assert load(tmp_path / "components").transform(X).tobytes() == pca.transform(X).tobytes()


def test_components_beyond_the_rank_are_omitted():
    X = np.repeat([[0.0], [1.0], [2.0]], 10, axis=0)
    pca = KernelPCA(5, features=ExactKernel("gaussian", bandwidth=1.0), random_state=0).fit(X)
    assert pca.n_components_ == 2
    assert pca.transform(X).shape == (30, 2)


def test_unconverged_components_warn():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        KernelPCA(3, n_grids=16, tol=1e-12, max_iter=1, random_state=0).fit(rows())


def test_equal_rows_have_no_components():
    pca = KernelPCA(n_grids=8, random_state=0).fit(np.ones((20, 2)))
    assert pca.n_components_ == 0
    assert pca.transform(np.ones((3, 2))).shape == (3, 0)
