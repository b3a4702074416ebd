"""Replace parameters in messages of the library by options of the command line."""

from __future__ import annotations

import re

_OPTIONS = {  # parameter: the option that sets it
    "alpha": "--alpha",
    "bandwidth": "--bandwidth",
    "batch_size": "--batch-size",
    "block_size": "--block-size",
    "categorical_features": "--categorical",
    "checkpoint": "--checkpoint",
    "contamination": "--contamination",
    "cv": "--cv",
    "device": "--device",
    "effort": "--effort",
    "features": "--approximation",
    "folder": "--rows-folder",
    "grids": "--grids",
    "groups": "--groups",
    "kernel": "--kernel",
    "l1_ratio": "--l1-ratio",
    "limits": "--limits",
    "loss": "--loss",
    "max_rows": "--size",
    "max_steps": "--steps",
    "memory_budget": "--memory",
    "n_components": "--components",
    "n_grids": "--n-grids",
    "n_jobs": "--n-jobs",
    "n_permutations": "--permutations",
    "patience": "--patience",
    "quantile": "--quantile",
    "random_state": "--seed",
    "sample_weight": "--weight",
    "scaling": "--scaling",
    "scoring": "--scoring",
    "strategy": "--strategy",
    "target": "--target",
    "time_budget": "--time-budget",
    "update": "--update",
}

_NAMES = "|".join(_OPTIONS)
_UNUSUAL = "|".join(name for name in _OPTIONS if "_" in name or name == "cv")
# Names of one word are also English words; they are parameters only at the start of a message
# and before "=".
_HEAD = re.compile(rf"^(?:[A-Z]\w+: )?({_NAMES})\b(?=:| (?:must|needs?|names|is|has)\b)")
_ASSIGNED = re.compile(rf"(?<![\w.-])({_NAMES})=(?:'([^']*)'|\"([^\"]*)\"|([\w.+-]*\w))?(?!\()")
_ANYWHERE = re.compile(rf"(?<![\w./'\"=`-])`?({_UNUSUAL})\b`?(?![\w/'\"=(-]|\.\w)")
# Advice for Python users, and its replacement on the command line.
_REPLACEMENTS = {
    r"limits=ReadLimits\([^)]*\), or on the command line with ": "",
    r", or say format= one of ([^.]*)\.": r" to one of \1.",
    r", or say format=\.": ".",
    r", or say header=False if the first row is data\.": ".",
    r"list the column in categorical=\['(.*?)'\]": r"fit with --categorical \1",
    r" ?Read it( in chunks)? by open_chunks(, or on a [^.]*)?\.?": " Take fewer rows or columns.",
    r"to open_stream and a DoublyStochastic estimator, or read_table where": (
        "to gramless stream, or leave out --memory if"
    ),
    r"read it by read_table, or ": "",
    r"unknown features (?='.*'; use one of)": "unknown --approximation ",
    r" or a feature map\.": ".",
    r"^Seed must": "--seed must",
    r", or a function scorer\(estimator, X, y\)": "",
    r"(?<=must be )None(, | or )": "",
    r"give it to KernelRegressor or KernelClassifier, which encode text": "use gramless fit",
}


def name_options(message: str) -> str:
    """Return a message with options of the command line instead of Python parameters.

    Examples
    --------
    >>> name_options("KernelRegressor: n_jobs must not be 0; n_grids=8 and grids='random' do.")
    '--n-jobs must not be 0; --n-grids 8 and --grids random do.'
    """
    for pattern, replacement in _REPLACEMENTS.items():
        message = re.sub(pattern, replacement, message)

    def option_with_value(match: re.Match[str]) -> str:
        # One group at most matched: the value with or without quotes.
        values = [value for value in match.groups()[1:] if value is not None]
        return " ".join([_OPTIONS[match[1]], *values])

    message = _HEAD.sub(lambda match: _OPTIONS[match[1]], message)
    message = _ASSIGNED.sub(option_with_value, message)
    return _ANYWHERE.sub(lambda match: _OPTIONS[match[1]], message)
