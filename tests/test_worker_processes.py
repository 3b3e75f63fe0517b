"""Workers of a pool end with their parent, even if it is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import os, time
from unmissed.worker_processes import spawn_pool
if __name__ == "__main__":
    pool = spawn_pool(1, print, "ready")
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 600)
    time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_worker_ends_when_its_parent_is_killed(tmp_path):
    (tmp_path / "parent.py").write_text(PARENT)
    with subprocess.Popen([sys.executable, str(tmp_path / "parent.py")], stdout=subprocess.PIPE, text=True) as parent:
        worker = next(int(line) for line in parent.stdout if line.strip().isdecimal())
        os.kill(worker, 0)
        parent.send_signal(signal.SIGKILL)
        parent.wait(60)
        deadline = time.monotonic() + 60
        while is_running(worker) and time.monotonic() < deadline:
            time.sleep(0.05)
    assert not is_running(worker)


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
