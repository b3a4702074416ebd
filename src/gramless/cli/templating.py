"""Pages and texts from jinja2 templates."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

import gramless
from gramless.cli.charts import key, line_chart, readable
from gramless.cli.svg import cut, printable, variables

LONGEST_NAME = 40
"""Characters of the longest names of columns that are shown whole."""


def environment(*packages: str) -> Environment:
    """Return the templates of packages, those of earlier packages first; they can draw charts.

    Inserted values are escaped, characters forbidden in XML are replaced, and undefined names are
    errors: pages are well-formed XML whatever columns are called.

    Examples
    --------
    >>> page = environment("gramless.cli").from_string("<p>{{ name }}</p>")
    >>> page.render(name="a < b")
    '<p>a &lt; b</p>'
    """
    found = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=select_autoescape(["html"], default_for_string=True),
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else printable(value),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.globals.update(key=key, line_chart=line_chart, variables=variables)
    return found


def render(template: str, **shown: object) -> str:
    """Return a page of HTML that is also well-formed XML."""
    templates = environment("gramless.cli")
    templates.filters["number"] = readable
    templates.filters["brief"] = lambda name, most=LONGEST_NAME: cut(name, most)
    return templates.get_template(template).render(version=gramless.__version__, **shown)
