"""Model files with valid checksums and inconsistent parts raise an error before any loop runs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import (
    ExactKernel,
    Hybrid,
    KernelClassifier,
    KernelRegressor,
    Nystrom,
    RandomBinning,
    RandomFourier,
    SmoothBinning,
    load,
)
from gramless.base.errors import InputError, ModelFileError
from gramless.estimators.persistence import pack, write
from gramless.features.hybrid import JoinedMaps

Tensors = dict[str, NDArray[Any]]
Content = dict[str, Any]

X = np.random.default_rng(0).normal(size=(60, 4))
Y = X[:, 0] + X[:, 1] ** 2
BINS = RandomBinning(n_grids=6, random_state=0)
MAPS: dict[str, Any] = {
    "bins": BINS,
    "smooth": SmoothBinning(n_grids=6, random_state=0),
    "fourier": RandomFourier(n_components=8, random_state=0),
    "shifted": RandomFourier(n_components=9, map="shifted", random_state=0),
    "structured": RandomFourier(n_components=8, sampling="structured", random_state=0),
    "nystrom": Nystrom(n_components=10, random_state=0),
    "precomputed": Nystrom("precomputed", n_components=10, random_state=0),
    "exact": ExactKernel(),
    "hybrid": Hybrid([BINS, Nystrom(n_components=10)], random_state=0),
}


@cache
def fitted(kind: str) -> Any:
    given = {"bandwidth": 2.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}
    if kind == "regressor":
        return KernelRegressor(BINS, calibrate=True, n_posterior=3, **given).fit(X, Y)
    if kind == "classifier":
        return KernelClassifier(BINS, calibrate=True, **given).fit(X, np.digitize(Y, [0.3, 1.2]))
    if kind == "ordered":
        return KernelClassifier(BINS, loss="cumulative", **given).fit(X, np.digitize(Y, [0.3, 1.2]))
    if kind == "quantiles":
        return KernelRegressor(BINS, loss="quantile", quantile=[0.1, 0.9], **given).fit(X, Y)
    if kind == "grown":
        rows = np.random.default_rng(5).normal(size=(800, 4))
        model = KernelRegressor(grids="grown", effort=2, solver="cg", random_state=0)
        return model.fit(np.tile(rows, 5), np.sin(2 * rows[:, 0]) + rows[:, 1] * rows[:, 2])
    if kind == "in an estimator":
        return KernelRegressor(Hybrid([BINS, MAPS["fourier"]]), **given).fit(X, Y)
    if kind == "joined":
        return JoinedMaps.of([fitted("bins"), fitted("nystrom")], [1.0, 2.0])
    return MAPS[kind].fit(X @ X.T if kind == "precomputed" else X)


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return what writes a changed model with checksums that fit; short arrays are plain."""
    monkeypatch.setattr("gramless.base.state._MIN_NUMBERS", 1024)

    def forged(kind: str, change: Callable[[Content, Tensors], Any]) -> Path:
        content, tensors = pack(fitted(kind))
        content = json.loads(json.dumps(content))
        change(content["state"], tensors)
        write(tmp_path / "model", content, tensors)
        return tmp_path / "model"

    return forged


def test_unchanged_content_loads(forge: Callable[..., Path]) -> None:
    for kind in [*MAPS, "joined", "regressor", "classifier", "grown", "in an estimator"]:
        model = load(forge(kind, lambda state, tensors: None))
        rows = {"precomputed": X @ X.T, "grown": np.tile(X, 5)}.get(kind, X)
        for name in ("predict", "transform"):
            if hasattr(model, name):
                result, expected = (getattr(each, name)(rows) for each in (model, fitted(kind)))
                assert np.abs(result - expected).max() == 0


def put(*path: Any) -> Callable[[Content, Tensors], None]:
    """Return a change that puts the last of ``path`` at the place named by the others."""

    def change(state: Any, tensors: Tensors) -> None:
        for key in path[:-2]:
            state = state[key]
        state[path[-2]] = path[-1]

    return change


