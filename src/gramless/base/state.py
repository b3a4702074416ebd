"""Objects as plain data and arrays, and back: what model files and pickles hold.

A class that files may hold derives from :class:`Stateful`, or :class:`StatefulEstimator` if it is
an estimator, and says in its own file what its state is and when a state is sound. Defining such
a class registers it; reading a file looks names up among the registered ones and imports nothing.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike
from sklearn.base import BaseEstimator

from gramless.base.compact import MOST_FILLED, CompactArray, compacted
from gramless.base.errors import InputError, ModelFileError
from gramless.base.public import LAST_VERSIONS
from gramless.base.types import AnyArray

T = TypeVar("T")
Number = TypeVar("Number", int, float)
State = Mapping[str, object]
Json = Any
"""What ``json`` reads and writes."""

_CLASSES: dict[tuple[str, str], type[Stateful]] = {}
"""By the mark that files set before their state, and by name."""
_FAMILIES: dict[str, type[Stateful]] = {}
_FITTED_NAME = re.compile(r"[a-z][a-z0-9_]*_")
_LONG = 64
_FEW = 6  # numbers of an array that a representation shows
LARGEST = 1e300
"""Sums of larger numbers could overflow in predictions."""
_MOST_MODELS = 10_000
"""Nested in each other, or parts of hybrids: each takes a tenth of a millisecond."""
_MOST_CHARACTERS = 1 << 22
"""Of labels as NumPy keeps them: all as long as the longest, with 4 bytes a character."""


def _name_of(kind: type) -> str:
    own = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
    return kind.__name__ if own else f"{kind.__module__}.{kind.__qualname__}"


class UnknownClassError(ValueError):
    """A file names a class that is not defined, or not yet."""


class Stateful:
    """An object that model files can hold.

    The state of a frozen dataclass is its fields; other classes override :meth:`state` and
    :meth:`from_state`. A subclass is registered when it is defined: under its name in this
    package, else under its module and name. Files that hold it can be read once it is defined.

    Parameters
    ----------
    mark : str, optional
        For a family of classes that one ``from_state`` builds, such as kernels: what files call it.
    former : sequence of str, default=()
        Other names under which files may hold the class.

    Examples
    --------
    >>> @dataclasses.dataclass(frozen=True)
    ... class Ridge(Stateful):
    ...     alpha: float
    ...
    ...     def check(self) -> None:
    ...         require(self.alpha > 0, "alpha is not positive")
    >>> Ridge.from_state(Ridge(2.0).state())
    Ridge(alpha=2.0)
    """

    _mark: ClassVar[str] = "record"

    def __init_subclass__(
        cls, *, mark: str | None = None, former: tuple[str, ...] = (), **options: object
    ) -> None:
        super().__init_subclass__(**options)
        if mark is not None:
            cls._mark = mark
            _FAMILIES[mark] = cls
        for name in (_name_of(cls), *former):
            _CLASSES[cls._mark, name] = cls

    def state(self) -> State:
        """Return plain data, arrays and other stateful objects that tell all of this one."""
        assert dataclasses.is_dataclass(self)
        return {
            field.name: vars(self)[field.name] for field in dataclasses.fields(self) if field.init
        }

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Build the object of a state; any exception says that a foreign one is unsound."""
        built = cls(**state)
        built.check()
        return built

    def check(self) -> None:
        """Check what the constructor trusts, with a ``ValueError`` for what is unsound."""

    def __repr__(self) -> str:
        shown = (f"{k}={_in_few_words(v)}" for k, v in vars(self).items() if not k.startswith("_"))
        return f"{type(self).__name__}({', '.join(shown)})"

    def __getstate__(self) -> dict[str, object]:
        return _compacted(vars(self))

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(_restored(state))


