"""Model files for the verbs that apply them."""

from __future__ import annotations

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
    KernelClassifier or KernelRegressor

    Raises
    ------
    InputError
        If the file holds a feature map alone.
    """
    from gramless import load

    model = load(path)
    if not hasattr(model, "predict"):
        raise InputError(f"{path} holds a {type(model).__name__}, which predicts nothing.")
    if n_jobs is not None:
        model.n_jobs = model.features_.n_jobs = n_jobs
    return model


def read_for(model: Any, path: Path, part: str) -> Table:
    """Read a table with the categories that the model knows kept as text.

    Parameters
    ----------
    model : KernelClassifier or KernelRegressor
    path : Path
    part : {"auto", "train", "test"}

    Returns
    -------
    Table
    """
    if model.encoder_ is None:
        return read_data(path, part=part, n_features=model.n_features_in_)
    return read_data(path, part=part, categorical=model.encoder_.categorical)
