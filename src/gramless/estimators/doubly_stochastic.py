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
from gramless.estimators.streamed import StreamedMachine
from gramless.estimators.targets import (
    LARGEST_CODE,
    ClassEncoder,
    NumberEncoder,
    log_probabilities,
    most_likely,
    plain_labels,
    plain_numbers,
)
from gramless.losses import Hinge, Huber, Logistic, Loss, Multinomial, Squared, SquaredHinge
from gramless.streaming.summary_statistics import Summary


def _check_logistic(model: DoublyStochasticClassifier) -> None:
    """Raise ``AttributeError`` unless there are probabilities."""
    if model.loss != "logistic":
        raise AttributeError(
            f"DoublyStochasticClassifier: predict_proba needs loss='logistic'; this model has "
            f"{model.loss!r}."
        )


class DoublyStochasticRegressor(RegressorMixin, StreamedMachine):
    """Kernel regression by doubly stochastic gradients (DSG16, Algorithms 1 to 4).

    Each step takes a batch of rows and a block of random Fourier features. Frequencies are drawn
    again from their numbers when they are needed, so that memory holds nothing but weights,
    however many rows there are. This suits tables larger than memory and endless streams. On tables
    that fit into memory :class:`KernelRegressor` is faster and more accurate.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        One with a spectral density, from which frequencies are drawn.
    loss : {"squared", "huber"}, default="squared"
        "huber": squared up to half a standard deviation of the targets, linear beyond. Targets are
        then centred by the median and scaled by the interquartile range of a sample, which the
        deviation is estimated from; outliers hardly matter.
    strategy : {"checking", "cdsg", "uniform", "grow"} or Strategy, default="checking"
        Which block a step changes. ``"grow"``: a new one each time (DSG). ``"uniform"``: a new
        one and a random old one by turns (UDSG; ``Uniform(new, old)`` sets how many of each).
        ``"cdsg"``: an old one if a bound allows a longer step with it, and then that step (CDSG).
        ``"checking"`` chooses the same block and takes the step of the schedule. It is the
        default because runs of ``"cdsg"`` can diverge.
    bandwidth : "auto", "median", float or array (n_inputs,), default="auto"
        In units of the scaled inputs. ``"auto"`` tries multiples of the median distance with the
        exact kernel on a sample of at most 2,000 rows.
    alpha : float or "auto", default="auto"
        Of the penalty ``alpha / 2 |f|^2``; 0.1 / rows if they are counted, else 1e-7.
    update : {"auto", "newton", "gradient"}, default="auto"
        What a step does to its block. ``"newton"`` divides the gradient by the covariance of the
        block's features over the batch: far fewer steps to the same error, each costlier by
        ``(2 block_size)^2`` operations a row; it needs the intercept. ``"gradient"`` is the
        papers' step, and the only one whose limit is the minimum of the penalised loss.
        ``"auto"`` is ``"newton"`` for blocks of at most 1,024 frequencies.
    schedule : "auto" or InverseTime, default="auto"
        Steps ``theta / (t + delay)``: ``theta alpha = 1.5``, and a delay by which the first step
        is as long as the kernel's largest eigenvalue allows.
    block_size : int, default=256
        Frequencies per block.
    batch_size : int, default=4096
        Rows per step.
    max_steps : int, default=500
        Steps at most.
    fit_intercept : bool, default=True
        An unpenalised constant; steps are then taken along features centred over the batch, and
        may be several times longer. False is the papers' function, with their steps: targets are
        not centred, and predictions tend to 0 far from all rows.
    average : bool, default=True
        Predict with the average over the steps, later ones weighing more.
    scaling : {"auto", "standard", "whiten", "none"}, default="auto"
        Divide inputs by their standard deviations; ``"auto"`` tries both, unless ``bandwidth``
        is given, where it is ``"standard"``. Principal components are divided by ``"whiten"``
        alone, which takes all of them unless ``n_components`` is given.
    n_components : int, default=None
        Number of principal components to work on, from a first pass.
    patience : int or None, default=10
        The function is evaluated on held-out rows every ten steps or 5 %, and the best is kept.
        The run ends when so many evaluations have not lowered the least loss by ``tol``.
        None takes all steps and keeps the last function; ``fit`` then holds out no rows.
    tol : float, default=1e-2
        Relative.
    time_budget : float, default=None
        Seconds after which no step begins.
    cache_bytes : int, default=2**29
        Cache for frequencies, which are otherwise drawn again each step. Changes no result.
    checkpoint : str, default=None
        A file that the run is written to. If it exists already, ``fit`` resumes from there, to
        the same bits as a run that was never interrupted. It has checksums of rows and targets:
        ``fit`` refuses to resume with others.
    checkpoint_seconds : float, default=60
        Between two writings.
    device : str, default="cpu"
        Or a device of PyTorch, such as ``"cuda"``.
    random_state : int, RandomState or None, default=None
        Seed of everything that is drawn; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.
    verbose : int, default=0
        1 prints every evaluation.

    Attributes
    ----------
    weights_ : array (n_columns, n_outputs) of float32
        Weights of the cosine and sine of each frequency, block by block.
    constant_ : array (n_outputs,)
    preparation_ : Preparation
        Components, center and units of the inputs; ``reason_`` explains the choice.
    kernel_, block_size_, seed_
        These determine the frequencies.
    alpha_, schedule_, loss_, variance_
        These determine the steps.
    history_ : dict of arrays
        One entry per step: ``block``, ``n_blocks``, ``step``, ``loss`` and ``objective`` of the
        batch, ``gradient_norm``, ``seconds``.
    evaluations_ : dict of arrays
        One entry per evaluation: ``iteration``, ``n_blocks``, ``loss``, ``error``. Empty where
        the run ended before the first one.
    n_iter_ : int
    status_ : str
        ``"patience"``, ``"max_steps"``, ``"time"``, ``"stopped"`` by the callback, ``"ended"``
        where an iterator had no more rows, ``"diverged"``.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    target_name_ : str or None
        Name of the series of targets, or of their column in a file; None if they have none.

    Notes
    -----
    Step t costs rows of the batch times frequencies so far, each some
    ``0.6 + 0.02 n_inputs + 0.06 n_outputs`` ns on one core; weights take ``8 block_size n_outputs``
    bytes per block, twice that in training.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(2000, 2))
    >>> y = np.sin(X[:, 0]) + 0.3 * X[:, 1]
    >>> model = DoublyStochasticRegressor(random_state=0, max_steps=30).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.97)
    True
    """

    _losses: ClassVar[dict[str, Loss]] = {"squared": Squared(), "huber": Huber(0.5)}
    _target_options: ClassVar[dict[str, object]] = {"multi_output": True, "y_numeric": True}

    def predict(self, X: TableLike) -> FloatArray:
        """Return predictions.

        Parameters
        ----------
        X : array-like, memmap or sparse matrix (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array (n_samples,), or (n_samples, n_outputs) where targets had two dimensions
        """
        responses = self._responses(X)
        found = self._encoder.decode(responses)
        return found[:, 0] if self.one_output_ else found

    def _check_targets_state(self, state: State, n_outputs: int) -> None:
        array_in(state, "target_mean_", np.float64, (n_outputs,), finite=True)
        scale = array_in(state, "target_scale_", np.float64, (n_outputs,), finite=True)
        require((scale > 0).all(), "target_scale_ is not positive")
        one = state.get("one_output_")
        require(one is False or (one is True and n_outputs == 1), "one_output_ does not fit")
        losses = {type(loss) for loss in self._losses.values()}
        require(type(state.get("loss_")) in losses, "loss_ is none of the estimator")

    @property
    def _encoder(self) -> NumberEncoder:
        largest = LARGEST_CODE if self.loss_.robust else np.inf
        return NumberEncoder(self.target_mean_, self.target_scale_, largest=largest)

    def _plain_targets(self, y: ArrayLike) -> ArrayLike:
        return plain_numbers(y, type(self).__name__)

    def _check_targets(self, y: AnyArray) -> AnyArray:
        return NumberEncoder.check(y, type(self).__name__)

    def _learn_targets(self, summary: Summary, classes: ArrayLike | None) -> Loss:
        if classes is not None:
            raise self._refused("classes are for a classifier.")
        if summary.target_mean is None or summary.target_variance is None:
            raise self._refused(
                "targets must be numbers; use DoublyStochasticClassifier for labels."
            )
        loss, sample = self._given_loss(), summary.sample_targets
        self.one_output_ = sample.ndim == 1
        if loss.robust:
            columns = sample.reshape(len(sample), -1)
            encoder = NumberEncoder.fit(columns, None, loss, self.fit_intercept)
            self.target_mean_ = np.asarray(encoder.centre)
            self.target_scale_ = np.asarray(encoder.spread)
            return loss
        mean, squares = summary.target_mean, summary.target_variance
        if not self.fit_intercept:
            mean, squares = np.zeros_like(mean), squares + mean**2
        self.target_mean_ = mean
        self.target_scale_ = np.sqrt(np.where(squares > 0, squares, 1.0))
        return loss

    def _encode(self, y: ArrayLike) -> FloatArray:
        targets = np.asarray(y, dtype=np.float64)
        return self._encoder.encode(targets.reshape(len(targets), -1))

    def _error(self, responses: FloatArray, targets: FloatArray) -> float:
        return float(np.sqrt(np.mean((responses - targets) ** 2)))


