"""``sparse_output=False``: the same features as an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gramless import GrownBinning, Hybrid, RandomBinning, RandomFourier, SmoothBinning
from gramless.base.errors import InputError
from gramless.base.memory import limit_fit_memory

X = np.random.default_rng(0).normal(size=(40, 3))
Y = X[:, 0]
MAPS = [
    RandomBinning(n_grids=8, random_state=0),
    SmoothBinning(n_grids=8, random_state=0),
    GrownBinning(n_grids=12, random_state=0),
    Hybrid([RandomBinning(n_grids=8), RandomFourier(n_components=8)], random_state=0),
]


@pytest.mark.parametrize("feature_map", MAPS, ids=lambda feature_map: type(feature_map).__name__)
def test_dense_output_equals_sparse_output(feature_map: Any) -> None:
    sparse = feature_map.fit(X, Y).transform(X)
    dense = feature_map.set_params(sparse_output=False).fit_transform(X, Y)
    assert isinstance(dense, np.ndarray)
    np.testing.assert_array_equal(dense, sparse.toarray())
    np.testing.assert_array_equal(feature_map.transform(X), dense)


@pytest.mark.parametrize("feature_map", MAPS, ids=lambda feature_map: type(feature_map).__name__)
def test_set_output_returns_data_frames(feature_map: Any) -> None:
    pytest.importorskip("pandas")
    feature_map = feature_map.set_params(sparse_output=False)
    pipe = make_pipeline(StandardScaler(), feature_map).set_output(transform="pandas")
    frame = pipe.fit_transform(X, Y)
    assert list(frame.columns) == list(pipe.get_feature_names_out())
    np.testing.assert_array_equal(frame.to_numpy(), feature_map.transform(pipe[0].transform(X)))


def test_dense_output_beyond_memory_is_rejected() -> None:
    feature_map = RandomBinning(n_grids=64, sparse_output=False, random_state=0).fit(X)
    with limit_fit_memory(2000), pytest.raises(InputError, match="sparse_output=True"):
        feature_map.transform(X)
