"""Save the state of a solve to a file, from which a fit resumes with the same bits."""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gramless.base.errors import InputError
from gramless.base.files import open_replacement
from gramless.base.types import AnyArray
from gramless.solvers.base import Iterations, State
from gramless.solvers.objective import Callback, Solution

_MIN_INTERVAL = 30.0  # minimum seconds between two writes

# Names in files that are part of their format: the array with the header, and a key of the header.
_HEADER, _DIGEST = "told", "mark"

Numbers = dict[str, AnyArray]


class Resumable(State, Protocol):
    """The state of a solver that can be saved and restored."""

    def numbers(self) -> Numbers:
        """Return copies of the arrays that define the state."""

    def take_up(self, numbers: Numbers) -> None:
        """Restore the state of another solver of the same problem."""


def solve_with_checkpoint(
    state: Resumable,
    shape: tuple[int, ...],
    max_iter: int,
    callback: Callback | None,
    checkpoint: str | Path | None,
    problem: Iterable[bytes],
) -> Solution:
    """Run a solver to its end, from the state in the file if there is one.

    The state is written about every 30 seconds, and if the solver fails or is interrupted. The file
    is removed when the solver ends or the callback stops it. Without ``checkpoint``, nothing is
    written. ``problem`` yields bytes that identify the problem. Raises InputError if the file
    belongs to another problem, or is not a checkpoint.
    """
    if checkpoint is None:
        return Iterations(state, shape, max_iter).run(callback)
    path, digest = Path(checkpoint), _digest(problem)
    done, history = _restore(path, digest, state)
    iterations = Iterations(state, shape, max_iter - done)
    history = history or iterations.history[:1]
    kept, written = (done, state.numbers()), time.monotonic()
    try:
        for iteration, weights in iterations:
            kept = done + iteration, state.numbers()
            if time.monotonic() - written > _MIN_INTERVAL:
                _write(path, digest, *kept, history + iterations.history[1:])
                written = time.monotonic()
            if callback is not None and callback(iteration, weights):
                break
    except BaseException:
        n_more = kept[0] - done
        _write(path, digest, *kept, history + iterations.history[1 : n_more + 1])
        raise
    path.unlink(missing_ok=True)
    history += iterations.history[1:]
    return Solution(iterations.weights, iterations.status, len(history) - 1, history)


def _digest(problem: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in problem:
        digest.update(part)
    return digest.hexdigest()


def _write(
    path: Path, digest: str, n_iter: int, numbers: Numbers, history: list[dict[str, float]]
) -> None:
    header = json.dumps({_DIGEST: digest, "n_iter": n_iter, "history": history})
    with open_replacement(path) as file:
        arrays: dict[str, Any] = {_HEADER: np.frombuffer(header.encode(), np.uint8), **numbers}
        np.savez(file, **arrays)


def _restore(path: Path, digest: str, state: Resumable) -> tuple[int, list[dict[str, float]]]:
    """Restore the state in a file, if there is one; return its iterations and their history."""
    if not path.exists():
        return 0, []
    try:
        with np.load(path, allow_pickle=False) as file:
            numbers = {name: file[name] for name in file.files}
        header = json.loads(numbers.pop(_HEADER).tobytes())
        if header[_DIGEST] == digest:
            state.take_up(numbers)
            return header["n_iter"], header["history"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"checkpoint {path} is not a checkpoint of a distributed fit ({error}); name another "
            f"file, or remove it."
        ) from error
    raise InputError(
        f"checkpoint {path} is of a fit to other rows, or with other parameters; name another "
        f"file, or remove it to start again."
    )
