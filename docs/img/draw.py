"""Redraw the README's picture, the demo's gain by decile: `python docs/img/draw.py`, as long as `unmissed demo`."""

import tempfile
from pathlib import Path

import matplotlib

from unmissed.reports.demo_page import draw_gains
from unmissed.studies.demo_study import run_demo

with tempfile.TemporaryDirectory() as folder:
    results, _ = run_demo(folder)
with matplotlib.rc_context({"svg.hashsalt": "unmissed", "svg.fonttype": "path"}):
    draw_gains(results).savefig(Path(__file__).with_name("gain-by-decile.svg"), metadata={"Date": None})
