"""Exceptions. Each message names the object, the problem and the remedy."""

from __future__ import annotations


class GramlessError(Exception):
    """Base class of all exceptions of gramless."""


class InputError(GramlessError, ValueError):
    """Data or a parameter that cannot be used, with the remedy in the message."""


class InputTypeError(InputError, TypeError):
    """Data of a type that cannot be used; also a ``TypeError``, which scikit-learn raises here."""


class KernelError(GramlessError, ValueError):
    """A kernel that the chosen feature map cannot represent."""


class ClusterError(GramlessError, RuntimeError):
    """A cluster without workers, or without something else that a fit needs."""


class ModelFileError(GramlessError, ValueError):
    """A model file that is truncated, edited, hostile, or written by another version."""


class DataFileError(GramlessError, ValueError):
    """A data file that cannot be read, or a temporary file of data that cannot be written.

    The message locates an error in a data file if possible.
    """


class MissingDependencyError(GramlessError, ImportError):
    """An optional package is needed; the message names the extra to install."""
