"""Tasks that tests send to a cluster; workers import them from here."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unmissed.errors import InputError
from unmissed.execution import Piece


@dataclass(frozen=True)
class Slow:
    """A task that takes its time, notes that it began, and may kill its worker the first time it runs."""

    number: int
    notes: str
    deadly: bool = False
    size: int = 1

    @property
    def key(self):
        return f"slow/{self.number}"

    def run(self, shared):
        note = Path(self.notes) / f"{self.number}-{os.getpid()}-{time.monotonic_ns()}"
        first = not list(Path(self.notes).glob(f"{self.number}-*"))
        note.touch()
        if self.deadly and first:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.number == 13:
            raise InputError("unlucky")
        time.sleep(0.02)
        return Piece(self.key, {"square": np.array([self.number**2 + shared["offset"]])})


@dataclass(frozen=True)
class Offset:
    """Makes what tasks share, and notes where it was made."""

    offset: int
    notes: str

    def __call__(self):
        (Path(self.notes) / f"made-{os.getpid()}-{time.monotonic_ns()}").touch()
        return {"offset": self.offset}
