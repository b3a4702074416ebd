"""How much memory large arrays may take, as the system tells it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gramless.base import memory
from gramless.base.errors import InputError
from gramless.base.memory import (
    large_array_budget,
    large_array_budget_for,
    limit_fit_memory,
    parse_bytes,
    should_store_codes,
)


def system(pages: int, size: int) -> Callable[[str], int]:
    sizes = {"SC_PHYS_PAGES": 4 * pages, "SC_AVPHYS_PAGES": pages, "SC_PAGE_SIZE": size}
    return sizes.__getitem__


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be on a system without ``/proc/meminfo``."""

    def fail() -> int:
        raise OSError

    monkeypatch.setattr(memory, "_available_memory", fail)


@pytest.mark.usefixtures("silent")
def test_budget_is_half_of_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.os, "sysconf", system(1000, 4096))
    assert large_array_budget() == 2_048_000
    assert type(large_array_budget()) is int


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("error", [ValueError, OSError])
def test_budget_is_2_gib_if_the_system_gives_no_size(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(name: str) -> int:
        raise error(name)

    monkeypatch.setattr(memory.os, "sysconf", fail)
    assert large_array_budget() == 2 << 30


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("pages", [0, -1])
def test_budget_is_never_negative(monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    monkeypatch.setattr(memory.os, "sysconf", system(pages, 4096))
    assert large_array_budget() >= 0


def test_given_budget_replaces_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.VARIABLE, "5 kB")
    assert not should_store_codes(1e300)
    with limit_fit_memory(2000):
        assert (large_array_budget(), large_array_budget_for(1)) == (1000, 1000)
        assert should_store_codes(900)
        assert not should_store_codes(100)
        with limit_fit_memory(None):
            assert large_array_budget() == 1000
    assert large_array_budget() == 5000
    with limit_fit_memory(None):
        assert large_array_budget() == 2500


def test_parse_bytes_reads_sizes_with_units() -> None:
    texts = ["4GB", "4 gb", "0.5MB", "1.5e9", "4e+09", "4_000", "2 GiB", "7", 12.7]
    sizes = [4 * 10**9, 4 * 10**9, 500_000, 1_500_000_000, 4 * 10**9, 4000, 2 * 2**30, 7, 12]
    assert [parse_bytes(text) for text in texts] == sizes
    for odd in ["", "GB", "1.2.3GB", "-4GB", "4 PB", 0, True, None, float("inf"), "1e999"]:
        with pytest.raises(InputError, match="a number of bytes"):
            parse_bytes(odd)