class StatefulEstimator(Stateful, BaseEstimator, ABC, mark="model"):
    """An estimator that model files can hold, and whose pickles hold what its file does.

    Its state is its parameters and, once it is fitted, its public fitted attributes.
    """

    _rebuilt: ClassVar[frozenset[str]] = frozenset()
    """Attributes that follow from others: neither files nor pickles hold them."""
    _former_attributes: ClassVar[Mapping[str, str]] = {}
    """New names of fitted attributes by the names that files of earlier versions use."""

    __repr__ = BaseEstimator.__repr__

    @abstractmethod
    def check_state(self, state: State) -> None:
        """Check that fitted attributes fit each other, which compiled loops rely on.

        The state may come from a foreign file; any exception says that it is unsound. The
        parameters are set already.
        """

    def state(self) -> State:
        """Return the parameters and, once fitted, the fitted attributes."""
        params, fitted = {"params": self._parameters_to_save()}, self._fitted()
        return {**params, "state": fitted} if fitted else params

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Build an estimator from parameters and, if there are any, checked fitted attributes."""
        model, params = cls(), part_in(state, "params", dict)
        unknown = params.keys() - model.get_params(deep=False).keys()
        require(not unknown, f"{cls.__name__} has no parameters {sorted(unknown)}")
        # Not set_params, which would look inside nested objects.
        model.__dict__.update(params)
        if state.get("state") is not None:
            fitted = part_in(state, "state", dict)
            renamed = model._former_attributes
            model._restore({renamed.get(name, name): part for name, part in fitted.items()})
        return model

    def _parameters_to_save(self) -> dict[str, object]:
        params = self.get_params(deep=False)
        random = np.random.RandomState, np.random.Generator
        return {k: None if isinstance(v, random) else v for k, v in params.items()}

    def _fitted(self) -> dict[str, object]:
        """Return the fitted attributes; what scikit-learn keeps for itself is none of them."""
        left_out = self._rebuilt | self.get_params(deep=False).keys()
        found = (name for name in vars(self) if _FITTED_NAME.fullmatch(name))
        return {name: vars(self)[name] for name in found if name not in left_out}

    def _restore(self, fitted: dict[str, object]) -> None:
        """Take over fitted attributes of a foreign file."""
        self.check_state(fitted)
        self._take(fitted)
        known = set(dir(type(self)))
        for name in fitted:
            public = _FITTED_NAME.fullmatch(name) and name not in known
            require(bool(public), f"{name!r} is no fitted attribute")

    def _take(self, attributes: dict[str, object]) -> None:
        """Set attributes, and rebuild those that follow from them."""
        self.__dict__.update(attributes)

    def __getstate__(self) -> dict[str, object]:
        own = BaseEstimator.__getstate__(self)
        kept = {k: v for k, v in own.items() if k not in self._rebuilt}
        return _compacted(kept | self._fitted())

    def __setstate__(self, state: dict[str, object]) -> None:
        self._take(_restored(state))


def _in_few_words(value: object) -> str:
    """Return a part of a representation on one line: arrays of many numbers by their shape."""
    if isinstance(value, np.ndarray):
        if value.ndim == 1 and len(value) <= _FEW:
            return f"[{', '.join(map(_in_few_words, value.tolist()))}]"
        return f"array of shape {value.shape}"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def _compacted(values: Mapping[str, object]) -> dict[str, object]:
    return {k: compacted(v) if isinstance(v, np.ndarray) else v for k, v in values.items()}


def _restored(values: Mapping[str, object]) -> dict[str, object]:
    return {k: v.restored() if isinstance(v, CompactArray) else v for k, v in values.items()}


class Encoder:
    """Turns stateful objects into data for JSON, and ``tensors`` named by their places."""

    def __init__(self) -> None:
        self.tensors: dict[str, AnyArray] = {}
        self._n_filled = 0

    def model(self, model: Stateful, where: str = "") -> dict[str, Json]:
        """Return an estimator as plain data; ``InputError`` names what no file can hold."""
        if not _is_registered(model):
            raise _unknown(where or "the model", model)
        parts = model.state().items()
        return {"class": _name_of(type(model))} | {k: self.mapping(where, v) for k, v in parts}

    def mapping(self, where: str, values: Any) -> dict[str, Json]:
        """Return the values of a mapping as plain data."""
        start = f"{where}." if where else ""
        return {key: self.value(f"{start}{key}", value) for key, value in values.items()}

    def value(self, where: str, value: object) -> Json:
        """Return any value as plain data."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, list) and len(value) > _LONG and {float} == set(map(type, value)):
            self.tensors[where] = np.array(value)
            return {"list": where}
        if isinstance(value, (list, tuple)):
            items = [self.value(f"{where}.{i}", item) for i, item in enumerate(value)]
            return items if isinstance(value, list) else {"tuple": items}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": self.mapping(where, value)}
        if isinstance(value, np.ndarray):
            return self._array(where, value)
        if isinstance(value, CompactArray):
            return self._form(where, value)
        return self._object(where, value)

    def _array(self, where: str, array: AnyArray) -> Json:
        kind = array.dtype.kind
        if kind in "biuf" and array.dtype.itemsize <= 8:
            form = compacted(array, MOST_FILLED - self._n_filled)
            if isinstance(form, CompactArray):
                return self._form(where, form)
            self.tensors[where] = array
            return {"tensor": where}
        if kind in "UO" and array.ndim == 1 and all(isinstance(item, str) for item in array):
            return {"text": [str(item) for item in array], "object": kind == "O"}
        raise InputError(
            f"save: {where} holds {array.dtype} values, which a model file cannot represent; "
            "fit with labels that are numbers, booleans or text."
        )

    def _form(self, where: str, form: CompactArray) -> Json:
        self._n_filled += form.n_filled
        return {"array": form.form, "fields": self.mapping(where, form.fields)}

    def _object(self, where: str, value: object) -> Json:
        if not isinstance(value, Stateful) or not _is_registered(value):
            raise _unknown(where, value)
        if value._mark == "model":
            return {"model": self.model(value, where)}
        plain = self.mapping(where, value.state())
        if value._mark == "record":
            return {"record": _name_of(type(value)), "fields": plain}
        return {value._mark: {"dict": plain}}


