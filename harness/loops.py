"""Access from Python to loops that are inlined in others, for tests and micro-benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def entry(inner: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled function that Python can call and that calls the inner loop."""

    @numba.njit(error_model="numpy")
    def enter(*arguments):  # type: ignore[no-untyped-def]
        return inner(*arguments)

    entered: Callable[..., Any] = enter  # numba's decorator is untyped
    return entered
