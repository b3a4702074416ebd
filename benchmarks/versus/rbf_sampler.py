"""Random Fourier features of scikit-learn, followed by ridge regression."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from versus.peer import BestOnSample, Peer

N_COMPONENTS = 1000


class FourierFeatures(Peer):
    """1,000 features; bandwidth and alpha chosen on a sample."""

    name: ClassVar[str] = "rbf sampler"
    max_rows: ClassVar[int | None] = 250_000
    why: ClassVar[str] = "its features would take more than 2 GB"
    takes_sparse: ClassVar[bool] = False

    def classifier(self) -> Any:
        return self._tuned(RidgeClassifier(), "ridgeclassifier__alpha")

    def regressor(self) -> Any:
        return self._tuned(Ridge(), "ridge__alpha")

    def _tuned(self, linear: Any, alpha: str) -> BestOnSample:
        features = RBFSampler(n_components=N_COMPONENTS, random_state=self.seed)
        settings = {
            "rbfsampler__gamma": [0.003, 0.01, 0.03, 0.1, 0.3],
            alpha: [0.01, 0.1, 1.0],
        }
        machine = make_pipeline(StandardScaler(), features, linear)
        return BestOnSample(machine, settings, random_state=self.seed)
