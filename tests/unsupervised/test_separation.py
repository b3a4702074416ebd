"""How well the table of a row can be told: the area against scikit-learn, and its bounds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from gramless.base.errors import InputError
from gramless.unsupervised.separation import _halves, _separated, separation


def test_area_is_that_of_scikit_learn_with_ties() -> None:
    rng = np.random.default_rng(0)
    first, second = (
        rng.integers(5, size=40).astype(float),
        rng.integers(1, 7, size=60).astype(float),
    )
    found = _separated(first, second)
    scores = np.concatenate([first, second])
    assert found.auc == pytest.approx(roc_auc_score(np.repeat([0, 1], [40, 60]), scores))
    # DeLong's variance, literally: of the mean over the rows of each table.
    wins = (second[:, None] > first) + 0.5 * (second[:, None] == first)
    variance = wins.mean(axis=1).var(ddof=1) / 60 + wins.mean(axis=0).var(ddof=1) / 40
    assert found.upper - found.auc == pytest.approx(1.959964 * np.sqrt(variance), rel=1e-6)


def test_halves_share_no_row() -> None:
    fitted, judged = _halves(30, 41, seed=0)
    assert len(fitted) + len(judged) == 71
    assert not set(fitted) & set(judged)


def test_tables_are_told_apart_or_not() -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(2, 300, 2))
    same = separation(X, Y, random_state=0)
    assert same.lower < 0.5 < same.upper
    assert separation(X, Y + 3, random_state=0).auc > 0.95
    with pytest.raises(InputError, match="at least 20 rows"):
        separation(X[:19], Y)