class Decoder:
    """Builds the objects that an :class:`Encoder` described, checked by their classes."""

    def __init__(self, tensors: Mapping[str, AnyArray]) -> None:
        self._tensors = tensors
        self._used: set[str] = set()
        self._n_models = self._n_characters = self._n_filled = 0

    def fitted_model(self, content: Json) -> StatefulEstimator:
        """Build a fitted estimator from all arrays, or raise any exception for foreign content.

        Sizes that could lead compiled loops out of their arrays never pass.
        """
        model = self._model(content)
        unused = sorted(self._tensors.keys() - self._used)
        require(not unused, f"tensor {unused[:1]} has no place in the model")
        require(content.get("state") is not None, "it holds no fitted state")
        return model

    def value(self, value: Json) -> object:
        """Build any value."""
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        require(len(value) > 0, "a value has no mark")
        mark, content = next(iter(value.items()))
        if mark == "float":
            return float({"inf": "inf", "-inf": "-inf", "nan": "nan"}[content])
        if mark == "tuple":
            return tuple(self.value(item) for item in content)
        if mark == "dict":
            return self._mapping(content)
        if mark == "tensor":
            return self._tensor(content)
        if mark == "list":
            return self._tensor(content).tolist()
        if mark == "array":
            return self._restored(CompactArray(content, self._mapping(value["fields"])))
        if mark == "text":
            return self._text(content, value["object"])
        if mark == "model":
            return self._model(content)
        if mark == "record":
            return _registered(content, "record").from_state(self._mapping(value["fields"]))
        if mark not in _FAMILIES:
            raise UnknownClassError(f"values of kind {mark!r} are unknown")
        found = self.value(content)
        assert isinstance(found, dict)
        return _FAMILIES[mark].from_state(found)

    def _mapping(self, content: Json) -> dict[str, object]:
        return {key: self.value(item) for key, item in content.items()}

    def _model(self, content: Json) -> StatefulEstimator:
        kind = _registered(content["class"], "model")
        self._n_models += 1
        require(self._n_models <= _MOST_MODELS, f"it holds more than {_MOST_MODELS} models")
        parts = [part for part in ("params", "state") if content.get(part) is not None]
        model = kind.from_state({part: self._mapping(content[part]) for part in parts})
        assert isinstance(model, StatefulEstimator)
        return model

    def _tensor(self, name: str) -> AnyArray:
        # Each has one place in a model: a copy for each of many would take much memory.
        require(name not in self._used, f"tensor {name!r} has several places in the model")
        self._used.add(name)
        return self._tensors[name]

    def _restored(self, form: CompactArray) -> AnyArray:
        self._n_filled += form.n_filled
        require(self._n_filled <= MOST_FILLED, "its arrays are too large for what they hold")
        return form.restored()

    def _text(self, items: list[str], as_objects: bool) -> AnyArray:
        require(all(isinstance(item, str) for item in items), "text holds other values")
        if as_objects:
            return np.array(items, dtype=object)
        self._n_characters += len(items) * max(map(len, items), default=0)
        require(self._n_characters <= _MOST_CHARACTERS, "its labels are too long")
        return np.array(items, dtype=np.str_)


