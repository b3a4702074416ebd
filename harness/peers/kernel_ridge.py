"""Exact kernel ridge regression of scikit-learn, with one output per class."""

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
    """Kernel ridge regression on labels coded as -1 and 1.

    Parameters
    ----------
    alpha, kernel, gamma
        Passed to scikit-learn's ``KernelRidge``.
    """

    def __init__(self, alpha: float = 1.0, kernel: str = "rbf", gamma: float | None = None) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma

    def fit(self, X: Any, y: Any) -> KernelRidgeClassifier:
        """Fit one output per class, or a single output for two classes."""
        self.labels_ = LabelBinarizer(neg_label=-1).fit(y)
        self.classes_ = self.labels_.classes_
        self.regressor_ = KernelRidge(alpha=self.alpha, kernel=self.kernel, gamma=self.gamma)
        self.regressor_.fit(X, self.labels_.transform(y).astype(float))
        return self

    def predict(self, X: Any) -> Any:
        outputs = self.regressor_.predict(X)
        if outputs.shape[1] == 1:
            return self.classes_[(outputs[:, 0] > 0).astype(int)]
        return self.classes_[outputs.argmax(axis=1)]


class ExactKernelRidge(Peer):
    """Kernel, bandwidth and alpha are selected on a sample."""

    name: ClassVar[str] = "kernel ridge"
    max_rows: ClassVar[int | None] = 16_000
    why: ClassVar[str] = "the Gram matrix would take more than 2 GB"
    takes_sparse: ClassVar[bool] = False

    def classifier(self) -> Any:
        pipeline = make_pipeline(StandardScaler(), KernelRidgeClassifier())
        return self._tuned(pipeline, "kernelridgeclassifier__")

    def regressor(self) -> Any:
        pipeline = make_pipeline(StandardScaler(), KernelRidge())
        centred = TransformedTargetRegressor(pipeline, transformer=StandardScaler())
        return self._tuned(centred, "regressor__kernelridge__")

    def _tuned(self, estimator: Any, prefix: str) -> BestOnSample:
        settings = {"kernel": _KERNELS, "gamma": _GAMMAS, "alpha": _ALPHAS}
        parameters = {prefix + key: values for key, values in settings.items()}
        return BestOnSample(estimator, parameters, _SAMPLE_ROWS, self.seed)
