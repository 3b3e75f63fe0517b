"""The short way of `unmissed predict RUN --text TEXT`: the same lines, without what reads a command line."""

import gc
import json
import subprocess
import sys

import numpy as np
import pytest

from tests.cli.speaking import said
from tests.runs.corpora import PARAMS, write_texts
from unmissed.cli.app import run as main
from unmissed.cli.quick import answer
from unmissed.data import load
from unmissed.errors import InputError
from unmissed.runs import open_run, train

TEXT = "cod and net, said the judge"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "label_names.tsv").write_text("fish\tFish and\x1bfishing\nlaw\tLaw\n")
    write_texts(folder / "train.jsonl")
    return train("dismec", load(folder / "train.jsonl"), folder / "run", {**PARAMS, "block_size": 2})


def in_shell(*words):
    """Run the command in a process of its own; returns its code, what it printed, and which modules it imported."""
    script = (
        "import json, sys\nfrom unmissed.cli import main\ntry:\n    main()\n"
        "finally:\n    print(json.dumps(list(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script, *map(str, words)], capture_output=True, text=True, check=False)
    *messages, modules = done.stderr.splitlines()
    return done.returncode, done.stdout, messages, {name.partition(".")[0] for name in json.loads(modules)}


@pytest.mark.parametrize(
    "words",
    [
        ["--text", TEXT],
        ["--text", TEXT, "--top", "2"],
        ["-k", "1", f"--text={TEXT}"],
        ["--threshold", "0", "--text", TEXT],
        ["--text", "xyzzy qwertz"],
        ["--text", ""],
        ["--text", "", "--top", "2", "--threshold", "0"],
    ],
)
def test_it_prints_what_the_command_prints(words, run, capsys):
    with pytest.raises(SystemExit) as end:
        main(["predict", str(run.folder), *words])
    captured = capsys.readouterr()
    assert end.value.code == 0
    assert in_shell("predict", run.folder, *words)[:3] == (0, captured.out, captured.err.splitlines())
    assert answer(["predict", *words, str(run.folder)]) is not None, "the short way was taken, in any order of words"
    assert gc.isenabled()


def test_it_imports_neither_what_reads_a_command_line_nor_what_compiles(run):
    *_, modules = in_shell("predict", run.folder, "--text", TEXT)
    assert "numpy" in modules
    assert not modules & {"typer", "click", "pydantic", "rich", "numba", "sklearn", "pandas"}


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "RUN", "--text"],
        ["predict", "RUN", "--text", TEXT, "--json"],
        ["predict", "RUN", "--text", TEXT, "--top", "0"],
        ["predict", "RUN", "--text", TEXT, "--top", "many"],
        ["predict", "RUN", "--text", TEXT, "--text", TEXT],
        ["predict", "RUN", "other", "--text", TEXT],
        ["predict", "RUN", "rows.jsonl"],
        ["predict", "--text", TEXT],
        ["predict", "RUN/nothing", "--text", TEXT],
        ["evaluate", "RUN", "--text", TEXT],
        ["predict", "--help"],
        [],
    ],
)
def test_anything_else_is_left_to_the_command(words, run):
    assert answer([word.replace("RUN", str(run.folder)) for word in words]) is None


def test_the_shell_that_completes_words_is_left_to_the_command(run, monkeypatch):
    monkeypatch.setenv("_UNMISSED_COMPLETE", "complete_bash")
    assert answer(["predict", str(run.folder), "--text", TEXT]) is None


def test_a_run_of_a_method_without_a_short_way_answers_too(tmp_path, capsys):
    popular = train("popularity", load(write_texts(tmp_path / "train.jsonl")), tmp_path / "run")
    printed = said(capsys, "predict", popular.folder, "--text", TEXT)
    assert answer(["predict", str(popular.folder), "--text", TEXT]) == (printed.splitlines(), None)


@pytest.mark.parametrize("text", ["xyzzy qwertz", "", "  \n"])
def test_a_text_without_a_known_word_gets_an_empty_table_and_a_note(text, run):
    code, printed, messages, _ = in_shell("predict", run.folder, "--text", text)
    assert (code, printed.splitlines()) == (0, ["row\trank\tlabel\tname\tscore"])
    assert messages == ["no known words: the run knows no word of this text, so there is nothing to rank"]


def test_a_label_that_a_piece_does_not_have_is_refused(tmp_path):
    data = load(write_texts(tmp_path / "train.jsonl"))
    made = train("dismec", data, tmp_path / "run", PARAMS)
    labels = next((tmp_path / "run" / "pieces").glob("labels/*/labels.npy"))
    np.save(labels, np.full_like(np.load(labels), 999))
    script = (
        "import sys\nfrom unmissed.errors import InputError\nfrom unmissed.runs import open_run\n"
        f"try:\n    open_run({str(made.folder)!r}).rank_once(['cod'])\nexcept InputError as error:\n    print(error)"
    )  # in a process without Numba, where the short way is taken
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "weights of a label that it does not have" in done.stdout
    with pytest.raises(InputError, match="damaged"):
        open_run(made.folder.path).rank_once(["cod"])
