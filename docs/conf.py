"""How Sphinx makes the site: ``make docs`` builds it into ``out/docs``, without a network."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from gramless.base.public import VERSION  # noqa: E402

project = "gramless"
author = "The authors of gramless"
copyright = "The authors of gramless, BSD 3-Clause licence"
release = version = VERSION
language = "en"

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["gallery/**/*.ipynb", "node_modules", "**/sg_execution_times.rst"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]

myst_heading_anchors = 4

# What a reference page of a class lists: the methods that users call. Those that carry state to
# files and rows to matrices are told by the pages for developers.
USER_METHODS = [
    "fit",
    "fit_stream",
    "partial_fit",
    "fit_predict",
    "fit_transform",
    "fit_matrix",
    "transform",
    "feature_matrix",
    "inverse_transform",
    "predict",
    "predict_proba",
    "predict_log_proba",
    "predict_set",
    "predict_interval",
    "predict_quantiles",
    "predict_distribution",
    "predict_survival_function",
    "predict_cumulative_hazard_function",
    "decision_function",
    "score",
    "score_samples",
    "p_values",
    "contributions",
    "from_estimator",
    "plot",
    "gram",
    "profile",
    "value",
    "gradient",
    "curvature",
    "prox",
    "best",
    "to_reach",
    "speedup",
    "error_estimate",
    "split_target",
]

autosummary_generate = True
autosummary_context = {"user_methods": USER_METHODS}
autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_validation_checks = {"PR01", "PR02", "PR07", "SS03"}
# What functions return: it has attributes, and the function's example shows it.
_RESULTS = r"\.(Attributions|TwoSampleResult|ChunkedTable|StoredTable)$"
numpydoc_validation_exclude = {_RESULTS, r"\.(RowSource|Strategy)$"}

copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "gramless"
html_static_path = ["_static"]
html_css_files = ["gramless.css"]
html_js_files = ["names.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "collapse_navigation": True,
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 20,
    "write_computation_times": False,
    "doc_module": ("gramless",),
    "reference_url": {"gramless": None},
    "backreferences_dir": "reference/backreferences",
    "inspect_global_variables": False,
    "matplotlib_animations": False,
}

# numba warns of the threads of other packages, matplotlib of canvases that draw to files.
warnings.filterwarnings("ignore", category=UserWarning, message=".*non-interactive.*")

_OUTSIDE = {
    "CONTRIBUTING.md": "/contributing.md",
    "CHANGELOG.md": "/changes.md",
    "benchmarks/README.md": "/benchmarks.md",
    "studies/README.md": "/studies.md",
    "docs/": "/",
}
"""Files beside ``docs/`` that pages link to, and the pages that hold them."""
_FORMULA = re.compile(r":math:`([^`]+)`")
_LABEL = re.compile(r":ref:`([^`<]+?)(?:\s*<[^`]+>)?`")
_LINK = re.compile(r"\]\((?:\.\./)*(" + "|".join(map(re.escape, _OUTSIDE)) + ")")


def _point_into_the_site(text: str) -> str:
    return _LINK.sub(lambda found: f"]({_OUTSIDE[found[1]]}", text)


def _read_source(app: object, docname: str, content: list[str]) -> None:
    content[0] = _point_into_the_site(content[0])


def _read_included(app: object, path: Path, docname: str, content: list[str]) -> None:
    content[0] = _point_into_the_site(content[0])


def _check_docstring(
    app: object, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    # scikit-learn's own docstrings, which methods inherit, point into its site and have formulas.
    lines[:] = [_FORMULA.sub(r"``\1``", _LABEL.sub(r"\1", line)) for line in lines]
    abstract = inspect.isabstract(obj) or getattr(obj, "_is_protocol", False)
    if what not in ("class", "function") or abstract or re.search(_RESULTS, name):
        return
    if not any(">>>" in line for line in lines):
        from sphinx.util import logging

        logging.getLogger(__name__).warning("%s has no example", name)


def setup(app: object) -> None:
    """Keep links between files of the repository working on the site."""
    app.connect("source-read", _read_source)  # type: ignore[attr-defined]
    app.connect("include-read", _read_included)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", _check_docstring)  # type: ignore[attr-defined]
