"""Runs that can be killed at any moment and go on: a checkpoint is a model file."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramless.base.errors import InputError
from gramless.streaming.sources import IteratorSource, RowSource

_FREE = frozenset(
    ("n_jobs", "verbose", "max_steps", "time_budget", "checkpoint", "checkpoint_seconds")
)
"""Parameters that may change between the parts of a run: none of them changes a step."""
_ROWS_LOOKED_AT = 256


@dataclass
class Checkpoint:
    """Where a run is kept, and how often it is written.

    Parameters
    ----------
    path : Path
        A model file, which also holds the state of the run as ``run_``.
    seconds : float
        Between two writings.
    """

    path: Path
    seconds: float
    _written: float = field(default_factory=time.perf_counter)

    def found(self, model: Any) -> Any | None:
        """Return the model in the file, or None if there is none.

        Raises
        ------
        InputError
            If the file belongs to a run of another class or with other parameters.
        """
        from gramless.estimators.model_state import pack
        from gramless.estimators.persistence import load

        if not self.path.exists():
            return None
        earlier = load(self.path)
        if type(earlier) is not type(model) or not hasattr(earlier, "run_"):
            raise self._other("is no checkpoint of this class")
        (mine, own), (its, others) = (pack(one, fitted=False) for one in (model, earlier))
        for name in sorted(mine["params"].keys() - _FREE):
            same = mine["params"][name] == its["params"][name]
            for tensor in (one for one in own if one.split(".")[0] == name):
                same = same and np.array_equal(own[tensor], others[tensor])
            if not same:
                raise self._other(f"is of a run with another {name}")
        return earlier

    def check_rows(self, earlier: Any, fingerprint: dict[str, int]) -> None:
        """Raise ``InputError`` unless an earlier run had the same rows."""
        if earlier.run_["rows"] != fingerprint:
            raise self._other("is of a run over other rows")

    def due(self) -> bool:
        """Tell whether it is time to write again."""
        return time.perf_counter() - self._written >= self.seconds

    def write(self, model: Any, run: dict[str, Any]) -> None:
        """Put a model and the state of its run in the place of the file, whole or not at all."""
        from gramless.estimators.persistence import save

        # Not copy.copy, which would also copy the state of the run.
        kept = object.__new__(type(model))
        vars(kept).update(vars(model), run_=run)
        save(kept, self.path)
        self._written = time.perf_counter()

    def _other(self, what: str) -> InputError:
        return InputError(
            f"checkpoint {str(self.path)!r} {what}; name another file, or remove it to start anew."
        )


def fingerprint(source: RowSource) -> dict[str, int]:
    """Return numbers that tell one stream of rows from another: sizes, and a look at some rows."""
    X, y = source.held_out()
    if not len(y) and not isinstance(source, IteratorSource):
        # An iterator goes forwards only: its first rows are for the first step.
        X, y = source.read(0, _ROWS_LOOKED_AT)
    values = X.data if sp.issparse(X) else X
    seen = zlib.crc32(np.ascontiguousarray(values).tobytes())
    labels = np.asarray(y)
    text = "\n".join(map(str, labels.tolist())) if labels.dtype.kind in "OU" else None
    looks = text.encode() if text is not None else np.ascontiguousarray(labels).tobytes()
    return {
        "n_features": int(source.n_features),
        "n_rows": -1 if source.n_rows is None else int(source.n_rows),
        "checksum": zlib.crc32(looks, seen),
    }
