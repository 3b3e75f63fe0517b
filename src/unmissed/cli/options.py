"""Groups of options that several commands take: how files are read, and how texts become features.

A group is a dataclass whose fields are options. A command has a group among its parameters, and `with_groups` gives it
the options of that group: each is defined once, here.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.errors import InputError

if TYPE_CHECKING:
    from unmissed.data import Columns, TextFeatures
    from unmissed.execution import Executor

READING = "How files are read"
MANY = "Many machines"
TERMS = "From text to features"
_FLAGS = {"smooth": "--smooth-idf"}  # options whose names are not those of TextFeatures

Jobs = Annotated[int | None, typer.Option(help="Threads; all cores if not given. No effect on the result.")]


class Policy(StrEnum):
    """Whether something counts."""

    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True)
class ReadingOptions:
    """Where a table or JSON lines keep texts, labels and ids, and what XMC text begins with."""

    text_column: Annotated[
        str | None, typer.Option(help="The column with the text; text if not given.", rich_help_panel=READING)
    ] = None
    labels_column: Annotated[
        str | None, typer.Option(help="The column with the labels; labels if not given.", rich_help_panel=READING)
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(help="What separates the labels in a cell; a semicolon if not given.", rich_help_panel=READING),
    ] = None
    id_column: Annotated[
        str | None,
        typer.Option(
            help="The column that names rows; id if not given. predict and evaluate know rows by it, training does not "
            "need it.",
            rich_help_panel=READING,
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(help="The encoding of text files, such as cp1252; utf-8 if not given.", rich_help_panel=READING),
    ] = None
    unicode_normalization: Annotated[
        str | None,
        typer.Option(
            metavar="nfc|nfkc|none",
            help="The Unicode normal form of texts and label names; nfc if not given. A run remembers that of texts.",
            autocompletion=lambda: ["nfc", "nfkc", "none"],
            rich_help_panel=READING,
        ),
    ] = None
    no_header: Annotated[
        bool,
        typer.Option(
            "--no-header",
            help="XMC text without its first line of sizes, or a table whose columns are called 1, 2, 3.",
            rich_help_panel=READING,
        ),
    ] = False
    one_based: Annotated[
        bool, typer.Option("--one-based", help="XMC text whose indices begin with 1.", rich_help_panel=READING)
    ] = False

    @property
    def columns(self) -> "Columns":
        """The columns of a table: those that were named, the others by their defaults."""
        from unmissed.data import Columns

        separator = self.separator
        if separator is not None:
            separator = separator.replace("\\t", "\t").replace("\\n", "\n")
        given = {"text": self.text_column, "labels": self.labels_column, "separator": separator, "id": self.id_column}
        given |= {"encoding": self.encoding, "unicode_normalization": self.unicode_normalization}
        return Columns(**{name: value for name, value in given.items() if value is not None})

    def words(self) -> dict[str, Any]:
        """Return what `load` and its neighbours take: columns, header and one_based."""
        return {"columns": self.columns, "header": not self.no_header, "one_based": self.one_based}


@dataclass(frozen=True)
class ClusterOptions:
    """A Dask cluster, and how it is connected to; the options for TLS are those of `dask scheduler`."""

    cluster: Annotated[
        str | None,
        typer.Option(
            help="A Dask cluster: tcp://HOST:PORT, tls://HOST:PORT or local:N; DATA is a store.", rich_help_panel=MANY
        ),
    ] = None
    dashboard: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="With local:N, show Dask's dashboard at this address.", rich_help_panel=MANY
        ),
    ] = None
    tls_ca_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="TLS: the CA's certificates, PEM.", rich_help_panel=MANY)
    ] = None
    tls_cert: Annotated[
        str | None, typer.Option(metavar="FILE", help="TLS: the certificate of this client, PEM.", rich_help_panel=MANY)
    ] = None
    tls_key: Annotated[
        str | None, typer.Option(metavar="FILE", help="TLS: the private key of this client, PEM.", rich_help_panel=MANY)
    ] = None

    @contextmanager
    def executor(self) -> "Iterator[Executor | None]":
        """Give the executor of the cluster, or None if there is none; it is closed in the end."""
        if self.cluster is None:
            if given_words(self):
                raise InputError(f"{given_words(self)[0]} goes with --cluster")
            yield None
            return
        from unmissed.execution import Dask
        from unmissed.execution.dask import tls_security

        security = tls_security(self.tls_ca_file, self.tls_cert, self.tls_key)
        with Dask(self.cluster, dashboard=self.dashboard, security=security) as dask:
            yield dask


@dataclass(frozen=True)
class TextOptions:
    """How texts become features."""

    ngrams: Annotated[
        str | None,
        typer.Option(
            metavar="N|M-N", help="Terms are runs of 1 to N, or M to N, words; 1 if not given.", rich_help_panel=TERMS
        ),
    ] = None
    min_df: Annotated[
        int | None,
        typer.Option(help="Leave out terms that occur in fewer documents than this.", min=1, rich_help_panel=TERMS),
    ] = None
    max_features: Annotated[
        int | None, typer.Option(help="Keep this many of the most frequent terms.", min=1, rich_help_panel=TERMS)
    ] = None
    analyzer: Annotated[
        str | None,
        typer.Option(
            metavar="word|char|char_wb",
            help="What terms are runs of: words, characters, or characters inside words.",
            autocompletion=lambda: ["word", "char", "char_wb"],
            rich_help_panel=TERMS,
        ),
    ] = None
    stop_words: Annotated[
        str | None,
        typer.Option(
            metavar="english|FILE",
            help="Words to leave out: scikit-learn's English ones, or a file with one per line.",
            rich_help_panel=TERMS,
        ),
    ] = None
    smooth_idf: Annotated[
        bool,
        typer.Option("--smooth-idf", help="scikit-learn's idf, ln((1+N)/(1+df)) + 1.", rich_help_panel=TERMS),
    ] = False

    def given(self) -> dict[str, Any]:
        """Return the options that were given, as the constructor of text features takes them."""
        given: dict[str, Any] = {
            "ngrams": None if self.ngrams is None else _read_ngrams(self.ngrams),
            "min_df": self.min_df,
            "max_features": self.max_features,
            "analyzer": self.analyzer,
            "stop_words": None if self.stop_words is None else _read_stop_words(self.stop_words),
            "smooth": self.smooth_idf or None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def features(self, data: str, columns: "Columns") -> "TextFeatures | None":
        """Return how the texts of a data set become features; None where it holds features, which take no option."""
        from unmissed.data import TextFeatures
        from unmissed.data.forms import holds_text

        if holds_text(data):
            return TextFeatures(**self.given(), unicode_normalization=columns.unicode_normalization)
        self.refuse(f"{data}: holds features already")
        return None

    def refuse(self, why: str) -> None:
        """Refuse options that were given where there is no text to make features from."""
        given = self.given()
        if given:
            names = ", ".join(_FLAGS.get(name, "--" + name.replace("_", "-")) for name in given)
            raise InputError(f"{why}; leave out {names}")


def list_methods() -> list[str]:
    """Return the names of all methods, for the shell to complete."""
    from unmissed.models.registry import known_methods

    return list(known_methods())


def given_words(*groups: Any) -> list[str]:
    """Return the words of the command line that give the same options again."""
    words = []
    for group in groups:
        for one in fields(group):
            value = getattr(group, one.name)
            if value != one.default:
                flag = "--" + one.name.replace("_", "-")
                words += [flag] if value is True else [flag, str(value)]
    return words


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of each group that stands among its parameters."""
    own = inspect.signature(command).parameters
    groups: dict[str, Any] = {name: one.annotation for name, one in own.items() if is_dataclass(one.annotation)}

    def call(**words: Any) -> None:
        for name, group in groups.items():
            words[name] = group(**{one.name: words.pop(one.name) for one in fields(group)})
        command(**words)

    listed = [one for name, one in own.items() if name not in groups]  # a command's own options first
    listed += [one for group in groups.values() for one in inspect.signature(group).parameters.values()]
    every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in listed]
    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in every}
    return call


def _read_ngrams(word: str) -> tuple[int, int]:
    shortest, dash, longest = word.partition("-")
    if not shortest.isdecimal() or (dash and not longest.isdecimal()) or len(word) > 9:
        raise InputError(f"--ngrams is N or M-N, such as 2 or 3-5; got {word!r}")
    return (int(shortest), int(longest)) if dash else (1, int(shortest))


def _read_stop_words(word: str) -> str | list[str]:
    from unmissed.files import read_text

    return word if word == "english" else read_text(word).split()
