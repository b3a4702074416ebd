"""Exact kernel ridge regression of scikit-learn; classes as one output each."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelBinarizer, StandardScaler

from harness.peers.base import BestOnSample, Peer

_ALPHAS = [0.01, 0.1, 1.0]
_GAMMAS = [0.003, 0.01, 0.03, 0.1, 0.3]
_KERNELS = ["rbf", "laplacian"]
_SAMPLE_ROWS = 2000


class KernelRidgeClassifier(ClassifierMixin, BaseEstimator):
    """Least squares on -1 and 1, the largest output wins.

    Parameters
    ----------
    alpha, kernel, gamma
        As scikit-learn's ``KernelRidge``.
    """

    def __init__(self, alpha: float = 1.0, kernel: str = "rbf", gamma: float | None = None) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma

    def fit(self, X: Any, y: Any) -> KernelRidgeClassifier:
        """Fit an output a class, of two classes one."""
        self.labels_ = LabelBinarizer(neg_label=-1).fit(y)
        self.classes_ = self.labels_.classes_
        self.machine_ = KernelRidge(alpha=self.alpha, kernel=self.kernel, gamma=self.gamma)
        self.machine_.fit(X, self.labels_.transform(y).astype(float))
        return self

    def predict(self, X: Any) -> Any:
        outputs = self.machine_.predict(X)
        if outputs.shape[1] == 1:
            return self.classes_[(outputs[:, 0] > 0).astype(int)]
        return self.classes_[outputs.argmax(axis=1)]


class ExactKernelRidge(Peer):
    """Kernel, bandwidth and alpha chosen on a sample."""

    name: ClassVar[str] = "kernel ridge"
    max_rows: ClassVar[int | None] = 16_000
    why: ClassVar[str] = "the Gram matrix would take more than 2 GB"
    takes_sparse: ClassVar[bool] = False

    def classifier(self) -> Any:
        machine = make_pipeline(StandardScaler(), KernelRidgeClassifier())
        return self._tuned(machine, "kernelridgeclassifier__")

    def regressor(self) -> Any:
        machine = make_pipeline(StandardScaler(), KernelRidge())
        centred = TransformedTargetRegressor(machine, transformer=StandardScaler())
        return self._tuned(centred, "regressor__kernelridge__")

    def _tuned(self, machine: Any, prefix: str) -> BestOnSample:
        settings = {"kernel": _KERNELS, "gamma": _GAMMAS, "alpha": _ALPHAS}
        named = {prefix + key: values for key, values in settings.items()}
        return BestOnSample(machine, named, _SAMPLE_ROWS, self.seed)
