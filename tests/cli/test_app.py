"""The command as a whole: help everywhere, one line for what is refused, a quick start."""

import re
import subprocess
import sys

import pytest
import typer

from tests.cli.speaking import refused, said
from unmissed import __version__
from unmissed.cli.app import app, run
from unmissed.errors import InputError

HEAVY = {"jinja2", "matplotlib", "numba", "numpy", "scipy", "sklearn", "torch"}


def walk(command, words=()):
    """List the words of every command under a group, with the command."""
    if not hasattr(command, "list_commands"):
        yield words, command
        return
    for name in command.list_commands(None):
        below = command.resolve_command(None, [name])[1] if words == ("train",) else command.get_command(None, name)
        yield from walk(below, (*words, name))


VERBS = dict(walk(typer.main.get_command(app)))


def ended(words):
    """Run the command in a process of its own."""
    call = [sys.executable, "-c", "from unmissed.cli import main; main()", *words]
    return subprocess.run(call, capture_output=True, text=True, check=False)


def plain(text):
    """Take the frames and colors off a help text, and its line breaks."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", text).split())


def test_every_verb_is_there():
    below = {
        "data": {"stats", "convert", "verify", "make"},
        "study": {"losses", "mnist", "missing", "paper"},
        "train": {"dismec", "popularity"},
    }
    single = {"predict", "evaluate", "compare", "inspect", "extend", "demo"}
    assert {(verb,) for verb in single} | {(group, verb) for group in below for verb in below[group]} <= set(VERBS)


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_help_teaches_with_an_example_that_the_command_takes(words, capsys):
    text = plain(said(capsys, *words, "--help"))
    examples = re.findall(rf"Example: (.*?unmissed {' '.join(words)}\b.*?)(?= Example:| Arguments | Options |$)", text)
    assert examples, text
    known = {option for parameter in VERBS[words].params for option in parameter.opts}
    for example in examples:
        used = re.findall(r"(?<= )--?[a-zA-Z][\w-]*", example)
        assert set(used) <= known, example


@pytest.mark.parametrize("words", [one for one in VERBS if one != ("serve",)], ids=" ".join)  # it has an API
def test_a_verb_that_prints_results_prints_them_as_json_too(words):
    assert "--json" in {option for parameter in VERBS[words].params for option in parameter.opts}


@pytest.mark.parametrize("words", [(), ("data",), ("study",), ("train",)], ids=["unmissed", "data", "study", "train"])
def test_a_group_lists_its_verbs(words, capsys):
    text = plain(said(capsys, *words, "--help"))
    for verb in VERBS:
        if verb[: len(words)] == words:
            assert verb[len(words)] in text


def test_the_version_is_printed(capsys):
    assert said(capsys, "--version").strip() == f"unmissed {__version__}"


@pytest.mark.parametrize(
    "words", [["nonsense"], ["data", "nonsense"], ["train", "--nonsense"], ["predict"], ["demo", "--seed", "-1"]]
)
def test_words_that_are_no_command_exit_with_2(words, capsys):
    with pytest.raises(SystemExit) as end:
        run(words)
    captured = capsys.readouterr()
    assert end.value.code == 2
    assert captured.out == ""
    assert "Usage" in captured.err


@pytest.mark.parametrize(
    "words",
    [
        ["data", "stats", "missing.txt"],
        ["data", "convert", "missing.txt", "store"],
        ["train", "dismec", "missing.txt", "--run", "run"],
        ["train", "nonsense", "missing.txt", "--run", "run"],
        ["predict", "missing-run", "missing.txt"],
        ["inspect", "missing-run"],
        ["extend", "missing-run", "missing.txt"],
        ["evaluate", "missing.npz", "--truth", "missing.txt", "--train", "missing.txt"],
        ["study", "mnist", "--data", "missing", "--out", "study"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_bad_input_is_one_line_that_names_it(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = refused(capsys, *words)
    assert "missing" in line or "nonsense" in line
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_bad_input_in_a_process_of_its_own_is_one_line_and_exit_code_2():
    done = ended(["inspect", "missing-run"])
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("unmissed: ")


def test_debug_shows_the_traceback_wherever_it_stands():
    with pytest.raises(InputError):  # in a process of its own, Python prints it
        run(["--debug", "inspect", "missing-run"])
    done = ended(["inspect", "missing-run", "--debug"])
    assert done.returncode != 0
    assert "Traceback (most recent call last)" in done.stderr
    assert "InputError" in done.stderr


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["train", "--help"], ["data", "stats", "--help"]])
def test_help_comes_without_the_heavy_libraries(words):
    script = (
        "import sys\nfrom unmissed.cli.app import run\n"
        f"try:\n    run({words!r})\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not HEAVY & {name.partition(".")[0] for name in done.stderr.split()}


def test_verbs_are_listed_in_the_order_in_which_people_need_them(capsys):
    shown = said(capsys, "--help")
    verbs = ("data", "train", "predict", "evaluate", "inspect", "demo", "study")
    positions = [shown.index(f"│ {verb} ") for verb in verbs]
    assert positions == sorted(positions)


@pytest.mark.parametrize("words", [["-v", "data"], ["--verbose", "data"], ["data", "-v"], ["-vv", "data"]])
def test_verbose_logs_on_standard_error_wherever_it_stands(words, capsys, tmp_path):
    (tmp_path / "rows.txt").write_text("2 2 2\n0 0:1\n1 1:1\n")
    arguments = [*words, "stats", str(tmp_path / "rows.txt"), "--json"]
    with pytest.raises(SystemExit) as end:
        run(arguments)
    logged = capsys.readouterr()
    assert end.value.code == 0
    assert re.match(r"\d\d:\d\d:\d\d INFO unmissed.data.sources: reading .*rows.txt\n", logged.err)
    quiet = said(capsys, *(word for word in arguments if not word.startswith("-v") and word != "--verbose"))
    assert quiet == logged.out
    assert "INFO" not in capsys.readouterr().err, "the log ends with the command"


def test_words_behind_two_dashes_are_no_options(capsys):
    assert "-v" in refused(capsys, "inspect", "--", "-v")
