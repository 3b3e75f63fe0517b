"""The kernel decorator: where compiled code is cached, when it is reused, and that results do not depend on it."""

import ast
import ctypes
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numba
import numpy as np
import pytest

import unmissed
from unmissed import _jit

ROOT = Path(unmissed.__file__).parent
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs rights of files that bind root, too")

COUNT = """
import sys
import numpy as np
from unmissed._jit import cache_folder
from unmissed.numerics.csr import count_features

counts = np.zeros(3, np.int64)
count_features(np.array([0, 2, 2], np.int32), counts)
assert counts.tolist() == [1, 0, 2]
stats = count_features.stats
print(cache_folder(), sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def counted(cache_dir, *, script=COUNT, prefix=(), without_dac_override=False, warning=None, **environment):
    """Count features in a new process; return the cache folder and the numbers of cache hits and misses.

    `warning` is a part of the only warning that is expected; None means no warning. `without_dac_override` subjects
    root, too, to file permissions.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    done = subprocess.run(
        [*prefix, sys.executable, "-c", script],
        env={**inherited, "UNMISSED_CACHE_DIR": str(cache_dir), **environment},
        preexec_fn=_drop_override if without_dac_override else None,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("RuntimeWarning") == (warning is not None), done.stderr
    assert warning is None or warning in done.stderr
    folder, hits, misses = done.stdout.rsplit(maxsplit=2)
    return folder, int(hits), int(misses)


def _drop_override():
    """Drop CAP_DAC_OVERRIDE from the bounding set, so that file permissions apply to root."""
    drop_from_bounding_set, dac_override = 24, 1
    ctypes.CDLL(None).prctl(drop_from_bounding_set, dac_override, 0, 0, 0)


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A copy of the package's sources that a test may change."""
    copy = tmp_path / "unmissed"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(_jit, "_ROOT", copy)
    return copy


def test_a_change_of_any_kernel_source_changes_the_cache_folder(sources):
    before = _jit.source_digest()
    assert before == _jit.source_digest(), "the same sources, the same name"
    parts = _jit.kernel_sources()
    assert len(parts) > 40
    for path in parts:
        text = path.read_bytes()
        path.write_bytes(text + b"\n# another line\n")
        assert _jit.source_digest() != before, path
        path.write_bytes(text)
    assert _jit.source_digest() == before


def test_a_new_a_renamed_and_a_removed_source_change_the_cache_folder(sources):
    digests = [_jit.source_digest()]
    new = sources / "numerics" / "new.py"
    new.write_text("from unmissed._jit import kernel\n")
    digests.append(_jit.source_digest())
    new.rename(sources / "numerics" / "newer.py")
    digests.append(_jit.source_digest())
    (sources / "numerics" / "csr.py").unlink()
    digests.append(_jit.source_digest())
    assert len(set(digests)) == 4


def test_a_change_of_another_source_keeps_the_cache_folder(sources):
    before = _jit.source_digest()
    (sources / "cli" / "app.py").write_text("")
    assert _jit.source_digest() == before


def test_compiled_code_goes_to_the_folder_of_the_environment_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("UNMISSED_CACHE_DIR", str(tmp_path))
    assert _jit.cache_home() == tmp_path
    assert _jit.cache_folder.__wrapped__() == tmp_path / "kernels" / _jit.source_digest()


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these have their own cache folders")
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
    assert any(Path(folder).rglob("csr.count_features*.nbc")), "machine code is in the folder"
    assert counted(tmp_path) == (folder, 1, 0)


def test_processes_that_compile_other_signatures_at_once_share_no_file(tmp_path):
    folder, *_ = counted(tmp_path)
    before = contents(folder)
    assert counted(tmp_path, script=COUNT.replace("np.int32", "np.int64")) == (folder, 0, 1)
    after = contents(folder)
    assert {path: after[path] for path in before} == before, "no file is written twice"
    assert len(after) == 2 * len(before)


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    reason = f"no folder for compiled kernels: [Errno 20] Not a directory: '{file}/below'"
    warned = f"{reason}; kernels are compiled in every process"
    assert counted(file / "below", warning=warned) == ("None", 0, 1), "compiled, and not cached"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these have their own cache folders")
def test_without_a_home_one_warning_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    homeless = {"HOME": str(tmp_path / "file" / "home"), "XDG_CACHE_HOME": ""}
    assert counted("", warning="Set UNMISSED_CACHE_DIR", **homeless) == ("None", 0, 1)


def contents(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in Path(folder).rglob("*") if path.is_file()}


@contextmanager
def read_only(folder):
    """Remove write permission, and restore it at the end so that pytest can clean up."""
    entries = (folder, *folder.rglob("*"))
    for path in entries:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield
    for path in entries:
        path.chmod(0o755)


@linux
def test_a_read_only_cache_is_used_and_stays_as_it_is(tmp_path):
    folder, *_ = counted(tmp_path)
    with read_only(tmp_path):
        before = contents(tmp_path)
        assert counted(tmp_path, without_dac_override=True) == (folder, 1, 0), "loaded without a warning"
        assert contents(tmp_path) == before


@linux
def test_a_cache_miss_in_a_read_only_cache_is_compiled_with_one_warning(tmp_path):
    folder, *_ = counted(tmp_path)
    for file in Path(folder).rglob("*.nbc"):
        file.write_bytes(flip_a_bit(file.read_bytes()))
    with read_only(tmp_path):
        before = contents(tmp_path)
        assert counted(tmp_path, without_dac_override=True, warning="`unmissed compile`") == (folder, 0, 1)
        assert contents(tmp_path) == before


@linux
def test_a_folder_where_no_cache_can_be_created_causes_one_warning(tmp_path):
    with read_only(tmp_path):
        assert counted(tmp_path, without_dac_override=True, warning="no folder for compiled kernels")[0] == "None"


def test_a_cache_on_a_file_system_that_is_mounted_read_only_is_used(tmp_path):
    mounted = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"']
    prefix = [*mounted, str(tmp_path)]
    probe = shutil.which("unshare") and subprocess.run([*prefix, "touch", str(tmp_path / "x")], capture_output=True)
    if not probe or b"Read-only file system" not in probe.stderr:
        pytest.skip("needs the right to mount")
    folder, *_ = counted(tmp_path / "cache")
    assert counted(tmp_path / "cache", prefix=prefix) == (folder, 1, 0)


def test_a_copy_of_the_package_loads_what_the_original_compiled(tmp_path):
    """Another environment has another path, and layers of a container image truncate modification times."""
    package = tmp_path / "unmissed"
    shutil.copytree(ROOT, package, ignore=shutil.ignore_patterns("__pycache__"))
    os.utime(package / "numerics" / "csr.py", (1, 1))
    folder, hits, misses = counted(tmp_path / "cache")
    assert (hits, misses) == (0, 1)
    assert counted(tmp_path / "cache", PYTHONPATH=str(tmp_path)) == (folder, 1, 0)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs a folder of root")
def test_a_cache_of_root_is_trusted_by_others_as_the_interpreter_is(tmp_path, monkeypatch):
    monkeypatch.setenv("UNMISSED_CACHE_DIR", str(tmp_path))
    folder = _jit.cache_folder.__wrapped__()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert _jit.cache_folder.__wrapped__() == folder


def flip_a_bit(raw):
    return raw[: len(raw) // 2] + bytes([raw[len(raw) // 2] ^ 16]) + raw[len(raw) // 2 + 1 :]


def test_a_damaged_cache_is_discarded_and_compiled_again(tmp_path):
    folder, *_ = counted(tmp_path)
    for damage in (lambda raw: b"", lambda raw: b"garbage" * 99, flip_a_bit):
        files = sorted(Path(folder).rglob("csr.count_features*"))
        assert files
        for file in files:
            file.write_bytes(damage(file.read_bytes()))
        assert counted(tmp_path) == (folder, 0, 1), "compiled again"
    assert counted(tmp_path) == (folder, 1, 0), "and complete again"


def test_files_in_the_way_of_the_cache_are_no_error(tmp_path):
    folder, *_ = counted(tmp_path)
    for file in list(Path(folder).rglob("*.nb?")):
        file.unlink()
        file.mkdir()
    assert counted(tmp_path, warning="cannot be kept") == (folder, 0, 1)


@pytest.mark.skipif(os.name != "posix", reason="needs owners and rights")
@pytest.mark.parametrize("path", ["cache", "cache/kernels", "cache/kernels/*"])
def test_a_folder_that_others_may_write_to_is_not_used_and_one_warning_says_so(tmp_path, monkeypatch, path):
    monkeypatch.setenv("UNMISSED_CACHE_DIR", str(tmp_path / "cache"))
    folder = _jit.cache_folder.__wrapped__()
    assert folder is not None
    (open_folder,) = tmp_path.glob(path)
    for mode in (0o777, 0o770, 0o1777):
        open_folder.chmod(mode)
        with pytest.warns(RuntimeWarning, match=f"{open_folder.name}: owned or writable by another user") as warned:
            assert _jit.cache_folder.__wrapped__() is None
        assert len(warned) == 1
    open_folder.chmod(0o755)
    assert _jit.cache_folder.__wrapped__() == folder


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs to give a folder away")
@pytest.mark.parametrize("path", ["", "cache", "cache/kernels", "cache/kernels/*"])
def test_a_folder_of_somebody_else_is_not_used(tmp_path, monkeypatch, path):
    monkeypatch.setenv("UNMISSED_CACHE_DIR", str(tmp_path / "home" / "cache"))
    assert _jit.cache_folder.__wrapped__() is not None
    (folder,) = (tmp_path / "home").glob(path) if path else [tmp_path / "home"]
    os.chown(folder, 12345, 12345)
    with pytest.warns(RuntimeWarning, match="owned or writable by another user"):
        assert _jit.cache_folder.__wrapped__() is None


def test_a_symbolic_link_is_checked_at_its_target(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to(tmp_path / "there")
    monkeypatch.setenv("UNMISSED_CACHE_DIR", str(tmp_path / "cache"))
    assert _jit.cache_folder.__wrapped__() is not None
    (tmp_path / "there").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="there: owned or writable by another user"):
        assert _jit.cache_folder.__wrapped__() is None


def test_kernels_are_python_functions_when_compilation_is_off(tmp_path):
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

    def compile_slowly(function):
        slow.wait(0.2)
        return function

    monkeypatch.setitem(globals(), "_inner", _jit.Deferred(_double, compile_slowly))
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


def test_the_digest_covers_every_module_that_kernels_import_from():
    covered = set(_jit.kernel_sources())
    for path in covered - {ROOT / "_jit.py", ROOT / "_sealed.py"}:
        if "@kernel(" not in path.read_text(encoding="utf-8"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unmissed."):
                module = ROOT.parent.joinpath(*node.module.split("."))
                files = {module.with_suffix(".py"), *(module / f"{one.name}.py" for one in node.names)}
                assert files & covered or not any(one.exists() for one in files), f"{path}: {node.module}"
