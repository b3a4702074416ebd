"""Decorators that compile loops with numba, and the cache of compiled code on disk."""

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
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from gramless.base.files import open_replacement

if TYPE_CHECKING:
    from numba.core.compiler import CompileResult
    from numba.core.registry import CPUDispatcher

# Loops are never called from C, and the wrapper for that takes a tenth of the compile time.
_ALLOCATING = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# Reference counting of arrays takes as long to compile as the body of a short loop.
_OPTIONS = {**_ALLOCATING, "_nrt": False}
_DIGEST_BYTES = sha256().digest_size

Loop = TypeVar("Loop", bound=Callable[..., object])


def loop(function: Loop) -> Loop:
    """Compile a serial loop on first use, without fast-math; it releases the GIL.

    The code is cached on disk. The loop must not create arrays; callers pass scratch memory.
    """
    return _cached(numba.njit(**_OPTIONS)(function), function)


def allocating_loop(function: Loop) -> Loop:
    """Compile a loop that creates arrays, which takes up to 1.5 times as long as :func:`loop`."""
    return _cached(numba.njit(**_ALLOCATING)(function), function)


def inner_loop(function: Loop) -> Loop:
    """Compile a loop that only other loops call; it has no wrapper for Python."""
    return _cached(numba.njit(**_OPTIONS, no_cpython_wrapper=True)(function), function)


def reordering_loop(function: Loop) -> Loop:
    """Compile like :func:`loop`, but allow the compiler to reorder sums so that they vectorise.

    Results do not depend on the number of threads; NaN and infinity are handled as usual.
    """
    reordering = numba.njit(**_OPTIONS, fastmath={"reassoc", "nsz", "contract"})
    return _cached(reordering(function), function)


class _PausedCollection(event.Listener):
    """Disables garbage collection, which takes a tenth of the time, while numba compiles."""

    def __init__(self) -> None:
        self._depth, self._collects = 0, False

    def on_start(self, event: event.Event) -> None:
        # Compilations are nested, but numba runs them in one thread at a time.
        if self._depth == 0:
            self._collects = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: event.Event) -> None:
        self._depth -= 1
        if self._depth == 0 and self._collects:
            gc.enable()


event.register("numba:compile", _PausedCollection())


def _cached(compiled: CPUDispatcher, function: Loop) -> Loop:
    try:
        # This is what ``cache=True`` does, with another class.
        compiled._cache = _CheckedCache(function, compiled.targetoptions.get("_nrt", True))
    except RuntimeError:  # numba found no writable folder
        _warn_uncached()
    return cast(Loop, compiled)


class _CheckedCache(FunctionCache):
    """Cache of compiled code: a file per signature and processor, which starts with a digest.

    numba's own cache does not check its files. A damaged one can crash the process or yield a loop
    with other results. Here, a file with a wrong digest is ignored and replaced. The digest also
    covers the source and the version of numba.
    """

    def __init__(self, function: Callable[..., object], allocates: bool) -> None:
        super().__init__(function)
        self._allocates = allocates

    def load_overload(self, sig: object, target_context: BaseContext) -> object:
        """Return the compiled loop for a signature, or None if there is no valid file."""
        # numba's own cache first imports and registers everything that a loop could be compiled
        # with, which takes longer than a small fit. Compiled code needs only numba's functions for
        # memory, and only if it creates arrays.
        if self._allocates:
            rtsys.initialize(target_context)
        path, origin_text = self._entry(sig, target_context.codegen())
        try:
            content = path.read_bytes()
        except OSError:
            return None
        digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if digest != _digest(origin_text, code):
            return None
        return self._impl.rebuild(target_context, pickle.loads(code))

    def save_overload(self, sig: object, data: CompileResult) -> None:
        """Write the compiled loop for a signature, or warn if the folder is not writable."""
        if not self._impl.check_cachable(data):
            return
        path, origin_text = self._entry(sig, data.codegen)
        code = dumps(self._impl.reduce(data))
        try:
            self._impl.locator.ensure_cache_path()
            with open_replacement(path) as file:
                file.write(_digest(origin_text, code))
                file.write(code)
        except OSError:
            # Windows cannot replace a file that another process reads, but then the file exists.
            if not path.exists():
                _warn_uncached()

    def _entry(self, sig: object, codegen: object) -> tuple[Path, str]:
        """Return the file for a signature and processor, and the text that its digest covers."""
        key = repr(self._index_key(sig, codegen))
        name = f"{self._impl.filename_base}.{sha256(key.encode()).hexdigest()[:16]}.nbc"
        origin = (numba.__version__, self._impl.locator.get_source_stamp(), key)
        return Path(self.cache_path, name), repr(origin)


def _digest(origin_text: str, code: bytes) -> bytes:
    return sha256(origin_text.encode() + code).digest()


@cache
def _warn_uncached() -> None:
    warnings.warn(
        "gramless cannot keep its compiled loops, because neither its own folder nor your cache "
        "folder is writable. Each process compiles the loops that it uses, which takes some "
        "seconds. Set the environment variable NUMBA_CACHE_DIR to a folder that you can write to, "
        "and to which nobody can write whom you do not trust.",
        stacklevel=2,
    )
