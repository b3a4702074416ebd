"""FeatureDecomposition: the singular vectors of features, as they are or normalised."""

from __future__ import annotations

import numpy as np
import pytest

from gramless import FeatureDecomposition, RandomBinning, load, save
from gramless.base.errors import InputError


def rows(n=150, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


def normalised(Z, kind, weights):
    if kind == "centered":
        Z = Z - weights @ Z / weights.sum()
    if kind == "degree":
        Z = Z / np.sqrt(Z @ (weights @ Z))[:, None]
    return Z


@pytest.mark.parametrize(
    ("kind", "weighted"),
    [("none", True), ("centered", False), ("centered", True), ("degree", True)],
)
def test_singular_vectors_match_the_normalised_features(kind, weighted):
    X = rows()
    weights = np.random.default_rng(1).integers(0, 3, len(X)) * 1.0 if weighted else np.ones(150)
    svd = FeatureDecomposition(
        3, features=RandomBinning(n_grids=32), normalization=kind, tol=1e-8, random_state=0
    ).fit(X, sample_weight=weights if weighted else None)
    weights = weights / weights[weights > 0].mean()
    Z = normalised(svd.features_.feature_matrix(X).toarray(), kind, weights)
    values = np.linalg.svd(np.sqrt(weights)[:, None] * Z, compute_uv=False)
    np.testing.assert_allclose(svd.singular_values_, values[:3], rtol=1e-10)
    np.testing.assert_allclose(svd.transform(X), Z @ svd.components_.T, atol=1e-10)
    assert svd.residuals_.max() < 1e-8


def test_row_without_similarities_is_at_the_origin():
    svd = FeatureDecomposition(2, n_grids=8, normalization="degree", random_state=0).fit(rows())
    np.testing.assert_array_equal(svd.transform([[1e6, 1e6, 1e6]]), [[0.0, 0.0]])


def test_saved_model_transforms_the_same(tmp_path):
    X = rows()
    svd = FeatureDecomposition(2, n_grids=8, normalization="degree", random_state=0).fit(X)
    save(svd, tmp_path / "svd")
    loaded = load(tmp_path / "svd")
    assert loaded.transform(X).tobytes() == svd.transform(X).tobytes()
    names = ["featuredecomposition0", "featuredecomposition1"]
    assert loaded.get_feature_names_out().tolist() == names


def test_unknown_normalisations_are_rejected():
    with pytest.raises(InputError, match="'centered'"):
        FeatureDecomposition(normalization="l2").fit(rows())
