"""The labels that evaluate and explain compare predictions with."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gramless
from gramless import KernelClassifier, KernelRegressor, RandomBinning

from .conftest import N_ROWS, QUICK


@pytest.fixture
def fitted(write, shell, tmp_path, columns):
    """Return a function that fits by a verb, with the target as the first of three columns."""

    def fit(verb: str = "fit"):
        data, model = write("train.csv", ("price", "size", "weight")), tmp_path / "m"
        if verb == "fit":
            shell("fit", data, "--target", "price", "--model", model, *QUICK)
        else:
            shell("stream", data, model, "--target", "price", "--steps", 30)
        return model

    return fit


def test_evaluate_uses_the_target_of_the_fit(fitted, write, shell):
    for verb in ["fit", "stream"]:
        model = fitted(verb)
        data = write("new.csv", ("price", "size", "weight"), row=np.arange(120.0))
        expected = shell.json("evaluate", model, data, "--target", "price")
        result = shell.json("evaluate", model, data)
        assert result["rmse"] == expected["rmse"]


def test_explain_uses_the_target_of_the_fit(fitted, write, shell, tmp_path):
    data = write("new.csv", ("price", "size", "weight"), row=np.arange(120.0))
    out = tmp_path / "page.html"
    assert shell.json("explain", fitted(), "--data", data, "-o", out)["target"] == "price"


def test_evaluate_names_a_missing_target(fitted, write, shell):
    for verb in ["fit", "stream"]:
        data = write("new.csv", ("size", "weight"), row=np.arange(120.0))
        error = shell.error("evaluate", fitted(verb), data)
        assert "new.csv has no column 'price', the target that the model was fitted to" in error
        assert "--target" in error


def test_evaluate_accepts_another_target(fitted, write, shell, columns):
    data = write("new.csv", ("size", "weight"), cost=columns["price"])
    assert shell.json("evaluate", fitted(), data, "--target", "cost")["r2"] > 0.5


def test_fit_to_a_series_stores_the_target_name(write, shell, tmp_path, columns):
    frame = pd.DataFrame({name: columns[name] for name in ("price", "size", "weight")})
    model = KernelRegressor(n_grids=8, effort=1).fit(frame[["size", "weight"]], frame["price"])
    assert model.target_name_ == "price"
    gramless.save(model, tmp_path / "m")
    data = write("new.csv", ("price", "size", "weight"), row=np.arange(120.0))
    assert shell.json("evaluate", tmp_path / "m", data)["r2"] > 0.5
    model.fit(frame[["size", "weight"]], columns["price"])
    assert model.target_name_ is None


def test_evaluate_guesses_the_target_of_old_models(write, shell, tmp_path, columns):
    frame = pd.DataFrame({name: columns[name] for name in ("size", "weight")})
    model = KernelRegressor(n_grids=8, effort=1).fit(frame, columns["price"])
    # As files of 0.2.0.
    del model.target_name_
    gramless.save(model, tmp_path / "m")
    data = write("new.csv", ("size", "weight"), row=np.arange(120.0), price=columns["price"])
    result = shell("evaluate", tmp_path / "m", data)
    assert "the model does not name its target; taking 'price'" in result.stderr


LABELS = {
    "other case": ["No", "Yes"],
    "other words": ["false", "true"],
    "numbers": [0, 1],
}


@pytest.fixture
def classifier(tmp_path, columns):
    X = pd.DataFrame({name: columns[name] for name in ("size", "weight")})
    y = pd.Series(np.where(columns["price"] > 1, "yes", "no"), name="label")
    model = KernelClassifier(RandomBinning(n_grids=8), random_state=0).fit(X, y)
    gramless.save(model, tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize(
    ("kind", "verb"),
    [("other case", "evaluate"), ("other words", "explain"), ("numbers", "evaluate")],
)
def test_entirely_unknown_labels_are_rejected(
    kind, verb, classifier, write, shell, columns, tmp_path
):
    label = np.array(LABELS[kind])[(columns["price"] > 1).astype(int)]
    data = write("new.csv", ("size", "weight"), label=label)
    words = [data] if verb == "evaluate" else ["--data", data, "-o", tmp_path / "page.html"]
    error = shell.error(verb, classifier, *words)
    assert "knows none of the labels in column 'label'" in error
    assert "'no', 'yes'" in error
    assert repr(LABELS[kind][1]) in error


def test_partly_unknown_labels_warn(classifier, write, shell, columns):
    label = np.where(columns["price"] > 1, "yes", "no").astype(object)
    label[:12] = "perhaps"
    result = shell("evaluate", classifier, write("new.csv", ("size", "weight"), label=label))
    assert "does not know 10.0% of the labels in column 'label' ('perhaps')" in result.stderr


def test_booleans_match_their_numbers(tmp_path, write, shell, columns):
    X = pd.DataFrame({name: columns[name] for name in ("size", "weight")})
    truth = pd.Series(columns["price"] > 1, name="label")
    gramless.save(KernelClassifier(RandomBinning(n_grids=8)).fit(X, truth), tmp_path / "m")
    for label in (truth, truth.astype(int), truth.astype(float)):
        data = write("new.csv", ("size", "weight"), label=label.to_numpy())
        assert shell.json("evaluate", tmp_path / "m", data)["accuracy"] > 0.6


@pytest.mark.parametrize("fitted", [("False", "True"), (0, 1)])
def test_booleans_match_every_spelling(fitted, write, shell, columns):
    places = (columns["price"] > 1).astype(int)
    data = write("a.csv", ("size", "weight"), dear=np.array(fitted)[places])
    model = data.with_name("model")
    shell("fit", data, "--model", model, *QUICK)
    expected = shell.json("evaluate", model, data)["accuracy"]
    assert expected > 0.7
    for spellings in (("FALSE", "TRUE"), ("false", "true"), (0, 1), (0.0, 1.0)):
        new = write("b.csv", ("size", "weight"), dear=np.array(spellings)[places])
        assert shell.json("evaluate", model, new)["accuracy"] == expected


def test_regression_rejects_dates_as_targets(write, shell, tmp_path):
    when = np.datetime64("2024-01-01") + np.arange(N_ROWS)
    data = write("dated.csv", ("size", "weight"), when=when.astype(str))
    fit = ("fit", data, "--target", "when", "-m", tmp_path / "m", "--task", "regression")
    assert "regression needs numbers" in shell.error(*fit)
