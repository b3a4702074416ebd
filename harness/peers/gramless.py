"""The estimators of this package, with default parameters and at each effort."""

from __future__ import annotations

from typing import Any, ClassVar

from gramless import KernelClassifier, KernelRegressor
from harness.peers.base import Peer


class Gramless(Peer):
    """Default parameters, except for the seed and the number of threads."""

    name: ClassVar[str] = "gramless"
    settings: ClassVar[dict[str, Any]] = {}

    def classifier(self) -> Any:
        return KernelClassifier(**self.settings, random_state=self.seed, n_jobs=self.n_jobs)

    def regressor(self) -> Any:
        return KernelRegressor(**self.settings, random_state=self.seed, n_jobs=self.n_jobs)


class RandomGrids(Gramless):
    """512 random grids instead of grown ones; scaling, bandwidth and alpha are searched."""

    name: ClassVar[str] = "gramless, 512 random grids"
    settings: ClassVar[dict[str, Any]] = {"grids": "random", "n_grids": 512}


def _with_effort(effort: int) -> type[Gramless]:
    members = {
        "name": f"effort {effort}",
        "settings": {"effort": effort},
        "__doc__": f"Effort {effort}; the default is 3.",
    }
    return type(f"Effort{effort}", (Gramless,), members)


Effort1, Effort2, Effort3, Effort4, Effort5 = map(_with_effort, range(1, 6))