@dataclass(eq=False, repr=False, kw_only=True)
class DoublyStochasticClassifier(ClassifierMixin, StreamedMachine):
    """Kernel classification by doubly stochastic gradients (DSG16, Algorithms 1 to 4).

    See :class:`DoublyStochasticRegressor` for what it does, and for all parameters but the loss.
    On tables that fit into memory :class:`KernelClassifier` is faster and more accurate.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        As in :class:`DoublyStochasticRegressor`.
    loss : {"logistic", "squared", "squared_hinge", "hinge"}, default="logistic"
        ``"logistic"`` is the multinomial loss for more than two classes. The others are one
        against the rest.
    strategy, update, schedule : default="checking", "auto", "auto"
        As in :class:`DoublyStochasticRegressor`.
    bandwidth, alpha, scaling : default="auto"
        As in :class:`DoublyStochasticRegressor`.
    block_size, batch_size, max_steps : int, default=256, 4096, 500
        As in :class:`DoublyStochasticRegressor`.
    fit_intercept, average : bool, default=True
        As in :class:`DoublyStochasticRegressor`.
    n_components, time_budget, checkpoint : default=None
        As in :class:`DoublyStochasticRegressor`.
    patience, tol : default=10, 1e-2
        As in :class:`DoublyStochasticRegressor`.
    cache_bytes, checkpoint_seconds, device : default=2**29, 60, "cpu"
        As in :class:`DoublyStochasticRegressor`.
    random_state, n_jobs, verbose : default=None, None, 0
        As in :class:`DoublyStochasticRegressor`.

    Attributes
    ----------
    classes_ : array (n_classes,)
    weights_, constant_, preparation_, history_, evaluations_, status_, n_iter_
        And others, as in :class:`DoublyStochasticRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DoublyStochasticClassifier(random_state=0, max_steps=50).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _losses: ClassVar[dict[str, Loss]] = {
        "logistic": Logistic(),
        "squared": Squared(),
        "squared_hinge": SquaredHinge(),
        "hinge": Hinge(),
    }
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
        array (n_samples,) for two classes, positive for ``classes_[1]``; else
        (n_samples, n_classes)
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
        """Return the probability of each class, of the logistic loss.

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
        """Return the logarithms of :meth:`predict_proba`, exact where those round to 0.

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

    def _learn_targets(self, summary: Summary, classes: ArrayLike | None) -> Loss:
        found = summary.classes if classes is None else np.unique(np.asarray(classes))
        if found is None:
            raise self._refused(
                "targets look like measurements, not labels; use DoublyStochasticRegressor, or "
                "name the classes."
            )
        self.classes_ = ClassEncoder.fit(found, type(self).__name__).classes
        loss = self._given_loss()
        several = len(self.classes_) > 2
        return Multinomial() if isinstance(loss, Logistic) and several else loss

    def _encode(self, y: ArrayLike) -> FloatArray:
        codes = self._encoder.encode(y)
        return codes.reshape(len(codes), -1)

    def _error(self, responses: FloatArray, targets: FloatArray) -> float:
        return float(np.mean(most_likely(responses) != most_likely(targets)))
