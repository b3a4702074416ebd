"""The one place that says how loops are compiled, and where the compiled code is kept."""

from __future__ import annotations

import gc
import pickle
import warnings
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import numba
from numba.core import event
from numba.core.base import BaseContext
from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

from gramless.base.files import replacing

if TYPE_CHECKING:
    from numba.core.compiler import CompileResult
    from numba.core.registry import CPUDispatcher

# Nobody calls a loop from C: an entry for that would take a tenth of the time to compile.
_ALLOCATING = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# Counting the references to arrays takes as long to compile as what a short loop does with them.
_OPTIONS = {**_ALLOCATING, "_nrt": False}
_DIGEST_BYTES = sha256().digest_size

Loop = TypeVar("Loop", bound=Callable[..., object])
"""A loop, which is called compiled as it would be otherwise."""


def loop(function: Loop) -> Loop:
    """Compile a serial loop on first use, cache it on disk, release the GIL; no fast-math.

    It makes no arrays: it is given room for what it needs.
    """
    return _cached(numba.njit(**_OPTIONS)(function), function)


def allocating_loop(function: Loop) -> Loop:
    """Compile like :func:`loop` one that makes arrays, which takes up to half as long again."""
    return _cached(numba.njit(**_ALLOCATING)(function), function)


def inner_loop(function: Loop) -> Loop:
    """Compile like :func:`loop` one that only other loops call: Python has no way to enter it."""
    return _cached(numba.njit(**_OPTIONS, no_cpython_wrapper=True)(function), function)


def reordering_loop(function: Loop) -> Loop:
    """Compile like :func:`loop`, but let the compiler reorder sums so that they vectorise.

    Results still do not depend on the number of threads; NaN and infinity keep their meaning.
    """
    reordering = numba.njit(**_OPTIONS, fastmath={"reassoc", "nsz", "contract"})
    return _cached(reordering(function), function)


class _PausedCollection(event.Listener):
    """Collects no garbage while numba compiles: to look for it takes a tenth of that time."""

    def __init__(self) -> None:
        self._depth, self._collects = 0, False

    def on_start(self, event: event.Event) -> None:
        """Pause when the outermost function begins; numba compiles in one thread at a time."""
        if self._depth == 0:
            self._collects = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: event.Event) -> None:
        """Go on when it ends, whether it could be compiled or not."""
        self._depth -= 1
        if self._depth == 0 and self._collects:
            gc.enable()


event.register("numba:compile", _PausedCollection())


def _cached(compiled: CPUDispatcher, function: Loop) -> Loop:
    try:
        # As ``cache=True`` does it, but for the class.
        compiled._cache = _CheckedCache(function)
    except RuntimeError:  # numba found no folder that it may write to
        _warn_uncached()
    return cast(Loop, compiled)


class _CheckedCache(FunctionCache):
    """Compiled code on disk: a file for each signature and processor, preceded by its digest.

    numba's own cache trusts its files: from a damaged one LLVM may end the process or make a loop
    that computes something else. Here a file whose digest, which also covers the source and numba's
    version, is another counts as absent and is replaced.
    """

    def load_overload(self, sig: object, target_context: BaseContext) -> object:
        """Return the compiled loop for a signature, or None if there is no intact one."""
        target_context.refresh()
        path, purpose = self._entry(sig, target_context.codegen())
        try:
            kept = path.read_bytes()
        except OSError:
            return None
        digest, code = kept[:_DIGEST_BYTES], kept[_DIGEST_BYTES:]
        if digest != _digest(purpose, code):
            return None
        return self._impl.rebuild(target_context, pickle.loads(code))

    def save_overload(self, sig: object, data: CompileResult) -> None:
        """Keep the compiled loop for a signature, if the folder is still writable."""
        if not self._impl.check_cachable(data):
            return
        path, purpose = self._entry(sig, data.codegen)
        code = dumps(self._impl.reduce(data))
        try:
            self._impl.locator.ensure_cache_path()
            with replacing(path) as file:
                file.write(_digest(purpose, code))
                file.write(code)
        except OSError:
            # Windows replaces no file that another process reads: it has the loop too.
            if not path.exists():
                _warn_uncached()

    def _entry(self, sig: object, codegen: object) -> tuple[Path, str]:
        """Return the file for a signature on a processor, and what its code must be made from."""
        key = repr(self._index_key(sig, codegen))
        name = f"{self._impl.filename_base}.{sha256(key.encode()).hexdigest()[:16]}.nbc"
        made_from = (numba.__version__, self._impl.locator.get_source_stamp(), key)
        return Path(self.cache_path, name), repr(made_from)


def _digest(purpose: str, code: bytes) -> bytes:
    return sha256(purpose.encode() + code).digest()


@cache
def _warn_uncached() -> None:
    warnings.warn(
        "gramless cannot keep its compiled loops, neither beside its own files nor in your cache "
        "folder: each process compiles those that it uses, which takes some seconds. Set the "
        "environment variable NUMBA_CACHE_DIR to a folder that you can write to, and that nobody "
        "can whom you do not trust.",
        stacklevel=2,
    )
