"""Our own estimators, with nothing given but the seed."""

from __future__ import annotations

from typing import Any, ClassVar

from versus.peer import Peer

from gramless import KernelClassifier, KernelRegressor


class Gramless(Peer):
    """Defaults only: the search for scaling, bandwidth and alpha is in the time."""

    name: ClassVar[str] = "gramless"

    def classifier(self) -> Any:
        return KernelClassifier(random_state=self.seed, n_jobs=self.n_jobs)

    def regressor(self) -> Any:
        return KernelRegressor(random_state=self.seed, n_jobs=self.n_jobs)


class RandomGrids(Peer):
    """512 random grids: nothing is grown; scaling, bandwidth and alpha are searched."""

    name: ClassVar[str] = "gramless, 512 random grids"

    def classifier(self) -> Any:
        return KernelClassifier(
            grids="random", n_grids=512, random_state=self.seed, n_jobs=self.n_jobs
        )

    def regressor(self) -> Any:
        return KernelRegressor(
            grids="random", n_grids=512, random_state=self.seed, n_jobs=self.n_jobs
        )
