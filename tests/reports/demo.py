"""What a demo may find, made up for the tests of its page: no training."""

import numpy as np

from unmissed.reports.demo_page import DecileLine, DemoCell, DemoResults, FoundMissing, Line, MissingLine

METHODS = ["Popularity", "DiSMEC", "PW-DiSMEC surrogate", "PW-DiSMEC tail"]


def make_demo() -> DemoResults:
    """Return results of the demo's shape."""

    def line(measure, source, *, interval=True):
        values = [0.1, 0.5, 0.52, 0.55]
        return Line(measure, source, [DemoCell(v, v - 0.02, v + 0.02) if interval else DemoCell(v) for v in values])

    counts = np.round(500 / np.arange(1, 60)).astype(np.int64)
    return DemoResults(
        sizes={
            "n_train": 900,
            "n_test": 300,
            "n_labels": 59,
            "n_features": 400,
            "labels_per_row": 3.9,
            "kept": 0.4,
            "n_unseen": 2,
            "seed": 0,
            "version": "0",
            "last_run": "pw-dismec-tail",
        },
        methods=METHODS,
        lines=[
            *(line(name, source) for name in ("P@1", "P@5") for source in ("observed", "truth")),
            line("PSP@5", "observed"),
            line("recall@5 of tail labels", "truth"),
            line("coverage@5", "truth", interval=False),
        ],
        deciles=[DecileLine(d, d, d + 3, 6, 20, [0.0, 0.03 * d, 0.04 * d, 0.05 * d]) for d in range(1, 11)],
        corrected=[line("P@5", "observed"), line("P@5 corrected", "observed"), line("P@5", "truth")],
        true_counts=counts,
        observed_counts=counts // 2,
        verdicts=["PW-DiSMEC tail against DiSMEC: +1.0 (+0.5 to +1.5)."],
        seconds={"corpus": 1.0},
        missing=FoundMissing("DiSMEC", 30, 20, [MissingLine(7, "label3", 0.9, ["word1", "word2"], True)]),
    )
