"""Model files read by NumPy alone predict as the models do; unsupported ones raise an error."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gramless
from gramless import (
    KernelClassifier,
    KernelRegressor,
    KernelSurvival,
    Nystrom,
    RandomBinning,
    SmoothBinning,
    save,
)
from gramless import portable as module
from gramless.estimators.persistence import pack, write
from gramless.features.binning import GivenBinning
from gramless.features.grids import with_combinations
from gramless.features.hybrid import JoinedMaps
from gramless.features.projected import ProjectedMap
from gramless.portable import PortableModel
from tests.test_extending import BLOCK

PAGE = Path(__file__).resolve().parents[1] / "docs" / "file_format.md"
N = 360
ALONE = """
import sys
import numpy as np
for name in ("gramless", "numba", "scipy", "sklearn"):
    sys.modules[name] = None
from copied import PortableModel
rows = np.load("rows.npy")
for name in sys.argv[1:]:
    model = PortableModel(name)
    answers = {"predict": model.predict(rows), "raw": model.decision_function(rows)}
    if "calibration_" in model.fitted and model.fitted["calibration_"] is not None:
        answers["proba"] = model.predict_proba(rows)
    np.savez(name + ".npz", **answers)
"""


def rows(seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(N, 4))
    X[:, 3] = np.array([0.0, 1.0, 7.0 + seed])[generator.integers(0, 3, N)]
    X[::7, 1] = np.nan
    return X


def fitted() -> dict[str, KernelRegressor | KernelClassifier | KernelSurvival]:
    X = rows(0)
    z = np.sin(2 * X[:, 0]) + np.nan_to_num(X[:, 1]) * (X[:, 3] == 1)
    labels = np.array(["low", "mid", "high"])[np.digitize(z, [-0.5, 0.5])]
    options = {"random_state": 0, "n_grids": 24}
    given = {**options, "grids": "random", "bandwidth": 2.0, "alpha": 1e-3}
    return {
        "grown": KernelRegressor(effort=1, **options).fit(X, np.column_stack([z, X[:, 0]])),
        "classes": KernelClassifier(categorical_features=[3], **options).fit(X, labels),
        "random": KernelClassifier(scaling="both", **given).fit(X, z > 0),
        "counts": KernelRegressor(loss="poisson", **given).fit(X, np.rint(np.exp(z))),
        "whitened": KernelRegressor(scaling="whiten", **given).fit(X[:, [0, 2]], z),
        "survival": KernelSurvival(**given).fit(X, np.exp(z)),
        "ridge": KernelRegressor(random_state=0).fit(X[:, [0, 2]], np.sin(X[:, 0])),
        "joined": joined(X[:, [0, 2]]),
        "combined": combined(X, z),
    }


def joined(X: np.ndarray) -> KernelRegressor:
    """Return a model of grids with smooth kernels beside them, as default fits may choose."""
    model = KernelRegressor(random_state=0, n_grids=16, bandwidth=1.0, alpha=1e-3).fit(X, X[:, 0])
    smooth = Nystrom(bandwidth=0.7, n_components=20, random_state=0).fit(X)
    turn = np.array([[0.8, -0.6], [0.3, 0.4]])
    turned = ProjectedMap.of(turn, Nystrom(bandwidth=0.5, n_components=9).fit(X @ turn))
    model.features_ = JoinedMaps.of([model.features_, smooth, turned], [1.0, 0.5, 0.25])
    extra = np.linspace(-1.0, 1.0, smooth.n_features_out + turned.n_features_out)
    model.weights_ = np.concatenate([model.weights_, extra])
    return model


def combined(X: np.ndarray, z: np.ndarray) -> KernelRegressor:
    """Return a model of grids that divide combinations of the inputs, as thorough fits grow."""
    model = KernelRegressor(random_state=0, n_grids=16, bandwidth=1.0, alpha=1e-3).fit(X, z)
    inputs = np.asarray(model.scaler_.rows(model.inputs_.transform(model, X)))
    turn = np.random.default_rng(2).normal(size=(inputs.shape[1], 2))
    grids = RandomBinning(n_grids=20, bandwidth=1.5, random_state=1)
    grids.fit(with_combinations(inputs, turn))
    model.features_ = GivenBinning()
    model.features_.fit_grids(inputs, replace(grids.grids, projection=turn))
    model.weights_ = np.sin(np.arange(float(model.features_.n_features_out)))
    return model


def test_numpy_alone_predicts_the_same(tmp_path: Path) -> None:
    (tmp_path / "copied.py").write_bytes(Path(module.__file__).read_bytes())
    models, new = fitted(), rows(1)
    kinds = {name: type(model.features_).__name__ for name, model in models.items()}
    assert kinds["ridge"] == "KernelExpansion"
    for name, model in models.items():
        save(model, tmp_path / name)
    narrow = {"ridge", "joined", "whitened"}
    for columns, names in (([0, 1, 2, 3], models.keys() - narrow), ([0, 2], narrow)):
        np.save(tmp_path / "rows.npy", new[:, columns])
        command = [sys.executable, "-c", ALONE, *names]
        subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
        for name in names:
            model, loaded = models[name], np.load(tmp_path / f"{name}.npz")
            expected = {"predict": model.predict, "raw": model._responses}
            if "proba" in loaded:
                expected["proba"] = model.predict_proba
            for answer, method in expected.items():
                predicted = method(new[:, columns])
                if predicted.dtype.kind == "f":
                    np.testing.assert_allclose(loaded[answer], predicted, rtol=1e-9, atol=1e-12)
                else:
                    np.testing.assert_array_equal(loaded[answer], predicted)
    assert "proba" in np.load(tmp_path / "classes.npz")


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """Return what the blocks of the page define, and what they print as ``printed``."""
    names: dict[str, Any] = {}
    with redirect_stdout(StringIO()) as printed:
        for code in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            exec(compile(code, PAGE.name, "exec"), names)
    return {**names, "printed": printed.getvalue()}


def test_no_rows_give_no_predictions(tmp_path: Path) -> None:
    X = rows(0)[:, [0, 2]]
    save(joined(X), tmp_path / "model")
    assert PortableModel(tmp_path / "model").predict(X[:0]).shape == (0,)


@pytest.mark.parametrize("case", ["frame", "features", "kernel", "damaged", "width"])
def test_unsupported_models_are_rejected(tmp_path: Path, case: str) -> None:
    X, path = rows(0)[:, [0, 2]], tmp_path / "model"
    given = {"bandwidth": 1.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}
    features = {"features": SmoothBinning(n_grids=4), "kernel": Nystrom("laplacian")}
    model = gramless.KernelRegressor(features.get(case, "nystrom"), **given)
    if case == "frame":
        pandas = pytest.importorskip("pandas")
        model.fit(pandas.DataFrame(X, columns=["a", "b"]), X[:, 0])
    else:
        model.fit(X, X[:, 0])
    save(model, path)
    if case == "damaged":
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(ValueError, match="load|damaged|2 numbers|no column 'a'"):
        PortableModel(path).predict(X[:, :1])


def test_code_of_the_format_page_reads_a_file(page: dict[str, Any], tmp_path: Path) -> None:
    assert page["printed"] == "True\nTrue\n"
    new = rows(1)
    X = rows(0)
    grown = KernelClassifier(n_grids=24, effort=1, random_state=0).fit(
        X, np.digitize(X[:, 0], [0, 1])
    )
    both = combined(X, X[:, 0])
    whitened = KernelRegressor(n_grids=24, scaling="whiten", random_state=0).fit(
        X[:, [0, 2]], X[:, 0]
    )
    for model, columns in (
        (grown, [0, 1, 2, 3]),
        (joined(X[:, [0, 2]]), [0, 2]),
        (both, [0, 1, 2, 3]),
        (whitened, [0, 2]),
    ):
        save(model, tmp_path / "model")
        result = page["responses"](page["read_model"](tmp_path / "model"), new[:, columns])
        expected = model._responses(new[:, columns])
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)


def edited(path: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None]) -> Path:
    """Save a small classifier with a changed state, and checksums that fit."""
    X = rows(0)
    given = {"effort": 1, "random_state": 0, "loss": "logistic"}
    content, tensors = pack(KernelClassifier(**given).fit(X, X[:, 0] > 0))
    content = json.loads(json.dumps(content))
    change(content["state"], tensors)
    write(path, content, tensors)
    return path


HOSTILE: dict[str, Callable[[dict[str, Any], dict[str, np.ndarray]], Any]] = {
    "no scaler": lambda state, tensors: state.pop("scaler_"),
    "a list of scalers": lambda state, tensors: state.update(scaler_=[]),
    "an encoder of text": lambda state, tensors: state["inputs_"]["fields"].update(encoder="x"),
    "no gaps": lambda state, tensors: state["inputs_"]["fields"]["gaps"].pop("record"),
    "an intercept of nan": lambda state, tensors: state.update(intercept_={"float": "nan"}),
    "infinite slopes": lambda state, tensors: tensors.update(
        {"calibration_.slopes": tensors["calibration_.slopes"] * np.inf}
    ),
    "slopes of nan": lambda state, tensors: tensors.update(
        {"calibration_.slopes": tensors["calibration_.slopes"] * np.nan}
    ),
}


def test_inconsistent_headers_are_rejected(tmp_path: Path) -> None:
    for case in HOSTILE:
        path = edited(tmp_path / "model", HOSTILE[case])
        with pytest.raises(ValueError, match=f"{path} is damaged"):
            PortableModel(path)


def test_changed_header_is_rejected(tmp_path: Path) -> None:
    path = edited(tmp_path / "model", lambda state, tensors: None)
    path.write_bytes(path.read_bytes().replace(b'"gramless_version":"0', b'"gramless_version":"1'))
    with pytest.raises(ValueError, match="the checksum of its header is wrong"):
        PortableModel(path)


def test_models_without_probabilities_raise_an_error(tmp_path: Path) -> None:
    X = rows(0)[:, [0, 2]]
    save(joined(X), tmp_path / "model")
    with pytest.raises(ValueError, match="no probabilities"):
        PortableModel(tmp_path / "model").predict_proba(X)


def test_no_rows_give_no_probabilities(tmp_path: Path) -> None:
    model = PortableModel(edited(tmp_path / "model", lambda state, tensors: None))
    assert model.predict_proba(rows(0)[:0]).shape == (0, 2)