def same_parameter(first: StatefulEstimator, second: StatefulEstimator, name: str) -> bool:
    """Tell whether files would hold the same for a parameter of two estimators."""

    def written(estimator: StatefulEstimator) -> tuple[Json, Json]:
        encoder = Encoder()
        content = encoder.value(name, estimator._parameters_to_save()[name])
        return content, {where: array.tolist() for where, array in encoder.tensors.items()}

    return bool(written(first) == written(second))


def require(condition: bool | np.bool_, complaint: str) -> None:
    """Raise ``ValueError(complaint)`` unless the condition holds."""
    if not condition:
        raise ValueError(complaint)


def array_in(
    state: State,
    name: str,
    dtype: DTypeLike,
    shape: tuple[int | None, ...] | None = None,
    *,
    finite: bool = False,
) -> AnyArray:
    """Return an array of a state, or raise ``ValueError`` if it is absent or does not fit.

    In ``shape`` None stands for any length; without a shape any will do.
    """
    array = state.get(name)
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        raise ValueError(f"{name} is no array of {np.dtype(dtype)}")
    if shape is not None:
        fits = array.ndim == len(shape) and all(
            wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True)
        )
        require(fits, f"{name} has a wrong shape")
    if finite and array.size:
        # NaN compares as False.
        is_moderate = float(array.min()) >= -LARGEST and float(array.max()) <= LARGEST
        require(is_moderate, f"{name} is not finite, or beyond {LARGEST:g}")
    return array


def number_in(
    state: State, name: str, kind: type[Number], low: float | None = None, high: float = math.inf
) -> Number:
    """Return a number of a state, at least ``low`` and below ``high``, or raise ``ValueError``.

    Integers pass for ``float``; truth values never pass.
    """
    value = state.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise ValueError(f"{name} is no number")
    number = cast(Number, value)
    require(not LARGEST < abs(number) < math.inf, f"{name} is beyond {LARGEST:g}")
    require(low is None or low <= number < high, f"{name} is out of range")
    return number


def part_in(state: State, name: str, kind: type[T]) -> T:
    """Return an object of a state, or raise ``ValueError`` if it is absent or of another class."""
    part = state.get(name)
    if not isinstance(part, kind):
        raise ValueError(f"{name} is no {kind.__name__}")
    return part


def check_columns(state: State, n_features: int) -> None:
    """Check the number of columns of the rows of a fit, and their names, of which none need be."""
    if state.get("feature_names_in_") is not None:
        array_in(state, "feature_names_in_", object, (n_features,))
    fits = state.get("n_features_in_", n_features) == n_features
    require(fits, "n_features_in_ does not fit")


def _is_registered(value: Stateful) -> bool:
    """Tell whether the class of a value is the last one of its name that was defined."""
    return _CLASSES.get((value._mark, _name_of(type(value)))) is type(value)


def _registered(name: str, mark: str) -> type[Stateful]:
    kind = _CLASSES.get((mark, name))
    if kind is None and (version := LAST_VERSIONS.get(name)):
        raise ModelFileError(
            f"it holds an object of the class {name!r}, which gramless no longer has; version "
            f"{version} is the last that reads it"
        )
    if kind is None or inspect.isabstract(kind):
        raise UnknownClassError(
            f"it holds an object of the class {str(name)[:60]!r}, which gramless does not have; if "
            "it is your own, import its module first"
        )
    return kind


def _unknown(where: str, value: object) -> InputError:
    return InputError(
        f"save: {where} is of the class {type(value).__name__}, which a model file cannot "
        "represent. Files hold numbers, text, arrays, and objects of gramless or of classes of "
        "your own below Stateful; give one of these, with set_params where it is a parameter, and "
        "save again."
    )
