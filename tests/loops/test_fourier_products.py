"""Products of rows with weights of Fourier features, compared with products of whole arrays."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.base.arrays import readonly
from gramless.features.fourier import Panels
from gramless.loops import trig
from gramless.loops.fourier_products import add_responses


@pytest.mark.parametrize("n_outputs", [1, 4])
def test_add_responses_matches_the_slow_implementation(n_outputs: int) -> None:
    for n_frequencies in [1, 16, 31, 32, 33, 100]:
        for n_rows in [1, 6, 13]:
            rng = np.random.default_rng(0)
            n_padded = -(-n_rows // trig.GROUP_ROWS) * trig.GROUP_ROWS
            rows = np.zeros((n_padded, 3), np.float32)
            rows[:n_rows] = rng.normal(size=(n_rows, 3))
            frequencies = rng.normal(size=(n_frequencies, 3))
            weights = rng.normal(size=(2 * n_frequencies, n_outputs)).astype(np.float32)
            chunk = 32
            room = (
                np.zeros(chunk + 16, np.float32),
                np.empty((n_padded, chunk + 16), np.float32),
                np.empty(n_rows * 2 * chunk, np.float32),
            )
            out = np.ones((n_rows, n_outputs))
            panels = Panels.of(frequencies, np.float32).panels
            given = readonly(weights)
            add_responses(rows, panels, n_frequencies, np.float32(0.5), given, room, out)
            angles = rows[:n_rows].astype(float) @ frequencies.T
            features = 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(n_rows, -1)
            np.testing.assert_allclose(out, 1.0 + features @ weights, rtol=0, atol=1e-5)
