"""Clocks, and runs that take turns."""

from __future__ import annotations

from harness.timing import StopWatch, interleaved


def test_clock_counts_phases_and_not_what_others_do():
    now = [0.0]
    watch = StopWatch(lambda: now[0])

    def pass_by(seconds):
        now[0] += seconds

    pass_by(1)
    with watch.phase("solve"):
        pass_by(2)
        with watch.stopped():
            pass_by(100)
            assert watch.seconds() == {"total": 3.0, "solve": 2.0}
        with watch.phase("inner"), watch.phase("solve"):
            pass_by(4)
    pass_by(8)
    with watch.phase("solve"):
        pass_by(16)
    assert watch.seconds() == {"total": 31.0, "solve": 22.0, "inner": 4.0}
    assert watch.total() == 31.0


def test_runs_take_turns_in_alternating_order():
    called = []
    runs = {name: lambda name=name: called.append(name) for name in "ab"}
    found = interleaved(runs, 3, before=lambda run: called.append("-"))
    assert "".join(called) == "ab" + "-a-b" + "-b-a" + "-a-b"
    assert list(found) == ["a", "b"]
