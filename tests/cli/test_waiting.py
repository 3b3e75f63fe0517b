"""Those who wait and those who type: lines in a log, what Ctrl-C keeps, words that were nearly right or half typed."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import PARAMS, write_texts
from unmissed.cli import show
from unmissed.cli.app import run as run_words
from unmissed.data import load
from unmissed.errors import did_you_mean
from unmissed.runs import train

COMPARISON = "unmissed.runs.compare.comparison"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return train("dismec", load(write_texts(folder / "train.jsonl")), folder / "run", PARAMS)


def test_without_a_terminal_a_line_every_half_minute_says_how_far_it_is(capsys, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(show.time, "monotonic", lambda: now[0])
    with show.progress_bar("training labels") as progress:
        for second in range(0, 100, 10):
            now[0] = 1000 + second
            progress(second, 200)
        now[0] += 3600
        progress(100, None)
    assert capsys.readouterr().err.splitlines() == [
        "training labels: 30 of 200 (15 %) after 30 s, about 2.83 min to go",
        "training labels: 60 of 200 (30 %) after 60 s, about 2.33 min to go",
        "training labels: 90 of 200 (45 %) after 90 s, about 1.83 min to go".replace("90 s", "1.5 min"),
        "training labels: 100 after 61.5 min",
    ]


def test_what_comes_before_the_first_step_is_not_taken_for_its_pace(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(show.time, "monotonic", lambda: now[0])
    with show.progress_bar("training labels") as progress:
        for second, done in ((1000, 0), (1040, 50)):  # a weighting was chosen first
            now[0] = second
            progress(done, 200)
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == "training labels: 50 of 200 (25 %) after 17.3 min, about 2 min to go"
    )


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(run, tmp_path, capsys, monkeypatch):
    def stopped(*words, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("unmissed.runs.train", stopped)
    source = run.folder.path.parent / "train.jsonl"
    with pytest.raises(SystemExit) as end:
        run_words(["train", "dismec", str(source), "--run", str(run.folder)])
    assert end.value.code == 130
    message = capsys.readouterr().err
    assert "interrupted (Ctrl-C)" in message
    assert f"{run.folder} keeps 1 finished piece; the same command resumes" in message
    monkeypatch.setattr("unmissed.data.large_text.convert_text", stopped)
    with pytest.raises(SystemExit):
        run_words(["data", "convert", str(source), str(tmp_path / "store")])
    assert f"{tmp_path / 'store'} was not written" in capsys.readouterr().err
    assert show.what_is_kept() == "", "it is said once"


STOPPED = "interrupted (Ctrl-C)"


@pytest.mark.parametrize(
    ("where", "words", "kept"),
    [
        ("unmissed.data.load", "train dismec DATA --run NEW", "nothing is trained in NEW yet; the same command starts"),
        (
            "unmissed.data.load",
            "extend RUN DATA",
            "resumes; until then the run predicts with its old",
        ),
        ("unmissed.data.load", "update RUN DATA", "RUN is unchanged; the same command resumes"),
        ("unmissed.data.load", "tune DATA", "nothing is kept; the same command starts again"),
        ("unmissed.runs.tuning.tune", "tune DATA", "nothing is kept; the same command starts again"),
        ("unmissed.runs.prediction.predict", "predict RUN DATA", "nothing is kept; the same command starts again"),
        ("unmissed.runs.prediction.predict", "predict RUN DATA --out NEW", "NEW.npz and NEW.tsv were not written"),
        ("unmissed.runs.prediction.read_rows", "predict RUN DATA --out NEW.csv", "NEW.csv was not written"),
        (
            "unmissed.runs.compare.comparison.prepare",
            "compare DATA DATA --out NEW",
            "nothing is kept; the same command starts",
        ),
        (
            "unmissed.runs.compare.comparison.run_trial",
            "compare DATA DATA --out NEW",
            "keeps the data, 0 finished methods and partial results",
        ),
        (
            "unmissed.data.documents.Documents.write",
            "data convert DATA NEW.jsonl",
            "NEW.jsonl was not written",
        ),
    ],
)
def test_ctrl_c_says_so_at_any_time_in_any_command_that_takes_long(
    where, words, kept, run, tmp_path, capsys, monkeypatch
):
    def stopped(*words, **options):
        raise KeyboardInterrupt

    names = {"DATA": run.folder.path.parent / "train.jsonl", "RUN": run.folder, "NEW": tmp_path / "new"}
    for name, path in names.items():
        words, kept = words.replace(name, str(path)), kept.replace(name, str(path))
    monkeypatch.setattr(where, stopped)
    with pytest.raises(SystemExit) as end:
        run_words(words.split())
    assert end.value.code == 130
    message = capsys.readouterr().err
    assert STOPPED in message
    assert kept in message
    assert not [entry for entry in tmp_path.rglob("*") if entry.name.endswith(".part")]


@pytest.mark.skipif(sys.platform == "win32", reason="no such terminals there")
@pytest.mark.parametrize("terminal", [True, False])
def test_a_real_signal_ends_a_command_in_its_own_words(terminal, run, tmp_path):
    """Standard input stays open, so that the command waits until it is stopped."""
    import pty

    ours, theirs = pty.openpty() if terminal else os.pipe()
    words = ["predict", str(run.folder), "-", "--out", str(tmp_path / "best.tsv")]
    with subprocess.Popen(
        [sys.executable, "-m", "unmissed", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells start background work without it
    ) as process:
        process.stdin.write(b"cod\n")
        process.stdin.flush()
        while not list(tmp_path.iterdir()) and process.poll() is None:  # the file aside, into which batches go
            time.sleep(0.05)
        for _ in range(3):  # Python loses an exception inside a callback of C code; people press Ctrl-C again
            os.killpg(process.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
                break
        message = os.read(ours, 4096).decode()
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 130
    assert "Traceback" not in message
    assert f"{STOPPED}; {tmp_path / 'best.tsv'} was not written" in " ".join(message.split())
    assert not list(tmp_path.iterdir())


def test_words_that_are_nearly_right_are_proposed(run, tmp_path, capsys):
    assert "did you mean 'fish'?" in refused(capsys, "inspect", run.folder, "--label", "fihs")
    assert "did you mean 'pw-dismec'?" in refused(capsys, "train", "pw-dismek", "x", "--run", tmp_path)
    (tmp_path / "ranking.npz").write_bytes(b"")
    words = ["--truth", "x", "--propensity", "constant:0.5"]
    near = refused(capsys, "data", "stats", tmp_path / "rankin.npz.txt")
    assert "no such file or folder" in near
    (tmp_path / "scores.tsv").write_text("")
    (tmp_path / "truth.txt").write_text("1 1 1\n0 0:1\n")
    words[1] = tmp_path / "truth.txt"
    assert "did you mean 'scores.tsv'?" in refused(capsys, "evaluate", tmp_path / "score.tsv", *words)


def test_only_words_that_are_alike_are_proposed():
    assert did_you_mean("Fish", ["fish", "law"]) == "; did you mean 'fish'?"
    assert did_you_mean("tree", ["fish", "law"]) == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train", "pw-"], {"pw-dismec"}),
        (["train", "pw-dismec", "--weighting", "t"], {"tail"}),
        (["train", "pw-dismec", "--propensity", "c"], {"cells:", "constant:"}),
        (["inspect", "RUN", "--label", "f"], {"fish", "food"}),
        (["inspect", "nothing", "--label", "f"], set()),
        (["plan", "x", "--method", "pop"], {"popularity"}),
    ],
)
def test_the_shell_completes_methods_weightings_and_labels(words, expected, run, monkeypatch, capsys):
    line = ["unmissed", *(str(run.folder) if word == "RUN" else word for word in words)]
    monkeypatch.setenv("_UNMISSED_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(line))
    monkeypatch.setenv("COMP_CWORD", str(len(line) - 1))
    assert set(said(capsys).split()) == expected


def test_progress_in_a_log_does_not_disturb_json(run, capsys):
    assert json.loads(said(capsys, "predict", run.folder, "--text", "cod", "--json"))
