"""The demonstration, with and without matplotlib, and the list of data sets."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from gramless import KernelClassifier, load
from gramless.cli import contest, picture


def test_demo(shell, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(contest, "_COMPONENTS", 200)
    monkeypatch.setattr(contest, "_RIDGES", (0.1,))
    monkeypatch.setattr(contest, "KernelClassifier", partial(KernelClassifier, n_grids=64))
    found = shell.json("demo", "--out", tmp_path / "deep" / "demo")
    names = [method["name"] for method in found["methods"]]
    assert names[0] == "gramless, defaults"
    assert len(names) == 3
    assert all(0 <= method["error"] < 0.1 for method in found["methods"])
    assert all(method["n_bytes"] > 1000 for method in found["methods"])
    assert found["training_rows"] + found["test_rows"] == 1797
    assert (tmp_path / "deep" / "demo" / "demo.png").stat().st_size > 10_000
    digits = contest.load_digits(0)
    model = load(found["model"])
    accuracy = model.score(digits.X_test, digits.y_test)
    assert found["methods"][0]["error"] == pytest.approx(1 - accuracy)


@pytest.fixture
def few_digits(monkeypatch):
    digits = contest.load_digits(0)
    few = contest.Digits(*(part[:150] for part in vars(digits).values()))
    monkeypatch.setattr(contest, "load_digits", lambda seed: few)
    monkeypatch.setattr(contest, "METHODS", dict(list(contest.METHODS.items())[:2]))
    monkeypatch.setattr(contest, "compile_loops", lambda *_: 1.5)
    monkeypatch.setattr(contest, "KernelClassifier", partial(KernelClassifier, n_grids=16))
    return few


@pytest.mark.slow
def test_demo_in_words(shell, tmp_path, few_digits):
    result = shell("demo", "--out", tmp_path)
    assert (tmp_path / "demo.png").exists()
    assert (tmp_path / "model.gramless").exists()
    for said in ("150 digits to learn from", "SVC", "chosen", "1.5 s; only the first run"):
        assert said in result.stdout


def test_the_picture_shows_mistakes_first(tmp_path, few_digits, monkeypatch):
    entries = [enter(few_digits, 0, None) for enter in contest.METHODS.values()]
    shown = []
    monkeypatch.setattr("matplotlib.axes.Axes.imshow", lambda axes, image, **_: shown.append(image))
    picture.draw(tmp_path / "p.png", few_digits, entries)
    wrong = entries[0].model.predict(few_digits.X_test) != few_digits.y_test
    firsts = {image.tobytes() for image in shown[: wrong.sum()]}
    assert {row.tobytes() for row in few_digits.X_test[wrong]} >= firsts
    assert len(shown) == 15


def test_the_warm_up_takes_no_longer_the_second_time(monkeypatch):
    monkeypatch.setattr(contest, "_WARM_UP_ROWS", 100)
    monkeypatch.setattr(contest, "KernelClassifier", partial(KernelClassifier, n_grids=16))
    assert contest.compile_loops(contest.load_digits(0), 0, None) < 60


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
