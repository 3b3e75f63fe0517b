"""Sphinx settings: MyST Markdown, numpydoc, a page per public name. `sphinx-build -W -b html docs docs/_build/html`."""

import inspect
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
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
templates_path = ["_templates"]
HUBS = {
    "start": ["tutorial", "guide", "examples", "walk_tags", "walk_sklearn", "walk_scores"],
    "use": [
        "text_options",
        "vocabularies",
        "annif",
        "encoders",
        "calibration",
        "missing",
        "audit",
        "serve",
        "serve_page",
        "compare",
        "ensembles",
        "networks",
        "cluster",
        "own_model",
    ],
    "understand": [
        "propensity",
        "losses",
        "derivations",
        "solver",
        "logistic",
        "slice",
        "sparse_linear",
        "trees",
        "embeddings",
        "architecture",
        "decisions/index",
        "notes/index",
    ],
    "reference": [
        "commands",
        "methods",
        "metrics",
        "data",
        "runs",
        "speed",
        "stability",
        "trust",
        "glossary",
        "api/index",
    ],
}
"""The pages of each hub, in order; pages that are not listed here go to the last hub."""
LAZY = ["unmissed.models", "unmissed.data", "unmissed.runs", "unmissed.execution", "unmissed.serve"]
FRONT = [*HUBS, "results"]

default_role = "literal"  # in docstrings, text between single backticks is code
autodoc_typehints = "none"  # the signature has them already
autodoc_member_order = "bysource"
autosummary_generate = True
autosummary_ignore_module_all = False  # the names of a package are those of its __all__, wherever they are defined
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "unmissed"
html_show_sourcelink = False
html_theme_options = {"show_prev_next": False, "secondary_sidebar_items": ["page-toc"], "navbar_align": "left"}
html_sidebars = {"index": [], "results": []}  # they have no subpages
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]

_CODE = re.compile(r"(``.*?``|`[^`]*`)")
_MARKUP = re.compile(r"(?<!\\)([*|]|(?<=\w)_(?!\w))")


def escape_prose(app, what, name, obj, options, lines):
    """Escape stars, bars and closing underscores of a docstring: `l*(Y*, s)` is not emphasis."""
    for position, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = _CODE.split(line)
        parts[::2] = [_MARKUP.sub(r"\\\1", part) for part in parts[::2]]
        lines[position] = "".join(parts)


def import_lazy_names():
    """Import the names that packages import lazily: autosummary lists only names that exist."""
    from importlib import import_module

    for package in LAZY:
        module = import_module(package)
        for name in module.__all__:
            setattr(module, name, getattr(module, name))
        vars(module).pop("__dir__", None)  # it leaves out __all__, which autosummary reads


def list_pages(app, docname, source):
    """Fill the toctree of the front page with the hubs, and those of the hubs with the pages that exist."""
    if docname == "index":
        source[0] = source[0].replace("@PAGES@", "\n".join(FRONT))
    if docname in HUBS:
        named = {page for pages in HUBS.values() for page in pages}
        found = {path.stem for path in Path(app.srcdir).glob("*.md")} - {"index", "results", *HUBS}
        found |= {"decisions/index", "notes/index", "api/index"}
        others = sorted(found - named) if docname == list(HUBS)[-1] else []
        source[0] = source[0].replace("@PAGES@", "\n".join([*(one for one in HUBS[docname] if one in found), *others]))


def list_methods(app, docname, source):
    """Fill the page on methods with a table of parameters per registered method, taken from the classes."""
    if docname != "methods":
        return
    from unmissed.models.method_registry import COMPOSITES, METHODS, find_model
    from unmissed.models.parameters import parameters_of

    parts = []
    for name, method in (METHODS | COMPOSITES).items():
        cls = find_model(name)
        parts += [f"## {name}", f"`unmissed.models.{cls.__name__}`: {method.summary}.", ""]
        parameters = parameters_of(cls)
        if parameters:
            parts += ["| parameter | default | values | what it is | group |", "|---|---|---|---|---|"]
        for one in parameters:
            text = one.sentence.replace("|", r"\|").replace("*", r"\*")
            parts.append(f"| `{one.name}` | `{one.default!r}` | {one.expected} | {text} | {one.group.value} |")
        if cls.paper_params:
            values = ", ".join(f"`{key}={value!r}`" for key, value in cls.paper_params.items())
            parts += ["", f"`{cls.__name__}.paper()` and `--paper` set {values}."]
        parts.append("")
    source[0] = source[0].replace("@METHODS@", "\n".join(parts))


def list_commands(app, docname, source):
    """Fill the page on commands with every command, its arguments and its options."""
    if docname == "commands":
        import typer

        from unmissed.cli.app import app as root

        source[0] = source[0].replace("@COMMANDS@", "\n".join(_commands(typer.main.get_command(root), ("unmissed",))))


