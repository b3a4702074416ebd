"""Our own estimators, with nothing given but the seed."""

from __future__ import annotations

from typing import Any, ClassVar

from gramless import KernelClassifier, KernelRegressor
from harness.peers.base import Peer


class Gramless(Peer):
    """Defaults only: the search for scaling, bandwidth and alpha is in the time."""

    name: ClassVar[str] = "gramless"
    settings: ClassVar[dict[str, Any]] = {}

    def classifier(self) -> Any:
        return KernelClassifier(**self.settings, random_state=self.seed, n_jobs=self.n_jobs)

    def regressor(self) -> Any:
        return KernelRegressor(**self.settings, random_state=self.seed, n_jobs=self.n_jobs)


class RandomGrids(Gramless):
    """512 random grids: nothing is grown; scaling, bandwidth and alpha are searched."""

    name: ClassVar[str] = "gramless, 512 random grids"
    settings: ClassVar[dict[str, Any]] = {"grids": "random", "n_grids": 512}


def _at(effort: int) -> type[Gramless]:
    """Return the method of one effort; 3 is the default."""
    own = {"name": f"effort {effort}", "settings": {"effort": effort}, "__doc__": "One effort."}
    return type(f"Effort{effort}", (Gramless,), own)


Effort1, Effort2, Effort3, Effort4, Effort5 = map(_at, range(1, 6))
