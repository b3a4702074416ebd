"""Kernel machines trained by doubly stochastic gradients, on streams of any length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin

from gramless.base.state import State, array_in, part_in, require
from gramless.base.types import AnyArray, FloatArray, TableLike
from gramless.estimators.available import available_if
from gramless.estimators.streamed import LearnedTargets, StreamedMachine
from gramless.estimators.targets import (
    MAX_CODE,
    ClassEncoder,
    NumberEncoder,
    log_probabilities,
    most_likely,
    plain_labels,
    plain_numbers,
)
from gramless.losses import Hinge, Huber, Logistic, Loss, Multinomial, Squared, SquaredHinge
from gramless.streaming.summary_statistics import Summary

REGRESSION_LOSSES: dict[str, Loss] = {"squared": Squared(), "huber": Huber(0.5)}
CLASSIFICATION_LOSSES: dict[str, Loss] = {
    "logistic": Logistic(),
    "squared": Squared(),
    "squared_hinge": SquaredHinge(),
    "hinge": Hinge(),
}


def _check_logistic(model: DoublyStochasticClassifier) -> None:
    """Raise ``AttributeError`` unless the loss gives probabilities."""
    if model.loss != "logistic":
        raise AttributeError(
            f"DoublyStochasticClassifier: predict_proba needs loss='logistic'; this model has "
            f"{model.loss!r}."
        )


class DoublyStochasticRegressor(RegressorMixin, StreamedMachine):
    """Kernel regression by doubly stochastic gradients (DSG16, Algorithms 1 to 4).

    Each step takes a batch of rows and a block of random Fourier features. Frequencies are drawn
    again from their indices when they are needed, so that memory only holds weights, however many
    rows there are. This suits tables larger than memory and endless streams. On tables that fit
    into memory, :class:`KernelRegressor` is faster and more accurate.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        A kernel with a spectral density, from which frequencies are drawn.
    loss : {"squared", "huber"}, default="squared"
        "huber" is squared up to half a standard deviation of the targets, and linear beyond.
        Targets are then centred by the median and scaled by the interquartile range of a sample,
        so outliers have little influence.
    strategy : {"checking", "cdsg", "uniform", "grow"} or Strategy, default="checking"
        The choice of the block that a step changes. ``"grow"`` adds a new block each time (DSG).
        ``"uniform"`` alternates between a new block and a random old one (UDSG;
        ``Uniform(new, old)`` sets the numbers of each). ``"cdsg"`` uses an old block if a bound
        allows a longer step with it, and takes this step (CDSG). ``"checking"`` chooses the same
        block and takes the step of the schedule. It is the default because runs of ``"cdsg"`` can
        diverge.
    bandwidth : "auto", "median", float or array (n_inputs,), default="auto"
        The bandwidth in units of the scaled inputs. ``"auto"`` tries multiples of the median
        distance with the exact kernel on a sample of at most 2,000 rows.
    alpha : float or "auto", default="auto"
        The strength of the penalty ``alpha / 2 |f|^2``. ``"auto"`` is 0.1 divided by the number of
        rows, or 1e-7 if it is unknown.
    update : {"auto", "newton", "gradient"}, default="auto"
        The update of the block in a step. ``"newton"`` divides the gradient by the covariance of
        the block's features over the batch. It needs far fewer steps for the same error, but
        ``(2 block_size)^2`` more operations per row, and the intercept. ``"gradient"`` is the step
        of the papers, and the only one that converges to the minimum of the penalised loss.
        ``"auto"`` is ``"newton"`` for blocks of at most 1,024 frequencies.
    schedule : "auto" or InverseTime, default="auto"
        The step sizes ``theta / (t + delay)``. ``"auto"`` uses ``theta alpha = 1.5``, and a delay
        with which the first step is as long as the kernel's largest eigenvalue allows.
    block_size : int, default=256
        The number of frequencies per block.
    batch_size : int, default=4096
        The number of rows per step.
    max_steps : int, default=500
        The largest number of steps.
    fit_intercept : bool, default=True
        Whether there is an unpenalised constant. Steps then use features centred over the batch,
        and can be several times longer. False gives the function of the papers, with their steps:
        targets are not centred, and predictions tend to 0 far from all rows.
    average : bool, default=True
        Whether predictions use the average over the steps, in which later steps weigh more.
    scaling : {"auto", "standard", "whiten", "none"}, default="auto"
        Whether inputs are divided by their standard deviations. ``"auto"`` tries both, or is
        ``"standard"`` if ``bandwidth`` is given. Principal components are only divided by
        ``"whiten"``, which uses all of them unless ``n_components`` is given.
    n_components : int, default=None
        The number of principal components that replace the inputs, from a first pass.
    patience : int or None, default=10
        The function is evaluated on held-out rows every ten steps or 5 %, and the best is kept.
        The run ends when this number of evaluations has not lowered the lowest loss by ``tol``.
        None takes all steps and keeps the last function; ``fit`` then holds out no rows.
    tol : float, default=1e-2
        The relative decrease of the loss for ``patience``.
    time_budget : float, default=None
        The time in seconds after which no step begins.
    cache_bytes : int, default=2**29
        The size of the cache for frequencies, which are otherwise drawn again in each step. It does
        not change results.
    checkpoint : str, default=None
        A file to which the run is written. If it exists, ``fit`` resumes from it, with the same
        result to the last bit as an uninterrupted run. The file has checksums of rows and targets,
        and ``fit`` raises an error if others are given.
    checkpoint_seconds : float, default=60
        The time between two writes of the checkpoint.
    device : str, default="cpu"
        ``"cpu"``, or a device of PyTorch such as ``"cuda"``.
    random_state : int, RandomState or None, default=None
        The seed of everything that is drawn; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        The number of threads; None uses every processor. Results do not depend on it.
    verbose : int, default=0
        1 prints every evaluation.

    Attributes
    ----------
    weights_ : array (n_columns, n_outputs) of float32
        The weights of the cosine and sine of each frequency, block by block.
    constant_ : array (n_outputs,)
        The intercept.
    preparation_ : Preparation
        Components, center and units of the inputs; ``reason_`` explains the choice.
    kernel_, block_size_, seed_
        The values that determine the frequencies.
    alpha_, schedule_, loss_, variance_
        The values that determine the steps.
    history_ : dict of arrays
        One entry per step: ``block``, ``n_blocks``, ``step``, ``loss`` and ``objective`` of the
        batch, ``gradient_norm``, ``seconds``.
    evaluations_ : dict of arrays
        One entry per evaluation: ``iteration``, ``n_blocks``, ``loss``, ``error``. They are empty
        if the run ended before the first evaluation.
    n_iter_ : int
        The number of steps.
    status_ : str
        The reason for the end: ``"patience"``, ``"max_steps"``, ``"time"``, ``"stopped"`` (by the
        callback), ``"ended"`` (an iterator had no more rows) or ``"diverged"``.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    target_name_ : str or None
        The name of the series of targets, or of their column in a file.

    Notes
    -----
    A step takes about ``0.6 + 0.02 n_inputs + 0.06 n_outputs`` ns on one core for each row of the
    batch and each frequency so far. Weights take ``8 block_size n_outputs`` bytes per block, and
    twice as much during training.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(2000, 2))
    >>> y = np.sin(X[:, 0]) + 0.3 * X[:, 1]
    >>> model = DoublyStochasticRegressor(random_state=0, max_steps=30).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.97)
    True
    """

    _losses = REGRESSION_LOSSES
    _target_options: ClassVar[dict[str, object]] = {"multi_output": True, "y_numeric": True}

    def predict(self, X: TableLike) -> FloatArray:
        """Return predictions.

        Parameters
        ----------
        X : array-like, memmap or sparse matrix (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples,), or (n_samples, n_outputs) if targets had two dimensions
        """
        # The responses come first: they raise NotFittedError before the encoder is needed.
        responses = self._responses(X)
        predictions = self._encoder.decode(responses)
        return predictions[:, 0] if self.one_output_ else predictions

    def _check_targets_state(self, state: State, n_outputs: int) -> None:
        array_in(state, "target_mean_", np.float64, (n_outputs,), finite=True)
        scale = array_in(state, "target_scale_", np.float64, (n_outputs,), finite=True)
        require((scale > 0).all(), "target_scale_ is not positive")
        has_one = state.get("one_output_")
        fits = has_one is False or (has_one is True and n_outputs == 1)
        require(fits, "one_output_ does not fit")
        losses = {type(loss) for loss in self._losses.values()}
        require(type(state.get("loss_")) in losses, "loss_ is none of the estimator")

    @property
    def _encoder(self) -> NumberEncoder:
        return _number_encoder(self.loss_, self.target_mean_, self.target_scale_)

    def _plain_targets(self, y: ArrayLike) -> ArrayLike:
        return plain_numbers(y, type(self).__name__)

    def _check_targets(self, y: AnyArray) -> AnyArray:
        return NumberEncoder.check(y, type(self).__name__)

    def _learn_targets(self, summary: Summary, classes: ArrayLike | None) -> LearnedTargets:
        if classes is not None:
            raise self._error_of("classes are for a classifier.")
        if summary.target_mean is None or summary.target_variance is None:
            raise self._error_of(
                "targets must be numbers; use DoublyStochasticClassifier for labels."
            )
        loss, sample = self._given_loss(), summary.sample_targets
        mean, squares = summary.target_mean, summary.target_variance
        if loss.robust:
            columns = sample.reshape(len(sample), -1)
            robust = NumberEncoder.fit(columns, None, loss, self.fit_intercept)
            mean, scale = np.asarray(robust.centre), np.asarray(robust.spread)
        else:
            if not self.fit_intercept:
                mean, squares = np.zeros_like(mean), squares + mean**2
            scale = np.sqrt(np.where(squares > 0, squares, 1.0))
        attributes = {
            "target_mean_": mean,
            "target_scale_": scale,
            "one_output_": sample.ndim == 1,
        }
        return LearnedTargets(loss, _number_encoder(loss, mean, scale), attributes)

    def _error(self, responses: FloatArray, targets: FloatArray) -> float:
        return float(np.sqrt(np.mean((responses - targets) ** 2)))


def _number_encoder(loss: Loss, mean: FloatArray, scale: FloatArray) -> NumberEncoder:
    return NumberEncoder(mean, scale, largest=MAX_CODE if loss.robust else np.inf)


@dataclass(eq=False, repr=False, kw_only=True)
class DoublyStochasticClassifier(ClassifierMixin, StreamedMachine):
    """Kernel classification by doubly stochastic gradients (DSG16, Algorithms 1 to 4).

    See :class:`DoublyStochasticRegressor` for the method, and for all parameters but the loss. On
    tables that fit into memory, :class:`KernelClassifier` is faster and more accurate.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        See :class:`DoublyStochasticRegressor`.
    loss : {"logistic", "squared", "squared_hinge", "hinge"}, default="logistic"
        ``"logistic"`` is the multinomial loss for more than two classes. The others are
        one-vs-rest.
    strategy, update, schedule : default="checking", "auto", "auto"
        See :class:`DoublyStochasticRegressor`.
    bandwidth, alpha, scaling : default="auto"
        See :class:`DoublyStochasticRegressor`.
    block_size, batch_size, max_steps : int, default=256, 4096, 500
        See :class:`DoublyStochasticRegressor`.
    fit_intercept, average : bool, default=True
        See :class:`DoublyStochasticRegressor`.
    n_components, time_budget, checkpoint : default=None
        See :class:`DoublyStochasticRegressor`.
    patience, tol : default=10, 1e-2
        See :class:`DoublyStochasticRegressor`.
    cache_bytes, checkpoint_seconds, device : default=2**29, 60, "cpu"
        See :class:`DoublyStochasticRegressor`.
    random_state, n_jobs, verbose : default=None, None, 0
        See :class:`DoublyStochasticRegressor`.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The sorted classes.
    weights_, constant_, preparation_, history_, evaluations_, status_, n_iter_ and others
        See :class:`DoublyStochasticRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DoublyStochasticClassifier(random_state=0, max_steps=50).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _losses = CLASSIFICATION_LOSSES
    _target_options: ClassVar[dict[str, object]] = {}

    loss: str = "logistic"

    def decision_function(self, X: TableLike) -> FloatArray:
        """Return the raw responses.

        Parameters
        ----------
        X : array-like, memmap or sparse matrix (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples,) or (n_samples, n_classes)
            Two classes have one response, which is positive for ``classes_[1]``.
        """
        responses = self._responses(X)
        return responses[:, 0] if len(self.classes_) == 2 else responses

    def predict(self, X: TableLike) -> AnyArray:
        """Return the most likely class of each row.

        Parameters
        ----------
        X : array-like, memmap or sparse matrix (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples,)
        """
        responses = self._responses(X)
        return self._encoder.decode(responses)

    @property
    def _encoder(self) -> ClassEncoder:
        return ClassEncoder(self.classes_)

    @available_if(_check_logistic)
    def predict_proba(self, X: TableLike) -> FloatArray:
        """Return the probability of each class, for the logistic loss.

        Parameters
        ----------
        X : array-like, memmap or sparse matrix (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples, n_classes)
        """
        return np.exp(self.predict_log_proba(X))

    @available_if(_check_logistic)
    def predict_log_proba(self, X: TableLike) -> FloatArray:
        """Return the logarithms of :meth:`predict_proba`, which are exact for tiny probabilities.

        Parameters
        ----------
        X : array-like, memmap or sparse matrix (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples, n_classes)
        """
        return log_probabilities(self._responses(X))

    def _check_targets_state(self, state: State, n_outputs: int) -> None:
        classes = part_in(state, "classes_", np.ndarray)
        require(classes.shape == (max(2, n_outputs),), "classes_ does not fit weights_")
        losses = {type(loss) for loss in self._losses.values()}
        losses |= {Multinomial} if n_outputs > 2 else set()
        require(type(state.get("loss_")) in losses, "loss_ is none of the estimator")

    def _plain_targets(self, y: ArrayLike) -> ArrayLike:
        return plain_labels(y, type(self).__name__)

    def _check_targets(self, y: AnyArray) -> AnyArray:
        return ClassEncoder.check(y, warn=True)

    def _learn_targets(self, summary: Summary, classes: ArrayLike | None) -> LearnedTargets:
        labels = summary.classes if classes is None else np.unique(np.asarray(classes))
        if labels is None:
            raise self._error_of(
                "targets look like measurements, not labels; use DoublyStochasticRegressor, or "
                "name the classes."
            )
        loss, encoder = self._given_loss(), ClassEncoder.fit(labels, type(self).__name__)
        if isinstance(loss, Logistic) and len(encoder.classes) > 2:
            loss = Multinomial()
        return LearnedTargets(loss, encoder, {"classes_": encoder.classes})

    def _error(self, responses: FloatArray, targets: FloatArray) -> float:
        return float(np.mean(most_likely(responses) != most_likely(targets)))
