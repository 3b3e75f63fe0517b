"""Options of the vocabulary whose concepts labels stand for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from unmissed.cli.options import given_words
from unmissed.errors import InputError

CONCEPTS = "Vocabulary"


@dataclass(frozen=True)
class VocabularyOptions:
    """The vocabulary whose concepts the labels stand for."""

    vocabulary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The concepts that the labels stand for, stored with the run: SKOS (.rdf, .ttl, .jsonld; extra skos), "
            ".tsv (identifier, label, notation) or .csv (uri, label or label_de, ...).",
            rich_help_panel=CONCEPTS,
        ),
    ] = None
    language: Annotated[
        str | None,
        typer.Option(
            metavar="TAG",
            help="The language of the vocabulary's labels, such as de. Default: all languages.",
            rich_help_panel=CONCEPTS,
        ),
    ] = None
    all_concepts: Annotated[
        bool,
        typer.Option(
            "--all-concepts",
            help="Make concepts without a training row labels, too, so that the run can be combined with a lexical "
            "one. Methods that can suggest them do so without this option.",
            rich_help_panel=CONCEPTS,
        ),
    ] = False

    def words(self, *, unseen: bool) -> dict[str, Any]:
        """Return the keyword arguments of `load`; `unseen` says that the method suggests unseen labels."""
        from unmissed.data import read_vocabulary

        if self.vocabulary is None:
            if self.language is not None or self.all_concepts:
                raise InputError(f"{given_words(self)[0]} needs --vocabulary FILE")
            return {}
        known = read_vocabulary(self.vocabulary, language=self.language)
        return {"vocabulary": known, "unseen": unseen or self.all_concepts}
