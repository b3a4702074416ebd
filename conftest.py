"""Fixtures and Hypothesis profiles shared by all tests."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True, max_examples=30, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_sessionstart() -> None:
    """Let no garbage be collected while tests are: hardly any of half a million objects is."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep what was collected out of the garbage collector, which would look at it again and again.

    Several tests collect garbage, and so do packages.
    """
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return the folder of real tables; a test that asks for it skips where there is none."""
    fallback = Path(__file__).resolve().parents[1] / "shared" / "data"
    folder = Path(os.environ.get("GRAMLESS_DATA") or fallback)
    if not folder.is_dir():
        pytest.skip("no real data: set GRAMLESS_DATA to the folder that holds it")
    return folder
