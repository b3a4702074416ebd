"""Workers: asked, listened to, ended with all that they have started."""

from __future__ import annotations

import sys
import time

import pytest

from harness.process import Worker, run_script


def started(code: str) -> Worker:
    return Worker([sys.executable, "-c", code])


def test_requests_and_answers_are_lines_and_prints_are_errors():
    code = """
from harness.process import answers, requests
lines = answers()
for number in requests():
    print("a word of a library")
    lines.write(f"{int(number) ** 2}\\n")
"""
    with started(code) as worker:
        for number in (3, 4):
            worker.send(str(number))
            assert int(worker.receive(60.0)) == number**2
    assert worker.wait() == -9
    assert worker.errors() == "a word of a library\n" * 2


def test_a_worker_ends_when_nobody_can_ask_it_any_more():
    code = "import time\nfrom harness.process import requests\nnext(requests())\ntime.sleep(60)"
    with started(code) as worker:
        worker.send("begin")
        worker._process.stdin.close()
        assert worker.wait() == 1


def test_silence_is_told_and_the_stacks_are_the_last_words():
    code = "import faulthandler, time\nfaulthandler.enable()\nprint(flush=True)\ntime.sleep(60)"
    with started(code) as worker:
        assert worker.receive(60.0) == b"\n"
        with pytest.raises(TimeoutError, match=r"no answer for 0\.01 s"):
            worker.receive(0.01)
        worker.abort()
        assert worker.wait() == -6
        assert "most recent call first" in worker.errors()


def test_a_worker_that_dies_is_told_by_its_code():
    with started("import sys; sys.exit('no room left')") as worker:
        worker.send("never read")
        assert (worker.receive(60.0), worker.wait()) == (b"", 1)
        assert worker.errors() == "no room left\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_what_a_worker_has_started_ends_with_it():
    sleeping = "[sys.executable, '-c', 'import time; time.sleep(60)']"
    code = f"import subprocess, sys\nprint(subprocess.Popen({sleeping}).pid, flush=True)\ninput()"
    with started(code) as worker:
        child = int(worker.receive(60.0))
    for _ in range(200):
        if not _runs(child):
            return
        time.sleep(0.02)
    raise AssertionError("a child outlived its worker")


def test_a_script_is_given_a_job_and_answers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import json, sys; print(json.dumps({'got': json.loads(sys.argv[1])}))")
    assert run_script(script, {"rows": 3}) == {"got": {"rows": 3}}


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