def array(name: str, change: Callable[[Any], Any]) -> Callable[[Content, Tensors], None]:
    """Return a change of one array."""
    return lambda state, tensors: tensors.update({name: np.array(change(tensors[name].copy()))})


def positions_of(
    name: str, n_planes: int, change: Callable[[Any], Any]
) -> Callable[[Content, Tensors], None]:
    """Return a change of the numbers of one deflated array of float64."""

    def of_numbers(data: Any) -> Any:
        planes = np.frombuffer(zlib.decompress(data.tobytes()), np.uint8).reshape(n_planes, -1)
        numbers = change(planes.T.flatten().view("<f8"))
        planes = numbers.view(np.uint8).reshape(-1, n_planes).T
        return np.frombuffer(zlib.compress(planes.tobytes()), np.uint8)

    return array(f"{name}.data", of_numbers)


def set_at(place: Any, value: Any) -> Callable[[Any], Any]:
    """Return a change of one number of an array."""

    def change(numbers: Any) -> Any:
        numbers[place] = value
        return numbers

    return change


def wider_part(state: Content, tensors: Tensors) -> None:
    """Give the bins of a hybrid one input more than the hybrid has."""
    for name in ("widths_", "shifts_", "multipliers"):
        tensors[f"maps_.0.{name}"] = np.repeat(tensors[f"maps_.0.{name}"], [1, 1, 1, 2], axis=1)
    bandwidth = np.ones(5)
    state["maps_"][0]["model"]["state"]["bandwidth_"] = {"tensor": "maps_.0.bandwidth_"}
    tensors["maps_.0.bandwidth_"] = bandwidth


GRIDS = "features_", "model", "state"

