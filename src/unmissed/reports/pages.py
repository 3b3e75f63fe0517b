"""Pages: self-contained HTML files rendered from templates."""

from __future__ import annotations

from typing import Any


def render(template: str, **values: Any) -> str:
    """Return a rendered template as HTML."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("unmissed.reports"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(**values)
