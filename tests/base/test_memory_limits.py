"""Limits of memory: of control groups, of the process and of the environment; and refusals."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from gramless.base import memory
from gramless.base.errors import InputError
from gramless.base.memory import (
    VARIABLE,
    check_memory,
    large_array_budget,
    limit_fit_memory,
    parse_bytes,
)


@pytest.fixture(autouse=True)
def system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Be on a system with 8 GB free, no limits, and control groups below a folder of files."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(memory, "_available_memory", lambda: 8_000_000_000)
    monkeypatch.setattr(memory, "_free_in_process_limits", list)
    monkeypatch.setattr(memory, "_PROCESS_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "_CGROUP_ROOT", tmp_path)
    return tmp_path


def group(folder: Path, names: tuple[str, str, str], numbers: tuple[object, int, int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{numbers[0]}\n")
    (folder / names[1]).write_text(f"{numbers[1]}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {numbers[2]}\n")


SECOND = ("memory.max", "memory.current", "inactive_file")
FIRST = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def test_control_group_limits_the_budget(system: Path) -> None:
    (system / "cgroup").write_text("0::/user/own\n")
    group(system / "user/own", SECOND, ("max", 1000, 0))
    group(system / "user", SECOND, (3_000_000_000, 2_000_000_000, 500_000_000))
    assert large_array_budget() == 750_000_000


def test_control_group_of_version_1_limits_the_budget(system: Path) -> None:
    (system / "cgroup").write_text("5:devices:/a\n4:memory:/far/away\n0::/\n")
    group(system / "memory", FIRST, (2_000_000_000, 1_000_000_000, 0))
    assert large_array_budget() == 500_000_000


@pytest.mark.parametrize("limit", ["max", 2**63 - 4096])
def test_control_groups_without_a_limit_are_ignored(system: Path, limit: object) -> None:
    (system / "cgroup").write_text("0::/\n")
    group(system, SECOND, (limit, 1000, 0))
    assert large_array_budget() == 4_000_000_000


def test_budget_is_a_quarter_of_total_memory_if_free_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def tell(name: str) -> int:
        if name == "SC_AVPHYS_PAGES":
            raise ValueError("unrecognized configuration name")
        return {"SC_PHYS_PAGES": 4_000_000, "SC_PAGE_SIZE": 4096}[name]

    monkeypatch.setattr(memory, "_available_memory", lambda: next(iter(())))
    monkeypatch.setattr("os.sysconf", tell)
    assert large_array_budget() == 4_000_000 * 4096 // 4


def test_process_limits_are_included(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.undo()
    limits = {resource.RLIMIT_AS: 2**50, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], limits[kind]))
    (left,) = memory._free_in_process_limits()
    assert 2**49 < left <= 2**50
    limits[resource.RLIMIT_DATA] = 1
    assert memory._free_in_process_limits()[1] <= 1


def test_environment_variable_replaces_other_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1.5e9")
    assert large_array_budget() == 1_500_000_000


def test_environment_variable_must_be_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("much", "0", "-1", "nan", "inf"):
        monkeypatch.setenv(VARIABLE, text)
        with pytest.raises(InputError, match=f"{VARIABLE}: a number of bytes"):
            large_array_budget()


def test_error_states_need_limit_and_remedy() -> None:
    check_memory("a map", 4e9, "lower n_grids")
    with pytest.raises(InputError) as refused:
        check_memory("RandomBinning: 9 grids", 4.2e10, "lower n_grids")
    message = str(refused.value)
    assert message == (
        "RandomBinning: 9 grids would need 42 GB of memory, and 4 GB may be used, half of the free "
        f"memory: lower n_grids, or set the environment variable {VARIABLE} to at least 42.2 GB."
    )


@pytest.mark.parametrize(
    ("given", "in_fit", "part"),
    [
        ("memory_budget", True, "5 MB may be used, half"),
        (VARIABLE, True, "5 MB may be used, half"),
        (VARIABLE, False, "10 MB may be used, all"),
    ],
)
@pytest.mark.parametrize("needed", [1.005e7, 10_049_999.0, 99_999_999.0, 1.0051e8, 4.2e10])
def test_limit_named_by_the_error_is_enough(
    given: str, in_fit: bool, part: str, needed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def within(limit: int) -> AbstractContextManager[None]:
        monkeypatch.setenv(VARIABLE, str(limit))
        budget = limit if given == "memory_budget" else None
        return limit_fit_memory(budget) if in_fit else nullcontext()

    with within(10**7), pytest.raises(InputError, match=f"{part} of {given}: ") as refused:
        check_memory("a map", needed, "lower n_grids")
    enough = parse_bytes(
        str(refused.value).rpartition(f"raise {given} to at least ")[2].rstrip(".")
    )
    with within(enough):
        check_memory("a map", needed, "lower n_grids")
    assert enough < 1.01 * needed * (2 if in_fit else 1)
