"""The one place that says how loops are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

# Nobody calls a loop from C: an entry for that would take a tenth of the time to compile.
_OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def loop(function: Callable[..., Any]) -> Any:
    """Compile a serial loop on first use, cache it on disk, release the GIL.

    No fast-math: results are the same to the last bit on every path, and NaN
    and infinity keep their meaning.
    """
    return numba.njit(**_OPTIONS)(function)


def reordering_loop(function: Callable[..., Any]) -> Any:
    """Compile like :func:`loop`, but let sums be reordered so that they vectorise.

    The order is fixed by the compiled code, so results still do not depend on
    the number of threads; NaN and infinity keep their meaning.
    """
    return numba.njit(**_OPTIONS, fastmath={"reassoc", "nsz", "contract"})(function)
