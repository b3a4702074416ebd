"""What every registered feature map promises: the registry is the list of what is tested."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from gramless import ExactKernel, Hybrid, Nystrom, RandomBinning, RandomFourier, SmoothBinning
from gramless.base.errors import InputError
from gramless.features.base import SizedMap
from gramless.features.registry import FEATURE_MAPS, map_class
from gramless.matrices.base import FeatureMatrix

X = np.random.default_rng(0).normal(size=(60, 2))


@pytest.fixture(params=FEATURE_MAPS)
def feature_map(request: pytest.FixtureRequest) -> SizedMap:
    return map_class(request.param)(bandwidth=2.0, random_state=0)


def dense(features: object) -> NDArray[np.float64]:
    if isinstance(features, FeatureMatrix):
        features = features.tocsr()
    return features.toarray() if sp.issparse(features) else np.asarray(features)


def test_fit_matrix_equals_transform(feature_map: SizedMap) -> None:
    learned = feature_map.fit_matrix(X)
    Z = dense(feature_map.transform(X))
    assert Z.shape == learned.shape == (60, feature_map.n_features_out)
    assert len(feature_map.get_feature_names_out()) == Z.shape[1]
    assert 0 < feature_map.numbers_per_row <= Z.shape[1]
    for matrix in (learned, feature_map.feature_matrix(X), feature_map.rows_matrix(X)):
        np.testing.assert_allclose(dense(matrix), Z, atol=2e-3)


def test_inner_products_approximate_the_kernel(feature_map: SizedMap) -> None:
    Z = dense(feature_map.fit_transform(X))
    exact = feature_map.check_parameters().gram(X, bandwidth=2.0)
    assert np.abs(Z @ Z.T - exact).mean() < 0.08


def test_number_of_threads_does_not_change_features(feature_map: SizedMap) -> None:
    one, two = (clone(feature_map).set_params(n_jobs=n).fit(X) for n in (1, 2))
    np.testing.assert_array_equal(dense(one.transform(X)), dense(two.transform(X)))


def test_sizes_are_checked_and_can_be_changed(feature_map: SizedMap) -> None:
    assert feature_map.resized(8).size == 8
    assert feature_map.sketch(8).size <= 8
    assert feature_map.enough_to_search > 0
    assert feature_map.bytes_to_fit(60, 2) > 0
    with pytest.raises(InputError, match=feature_map.size_name):
        feature_map.set_params(**{feature_map.size_name: 0}).check_parameters()


def test_invalid_use_is_rejected(feature_map: SizedMap) -> None:
    with pytest.raises(NotFittedError, match="fit it first"):
        feature_map.transform(X)
    with pytest.raises(InputError):
        feature_map.fit(np.full((9, 2), np.nan))
    feature_map.fit(X)
    with pytest.raises(InputError, match="features"):
        feature_map.transform(X[:, :1])
    with pytest.raises(InputError, match="inputs"):
        feature_map.rows_matrix(X[:, :1])


def test_unknown_names_are_rejected() -> None:
    with pytest.raises(InputError, match="unknown features 'waves'"):
        map_class("waves")


def test_removed_name_suggests_an_alternative() -> None:
    with pytest.raises(InputError, match=r"'blocks' left .*0\.2\.0.*studies/baselines/blocks\.py"):
        map_class("blocks")


@pytest.mark.parametrize(
    "checked",
    [
        RandomBinning(n_grids=4),
        SmoothBinning(n_grids=4),
        RandomFourier(n_components=8),
        Nystrom("matern", n_components=8),
        ExactKernel(),
        Hybrid([("bins", RandomBinning(n_grids=4)), ("waves", RandomFourier(n_components=4))]),
        *(
            pytest.param(other, marks=pytest.mark.slow)
            for other in (
                RandomFourier(n_components=1),
                RandomFourier(
                    "matern", n_components=9, map="shifted", sampling="structured", bandwidth=1.0
                ),
                Nystrom(n_components=8, landmarks="kmeans"),
                Nystrom(n_components=8, landmarks="leverage"),
            )
        ),
    ],
    ids=str,
)
def test_maps_pass_scikit_learn_checks(checked: SizedMap) -> None:
    check_estimator(checked)
