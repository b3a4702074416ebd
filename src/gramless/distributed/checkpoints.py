"""The state of a solve in a file, so that a fit can go on to the same bits."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gramless.base.errors import InputError
from gramless.base.files import replacing
from gramless.base.types import AnyArray
from gramless.solvers.base import Iterations, State
from gramless.solvers.objective import Callback, Solution

_SECONDS = 30.0
"""Between two files."""

Numbers = dict[str, AnyArray]


class Resumable(State, Protocol):
    """The state of a solver whose numbers can be kept, and taken up again."""

    def numbers(self) -> Numbers:
        """Return copies of the numbers that tell where the solver is."""

    def take_up(self, numbers: Numbers) -> None:
        """Be where another solver of the same problem was."""


def solved(
    state: Resumable,
    shape: tuple[int, ...],
    max_iter: int,
    callback: Callback | None,
    checkpoint: str | Path | None,
    problem: Iterable[bytes],
) -> Solution:
    """Run a solver to its end, or on from a file; whatever stops it, the file has its last state.

    ``problem`` are bytes that no other problem has. The file is removed at the end.
    """
    if checkpoint is None:
        return Iterations(state, shape, max_iter).run(callback)
    path, mark = Path(checkpoint), _mark(problem)
    done, history = _found(path, mark, state)
    iterations = Iterations(state, shape, max_iter - done)
    history = history or iterations.history[:1]
    kept, written = (done, state.numbers()), time.monotonic()
    try:
        for iteration, weights in iterations:
            kept = done + iteration, state.numbers()
            if time.monotonic() - written > _SECONDS:
                _write(path, mark, *kept, history + iterations.history[1:])
                written = time.monotonic()
            if callback is not None and callback(iteration, weights):
                break
    except BaseException:
        n_more = kept[0] - done
        _write(path, mark, *kept, history + iterations.history[1 : n_more + 1])
        raise
    path.unlink(missing_ok=True)
    history += iterations.history[1:]
    return Solution(iterations.weights, iterations.status, len(history) - 1, history)


def _mark(problem: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    for part in problem:
        found.update(part)
    return found.hexdigest()


def _write(
    path: Path, mark: str, n_iter: int, numbers: Numbers, history: list[dict[str, float]]
) -> None:
    told = json.dumps({"mark": mark, "n_iter": n_iter, "history": history})
    with replacing(path) as file:
        arrays: dict[str, Any] = {"told": np.frombuffer(told.encode(), np.uint8), **numbers}
        np.savez(file, **arrays)


def _found(path: Path, mark: str, state: Resumable) -> tuple[int, list[dict[str, float]]]:
    """Take up the state in a file, if there is one; return its iterations and their history."""
    if not path.exists():
        return 0, []
    try:
        with np.load(path, allow_pickle=False) as file:
            numbers = {name: file[name] for name in file.files}
        told = json.loads(numbers.pop("told").tobytes())
        same = told["mark"] == mark
    except (OSError, ValueError, KeyError) as fault:
        raise InputError(
            f"checkpoint {path} is no checkpoint of a distributed fit ({fault}); name another "
            f"file, or remove it."
        ) from fault
    if not same:
        raise InputError(
            f"checkpoint {path} is of a fit to other rows, or with other parameters; name another "
            f"file, or remove it to begin anew."
        )
    state.take_up(numbers)
    return told["n_iter"], told["history"]
