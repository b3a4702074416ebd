"""Methods that only some models have."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def available_if(check: Callable[[Any], object]) -> Callable[[Method], Method]:
    """Decorate a method of those models for which ``check`` raises no ``AttributeError``.

    Unlike with scikit-learn's function of this name, the error itself says why it is missing.
    """
    return lambda method: cast(Any, _Conditional(check, method))


class _Conditional:
    """Looks a method up where a model has it."""

    def __init__(self, check: Callable[[Any], object], method: Callable[..., Any]) -> None:
        self._check, self._method = check, method
        update_wrapper(cast(Any, self), method)

    def __get__(self, model: object | None, owner: type | None = None) -> Any:
        if model is None:
            return self._method
        self._check(model)
        return MethodType(self._method, model)
