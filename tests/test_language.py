"""The vocabulary of the package: names and prose use the standard terms of the field, in American spelling."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "docs", "examples")
    for kind in ("*.py", "*.md", "*.html")
    for path in (ROOT / folder).rglob(kind)
    if "_build" not in path.parts and "generated" not in path.parts and path != Path(__file__)
)
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")]

PROSE = {
    r"whole numbers?": "integer",
    r"asked for|asks? for (?:it|them|rows|weights)|is asked for": "prefetch, or request",
    r"awake|asleep": "active, inactive",
    r"labels alone|label alone": "per-label phase",
    r"written down": "observed",
    r"comes? to (?:rest|terms)": "converge",
    r"ran away|runs away": "diverged",
    r"speaks? for": "contributes to",
    r"crowds?": "say which rows they are",
    r"bouts?": "trial",
    r"contenders?": "method spec",
    r"anew": "again",
    r"of like (?:size|length|number|labels)": "of similar size",
    r"the dearest": "highest-cost",
    r"(?:to|of|have|has|with) length 1": "L2-normalized",
    r"so many": "give the number, or rephrase",
    r"twins?": "duplicate label, or reference implementation",
    r"by the book": "reference implementation",
    r"trees? over (?:rows|labels)": "instance tree, label tree",
    r"rooms?": "package, or capacity",
    r"desks?": "workspace",
    r"crew": "work-stealing pool",
    r"(?:is|are|was|were|be|been) told": "progress callback, or say what is reported",
    r"marks": "label assignments, observed positives",
    r"in so far|once more": "leave it out",
    r"has the last word|gave way|gives way": "is the fallback, was replaced",
    r"colou?rs? of (?:our|the) house|the house": "package",
    r"colours?|neighbours?|(?:recogn|penal|regular|summar|minim|optim|normal|general|initial|quant|serial)is(?:e|ed|es|ing|ation)|"
    r"centre|catalogue|labelled|modelled|behaviour|favour|artefact|spelt|analyse": "American spelling",
}
NAMES = {
    "ask": "prefetch",
    "asked": "prefetch, requested",
    "awake": "active",
    "asleep": "inactive",
    "alone": "per_label",
    "beside": "paper_comparison, sidecar",
    "bench": "shared state",
    "bend": "curvature",
    "bends": "curvatures",
    "bout": "trial",
    "bouts": "trials",
    "contender": "method_spec",
    "contenders": "method_specs",
    "crew": "pool",
    "crowd": "say which rows they are",
    "desk": "workspace",
    "facts": "metadata",
    "ground": "shared state",
    "hint": "prefetch",
    "marks": "assignments, positives",
    "place": "index, position, slot",
    "places": "indices, positions, slots",
    "room": "capacity, package",
    "rooms": "packages",
    "rough": "fast",
    "told": "progress",
    "twin": "duplicate, reference",
    "twins": "duplicates, references",
    "whole": "integer, quantized",
}
ALLOWED = {"get_type_hints", "type_hints"}
"""Names of other libraries."""

_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PROSE = {re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE): instead for pattern, instead in PROSE.items()}


def prose_of(path):
    """Return the text that people read with the number of its first line: comments and strings, or all of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [(1, text)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(token.start[0], token.string) for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING)]


def names_of(path):
    """Return every name of a source file with its line."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    return {(token.start[0], token.string) for token in tokens if token.type == tokenize.NAME}


def replaced_terms(path):
    """Return what a file says in words that the vocabulary replaces, one line for each."""
    found = []
    for first, text in prose_of(path):
        for pattern, instead in _PROSE.items():
            for match in pattern.finditer(text):
                line = first + text.count("\n", 0, match.start())
                found.append(f"{path.relative_to(ROOT)}:{line}: {match[0]!r}: write {instead}")
    if path.suffix == ".py":
        for line, name in sorted(names_of(path)):
            pieces = {piece.lower() for piece in _PIECE.findall(name)} & set(NAMES)
            if name not in ALLOWED and not ("marks" in pieces and "tests" in path.parts):
                found += [f"{path.relative_to(ROOT)}:{line}: name {name!r}: write {NAMES[one]}" for one in pieces]
    return found


@pytest.mark.parametrize("path", [*SOURCES, *PAGES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_names_and_prose_use_the_terms_of_the_field(path):
    found = replaced_terms(path)
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.py", "place = 1\n"), ("b.py", "# rows are asked for ahead\n"), ("c.md", "The neighbours of a row.\n")],
)
def test_a_replaced_term_is_found(name, text, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    (tmp_path / name).write_text(text)
    assert len(replaced_terms(tmp_path / name)) == 1
