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


def test_predict_and_evaluate_read_every_format(fitted, shell, columns):
    for name in FORMATS:
        data, model = fitted(name)
        text = shell("predict", model, data).stdout
        predicted = table_of(text)["prediction"].astype(float)
        result = shell.json("evaluate", model, data)
        assert result["rows"] == len(predicted) == N_ROWS
        np.testing.assert_allclose(result["mae"], np.abs(predicted - columns["price"]).mean())
        assert result["r2"] > 0.5
        assert shell.json("inspect", model)["class"] == "KernelRegressor"


@pytest.mark.parametrize("name", ["a.csv", "a.npz"])
def test_memory_budget_gives_the_same_model(name, write, shell, tmp_path):
    data, columns = write(name), ["--features", "size"] if name == "a.csv" else []
    for model, options in (("plain", []), ("stored", ["--memory", "800MB"])):
        arguments = ["fit", data, "--model", tmp_path / model, *QUICK, *columns, *options]
        assert shell.json(*arguments)["limits"] == []
    plain, stored = (load(tmp_path / model) for model in ("plain", "stored"))
    np.testing.assert_array_equal(stored.weights_, plain.weights_)
    assert (stored.encoder_ is None) == (plain.encoder_ is None)


def test_memory_budget_rejects_pipes(shell, tmp_path):
    process = shell("fit", "-", "--model", tmp_path / "m", "--memory", "1GB", code=1)
    assert "--memory cannot read a pipe" in process.stderr


def test_package_runs_as_a_module():
    process = subprocess.run(
        [sys.executable, "-m", "gramless", "--version"], capture_output=True, text=True, check=True
    )
    assert process.stdout == f"gramless {gramless.__version__}\n"


def test_predict_equals_the_library(fitted, shell, tmp_path):
    data, model = fitted("a.csv", "--target", "price", chosen=("price", "size", "colour"))
    table = read_table(data)
    expected = load(model).predict(type(table)({n: table.column(n) for n in ("size", "colour")}))
    out = tmp_path / "out.csv"
    assert "120" in shell("predict", model, data, "-o", out).stdout
    np.testing.assert_array_equal(table_of(out.read_text())["prediction"].astype(float), expected)
    assert shell.json("predict", model, data)["prediction"] == expected.tolist()
    assert shell.json("predict", model, data, "-o", out, "--force")["output"] == str(out)


def test_text_classes_have_scores_and_a_confusion_matrix(fitted, shell, columns):
    for name in ["a.csv", "a.parquet"]:
        data, model = fitted(name, "--target", "kind", chosen=("kind", "size", "weight", "colour"))
        result = shell.json("evaluate", model, data, "--target", "kind")
        predicted = table_of(shell("predict", model, data, "--scores").stdout)
        assert set(predicted) == {"prediction", "score_dear"}
        assert result["accuracy"] == (predicted["prediction"] == columns["kind"]).mean()
        dear = predicted["score_dear"].astype(float) > 0
        np.testing.assert_array_equal(dear, predicted["prediction"] == "dear")
        assert [c["class"] for c in result["classes"]] == ["cheap", "dear"]
        assert np.sum(result["confusion"]) == N_ROWS
        text = shell("evaluate", model, data, "--target", "kind").stdout
        assert "balanced accuracy" in text
        assert "Confusion" in text


def test_scores_has_one_column_per_class(fitted, shell):
    data, model = fitted("a.csv", "--target", "colour", chosen=("size", "weight", "colour"))
    predicted = table_of(shell("predict", model, data, "--scores").stdout)
    scores = np.array([predicted[f"score_{c}"] for c in ("blue", "green", "red")]).astype(float)
    best = np.array(["blue", "green", "red"])[scores.argmax(axis=0)]
    np.testing.assert_array_equal(best, predicted["prediction"])


def test_task_is_inferred_from_labels(write, shell, tmp_path):
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
        result = shell.json("fit", data, "-m", tmp_path / "m", "--task", asked, *QUICK)
        assert result["task"] == expected
        shell.json("evaluate", tmp_path / "m", data)


