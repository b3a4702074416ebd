"""Edits that keep model files well-formed, so that they reach the semantic checks of loading."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from campaigns.fitted import N_FEATURES

Content = dict[str, Any]
Tensors = dict[str, np.ndarray]
Donor = tuple[Content, Tensors]

_ODD: list[Any] = [
    *(None, 0, -1, 1, 2, 7, 2**31, 2**63, 2**70, 0.5, 1e300, 1e-320, "", "x", "precomputed"),
    *([], [1], [[1.0]], {}, True, False, {"float": "nan"}, {"float": "inf"}, {"dict": {}}),
    *({"text": ["a", "b"], "object": True}, {"tuple": []}, {"kernel": {"dict": {"name": "hat"}}}),
]
_FLOATS = (np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1e308, 1e-320, 2.0**62, 0.5)
_INTEGERS = (0, 1, -1, 2, 5, 2**15, 2**31 - 1, 2**31, 2**40, 2**63 - 1, -(2**63))
_DTYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u4", "u8", "?")
_MAX_BYTES = 1 << 24


def put_odd_value(rng: Generator, content: Content, tensors: Tensors, donor: Donor) -> None:
    """Replace a value of the state or the parameters by an unusual or another value."""
    container, key = _place(rng, content)
    if rng.random() < 0.3:
        other, source = _place(rng, content)
        container[key] = copy.deepcopy(other[source])
    else:
        container[key] = copy.deepcopy(_ODD[rng.integers(len(_ODD))])


def drop_field(rng: Generator, content: Content, tensors: Tensors, donor: Donor) -> None:
    """Remove a field and its arrays."""
    states = [place for place in _containers(content) if isinstance(place[0], dict)]
    container, key = states[rng.integers(len(states))]
    text = json.dumps(container.pop(key))
    for name in [name for name in tensors if json.dumps(name) in text]:
        del tensors[name]


def swap_arrays(rng: Generator, content: Content, tensors: Tensors, donor: Donor) -> None:
    """Swap two arrays."""
    if tensors:
        first, second = (str(rng.choice(list(tensors))) for _ in range(2))
        tensors[first], tensors[second] = tensors[second], tensors[first]


def change_type(rng: Generator, content: Content, tensors: Tensors, donor: Donor) -> None:
    """Convert an array to another dtype."""
    if tensors:
        name = str(rng.choice(list(tensors)))
        with np.errstate(all="ignore"):
            tensors[name] = tensors[name].astype(rng.choice(_DTYPES))


def change_shape(rng: Generator, content: Content, tensors: Tensors, donor: Donor) -> None:
    """Reshape, cut or lengthen an array."""
    if not tensors:
        return
    name = str(rng.choice(list(tensors)))
    array = tensors[name]
    flat = array.reshape(-1)
    ways: list[Callable[[], np.ndarray]] = [
        lambda: array[..., None],
        lambda: array[None],
        lambda: flat,
        lambda: array.T,
        lambda: flat.reshape(len(flat), 1),
        lambda: flat[:0],
        lambda: flat[:-1],
        lambda: np.concatenate([array, array]) if array.ndim else flat,
        lambda: array[:-1] if array.ndim else flat,
        lambda: array[: len(array) // 2] if array.ndim else flat,
        lambda: array[..., :-1] if array.ndim else flat,
        lambda: np.full(array.shape, flat[0]) if array.size else flat,
    ]
    tensors[name] = np.asarray(ways[rng.integers(len(ways))]())


def put_odd_numbers(rng: Generator, content: Content, tensors: Tensors, donor: Donor) -> None:
    """Put out-of-range numbers into one, some or all entries of an array."""
    filled = [name for name, array in tensors.items() if array.size]
    if not filled:
        return
    name = str(rng.choice(filled))
    array = tensors[name].copy()
    values: Any = _FLOATS if array.dtype.kind == "f" else _INTEGERS
    is_changed = rng.random(array.shape) < rng.choice([0.0, 0.05, 1.0])
    is_changed.reshape(-1)[rng.integers(array.size)] = True
    with np.errstate(all="ignore"):
        drawn = rng.choice(np.array(values), np.count_nonzero(is_changed))
        array[is_changed] = drawn.astype(array.dtype)
    tensors[name] = array


def resize(rng: Generator, content: Content, tensors: Tensors, donor: Donor) -> None:
    """Change a size, such as the number of inputs, grids or outputs, in the model or one part."""
    sizes = sorted({n for array in tensors.values() for n in array.shape if n})
    if not sizes:
        return
    size = N_FEATURES if rng.random() < 0.5 else int(rng.choice(sizes))
    new = int(rng.choice([size - 1, size + 1, 1, 2 * size, 0]))
    prefix = _prefix(rng, tensors)
    for name, array in tensors.items():
        if name.startswith(prefix):
            for axis in [axis for axis, n in enumerate(array.shape) if n == size]:
                array = np.take(array, np.arange(new) % size, axis=axis)
            tensors[name] = np.asarray(array)
    if not prefix or rng.random() < 0.5:
        for container, key in list(_containers(content.get("state", {}))):
            if container[key] == size and type(container[key]) is int:
                container[key] = new


def collide_keys(rng: Generator, content: Content, tensors: Tensors, donor: Donor) -> None:
    """Make keys of bins collide: repeat one, make all equal, or give all the same top bits."""
    names = [name for name in tensors if name.split(".")[-1] == "keys"]
    if not names:
        return
    name = str(rng.choice(names))
    keys = tensors[name].copy()
    if keys.dtype == np.int64 and keys.size:
        kind = rng.integers(4)
        if kind == 0:
            keys[rng.integers(len(keys))] = keys[rng.integers(len(keys))]
        elif kind == 1:
            keys[:] = keys[0]
        elif kind == 2:
            keys = (7 << 40) + np.arange(len(keys))
        else:
            keys = rng.permutation(keys)
    tensors[name] = keys


def move_offsets(rng: Generator, content: Content, tensors: Tensors, donor: Donor) -> None:
    """Change the offsets at which grids or blocks begin."""
    names = [name for name in tensors if name.endswith("offsets_")]
    names = [name for name in names if tensors[name].ndim == 1 and tensors[name].size > 2]
    if not names:
        return
    name = str(rng.choice(names))
    offsets = tensors[name].copy()
    inner = int(rng.integers(1, len(offsets) - 1))
    kind = rng.integers(6)
    if kind == 0:
        offsets[inner] += rng.choice([1, -1, 100, -100])
    elif kind == 1:
        offsets[-1] += rng.choice([1, -1])
    elif kind == 2:
        offsets = offsets[::-1].copy()
    elif kind == 3:
        offsets[inner] = offsets[inner - 1]
    elif kind == 4:
        offsets[0] = rng.choice([1, -1])
    else:
        offsets[1:-1] = offsets[-1] - np.arange(len(offsets) - 2, 0, -1)
    tensors[name] = offsets


def transplant(rng: Generator, content: Content, tensors: Tensors, donor: Donor) -> None:
    """Replace a part by the part of the same name of another model, with its arrays."""
    donor_content, donor_tensors = donor
    names = sorted(content.get("state", {}).keys() & donor_content["state"].keys())
    if not names:
        return
    name = "features_" if "features_" in names and rng.random() < 0.6 else str(rng.choice(names))
    content["state"][name] = copy.deepcopy(donor_content["state"][name])
    _exchange(tensors, donor_tensors, name, name)


def replace_hybrid_part(rng: Generator, content: Content, tensors: Tensors, donor: Donor) -> None:
    """Replace one map of a hybrid by another model."""
    donor_content, donor_tensors = donor
    parts = content.get("state", {}).get("maps_")
    if not isinstance(parts, list) or not parts:
        transplant(rng, content, tensors, donor)
        return
    k = int(rng.integers(len(parts)))
    parts[k] = {"model": copy.deepcopy(donor_content)}
    _rename(parts[k], f"maps_.{k}.")
    _exchange(tensors, donor_tensors, f"maps_.{k}", "")


def repeat_grids(rng: Generator, content: Content, tensors: Tensors, donor: Donor) -> None:
    """Repeat all grids of a map of bins many times, consistently."""
    names = [name for name in tensors if name.split(".")[-1] == "keys"]
    if not names:
        return
    prefix = str(rng.choice(names))[: -len("keys")]
    arrays = {name: array for name, array in tensors.items() if name.startswith(prefix)}
    n_bytes = max(1, sum(array.nbytes for array in tensors.values()))
    times = int(rng.integers(2, max(3, _MAX_BYTES // n_bytes)))
    for name, array in arrays.items():
        last = name.split(".")[-1]
        if last in ("keys", "widths_", "shifts_", "multipliers", "cell_offsets", "nu_"):
            tensors[name] = np.concatenate([array] * times)
        if last == "offsets_" and array.ndim == 1:
            steps = np.concatenate([np.diff(array)] * times)
            tensors[name] = np.concatenate([[0], np.cumsum(steps)])
    if prefix == "features_." and "weights_" in tensors:
        tensors["weights_"] = np.concatenate([tensors["weights_"]] * times)


# Each takes a generator, the content and arrays of a model, which it changes, and another model.
EDITS = (
    *(put_odd_value, put_odd_value, drop_field, swap_arrays, change_type, change_shape),
    *(put_odd_numbers, put_odd_numbers, resize, resize),
    *(collide_keys, move_offsets, transplant, transplant, replace_hybrid_part, repeat_grids),
)


def _containers(place: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every list and mapping inside a value, with each of its keys."""
    for key in list(place) if isinstance(place, dict) else range(len(place)):
        yield place, key
        if isinstance(place[key], (dict, list)):
            yield from _containers(place[key])


def _place(rng: Generator, content: Content) -> tuple[Any, Any]:
    places = [place for place in _containers(content) if place[0] is not content]
    return places[rng.integers(len(places))]


def _prefix(rng: Generator, tensors: Tensors) -> str:
    """Return an empty prefix, or the prefix of the arrays of one part."""
    parts = {name.rpartition(".")[0] + "." for name in tensors if "." in name}
    return str(rng.choice(["", *sorted(parts)]))


def _exchange(tensors: Tensors, donor_tensors: Tensors, place: str, source: str) -> None:
    """Replace the arrays under a name by another model's arrays under a name."""
    for name in [name for name in tensors if name == place or name.startswith(f"{place}.")]:
        del tensors[name]
    for name, array in donor_tensors.items():
        if not source:
            tensors[f"{place}.{name}"] = array
        elif name == source or name.startswith(f"{source}."):
            tensors[place + name[len(source) :]] = array


def _rename(place: Any, prefix: str) -> None:
    """Add a prefix to all references to arrays inside a value."""
    for container, key in list(_containers(place)):
        if key in ("tensor", "list") and isinstance(container[key], str):
            container[key] = prefix + container[key]
