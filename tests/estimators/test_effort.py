"""How thoroughly grids are grown: checked, kept in files, and what it changes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gramless import KernelClassifier, KernelRegressor, load, save
from gramless.base.errors import InputError
from gramless.features.hybrid import JoinedMaps, parts_of
from gramless.selection.config import EFFORTS

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(1500, 3))
Y = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.05 * RNG.normal(size=1500)


def test_effort_must_be_an_integer_from_1_to_5() -> None:
    for effort in (0, 6, -1, 2.5, 3.0, np.nan, "3", None, True, False, [3]):
        for kind in (KernelRegressor, KernelClassifier):
            with pytest.raises(InputError, match="effort must be an integer, at least 1 and at m"):
                kind(effort=effort).fit(X[:20], Y[:20] > 0)


def test_saved_model_keeps_effort(tmp_path: Path) -> None:
    save(KernelRegressor(effort=np.int64(1), random_state=0).fit(X, Y), tmp_path / "model")
    assert load(tmp_path / "model").effort == 1


def test_more_effort_grows_more_grids() -> None:
    sizes = []
    for effort in (1, 2):
        # Steps are for grids, not for kernel ridge regression.
        model = KernelRegressor(effort=effort, random_state=0).fit(X, Y + np.floor(2 * X[:, 2]))
        assert model.growth_[-1]["n_grids"] <= EFFORTS[effort].most_grids
        sizes.append(len(parts_of(model.features_)[0].n_bins_))
    assert sizes[0] == EFFORTS[1].most_grids < sizes[1]


@pytest.fixture(scope="module")
def joined() -> Any:
    """Return a model whose smooth truth asks for smooth kernels beside the grids."""
    model = KernelRegressor(effort=2, n_grids=40, n_posterior=20, random_state=0).fit(X, Y)
    assert isinstance(model.features_, JoinedMaps)
    return model


def test_saved_joined_maps_predict_the_same(joined: Any, tmp_path: Path) -> None:
    save(joined, tmp_path / "model")
    loaded = load(tmp_path / "model")
    for result, expected in zip(
        (*loaded.predict(X, return_std=True), *loaded.predict_interval(X)),
        (*joined.predict(X, return_std=True), *joined.predict_interval(X)),
        strict=True,
    ):
        np.testing.assert_array_equal(result, expected)
    with pytest.raises(InputError, match="2 features"):
        loaded.predict(X[:, :2])


def test_pickled_and_copied_joined_maps_predict_the_same(joined: Any) -> None:
    for again in (pickle.loads(pickle.dumps(joined)), copy.deepcopy(joined)):
        np.testing.assert_array_equal(again.predict(X), joined.predict(X))


def test_standard_deviation_of_joined_maps_grows_away_from_the_rows(joined: Any) -> None:
    mean, std = joined.predict(np.concatenate([X[:200], X[:200] + 3.0]), return_std=True)
    assert std[:200].mean() < 0.5 * std[200:].mean()
    assert np.abs(mean[:200] - Y[:200]).mean() < 0.1


def test_solvers_that_need_bins_get_no_joined_maps() -> None:
    for options in [{"solver": "gmres"}, {"l1_ratio": 1.0, "grids": "grown"}]:
        model = KernelRegressor(effort=2, n_grids=12, random_state=0, **options).fit(X, Y)
        assert not isinstance(model.features_, JoinedMaps)
