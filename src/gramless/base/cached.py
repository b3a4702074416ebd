"""Attributes computed when they are first read, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """A property that is computed when it is first read, and then kept in the instance.

    In Python 3.11, ``functools.cached_property`` holds one lock for all instances of a class while
    it computes. A computation that waits for the thread pool could then wait for ever. Here, two
    threads that read at the same time may both compute; both get the value that was stored first.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        # Without __set__, the stored value in the instance takes precedence over this method.
        if instance is None:
            return self
        value = self.function(instance)
        return instance.__dict__.setdefault(self.name, value)
