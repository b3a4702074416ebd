"""Kernel values with fixed landmarks, as a feature map."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from gramless import load, save
from gramless.base.errors import ModelFileError
from gramless.estimators.persistence import pack, write
from gramless.features.expansion import KernelExpansion
from gramless.features.landmarks import InputKernel
from gramless.kernels import Gaussian, Laplacian

RNG = np.random.default_rng(0)
LANDMARKS, X = RNG.normal(size=(40, 3)), RNG.normal(size=(1500, 3))
BANDWIDTH = np.array([1.0, np.inf, 2.0])
CATEGORICAL = np.zeros(3, bool)


def expansion(n_jobs: int | None = 2) -> KernelExpansion:
    return KernelExpansion.of(InputKernel(Gaussian(), BANDWIDTH, CATEGORICAL), LANDMARKS, n_jobs)


def test_features_are_kernel_values() -> None:
    expected = Gaussian().gram(X, LANDMARKS, bandwidth=BANDWIDTH)
    np.testing.assert_allclose(expansion().transform(X), expected, atol=1e-12)
    moved = X + np.array([0.0, 5.0, 0.0])
    np.testing.assert_allclose(expansion().transform(moved), expected, atol=1e-12)


def test_categories_match_or_not() -> None:
    rows = np.column_stack([X[:, :2], RNG.integers(0, 3, len(X))])
    categorical = np.array([False, False, True])
    source = InputKernel(Laplacian(), np.ones(3), categorical)
    result = KernelExpansion.of(source, rows[:30])
    expected = Laplacian().gram(rows, rows[:30], bandwidth=1.0, categorical=categorical)
    np.testing.assert_allclose(result.transform(rows), expected, atol=1e-12)


def test_number_of_threads_does_not_change_the_matrix() -> None:
    weights = RNG.normal(size=(40, 2))
    results = [expansion(n).feature_matrix(X).matvec(weights) for n in (1, 3)]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], expansion().transform(X) @ weights, atol=1e-12)


def test_saved_maps_hold_only_landmarks(tmp_path: Path) -> None:
    expected = expansion().transform(X)
    save(expansion(), tmp_path / "map")
    used = expansion()
    used.transform(X)
    for again in (load(tmp_path / "map"), pickle.loads(pickle.dumps(used)), copy.deepcopy(used)):
        np.testing.assert_array_equal(again.transform(X), expected)
    assert len(pickle.dumps(used)) < LANDMARKS.nbytes + 2000


UNSOUND: list[tuple[str, object]] = [
    ("landmarks_", np.zeros((0, 3))),
    ("landmarks_", np.full((2, 3), np.nan)),
    ("bandwidth_", np.ones(2)),
    ("bandwidth_", np.zeros(3)),
    ("categorical_", np.zeros(2, bool)),
]


def test_invalid_files_are_rejected(tmp_path: Path) -> None:
    for name, value in UNSOUND:
        broken = expansion()
        setattr(broken, name, value)
        write(tmp_path / "map", *pack(broken))
        with pytest.raises(ModelFileError):
            load(tmp_path / "map")


def test_map_is_created_from_landmarks() -> None:
    with pytest.raises(NotFittedError, match="fit it first"):
        clone(expansion()).transform(X)
    again = expansion().fit(X[:7])
    assert again.transform(X[:7]).diagonal() == pytest.approx(np.ones(7))
    with pytest.raises(ValueError, match="features"):
        expansion().transform(X[:, :2])
