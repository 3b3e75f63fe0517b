"""Sphinx settings: MyST Markdown, numpydoc, one page a public name. `sphinx-build -W -b html docs docs/_build/html`."""

import re
from pathlib import Path

from unmissed import __version__

project = "unmissed"
author = "the unmissed authors"
copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
templates_path = ["_templates"]
PAGES = [
    "guide",
    "walk_tags",
    "walk_sklearn",
    "walk_scores",
    "data",
    "propensity",
    "metrics",
    "losses",
    "derivations",
    "methods",
    "runs",
    "cluster",
    "solver",
]
PAGES += ["embeddings", "trust", "architecture"]

default_role = "literal"  # in docstrings a name between single backticks is code
autodoc_typehints = "none"  # the signature has them already
autodoc_member_order = "bysource"
autosummary_generate = True
autosummary_ignore_module_all = False  # a room's names are those of its __all__, wherever they are written
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "unmissed"
html_show_sourcelink = False
html_theme_options = {"show_prev_next": False, "secondary_sidebar_items": ["page-toc"]}

_CODE = re.compile(r"(``.*?``|`[^`]*`)")
_MARKUP = re.compile(r"(?<!\\)([*|]|(?<=\w)_(?!\w))")


def escape_prose(app, what, name, obj, options, lines):
    """Let stars, bars and closing underscores of a docstring be themselves: `l*(Y*, s)` is no emphasis."""
    for place, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = _CODE.split(line)
        parts[::2] = [_MARKUP.sub(r"\\\1", part) for part in parts[::2]]
        lines[place] = "".join(parts)


def list_pages(app, docname, source):
    """Put the pages that exist into the front page's toctree: those of PAGES in their order, then the others."""
    if docname == "index":
        found = {path.stem for path in Path(app.srcdir).glob("*.md")} - {"index"}
        order = [*(page for page in PAGES if page in found), *sorted(found - set(PAGES)), "api/index"]
        source[0] = source[0].replace("@PAGES@", "\n".join(order))


def list_methods(app, docname, source):
    """Put a table of parameters per method of the registry into the page on methods, taken from the classes."""
    if docname != "methods":
        return
    from unmissed.models.parameters import parameters_of
    from unmissed.models.registry import METHODS, find_model

    parts = []
    for name, method in METHODS.items():
        cls = find_model(name)
        parts += [f"## {name}", f"`unmissed.models.{cls.__name__}`: {method.summary}.", ""]
        parameters = parameters_of(cls)
        if parameters:
            parts += ["| parameter | default | what it is | in the recipe |", "|---|---|---|---|"]
        for one in parameters:
            told = one.help.replace("|", r"\|").replace("*", r"\*")
            parts.append(f"| `{one.name}` | `{one.default!r}` | {told} | {'yes' if one.changes_result else 'no'} |")
        parts.append("")
    source[0] = source[0].replace("@METHODS@", "\n".join(parts))


def skip_borrowed(app, what, name, obj, skip, options):
    """Leave out the metadata methods that scikit-learn adds to every estimator."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app):
    app.connect("source-read", list_pages)
    app.connect("source-read", list_methods)
    app.connect("env-get-outdated", lambda *_: ["index", "methods"])  # a new page or method changes the lists
    app.connect("autodoc-skip-member", skip_borrowed)
    # before numpydoc (500) turns sections into reStructuredText
    app.connect("autodoc-process-docstring", escape_prose, priority=400)
