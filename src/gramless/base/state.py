"""Conversion of objects to plain data and arrays, and back, for model files and pickles.

A class that files may hold derives from :class:`Stateful`, or from :class:`StatefulEstimator` if it
is an estimator. It defines what its state is and which states are valid. Defining such a class
registers it. Reading a file looks names up among the registered classes and imports nothing.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike
from sklearn.base import BaseEstimator

from gramless.base.errors import InputError, ModelFileError
from gramless.base.public import LAST_VERSIONS
from gramless.base.types import AnyArray
from gramless.portable import ARRAY_FORMS

T = TypeVar("T")
Number = TypeVar("Number", int, float)
State = Mapping[str, object]
Json = Any  # what the json module reads and writes

_CLASSES: dict[tuple[str, str], type[Stateful]] = {}  # keys: tag in files, class name
_FAMILIES: dict[str, type[Stateful]] = {}  # base classes; keys: tag in files
_FITTED_NAME = re.compile(r"[a-z][a-z0-9_]*_")
_MIN_TENSOR_LENGTH = 64  # shorter lists of floats stay in the JSON
_SHOWN_NUMBERS = 6  # a description shows longer arrays by their shape
LARGEST = 1e300  # sums of larger numbers could overflow in predictions
# Limits on what a hostile file can make the reader build. Building a model takes a tenth of a
# millisecond. NumPy pads all labels to the length of the longest, and takes 4 bytes per character.
_MAX_MODELS = 10_000
_MAX_CHARACTERS = 1 << 22
# A small hostile file must not make the reader allocate much memory. A restored array may take
# this many times its stored bytes, and all arrays of a file together MAX_FILLED bytes beyond that.
_MAX_RATIO = 64
MAX_FILLED = 1 << 24

_MIN_NUMBERS = 400  # shorter arrays are not compressed: the description takes about 200 bytes
# Arrays are stored deflated only if that takes at most this fraction of their bytes, because
# smaller savings do not repay the time to inflate.
_MAX_DEFLATED_SHARE = 0.85
_PROBED_NUMBERS = 1 << 14  # these first numbers show for most arrays whether they deflate


def _registered_name(cls: type) -> str:
    is_ours = cls.__module__.partition(".")[0] == __name__.partition(".")[0]
    return cls.__name__ if is_ours else f"{cls.__module__}.{cls.__qualname__}"


class UnknownClassError(ValueError):
    """A file names a class that is not defined in this process."""


class Stateful:
    """An object that model files can hold.

    The state of a frozen dataclass is its fields; other classes override :meth:`state` and
    :meth:`from_state`. Defining a subclass registers it: under its name if it belongs to this
    package, else under its module and name. Only then can files that hold it be read.

    Parameters
    ----------
    tag : str, optional
        The key in files of a family of classes that share one ``from_state``, such as kernels.
    former : sequence of str, default=()
        Earlier names of the class, which files may hold.

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

    _tag: ClassVar[str] = "record"

    def __init_subclass__(
        cls, *, tag: str | None = None, former: tuple[str, ...] = (), **options: object
    ) -> None:
        super().__init_subclass__(**options)
        if tag is not None:
            cls._tag = tag
            _FAMILIES[tag] = cls
        for name in (_registered_name(cls), *former):
            _CLASSES[cls._tag, name] = cls

    def state(self) -> State:
        """Return the plain data, arrays and stateful objects from which this one can be built."""
        assert dataclasses.is_dataclass(self)
        return {
            field.name: vars(self)[field.name] for field in dataclasses.fields(self) if field.init
        }

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Build an object from its state, which may be foreign; raise any exception if invalid."""
        instance = cls(**state)
        instance.check()
        return instance

    def check(self) -> None:
        """Raise ``ValueError`` if the fields are invalid; the constructor does not check them."""

    def __repr__(self) -> str:
        shown = (f"{k}={_short_repr(v)}" for k, v in vars(self).items() if not k.startswith("_"))
        return f"{type(self).__name__}({', '.join(shown)})"

    def __getstate__(self) -> dict[str, object]:
        return _compact_arrays(vars(self))

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(_restore_arrays(state))


class StatefulEstimator(Stateful, BaseEstimator, ABC, tag="model"):
    """An estimator that model files can hold.

    Its state is its parameters and, once it is fitted, its public fitted attributes. Its pickles
    also hold random generators among the parameters, and private attributes.
    """

    # Attributes computed from others, which neither files nor pickles hold.
    _rebuilt: ClassVar[frozenset[str]] = frozenset()
    # New names of fitted attributes, by their names in files of earlier versions.
    _former_attributes: ClassVar[Mapping[str, str]] = {}

    __repr__ = BaseEstimator.__repr__

    @abstractmethod
    def check_state(self, state: State) -> None:
        """Raise any exception unless fitted attributes are valid and consistent.

        Compiled loops rely on it, and the state may come from a foreign file. The parameters are
        set before the call.
        """

    def state(self) -> State:
        params, fitted = {"params": self._parameters_to_save()}, self._fitted()
        return {**params, "state": fitted} if fitted else params

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Build an estimator from its parameters and, if it was fitted, its fitted attributes."""
        model, params = cls(), part_in(state, "params", dict)
        unknown = params.keys() - model.get_params(deep=False).keys()
        require(not unknown, f"{cls.__name__} has no parameters {sorted(unknown)}")
        # set_params would set parameters of nested objects, too.
        model.__dict__.update(params)
        if state.get("state") is not None:
            saved = part_in(state, "state", dict)
            renamed = model._former_attributes
            model._restore({renamed.get(name, name): part for name, part in saved.items()})
        return model

    def _parameters_to_save(self) -> dict[str, object]:
        params = self.get_params(deep=False)
        random = np.random.RandomState, np.random.Generator
        return {k: None if isinstance(v, random) else v for k, v in params.items()}

    def _fitted(self) -> dict[str, object]:
        # The pattern leaves out the private attributes that scikit-learn sets.
        excluded = self._rebuilt | self.get_params(deep=False).keys()
        names = (name for name in vars(self) if _FITTED_NAME.fullmatch(name))
        return {name: vars(self)[name] for name in names if name not in excluded}

    def _restore(self, fitted: dict[str, object]) -> None:
        """Set the fitted attributes of a file, which may be foreign, after checks."""
        self.check_state(fitted)
        self._set_attributes(fitted)
        known = set(dir(type(self)))
        for name in fitted:
            is_fitted = _FITTED_NAME.fullmatch(name) and name not in known
            require(bool(is_fitted), f"{name!r} is not a fitted attribute")

    def _set_attributes(self, attributes: dict[str, object]) -> None:
        """Set attributes; subclasses then rebuild those computed from them."""
        self.__dict__.update(attributes)

    def __getstate__(self) -> dict[str, object]:
        attributes = BaseEstimator.__getstate__(self)
        kept = {k: v for k, v in attributes.items() if k not in self._rebuilt}
        return _compact_arrays(kept | self._fitted())

    def __setstate__(self, state: dict[str, object]) -> None:
        self._set_attributes(_restore_arrays(state))


