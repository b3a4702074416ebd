"""Use everything once: ``python -m campaigns.smoke FOLDER [EARLIER] [--least]``.

Fits every feature map and estimator, and tables of pandas, polars and pyarrow; saves and loads
them; and runs every command except ``demo``, which takes twice as long as all others. ``EARLIER``
is the folder of a run in another environment, whose models must load here and predict the same.
``--least`` runs one model and one command, for environments that only affect how a process starts.
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

FIXED = {"bandwidth": 2.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}
LEAST_MODEL = "nystrom"
MODELS = {
    **{name: lambda name=name: gramless.KernelRegressor(name, **FIXED) for name in FEATURE_MAPS},
    "hybrid": lambda: gramless.KernelRegressor(
        gramless.Hybrid([gramless.RandomBinning(n_grids=16), gramless.RandomFourier()]), **FIXED
    ),
    "default": lambda: gramless.KernelRegressor(n_grids=64, random_state=0),
    "classifier": lambda: gramless.KernelClassifier(n_grids=64, loss="logistic", **FIXED),
    "streamed": lambda: gramless.DoublyStochasticRegressor(max_steps=50, random_state=0),
}
# Models with float32 features, whose rounding depends on the processor and BLAS.
IN_FLOAT32 = ("fourier", "hybrid", "nystrom", "streamed")
X, Y = friedman1(240, seed=0)


def load_earlier(folder: Path, names: list[str]) -> None:
    for name in names:
        predictions = gramless.load(folder / f"{name}.gramless").predict(X)
        expected = np.load(folder / f"{name}.npy")
        rtol = 16 * np.finfo(np.float32).eps if name in IN_FLOAT32 else 1e-9
        np.testing.assert_allclose(predictions, expected, rtol, err_msg=name)


def fit_and_save(folder: Path, names: list[str]) -> None:
    for name in names:
        y = Y > 14 if name == "classifier" else Y
        model = MODELS[name]().fit(X, y)
        score = model.score(X, y)
        assert score > 0.5, f"{name} has a score of {score} on its training rows"
        path = folder / f"{name}.gramless"
        gramless.save(model, path)
        predictions = model.predict(X)
        np.testing.assert_array_equal(gramless.load(path).predict(X), predictions, err_msg=name)
        with open_replacement(folder / f"{name}.npy") as file:
            np.save(file, predictions)


def fit_frames() -> None:
    """Fit to a table with every type of column from each data frame library."""
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
    predictions = []
    for frame in frames:
        model = gramless.KernelRegressor(n_grids=16, **FIXED).fit(frame, Y)
        assert model.encoder_.categorical == ("word", "truth")
        predictions.append(model.predict(frame))
        np.testing.assert_array_equal(
            predictions[-1], predictions[0], err_msg=type(frame).__module__
        )


def run_commands(folder: Path) -> None:
    table, model, streamed = folder / "rows.csv", folder / "a.gramless", folder / "b.gramless"
    names = ",".join([*(f"x{j}" for j in range(X.shape[1])), "y"])
    np.savetxt(table, np.column_stack([X, Y]), delimiter=",", header=names, comments="")
    quick = ["--bandwidth", "2", "--alpha", "1e-3", "--scaling", "standard", "--n-grids", "16"]
    run_command("--version")
    run_command("fit", table, "--model", model, "--json", *quick)
    run_command("predict", model, table, "--output", folder / "predictions.csv")
    run_command("evaluate", model, table, "--picture", folder / "a.svg", "--json")
    polars.read_csv(table).write_parquet(folder / "rows.parquet")
    run_command("evaluate", model, folder / "rows.parquet")
    run_command("inspect", model, "--data", table, "--picture", folder / "a.png")
    run_command("explain", model, "--data", table, "--output", folder / "a.html")
    run_command("stream", table, streamed, "--steps", "20", "--batch-size", "40")
    run_command("inspect", streamed, "--picture", folder / "b.pdf")


def run_command(*words: str | Path) -> None:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, f"gramless {words}: {result.output}\n{result.exception!r}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m campaigns.smoke", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("earlier", type=Path, nargs="?")
    parser.add_argument("--least", action="store_true")
    args = parser.parse_args()
    names = [LEAST_MODEL] if args.least else list(MODELS)
    if args.earlier:
        load_earlier(args.earlier, names)
    fit_and_save(args.folder, names)
    if args.least:
        run_command("inspect", args.folder / f"{LEAST_MODEL}.gramless")
    else:
        fit_frames()
        run_commands(args.folder)


if __name__ == "__main__":
    main()
