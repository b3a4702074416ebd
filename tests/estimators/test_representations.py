"""Fitted parts are shown on one short line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gramless import (
    AnomalyDetector,
    GrownBinning,
    Hybrid,
    KernelClassifier,
    KernelPCA,
    KernelRegressor,
    KernelSurvival,
    RandomBinning,
    RandomFourier,
    SpectralClustering,
)
from gramless.base.state import Stateful

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"age": RNG.normal(size=120), "pet": RNG.choice(["cat", "dog"], 120)})
TABLE.loc[3, "age"] = np.nan
WIDE = RNG.normal(size=(120, 60))
Y = RNG.normal(size=120)
MODELS: list[Any] = [
    KernelRegressor(random_state=0).fit(TABLE, Y),
    KernelRegressor(effort=1, grids="grown", random_state=0).fit(WIDE, Y),
    KernelRegressor(RandomFourier(n_components=64), n_posterior=2, random_state=0).fit(WIDE, Y),
    KernelClassifier(effort=1, random_state=0).fit(TABLE, Y > 0),
    KernelSurvival(effort=1, random_state=0).fit(TABLE, np.exp(Y)),
    AnomalyDetector(random_state=0).fit(TABLE),
    KernelPCA(2, random_state=0).fit(TABLE),
    SpectralClustering(2, random_state=0).fit(TABLE),
    GrownBinning(n_grids=12, random_state=0).fit(WIDE, Y),
]


def test_fitted_parts_have_a_one_line_repr() -> None:
    for model in MODELS:
        parts = {name: part for name, part in vars(model).items() if isinstance(part, Stateful)}
        assert parts
        for name, part in parts.items():
            shown = repr(part)
            assert shown.startswith(type(part).__name__ + "("), name
            assert "\n" not in shown, name
            assert "0x" not in shown, name
            assert len(shown) <= 700, name


def test_encoder_repr_names_its_columns() -> None:
    assert repr(MODELS[0].encoder_) == "TableEncoder(2 columns: 'age', 'pet')"


def test_repr_of_grown_grids_counts_features() -> None:
    model = MODELS[1]
    assert repr(model.features_) == f"GivenBinning({len(model.weights_):,} features of 120 inputs)"


def test_repr_of_public_maps_shows_parameters() -> None:
    assert repr(RandomBinning(n_grids=8).fit(WIDE)) == "RandomBinning(n_grids=8)"
    assert repr(Hybrid([RandomFourier()])) == "Hybrid(maps=[RandomFourier()])"
    assert "\n" not in repr(RandomBinning(bandwidth=np.arange(1.0, 100.0)))
