"""Examples of peers whose packages are not installed are left out."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("lightgbm") else ["peers/lightgbm.py"]