def test_integer_classes_are_written_as_integers(write, shell, tmp_path):
    data = write("a.csv", ("size", "weight"), label=np.arange(N_ROWS) % 3)
    shell("fit", data, "-m", tmp_path / "m", *QUICK)
    predicted = table_of(shell("predict", tmp_path / "m", data).stdout)["prediction"]
    assert set(predicted) <= {"0", "1", "2"}


def test_numbers_can_be_declared_categorical(fitted, shell, columns, write):
    for name in ["a.csv", "a.parquet"]:
        codes = np.arange(N_ROWS) % 4 + 10
        data, model = fitted(name, "--target", "price", "--categorical", "code", code=codes)
        assert load(model).encoder_.categorical == ("code",)
        result = shell.json("evaluate", model, data, "--target", "price")
        frame = read_table(data, categorical=["code"]) if name == "a.csv" else read_table(data)
        inputs = {n: frame.column(n) for n in ("weight", "size", "code")}
        predicted = load(model).predict(type(frame)(inputs))
        np.testing.assert_allclose(np.abs(predicted - columns["price"]).mean(), result["mae"])


def test_missing_numbers_are_imputed(write, shell, tmp_path, columns):
    holes = columns["size"].copy()
    holes[::5] = np.nan
    for name in ("a.csv", "a.npz", "a.parquet"):
        data = write(name, size=holes)
        shell("fit", data, "-m", tmp_path / "m", *QUICK)
        assert np.isfinite(shell.json("evaluate", tmp_path / "m", data)["rmse"])


def test_features_option_selects_inputs_by_name(fitted, shell, write):
    data, model = fitted(
        "a.csv", "--target", "price", "--features", "weight,colour", "--weight", "size2",
        chosen=("weight", "colour", "kind", "price"), size2=np.arange(N_ROWS) % 2,
    )  # fmt: skip
    loaded = load(model)
    assert loaded.feature_names_in_.tolist() == ["weight", "colour"]
    turned = write("b.csv", ("colour", "weight"))
    assert shell("predict", model, turned).stdout == shell("predict", model, data).stdout


def test_fit_takes_scoring_folds_and_groups(write, shell, tmp_path):
    data = write("a.csv", ("size", "weight", "price"), who=np.arange(N_ROWS) % 30)
    options = "--target", "price", "-m", tmp_path / "m", *QUICK
    result = shell.json(
        "fit", data, *options, "--groups", "who", "--cv", "group", "--scoring", "r2"
    )
    assert (result["scoring"], result["cv"]) == ("'r2'", "by rule, 30 groups kept together")
    assert result["inputs"] == 2
    for text, start in (("time", "TimeSeriesSplit"), ("3", "3 folds")):
        assert shell.json("fit", data, *options, "--cv", text)["cv"].startswith(start)


def test_empty_groups_are_rejected(write, shell, tmp_path):
    who = np.where(np.arange(N_ROWS) % 3 == 0, "", "a").astype(object)
    data = write("a.csv", ("size", "weight", "price"), who=who)
    options = "--target", "price", "-m", tmp_path / "m", *QUICK
    assert "'who' of groups is empty in" in shell.error("fit", data, *options, "--groups", "who")


def test_npz_parts_are_read_by_name(shell, tmp_path, columns):
    X = np.column_stack([columns["size"], columns["weight"]])
    y, data, model = columns["price"], tmp_path / "two.npz", tmp_path / "m"
    np.savez(data, X_train=X[:100], y_train=y[:100], X_test=X[100:], y_test=y[100:])
    assert shell.json("fit", data, "-m", model, *QUICK)["rows"] == 100
    assert shell.json("evaluate", model, data)["rows"] == 20
    assert shell.json("evaluate", model, data, "--part", "train")["rows"] == 100


def test_libsvm_files_may_lack_the_last_columns(fitted, shell, tmp_path):
    _, model = fitted("a.libsvm")
    short = tmp_path / "short.libsvm"
    short.write_text("1 1:0.5\n2 1:0.1\n")
    assert shell.json("predict", model, short)["rows"] == 2


