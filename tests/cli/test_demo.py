"""The demonstration, with and without matplotlib, and the list of data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gramless import load
from gramless.cli import demo_methods, figures
from gramless.cli.demo_methods import Photograph, digits_methods


@pytest.fixture
def few_digits():
    return demo_methods.load_digits(0)[0].head(150)


@pytest.fixture
def small_photograph():
    colours = demo_methods.load_photograph(0).colours[100:160, 200:280]
    return Photograph(colours, np.arange(0, 4800, 9))


def test_photograph_divides_pixels_into_known_and_unknown():
    photograph = demo_methods.load_photograph(3)
    assert photograph.colours.shape == (427, 640, 3)
    assert 0.0 <= photograph.colours.min() < photograph.colours.max() <= 1.0
    assert len(photograph.known) == 27_328
    assert len(photograph.known) + len(photograph.unknown) == 273_280
    places, colours = photograph.rows(np.array([0, 639, 640]))
    np.testing.assert_array_equal(places, [[0, 0], [0, 639], [1, 0]])
    np.testing.assert_array_equal(colours[2], photograph.colours[1, 0])
    truth = photograph.rows(photograph.unknown)[1]
    np.testing.assert_array_equal(photograph.fill_unknown(truth), photograph.colours)
    assert (photograph.fill_unknown(7.0).reshape(-1, 3)[photograph.unknown] == 1.0).all()


@pytest.mark.slow
def test_demo_reports_accurate_models_and_saves_them(
    shell, tmp_path, monkeypatch, small_photograph
):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo_methods, "load_photograph", lambda seed: small_photograph)
    monkeypatch.setattr("gramless.warmup", lambda n_jobs: None)
    splits = demo_methods.load_digits(0)[:2]
    monkeypatch.setattr(demo_methods, "load_digits", lambda seed: splits)
    result = shell.json("demo", "--out", tmp_path / "deep" / "demo")
    colours, digits = result["photograph"]["methods"], result["digits"]["methods"]
    assert [method["name"] for method in (colours[0], digits[0])] == ["gramless, defaults"] * 2
    assert (len(colours), len(digits)) == (4, 3)
    assert all(15 < method["psnr"] < 45 for method in colours)
    assert all(0 <= method["error"] < 0.03 for method in digits)
    assert digits[0]["error"] <= digits[1]["error"] + 2 / 360
    assert all(method["n_bytes"] > 1000 for method in digits)
    assert result["digits"]["training_rows"] + result["digits"]["test_rows"] == 1797
    for picture in ("photograph_picture", "digits_picture"):
        assert Path(result[picture]).stat().st_size > 10_000
    model = load(result["digits_model"])
    assert 0.98 < model.score(splits[1].X_test, splits[1].y_test) <= 1.0
    places, truth = small_photograph.rows(small_photograph.unknown)
    predicted = np.clip(load(result["photograph_model"]).predict(places), 0, 1)
    assert colours[0]["error"] == pytest.approx(np.mean((predicted - truth) ** 2))


@pytest.mark.slow
def test_demo_prints_a_summary_and_writes_files(
    shell, tmp_path, few_digits, small_photograph, monkeypatch
):
    monkeypatch.setattr(demo_methods, "load_digits", lambda seed: [few_digits])
    monkeypatch.setattr(demo_methods, "load_photograph", lambda seed: small_photograph)
    monkeypatch.setattr("gramless.warmup", lambda n_jobs: None)
    result = shell("demo", "--out", tmp_path)
    for name in ("photograph.png", "photograph.gramless", "digits.png", "digits.gramless"):
        assert (tmp_path / name).exists()
    messages = (
        "534 pixels known",
        "150 training digits",
        "SVC",
        "PSNR",
        "once per installation",
    )
    for message in messages:
        assert message in result.stdout


def test_picture_of_digits_shows_mistakes_first(few_digits, monkeypatch):
    entries = [enter() for enter in digits_methods([few_digits]).values()]
    shown = []
    monkeypatch.setattr("matplotlib.axes.Axes.imshow", lambda axes, image, **_: shown.append(image))
    figures.draw_digits(few_digits, entries)
    wrong = entries[0].model.predict(few_digits.X_test) != few_digits.y_test
    firsts = {image.tobytes() for image in shown[: wrong.sum()]}
    assert {row.tobytes() for row in few_digits.X_test[wrong]} >= firsts
    assert len(shown) == 15
