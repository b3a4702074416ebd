"""Test worker processes: requests, answers, timeouts and their end."""

from __future__ import annotations

import sys
import time

import pytest

from harness.process import Worker, run_script


def start(code: str) -> Worker:
    return Worker([sys.executable, "-c", code])


def test_requests_and_answers_are_lines_and_prints_go_to_stderr():
    code = """
from harness.process import answers, requests
lines = answers()
for number in requests():
    print("a word of a library")
    lines.write(f"{int(number) ** 2}\\n")
"""
    with start(code) as worker:
        for number in (3, 4):
            worker.send(str(number))
            assert int(worker.receive(60.0)) == number**2
    assert worker.wait() == -9
    assert worker.errors() == "a word of a library\n" * 2


def test_worker_exits_when_its_input_is_closed():
    code = "import time\nfrom harness.process import requests\nnext(requests())\ntime.sleep(60)"
    with start(code) as worker:
        worker.send("begin")
        worker._process.stdin.close()
        assert worker.wait() == 1


def test_receive_times_out_and_abort_prints_tracebacks():
    code = "import faulthandler, time\nfaulthandler.enable()\nprint(flush=True)\ntime.sleep(60)"
    with start(code) as worker:
        assert worker.receive(60.0) == b"\n"
        with pytest.raises(TimeoutError, match=r"no answer for 0\.01 s"):
            worker.receive(0.01)
        worker.abort()
        assert worker.wait() == -6
        assert "most recent call first" in worker.errors()


def test_exit_code_and_errors_of_a_failed_worker():
    with start("import sys; sys.exit('no room left')") as worker:
        worker.send("never read")
        assert (worker.receive(60.0), worker.wait()) == (b"", 1)
        assert worker.errors() == "no room left\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_children_of_a_worker_are_killed_with_it():
    sleeping = "[sys.executable, '-c', 'import time; time.sleep(60)']"
    code = f"import subprocess, sys\nprint(subprocess.Popen({sleeping}).pid, flush=True)\ninput()"
    with start(code) as worker:
        child = int(worker.receive(60.0))
    for _ in range(200):
        if not _is_running(child):
            return
        time.sleep(0.02)
    raise AssertionError("a child outlived its worker")


def test_run_script_passes_the_job_and_returns_its_output(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import json, sys; print(json.dumps({'got': json.loads(sys.argv[1])}))")
    assert run_script(script, {"rows": 3}) == {"got": {"rows": 3}}


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
