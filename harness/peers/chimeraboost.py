"""ChimeraBoost: boosted trees in Python and numba."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import chimeraboost

from harness.peers.base import Peer


@dataclass(frozen=True)
class ChimeraBoost(Peer):
    """Default parameters, except for the seed."""

    name: ClassVar[str] = "chimeraboost"
    takes_sparse: ClassVar[bool] = False

    def classifier(self) -> Any:
        return chimeraboost.ChimeraBoostClassifier(random_state=self.seed)

    def regressor(self) -> Any:
        return chimeraboost.ChimeraBoostRegressor(random_state=self.seed)
