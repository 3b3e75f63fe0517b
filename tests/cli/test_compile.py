"""`unmissed compile`: what it leaves in the cache is all that other data need."""

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.speaking import refused
from unmissed import _jit
from unmissed.runs import warmup

AGAIN = """
import sys, warnings
from pathlib import Path
from unmissed import _jit
from unmissed.cli.app import run
from unmissed.data import make_corpus, write_store, write_xmc
from unmissed.models.method_registry import METHODS

def call(*words):
    try:
        run([str(word) for word in words])
    except SystemExit as ended:
        assert not ended.code, words

warnings.simplefilter("ignore")
call("compile", "--jobs", 1, "--json")
before = _jit.compilations()
place = Path(sys.argv[1])
corpus = make_corpus(150, 280, 45, 130, words_per_row=11, rng=5)
write_xmc(corpus.train, place / "train.txt")
write_xmc(corpus.test, place / "test.txt")
write_store(corpus.train, place / "store")
call("train", "dismec", place / "train.txt", "--run", place / "from-text")  # reading is the same for all methods
for method in METHODS:
    folder = place / method
    call("train", method, place / "store", "--run", folder)
    call("predict", folder, place / "test.txt", "--out", place / f"{method}.npz")
    call("evaluate", place / f"{method}.npz", "--truth", place / "test.txt", "--train", place / "train.txt")
print(_jit.compilations() - before)
"""


def test_after_it_no_command_on_other_data_compiles_anything(tmp_path):
    done = subprocess.run([sys.executable, "-c", AGAIN, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result, _ = json.JSONDecoder().raw_decode(done.stdout)
    assert Path(result["cache"]) == _jit.cache_folder()
    assert result["seconds"] > 0
    assert result["compiled"] >= 0
    assert done.stdout.split()[-1] == "0"


def test_methods_are_compiled_in_processes_one_by_one(monkeypatch):
    monkeypatch.setattr(warmup, "_own_methods", lambda: ["popularity", "leml"])
    before, seen = _jit.compilations(), []
    done = warmup.compile_kernels(lambda number, total: seen.append((number, total)), n_jobs=2)
    assert seen == [(1, 2), (2, 2)]
    assert done.folder == _jit.cache_folder()
    assert _jit.compilations() == before, "not in this process"


def test_it_is_refused_where_nothing_is_compiled(capsys, monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert "NUMBA_DISABLE_JIT is set" in refused(capsys, "compile")
