"""fit, predict, evaluate and inspect on every format and kind of column."""

from __future__ import annotations

import csv
import io
import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import log_loss

import gramless
from gramless import KernelClassifier, KernelRegressor, RandomBinning, load, save
from gramless.cli.metrics import probability_metrics
from gramless.datasets import Table, read_table

from .conftest import N_ROWS, QUICK

FORMATS = ["a.csv", "a.tsv", "a.parquet", "a.libsvm", "a.npz"]


def table_of(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@pytest.fixture
def fitted(shell, write, tmp_path):
    """Fit what the test names and return (data, model)."""

    def fit(name="a.csv", *options, **columns):
        data, model = write(name, **columns), tmp_path / "m.gramless"
        shell("fit", data, "--model", model, *QUICK, *options)
        return data, model

    return fit


def test_numbers_in_every_format(fitted, shell, columns):
    for name in FORMATS:
        data, model = fitted(name)
        text = shell("predict", model, data).stdout
        predicted = table_of(text)["prediction"].astype(float)
        found = shell.json("evaluate", model, data)
        assert found["rows"] == len(predicted) == N_ROWS
        np.testing.assert_allclose(found["mae"], np.abs(predicted - columns["price"]).mean())
        assert found["r2"] > 0.5
        assert shell.json("inspect", model)["class"] == "KernelRegressor"


@pytest.mark.parametrize("name", ["a.csv", "a.npz"])
def test_a_memory_budget_leads_to_the_same_model(name, write, shell, tmp_path):
    data, columns = write(name), ["--features", "size"] if name == "a.csv" else []
    for model, options in (("plain", []), ("stored", ["--memory", "800MB"])):
        told = ["fit", data, "--model", tmp_path / model, *QUICK, *columns, *options]
        assert shell.json(*told)["limits"] == []
    plain, stored = (load(tmp_path / model) for model in ("plain", "stored"))
    np.testing.assert_array_equal(stored.weights_, plain.weights_)
    assert (stored.encoder_ is None) == (plain.encoder_ is None)


def test_pipes_have_no_memory_budget(shell, tmp_path):
    told = shell("fit", "-", "--model", tmp_path / "m", "--memory", "1GB", code=1)
    assert "--memory cannot read a pipe" in told.stderr


def test_the_package_runs_as_a_module():
    told = subprocess.run(
        [sys.executable, "-m", "gramless", "--version"], capture_output=True, text=True, check=True
    )
    assert told.stdout == f"gramless {gramless.__version__}\n"


def test_predictions_are_those_of_the_library(fitted, shell, tmp_path):
    data, model = fitted("a.csv", "--target", "price", chosen=("price", "size", "colour"))
    table = read_table(data)
    expected = load(model).predict(type(table)({n: table.column(n) for n in ("size", "colour")}))
    out = tmp_path / "out.csv"
    assert "120" in shell("predict", model, data, "-o", out).stdout
    np.testing.assert_array_equal(table_of(out.read_text())["prediction"].astype(float), expected)
    assert shell.json("predict", model, data)["prediction"] == expected.tolist()
    assert shell.json("predict", model, data, "-o", out, "--force")["output"] == str(out)


def test_text_classes_and_text_inputs(fitted, shell, columns):
    for name in ["a.csv", "a.parquet"]:
        data, model = fitted(name, "--target", "kind", chosen=("kind", "size", "weight", "colour"))
        found = shell.json("evaluate", model, data, "--target", "kind")
        predicted = table_of(shell("predict", model, data, "--scores").stdout)
        assert set(predicted) == {"prediction", "score_dear"}
        assert found["accuracy"] == (predicted["prediction"] == columns["kind"]).mean()
        dear = predicted["score_dear"].astype(float) > 0
        np.testing.assert_array_equal(dear, predicted["prediction"] == "dear")
        assert [c["class"] for c in found["classes"]] == ["cheap", "dear"]
        assert np.sum(found["confusion"]) == N_ROWS
        text = shell("evaluate", model, data, "--target", "kind").stdout
        assert "balanced accuracy" in text
        assert "Confusion" in text


def test_several_classes_have_a_score_each(fitted, shell):
    data, model = fitted("a.csv", "--target", "colour", chosen=("size", "weight", "colour"))
    predicted = table_of(shell("predict", model, data, "--scores").stdout)
    scores = np.array([predicted[f"score_{c}"] for c in ("blue", "green", "red")]).astype(float)
    best = np.array(["blue", "green", "red"])[scores.argmax(axis=0)]
    np.testing.assert_array_equal(best, predicted["prediction"])


def test_the_task_follows_from_the_labels(write, shell, tmp_path):
    for labels, asked, expected in [
        (np.arange(N_ROWS) % 3, "auto", "classification"),
        (np.arange(N_ROWS) % 30, "auto", "regression"),
        (np.arange(N_ROWS) % 30, "classification", "classification"),
        (np.arange(N_ROWS) % 3, "regression", "regression"),
        (np.arange(N_ROWS) % 3 / 2, "auto", "regression"),
        (np.arange(N_ROWS) % 2 * 0.7, "auto", "classification"),
        (np.arange(N_ROWS) % 2 == 0, "auto", "classification"),
    ]:
        data = write("a.csv", ("size", "weight"), label=labels)
        found = shell.json("fit", data, "-m", tmp_path / "m", "--task", asked, *QUICK)
        assert found["task"] == expected
        shell.json("evaluate", tmp_path / "m", data)


def test_whole_numbers_of_classes_are_written_as_such(write, shell, tmp_path):
    data = write("a.csv", ("size", "weight"), label=np.arange(N_ROWS) % 3)
    shell("fit", data, "-m", tmp_path / "m", *QUICK)
    predicted = table_of(shell("predict", tmp_path / "m", data).stdout)["prediction"]
    assert set(predicted) <= {"0", "1", "2"}


def test_numbers_as_categories(fitted, shell, columns, write):
    for name in ["a.csv", "a.parquet"]:
        codes = np.arange(N_ROWS) % 4 + 10
        data, model = fitted(name, "--target", "price", "--categorical", "code", code=codes)
        assert load(model).encoder_.categorical == ("code",)
        found = shell.json("evaluate", model, data, "--target", "price")
        frame = read_table(data, categorical=["code"]) if name == "a.csv" else read_table(data)
        inputs = {n: frame.column(n) for n in ("weight", "size", "code")}
        predicted = load(model).predict(type(frame)(inputs))
        np.testing.assert_allclose(np.abs(predicted - columns["price"]).mean(), found["mae"])


def test_missing_numbers_are_filled(write, shell, tmp_path, columns):
    holes = columns["size"].copy()
    holes[::5] = np.nan
    for name in ("a.csv", "a.npz", "a.parquet"):
        data = write(name, size=holes)
        shell("fit", data, "-m", tmp_path / "m", *QUICK)
        assert np.isfinite(shell.json("evaluate", tmp_path / "m", data)["rmse"])


def test_features_weights_and_further_columns(fitted, shell, write):
    data, model = fitted(
        "a.csv", "--target", "price", "--features", "weight,colour", "--weight", "size2",
        chosen=("weight", "colour", "kind", "price"), size2=np.arange(N_ROWS) % 2,
    )  # fmt: skip
    found = load(model)
    assert found.feature_names_in_.tolist() == ["weight", "colour"]
    turned = write("b.csv", ("colour", "weight"))
    assert shell("predict", model, turned).stdout == shell("predict", model, data).stdout


def test_a_measure_and_folds_of_ones_own(write, shell, tmp_path):
    data = write("a.csv", ("size", "weight", "price"), who=np.arange(N_ROWS) % 30)
    options = "--target", "price", "-m", tmp_path / "m", *QUICK
    told = shell.json("fit", data, *options, "--groups", "who", "--cv", "group", "--scoring", "r2")
    assert (told["scoring"], told["cv"]) == ("'r2'", "by rule, 30 groups kept together")
    assert told["inputs"] == 2
    for text, start in (("time", "TimeSeriesSplit"), ("3", "3 folds")):
        assert shell.json("fit", data, *options, "--cv", text)["cv"].startswith(start)


def test_empty_cells_of_groups_are_refused(write, shell, tmp_path):
    who = np.where(np.arange(N_ROWS) % 3 == 0, "", "a").astype(object)
    data = write("a.csv", ("size", "weight", "price"), who=who)
    options = "--target", "price", "-m", tmp_path / "m", *QUICK
    assert "'who' of groups is empty in" in shell.error("fit", data, *options, "--groups", "who")


def test_a_npz_of_two_parts(shell, tmp_path, columns):
    X = np.column_stack([columns["size"], columns["weight"]])
    y, data, model = columns["price"], tmp_path / "two.npz", tmp_path / "m"
    np.savez(data, X_train=X[:100], y_train=y[:100], X_test=X[100:], y_test=y[100:])
    assert shell.json("fit", data, "-m", model, *QUICK)["rows"] == 100
    assert shell.json("evaluate", model, data)["rows"] == 20
    assert shell.json("evaluate", model, data, "--part", "train")["rows"] == 100


def test_libsvm_may_lack_the_last_columns(fitted, shell, tmp_path):
    _, model = fitted("a.libsvm")
    short = tmp_path / "short.libsvm"
    short.write_text("1 1:0.5\n2 1:0.1\n")
    assert shell.json("predict", model, short)["rows"] == 2


def test_a_model_without_names_takes_columns_by_position(fitted, shell, write):
    _, model = fitted("a.npz")
    data = write("b.csv", ("size", "weight", "price"))
    found = shell.json("evaluate", model, data, "--target", "price")
    assert found["r2"] > 0.5
    assert "has 3 input columns" in shell.error("predict", model, data)


def test_kernels(fitted, shell):
    for kernel in ["hat", "exponential_power:0.3", "inverse_power"]:
        _, model = fitted("a.csv", "--kernel", kernel)
        name = shell.json("inspect", model)["params"]["features"]["params"]["kernel"]["name"]
        assert name == kernel.partition(":")[0]


GIVEN = ["--bandwidth", "2", "--alpha", "1e-3", "--scaling", "standard"]


def test_approximations(shell, write, tmp_path):
    for name in ["smooth", "fourier", "nystrom", "exact"]:
        data, model = write("a.csv"), tmp_path / "m"
        shell("fit", data, "-m", model, "--approximation", name, *GIVEN)
        assert shell.json("inspect", model)["params"]["features"] == name
        assert shell.json("evaluate", model, data)["r2"] > 0.5
        assert "parameter features" in shell("inspect", model).stdout


def test_a_smooth_kernel_and_a_size(shell, write, tmp_path):
    data, model = write("a.csv"), tmp_path / "m"
    kernel = ["--approximation", "fourier", "--kernel", "matern:2.5", "--size", 64]
    assert shell.json("fit", data, "-m", model, *kernel, *GIVEN)["columns"] == 64
    features = shell.json("inspect", model)["params"]["features"]
    assert features["class"] == "RandomFourier"
    assert features["params"]["kernel"] == {"name": "matern", "nu": 2.5}


def test_the_seed_decides(write, shell, tmp_path):
    data = write("a.csv")
    files = []
    for seed in (0, 0, 1):
        shell("fit", data, "-m", tmp_path / "m", "--seed", seed, *QUICK)
        files.append((tmp_path / "m").read_bytes())
    assert files[0] == files[1] != files[2]


def test_a_search_is_told_line_by_line(write, shell, tmp_path):
    data = write("a.csv")
    result = shell("fit", data, "-m", tmp_path / "m", "--n-grids", 8, "--verbose", "--json")
    assert "bandwidth" in result.stderr
    assert result.stdout.startswith("{")
    assert "bandwidth" not in shell("fit", data, "-m", tmp_path / "m", "--n-grids", 8).stderr


def test_what_fit_tells(write, shell, tmp_path):
    data = write("a.csv", ("size", "kind"))
    text = shell("fit", data, "-m", tmp_path / "m", *QUICK).stdout
    for said in (
        "classification (the target holds text)",
        "2: cheap, dear",
        "8 random grids",
        "kB)",
    ):
        assert said in text
    assert shell.json("fit", data, "-m", tmp_path / "m", *QUICK)["target"] == "kind"


def test_inspect_for_people(fitted, shell, tmp_path):
    _, model = fitted("a.csv", chosen=("size", "weight", "kind"))
    text = shell("inspect", model).stdout
    for said in ("KernelClassifier", "2: size, weight", "2: cheap, dear", "standard", "random"):
        assert said in text
    assert ["relevance", "equal"] in [line.split() for line in text.splitlines()]
    save(RandomBinning(n_grids=4, random_state=0).fit(np.eye(9)), tmp_path / "bins")
    assert "RandomBinning" in shell("inspect", tmp_path / "bins").stdout


def test_truth_values_fitted_in_python_match_their_text(shell, write, tmp_path, columns):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": columns["size"], "red": columns["colour"] == "red"})
    dear = columns["kind"] == "dear"
    model = KernelClassifier(RandomBinning(n_grids=8), bandwidth=1.0, alpha=1e-3, random_state=0)
    save(model.fit(frame, dear), tmp_path / "m")
    data = write("b.csv", ("size",), red=frame["red"].to_numpy(), dear=dear)
    found = shell.json("evaluate", tmp_path / "m", data, "--target", "dear")
    assert found["accuracy"] == model.score(frame, dear)


def test_probabilities_and_how_good_they_are(fitted, shell, columns):
    chosen = ("size", "weight", "kind")
    data, model = fitted("a.csv", "--target", "kind", "--loss", "logistic", chosen=chosen)
    found = shell.json("predict", model, data, "--probabilities")
    given = np.column_stack([found["probability_cheap"], found["probability_dear"]])
    np.testing.assert_allclose(given.sum(axis=1), 1.0)
    predicted = np.array(["cheap", "dear"])[given.argmax(axis=1)]
    np.testing.assert_array_equal(predicted, found["prediction"])
    judged, dear = shell.json("evaluate", model, data), (columns["kind"] == "dear").astype(int)
    assert judged["log_loss"] == pytest.approx(log_loss(dear, given))
    assert judged["brier"] == pytest.approx(((given - np.eye(2)[dear]) ** 2).sum(axis=1).mean())
    assert sum(part["rows"] for part in judged["reliability"]) == N_ROWS
    right = sum(part["rows"] * part["observed"] for part in judged["reliability"]) / N_ROWS
    assert right == pytest.approx(judged["accuracy"])
    assert "log loss" in shell("evaluate", model, data).stdout


def test_probabilities_need_no_search_and_no_loss_of_their_own(fitted, shell, tmp_path, columns):
    data, model = fitted("a.csv", "--target", "kind", chosen=("size", "weight", "kind"))
    found = shell.json("predict", model, data, "--probabilities")
    assert np.mean(np.array(found["probability_dear"])[columns["kind"] == "dear"]) > 0.6
    other = ["fit", data, "-m", tmp_path / "m", "--target", "kind", "--loss", "huber", *QUICK]
    assert "loss must be one of" in shell.error(*other)


def test_why_a_model_has_no_probabilities(write, shell, tmp_path, columns):
    data, rows = write("a.csv", ("size",)), Table({"size": columns["size"]})
    save(KernelRegressor(n_grids=8).fit(rows, columns["price"]), tmp_path / "numbers")
    said = shell.error("predict", tmp_path / "numbers", data, "--probabilities")
    assert "--probabilities is for classifiers; this model is a regressor" in said
    bare = KernelClassifier(n_grids=8, loss="squared", calibrate=False)
    save(bare.fit(rows, columns["kind"]), tmp_path / "kinds")
    said = shell.error("predict", tmp_path / "kinds", data, "--probabilities")
    assert "needs calibrate=True or --loss logistic" in said


def test_intervals_and_sets(write, shell, tmp_path, columns):
    data = write("a.csv", ("size", "price"))
    for name, kind, y in (
        ("numbers", KernelRegressor, columns["price"]),
        ("kinds", KernelClassifier, columns["kind"]),
    ):
        model = kind(n_grids=8, calibrate=True, random_state=0)
        save(model.fit(Table({"size": columns["size"]}), y), tmp_path / name)
    found = shell.json("predict", tmp_path / "numbers", data, "--interval", 0.8)
    inside = (found["lower"] <= columns["price"]) & (columns["price"] <= found["upper"])
    assert 0.6 < inside.mean() < 1.0
    found = shell.json("predict", tmp_path / "kinds", data, "--set", 0.9)
    chosen = np.column_stack([found["in_set_cheap"], found["in_set_dear"]])
    assert chosen[np.arange(N_ROWS), (columns["kind"] == "dear").astype(int)].mean() > 0.8
    said = shell.error("predict", tmp_path / "kinds", data, "--interval", 0.8)
    assert "--interval is for a KernelRegressor" in said
    said = shell.error("predict", tmp_path / "numbers", data, "--set", 0.8)
    assert "--set is for a KernelClassifier" in said


def test_columns_that_name_rows_are_passed_through(fitted, shell, write, tmp_path):
    _, model = fitted("a.csv")
    names = np.array([f"{k:05d}" for k in range(N_ROWS)])
    data = write("b.csv", ("size", "weight"), code=names, place=np.arange(N_ROWS))
    lines = shell("predict", model, data, "--id", "code,place").stdout.splitlines()
    assert lines[0] == "code,place,prediction"
    assert [line.split(",")[:2] for line in lines[1:3]] == [["00000", "0"], ["00001", "1"]]
    assert shell.json("predict", model, write("c.parquet"), "--id", "price")["price"][0]
    assert "no column 'absent'" in shell.error("predict", model, data, "--id", "absent")


def test_numbers_as_text_are_numbers(write, shell, columns):
    def spell(values):
        return np.array([f"{value:.4f}".replace(".", ",") for value in values])

    data = write("a.tsv", ("size",), size=spell(columns["size"]), price=spell(columns["size"] ** 2))
    model = data.with_name("m")
    assert shell.json("fit", data, "-m", model, "--n-grids", 64)["task"] == "regression"
    assert shell.json("evaluate", model, data)["r2"] > 0.9
    other = write("b.tsv", ("size",), size=np.array(["1,234"]))
    expected = write("c.tsv", ("size",), size=np.array(["1.234"]))
    assert shell("predict", model, other).stdout == shell("predict", model, expected).stdout


def test_a_class_that_the_model_does_not_know_has_probability_zero():
    found = probability_metrics(np.array([-1, 0]), np.array([[0.6, 0.4], [1.0, 0.0]]))
    assert found["log_loss"] == pytest.approx(-np.log(1e-15) / 2)
    assert found["brier"] == pytest.approx((0.36 + 0.16 + 1.0) / 2)


SPARSE_TASKS = {
    "robust": (("size", "weight", "price"), "huber", "0.5"),
    "probabilities": (("size", "weight", "kind"), "logistic", "1"),
    "three classes": (("size", "weight", "colour"), "squared_hinge", "0.5"),
}


@pytest.mark.parametrize("name", SPARSE_TASKS)
def test_small_models(name, write, shell, tmp_path):
    chosen, loss, l1_ratio = SPARSE_TASKS[name]
    data = write("a.csv", chosen)
    options = ["--target", chosen[-1], "--loss", loss, *QUICK, "--n-grids", "64"]
    large = shell.json("fit", data, "-m", tmp_path / "large", *options)
    small = shell.json("fit", data, "-m", tmp_path / "small", *options, "--l1-ratio", l1_ratio)
    assert large["sparsity"] == 0.0
    assert 0 < small["sparsity"] < 1
    assert small["columns"] == round((1 - small["sparsity"]) * large["columns"])
    assert small["grids"] <= large["grids"] == 64
    assert small["bytes"] < large["bytes"]
    model = load(tmp_path / "small")
    assert (model.l1_ratio, model.sparsity_) == (float(l1_ratio), small["sparsity"])
    assert len(model.weights_) == small["columns"]
    inputs = read_table(data)
    inputs = type(inputs)({column: inputs.column(column) for column in chosen[:-1]})
    found = shell.json("predict", tmp_path / "small", data)["prediction"]
    assert found == model.predict(inputs).tolist()
    assert shell.json("evaluate", tmp_path / "small", data)["rows"] == N_ROWS
    assert shell.json("inspect", tmp_path / "small")["params"]["l1_ratio"] == float(l1_ratio)


def test_fit_says_how_many_bins_are_left_out(write, shell, tmp_path):
    arguments = ["fit", write("a.csv"), "-m", tmp_path / "m", *QUICK]
    text = shell(*arguments, "--l1-ratio", 1).stdout
    sparsity = load(tmp_path / "m").sparsity_
    assert 0 < sparsity < 1
    assert f"; {sparsity:.1%} of the columns have no weight" in " ".join(text.split())
    assert "left out" not in shell(*arguments).stdout
    assert "left out" not in shell(*arguments, "--l1-ratio", 0).stdout


@pytest.mark.parametrize(
    ("verb", "ids"),
    [("predict", ["00001", "2", "9007199254740993"]), ("anomalies", ["7", "", "NA"])],
)
def test_columns_beside_the_output_are_written_as_they_are(verb, ids, write, shell, tmp_path):
    shell("fit", write("train.csv"), "-m", tmp_path / "m", *QUICK)
    data = write("new.csv", ("size", "weight"), number=np.array(ids * (N_ROWS // 3)))
    named = [tmp_path / "m"] if verb == "predict" else []
    lines = shell(verb, *named, data, "--id", "number").stdout.splitlines()
    assert [line.split(",")[0] for line in lines[1:4]] == ids


def test_columns_beside_the_output_do_not_replace_it(write, shell, tmp_path):
    for verb, name in [("predict", "prediction"), ("anomalies", "score")]:
        shell("fit", write("train.csv"), "-m", tmp_path / "m", *QUICK)
        data = write("new.csv", ("size", "weight"), **{name: np.arange(N_ROWS)})
        named = [tmp_path / "m"] if verb == "predict" else []
        assert f"--id {name}: the output has a column" in shell.error(
            verb, *named, data, "--id", name
        )


def test_a_model_without_names_takes_words_for_missing_values(shell, tmp_path):
    for word in ["", "NA", "\\N"]:
        X = np.random.default_rng(0).normal(size=(60, 1))
        np.savez(tmp_path / "train.npz", X=X, y=X[:, 0])
        shell("fit", tmp_path / "train.npz", "-m", tmp_path / "m", *QUICK)
        (tmp_path / "new.csv").write_text(f"a\n{word}\n{word}\n{word}\n")
        assert len(shell("predict", tmp_path / "m", tmp_path / "new.csv").stdout.split()) == 4
