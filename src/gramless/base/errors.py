"""Errors that name the object, what is wrong and what to do."""

from __future__ import annotations


class GramlessError(Exception):
    """Base of every error raised on purpose by gramless."""


class InputError(GramlessError, ValueError):
    """Data or a parameter that cannot be used, with the remedy in the message."""


class InputTypeError(InputError, TypeError):
    """Data of a type that cannot be used; a ``TypeError`` too, as scikit-learn raises for these."""


class KernelError(GramlessError, ValueError):
    """A kernel that the asked feature map cannot represent."""


class ClusterError(GramlessError, RuntimeError):
    """A cluster without workers, or without what a fit needs of it; the message says what to do."""


class ModelFileError(GramlessError, ValueError):
    """A model file that is truncated, edited, hostile or from a newer version."""


class DataFileError(GramlessError, ValueError):
    """A data file that cannot be read, with the place of the fault where known."""


class MissingDependencyError(GramlessError, ImportError):
    """An optional package is needed; the message names the extra to install."""
