"""The ladder of effort."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.model_selection.config import EFFORTS, SearchConfig, config_of


def test_three_is_the_default() -> None:
    assert config_of(3) == SearchConfig()
    assert config_of(np.int64(2)) is EFFORTS[2]


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


@pytest.mark.parametrize("effort", EFFORTS)
def test_codes_of_growth_fit_into_16_bits(effort: int) -> None:
    """A grid has no more bins than rows that are grown on or judge; 0 is no bin."""
    config = config_of(effort)
    assert config.growth_rows + config.judging_rows < 2**16


@pytest.mark.parametrize("effort", [0, 6, -1, 2.5, True, False, "3", None, [3], np.nan, 3.0])
def test_other_efforts_are_refused(effort: object) -> None:
    with pytest.raises(InputError, match="effort must be a whole number from 1 to 5"):
        config_of(effort)  # type: ignore[arg-type]


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        SearchConfig().most_grids = 3  # type: ignore[misc]