def _short_repr(value: object) -> str:
    if isinstance(value, np.ndarray):
        if value.ndim == 1 and len(value) <= _SHOWN_NUMBERS:
            return f"[{', '.join(map(_short_repr, value.tolist()))}]"
        return f"array of shape {value.shape}"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def _compact_arrays(values: Mapping[str, object]) -> dict[str, object]:
    return {k: compact_array(v) if isinstance(v, np.ndarray) else v for k, v in values.items()}


def _restore_arrays(values: Mapping[str, object]) -> dict[str, object]:
    return {k: v.restored() if isinstance(v, CompactArray) else v for k, v in values.items()}


@dataclasses.dataclass(frozen=True)
class CompactArray:
    """A compressed array of float64 or int64, as files and pickles hold it.

    Attributes
    ----------
    form : str
        A key of :data:`gramless.portable.ARRAY_FORMS`. Only ``"Deflated"`` is written; the others
        occur in files of 0.2.0.
    fields : mapping
        Arguments of the function that restores the array, which may come from a foreign file.
    """

    form: str
    fields: Mapping[str, Any]

    def restored(self) -> AnyArray:
        """Return the array, or raise any exception if the fields are invalid."""
        return ARRAY_FORMS[self.form](**self.fields)

    @property
    def n_filled(self) -> int:
        """Bytes of the restored array beyond 64 times the stored bytes."""
        shape = self.fields.get("shape", ())
        size = 8 * int(np.prod(shape, dtype=object)) if len(shape) else 0
        # This form stores at least one bit per number, so its ratio never exceeds 64, and the
        # formula below would not limit it.
        if self.form == "MostlyOne":
            return size
        return max(0, size - _MAX_RATIO * self.n_bytes)

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in _arrays_in([*self.fields.values()]))


