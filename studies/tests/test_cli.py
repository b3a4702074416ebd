"""``python -m studies``: lists, runs within a budget, resumes, and says what is missing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from studies import catalogue, process
from studies.__main__ import app
from studies.comparisons import compare
from studies.published import Published
from studies.study import Job, Study

WORKER = """
import json, sys, time
job = json.loads(sys.stdin.readline())["job"]
if job["method"] == "slow":
    time.sleep(100)
error = job["options"]["size"] / 100
head = {"snapshot": 0, "status": "done", "rows": [9, 9], "facts": {}}
head |= {"seconds": {"total": 1.0}, "memory": 5.0}
print(json.dumps({**head, "scores": {"test_error": error}}), flush=True)
"""


def study(name: str, data: str, method: str = "constant", seconds: float = 60.0) -> Study:
    key = f"rb16/{name}"
    number = Published(name, "largest", f"{key}/largest", 1.5, "%", "made up")

    def jobs() -> list[Job]:
        return [Job(key, data, method, {"size": n}, seconds=seconds) for n in range(1, 5)]

    def comparisons(records):
        done = [one for one in records if one["status"] == "done"]
        return [compare(number, done, lambda one: 100 * one["scores"]["test_error"], repetitions=2)]

    return Study(
        "rb16", name, f"About {name}", "In words.", jobs, 4 * seconds / 60, comparisons=comparisons
    )


@pytest.fixture
def gramless(monkeypatch, tmp_path):
    """Return a function that runs the command, with three studies and a fast worker."""
    pytest.importorskip("matplotlib")
    studies = {
        "rr07": [],
        "rb16": [study("figure-2", "digits"), study("table-1", "ijcnn1"), study("logs", "lost")],
    }
    monkeypatch.setattr(catalogue, "PAPERS", {"rr07": "Features 2007", "rb16": "Binning 2016"})
    monkeypatch.setattr(catalogue, "studies", lambda paper: studies[paper])
    monkeypatch.setattr(process, "WORKER", (sys.executable, "-S", "-c", WORKER))
    monkeypatch.setenv("GRAMLESS_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == code, (result.output, result.exception)
        assert "Traceback" not in result.output
        return result

    run.studies = studies
    return run


def test_list(gramless):
    output = " ".join(gramless().stdout.split())
    for words in ("Features 2007", "figure-2", "About table-1"):
        assert words in output
    document = json.loads(gramless("--json").stdout)
    assert [one["name"] for one in document["papers"]] == ["rr07", "rb16"]
    first = {"name": "figure-2", "title": "About figure-2", "minutes": 4.0}
    assert document["papers"][1]["studies"][0] == first


def test_run_resume_and_again(gramless, tmp_path):
    command = ("rb16", "--figure", "2", "--json")
    first = json.loads(gramless(*command, "--budget", "2.5").stdout)
    assert (first["known"], first["ended"], first["beyond"]) == (0, {"done": 2}, 2)
    assert "1 agrees" in first["headline"]
    page = (tmp_path / first["report"]).read_text()
    assert "# The papers, run again" in page
    assert first["headline"] in page
    assert "About figure-2" in (tmp_path / "out/papers/rb16.md").read_text()
    again = json.loads(gramless(*command, "--budget", "2.5").stdout)
    assert (again["known"], again["ended"], again["beyond"]) == (2, {}, 2)
    more = json.loads(gramless(*command).stdout)
    assert (more["known"], more["ended"], more["beyond"]) == (2, {"done": 2}, 0)
    anew = json.loads(gramless(*command, "--budget", "2.5", "--again").stdout)
    assert (anew["known"], anew["ended"], anew["beyond"]) == (0, {"done": 2}, 2)
    lines = (tmp_path / "out/papers/records/rb16-figure-2.jsonl").read_text().splitlines()
    assert len(lines) == 6
    assert all("commit" in json.loads(line) for line in lines)


def test_words_for_people(gramless, tmp_path):
    result = gramless("rb16", "--figure", "2", "--budget", "1", "--out", "deep/out")
    output = " ".join(result.stdout.split())
    for words in ("not measured any published error", "1 done", "index.md"):
        assert words in output
    assert "1 of 1: rb16/figure-2: constant size=1 on digits" in " ".join(result.stderr.split())


def test_what_is_missing_is_said_and_the_rest_is_run(gramless):
    result = gramless("all", "--budget", "3", "--json")
    assert json.loads(result.stdout)["ended"] == {"done": 1}
    assert json.loads(result.stdout)["absent"] == {"ijcnn1": 4, "lost": 4}
    (line,) = [one for one in result.stderr.splitlines() if "need data sets" in one]
    for words in (
        "fetch ijcnn1 by: python -m harness.data_sets NAME --download",
        "put lost.npz there",
    ):
        assert words in line
    again = gramless("rb16", "--study", "logs,table-1", code=1)
    assert again.stderr.count("\n") == 1
    assert "Nothing can be run" in again.stderr


def test_what_was_left_for_want_of_time(gramless):
    gramless.studies["rb16"] = [study("figure-2", "digits", "slow", seconds=0.1)]
    document = json.loads(gramless("rb16", "--budget", "0.0042", "--json").stdout)
    assert document["ended"] == {}
    assert len(document["left"]) == 2
    assert document["left"][0] == "rb16/figure-2: slow size=1 on digits"


def test_faults(gramless, monkeypatch):
    for arguments, message in [
        (["rb16", "--figure", "9"], "no study 'figure-9'; it has figure-2, table-1, logs"),
        (["nobody"], "'nobody'"),
    ]:
        if arguments == ["nobody"]:
            monkeypatch.undo()
        assert message in gramless(*arguments, code=1).stderr


def test_light_start():
    script = (
        "import sys, gramless.cli.main; "
        "print(*[m for m in ('matplotlib', 'numba', 'studies') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not done.stdout.split()
