"""Kernel ridge regression added to other models: when, with what weights, and afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor, load, save
from gramless.features.expansion import KernelExpansion
from gramless.features.hybrid import parts_of
from gramless.losses import Logistic, Multinomial, Squared
from gramless.portable import PortableModel
from gramless.selection import pipeline
from gramless.selection.candidate import GrownFeatures, Refinement
from gramless.selection.candidates.kernel_ridge_blend import blend_factors
from gramless.selection.config import EFFORTS
from gramless.selection.task import SelectionTask

Array = NDArray[np.float64]


def waves(n_rows: int, n_classes: int, seed: int = 0) -> tuple[Array, NDArray[np.intp]]:
    """Return classes that depend on oblique waves, which grids along the inputs learn slowly."""
    rng = np.random.default_rng(0)
    directions, phases = rng.normal(size=(8, n_classes)), rng.uniform(0.0, 6.3, n_classes)
    X = np.random.default_rng(seed + 1).normal(size=(n_rows, 8))
    return X, np.cos(0.6 * X @ directions + phases).argmax(axis=1)


@pytest.fixture(scope="module", params=[2, 4])
def blended(request: pytest.FixtureRequest) -> KernelClassifier:
    model = KernelClassifier(random_state=0).fit(*waves(1800, request.param))
    assert isinstance(parts_of(model.features_)[-1], KernelExpansion)
    return model


def numbers(n_rows: int, seed: int = 0) -> tuple[Array, Array]:
    """Return numbers far from 0 that are the sum of eight oblique waves and noise."""
    rng = np.random.default_rng(0)
    directions, phases = rng.normal(size=(6, 8)), rng.uniform(0.0, 6.3, 8)
    rng = np.random.default_rng(seed + 1)
    X = rng.normal(size=(n_rows, 6))
    noise = 0.3 * rng.normal(size=n_rows)
    return X, 100.0 + np.cos(0.9 * X @ directions + phases).sum(axis=1) + noise


@pytest.fixture(scope="module")
def blended_numbers() -> KernelRegressor:
    model = KernelRegressor(random_state=0).fit(*numbers(1200))
    assert isinstance(parts_of(model.features_)[-1], KernelExpansion)
    return model


def parts(model: KernelClassifier, X: Array) -> tuple[Array, Array]:
    """Return what the kernel machine adds to raw predictions, and what all else adds."""
    machine = parts_of(model.features_)[-1]
    assert isinstance(machine, KernelExpansion)
    n = len(machine.landmarks_)
    added = machine.transform(model.scaler_.rows(X)) @ model.weights_[-n:]
    return added, model.decision_function(X) - added


def test_factors_minimise_the_mean_loss() -> None:
    rng = np.random.default_rng(0)
    for shape in ((300,), (300, 3)):
        truth = rng.normal(size=shape)
        first, second = (2.0 * truth + rng.normal(size=shape) for _ in range(2))
        if len(shape) == 1:
            loss, targets = Logistic(), np.where(truth > 0.0, 1.0, -1.0)
        else:
            loss, targets = Multinomial(), 2.0 * np.eye(3)[truth.argmax(axis=1)] - 1.0
        weights = rng.uniform(0.1, 2.0, 300)
        a, b = blend_factors(loss, first, second, targets, weights)

        def mean_loss(a: float, b: float) -> float:
            losses = loss.by_row(a * first + b * second, targets)  # noqa: B023
            return float(np.average(losses, weights=weights))  # noqa: B023

        grid = [mean_loss(2.0**k, c) for k in range(-4, 2) for c in np.linspace(0.0, 10.0, 201)]
        assert np.log2(a) % 1.0 == 0.0
        assert mean_loss(a, b) <= min(grid) + 1e-4


def test_factors_of_numbers_are_quarters_with_the_sum_1() -> None:
    rng = np.random.default_rng(0)
    truth, weights = rng.normal(size=(300, 2)), rng.uniform(0.1, 2.0, 300)
    first, second = (truth + scale * rng.normal(size=truth.shape) for scale in (0.5, 1.0))

    def mean_loss(a: float) -> float:
        losses = Squared().by_row(a * first + (1.0 - a) * second, truth)
        return float(np.average(losses, weights=weights))

    expected = min((0.25, 0.5, 0.75, 1.0), key=mean_loss)
    assert blend_factors(Squared(), first, second, truth, weights) == (expected, 1.0 - expected)
    # A second prediction that only shrinks the first one is compared with the shrunk first one.
    assert blend_factors(Squared(), 2.0 * truth, 0.0 * truth, truth, weights) == (0.5, 0.5)


def test_blend_predicts_numbers_better_than_without(blended_numbers: KernelRegressor) -> None:
    X, y = numbers(3000, seed=7)
    with mock.patch.dict(EFFORTS, {3: replace(EFFORTS[3], blends=False)}):
        without = KernelRegressor(random_state=0).fit(*numbers(1200))
    both, alone = (np.sqrt(np.mean((m.predict(X) - y) ** 2)) for m in (blended_numbers, without))
    assert both < 0.95 * alone
    # The rest is the model without the blend, of which the share is a multiple of a quarter.
    machine = parts_of(blended_numbers.features_)[-1]
    assert isinstance(machine, KernelExpansion)
    n = len(machine.landmarks_)
    added = machine.transform(blended_numbers.scaler_.rows(X)) @ blended_numbers.weights_[-n:]
    mean = numbers(1200)[1].mean()
    deviations, rest = (without.predict(X) - mean, blended_numbers.predict(X) - added - mean)
    share = float(rest @ deviations / (deviations @ deviations))
    assert share == pytest.approx(round(4.0 * share) / 4.0, abs=1e-3)
    np.testing.assert_allclose(rest, share * deviations, atol=0.02 * np.std(y))
    assert np.corrcoef(added, y)[0, 1] > 0.8


def test_features_are_not_refined_after_the_blend(blended_numbers: KernelRegressor) -> None:
    refined: list[bool] = []

    class Never(Refinement):
        name = "a refinement after the blend"

        def is_wanted(self, task: SelectionTask) -> bool:
            return True

        def refine(self, task: SelectionTask, best: GrownFeatures) -> GrownFeatures | None:
            refined.append(True)
            return None

    with mock.patch.object(pipeline, "CANDIDATES", (*pipeline.CANDIDATES, Never())):
        model = KernelRegressor(random_state=0).fit(*numbers(1200))
    assert not refined
    np.testing.assert_array_equal(model.weights_, blended_numbers.weights_)


def test_intervals_of_a_blend_contain_the_targets(blended_numbers: KernelRegressor) -> None:
    X, y = numbers(3000, seed=7)
    low, high = blended_numbers.predict_interval(X, coverage=0.9)
    assert 0.85 < np.mean((low <= y) & (y <= high)) < 0.97


def test_files_and_batches_keep_a_blend_of_numbers(
    blended_numbers: KernelRegressor, tmp_path: Path
) -> None:
    X, y = numbers(1500, seed=3)
    path = tmp_path / "model.gramless"
    save(blended_numbers, path)
    model, expected = load(path), blended_numbers.predict(X)
    np.testing.assert_array_equal(model.predict(X), expected)
    np.testing.assert_allclose(PortableModel(path).predict(X), expected, atol=1e-6)
    model.partial_fit(X, y + X[:, 0])  # new rows differ
    X, y = numbers(1500, seed=9)
    errors = [np.mean((m.predict(X) - y - X[:, 0]) ** 2) for m in (model, blended_numbers)]
    assert errors[0] < errors[1]


def test_blend_predicts_waves_better_than_its_parts(blended: KernelClassifier) -> None:
    X, y = waves(3000, len(blended.classes_), seed=7)
    added, rest = parts(blended, X)

    def error(raw: Array) -> float:
        predicted = raw > 0.0 if raw.ndim == 1 else raw.argmax(axis=1)
        return float(np.mean(predicted != y))

    both = error(blended.decision_function(X))
    assert both < error(rest)
    assert both < error(added) + 0.005


def test_added_machine_is_kernel_ridge_regression(blended: KernelClassifier) -> None:
    X, y = waves(1800, len(blended.classes_))
    machine = parts_of(blended.features_)[-1]
    assert isinstance(machine, KernelExpansion)
    landmarks = machine.landmarks_
    assert len(landmarks) == len(X)
    weights = blended.weights_[-len(landmarks) :]
    gram = machine.transform(landmarks)
    order = [np.flatnonzero((blended.scaler_.rows(X) == row).all(axis=1))[0] for row in landmarks]
    targets = np.where(y == 1, 1.0, -1.0) if weights.ndim == 1 else 2.0 * np.eye(4)[y] - 1.0
    # (K + ridge) a = b y with two unknown numbers, the ridge and the factor b.
    left = np.stack([targets[order].ravel(), -weights.ravel()], axis=1)
    right = (gram @ weights).ravel()
    (factor, ridge), residual, *_ = np.linalg.lstsq(left, right, rcond=None)
    assert factor > 0.0
    assert ridge > 0.0
    assert residual[0] < 1e-12 * np.sum(right**2)


def test_larger_tables_have_fewer_landmarks() -> None:
    X, y = waves(2600, 2)
    model = KernelClassifier(random_state=0).fit(X, y)
    machine = parts_of(model.features_)[-1]
    assert isinstance(machine, KernelExpansion)
    assert len(machine.landmarks_) == 1500
    X, y = waves(3000, 2, seed=7)
    _, rest = parts(model, X)
    assert model.score(X, y) > np.mean((rest > 0.0) == y)


def test_files_and_portable_models_keep_predictions(
    blended: KernelClassifier, tmp_path: Path
) -> None:
    X, _ = waves(200, 2, seed=3)
    path = tmp_path / "model.gramless"
    save(blended, path)
    expected = blended.predict_proba(X)
    np.testing.assert_array_equal(load(path).predict_proba(X), expected)
    np.testing.assert_allclose(PortableModel(path).predict_proba(X), expected, atol=1e-9)


def test_partial_fit_keeps_the_added_machine_and_learns_new_rows(
    blended: KernelClassifier, tmp_path: Path
) -> None:
    save(blended, tmp_path / "model.gramless")
    model = load(tmp_path / "model.gramless")
    X, y = waves(1500, len(model.classes_), seed=5)
    y = np.where(X[:, 0] > 1.0, 0, y)  # new rows differ
    added, _ = parts(model, X)
    before = model.score(X, y)
    model.partial_fit(X, y)
    np.testing.assert_array_equal(parts(model, X)[0], added)
    assert model.score(X, y) > before


def test_warm_start_fits_without_the_added_machine() -> None:
    X, y = waves(1800, 2)
    model = KernelClassifier(warm_start=True, random_state=0).fit(X, y)
    n_parts = len(parts_of(model.features_))
    model.fit(X, y)
    assert len(parts_of(model.features_)) == n_parts - 1
    X, y = waves(2000, 2, seed=9)
    assert model.score(X, y) > 0.7


def test_threads_do_not_change_a_bit() -> None:
    X, y = waves(900, 3)
    one, two = (KernelClassifier(random_state=0, n_jobs=n).fit(X, y) for n in (1, 2))
    assert isinstance(parts_of(one.features_)[-1], KernelExpansion)
    np.testing.assert_array_equal(one.weights_, two.weights_)


def test_nothing_is_added_where_grids_suffice_or_the_user_chose_otherwise() -> None:
    X, y = waves(600, 2)
    is_noise = np.random.default_rng(0).random(len(X)) < 0.2
    by_axis = ((X[:, 0] > 0.3) ^ is_noise).astype(int)
    models = [
        KernelClassifier(random_state=0).fit(X, by_axis),
        KernelClassifier(effort=1, random_state=0).fit(X, y),
        KernelClassifier(l1_ratio=1, random_state=0).fit(X, y),
        KernelClassifier(alpha=1e-3, random_state=0).fit(X, y),
        KernelRegressor(random_state=0).fit(X, by_axis + 0.1 * X[:, 0]),
        *(
            KernelRegressor(random_state=0, **parameters).fit(*numbers(600))
            for parameters in ({"loss": "huber"}, {"n_posterior": 10}, {"l1_ratio": 1})
        ),
    ]
    for model in models:
        maps = parts_of(model.features_)
        assert len(maps) == 1 or not isinstance(maps[-1], KernelExpansion)
