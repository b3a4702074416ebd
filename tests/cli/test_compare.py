"""gramless compare: what judges, what is told and drawn, and what is refused."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from gramless.cli import compare as verb
from gramless.cli.figures import draw_comparison
from gramless.features.registry import FEATURE_MAPS
from gramless.inspection import comparison
from gramless.inspection.comparison import Chosen, Comparison, Outcome
from gramless.inspection.kernel_errors import KernelErrors

from .conftest import N_ROWS

LITTLE = ["--memory", "4kB", "--methods", "binning"]


@pytest.fixture(autouse=True)
def given(request, monkeypatch):
    """Give every method its settings, so that nothing is searched."""
    if "searched" in request.fixturenames:
        return
    settings = {"scaling": "standard", "bandwidth": 2.0, "alpha": 1e-3}

    def choose(method, feature_map, split, seconds):
        model = split.estimator(feature_map.sketch(8), **settings).fit(split.X, split.y)
        return Chosen(method, feature_map, *settings.values(), 0.1, model)

    monkeypatch.setattr(comparison, "choose", choose)


@pytest.fixture
def searched():
    """Let settings be searched."""


def test_a_fifth_of_the_rows_judges(write, shell, columns):
    found = shell.json("compare", write("a.csv"), *LITTLE)
    assert (found["rows"], found["test_rows"], found["task"]) == (96, 24, "regression")
    order = np.random.RandomState(0).permutation(N_ROWS)
    train, test = order[:96], order[96:]
    X = np.column_stack([columns["size"], columns["weight"]])
    y = columns["price"]
    expected = comparison.compare(
        X[train], y[train], X[test], y[test], task="regression", methods=["binning"],
        by="memory", budget=4000,
    )  # fmt: skip
    errors = [outcome["error"] for outcome in found["outcomes"]]
    assert errors == [outcome.error for outcome in expected.outcomes]
    assert (found["by"], found["budget"], found["left_out"]) == ("memory", 4000.0, {})


def test_the_test_part_judges(shell, tmp_path, columns):
    X, y = np.column_stack([columns["size"], columns["weight"]]), columns["price"]
    np.savez(tmp_path / "a.npz", X_train=X[:100], y_train=y[:100], X_test=X[100:], y_test=y[100:])
    found = shell.json("compare", tmp_path / "a.npz", *LITTLE)
    assert (found["rows"], found["test_rows"]) == (100, 20)
    holes = X.copy()
    holes[::7, 0] = np.nan
    np.savez(tmp_path / "b.npz", X_train=holes, y_train=y, X_test=X, y_test=y)
    found = shell.json("compare", tmp_path / "b.npz", *LITTLE)
    assert (found["rows"], found["test_rows"]) == (N_ROWS, N_ROWS)


def test_the_document_is_whole(write, shell):
    found = shell.json(
        "compare", write("a.csv"), "--memory", "60kB", "--methods", "fourier,binning"
    )
    assert [one["method"] for one in found["chosen"]] == ["fourier", "binning"]
    assert {one["method"] for one in found["best"]} <= {"fourier", "binning"}
    reference = found["reference"]
    fourier = [one for one in found["outcomes"] if one["method"] == "fourier"]
    assert reference["error"] == min(one["error"] for one in fourier)
    own = found["reached"][0]
    assert (own["method"], own["n_bytes"]) == ("fourier", reference["n_bytes"])
    assert [one["size"] for one in found["kernel"]["binning"]["errors"]][:4] == [8, 16, 32, 64]
    assert 0 < found["kernel"]["binning"]["effective_dimension"] < 96
    assert set(found["seconds"]) == {"read", "compare", "kernel"}


def test_what_people_are_told(write, shell):
    data = write("a.csv", ("size", "weight", "colour", "kind"))
    text = shell("compare", data, "--memory", "20kB", "--methods", "binning,fourier").stdout
    for said in (
        "classification (the target holds text)",
        "96 to learn from, 24 to judge",
        "laplacian",
        "gaussian",
        "within 20.0 kB a fit",
        " grids │",
        "Fourier",
        "of its bytes",
        "4,560 pairs",
        "Hoeffding",
    ):
        assert said in " ".join(text.split())
    alone = shell("compare", data, *LITTLE).stdout
    assert "Fourier" not in alone


@pytest.fixture
def one_size(monkeypatch):
    climb = comparison.climb
    monkeypatch.setattr(comparison, "climb", lambda *given: islice(climb(*given), 1))


def test_every_method_by_default(write, shell, one_size):
    found = shell.json("compare", write("a.csv"))
    assert (found["by"], found["budget"]) == ("time", 2.0)
    assert [one["method"] for one in found["chosen"]] == list(FEATURE_MAPS)
    assert len(found["outcomes"]) == len(FEATURE_MAPS)


def test_settings_are_searched(searched, write, shell):
    (chosen,) = shell.json("compare", write("a.csv"), *LITTLE)["chosen"]
    assert chosen["bandwidth"] > 0
    assert chosen["seconds"] > 0


def test_what_is_left_out_and_why(write, shell, monkeypatch):
    monkeypatch.setattr(comparison, "why_left_out", lambda *_: "too many rows")
    found = shell.json("compare", write("a.csv"), *LITTLE)
    assert found["left_out"] == {"binning": "too many rows"}
    assert found["reference"] is None
    text = shell("compare", write("a.csv"), *LITTLE).stdout
    assert "without binning" in text
    assert "too many rows" in text


def test_the_exact_kernel_of_many_rows_must_be_asked_for(write, shell):
    tried, left_out = verb._methods(None, 10_001)
    assert list(tried) == [name for name in FEATURE_MAPS if name != "exact"]
    assert "10,001 rows would take minutes" in left_out["exact"]
    assert verb._methods(["exact"], 10_001) == (["exact"], {})
    asked = shell.json("compare", write("a.csv"), "--methods", "exact")
    assert [one["size"] for one in asked["outcomes"]] == [96]


def test_what_is_beyond_the_budget_is_told(write, shell):
    found = shell.json("compare", write("a.csv"), "--memory", 9, "--methods", "binning")
    assert found["best"] == []
    text = shell("compare", write("a.csv"), "--memory", 9, "--methods", "binning").stdout
    assert "beyond the budget binning, 8 grids: 0." in " ".join(text.split())


def test_sparse_files_and_targets_by_name(write, shell):
    assert shell.json("compare", write("a.libsvm"), *LITTLE)["rows"] == 96
    data = write("a.csv", ("size", "kind", "weight"))
    assert shell.json("compare", data, *LITTLE, "--target", "kind")["task"] == "classification"


def test_a_picture(write, shell, tmp_path):
    picture = tmp_path / "a.svg"
    found = shell.json("compare", write("a.csv"), *LITTLE, "--picture", picture)
    assert found["picture"] == str(picture)
    assert picture.stat().st_size > 10_000


def errors_of(sizes, **changed):
    usual = {"n_columns": 9, "n_pairs": 3, "sup": 0.2, "mean": 0.1, "rms": 0.12, "seconds": 0.1}
    bounds = {"hoeffding_pair": 0.3, "hoeffding": 0.4, "claim": 3.0, "n_bytes": 10}
    return [KernelErrors(size, **{**usual, **bounds, **changed}) for size in sizes]


def found_of(errors, by="time"):
    chosen = [Chosen("binning", None, "standard", 1.0, 1.0, 1.0, None)]
    outcomes = [
        Outcome("binning", 8 << k, "grids", 9, 10 << k, 0.1 * 2**k, 0.1, error)
        for k, error in enumerate(errors)
    ]
    return Comparison(by, 0.3, chosen, outcomes, {})


def test_what_is_drawn():
    figure = draw_comparison(found_of([0.5, 0.25, 0.2]), {"binning": errors_of([8, 16])})
    size, seconds, n_bytes, kernel = figure.axes
    for axes, x in ((size, [8, 16, 32]), (seconds, [0.1, 0.2, 0.4]), (n_bytes, [10, 20, 40])):
        assert axes.lines[0].get_xdata() == pytest.approx(x)
        assert axes.lines[0].get_ydata() == pytest.approx([0.5, 0.25, 0.2])
    assert [len(axes.lines) for axes in (size, seconds, n_bytes)] == [1, 2, 1]
    drawn = [line.get_ydata()[0] for line in kernel.lines[:4]]
    assert drawn == [0.2, 0.1, 0.4, 3.0]
    by_memory = draw_comparison(found_of([0.5], by="memory"), {})
    assert [len(axes.lines) for axes in by_memory.axes[:3]] == [1, 1, 2]


def test_no_error_no_bound_and_no_sizes_are_no_faults(tmp_path):
    void = errors_of([8, 16], claim=np.inf, hoeffding=None, hoeffding_pair=None)
    for errors, kernels in (([0.0, 0.0], {"binning": void}), ([0.1], {"binning": []})):
        figure = draw_comparison(found_of(errors), kernels)
        figure.savefig(tmp_path / "a.png")
        assert not kernels["binning"] or np.isnan(figure.axes[3].lines[2].get_ydata()).all()


@pytest.mark.parametrize(
    ("text", "n_bytes"), [("64MB", 64e6), ("1.5 gb", 1.5e9), ("900", 900.0), ("7kB", 7e3)]
)
def test_sizes_of_memory(text, n_bytes):
    assert verb._budget(None, text) == ("memory", n_bytes)


WRONG_USE = {
    "both": ["--time", "1", "--memory", "1MB"],
    "no size": ["--memory", "much"],
    "no unit": ["--memory", "5 parsecs"],
    "nothing": ["--memory", "0"],
    "nan": ["--memory", "nan"],
    "no time": ["--time", "0"],
    "an empty name": ["--methods", "binning,,exact"],
    "no task": ["--task", "ranking"],
}


@pytest.mark.parametrize("kind", WRONG_USE)
def test_wrong_usage_is_code_2(kind, write, shell):
    shell.error("compare", write("a.csv"), *WRONG_USE[kind], code=2)


FAULTS = {
    "no such file": (["absent.csv"], "absent.csv does not exist"),
    "no such target": (["a.csv", "--target", "cost"], "no column 'cost'"),
    "no such method": (["a.csv", "--methods", "forest"], "methods must be some of binning"),
    "few rows": (["few.csv"], "too few to hold a fifth back"),
    "no folder": (["a.csv", "--picture", "absent/a.png"], "there is no folder"),
    "no picture": (["a.csv", "--picture", "a.txt"], "a picture ends in .png"),
    "text": (["text.csv", "--task", "regression"], "regression needs numbers"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_in_one_line(kind, write, shell, tmp_path, monkeypatch):
    (name, *options), said = FAULTS[kind]
    write("a.csv")
    write("text.csv", ("size", "kind"))
    (tmp_path / "few.csv").write_text("a,y\n1,2\n2,3\n")
    monkeypatch.chdir(tmp_path)
    assert said in shell.error("compare", tmp_path / name, *options)
