"""The ladder of effort."""

from __future__ import annotations

from itertools import pairwise

from gramless.selection.config import EFFORTS, SearchConfig


def test_default_effort_is_three() -> None:
    assert EFFORTS[3] == SearchConfig()


def test_more_effort_never_tries_less() -> None:
    names = ("most_grids", "proposals", "growth_rows", "ridge_rows", "n_landmarks", "n_seeds")
    for less, more in pairwise(EFFORTS[k] for k in range(1, 6)):
        for name in names:
            assert getattr(less, name) <= getattr(more, name)
        assert less != more


def test_only_default_effort_changes_for_few_rows() -> None:
    few = {effort: config.of_rows(1999) for effort, config in EFFORTS.items()}
    assert [effort for effort, config in EFFORTS.items() if few[effort] != config] == [3]
    assert few[3].kept_a_round > EFFORTS[3].kept_a_round
    assert few[3].of_rows(10) is few[3]
    assert EFFORTS[3].of_rows(2000) is EFFORTS[3]


def test_codes_of_growth_fit_into_16_bits() -> None:
    """A grid has no more bins than rows that are grown on or judge; 0 is no bin."""
    for config in EFFORTS.values():
        assert config.growth_rows + config.validation_rows < 2**16


def test_default_models_combine_no_inputs() -> None:
    """What grids or kernels of combinations do can be explained by samples alone."""
    assert SearchConfig().n_directions == 0
    assert SearchConfig().projection_max_error_ratio == 0.0