def test_models_without_names_match_columns_by_position(fitted, shell, write):
    _, model = fitted("a.npz")
    data = write("b.csv", ("size", "weight", "price"))
    result = shell.json("evaluate", model, data, "--target", "price")
    assert result["r2"] > 0.5
    assert "has 3 input columns" in shell.error("predict", model, data)


def test_kernel_option_reaches_the_model(fitted, shell):
    for kernel in ["hat", "exponential_power:0.3", "inverse_power"]:
        _, model = fitted("a.csv", "--kernel", kernel)
        name = shell.json("inspect", model)["params"]["features"]["params"]["kernel"]["name"]
        assert name == kernel.partition(":")[0]


GIVEN = ["--bandwidth", "2", "--alpha", "1e-3", "--scaling", "standard"]


def test_approximation_option_reaches_the_model(shell, write, tmp_path):
    for name in ["smooth", "fourier", "nystrom", "exact"]:
        data, model = write("a.csv"), tmp_path / "m"
        shell("fit", data, "-m", model, "--approximation", name, *GIVEN)
        assert shell.json("inspect", model)["params"]["features"] == name
        assert shell.json("evaluate", model, data)["r2"] > 0.5
        assert "parameter features" in shell("inspect", model).stdout


def test_size_and_kernel_options_reach_the_model(shell, write, tmp_path):
    data, model = write("a.csv"), tmp_path / "m"
    kernel = ["--approximation", "fourier", "--kernel", "matern:2.5", "--size", 64]
    assert shell.json("fit", data, "-m", model, *kernel, *GIVEN)["columns"] == 64
    features = shell.json("inspect", model)["params"]["features"]
    assert features["class"] == "RandomFourier"
    assert features["params"]["kernel"] == {"name": "matern", "nu": 2.5}


def test_seed_decides_the_model(write, shell, tmp_path):
    data = write("a.csv")
    files = []
    for seed in (0, 0, 1):
        shell("fit", data, "-m", tmp_path / "m", "--seed", seed, *QUICK)
        files.append((tmp_path / "m").read_bytes())
    assert files[0] == files[1] != files[2]


def test_verbose_prints_the_search(write, shell, tmp_path):
    data = write("a.csv")
    result = shell("fit", data, "-m", tmp_path / "m", "--n-grids", 8, "--verbose", "--json")
    assert "bandwidth" in result.stderr
    assert result.stdout.startswith("{")
    assert "bandwidth" not in shell("fit", data, "-m", tmp_path / "m", "--n-grids", 8).stderr


def test_fit_prints_a_summary(write, shell, tmp_path):
    data = write("a.csv", ("size", "kind"))
    text = shell("fit", data, "-m", tmp_path / "m", *QUICK).stdout
    for message in (
        "classification (the target holds text)",
        "2: cheap, dear",
        "8 random grids",
        "kB)",
    ):
        assert message in text
    assert shell.json("fit", data, "-m", tmp_path / "m", *QUICK)["target"] == "kind"


def test_inspect_prints_a_summary(fitted, shell, tmp_path):
    _, model = fitted("a.csv", chosen=("size", "weight", "kind"))
    text = shell("inspect", model).stdout
    for message in ("KernelClassifier", "2: size, weight", "2: cheap, dear", "standard", "random"):
        assert message in text
    assert ["relevance", "equal"] in [line.split() for line in text.splitlines()]
    save(RandomBinning(n_grids=4, random_state=0).fit(np.eye(9)), tmp_path / "bins")
    assert "RandomBinning" in shell("inspect", tmp_path / "bins").stdout


def test_booleans_fitted_in_python_match_their_text(shell, write, tmp_path, columns):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": columns["size"], "red": columns["colour"] == "red"})
    dear = columns["kind"] == "dear"
    model = KernelClassifier(RandomBinning(n_grids=8), bandwidth=1.0, alpha=1e-3, random_state=0)
    save(model.fit(frame, dear), tmp_path / "m")
    data = write("b.csv", ("size",), red=frame["red"].to_numpy(), dear=dear)
    result = shell.json("evaluate", tmp_path / "m", data, "--target", "dear")
    assert result["accuracy"] == model.score(frame, dear)


