"""Fitted models as plain data and arrays, and back; no code is ever read from a file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.estimators.array_checks import require
from gramless.estimators.base import KernelMachine
from gramless.estimators.classifier import KernelClassifier
from gramless.estimators.doubly_stochastic import (
    DoublyStochasticClassifier,
    DoublyStochasticRegressor,
)
from gramless.estimators.feature_checks import check_grids, check_map
from gramless.estimators.inputs import RowInputs
from gramless.estimators.model_checks import check_machine, check_streamed
from gramless.estimators.regressor import KernelRegressor
from gramless.estimators.streamed import StreamedMachine
from gramless.features.base import SizedMap
from gramless.features.binning import BinningMap, GivenBinning, RandomBinning
from gramless.features.blocks import IndependentBlocks
from gramless.features.exact import ExactKernel
from gramless.features.fourier import HadamardBlocks, RandomFourier
from gramless.features.grids import Grids, KnownBins
from gramless.features.hybrid import Hybrid
from gramless.features.nystrom import Nystrom
from gramless.features.smooth import SmoothBinning
from gramless.kernels import Kernel, as_kernel, from_config
from gramless.losses import (
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    SmoothPinball,
    Squared,
    SquaredHinge,
)
from gramless.preprocessing.encoder import TableEncoder
from gramless.preprocessing.imputer import Imputer
from gramless.preprocessing.scaling import Scaler
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.direct import Cholesky
from gramless.solvers.gmres import Gmres
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.nystrom_preconditioner import RandomisedNystrom
from gramless.solvers.preconditioners import Identity, Jacobi, RootJacobi, SampledRows
from gramless.solvers.random_descent import ParallelRandomDescent, RandomDescent
from gramless.solvers.row_conjugate import RowConjugateGradient
from gramless.streaming.bandwidth_selection import Preparation
from gramless.streaming.principal_components import Projection
from gramless.streaming.step_sizes import InverseTime
from gramless.streaming.strategies import Checking, Grow, Uniform
from gramless.tuning.calibration import Calibration
from gramless.tuning.conformal import Conformal
from gramless.tuning.posterior import Posterior
from gramless.tuning.settings import Settings

Tensors = dict[str, NDArray[Any]]
Model = KernelMachine | StreamedMachine | SizedMap | GivenBinning

MODELS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(KernelClassifier, KernelRegressor),
        *(DoublyStochasticClassifier, DoublyStochasticRegressor),
        *(RandomBinning, GivenBinning, SmoothBinning),
        *(RandomFourier, Nystrom, ExactKernel, IndependentBlocks, Hybrid),
    )
}
RECORDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(RowInputs, Imputer, Scaler, Settings, Calibration, Conformal, Posterior),
        HadamardBlocks,
        *(Preparation, Projection, InverseTime, Grow, Uniform, Checking),
        *(ConjugateGradient, RowConjugateGradient, Cholesky, Gmres, NewtonCG, GridDescent),
        *(RandomDescent, ParallelRandomDescent),
        *(SampledRows, RandomisedNystrom, RootJacobi, Jacobi, Identity),
        *(Squared, SquaredHinge, Logistic, Multinomial, Huber, SmoothPinball, Hinge),
    )
} | {"GapFiller": Imputer}  # the name that older files have

_FITTED_NAME = re.compile(r"[a-z][a-z0-9_]*_")
_REBUILT = frozenset({"n_bins_"})
_MARKS = frozenset(
    ("float", "list", "tuple", "dict", "tensor", "text", "kernel", "encoder", "record")
)
_LONG = 64
_MOST_MODELS = 10_000
"""Nested in each other, or parts of hybrids: each takes a tenth of a millisecond."""
_MOST_CHARACTERS = 1 << 22
"""Of labels as NumPy keeps them: all as long as the longest, with 4 bytes a character."""
_GENERATORS = (np.random.RandomState, np.random.Generator)


def pack(model: Model, fitted: bool = True) -> tuple[dict[str, Any], Tensors]:
    """Describe a model by plain data, ready for JSON, and arrays.

    Parameters
    ----------
    model : KernelClassifier, KernelRegressor or RandomBinning
    fitted : bool, default=True
        False for the parameters alone.

    Returns
    -------
    content : dict
    tensors : dict of str to array
        Numbers and booleans, named by the place that they have in the model.

    Raises
    ------
    InputError
        If something in the model is no plain data, array, or object of this
        package; the message names it.
    """
    packer = _Packer()
    return packer.model("", model, fitted), packer.tensors


def unpack(content: Mapping[str, Any], tensors: Tensors) -> Model:
    """Build the model that :func:`pack` described.

    Parameters
    ----------
    content : dict
    tensors : dict of str to array

    Returns
    -------
    KernelClassifier, KernelRegressor or RandomBinning

    Raises
    ------
    Exception
        Many kinds, when the content is not what :func:`pack` writes. Sizes
        that could lead the compiled loops out of their arrays never pass.
    """
    unpacker = _Unpacker(tensors)
    model = unpacker.model(content)
    unused = sorted(tensors.keys() - unpacker.used)
    require(not unused, f"tensor {unused[:1]} has no place in the model")
    require(content.get("state") is not None, "it holds no fitted state")
    return model


class _Packer:
    def __init__(self) -> None:
        self.tensors: Tensors = {}

    def model(self, where: str, model: Model, fitted: bool) -> dict[str, Any]:
        name = type(model).__name__
        if MODELS.get(name) is not type(model):
            raise _unknown(where or "the model", model)
        params = model.get_params(deep=False)
        content: dict[str, Any] = {
            "class": name,
            "params": {key: self.parameter(f"{where}{key}", params[key]) for key in params},
        }
        if fitted:
            state = _state(model)
            content["state"] = {key: self.value(f"{where}{key}", state[key]) for key in state}
        return content

    def parameter(self, where: str, value: Any) -> Any:
        if isinstance(value, _GENERATORS):
            return None
        if where.split(".")[-1] == "kernel":
            return self.value(where, value if isinstance(value, str) else as_kernel(value))
        if isinstance(value, SizedMap):
            return {"model": self.model(f"{where}.", value, fitted=False)}
        return self.value(where, value)

    def value(self, where: str, value: Any) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if np.isfinite(value) else {"float": str(value)}
        if isinstance(value, list) and len(value) > _LONG and {float} == set(map(type, value)):
            self.tensors[where] = np.array(value)
            return {"list": where}
        if isinstance(value, (list, tuple)):
            items = [self.value(f"{where}.{i}", item) for i, item in enumerate(value)]
            return items if isinstance(value, list) else {"tuple": items}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": {key: self.value(f"{where}.{key}", value[key]) for key in value}}
        if isinstance(value, np.ndarray):
            return self.array(where, value)
        return self.object(where, value)

    def array(self, where: str, array: NDArray[Any]) -> dict[str, Any]:
        kind = array.dtype.kind
        if kind in "biuf" and array.dtype.itemsize <= 8:
            self.tensors[where] = array
            return {"tensor": where}
        if kind in "UO" and array.ndim == 1 and all(isinstance(item, str) for item in array):
            return {"text": [str(item) for item in array], "object": kind == "O"}
        raise InputError(
            f"save: {where} holds {array.dtype} values, which a model file cannot represent; "
            "fit with labels that are numbers, booleans or text."
        )

    def object(self, where: str, value: Any) -> dict[str, Any]:
        if isinstance(value, Kernel):
            return {"kernel": self.value(where, value.to_config())}
        if isinstance(value, TableEncoder):
            return {"encoder": self.value(where, value.to_config())}
        if isinstance(value, (SizedMap, GivenBinning)):
            return {"model": self.model(f"{where}.", value, fitted=bool(_state(value)))}
        if RECORDS.get(type(value).__name__) is type(value):
            fields = [field.name for field in dataclasses.fields(value) if field.init]
            plain = {name: self.value(f"{where}.{name}", getattr(value, name)) for name in fields}
            return {"record": type(value).__name__, "fields": plain}
        raise _unknown(where, value)


class _Unpacker:
    def __init__(self, tensors: Tensors) -> None:
        self.tensors = tensors
        self.used: set[str] = set()
        self.n_models = self.n_characters = 0

    def model(self, content: Mapping[str, Any]) -> Model:
        require(content["class"] in MODELS, "its class is none that gramless writes")
        self.n_models += 1
        require(self.n_models <= _MOST_MODELS, f"it holds more than {_MOST_MODELS} models")
        kind = MODELS[content["class"]]
        model = kind()
        params = {name: self.value(value) for name, value in content["params"].items()}
        unknown = params.keys() - model.get_params(deep=False).keys()
        require(not unknown, f"{kind.__name__} has no parameters {sorted(unknown)}")
        # Not set_params, which would look inside nested objects.
        for name, value in params.items():
            setattr(model, name, value)
        if content.get("state") is not None:
            self.restore(model, content["state"])
        return model

    def restore(self, model: Model, content: Mapping[str, Any]) -> None:
        state = {name: self.value(value) for name, value in content.items()}
        if isinstance(model, (BinningMap, SmoothBinning)):
            check_grids(state)
            _restore_bins(model, state)
        if isinstance(model, KernelMachine) and "inputs_" not in state:
            # Files written before arrays could have gaps.
            state["inputs_"] = RowInputs(state.pop("encoder_", None), None, None)
        for name, value in state.items():
            public = _FITTED_NAME.fullmatch(name) and not hasattr(type(model), name)
            require(bool(public), f"{name!r} is no fitted attribute")
            setattr(model, name, value)
        if isinstance(model, (BinningMap, SizedMap)):
            check_map(model)
        if isinstance(model, KernelMachine):
            check_machine(model)
        if isinstance(model, StreamedMachine):
            check_streamed(model)

    def value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        kind = next(iter(value), None)
        if kind == "model":
            return self.model(value["model"])
        require(kind in _MARKS, f"values of kind {kind!r} are unknown")
        return getattr(self, f"_{kind}")(value)

    def _float(self, value: dict[str, Any]) -> float:
        return float({"inf": "inf", "-inf": "-inf", "nan": "nan"}[value["float"]])

    def _tuple(self, value: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.value(item) for item in value["tuple"])

    def _dict(self, value: dict[str, Any]) -> dict[str, Any]:
        return {key: self.value(item) for key, item in value["dict"].items()}

    def _tensor(self, value: dict[str, Any]) -> NDArray[Any]:
        name = value["tensor"]
        # Each has one place in a model: a copy for each of many would take much memory.
        require(name not in self.used, f"tensor {name!r} has several places in the model")
        self.used.add(name)
        return self.tensors[name]

    def _list(self, value: dict[str, Any]) -> list[float]:
        numbers: list[float] = self._tensor({"tensor": value["list"]}).tolist()
        return numbers

    def _text(self, value: dict[str, Any]) -> NDArray[Any]:
        items = value["text"]
        require(all(isinstance(item, str) for item in items), "text holds other values")
        if value["object"]:
            return np.array(items, dtype=object)
        self.n_characters += len(items) * max(map(len, items), default=0)
        require(self.n_characters <= _MOST_CHARACTERS, "its labels are too long")
        return np.array(items, dtype=np.str_)

    def _kernel(self, value: dict[str, Any]) -> Kernel:
        return from_config(self.value(value["kernel"]))

    def _encoder(self, value: dict[str, Any]) -> TableEncoder:
        config = self.value(value["encoder"])
        old = any("other" in column for column in config["columns"])
        require(not old, "it wrote categories as columns of 0 and 1; fit the model again")
        return TableEncoder.from_config(config)

    def _record(self, value: dict[str, Any]) -> Any:
        kind = RECORDS[value["record"]]
        return kind(**{name: self.value(item) for name, item in value["fields"].items()})


def _state(model: Model) -> dict[str, Any]:
    """Return the fitted attributes; what scikit-learn keeps for itself is no part of them."""
    parameters = model.get_params(deep=False).keys()
    state = {
        name: value
        for name, value in vars(model).items()
        if _FITTED_NAME.fullmatch(name) and name not in parameters and name not in _REBUILT
    }
    if hasattr(model, "_known"):
        grids = model._grids
        state |= {"multipliers": grids.multipliers, "cell_offsets": grids.offsets}
        state["keys"] = model._known.keys()
    return state


def _restore_bins(model: BinningMap | SmoothBinning, state: dict[str, Any]) -> None:
    """Build the tables of bins from checked state, taking out what no attribute holds."""
    multipliers, offsets = state.pop("multipliers"), state.pop("cell_offsets")
    model._grids = Grids(state["widths_"], state["shifts_"], multipliers, offsets)
    model._known = KnownBins.from_keys(model._grids, state.pop("keys"), state["offsets_"])
    model.n_bins_ = model._known.n_bins
    state.setdefault("scale_", float(1.0 / np.sqrt(len(model._grids))))


def _unknown(where: str, value: Any) -> InputError:
    return InputError(
        f"save: {where} is of the class {type(value).__name__}, which a model file cannot "
        f"represent. Files hold {', '.join(MODELS)} and their built-in options; give "
        "one of these, with set_params where it is a parameter, and save again."
    )
