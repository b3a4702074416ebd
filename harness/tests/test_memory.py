"""Test PeakMemory."""

from __future__ import annotations

import time

import numpy as np
import pytest

from harness.memory import PeakMemory

MEGABYTE = 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [25, 100])
def test_memory_of_scoring_is_left_out(megabytes):
    # After the first block of 25 MB is freed, the C library serves the next one from its heap.
    for _ in range(2):
        block = np.ones(megabytes * MEGABYTE // 8)
        del block
    peak = PeakMemory()
    with peak.ignoring():
        block = np.ones(megabytes * MEGABYTE // 8)
        del block
    assert peak.bytes() < 5 * MEGABYTE
    block = np.ones(30 * MEGABYTE // 8)
    del block
    np.testing.assert_allclose(peak.bytes(), 30 * MEGABYTE, rtol=0.2)


@pytest.mark.slow
def test_memory_is_sampled_if_the_peak_cannot_be_reset(monkeypatch):
    def fail():
        raise PermissionError

    monkeypatch.setattr("harness.memory.reset_peak", fail)
    peak = PeakMemory()
    block = np.ones(60 * MEGABYTE // 8)
    time.sleep(0.1)
    del block
    np.testing.assert_allclose(peak.bytes(), 60 * MEGABYTE, rtol=0.2)
