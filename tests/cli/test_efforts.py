"""Commands with smooth kernels and with efforts."""

from __future__ import annotations

import numpy as np
import pytest

from gramless import load


@pytest.fixture
def wavy(tmp_path):
    """Return a table whose target is smooth, and classes."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(1500, 3))
    y = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.05 * rng.normal(size=1500)
    path = tmp_path / "t.csv"
    names, kinds = "a,b,c,y,k", ["%.6f"] * 4 + ["%d"]
    np.savetxt(path, np.c_[X, y, y > 0], kinds, delimiter=",", header=names, comments="")
    return path


def fit(shell, data, target, *options):
    model = data.with_name("m")
    given = ("--target", target, "--features", "a,b,c", "-m", model)
    return model, shell.json("fit", data, *given, *options)


def test_fit_and_inspect_name_smooth_kernels(shell, wavy, tmp_path):
    model, document = fit(shell, wavy, "y", "--effort", 2, "--n-grids", 40)
    assert (document["features"], document["grids"]) == ("JoinedMaps", 40)
    given = ("--target", "y", "--features", "a,b,c", "-m", model)
    printed = shell("fit", wavy, *given, "--effort", 2, "--n-grids", 40).stdout
    assert "40 grown grids" in printed
    assert "Nystrom" in printed
    inspected = shell("inspect", model).stdout
    assert "fullest bin" in inspected
    assert "effort" in inspected
    shell("inspect", model, "--data", wavy, "--picture", tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 0


@pytest.mark.slow
def test_explain_names_pairs_that_smooth_kernels_use(shell, wavy, tmp_path):
    model, _ = fit(shell, wavy, "y", "--effort", 2, "--n-grids", 40)
    document = shell.json("explain", model, "--data", wavy, "-o", tmp_path / "e.html")
    first, second, weight = document["pairs"][0]
    assert (first, second) == ("a", "b")
    assert weight > 0.5
    assert "40 grids" in (tmp_path / "e.html").read_text()


def test_default_loss_depends_on_the_task(shell, wavy):
    model, document = fit(shell, wavy, "k", "--effort", 1)
    assert document["loss"] == "logistic"
    assert load(model).effort == 1
    assert fit(shell, wavy, "k", "--effort", 1, "--loss", "squared")[1]["loss"] == "squared"
    assert fit(shell, wavy, "y", "--effort", 1)[1]["loss"] == "squared"


def test_effort_must_be_from_1_to_5(shell, wavy):
    for effort in ["0", "6", "much"]:
        shell.error("fit", wavy, "--target", "y", "-m", "m", "--effort", effort, code=2)
