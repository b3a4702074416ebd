"""The pictures of evaluate and inspect, and the numbers that inspect tells about bins."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from gramless import KernelClassifier, KernelRegressor, RandomBinning, load, save
from gramless.cli.metrics import probability_metrics, regression_metrics
from gramless.datasets import read_table
from gramless.losses import SmoothPinball

from .conftest import N_ROWS, QUICK

pytest.importorskip("matplotlib")
figures = pytest.importorskip("gramless.cli.figures")


@pytest.fixture
def fitted(shell, write, tmp_path):
    """Fit what the test names and return (data, model)."""

    def fit(*options, name="a.csv", **columns):
        data, model = write(name, **columns), tmp_path / "m.gramless"
        shell("fit", data, "--model", model, *QUICK, *options)
        return data, model

    return fit


KINDS = {"chosen": ("size", "weight", "kind")}


# The numbers of inspect.


def test_inspect_reports_diagnostics(fitted, shell):
    _, path = fitted()
    model, result = load(path), shell.json("inspect", path)["diagnostics"]
    R, D = 8, len(model.weights_)
    assert result["nu"] == pytest.approx(model.features_.nu_.mean())
    assert result["kappa"] == pytest.approx(model.features_.kappa_)
    assert result["kappa_bar"] == pytest.approx(D / R)
    for tau in (2, 8, 64):
        law = tau / (1 + (R - 1) * (tau - 1) / (D - 1))
        assert result["speedup"][str(tau)] == pytest.approx(law)
    assert result["speedup_limit"] == pytest.approx((D - 1) / (R - 1))
    expected = (model.weights_**2).sum() / (model.features_.kappa_ * R)
    assert result["error_estimate"] == pytest.approx(expected)


def test_inspect_prints_diagnostics(fitted, shell):
    _, model = fitted()
    text = " ".join(shell("inspect", model).stdout.split())
    for message in ("% of the rows, mean over grids (nu)", "(kappa bar)", "2, 8, 64 threads"):
        assert message in text
    assert "in units of the target squared above that of infinitely many grids" in text
    _, model = fitted("--loss", "logistic", **KINDS)
    assert "units of the target" not in shell("inspect", model).stdout


def test_error_estimate_of_logistic_loss_has_factor_one_quarter(fitted, shell):
    _, path = fitted("--loss", "logistic", **KINDS)
    model, result = load(path), shell.json("inspect", path)["diagnostics"]
    expected = 0.25 * (model.weights_**2).sum() / (model.features_.kappa_ * 8)
    assert result["error_estimate"] == pytest.approx(expected)


def test_error_estimate_scales_with_the_target(tmp_path, shell, columns):
    X = np.column_stack([columns["size"], columns["weight"]])
    options = {"bandwidth": 2.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}
    results = []
    for unit in (1.0, 64.0):
        model = KernelRegressor(RandomBinning(n_grids=8), loss="huber", **options)
        save(model.fit(X, unit * columns["price"]), tmp_path / "m")
        results.append(shell.json("inspect", tmp_path / "m")["diagnostics"]["error_estimate"])
    assert results[1] == pytest.approx(64.0**2 * results[0], rel=1e-6)


def test_feature_maps_and_quantiles_have_no_error_estimate(tmp_path, shell, columns):
    X = columns["size"][:, None]
    save(RandomBinning(n_grids=4, random_state=0).fit(X), tmp_path / "bins")
    options = {"bandwidth": 2.0, "alpha": 1e-3, "scaling": "standard"}
    model = KernelRegressor(RandomBinning(n_grids=4), loss=SmoothPinball(0.9), **options)
    save(model.fit(X, columns["price"]), tmp_path / "quantile")
    for name in ("bins", "quantile"):
        result = shell.json("inspect", tmp_path / name)["diagnostics"]
        assert result["error_estimate"] is None
        assert result["kappa"] >= 1
        assert "theorem 1" not in shell("inspect", tmp_path / name).stdout


# The picture of inspect.


@pytest.mark.parametrize(
    "name", ["a.csv", "a.libsvm", pytest.param("a.npz", marks=pytest.mark.slow)]
)
def test_inspect_draws_the_bins_of_rows(name, fitted, shell, tmp_path):
    data, model = fitted(name=name)
    out = tmp_path / "bins.svg"
    result = shell.json("inspect", model, "--data", data, "--picture", out)
    assert result["picture"] == str(out)
    root = ET.parse(out).getroot()
    images = [element for element in root.iter() if element.tag.endswith("image")]
    # Z Z', the exact kernel, and the colours between 0 and 1.
    assert len(images) == 3
    printed = shell("inspect", model, "--data", data, "--picture", out).stdout
    assert "120of120rows" in "".join(printed.split())


def test_inspect_draws_text_columns_and_ranks(write, shell, tmp_path):
    data, model = write("a.csv", ("size", "colour", "price")), tmp_path / "m"
    options = ["--n-grids", "8", "--bandwidth", "2", "--alpha", "1e-3", "--scaling", "quantile"]
    shell("fit", data, "-m", model, *options)
    shell("inspect", model, "--data", data, "--picture", tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_sparse_rows_have_the_same_exact_kernel_as_dense_ones(fitted, shell, monkeypatch, write):
    drawn = []
    draw = "gramless.inspection.pictures.draw_matrix"

    def catch(matrix, exact):
        drawn.append(exact(np.arange(20)))
        raise ValueError("seen")

    monkeypatch.setattr(draw, catch)
    _, model = fitted(name="a.npz")
    for name in ("a.npz", "a.libsvm"):
        data = write(name)
        assert "seen" in shell.error("inspect", model, "--data", data, "--picture", "a.png")
    np.testing.assert_allclose(drawn[0], drawn[1], rtol=1e-6)
    fitted_map = load(model).features_
    assert drawn[0].shape == (20, 20)
    assert fitted_map.bandwidth_.shape == (2,)


def test_inspect_needs_data_and_picture_together(fitted, shell, tmp_path):
    data, model = fitted()
    shell.error("inspect", model, "--data", data, code=2)
    assert "must be given together" in shell.error("inspect", model, "--picture", "a.png", code=2)
    save(RandomBinning(n_grids=4, random_state=0).fit(np.eye(9)), tmp_path / "bins")
    text = shell.error("inspect", tmp_path / "bins", "--data", data, "--picture", "a.png")
    assert "needs a model that gramless fit wrote" in text


# The picture of evaluate.


def test_evaluate_draws_predictions_of_numbers(fitted, shell, tmp_path):
    data, model = fitted()
    out = tmp_path / "a.pdf"
    assert shell.json("evaluate", model, data, "--picture", out)["picture"] == str(out)
    assert out.read_bytes().startswith(b"%PDF")
    printed = shell("evaluate", model, data, "--picture", out).stdout
    # Long paths are broken where a column ends.
    assert out.name in "".join(printed.split())


def test_evaluate_draws_probabilities(fitted, shell, tmp_path):
    data, model = fitted("--loss", "logistic", **KINDS)
    out = tmp_path / "a.svg"
    shell("evaluate", model, data, "--picture", out)
    assert ET.parse(out).getroot().tag.endswith("svg")


def test_reliability_picture_matches_the_table():
    rng = np.random.default_rng(0)
    given = rng.dirichlet([1.0, 0.5, 0.3], 500)
    result = probability_metrics(rng.integers(3, size=500), given)
    upper, lower = figures.draw_reliability(result).axes
    diagonal, model = upper.get_lines()
    assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
    parts = result["reliability"]
    points = [[part["predicted"], part["observed"]] for part in parts]
    np.testing.assert_array_equal(model.get_xydata(), points)
    bars = lower.patches
    assert [bar.get_height() for bar in bars] == [part["rows"] for part in parts]
    np.testing.assert_allclose([bar.get_x() for bar in bars], [part["low"] for part in parts])
    assert all(part["low"] <= part["predicted"] <= part["high"] for part in parts)
    title = f"log loss {result['log_loss']:.4g}, Brier score {result['brier']:.4g}"
    assert upper.get_title() == title
    assert lower.get_xlabel() == "probability of the predicted class"
    assert {upper.get_ylabel(), lower.get_ylabel()} == {"share of correct predictions", "rows"}


def test_reliability_bars_span_two_standard_errors():
    given = np.tile([0.75, 0.25], (48, 1))
    upper, _ = figures.draw_reliability(probability_metrics(np.zeros(48, int), given)).axes
    (segment,) = upper.collections[0].get_segments()
    np.testing.assert_allclose(segment[:, 1], 0.75 + np.array([-2, 2]) * np.sqrt(0.1875 / 48))


def test_reliability_of_certain_predictions_can_be_drawn(tmp_path):
    result = probability_metrics(np.zeros(5, int), np.tile([1.0, 0.0], (5, 1)))
    figures.draw_reliability(result).savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_picture_of_numbers_draws_actual_and_predicted_values():
    for n_rows, message in [(40, "true, 40 rows"), (6000, "5,000 of 6,000")]:
        rng = np.random.default_rng(0)
        y = rng.normal(size=n_rows)
        predicted = y + 0.1 * rng.normal(size=n_rows)
        result = regression_metrics(y, predicted)
        (axes,) = figures.draw_predictions(y, predicted, result).axes
        diagonal, points = axes.get_lines()
        ends = diagonal.get_xydata()
        np.testing.assert_array_equal(ends[:, 0], ends[:, 1])
        assert ends.min() <= min(y.min(), predicted.min())
        assert {tuple(point) for point in points.get_xydata()} <= set(
            zip(y, predicted, strict=True)
        )
        assert len(points.get_xydata()) == min(n_rows, 5000)
        assert message in axes.get_xlabel()
        assert axes.get_title() == f"RMSE {result['rmse']:.4g}, R2 {result['r2']:.4g}"


# Pictures that cannot be drawn are reported first.


def test_picture_of_classes_needs_probabilities(write, shell, tmp_path):
    data, model = write("a.csv", KINDS["chosen"]), tmp_path / "m"
    rows, y, _ = read_table(data).split_target()
    save(
        KernelClassifier(n_grids=8, grids="random", calibrate=False, loss="squared").fit(rows, y),
        model,
    )
    text = shell.error("evaluate", model, data, "--picture", tmp_path / "a.png")
    assert "fit it with calibrate=True or the logistic loss" in text
    assert not (tmp_path / "a.png").exists()


@pytest.mark.parametrize("verb", ["evaluate", "inspect"])
def test_picture_path_and_matplotlib_are_checked(verb, fitted, shell, tmp_path, monkeypatch):
    data, model = fitted()
    head = [verb, model, *(["--data"] if verb == "inspect" else []), data, "--picture"]
    assert "must end in .png" in shell.error(*head, tmp_path / "a.gif")
    assert "there is no folder" in shell.error(*head, tmp_path / "absent" / "a.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install gramless[cli]" in shell.error(*head, tmp_path / "a.png")


def test_error_names_a_picture_that_cannot_be_written(fitted, shell, tmp_path, monkeypatch):
    data, model = fitted()

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "a.png")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", refuse)
    assert "Permission denied" in shell.error("evaluate", model, data, "--picture", "a.png")


def test_picture_does_not_change_the_evaluation(fitted, shell, tmp_path):
    data, model = fitted()
    drawn = shell.json("evaluate", model, data, "--picture", tmp_path / "a.png")
    plain = shell.json("evaluate", model, data)
    assert drawn["rows"] == plain["rows"] == N_ROWS
    assert drawn["rmse"] == plain["rmse"]
