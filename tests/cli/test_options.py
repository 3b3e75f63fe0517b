"""Groups of options: defined once, the same in every command that takes data."""

from dataclasses import fields

import pytest
import typer

from tests.cli.speaking import refused
from tests.runs.corpora import small_corpus, write_texts
from unmissed.cli.app import app
from unmissed.cli.options import ReadingOptions, TextOptions
from unmissed.data import write_xmc

READ = {one.name for one in fields(ReadingOptions)}
LEARN = READ | {one.name for one in fields(TextOptions)}


def options_of(*words):
    command = typer.main.get_command(app)
    for word in words:
        command = command.resolve_command(None, [word])[1] if word == "dismec" else command.commands[word]
    return {one.name for one in command.params}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train", "dismec"], LEARN),
        (["tune"], LEARN),
        (["plan"], LEARN),
        (["compare"], LEARN),
        (["study", "missing"], LEARN),
        (["data", "stats"], LEARN),
        (["data", "convert"], LEARN),
        (["predict"], READ),
        (["evaluate"], READ),
        (["extend"], READ),
        (["update"], READ),
    ],
)
def test_a_command_that_takes_data_takes_every_option_of_its_groups(words, expected):
    assert options_of(*words) >= expected


@pytest.mark.parametrize(
    ("source", "target", "words", "why"),
    [
        ("a.jsonl", "b.jsonl", ["--min-df", 3], "JSON lines keep texts as they are; leave out --min-df"),
        ("a.jsonl", "b", ["--like", "train", "--smooth-idf"], "its features are used (--like); leave out --smooth-idf"),
        ("x.txt", "b", ["--ngrams", 2, "--analyzer", "char"], "already has features; leave out --ngrams, --analyzer"),
    ],
)
def test_options_of_text_that_would_have_no_effect_are_refused(
    source, target, words, why, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "a.jsonl")
    write_xmc(small_corpus()[0], tmp_path / "x.txt")
    assert why in refused(capsys, "data", "convert", source, target, *words)
    assert not (tmp_path / target).exists()
