"""Decompositions where LAPACK's divide and conquer fails."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import pytest

from gramless.base.decompositions import svd


def test_the_decomposition_does_not_depend_on_the_routine(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> NoReturn:
        raise np.linalg.LinAlgError("SVD did not converge")

    matrix = np.random.default_rng(0).normal(size=(12, 5))
    usual = svd(matrix)
    monkeypatch.setattr(np.linalg, "svd", fail)
    for left, sizes, right in (usual, svd(matrix)):
        assert left.shape == (12, 5)
        np.testing.assert_allclose(left * sizes @ right, matrix, atol=1e-12)
        np.testing.assert_allclose(left.T @ left, np.eye(5), atol=1e-12)
        np.testing.assert_allclose(sizes, usual[1], rtol=1e-12)