def _arrays_in(parts: list[object]) -> Iterator[AnyArray]:
    for part in parts:
        if isinstance(part, list):
            yield from _arrays_in(part)
        elif isinstance(part, np.ndarray):
            yield part


def compact_array(array: AnyArray, max_filled: int = MAX_FILLED) -> AnyArray | CompactArray:
    """Return an array in compressed form if that saves at least 15 % of its bytes.

    The array itself is returned if compression saves less, if the array is not of float64 or int64,
    if it has fewer than 400 numbers, or if ``n_filled`` of the result would exceed ``max_filled``.

    Parameters
    ----------
    array : array
    max_filled : int, default=2**24
        The largest allowed ``n_filled`` of the result.

    Examples
    --------
    >>> weights = np.arange(2000) / 8
    >>> short = compact_array(weights)
    >>> short.n_bytes < 2000, bool((short.restored() == weights).all())
    (True, True)
    """
    if array.size < _MIN_NUMBERS or array.dtype not in (np.float64, np.int64):
        return array
    numbers = np.ascontiguousarray(array).reshape(-1)
    first = numbers[:_PROBED_NUMBERS]
    # Rounded numbers deflate best if their lowest bytes come first, then the next ones and so on;
    # numbers that are mostly the same deflate best as they are.
    data, n_planes = min(((_deflate(first, n), n) for n in (8, 1)), key=lambda pair: len(pair[0]))
    if len(data) > _MAX_DEFLATED_SHARE * first.nbytes:
        return array
    data = _deflate(numbers, n_planes)
    if len(data) > _MAX_DEFLATED_SHARE * numbers.nbytes:
        return array
    fields = {
        "data": np.frombuffer(data, np.uint8),
        "dtype": array.dtype.name,
        "shape": array.shape,
        "n_planes": n_planes,
    }
    result = CompactArray("Deflated", fields)
    return result if result.n_filled <= max_filled else array


def _deflate(numbers: AnyArray, n_planes: int) -> bytes:
    """Compress all lowest bytes, then all second ones and so on, with separate Huffman codes.

    With one plane, the bytes keep their order.
    """
    little = numbers.astype(numbers.dtype.newbyteorder("<"), copy=False)
    stream = zlib.compressobj(strategy=zlib.Z_FILTERED)
    parts = []
    for plane in little.view(np.uint8).reshape(-1, n_planes).T:
        parts += [stream.compress(plane.tobytes()), stream.flush(zlib.Z_BLOCK)]
    return b"".join([*parts, stream.flush()])


