"""Tall arrays: products and QR factors as NumPy's, the same bits for any number of threads."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import pytest

from gramless.unsupervised import tall_arrays as tall


def test_products_and_qr_match_numpy():
    for shape in [(9000, 5), (4097, 3), (3, 7), (0, 2)]:
        rng = np.random.default_rng(0)
        a, b, factors = (
            rng.normal(size=shape),
            rng.normal(size=(shape[0], 4)),
            rng.normal(size=(4, 2)),
        )
        np.testing.assert_allclose(tall.inner(a, b, 2), a.T @ b, atol=1e-10)
        np.testing.assert_allclose(tall.times(b, factors, 2), b @ factors, atol=1e-12)
        target = rng.normal(size=(shape[0], 2))
        expected = target - b @ factors
        tall.subtract_times(target, b, factors, 2)
        np.testing.assert_allclose(target, expected, atol=1e-12)
        q, r = tall.qr(a, 2)
        assert q.shape == (shape[0], min(shape))
        np.testing.assert_allclose(q.T @ q, np.eye(min(shape)), atol=1e-13)
        np.testing.assert_allclose(q @ r, a, atol=1e-12)


def test_number_of_threads_does_not_change_results():
    a = np.random.default_rng(0).normal(size=(30_000, 6))
    one, two = (
        (tall.inner(a, a, n_jobs), tall.times(a, a[:6], n_jobs), *tall.qr(a, n_jobs))
        for n_jobs in (1, 2)
    )
    assert all(x.tobytes() == y.tobytes() for x, y in zip(one, two, strict=True))


def test_singular_values_do_not_depend_on_the_routine(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> NoReturn:
        raise np.linalg.LinAlgError("SVD did not converge")

    matrix = np.random.default_rng(0).normal(size=(12, 5))
    reference = tall.svd(matrix)
    monkeypatch.setattr(np.linalg, "svd", fail)
    for left, sizes, right in (reference, tall.svd(matrix)):
        assert left.shape == (12, 5)
        np.testing.assert_allclose(left * sizes @ right, matrix, atol=1e-12)
        np.testing.assert_allclose(left.T @ left, np.eye(5), atol=1e-12)
        np.testing.assert_allclose(sizes, reference[1], rtol=1e-12)
