"""The demonstration, with and without matplotlib, and the list of data sets."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from gramless import load
from gramless.cli import demo_methods, figures
from gramless.cli.demo_methods import Contest


def test_demo(shell, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    small = partial(Contest, n_grids=64, n_components=200, ridges=(0.1,))
    monkeypatch.setattr(demo_methods, "Contest", small)
    found = shell.json("demo", "--out", tmp_path / "deep" / "demo")
    names = [method["name"] for method in found["methods"]]
    assert names[0] == "gramless, defaults"
    assert len(names) == 3
    assert all(0 <= method["error"] < 0.1 for method in found["methods"])
    assert all(method["n_bytes"] > 1000 for method in found["methods"])
    assert found["training_rows"] + found["test_rows"] == 1797
    assert (tmp_path / "deep" / "demo" / "demo.png").stat().st_size > 10_000
    digits = demo_methods.load_digits(0)
    model = load(found["model"])
    accuracy = model.score(digits.X_test, digits.y_test)
    assert found["methods"][0]["error"] == pytest.approx(1 - accuracy)


@pytest.fixture
def few_digits():
    return demo_methods.load_digits(0).head(150)


@pytest.mark.slow
def test_demo_in_words(shell, tmp_path, few_digits, monkeypatch):
    monkeypatch.setattr(demo_methods, "load_digits", lambda seed: few_digits)
    monkeypatch.setattr(Contest, "compile_loops", lambda self: 1.5)
    small = partial(Contest, n_grids=16, n_components=200)
    monkeypatch.setattr(demo_methods, "Contest", small)
    result = shell("demo", "--out", tmp_path)
    assert (tmp_path / "demo.png").exists()
    assert (tmp_path / "model.gramless").exists()
    for said in ("150 digits to learn from", "SVC", "scaling", "1.5 s; only the first run"):
        assert said in result.stdout


def test_the_picture_shows_mistakes_first(few_digits, monkeypatch):
    contest = Contest(few_digits, n_grids=16)
    entries = [contest.binning(), contest.exact()]
    shown = []
    monkeypatch.setattr("matplotlib.axes.Axes.imshow", lambda axes, image, **_: shown.append(image))
    figures.draw_demo(few_digits, entries)
    wrong = entries[0].model.predict(few_digits.X_test) != few_digits.y_test
    firsts = {image.tobytes() for image in shown[: wrong.sum()]}
    assert {row.tobytes() for row in few_digits.X_test[wrong]} >= firsts
    assert len(shown) == 15


def test_the_warm_up_takes_no_longer_the_second_time():
    contest = Contest(demo_methods.load_digits(0), n_grids=16, warm_up_rows=100)
    assert contest.compile_loops() < 60


def test_data_sets_are_listed(shell, tmp_path):
    np.savez(tmp_path / "mine.npz", X=np.eye(10), y=np.arange(10) % 2)
    found = shell.json("datasets", "--folder", tmp_path)
    assert found["folder"] == str(tmp_path)
    here = {entry["name"] for entry in found["datasets"] if entry["present"]}
    assert here == {"mine"}
    assert "covtype" in shell("datasets", "--folder", tmp_path).stdout


def test_one_data_set(shell, tmp_path):
    np.savez(tmp_path / "mine.npz", X=np.eye(10), y=np.arange(10) % 2)
    found = shell.json("datasets", "mine", "--folder", tmp_path)
    assert (found["training_rows"], found["test_rows"], found["columns"]) == (8, 2, 10)
    assert "test rows" in shell("datasets", "mine", "--folder", tmp_path).stdout
    assert "No data set 'yours'" in shell.error("datasets", "yours", "--folder", tmp_path)
    assert "downloads are off" in shell.error("datasets", "covtype", "--folder", tmp_path)


def test_a_download_is_asked_for(shell, tmp_path, monkeypatch):
    asked = []

    def fetch(url, target, sha256, progress):
        progress("covtype.bz2", 5, 10)
        progress("covtype.bz2", 10, None)
        asked.append(url)
        raise ValueError("enough")

    monkeypatch.setattr("gramless.datasets.registry.fetch_file", fetch)
    assert "enough" in shell.error("datasets", "covtype", "--folder", tmp_path, "--download")
    assert len(asked) == 1
