"""Checkpoints of distributed fits that are damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.distributed.checkpoints import solve_with_checkpoint


class Stopped(Exception):
    pass


class Halving:
    """A state whose weights are halved at each step."""

    def __init__(self) -> None:
        self.weights = np.full((3, 1), 64.0)

    def converged(self) -> bool:
        return bool(self.weights[0, 0] <= 1.0)

    def step(self) -> bool:
        self.weights = self.weights / 2.0
        return True

    def record(self) -> dict[str, float]:
        return {"objective": float(self.weights.sum())}

    def numbers(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights.copy()}

    def take_up(self, numbers: dict[str, np.ndarray]) -> None:
        self.weights = numbers["weights"]


def interrupted(path: Path) -> bytes:
    """Return the bytes of the checkpoint of a solve that stops after two iterations."""

    def stop(iteration: int, weights: np.ndarray) -> bool:
        if iteration == 2:
            raise Stopped
        return False

    with pytest.raises(Stopped):
        solve_with_checkpoint(Halving(), (3, 1), 9, stop, path, [b"problem"])
    return path.read_bytes()


def test_solves_resume_after_an_interruption(tmp_path):
    path = tmp_path / "checkpoint"
    interrupted(path)
    state = Halving()
    solution = solve_with_checkpoint(state, (3, 1), 9, None, path, [b"problem"])
    assert (solution.status, solution.n_iter) == ("converged", 6)
    assert not path.exists()


def test_truncated_files_are_rejected(tmp_path):
    path = tmp_path / "checkpoint"
    whole = interrupted(path)
    for n_bytes in {0, 1, 4, 30, *range(50, len(whole), 97), len(whole) - 1}:
        path.write_bytes(whole[:n_bytes])
        with pytest.raises(InputError, match="is not a checkpoint of a distributed fit"):
            solve_with_checkpoint(Halving(), (3, 1), 9, None, path, [b"problem"])


def test_changed_bytes_are_rejected_or_do_no_harm(tmp_path):
    path = tmp_path / "checkpoint"
    whole = interrupted(path)
    for at in range(0, len(whole), 13):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        try:
            solution = solve_with_checkpoint(Halving(), (3, 1), 9, None, path, [b"problem"])
        except InputError:
            continue
        assert solution.weights[0, 0] == 1.0
