"""Pages from templates, with what they draw by."""

from __future__ import annotations

import gramless
from gramless.cli.charts import key, line_chart, readable
from gramless.cli.svg import cut, variables
from gramless.cli.templating import environment

LONGEST_NAME = 40
"""Characters of the longest names of columns that are shown whole."""


def render(template: str, **shown: object) -> str:
    """Return a page of HTML that is also well-formed XML."""
    templates = environment("gramless.cli")
    templates.filters["number"] = readable
    templates.filters["brief"] = lambda name, most=LONGEST_NAME: cut(name, most)
    templates.globals.update(line_chart=line_chart, key=key, variables=variables)
    return templates.get_template(template).render(version=gramless.__version__, **shown)
