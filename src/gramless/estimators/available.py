"""Methods that depend on the parameters of a model."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def available_if(check: Callable[[Any], object]) -> Callable[[Method], Method]:
    """Return a decorator for a method that exists if ``check`` raises no ``AttributeError``.

    Unlike scikit-learn's function of this name, the error of ``check`` reaches the user, and gives
    the reason.
    """
    return lambda method: cast(Any, _Conditional(check, method))


class _Conditional:
    """A descriptor that checks the model before it returns the method."""

    def __init__(self, check: Callable[[Any], object], method: Callable[..., Any]) -> None:
        self._check, self._method = check, method
        update_wrapper(cast(Any, self), method)

    def __get__(self, model: object | None, owner: type | None = None) -> Any:
        if model is None:
            return self._method
        self._check(model)
        return MethodType(self._method, model)