def test_probabilities_agree_with_their_evaluation(fitted, shell, columns):
    chosen = ("size", "weight", "kind")
    data, model = fitted("a.csv", "--target", "kind", "--loss", "logistic", chosen=chosen)
    result = shell.json("predict", model, data, "--probabilities")
    given = np.column_stack([result["probability_cheap"], result["probability_dear"]])
    np.testing.assert_allclose(given.sum(axis=1), 1.0)
    predicted = np.array(["cheap", "dear"])[given.argmax(axis=1)]
    np.testing.assert_array_equal(predicted, result["prediction"])
    evaluation, dear = shell.json("evaluate", model, data), (columns["kind"] == "dear").astype(int)
    assert evaluation["log_loss"] == pytest.approx(log_loss(dear, given))
    assert evaluation["brier"] == pytest.approx(((given - np.eye(2)[dear]) ** 2).sum(axis=1).mean())
    assert sum(part["rows"] for part in evaluation["reliability"]) == N_ROWS
    right = sum(part["rows"] * part["observed"] for part in evaluation["reliability"]) / N_ROWS
    assert right == pytest.approx(evaluation["accuracy"])
    assert "log loss" in shell("evaluate", model, data).stdout


def test_default_loss_has_probabilities(fitted, shell, tmp_path, columns):
    data, model = fitted("a.csv", "--target", "kind", chosen=("size", "weight", "kind"))
    result = shell.json("predict", model, data, "--probabilities")
    assert np.mean(np.array(result["probability_dear"])[columns["kind"] == "dear"]) > 0.6
    other = ["fit", data, "-m", tmp_path / "m", "--target", "kind", "--loss", "huber", *QUICK]
    assert "loss must be one of" in shell.error(*other)


def test_error_says_why_a_model_has_no_probabilities(write, shell, tmp_path, columns):
    data, rows = write("a.csv", ("size",)), Table({"size": columns["size"]})
    save(KernelRegressor(n_grids=8).fit(rows, columns["price"]), tmp_path / "numbers")
    message = shell.error("predict", tmp_path / "numbers", data, "--probabilities")
    assert "--probabilities is for classifiers; this model is a regressor" in message
    bare = KernelClassifier(n_grids=8, loss="squared", calibrate=False)
    save(bare.fit(rows, columns["kind"]), tmp_path / "kinds")
    message = shell.error("predict", tmp_path / "kinds", data, "--probabilities")
    assert "needs calibrate=True or --loss logistic" in message


def test_predict_writes_intervals_and_sets(write, shell, tmp_path, columns):
    data = write("a.csv", ("size", "price"))
    for name, kind, y in (
        ("numbers", KernelRegressor, columns["price"]),
        ("kinds", KernelClassifier, columns["kind"]),
    ):
        model = kind(n_grids=8, calibrate=True, random_state=0)
        save(model.fit(Table({"size": columns["size"]}), y), tmp_path / name)
    result = shell.json("predict", tmp_path / "numbers", data, "--interval", 0.8)
    inside = (result["lower"] <= columns["price"]) & (columns["price"] <= result["upper"])
    assert 0.6 < inside.mean() < 1.0
    result = shell.json("predict", tmp_path / "kinds", data, "--set", 0.9)
    chosen = np.column_stack([result["in_set_cheap"], result["in_set_dear"]])
    assert chosen[np.arange(N_ROWS), (columns["kind"] == "dear").astype(int)].mean() > 0.8
    message = shell.error("predict", tmp_path / "kinds", data, "--interval", 0.8)
    assert "--interval is for a KernelRegressor" in message
    message = shell.error("predict", tmp_path / "numbers", data, "--set", 0.8)
    assert "--set is for a KernelClassifier" in message