THRESHOLDS = ("loss_", "fields", "thresholds")
HOSTILE: dict[str, tuple[str, Callable[[Content, Tensors], Any]]] = {
    "repeated key": ("bins", array("keys", lambda keys: keys[np.arange(len(keys)) // 2])),
    "keys all equal": ("bins", array("keys", lambda keys: keys * 0)),
    "part wider than a hybrid": ("hybrid", wider_part),
    "hybrid of another width": ("hybrid", array("bandwidth_", lambda b: np.append(b, 1.0))),
    "hybrid without scales": ("hybrid", put("scales_", None)),
    "scales too few": ("hybrid", array("scales_", lambda scales: scales[:1])),
    "no parts": ("hybrid", put("maps_", [])),
    "part unfitted": ("hybrid", put("maps_", 1, "model", "state", None)),
    "part no map": ("hybrid", put("maps_", 1, 3)),
    "joined map wider than the others": ("joined", wider_part),
    "joined maps of another width": ("joined", put("n_features_in_", 5)),
    "joined maps without scales": ("joined", put("scales_", None)),
    "a scale of a joined map is 0": ("joined", array("scales_", set_at(0, 0.0))),
    "no joined maps": ("joined", put("maps_", [])),
    "joined map unfitted": ("joined", put("maps_", 1, "model", "state", None)),
    "joined map no map": ("joined", put("maps_", 1, 3)),
    "no kernel of smooth bins": ("smooth", put("kernel_", None)),
    "bandwidth of half precision": ("fourier", array("bandwidth_", lambda b: b.astype("f2"))),
    "bandwidth a column": ("fourier", array("bandwidth_", lambda b: b[:, None])),
    "center a column": ("fourier", array("center_", lambda c: c[:, None])),
    "center of half precision": ("fourier", array("center_", lambda c: c.astype("f2"))),
    "center short": ("fourier", array("center_", lambda c: c[:-1])),
    "spreads nan": ("fourier", array("spreads_", set_at(0, np.nan))),
    "frequencies wide": ("fourier", array("unit_frequencies_", lambda f: np.c_[f, f])),
    "no frequencies": ("fourier", put("unit_frequencies_", None)),
    "seed of categories": ("fourier", put("seed_", -1)),
    "phases short": ("shifted", array("phases_", lambda p: p[:-1])),
    "phases a column": ("shifted", array("phases_", lambda p: p[:, None])),
    "orders repeated": ("structured", array("blocks_.orders", lambda o: o * 0)),
    "orders of another type": ("structured", array("blocks_.orders", lambda o: o.astype("i8"))),
    "signs of half precision": ("structured", array("blocks_.signs", lambda s: s.astype("f2"))),
    "landmarks wide": ("nystrom", array("landmarks_", lambda a: np.c_[a, a])),
    "landmarks nan": ("nystrom", array("landmarks_", set_at((0, 0), np.nan))),
    "factor singular": ("nystrom", array("factor_", set_at((1, 1), 0.0))),
    "factor of half precision": ("nystrom", array("factor_", lambda f: f.astype("f2"))),
    "factor flat": ("nystrom", array("factor_", lambda f: f.ravel())),
    "doubles": ("nystrom", put("n_double_", 11)),
    "columns that are none": ("precomputed", array("landmarks_", set_at(0, 60))),
    "column below 0": ("precomputed", array("landmarks_", set_at(0, -1))),
    "rows short": ("exact", array("landmarks_", lambda a: a[:-1])),
    "one array in two places": ("regressor", put("bandwidth_", {"tensor": "weights_"})),
    "coef nan": ("regressor", array("weights_", set_at(0, np.nan))),
    "errors missing": ("regressor", lambda state, tensors: state.pop("errors_")),
    "errors of a column": ("regressor", array("errors_.scores", lambda s: s[:, None])),
    "background wide": ("regressor", array("background_", lambda b: np.c_[b, b])),
    "background nan": ("regressor", array("background_", set_at((0, 0), np.nan))),
    "draws infinite": ("regressor", array("posterior_.draws", set_at((0, 0), np.inf))),
    "fill nan": ("regressor", array("inputs_.gaps.fill", set_at(0, np.nan))),
    "calibration of others": ("classifier", put("calibration_", "fields", "n_responses", 2)),
    "knots short": ("classifier", array("calibration_.knots", lambda k: k[:-1])),
    "long labels": ("classifier", put("search_", {"text": ["x" * 9000] * 600, "object": False})),
    "many models": (
        "classifier",
        put("search_", [{"model": {"class": "Hybrid", "params": {}}}] * 10_001),
    ),
    "weights of another form": ("grown", put("weights_", "array", "HighBytes")),
    "form unknown": ("grown", put("weights_", "array", "Zipped")),
    "form without fields": ("grown", put("weights_", "fields", {})),
    "form with other fields": ("grown", put("weights_", "fields", "more", 1)),
    "data of text": ("grown", put("weights_", "fields", "data", "x")),
    "numbers of another kind": ("grown", put("weights_", "fields", "dtype", "int64")),
    "numbers in more planes": ("grown", put("weights_", "fields", "n_planes", 16)),
    "numbers of no kind": ("grown", put("weights_", "fields", "dtype", "object")),
    "weights in double": ("grown", array("weights_.data", lambda c: c.astype("f8"))),
    "weights infinite": ("grown", positions_of("weights_", 8, set_at(0, np.inf))),
    "weights short": ("grown", array("weights_.data", lambda c: c[:-1])),
    "weights not deflated": ("grown", array("weights_.data", lambda c: c[::-1])),
    "boxes too few": ("grown", array("features_.cells.lowest", lambda c: c[:-1])),
    "boxes of no length": ("grown", array("features_.cells.lengths", lambda c: -c)),
    "runs of other lengths": ("grown", array("features_.cells.runs", lambda c: c[::-1])),
    "runs of reals": ("grown", array("features_.cells.runs", lambda c: c.astype("f8"))),
    "one cell for all": ("grown", array("features_.cells.lengths", lambda c: c * 0 + 1)),
    "no cells": ("grown", put(*GRIDS[:1], "model", "state", "cells", None)),
    "widths too few": ("grown", positions_of("features_.widths_", 1, lambda w: w[:-1])),
    "widths of 0": ("grown", positions_of("features_.widths_", 1, set_at(0, 0.0))),
    "widths nan": ("grown", positions_of("features_.widths_", 1, set_at(0, np.nan))),
    "widths of another shape": (
        "grown",
        put(*GRIDS, "widths_", "fields", "shape", {"tuple": [12, 3]}),
    ),
    "widths of a large shape": (
        "grown",
        put(*GRIDS, "widths_", "fields", "shape", {"tuple": [1 << 30, 1 << 30]}),
    ),
    "widths of no shape": ("grown", put(*GRIDS, "widths_", "fields", "shape", 3)),
    "weight too large": ("regressor", array("weights_", set_at(0, 1e301))),
    "intercept too large": ("regressor", put("intercept_", 1.7e308)),
    "intercept nan": ("regressor", put("intercept_", {"float": "nan"})),
    "spreads too large": ("fourier", array("spreads_", lambda s: s * 0 + 1e301)),
    "factors too large": ("structured", array("blocks_.factors", lambda f: f * 0 + 1e200)),
    "spreads too large for angles": ("fourier", array("spreads_", lambda s: s * 0 + 1e299)),
    "limits nan": ("quantiles", array("lower_limit_", lambda limit: limit * np.nan)),
    "threshold of nothing": ("ordered", put(*THRESHOLDS, {"tuple": [None, 1.0]})),
    "thresholds falling": ("ordered", put(*THRESHOLDS, {"tuple": [2.0, 1.0]})),
    "checksum of the data": ("grown", array("weights_.data", set_at(-1, 77))),
    "phases too large": ("shifted", array("phases_", set_at(0, -1e301))),
    "landmarks too large": ("nystrom", array("landmarks_", set_at((0, 0), -1e308))),
    "factor too large": ("nystrom", array("factor_", set_at((0, 0), 1e307))),
    "masses too large": ("regressor", array("errors_.masses", set_at(-1, 1e308))),
    "fill too large": ("regressor", array("inputs_.gaps.fill", set_at(0, 1e305))),
    "floor": ("classifier", put("calibration_", "fields", "floor", 0.0)),
    "no calibration": ("classifier", lambda state, tensors: state.pop("calibration_")),
}


def test_inconsistent_parts_are_rejected(forge: Callable[..., Path]) -> None:
    for case in HOSTILE:
        kind, change = HOSTILE[case]
        with pytest.raises(ModelFileError) as caught:
            load(forge(kind, change))
        assert "has no place" not in str(caught.value)


def test_bins_without_n_features_in_check_new_rows(forge: Callable[..., Path]) -> None:
    model = load(forge("bins", lambda state, tensors: state.pop("n_features_in_")))
    assert abs(model.transform(X) - fitted("bins").transform(X)).max() == 0
    with pytest.raises(InputError, match="rows have 2 inputs, not 4"):
        model.transform(X[:, :2])


def test_small_files_that_expand_to_large_arrays_are_rejected(tmp_path: Path) -> None:
    one = {"array": "MostlyOne", "fields": {"fill": 0.0, "shape": {"tuple": [2**17, 8]}}}
    tensors = {}
    for name in ("a", "b", "c"):
        tensors[f"{name}.places"] = np.zeros(2**17, np.uint8)
        tensors[f"{name}.others"] = np.zeros(0)
    content, arrays = pack(fitted("bins"))
    content["state"]["dict"] = {
        "dict": {
            name: {
                "array": "MostlyOne",
                "fields": one["fields"]
                | {
                    "places": {"tensor": f"{name}.places"},
                    "others": {"tensor": f"{name}.others"},
                },
            }
            for name in ("a", "b", "c")
        }
    }
    write(tmp_path / "model", content, arrays | tensors)
    with pytest.raises(ModelFileError, match="too large for what they hold"):
        load(tmp_path / "model")
