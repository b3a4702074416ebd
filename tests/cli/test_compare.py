"""gramless compare: what is told, to people and as JSON, and what is refused."""

from __future__ import annotations

import pytest

from gramless.inspection import recommendation


@pytest.fixture(autouse=True)
def two_methods(monkeypatch):
    """Let two methods be tried: what each does is tested with the function."""
    methods = recommendation.methods_for

    def cheap(*given):
        return [
            one for one in methods(*given) if one.name in ("linear model", "gramless, effort=1")
        ]

    monkeypatch.setattr(recommendation, "methods_for", cheap)
    monkeypatch.setattr(recommendation, "_SPLITS", 1)


def test_the_document_is_whole(write, shell):
    found = shell.json("compare", write("a.csv"))
    assert (found["task"], found["rows"], found["columns"]) == ("regression", 120, 2)
    assert found["method"] in {one["method"] for one in found["trials"]}
    assert found["gramless_code"] == "KernelRegressor(effort=1)"
    assert found["reasons"]
    assert set(found["seconds"]) == {"read", "compare"}
    assert found["trials"][0]["error"] <= found["trials"][1]["error"]


def test_what_people_are_told(write, shell):
    data = write("a.csv", ("size", "weight", "colour", "kind"))
    text = " ".join(shell("compare", data).stdout.split())
    for said in (
        "classification (the target holds text)",
        "120 of 3 columns",
        "share of wrong classes",
        "linear model",
        "gramless, effort=1",
    ):
        assert said in text


@pytest.mark.slow
def test_sparse_files_and_targets_by_name(write, shell):
    assert shell.json("compare", write("a.libsvm"))["rows"] == 120
    data = write("a.csv", ("size", "kind", "weight"))
    assert shell.json("compare", data, "--target", "kind")["task"] == "classification"
