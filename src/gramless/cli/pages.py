"""The templates of pages, with what they draw by."""

from __future__ import annotations

from jinja2 import Environment

from gramless.cli.charts import key, line_chart, readable
from gramless.cli.svg import cut, variables
from gramless.cli.templating import environment

LONGEST_NAME = 40
"""Characters of the longest names of columns that are shown whole."""


def page_templates() -> Environment:
    """Return the templates of pages, which draw charts and shorten names and numbers."""
    templates = environment("gramless.cli")
    templates.filters["number"] = readable
    templates.filters["brief"] = lambda name, most=LONGEST_NAME: cut(name, most)
    templates.globals.update(line_chart=line_chart, key=key, variables=variables)
    return templates
