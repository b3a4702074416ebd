"""Random features and landmarks of scikit-learn, followed by ridge regression."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harness.peers.base import BestOnSample, Peer

_ALPHAS = [0.01, 0.1, 1.0]


class KernelApproximation(Peer):
    """Random features of standardised inputs; bandwidth and alpha are selected on a sample."""

    max_rows: ClassVar[int | None] = 250_000
    why: ClassVar[str] = "its features would take more than 2 GB"
    takes_sparse: ClassVar[bool] = False
    n_components: ClassVar[int] = 1000

    @abstractmethod
    def features(self) -> tuple[Any, dict[str, list[Any]]]:
        """Return the transformer and the parameters to search, for ``ParameterGrid``."""

    def classifier(self) -> Any:
        return self._tuned(RidgeClassifier(), "ridgeclassifier__alpha")

    def regressor(self) -> Any:
        return self._tuned(Ridge(), "ridge__alpha")

    def _tuned(self, linear: Any, alpha: str) -> BestOnSample:
        features, settings = self.features()
        pipeline = make_pipeline(StandardScaler(), features, linear)
        return BestOnSample(pipeline, {**settings, alpha: _ALPHAS}, random_state=self.seed)


class FourierFeatures(KernelApproximation):
    """1,000 features; bandwidth and alpha are selected on a sample."""

    name: ClassVar[str] = "rbf sampler"

    def features(self) -> tuple[Any, dict[str, list[Any]]]:
        """Return random Fourier features and the bandwidths to search."""
        features = RBFSampler(n_components=self.n_components, random_state=self.seed)
        return features, {"rbfsampler__gamma": [0.003, 0.01, 0.03, 0.1, 0.3]}


class NystroemFeatures(KernelApproximation):
    """1,000 landmarks; kernel, bandwidth and alpha are selected on a sample."""

    name: ClassVar[str] = "nystroem"

    def features(self) -> tuple[Any, dict[str, list[Any]]]:
        """Return Nyström features and the kernels and bandwidths to search."""
        features = Nystroem(
            n_components=self.n_components, random_state=self.seed, n_jobs=self.n_jobs
        )
        return features, {
            "nystroem__kernel": ["rbf", "laplacian"],
            "nystroem__gamma": [0.003, 0.03, 0.3],
        }
