"""The kernel decorator: where compiled code is kept, when it is used again, and that nothing depends on it."""

import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest

import unmissed
from unmissed import _jit

ROOT = Path(unmissed.__file__).parent

COUNT = """
import sys
import numpy as np
from unmissed._jit import cache_folder
from unmissed.kernels.arrange import count_features

counts = np.zeros(3, np.int64)
count_features(np.array([0, 2, 2], np.int32), counts)
assert counts.tolist() == [1, 0, 2]
stats = count_features.stats
print(cache_folder(), sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def counted(cache_dir, **environment):
    """Count features in a process of its own; returns the cache's folder, and how often it answered and did not."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-c", COUNT],
        env={**inherited, "UNMISSED_CACHE_DIR": str(cache_dir), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    folder, hits, misses = done.stdout.rsplit(maxsplit=2)
    return folder, int(hits), int(misses)


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A copy of the package's sources that may be changed."""
    copy = tmp_path / "unmissed"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(_jit, "_ROOT", copy)
    return copy


def test_a_change_of_any_source_that_kernels_are_made_of_names_another_folder(sources):
    before = _jit.source_digest()
    assert before == _jit.source_digest(), "the same sources, the same name"
    parts = [*sources.glob("kernels/*.py"), *sources.glob("losses/*.py"), sources / "_jit.py", sources / "_sealed.py"]
    assert len(parts) > 10
    for path in parts:
        text = path.read_bytes()
        path.write_bytes(text + b"\n# another line\n")
        assert _jit.source_digest() != before, path
        path.write_bytes(text)
    assert _jit.source_digest() == before


def test_a_new_a_renamed_and_a_removed_source_name_another_folder(sources):
    digests = [_jit.source_digest()]
    new = sources / "kernels" / "new.py"
    new.write_text("ONE = 1\n")
    digests.append(_jit.source_digest())
    new.rename(sources / "kernels" / "newer.py")
    digests.append(_jit.source_digest())
    (sources / "kernels" / "arrange.py").unlink()
    digests.append(_jit.source_digest())
    assert len(set(digests)) == 4


def test_a_change_of_another_source_keeps_the_folder(sources):
    before = _jit.source_digest()
    (sources / "cli" / "app.py").write_text("")
    assert _jit.source_digest() == before


def test_compiled_code_goes_where_the_variable_says(tmp_path, monkeypatch):
    monkeypatch.setenv("UNMISSED_CACHE_DIR", str(tmp_path))
    assert _jit.cache_home() == tmp_path
    assert _jit.cache_folder.__wrapped__() == tmp_path / "kernels" / _jit.source_digest()


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these have their own places")
def test_compiled_code_goes_to_the_users_cache_folder_otherwise(tmp_path, monkeypatch):
    monkeypatch.delenv("UNMISSED_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert _jit.cache_home() == tmp_path / "xdg" / "unmissed"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _jit.cache_home() == tmp_path / ".cache" / "unmissed"


def test_a_second_process_loads_what_the_first_one_compiled(tmp_path):
    folder, hits, misses = counted(tmp_path)
    assert Path(folder).parent == tmp_path / "kernels"
    assert (hits, misses) == (0, 1)
    assert any(Path(folder).rglob("arrange.count_features*.nbc")), "machine code is in the folder"
    assert counted(tmp_path) == (folder, 1, 0)


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    assert counted(file / "below") == ("None", 0, 1), "compiled, and kept nowhere"


def rot(raw):
    return raw[: len(raw) // 2] + bytes([raw[len(raw) // 2] ^ 16]) + raw[len(raw) // 2 + 1 :]


def test_a_damaged_cache_is_thrown_away_and_compiled_again(tmp_path):
    folder, *_ = counted(tmp_path)
    empty, garbage = (lambda raw: b""), (lambda raw: b"garbage" * 99)
    for suffix, damage in (("nbi", empty), ("nbi", rot), ("nbc", empty), ("nbc", garbage), ("nbc", rot)):
        files = sorted(Path(folder).rglob(f"arrange.count_features*.{suffix}"))
        assert files
        for file in files:
            file.write_bytes(damage(file.read_bytes()))
        assert counted(tmp_path) == (folder, 0, 1), "compiled again"
    assert counted(tmp_path) == (folder, 1, 0), "and whole again"


def test_files_in_the_way_of_the_cache_are_no_error(tmp_path):
    folder, *_ = counted(tmp_path)
    for file in list(Path(folder).rglob("*.nb?")):
        file.unlink()
        file.mkdir()
    assert counted(tmp_path) == (folder, 0, 1)


@pytest.mark.skipif(os.name != "posix", reason="needs owners and rights")
@pytest.mark.parametrize("place", ["cache", "cache/kernels", "cache/kernels/*"])
def test_a_folder_that_others_may_write_to_is_not_used_and_one_warning_says_so(tmp_path, monkeypatch, place):
    monkeypatch.setenv("UNMISSED_CACHE_DIR", str(tmp_path / "cache"))
    folder = _jit.cache_folder.__wrapped__()
    assert folder is not None
    (open_folder,) = tmp_path.glob(place)
    for mode in (0o777, 0o770, 0o1777):
        open_folder.chmod(mode)
        with pytest.warns(RuntimeWarning, match=f"{open_folder.name}: not yours alone") as told:
            assert _jit.cache_folder.__wrapped__() is None
        assert len(told) == 1
    open_folder.chmod(0o755)
    assert _jit.cache_folder.__wrapped__() == folder


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs to give a folder away")
@pytest.mark.parametrize("place", ["", "cache", "cache/kernels", "cache/kernels/*"])
def test_a_folder_of_somebody_else_is_not_used(tmp_path, monkeypatch, place):
    monkeypatch.setenv("UNMISSED_CACHE_DIR", str(tmp_path / "home" / "cache"))
    assert _jit.cache_folder.__wrapped__() is not None
    (given,) = (tmp_path / "home").glob(place) if place else [tmp_path / "home"]
    os.chown(given, 12345, 12345)
    with pytest.warns(RuntimeWarning, match="not yours alone"):
        assert _jit.cache_folder.__wrapped__() is None


def test_a_link_is_judged_by_where_it_leads(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to(tmp_path / "there")
    monkeypatch.setenv("UNMISSED_CACHE_DIR", str(tmp_path / "cache"))
    assert _jit.cache_folder.__wrapped__() is not None
    (tmp_path / "there").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="there: not yours alone"):
        assert _jit.cache_folder.__wrapped__() is None


def test_kernels_are_plain_functions_when_compilation_is_off(tmp_path):
    script = COUNT.partition("stats =")[0] + "assert type(count_features).__name__ == 'function'"
    environment = {**os.environ, "UNMISSED_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    assert not any(tmp_path.rglob("*.nbc"))


def test_the_decorator_leaves_numbas_own_settings_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setattr(_jit, "cache_folder", lambda: tmp_path)
    before = numba.config.CACHE_DIR
    _jit.kernel()(_double)
    assert before == numba.config.CACHE_DIR


def test_threads_that_call_a_kernel_first_find_the_kernels_that_it_calls(monkeypatch):
    slow = threading.Event()

    def make_slowly(function):
        slow.wait(0.2)
        return function

    monkeypatch.setitem(globals(), "_inner", _jit.Deferred(_double, make_slowly))
    outer = _jit.Deferred(_calls_inner, lambda function: function)
    with ThreadPoolExecutor(4) as threads:
        kinds = list(threads.map(lambda _: outer(), range(4)))
    assert kinds == ["function"] * 4


@pytest.mark.kernel
def test_kernels_divide_by_zero_as_numpy_does():
    with np.errstate(divide="ignore"):
        assert _jit.kernel()(_divide)(np.float64(1), np.float64(0)) == np.inf


def _calls_inner():
    return type(globals()["_inner"]).__name__


def _double(x):
    return 2 * x


def _divide(a, b):
    return a / b
