"""Counts of ordered pairs against every pair."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.estimators.survival import concordance_index


def reference(event, time, risk) -> tuple[int, int, int]:
    """Look at every pair."""
    pairs = right = equal = 0
    for i in np.flatnonzero(event):
        for j in range(len(time)):
            if time[j] > time[i] or (time[j] == time[i] and not event[j]):
                pairs, right = pairs + 1, right + (risk[i] > risk[j])
                equal += risk[i] == risk[j]
    return pairs, right, equal


@pytest.mark.parametrize(("levels", "share"), [(3, 0.2), (1000, 0.6), (3, 1.0)])
def test_concordance_matches_all_pairs(levels: int, share: float) -> None:
    rng = np.random.default_rng(levels)
    n = 80
    event, time = rng.random(n) < share, rng.integers(0, 2 * levels, n).astype(float)
    risk = rng.integers(0, levels, n) / 7.0
    pairs, right, equal = reference(event, time, risk)
    assert concordance_index(event, time, risk) == (right + 0.5 * equal) / pairs
