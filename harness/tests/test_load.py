"""Cores that other programs keep busy: not those of this process and its children."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from harness import load
from harness.load import OtherPrograms


@pytest.fixture
def statistics(tmp_path, monkeypatch):
    """Return what sets the seconds that a machine of two cores has been at work and idle."""

    def say(user: int, idle: int) -> None:
        file = tmp_path / "stat"
        # user nice system idle iowait irq softirq steal guest guest_nice
        file.write_text(f"cpu  {100 * user} 0 0 {100 * idle} 700 0 0 900 {100 * user} 0\ncpu0 1\n")
        monkeypatch.setattr(load, "_STATISTICS", file)

    monkeypatch.setattr(load.os, "sysconf", lambda name: 100)
    return say


def test_cores_of_others_are_their_seconds_a_second(statistics, monkeypatch):
    now, times = [10.0], [0.0, 0.0, 0.0, 0.0, 10.0]
    monkeypatch.setattr(load.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(load.os, "times", lambda: times)
    statistics(user=50, idle=100)
    others = OtherPrograms()
    statistics(user=65, idle=105)
    now[0], times[:4] = 20.0, [1.0, 1.0, 3.0, 1.0]
    # Of the 15 seconds at work 6 were this process's and its children's.
    assert others.cores() == pytest.approx(0.9)


def test_a_system_that_does_not_tell(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "_STATISTICS", tmp_path / "nothing")
    cores = OtherPrograms().cores()
    assert cores != cores


@pytest.mark.skipif(not load._STATISTICS.exists(), reason="the system does not tell")
def test_children_that_have_ended_are_not_others():
    program = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    before = load.OtherPrograms()
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", program], check=True)
    cores = before.cores()
    # Other programs may be at work, but a core of this machine was not theirs all the time.
    most = (load.os.cpu_count() or 1) - 0.4 / (time.monotonic() - started)
    assert cores <= most
