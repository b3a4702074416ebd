"""The page of ``gramless explain``, its pictures, and what it refuses."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from gramless import (
    KernelClassifier,
    KernelRegressor,
    KernelSurvival,
    RandomBinning,
    load,
    save,
)
from gramless.cli.pages import COLOURS
from gramless.inspection.explanation import grid_use

from .conftest import N_ROWS, QUICK

SVG = "{http://www.w3.org/2000/svg}"
TEXT = ("size", "colour", "price")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def explained(shell, write, tmp_path):
    """Fit what the test names, explain it, and return (page, root of the page, document)."""

    def explain(*options, name="a.csv", target=(), **columns):
        data, model, out = write(name, **columns), tmp_path / "m.gramless", tmp_path / "page.html"
        if not model.exists():
            shell("fit", data, "-m", model, *target, *QUICK, *options)
        document = shell.json("explain", model, "--data", data, "-o", out, *target)
        return out.read_text(), ET.parse(out).getroot(), document

    return explain


def words(root) -> str:
    return " ".join("".join(root.itertext()).split())


def pictures(root) -> dict[str, ET.Element]:
    """Return charts by their captions; those without one by their label."""
    return {
        words(one.find("figcaption") if one.find("figcaption") is not None else one): one
        for one in root.iter("figure")
    }


def tables(root) -> dict[str, dict[str, list[str]]]:
    """Return the cells of each row of each table, by its caption or its first heads."""
    result = {}
    for table in root.iter("table"):
        caption, heads = table.find("caption"), [head.text for head in table.iter("th")]
        name = heads[0] if caption is None else caption.text
        rows = [one for one in table.iter("tr") if one.find("th[@scope='row']") is not None]
        result[name] = {row[0].text: [words(cell) for cell in row[1:]] for row in rows}
    return result


def texts(picture) -> list[str]:
    return [words(element) for element in picture.iter(f"{SVG}text")]


def marks(picture, colour: str = "") -> int:
    """Return the number of marks, ticks and points, of a colour."""
    return sum(colour in mark.get("style") for mark in picture.iter(f"{SVG}use"))


HEADINGS = [
    "How good are the predictions?",
    "Which inputs drive them?",
    "How do they depend on the inputs?",
    "Where do they fail?",
    "Some rows, one by one",
    "How was the model selected?",
]


def check_page(text: str, root) -> None:
    assert [heading.text for heading in root.iter("h2")] == HEADINGS
    assert "http" not in text.replace("http://www.w3.org/", "")
    assert not [element for element in root.iter() if element.tag in ("script", "link", "img")]
    assert "nan" not in words(root).lower().split()
    levels = [int(one.tag[1]) for one in root.iter() if re.fullmatch("h[1-6]", str(one.tag))]
    assert levels[0] == 1
    assert max(np.diff(levels)) <= 1
    assert root.find(".//details/summary/h2").text == HEADINGS[-1]
    assert all("scope" in head.attrib for head in root.iter("th"))
    for figure in root.iter("figure"):
        assert figure.find(f"{SVG}svg").get("aria-label")
        assert len({mark.get("x") for mark in figure.iter(f"{SVG}use")}) > 1


# The page.


@pytest.mark.parametrize(
    "name",
    ["a.csv", *(pytest.param(name, marks=pytest.mark.slow) for name in ("a.npz", "a.libsvm"))],
)
def test_page_of_a_regressor_agrees_with_evaluate(name, explained, shell, tmp_path, write):
    text, root, document = explained(name=name)
    check_page(text, root)
    evaluation = shell.json("evaluate", tmp_path / "m.gramless", write(name))
    assert document["rmse"] == evaluation["rmse"]
    assert f"{evaluation['rmse']:.4g}" in words(root)
    assert document["shuffled_error"] == pytest.approx(evaluation["rmse"])
    assert list(document["importance"].values()) == sorted(document["importance"].values())[::-1]
    assert min(document["importance"].values()) > 0.1
    assert document["bytes"] == (tmp_path / "page.html").stat().st_size
    names = ["size", "weight"] if name == "a.csv" else ["x1", "x2"]
    assert sorted(document["importance"]) == names
    assert list(tables(root)["input"]) == list(document["importance"])
    assert {*names, "Actual against predicted values, 120 rows"} <= set(pictures(root))
    assert "Nothing was searched" in words(root)
    scores = tables(root)["predicted by"]
    assert list(scores) == ["this model", "a linear model", "a constant (the mean)"]
    assert document["scores"]["this model"]["RMSE"] == pytest.approx(evaluation["rmse"])
    errors = [each["RMSE"] for each in document["scores"].values()]
    assert errors == sorted(errors)
    assert [one.text.partition(": ")[2] for one in root.iter("h3") if "Row" in one.text] == [
        *("typical", "typical", "best", "worst", "worst", "worst")
    ]


@pytest.mark.slow
def test_page_is_reproducible(explained):
    assert explained()[0] == explained()[0]


@pytest.mark.slow
def test_text_columns_are_shuffled_as_one_input(explained, shell, write, tmp_path):
    text, root, document = explained(chosen=TEXT)
    check_page(text, root)
    assert sorted(document["importance"]) == ["colour", "size"]
    # Red is dearer by one.
    colours = {name: float(cells[1]) for name, cells in tables(root)["colour"].items()}
    assert colours["red"] > max(colours["blue"], colours["green"]) + 0.3
    shown = shell(
        "explain", tmp_path / "m.gramless", "--data", write("b.csv", TEXT), "-o", "p.html"
    )
    assert "inputs that matter most" in shown.stdout


CLASSES = {
    "two, likely": (("size", "weight", "kind"), ["--loss", "logistic"], "probability of dear"),
    "three": (("size", "weight", "colour"), [], "probability of a class"),
}


@pytest.mark.parametrize("kind", CLASSES)
def test_page_of_a_classifier_agrees_with_evaluate(kind, explained, shell, tmp_path, write):
    chosen, options, what = CLASSES[kind]
    text, root, document = explained(*options, chosen=chosen)
    check_page(text, root)
    evaluation = shell.json("evaluate", tmp_path / "m.gramless", write("a.csv", chosen))
    assert document["error"] == evaluation["error"]
    assert document["error_name"] == "log loss"
    assert document["shuffled_error"] == pytest.approx(evaluation["log_loss"])
    assert f"Mean {what}" in words(root)
    classes = {"blue", "green", "red"} if "three" in kind else {"cheap", "dear"}
    shown = {text for picture in pictures(root).values() for text in texts(picture)}
    assert classes <= shown or len(classes) == 2
    counts = tables(root)["Actual class (rows) by predicted class"]
    assert {name: sum(map(int, row)) for name, row in counts.items()}.keys() == classes
    assert sum(int(count) for row in counts.values() for count in row) == N_ROWS
    assert "Always predicting the most frequent class would be wrong" in words(root)


def test_names_and_categories_are_escaped(shell, tmp_path, columns):
    odd = "<script>alert('1')</script>"
    data, model, out = (tmp_path / name for name in ("a.csv", "m", "p.html"))
    rows = [
        f"{size},{odd if price > 1 else 'a&b'},{price},{kind}"
        for size, price, kind in zip(*(columns[k] for k in ("size", "price", "kind")), strict=True)
    ]
    data.write_text("\n".join([f'{odd},pet & "co",x<y,<b>', *rows]) + "\n")
    shell("fit", data, "--target", "<b>", "-m", model, *QUICK)
    document = shell.json("explain", model, "--data", data, "--target", "<b>", "-o", out)
    text, root = out.read_text(), ET.parse(out).getroot()
    check_page(text, root)
    assert "<script" not in text
    assert {odd, 'pet & "co"', "x<y"} == set(document["importance"])
    assert {odd, 'pet & "co"', "x<y"} == set(tables(root)["input"])
    assert {odd, "x<y"} <= set(pictures(root)) | set(tables(root))
    assert f"KernelClassifier for <b>, evaluated on {N_ROWS} rows" in words(root)


def fitted_model(tmp_path, columns, model):
    """Fit to two columns without names, save, and write the rows as NPZ."""
    X, y = np.column_stack([columns["size"], columns["weight"]]), columns["price"]
    if isinstance(model, KernelClassifier):
        y = (y > 1).astype(int)
    np.savez(tmp_path / "a.npz", X=X, y=y)
    save(model.fit(X, y), tmp_path / "m")
    return ["explain", tmp_path / "m", "--data", tmp_path / "a.npz", "-o", tmp_path / "p.html"]


def binning() -> RandomBinning:
    return RandomBinning(n_grids=8)


def test_page_lists_the_best_trials(shell, tmp_path, columns):
    command = fitted_model(tmp_path, columns, KernelRegressor(binning(), random_state=0))
    shell(*command)
    text, root = (tmp_path / "p.html").read_text(), ET.parse(tmp_path / "p.html").getroot()
    check_page(text, root)
    trials = load(tmp_path / "m").search_
    assert f"{len(trials)} trials were scored" in words(root)
    (name,) = (name for name in tables(root) if name.endswith("squared error"))
    assert name.startswith(f"The best of {len(trials)}: ")
    best = sorted(trial["score"] for trial in trials)[:5]
    shown = [row[0].text for row in root.find(".//details").iter("tr")]
    scores = [float(text) for text in shown if re.fullmatch(r"[\d.]+", text)]
    assert scores == [float(f"{score:.4g}") for score in best]
    assert "best on validation rows" in words(root)


@pytest.mark.slow
def test_page_has_one_table_per_search_stage(shell, tmp_path, columns):
    made = KernelClassifier(binning(), loss="logistic", bandwidth=2.0, random_state=0)
    shell(*fitted_model(tmp_path, columns, made))
    root = ET.parse(tmp_path / "p.html").getroot()
    captions = [name for name in tables(root) if "grids," in name]
    assert [name.rpartition(", ")[2] for name in captions] == ["wrong classes", "logistic loss"]
    counts = [int(re.match(r"The best of (\d+):", name)[1]) for name in captions]
    assert sum(counts) == len(load(tmp_path / "m").search_)


@pytest.mark.slow
def test_page_shows_a_single_trial(shell, tmp_path, columns):
    command = fitted_model(tmp_path, columns, KernelRegressor(binning(), random_state=0))
    model = load(tmp_path / "m")
    model.search_ = model.search_[:1]
    save(model, tmp_path / "m")
    shell(*command)
    root = ET.parse(tmp_path / "p.html").getroot()
    check_page((tmp_path / "p.html").read_text(), root)
    assert "1 trial was scored" in words(root)


def test_page_says_that_few_rows_are_not_searched(shell, tmp_path, columns):
    few = {key: values[:30] for key, values in columns.items()}
    shell(*fitted_model(tmp_path, few, KernelRegressor(binning(), random_state=0)))
    assert "by rule: too few rows to compare" in words(ET.parse(tmp_path / "p.html").getroot())


def given() -> KernelRegressor:
    options = {"bandwidth": 2.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}
    return KernelRegressor(binning(), **options)


@pytest.mark.slow
def test_page_prefers_the_curve_of_the_best_trial(shell, tmp_path, columns):
    command = fitted_model(tmp_path, columns, given())
    shell(*command)
    assert "The objective on the training rows" in (tmp_path / "p.html").read_text()
    model = load(tmp_path / "m")
    trial = {"scaling": "standard", "bandwidth": None, "alpha": 1e-3, "relevance": "equal"}
    trial |= {"score": 0.3, "n_iter": 10, "n_rows": 90, "size": 8, "seconds": 0.1}
    model.search_ = [trial | {"curve": [0.5, 0.4, 0.3]}]
    save(model, tmp_path / "m")
    shell(*command)
    root = ET.parse(tmp_path / "p.html").getroot()
    check_page((tmp_path / "p.html").read_text(), root)
    assert "The score of the best trial" in words(root)
    curve = next(one for one in root.iter("figure") if "iteration" in texts(one))
    assert marks(curve, COLOURS[0]) == 3


def test_page_draws_stages_of_growth(shell, tmp_path, columns):
    command = fitted_model(tmp_path, columns, given())
    model = load(tmp_path / "m")
    model.growth_ = [
        {"n_grids": 32 * 2**k, "score": 0.5 / (k + 1), "alpha": 1e-3, "seconds": 0.1}
        for k in range(4)
    ]
    save(model, tmp_path / "m")
    shell(*command)
    root = ET.parse(tmp_path / "p.html").getroot()
    check_page((tmp_path / "p.html").read_text(), root)
    assert "4 stages. The error on validation rows went from 0.5 to 0.125" in words(root)
    curve = next(one for one in root.iter("figure") if "grids" in texts(one))
    assert marks(curve, COLOURS[0]) == 4


@pytest.mark.parametrize("most", [12, 1])
def test_page_names_pairs_that_grids_use(most, shell, tmp_path, columns, monkeypatch):
    command = fitted_model(tmp_path, columns, given())
    uses = np.array([[True, True]] * 3 + [[True, False]] * 5)
    use = grid_use(uses, np.ones(8), most)
    monkeypatch.setattr("gramless.cli.explanation_findings.model_grid_use", lambda model, X: use)
    document = shell.json(*command)
    root = ET.parse(tmp_path / "p.html").getroot()
    check_page((tmp_path / "p.html").read_text(), root)
    assert "each over 1.4 inputs on average" in words(root)
    if most == 1:
        assert "No grid of few inputs divides two of them" in words(root)
    else:
        assert document["pairs"] == [["x1", "x2", 0.375]]
        assert "x1 × x2 (38%)" in words(root)


def test_page_shuffles_the_30_most_promising_inputs(shell, tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 40))
    np.savez(tmp_path / "a.npz", X=X, y=X[:, 33] + 2.0 * X[:, 7])
    shell(
        "fit", tmp_path / "a.npz", "-m", tmp_path / "m", *QUICK[:2], "--bandwidth", "20", *QUICK[4:]
    )
    out = tmp_path / "p.html"
    result = shell.json("explain", tmp_path / "m", "--data", tmp_path / "a.npz", "-o", out)
    assert len(result["importance"]) == 30
    assert {"x8", "x34"} <= set(result["importance"])
    assert "Of 40 inputs, only the 30 most promising were shuffled" in words(
        ET.parse(out).getroot()
    )


@pytest.mark.parametrize(
    "case",
    ["one row", "constant", "huge", pytest.param("wide and sparse", marks=pytest.mark.slow)],
)
def test_degenerate_tables_have_pages(case, shell, tmp_path, columns):
    command = fitted_model(tmp_path, columns, given())
    X, y = np.column_stack([columns["size"], columns["weight"]]), columns["price"]
    if case == "one row":
        X, y = X[:1], y[:1]
    if case == "constant":
        X, y = np.zeros((30, 2)), np.ones(30)
    if case == "huge":
        X, y = 1e200 * X, 1e150 * y
        save(given().fit(X, y), tmp_path / "m")
    if case == "wide and sparse":
        X = sp.random(60, 1200, 0.01, "csr", random_state=0)
        y = np.asarray(X.sum(axis=1)).ravel()
        save(given().fit(X, y), tmp_path / "m")
        command[3] = tmp_path / "a.libsvm"
        dump_svmlight_file(X, y, str(command[3]), zero_based=False)
    else:
        np.savez(tmp_path / "a.npz", X=X, y=y)
    shell(*command)
    text, root = (tmp_path / "p.html").read_text(), ET.parse(tmp_path / "p.html").getroot()
    check_page(text, root)


def test_json_contains_learned_relevance(shell, tmp_path, columns):
    command = fitted_model(tmp_path, columns, given())
    model = load(tmp_path / "m")
    model.relevance_ = np.array([1.5, 0.25])
    save(model, tmp_path / "m")
    assert shell.json(*command)["relevance"] == {"x1": 1.5, "x2": 0.25}


@pytest.mark.slow
def test_page_of_quantiles_shows_coverage(shell, tmp_path, columns):
    model = given().set_params(loss="quantile", quantile=[0.1, 0.5, 0.9], calibrate=True)
    document = shell.json(*fitted_model(tmp_path, columns, model))
    root = ET.parse(tmp_path / "p.html").getroot()
    check_page((tmp_path / "p.html").read_text(), root)
    assert document["error_name"] == "pinball loss"
    shown = {text for picture in pictures(root).values() for text in texts(picture)}
    assert {"quantile 0.1", "quantile 0.5", "quantile 0.9"} <= shown
    assert "Share of rows below each predicted quantile" in pictures(root)
    assert list(tables(root)["Prediction intervals"]) == ["50%", "80%", "90%", "95%"]


def test_effects_sum_to_the_prediction(shell, tmp_path, columns):
    shell(*fitted_model(tmp_path, columns, given()))
    root = ET.parse(tmp_path / "p.html").getroot()
    base = float(re.search(r"from its mean, (\S+)\. ", words(root))[1])
    for card in root.iter("article"):
        predicted = float(re.match(r"predicted (\S+),", card.find("p").text)[1])
        effects = [float(row[2].text) for row in card.find(".//tbody")]
        assert base + sum(effects) == pytest.approx(predicted, abs=0.02)


def test_page_lists_the_worst_groups(shell, tmp_path, columns):
    command = fitted_model(tmp_path, columns, given())
    X = np.random.default_rng(0).normal(size=(600, 2))
    y = load(tmp_path / "m").predict(X) + np.random.default_rng(1).normal(size=600)
    np.savez(tmp_path / "a.npz", X=X, y=np.where(X[:, 0] > 0.7, y + 9.0, y))
    groups = [one["group"] for one in shell.json(*command)["worst_groups"]]
    rows = tables(ET.parse(tmp_path / "p.html").getroot())["group"]
    assert list(rows) == ["all rows", *groups]
    assert any(name.startswith("x1 is above 0.") for name in groups)
    assert all(rows[name][2].endswith("too low") for name in groups)


# What is refused.


@pytest.fixture
def model(write, shell, tmp_path):
    shell("fit", write("a.csv"), "-m", tmp_path / "m.gramless", *QUICK)
    return tmp_path / "m.gramless"


def test_invalid_files_are_rejected(model, write, shell, tmp_path):
    data, out = write("a.csv"), tmp_path / "p.html"
    assert "no model file" in shell.error("explain", tmp_path / "no", "--data", data, "-o", out)
    assert "does not exist" in shell.error(
        "explain", model, "--data", tmp_path / "no.csv", "-o", out
    )
    assert "cannot be loaded" in shell.error("explain", data, "--data", data, "-o", out)
    save(RandomBinning(n_grids=4, random_state=0).fit(np.eye(9)), tmp_path / "bins")
    text = shell.error("explain", tmp_path / "bins", "--data", data, "-o", out)
    assert "predicts nothing" in text
    assert not out.exists()


def test_mismatched_columns_are_rejected(model, write, shell, tmp_path, columns):
    def refused(name, chosen, **changed):
        data = write(name, chosen, **changed)
        return shell.error("explain", model, "--data", data, "-o", tmp_path / "p.html")

    assert "lacks 1 of the 2 columns" in refused("b.csv", ("size", "price"))
    assert "no column 'price', the target" in refused("c.csv", ("size", "weight"))
    words = refused("d.csv", ("size", "weight"), price=columns["kind"])
    assert "the target holds text" in words
    assert "'weight' held numbers" in refused("e.csv", ("size", "price"), weight=columns["colour"])
    assert not (tmp_path / "p.html").exists()


def test_several_outputs_are_rejected(shell, tmp_path, columns):
    command = fitted_model(tmp_path, columns, given())
    X, y = np.load(tmp_path / "a.npz")["X"], columns["price"]
    save(given().fit(X, np.column_stack([y, -y])), tmp_path / "m")
    assert "predicts 2 numbers a row" in shell.error(*command)


def test_survival_models_are_rejected(shell, tmp_path, columns):
    model = KernelSurvival(binning(), bandwidth=2.0, alpha=1e-3, scaling="standard")
    assert "takes regressors" in shell.error(
        *fitted_model(tmp_path, columns | {"price": np.exp(columns["price"])}, model)
    )


def test_output_path_is_checked_first(model, write, shell, tmp_path):
    data = write("a.csv")
    head = ["explain", model, "--data", data, "-o"]
    assert "there is no folder" in shell.error(*head, tmp_path / "absent" / "p.html")
    assert "is a folder" in shell.error(*head, tmp_path)
    assert "is the data" in shell.error(*head, data)
    assert "is the model" in shell.error(*head, model)
    shell.error("explain", model, "--data", data, code=2)
    shell.error("explain", model, "-o", "p.html", code=2)


def test_failed_write_keeps_the_old_page(model, write, shell, tmp_path, monkeypatch):
    out = tmp_path / "p.html"
    out.write_text("old")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.replace", refuse)
    before = sorted(tmp_path.iterdir())
    text = shell.error("explain", model, "--data", write("a.csv"), "-o", out, "--force")
    assert "p.html cannot be written (Permission denied)" in text
    assert out.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == sorted({*before, tmp_path / "a.csv"})
