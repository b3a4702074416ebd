"""Use of everything, once: ``python -m campaigns.smoke FOLDER [EARLIER] [--least]``.

Fits every feature map and estimator, and tables of pandas, polars and pyarrow; saves and loads;
runs every verb of the command line but ``demo``, which takes twice as long as all of this. With
``EARLIER``, the folder of a run elsewhere, its models must load here and predict the same.
``--least`` takes one model and one verb, for environments that differ in how a process starts
alone.
"""

from __future__ import annotations

import argparse
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow
from typer.testing import CliRunner

import gramless
from gramless.base.files import open_replacement
from gramless.cli.main import app
from gramless.datasets import friedman1
from gramless.features.registry import FEATURE_MAPS

GIVEN = {"bandwidth": 2.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}
LEAST = "nystrom"
MODELS = {
    **{name: lambda name=name: gramless.KernelRegressor(name, **GIVEN) for name in FEATURE_MAPS},
    "hybrid": lambda: gramless.KernelRegressor(
        gramless.Hybrid([gramless.RandomBinning(n_grids=16), gramless.RandomFourier()]), **GIVEN
    ),
    "default": lambda: gramless.KernelRegressor(n_grids=64, random_state=0),
    "classifier": lambda: gramless.KernelClassifier(n_grids=64, loss="logistic", **GIVEN),
    "streamed": lambda: gramless.DoublyStochasticRegressor(max_steps=50, random_state=0),
}
IN_FLOAT32 = ("fourier", "hybrid", "nystrom", "streamed")
"""Features of these are float32, rounded as the processor and BLAS have it."""
X, Y = friedman1(240, seed=0)


def load_earlier(folder: Path, names: list[str]) -> None:
    for name in names:
        found = gramless.load(folder / f"{name}.gramless").predict(X)
        expected = np.load(folder / f"{name}.npy")
        rtol = 16 * np.finfo(np.float32).eps if name in IN_FLOAT32 else 1e-9
        np.testing.assert_allclose(found, expected, rtol, err_msg=name)


def fit_and_save(folder: Path, names: list[str]) -> None:
    for name in names:
        y = Y > 14 if name == "classifier" else Y
        model = MODELS[name]().fit(X, y)
        score = model.score(X, y)
        assert score > 0.5, f"{name} has a score of {score} on its training rows"
        path = folder / f"{name}.gramless"
        gramless.save(model, path)
        found = model.predict(X)
        np.testing.assert_array_equal(gramless.load(path).predict(X), found, err_msg=name)
        with open_replacement(folder / f"{name}.npy") as file:
            np.save(file, found)


def fit_frames() -> None:
    """Fit to a table of every kind of column, made by each library of data frames."""
    n = len(X)
    columns = {
        "number": X[:, 0].tolist(),
        "gap": [None if k % 9 == 0 else float(k % 7) for k in range(n)],
        "word": [None if k % 8 == 0 else "ab"[k % 2] for k in range(n)],
        "truth": [k % 3 == 0 for k in range(n)],
        "day": [date(2024, 1, 1) + timedelta(days=k) for k in range(n)],
        "comma": [f"{value:.3f}".replace(".", ",") for value in X[:, 1]],
    }
    frames = [pandas.DataFrame(columns), polars.DataFrame(columns), pyarrow.table(columns)]
    frames[0]["word"] = frames[0]["word"].astype("category")
    found = []
    for frame in frames:
        model = gramless.KernelRegressor(n_grids=16, **GIVEN).fit(frame, Y)
        assert model.encoder_.categorical == ("word", "truth")
        found.append(model.predict(frame))
        np.testing.assert_array_equal(found[-1], found[0], err_msg=type(frame).__module__)


def run_verbs(folder: Path) -> None:
    table, model, streamed = folder / "rows.csv", folder / "a.gramless", folder / "b.gramless"
    names = ",".join([*(f"x{j}" for j in range(X.shape[1])), "y"])
    np.savetxt(table, np.column_stack([X, Y]), delimiter=",", header=names, comments="")
    quick = ["--bandwidth", "2", "--alpha", "1e-3", "--scaling", "standard", "--n-grids", "16"]
    run_verb("--version")
    run_verb("fit", table, "--model", model, "--json", *quick)
    run_verb("predict", model, table, "--output", folder / "predictions.csv")
    run_verb("evaluate", model, table, "--picture", folder / "a.svg", "--json")
    polars.read_csv(table).write_parquet(folder / "rows.parquet")
    run_verb("evaluate", model, folder / "rows.parquet")
    run_verb("inspect", model, "--data", table, "--picture", folder / "a.png")
    run_verb("explain", model, "--data", table, "--output", folder / "a.html")
    run_verb("stream", table, streamed, "--steps", "20", "--batch-size", "40")
    run_verb("inspect", streamed, "--picture", folder / "b.pdf")


def run_verb(*words: str | Path) -> None:
    ran = CliRunner().invoke(app, [str(word) for word in words])
    assert ran.exit_code == 0, f"gramless {words}: {ran.output}\n{ran.exception!r}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m campaigns.smoke", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("earlier", type=Path, nargs="?")
    parser.add_argument("--least", action="store_true")
    given = parser.parse_args()
    names = [LEAST] if given.least else list(MODELS)
    if given.earlier:
        load_earlier(given.earlier, names)
    fit_and_save(given.folder, names)
    if given.least:
        run_verb("inspect", given.folder / f"{LEAST}.gramless")
    else:
        fit_frames()
        run_verbs(given.folder)


if __name__ == "__main__":
    main()
