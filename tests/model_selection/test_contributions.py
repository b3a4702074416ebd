"""What grids add to predictions, beside the predictions themselves."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.model_selection.contributions import covariances


@pytest.mark.parametrize("n_outputs", [None, 1, 3])
def test_they_are_covariances_of_the_parts_of_predictions(n_outputs: int | None) -> None:
    rng, shape = np.random.default_rng(0), () if n_outputs is None else (n_outputs,)
    codes = [rng.integers(0, m, 200) for m in (1, 4, 30)]
    counts = np.concatenate(
        [np.bincount(c, minlength=m) for c, m in zip(codes, (1, 4, 30), strict=True)]
    )
    offsets, (one, other) = np.array([0, 1, 5, 35]), rng.normal(size=(2, 35, *shape))
    found = covariances(counts.astype(float), offsets, one, other, n_jobs=2)
    for g in range(3):
        a, b = (w[offsets[g] + codes[g]].reshape(200, -1) for w in (one, other))
        expected = ((a - a.mean(axis=0)) * (b - b.mean(axis=0))).mean(axis=0).sum()
        assert found[g] == pytest.approx(expected, abs=1e-12)
