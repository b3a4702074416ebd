"""Distances to neighbours among few rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gramless.preprocessing.median import SAMPLE_ROWS, neighbour_distance, scaled_sample


def slow_distance(X, rank, categorical, metric):
    nearest = []
    for row in X:
        gaps = np.abs(X - row)
        gaps[:, categorical] = gaps[:, categorical] > 0
        lengths = gaps.sum(axis=1) if metric == "cityblock" else np.sqrt((gaps**2).sum(axis=1))
        nearest.append(np.sort(lengths)[min(rank, len(X) - 1)])
    return np.median(nearest)


@pytest.mark.parametrize(
    ("rank", "metric", "form"),
    [
        (1, "cityblock", np.asarray),
        (4, "euclidean", np.asarray),
        (4, "cityblock", sp.csr_array),
        (99, "euclidean", sp.csr_array),
    ],
)
def test_neighbour_distance_matches_its_definition(rank, metric, form):
    X = np.random.default_rng(0).normal(size=(31, 4))
    X[:, 2] = np.arange(31) % 3
    mask = np.array([False, False, True, False])
    result = neighbour_distance(form(X), rank, mask, metric)
    assert result == pytest.approx(slow_distance(X, rank, mask, metric), rel=1e-7)


def test_all_inputs_may_be_categories():
    X = np.array([[0.0, 1.0], [0.0, 2.0], [1.0, 1.0]])
    assert neighbour_distance(X, 1, np.ones(2, bool)) == 1.0


def test_equal_rows_have_positive_neighbour_distance():
    mask = np.zeros(2, bool)
    assert neighbour_distance(np.ones((5, 2)), 1, mask) == 1.0
    assert neighbour_distance(np.ones((1, 2)), 1, mask) == 1.0
    mostly = np.vstack([np.ones((5, 2)), [[3.0, 1.0]]])
    assert neighbour_distance(mostly, 1, mask) == 2.0


def test_scaled_sample_divides_rows_by_units():
    X = np.arange(12.0).reshape(6, 2)
    unit = np.array([2.0, np.inf])
    for form in (X, sp.csr_array(X)):
        sample = scaled_sample(form, unit, 0)
        dense = sample.toarray() if sp.issparse(sample) else sample
        np.testing.assert_array_equal(dense, np.column_stack([X[:, 0] / 2.0, np.zeros(6)]))
    assert len(scaled_sample(np.zeros((5000, 2)), unit, 0)) == SAMPLE_ROWS