def test_id_columns_are_passed_through(fitted, shell, write, tmp_path):
    _, model = fitted("a.csv")
    names = np.array([f"{k:05d}" for k in range(N_ROWS)])
    data = write("b.csv", ("size", "weight"), code=names, place=np.arange(N_ROWS))
    lines = shell("predict", model, data, "--id", "code,place").stdout.splitlines()
    assert lines[0] == "code,place,prediction"
    assert [line.split(",")[:2] for line in lines[1:3]] == [["00000", "0"], ["00001", "1"]]
    assert shell.json("predict", model, write("c.parquet"), "--id", "price")["price"][0]
    assert "no column 'absent'" in shell.error("predict", model, data, "--id", "absent")


def test_decimal_commas_are_read_as_numbers(write, shell, columns):
    def spell(values):
        return np.array([f"{value:.4f}".replace(".", ",") for value in values])

    data = write("a.tsv", ("size",), size=spell(columns["size"]), price=spell(columns["size"] ** 2))
    model = data.with_name("m")
    assert shell.json("fit", data, "-m", model, "--n-grids", 64)["task"] == "regression"
    assert shell.json("evaluate", model, data)["r2"] > 0.9
    other = write("b.tsv", ("size",), size=np.array(["1,234"]))
    expected = write("c.tsv", ("size",), size=np.array(["1.234"]))
    assert shell("predict", model, other).stdout == shell("predict", model, expected).stdout


def test_unknown_class_has_probability_zero():
    result = probability_metrics(np.array([-1, 0]), np.array([[0.6, 0.4], [1.0, 0.0]]))
    assert result["log_loss"] == pytest.approx(-np.log(1e-15) / 2)
    assert result["brier"] == pytest.approx((0.36 + 0.16 + 1.0) / 2)


SPARSE_TASKS = {
    "robust": (("size", "weight", "price"), "huber", "0.5"),
    "probabilities": (("size", "weight", "kind"), "logistic", "1"),
    "three classes": (("size", "weight", "colour"), "squared_hinge", "0.5"),
}


@pytest.mark.parametrize("name", SPARSE_TASKS)
def test_l1_ratio_gives_smaller_models(name, write, shell, tmp_path):
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
    result = shell.json("predict", tmp_path / "small", data)["prediction"]
    assert result == model.predict(inputs).tolist()
    assert shell.json("evaluate", tmp_path / "small", data)["rows"] == N_ROWS
    assert shell.json("inspect", tmp_path / "small")["params"]["l1_ratio"] == float(l1_ratio)


def test_fit_prints_the_share_of_zero_weights(write, shell, tmp_path):
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
def test_id_columns_are_written_unchanged(verb, ids, write, shell, tmp_path):
    shell("fit", write("train.csv"), "-m", tmp_path / "m", *QUICK)
    data = write("new.csv", ("size", "weight"), number=np.array(ids * (N_ROWS // 3)))
    named = [tmp_path / "m"] if verb == "predict" else []
    lines = shell(verb, *named, data, "--id", "number").stdout.splitlines()
    assert [line.split(",")[0] for line in lines[1:4]] == ids


def test_id_columns_must_not_be_named_like_outputs(write, shell, tmp_path):
    for verb, name in [("predict", "prediction"), ("anomalies", "score")]:
        shell("fit", write("train.csv"), "-m", tmp_path / "m", *QUICK)
        data = write("new.csv", ("size", "weight"), **{name: np.arange(N_ROWS)})
        named = [tmp_path / "m"] if verb == "predict" else []
        assert f"--id {name}: the output has a column" in shell.error(
            verb, *named, data, "--id", name
        )


def test_models_without_names_accept_words_for_missing_values(shell, tmp_path):
    for word in ["", "NA", "\\N"]:
        X = np.random.default_rng(0).normal(size=(60, 1))
        np.savez(tmp_path / "train.npz", X=X, y=X[:, 0])
        shell("fit", tmp_path / "train.npz", "-m", tmp_path / "m", *QUICK)
        (tmp_path / "new.csv").write_text(f"a\n{word}\n{word}\n{word}\n")
        assert len(shell("predict", tmp_path / "m", tmp_path / "new.csv").stdout.split()) == 4