class Encoder:
    """Converts stateful objects to data for JSON.

    Large arrays go into ``tensors``, each under its path in the data.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, AnyArray] = {}
        self._n_filled = 0

    def model(self, model: Stateful, where: str = "") -> dict[str, Json]:
        """Return an estimator as plain data; raise ``InputError`` if a file cannot hold it."""
        if not _is_registered(model):
            raise _unsupported(where or "the model", model)
        parts = {key: self.mapping(where, part) for key, part in model.state().items()}
        return {"class": _registered_name(type(model))} | parts

    def mapping(self, where: str, values: Any) -> dict[str, Json]:
        prefix = f"{where}." if where else ""
        return {key: self.value(f"{prefix}{key}", value) for key, value in values.items()}

    def value(self, where: str, value: object) -> Json:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if (
            isinstance(value, list)
            and len(value) > _MIN_TENSOR_LENGTH
            and {float} == set(map(type, value))
        ):
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
            return self._compact_array(where, value)
        if not isinstance(value, Stateful) or not _is_registered(value):
            raise _unsupported(where, value)
        if value._tag == "model":
            return {"model": self.model(value, where)}
        fields = self.mapping(where, value.state())
        if value._tag == "record":
            return {"record": _registered_name(type(value)), "fields": fields}
        return {value._tag: {"dict": fields}}

    def _array(self, where: str, array: AnyArray) -> Json:
        kind = array.dtype.kind
        if kind in "biuf" and array.dtype.itemsize <= 8:
            compact = compact_array(array, MAX_FILLED - self._n_filled)
            if isinstance(compact, CompactArray):
                return self._compact_array(where, compact)
            self.tensors[where] = array
            return {"tensor": where}
        if kind in "UO" and array.ndim == 1 and all(isinstance(item, str) for item in array):
            return {"text": [str(item) for item in array], "object": kind == "O"}
        raise InputError(
            f"save: {where} holds {array.dtype} values, which a model file cannot represent; "
            "fit with labels that are numbers, booleans or text."
        )

    def _compact_array(self, where: str, array: CompactArray) -> Json:
        self._n_filled += array.n_filled
        return {"array": array.form, "fields": self.mapping(where, array.fields)}


class Decoder:
    """Builds objects from the data of an :class:`Encoder`; their classes check them."""

    def __init__(self, tensors: Mapping[str, AnyArray]) -> None:
        self._tensors = tensors
        self._used: set[str] = set()
        self._n_models = self._n_characters = self._n_filled = 0

    def fitted_model(self, content: Json) -> StatefulEstimator:
        """Build a fitted estimator, or raise any exception if the content is invalid.

        Every tensor must be used. Sizes that would let compiled loops read beyond their arrays are
        invalid.
        """
        model = self._model(content)
        unused = sorted(self._tensors.keys() - self._used)
        require(not unused, f"tensor {unused[:1]} has no place in the model")
        require(content.get("state") is not None, "it holds no fitted state")
        return model

    def value(self, value: Json) -> object:
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        require(len(value) > 0, "a value has no tag")
        tag, content = next(iter(value.items()))
        if tag == "float":
            return float({"inf": "inf", "-inf": "-inf", "nan": "nan"}[content])
        if tag == "tuple":
            return tuple(self.value(item) for item in content)
        if tag == "dict":
            return self._mapping(content)
        if tag == "tensor":
            return self._tensor(content)
        if tag == "list":
            return self._tensor(content).tolist()
        if tag == "array":
            return self._restore_array(CompactArray(content, self._mapping(value["fields"])))
        if tag == "text":
            return self._text(content, value["object"])
        if tag == "model":
            return self._model(content)
        if tag == "record":
            return _registered_class(content, "record").from_state(self._mapping(value["fields"]))
        if tag not in _FAMILIES:
            raise UnknownClassError(f"values of kind {tag!r} are unknown")
        state = self.value(content)
        assert isinstance(state, dict)
        return _FAMILIES[tag].from_state(state)

    def _mapping(self, content: Json) -> dict[str, object]:
        return {key: self.value(item) for key, item in content.items()}

    def _model(self, content: Json) -> StatefulEstimator:
        cls = _registered_class(content["class"], "model")
        self._n_models += 1
        require(self._n_models <= _MAX_MODELS, f"it holds more than {_MAX_MODELS} models")
        parts = [part for part in ("params", "state") if content.get(part) is not None]
        model = cls.from_state({part: self._mapping(content[part]) for part in parts})
        assert isinstance(model, StatefulEstimator)
        return model

    def _tensor(self, name: str) -> AnyArray:
        # A small file that refers to one tensor many times could fill the memory with copies.
        require(name not in self._used, f"tensor {name!r} has several places in the model")
        self._used.add(name)
        return self._tensors[name]

    def _restore_array(self, array: CompactArray) -> AnyArray:
        self._n_filled += array.n_filled
        require(self._n_filled <= MAX_FILLED, "its arrays are too large for what they hold")
        return array.restored()

    def _text(self, items: list[str], as_objects: bool) -> AnyArray:
        require(all(isinstance(item, str) for item in items), "text holds other values")
        if as_objects:
            return np.array(items, dtype=object)
        self._n_characters += len(items) * max(map(len, items), default=0)
        require(self._n_characters <= _MAX_CHARACTERS, "its labels are too long")
        return np.array(items, dtype=np.str_)


def same_parameter(first: StatefulEstimator, second: StatefulEstimator, name: str) -> bool:
    """Return whether two estimators have the same value of a parameter, as files hold it."""

    def encoded(estimator: StatefulEstimator) -> tuple[Json, Json]:
        encoder = Encoder()
        content = encoder.value(name, estimator._parameters_to_save()[name])
        return content, {where: array.tolist() for where, array in encoder.tensors.items()}

    return bool(encoded(first) == encoded(second))


def require(condition: bool | np.bool_, complaint: str) -> None:
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
    """Return an array of a state, or raise ``ValueError`` if it is absent or of another form.

    In ``shape``, None stands for any length; without ``shape``, any shape is valid. With
    ``finite``, all numbers must lie between -1e300 and 1e300.
    """
    array = state.get(name)
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        raise ValueError(f"{name} is not an array of {np.dtype(dtype)}")
    if shape is not None:
        has_shape = array.ndim == len(shape) and all(
            expected in (None, length) for expected, length in zip(shape, array.shape, strict=True)
        )
        require(has_shape, f"{name} has a wrong shape")
    if finite and array.size:
        # Comparisons with NaN are False.
        is_moderate = float(array.min()) >= -LARGEST and float(array.max()) <= LARGEST
        require(is_moderate, f"{name} is not finite, or beyond {LARGEST:g}")
    return array


def number_in(
    state: State, name: str, type_: type[Number], low: float | None = None, high: float = math.inf
) -> Number:
    """Return a number of a state, or raise ``ValueError`` if it is absent or invalid.

    It must be at least ``low`` and below ``high``; without ``low``, ``high`` has no effect. Finite
    numbers beyond 1e300 are invalid, and so are booleans. If ``type_`` is float, integers are valid
    too; infinity and NaN are valid only without ``low``.
    """
    value = state.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float) if type_ is float else type_):
        raise ValueError(f"{name} is not a number")
    number = cast(Number, value)
    require(not LARGEST < abs(number) < math.inf, f"{name} is beyond {LARGEST:g}")
    require(low is None or low <= number < high, f"{name} is out of range")
    return number


def part_in(state: State, name: str, cls: type[T]) -> T:
    """Return a part of a state, or raise ``ValueError`` if it is not an instance of ``cls``."""
    part = state.get(name)
    if not isinstance(part, cls):
        raise ValueError(f"{name} is not a {cls.__name__}")
    return part


def check_columns(state: State, n_features: int) -> None:
    """Raise ``ValueError`` if the number or the names of the training columns are inconsistent.

    Both may be absent.
    """
    if state.get("feature_names_in_") is not None:
        array_in(state, "feature_names_in_", object, (n_features,))
    is_consistent = state.get("n_features_in_", n_features) == n_features
    require(is_consistent, "n_features_in_ does not fit")


def _is_registered(value: Stateful) -> bool:
    # A later class of the same name replaces an earlier one, whose objects no file can hold then.
    return _CLASSES.get((value._tag, _registered_name(type(value)))) is type(value)


def _registered_class(name: str, tag: str) -> type[Stateful]:
    cls = _CLASSES.get((tag, name))
    if cls is None and (version := LAST_VERSIONS.get(name)):
        raise ModelFileError(
            f"it holds an object of the class {name!r}, which gramless no longer has; version "
            f"{version} is the last that reads it"
        )
    if cls is None or inspect.isabstract(cls):
        raise UnknownClassError(
            f"it holds an object of the class {str(name)[:60]!r}, which gramless does not have; if "
            "it is your own, import its module first"
        )
    return cls


def _unsupported(where: str, value: object) -> InputError:
    return InputError(
        f"save: {where} is of the class {type(value).__name__}, which a model file cannot "
        "represent. Files hold numbers, text, arrays, and objects of gramless or of classes of "
        "your own derived from Stateful; give one of these, with set_params if it is a parameter, "
        "and save again."
    )
