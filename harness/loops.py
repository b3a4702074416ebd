"""Loops that only other loops call, for tests and micro-benchmarks of each by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def entry(inner: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function by which Python enters an inner loop."""

    @numba.njit(error_model="numpy")
    def enter(*arguments):  # type: ignore[no-untyped-def]
        return inner(*arguments)

    found: Callable[..., Any] = enter
    return found
