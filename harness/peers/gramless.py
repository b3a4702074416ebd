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


class Effort1(Gramless):
    """The least effort."""

    name: ClassVar[str] = "effort 1"
    settings: ClassVar[dict[str, Any]] = {"effort": 1}


class Effort2(Gramless):
    """Less than by default."""

    name: ClassVar[str] = "effort 2"
    settings: ClassVar[dict[str, Any]] = {"effort": 2}


class Effort3(Gramless):
    """The default."""

    name: ClassVar[str] = "effort 3"
    settings: ClassVar[dict[str, Any]] = {"effort": 3}


class Effort4(Gramless):
    """More grids from more candidates."""

    name: ClassVar[str] = "effort 4"
    settings: ClassVar[dict[str, Any]] = {"effort": 4}


class Effort5(Gramless):
    """Grids grown with several seeds."""

    name: ClassVar[str] = "effort 5"
    settings: ClassVar[dict[str, Any]] = {"effort": 5}
