"""Runs that can be killed at any moment and resumed: a checkpoint is a model file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gramless.base.errors import InputError
from gramless.base.state import State, StatefulEstimator, same_parameter
from gramless.estimators.persistence import load, save
from gramless.streaming.fingerprints import FingerprintedSource
from gramless.streaming.sources import RowSource

Machine = TypeVar("Machine", bound=StatefulEstimator)

_FREE = {"n_jobs", "verbose", "max_steps", "time_budget", "checkpoint", "checkpoint_seconds"}
"""Parameters that may change between the parts of a run, because none of them changes a step."""


@dataclass
class Checkpoint:
    """A model file that also holds the state of a run as ``run_``, written every ``seconds``."""

    path: Path
    seconds: float
    _written: float = field(default_factory=time.perf_counter)
    _rows: FingerprintedSource | None = None

    def found(self, model: Machine) -> Machine | None:
        """Return the model in the file, None if there is none; refuse one of another run."""
        if not self.path.exists():
            return None
        earlier = load(self.path)
        if type(earlier) is not type(model) or "run_" not in vars(earlier):
            raise self._refused("is no checkpoint of this class")
        for name in sorted(model.get_params(deep=False).keys() - _FREE):
            if not same_parameter(model, earlier, name):
                raise self._refused(f"is of a run with another {name}")
        return earlier

    def follow(self, source: RowSource, run: Mapping[str, Any] | None) -> FingerprintedSource:
        """Return a source whose rows the checkpoint records; an earlier ``run_`` had the same."""
        self._rows = FingerprintedSource(source)
        difference = None if run is None else self._rows.difference(run["rows"])
        if difference is not None:
            raise self._refused(f"is of a run over other rows: {difference}")
        return self._rows

    def due(self) -> bool:
        """Tell whether it is time to write again."""
        return time.perf_counter() - self._written >= self.seconds

    def write(self, model: StatefulEstimator, run: State) -> None:
        """Replace the file by a model and the state of its run, as a whole or not at all."""
        assert self._rows is not None
        # Not copy.copy, which would also copy the state of the run.
        kept = object.__new__(type(model))
        kept.__dict__.update(model.__dict__, run_={"rows": self._rows.fingerprint(), **run})
        save(kept, self.path)
        self._written = time.perf_counter()

    def _refused(self, what: str) -> InputError:
        return InputError(
            f"checkpoint {str(self.path)!r} {what}; name another file, or remove it to start anew."
        )
