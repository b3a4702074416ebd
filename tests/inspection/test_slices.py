"""Groups of rows with large losses: search, confirmation on other rows, and description."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.inspection.slices import worst_groups

N = 2000


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    age, size = rng.uniform(0, 100, N), rng.normal(size=N)
    size[rng.random(N) < 0.15] = np.nan
    pet = rng.choice(np.array(["cat", "dog", ""], object), N, p=[0.5, 0.3, 0.2])
    return {"age": age, "pet": pet, "size": size}


def noise(seed=1):
    return np.random.default_rng(seed).exponential(size=N)


def test_worst_groups_finds_rows_with_larger_losses(columns):
    for where, words in [
        (lambda c: c["pet"] == "dog", "pet is dog"),
        (lambda c: c["pet"] == "", "pet is missing"),
        (lambda c: np.isnan(c["size"]), "size is missing"),
        (lambda c: (c["age"] > 50) & (c["pet"] == "cat"), "age is above 50 and pet is cat"),
        (lambda c: (c["age"] > 25) & (c["age"] <= 50), "age is above 25 and at most 50"),
    ]:
        inside = where(columns)
        losses = noise() * np.where(inside, 4.0, 1.0)
        group = next(one for one in worst_groups(losses, columns) if one.words == words)
        cut = np.flatnonzero(inside)
        assert len(np.intersect1d(group.rows, cut)) > 0.9 * max(len(cut), len(group.rows))
        assert group.loss == pytest.approx(4.0, rel=0.25)
        assert group.ratio == pytest.approx(group.loss / losses.mean(), rel=0.1)


def test_groups_explained_by_a_subgroup_are_omitted(columns):
    losses = noise() * np.where(columns["age"] > 90, 9.0, 1.0)
    (group,) = worst_groups(losses, columns)
    assert group.words == "age is above 90"


def test_subgroups_are_listed_with_their_group(columns):
    losses = noise() * np.where(columns["pet"] == "dog", 3.0, 1.0)
    losses *= np.where((columns["pet"] == "dog") & (columns["age"] > 76), 4.0, 1.0)
    results = [group.words for group in worst_groups(losses, columns)]
    assert results == ["age is above 76 and pet is dog", "pet is dog"]


def test_groups_are_sorted_by_loss(columns):
    losses = noise() * np.where(columns["pet"] == "dog", 3.0, 1.0)
    losses *= np.where(columns["age"] > 90, 3.0, 1.0)
    result = worst_groups(losses, columns)
    assert len(result) >= 2
    assert [one.loss for one in result] == sorted((one.loss for one in result), reverse=True)
    assert len(worst_groups(losses, columns, max_groups=1)) == 1


def test_noise_has_hardly_any_groups(columns):
    """Two standard errors in rows of their own leave few of the thousand pairs tried."""
    results = [group for seed in range(10) for group in worst_groups(noise(seed), columns)]
    assert len(results) <= 3


def test_uninformative_tables_have_no_groups():
    for losses, columns in [
        (np.zeros(100), {"x": np.arange(100.0)}),
        (np.full(100, np.inf), {"x": np.arange(100.0)}),
        (np.arange(100.0), {}),
        (np.arange(100.0), {"x": np.full(100, np.nan), "y": np.ones(100)}),
        (np.arange(5.0), {"x": np.arange(5.0)}),
        (np.arange(1.0), {"x": np.arange(1.0)}),
    ]:
        assert worst_groups(losses, columns) == []
