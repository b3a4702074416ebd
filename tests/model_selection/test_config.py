"""The ladder of effort."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import pairwise

import pytest

from gramless.model_selection.config import EFFORTS, SearchConfig


def test_three_is_the_default() -> None:
    assert EFFORTS[3] == SearchConfig()


def test_more_effort_never_tries_less() -> None:
    for less, more in pairwise(EFFORTS[k] for k in range(1, 6)):
        for name in (
            "most_grids",
            "proposals",
            "growth_rows",
            "ridge_rows",
            "n_landmarks",
            "n_seeds",
        ):
            assert getattr(less, name) <= getattr(more, name)
        assert less != more


def test_only_the_default_is_quick_with_few_rows() -> None:
    few = {effort: config.of_rows(1999) for effort, config in EFFORTS.items()}
    assert [effort for effort, config in EFFORTS.items() if few[effort] != config] == [3]
    assert few[3].kept_a_round > EFFORTS[3].kept_a_round
    assert few[3].of_rows(10) is few[3]
    assert EFFORTS[3].of_rows(2000) is EFFORTS[3]


@pytest.mark.parametrize("effort", EFFORTS)
def test_codes_of_growth_fit_into_16_bits(effort: int) -> None:
    """A grid has no more bins than rows that are grown on or judge; 0 is no bin."""
    config = EFFORTS[effort]
    assert config.growth_rows + config.judging_rows < 2**16


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        SearchConfig().most_grids = 3  # type: ignore[misc]
