"""Test the stopwatch and alternating calls."""

from __future__ import annotations

from harness.timing import StopWatch, interleaved


def test_stopwatch_counts_phases_but_not_pauses():
    now = [0.0]
    watch = StopWatch(lambda: now[0])

    def advance(seconds):
        now[0] += seconds

    advance(1)
    with watch.phase("solve"):
        advance(2)
        with watch.stopped():
            advance(100)
            assert watch.seconds() == {"total": 3.0, "solve": 2.0}
        with watch.phase("inner"), watch.phase("solve"):
            advance(4)
    advance(8)
    with watch.phase("solve"):
        advance(16)
    assert watch.seconds() == {"total": 31.0, "solve": 22.0, "inner": 4.0}
    assert watch.total() == 31.0


def test_functions_are_called_alternately_in_reversed_order():
    called = []
    runs = {name: lambda name=name: called.append(name) for name in "ab"}
    seconds = interleaved(runs, 3, before=lambda run: called.append("-"))
    assert "".join(called) == "ab" + "-a-b" + "-b-a" + "-a-b"
    assert list(seconds) == ["a", "b"]
