"""Methods to compare with, by name; each module is imported only if its method is used."""

from __future__ import annotations

from importlib import import_module

from harness.peers.base import Peer

# The module and the class of each method.
METHODS = {
    "gramless": "gramless:Gramless",
    "gramless_random": "gramless:RandomGrids",
    **{f"effort_{k}": f"gramless:Effort{k}" for k in range(1, 6)},
    "svc": "svc:SupportVectors",
    "kernel_ridge": "kernel_ridge:ExactKernelRidge",
    "rbf_sampler": "kernel_approximation:FourierFeatures",
    "nystroem": "kernel_approximation:NystroemFeatures",
    "lightgbm": "lightgbm:LightGBM",
    "lightgbm_tuned": "lightgbm:TunedLightGBM",
    "xgboost": "xgboost:XGBoost",
    "hist_gradient_boosting": "hist_gradient_boosting:HistGradientBoosting",
    "chimeraboost": "chimeraboost:ChimeraBoost",
    "catboost": "catboost:CatBoost",
    "catboost_tuned": "catboost:TunedCatBoost",
    "extra_trees": "extra_trees:ExtraTrees",
}


def find_peer(name: str) -> type[Peer]:
    """Return the class of a method.

    Parameters
    ----------
    name : str
        A key of :data:`METHODS`.

    Raises
    ------
    ModuleNotFoundError
        If its package is not installed.

    Examples
    --------
    >>> find_peer("svc").name
    'svc'
    """
    module, _, class_name = METHODS[name].partition(":")
    peer: type[Peer] = getattr(import_module(f"harness.peers.{module}"), class_name)
    return peer
