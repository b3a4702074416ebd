"""Test that OtherPrograms counts neither this process nor its children."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from harness import load
from harness.load import OtherPrograms


@pytest.fixture
def statistics(tmp_path, monkeypatch):
    """Return a function that sets the busy and idle seconds in ``/proc/stat``."""

    def write(user: int, idle: int) -> None:
        file = tmp_path / "stat"
        # user nice system idle iowait irq softirq steal guest guest_nice
        file.write_text(f"cpu  {100 * user} 0 0 {100 * idle} 700 0 0 900 {100 * user} 0\ncpu0 1\n")
        monkeypatch.setattr(load, "_STATISTICS", file)

    monkeypatch.setattr(load.os, "sysconf", lambda name: 100)
    return write


def test_busy_cores_are_seconds_of_others_per_second(statistics, monkeypatch):
    now, times = [10.0], [0.0, 0.0, 0.0, 0.0, 10.0]
    monkeypatch.setattr(load.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(load.os, "times", lambda: times)
    statistics(user=50, idle=100)
    others = OtherPrograms()
    statistics(user=65, idle=105)
    now[0], times[:4] = 20.0, [1.0, 1.0, 3.0, 1.0]
    # This process and its children used 6 of the 15 busy seconds.
    assert others.cores() == pytest.approx(0.9)


def test_busy_cores_are_nan_without_statistics(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "_STATISTICS", tmp_path / "nothing")
    assert np.isnan(OtherPrograms().cores())


@pytest.mark.skipif(not load._STATISTICS.exists(), reason="the system has no /proc/stat")
def test_children_that_have_ended_do_not_count():
    program = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    others = load.OtherPrograms()
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", program], check=True)
    cores = others.cores()
    # Other programs may be busy, but not on the core that the child used for half a second.
    bound = (load.os.cpu_count() or 1) - 0.4 / (time.monotonic() - started)
    assert cores <= bound
