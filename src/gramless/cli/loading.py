"""Model files for the verbs that apply them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gramless.base.errors import InputError
from gramless.cli.reading import read_data

if TYPE_CHECKING:
    from gramless.datasets import Table


def load_predictor(path: Path, n_jobs: int | None) -> Any:
    """Load a model that predicts.

    Parameters
    ----------
    path : Path
    n_jobs : int or None
        Threads; None keeps the model's own setting.

    Returns
    -------
    KernelClassifier, KernelRegressor, DoublyStochasticClassifier or DoublyStochasticRegressor

    Raises
    ------
    InputError
        If the file holds a feature map alone.
    """
    from gramless import load

    model = load(path)
    if not hasattr(model, "predict"):
        raise InputError(f"{path} holds a {type(model).__name__}, which predicts nothing.")
    if is_streamed(model):
        # Columns are matched by name before; scikit-learn would warn of arrays without names.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
    if n_jobs is not None:
        model.n_jobs = n_jobs
        if not is_streamed(model):
            model.features_.n_jobs = n_jobs
    return model


def is_streamed(model: Any) -> bool:
    """Tell whether a model has learned from a stream, and so has no grids and no search."""
    from gramless.estimators.streamed import StreamedMachine

    return isinstance(model, StreamedMachine)


def read_for(model: Any, path: Path, part: str, limits: str = "") -> Table:
    """Read a table with the categories that the model knows kept as text.

    Parameters
    ----------
    model : what :func:`load_predictor` returned
    path : Path
    part : {"auto", "train", "test"}
    limits : str, default=""
        As :func:`~gramless.datasets.limits.parse_limits` reads them.

    Returns
    -------
    Table
    """
    if is_streamed(model) or model.encoder_ is None:
        return read_data(path, part=part, n_features=model.n_features_in_, limits=limits)
    return read_data(path, part=part, categorical=model.encoder_.categorical, limits=limits)
