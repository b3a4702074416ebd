"""Skip the docstring examples of peers whose packages are not installed."""

from __future__ import annotations

from importlib.util import find_spec

_PACKAGES = ("catboost", "chimeraboost", "lightgbm", "xgboost")
collect_ignore = [f"peers/{name}.py" for name in _PACKAGES if find_spec(name) is None]
