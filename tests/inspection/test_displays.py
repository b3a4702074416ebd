"""Displays draw what they hold, and scikit-learn's own work on our models."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor
from gramless.base.errors import InputError, MissingDependencyError
from gramless.inspection import (
    Attributions,
    AttributionsDisplay,
    FeatureImportancesDisplay,
    shapley_values,
)

pd = pytest.importorskip("pandas")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
from matplotlib import pyplot as plt  # noqa: E402
from sklearn.inspection import PartialDependenceDisplay  # noqa: E402

X = np.random.default_rng(0).uniform(-1, 1, size=(400, 3))


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model() -> KernelRegressor:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    return KernelRegressor(effort=1, random_state=0).fit(frame, X[:, 1] + 0.3 * X[:, 2])


def names_of(display: AttributionsDisplay | FeatureImportancesDisplay) -> list[str]:
    return [text.get_text() for text in display.ax_.get_yticklabels()]


def test_importances_are_drawn_as_sorted_bars(model: KernelRegressor) -> None:
    display = FeatureImportancesDisplay.from_estimator(model, max_features=2)
    assert names_of(display) == ["b", "c"]
    lengths: NDArray = np.array([bar.get_width() for bar in display.ax_.patches])
    np.testing.assert_allclose(lengths, model.feature_importances_[[1, 2]])
    _, ax = plt.subplots()
    again = display.plot(ax, color="red")
    assert again.ax_ is ax
    assert again.figure_ is ax.figure
    assert names_of(again) == ["b", "c", "a"]


def test_attributions_are_drawn_as_one_point_per_row(model: KernelRegressor) -> None:
    frame = pd.DataFrame(X[:40], columns=["a", "b", "c"])
    display = AttributionsDisplay.from_estimator(model, frame, max_features=2)
    assert names_of(display) == ["b", "c"]
    points, values = display.ax_.collections, display.attributions.values
    np.testing.assert_array_equal(points[0].get_offsets()[:, 0], values[:, 1])
    assert np.abs(points[0].get_offsets()[:, 1]).max() <= 0.4
    colours = np.asarray(points[0].get_array())
    assert (np.argsort(colours) == np.argsort(X[:40, 1])).all()


def test_steps_of_a_row_end_at_the_prediction(model: KernelRegressor) -> None:
    result = shapley_values(model, pd.DataFrame(X[:2], columns=["a", "b", "c"]))
    display = AttributionsDisplay(result).plot(row=1, max_features=1)
    assert names_of(display) == [f"b = {X[1, 1]:.4g}", "2 others"]
    last = display.ax_.patches[-1]
    end = last.get_x() + last.get_width()
    assert end == pytest.approx(result.base_values[1] + result.values[1].sum())


def test_points_without_a_rank_are_grey() -> None:
    data = np.array([["u", 1.0], ["v", np.nan], ["u", 2.0]], object)
    attributions = Attributions(np.ones((3, 2)), np.zeros(3), data, ["text", "number"])
    display = AttributionsDisplay(attributions).plot()
    display.figure_.canvas.draw()
    text, number = (points.get_facecolors() for points in display.ax_.collections)
    grey = matplotlib.colors.to_rgba("0.5")
    np.testing.assert_allclose(text, [grey] * 3)
    np.testing.assert_allclose(number[1], grey)
    assert not np.isclose(number[[0, 2]], grey).all(axis=1).any()


@pytest.mark.parametrize("row", [None, 0])
def test_missing_matplotlib_is_reported(monkeypatch: pytest.MonkeyPatch, row: int | None) -> None:
    for name in ("matplotlib.figure", "matplotlib.colors"):
        monkeypatch.setitem(sys.modules, name, None)
    data = np.array([[1.0], [2.0]], object)
    display = AttributionsDisplay(Attributions(np.ones((2, 1)), np.zeros(2), data, ["a"]))
    with pytest.raises(MissingDependencyError, match="matplotlib"):
        display.plot(row=row)


def test_displays_draw_chosen_outputs_and_text_columns() -> None:
    classes = KernelClassifier(effort=1, random_state=0).fit(X, np.digitize(X[:, 0], [-0.3, 0.3]))
    display = AttributionsDisplay.from_estimator(classes, X[:30], output=2)
    values = display.attributions.values[:, 0, 2]
    np.testing.assert_array_equal(display.ax_.collections[0].get_offsets()[:, 0], values)
    texts = np.array([["u", 1.0], ["v", np.nan]], object)
    AttributionsDisplay(Attributions(np.ones((2, 2)), np.zeros(2), texts, ["t", "n"])).plot()
    none = Attributions(np.ones((0, 2)), np.zeros(0), texts[:0], ["t", "n"])
    with pytest.raises(InputError, match="no rows"):
        AttributionsDisplay(none).plot()


def test_scikit_learn_draws_partial_dependence(model: KernelRegressor) -> None:
    frame = pd.DataFrame(X[:50], columns=["a", "b", "c"])
    display = PartialDependenceDisplay.from_estimator(model, frame, ["b"], grid_resolution=5)
    means = display.pd_results[0]["average"][0]
    assert means[-1] - means[0] == pytest.approx(1.8, abs=0.2)