def _commands(command, words):
    """Return the lines of a command, or of all commands of a group; methods of train have their own page."""
    if words == ("unmissed", "train"):
        return [*_one_command(command.resolve_command(None, ["pw-dismec"])[1], ("unmissed", "train", "METHOD")), ""]
    if not hasattr(command, "list_commands"):
        return _one_command(command, words)
    below = [command.get_command(None, name) for name in command.list_commands(None)]
    named = zip(command.list_commands(None), below, strict=True)
    return [line for name, one in named for line in _commands(one, (*words, name))]


def _one_command(command, words):
    title = " ".join(words)
    prose, examples = [], []
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        text = " ".join(paragraph.split())
        (examples if text.startswith("Example:") else prose).append(text)
    if words[-1] == "METHOD":
        prose = ["Train a method; [methods](methods.md) lists the parameters of each."]
    lines = [f"## {title}", "", *(_prose(text) + "\n" for text in prose), "```sh"]
    shown = [text.removeprefix("Example:").strip() for text in examples] or [title]
    lines += [text.replace(" train pw-dismec", " train METHOD") if words[-1] == "METHOD" else text for text in shown]
    lines += ["```", "", "| argument or option | default | what it is |", "|---|---|---|"]
    for one in command.params:
        if one.name in ("help", "install_completion", "show_completion"):
            continue
        if words[-1] == "METHOD" and getattr(one, "rich_help_panel", "") == "Parameters of the method":
            continue
        is_option = one.param_type_name == "option"
        name = ", ".join([*one.opts, *one.secondary_opts]) if is_option else (one.metavar or one.name.upper())
        default = one.default if is_option and isinstance(one.default, str | int | float) else None
        shown = "" if default in (None, False, "") else f"`{default}`"
        lines.append(f"| `{name}` | {shown} | {_prose(getattr(one, 'help', '') or '')} |")
    return [*lines, ""]


def _prose(text):
    """Return help as Markdown that shows it as it is."""
    return re.sub(r"([*|<>\[\]])", r"\\\1", text.replace("\\[", "["))


def move_types(app, what, name, obj, options, lines):
    """Move each parameter's type and description to where numpydoc expects them.

    Most of our docstrings say `name : what it is`, continued on indented lines, and leave the type to the signature.
    """
    if "Parameters" not in lines:
        return
    begin = lines.index("Parameters") + 2
    try:
        known = {one.name: one.annotation for one in inspect.signature(obj).parameters.values()}
    except (TypeError, ValueError):
        known = {}
    end = next(
        (n for n in range(begin, len(lines)) if lines[n] and not re.match(r"\s|\w+(, \w+)*( :|$)", lines[n])),
        len(lines),
    )
    found, position = [], begin
    while position < end:
        entry = re.fullmatch(r"(\w+(?:, \w+)*) : (.+)", lines[position])
        body = list(_indented(lines, position + 1, end))
        if entry is None or (body and body[0].strip()[:1].isupper()):  # it has a type already
            found.append(lines[position])
            position += 1
            continue
        names = entry[1].split(", ")
        types = {_type_of(known.get(one)) for one in names} - {""}
        found.append(f"{entry[1]} : {types.pop()}" if len(types) == 1 else entry[1])
        text = " ".join([entry[2], *(line.strip() for line in body)])
        found.append(f"    {text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}")
        position += 1 + len(body)
    lines[begin:end] = found


def _indented(lines, begin, end):
    for line in lines[begin:end]:
        if not line.startswith(" "):
            return
        yield line


def _type_of(annotation):
    return annotation if isinstance(annotation, str) else ""


def draw_inline(self, node):
    """Write an inline formula as MathML, which browsers render without a library."""
    from docutils import nodes
    from latex2mathml.converter import convert

    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def draw_block(self, node):
    """Write a displayed formula as MathML."""
    from docutils import nodes
    from latex2mathml.converter import convert

    self.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def skip_borrowed(app, what, name, obj, skip, options):
    """Leave out the methods that scikit-learn adds to every estimator; its own pages describe them."""
    theirs = (getattr(obj, "__module__", None) or "").partition(".")[0] == "sklearn"
    return True if theirs or re.fullmatch(r"set_\w+_request", name) else None


def setup(app):
    import_lazy_names()
    app.connect("source-read", list_pages)
    app.connect("source-read", list_methods)
    app.connect("source-read", list_commands)
    # a new page, method or command changes the lists
    app.connect("env-get-outdated", lambda *_: ["index", "methods", "commands", *HUBS])
    app.add_html_math_renderer("mathml", (draw_inline, None), (draw_block, None))
    app.connect("autodoc-skip-member", skip_borrowed)
    app.connect("autodoc-process-docstring", move_types, priority=300)
    # before numpydoc (500) turns sections into reStructuredText
    app.connect("autodoc-process-docstring", escape_prose, priority=400)
