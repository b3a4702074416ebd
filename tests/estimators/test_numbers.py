"""Numbers near the ends of double precision: finite predictions, or an error that says which."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gramless import (
    AnomalyDetector,
    DoublyStochasticRegressor,
    KernelClassifier,
    KernelRegressor,
    RandomBinning,
    RandomFourier,
    SpectralClustering,
)
from gramless.base.errors import InputError
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.scaling import Scaler

ROWS = np.random.default_rng(0).normal(size=(80, 3))
TARGETS = np.sin(ROWS[:, 0])


def test_landmarks_of_constant_inputs_predict_finite_values() -> None:
    rows = np.column_stack([ROWS, np.full(80, 3.0)])
    model = KernelRegressor("nystrom", relevance="learned", random_state=0).fit(rows, TARGETS)
    assert np.isfinite(model.predict(rows)).all()
    constant = KernelRegressor("nystrom", random_state=0).fit(np.ones((60, 2)), TARGETS[:60])
    assert np.isfinite(constant.predict(rows[:2, :2])).all()


def test_targets_whose_predictions_might_overflow_are_rejected() -> None:
    for largest in [1e308, -1.5e308]:
        targets = np.append(TARGETS[1:], largest)
        with pytest.raises(InputError, match=r"targets reach -?1\S+, so .* divide the targets by"):
            KernelRegressor(random_state=0).fit(ROWS, targets)


def test_targets_of_1e300_are_predicted() -> None:
    # A power of two: weights are rounded to powers of two.
    model, unit = KernelRegressor(n_grids=64, random_state=0), 2.0**996
    predicted = model.fit(ROWS, unit * TARGETS).predict(ROWS)
    np.testing.assert_allclose(predicted / unit, model.fit(ROWS, TARGETS).predict(ROWS), rtol=1e-6)
    near = model.fit(ROWS, 1e300 * TARGETS).predict(ROWS) / 1e300
    np.testing.assert_allclose(near, predicted / unit, atol=1e-4)


def test_median_distance_scales_without_overflow() -> None:
    for size in [1e-300, 2.0**-600, 1e200]:
        reference = median_distance(ROWS, 0, metric="euclidean")
        for rows in (ROWS, sp.csr_array(ROWS)):
            result = median_distance(rows * size, 0, metric="euclidean")
            assert result == pytest.approx(reference * size, rel=1e-9)


def test_median_distance_ignores_a_few_infinite_distances() -> None:
    rows = np.column_stack([ROWS, np.zeros(80)])
    reference = median_distance(rows, 0, metric="euclidean")
    rows[3, 3], rows[4, 3] = np.finfo(np.float64).max, -np.finfo(np.float64).max
    assert median_distance(rows, 0, metric="euclidean") == pytest.approx(reference, rel=0.1)


def test_inputs_of_subnormal_deviation_are_rejected() -> None:
    with pytest.raises(InputError, match=r"Input 1 has a standard deviation of .*e-31\d"):
        Scaler.fit("standard", ROWS * [1.0, 1e-312, 1.0])
    assert Scaler.fit("standard", ROWS * [1.0, 1e-300, 1.0]).unit[1] > 0


def test_streams_reject_inputs_that_look_constant() -> None:
    for make in [np.array, sp.csr_array]:
        rows = np.where(ROWS > 0, ROWS, 0.0) * [1.0, 1e-300, 1.0]
        with pytest.raises(InputError, match="Column 1 has numbers that differ by so little"):
            DoublyStochasticRegressor(max_steps=2).fit(make(rows), TARGETS)


def test_streams_accept_constant_inputs() -> None:
    rows = np.column_stack([ROWS, np.full(80, 1e-200), np.zeros(80)])
    model = DoublyStochasticRegressor(max_steps=2, random_state=0).fit(rows, TARGETS)
    assert np.isfinite(model.predict(rows)).all()


def test_integers_that_floats_cannot_distinguish_are_rejected() -> None:
    for kind in [np.int64, np.uint64]:
        whole = np.arange(160).reshape(80, 2).astype(kind)
        far = whole + kind(2**60)
        for model in (RandomBinning(), KernelRegressor(n_grids=8)):
            with pytest.raises(
                InputError, match="X: the integers of column 0 are around 1.15e.*158 at"
            ):
                model.fit(far, TARGETS)
        with pytest.raises(InputError, match="y: the integers are around"):
            KernelRegressor(n_grids=8).fit(whole, far[:, 0])
        limits = np.iinfo(kind)
        ends = np.where(np.arange(80) > 40, kind(limits.max), kind(limits.min))
        KernelRegressor(n_grids=8).fit(whole, ends)
        spread = whole.copy()
        spread[0] = 2**60
        result = RandomBinning(n_grids=8, random_state=0).fit(spread)
        assert result.transform(far[:2]).shape[0] == 2


def test_sample_weights_of_all_magnitudes_give_finite_deviations() -> None:
    weight = 10.0 ** np.linspace(-300, 300, 80)
    model = KernelRegressor(n_grids=16, n_posterior=8, random_state=0)
    _, deviations = model.fit(ROWS, TARGETS, sample_weight=weight).predict(ROWS, return_std=True)
    assert np.isfinite(deviations).all()


def test_tiny_bandwidths_give_finite_cells() -> None:
    grids = RandomBinning(bandwidth=1e-310, n_grids=8, random_state=0).fit(np.zeros((5, 2)))
    assert np.isfinite(1.0 / grids.widths_).all()
    assert grids.n_bins_.tolist() == [1] * 8


def test_learned_relevance_does_not_depend_on_the_scale_of_inputs() -> None:
    """Learned by gradients: squares of huge steps times squares of tiny slopes."""
    for size in [1e300, 1e-300]:
        options = {"relevance": "learned", "scaling": "standard", "random_state": 0}
        waves = RandomFourier(n_components=64, random_state=0)
        reference = KernelRegressor(waves, **options).fit(ROWS, TARGETS)
        result = KernelRegressor(waves, **options).fit(ROWS * size, TARGETS)
        np.testing.assert_allclose(result.relevance_, reference.relevance_, rtol=1e-3)


def test_largest_floats_are_fitted_by_binning() -> None:
    rows = ROWS / np.abs(ROWS).max() * np.finfo(np.float64).max
    model = KernelRegressor(n_grids=16, scaling="standard", random_state=0).fit(rows, TARGETS)
    assert np.isfinite(model.bandwidth_ * model.scaler_.unit).any()
    assert model.score(rows, TARGETS) > 0.5
    with pytest.raises(InputError, match="cells away from 0"):
        RandomBinning(n_grids=4).fit(rows)


def test_default_models_fit_inputs_up_to_the_largest_float() -> None:
    for model in [KernelRegressor(), KernelClassifier()]:
        for rows in [ROWS, ROWS * [1, 1, -1] + 2]:
            rows = rows / np.abs(rows).max() * np.finfo(np.float64).max
            signs = np.where(TARGETS > 0.0, 1.0, -1.0)
            assert model.set_params(random_state=0).fit(rows, signs).score(rows, signs) > 0.7


@pytest.mark.filterwarnings("error:.*:RuntimeWarning:gramless")
def test_unsupervised_estimators_fit_inputs_up_to_the_largest_float() -> None:
    rows = (ROWS + 2.0) / np.abs(ROWS + 2.0).max() * (np.finfo(np.float64).max / 2.0)
    detector = AnomalyDetector(random_state=0).fit(rows)
    reference = AnomalyDetector(random_state=0).fit(ROWS + 2.0).score_samples(ROWS + 2.0)
    assert np.corrcoef(detector.score_samples(rows), reference)[0, 1] > 0.9
    groups = np.arange(80) % 2
    apart = rows * np.where(groups, 1.0, -1.0)[:, None]
    result = SpectralClustering(n_clusters=2, random_state=0).fit(apart).labels_
    assert abs(np.corrcoef(result, groups)[0, 1]) > 0.8


def test_default_classifier_tolerates_one_huge_value() -> None:
    rows = ROWS.copy()
    rows[7, 1] = 1e308
    model = KernelClassifier(random_state=0).fit(rows, TARGETS > 0.0)
    assert model.score(rows, TARGETS > 0.0) > 0.8


@pytest.mark.skipif(
    np.finfo(np.longdouble).max == np.finfo(np.float64).max, reason="no longer type of numbers"
)
def test_targets_beyond_double_precision_are_rejected() -> None:
    targets = TARGETS.astype(np.longdouble) * np.longdouble("1e400")
    for model in (KernelRegressor(), DoublyStochasticRegressor()):
        with pytest.raises(InputError, match="targets reach"):
            model.fit(ROWS, targets)
