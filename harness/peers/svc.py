"""Support vector machines of scikit-learn (LIBSVM), on standardised inputs."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from harness.peers.base import Peer

C, CACHE_MEGABYTES = 10.0, 1000


class SupportVectors(Peer):
    """``C=10`` with the default bandwidth, which suits standardised inputs."""

    name: ClassVar[str] = "svc"
    max_rows: ClassVar[int | None] = 60_000
    why: ClassVar[str] = "time grows with the square of the rows"
    takes_sparse: ClassVar[bool] = False
    is_random: ClassVar[bool] = False

    def classifier(self) -> Any:
        return make_pipeline(StandardScaler(), SVC(C=C, cache_size=CACHE_MEGABYTES))

    def regressor(self) -> Any:
        pipeline = make_pipeline(StandardScaler(), SVR(C=C, cache_size=CACHE_MEGABYTES))
        # SVR's epsilon is in units of the targets.
        return TransformedTargetRegressor(pipeline, transformer=StandardScaler())
