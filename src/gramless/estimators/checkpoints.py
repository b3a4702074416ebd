"""Checkpoints of runs, from which a run resumes after it was killed."""

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

Model = TypeVar("Model", bound=StatefulEstimator)

# Parameters that do not affect the steps of a run, and can change when it is resumed.
_FREE = {"n_jobs", "verbose", "max_steps", "time_budget", "checkpoint", "checkpoint_seconds"}


@dataclass
class Checkpoint:
    """A model file with the state of a run as ``run_``, which is written every ``seconds``."""

    path: Path
    seconds: float
    _written: float = field(default_factory=time.perf_counter)
    _rows: FingerprintedSource | None = None

    def load_earlier(self, model: Model) -> Model | None:
        """Return the model in the file, or None if there is no file.

        Raises InputError if the model has another class or other parameters that affect the run.
        """
        if not self.path.exists():
            return None
        earlier = load(self.path)
        if type(earlier) is not type(model) or "run_" not in vars(earlier):
            raise self._error("is not a checkpoint of this class")
        for name in sorted(model.get_params(deep=False).keys() - _FREE):
            if not same_parameter(model, earlier, name):
                raise self._error(f"is of a run with another {name}")
        return earlier

    def follow(self, source: RowSource, run: Mapping[str, Any] | None) -> FingerprintedSource:
        """Return the source, which records fingerprints of its rows.

        Raises InputError if the rows differ from those of an earlier ``run``.
        """
        self._rows = FingerprintedSource(source)
        difference = None if run is None else self._rows.describe_change(run["rows"])
        if difference is not None:
            raise self._error(f"is of a run over other rows: {difference}")
        return self._rows

    def is_due(self) -> bool:
        """Return whether it is time to write again."""
        return time.perf_counter() - self._written >= self.seconds

    def write(self, model: StatefulEstimator, run: State) -> None:
        """Replace the file atomically by the model and the state of its run."""
        assert self._rows is not None
        # copy.copy would also copy the state of the run.
        copy = object.__new__(type(model))
        copy.__dict__.update(model.__dict__, run_={"rows": self._rows.fingerprint(), **run})
        save(copy, self.path)
        self._written = time.perf_counter()

    def _error(self, what: str) -> InputError:
        return InputError(
            f"checkpoint {str(self.path)!r} {what}; name another file, or remove it to start anew."
        )
