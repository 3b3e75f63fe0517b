"""Measure calibrated probabilities beside one pooled isotonic map and Platt scaling, on the test rows of real data.

    python -m benchmarks.calibration DATA [--sets bibtex debtags] [--cache DIR] [--rows N] [--folds 3] [--groups FIELD]
        [--drop] [--pieces DIR]

Each method is fitted to the same out-of-fold cells of PW-DiSMEC; test rows only judge. `--groups` names a field of
`train.jsonl.xz` whose values keep rows together; `similar` keeps similar rows together, and `random` splits any rows.
By default folds are made as the official split was: debtags by the field `source`, eurlex57k and tibkat by random,
bibtex by similar rows. `--rows N` takes a random part of the training rows. `--drop` also removes labels by Jain's
propensities, trains and calibrates with what is left, and judges pi / p on the complete labels of the test rows. A star
is for an ECE above the 95 % interval of perfect probabilities. If folds are by a field, the floor of test rows that are
right or wrong together in groups of this field is printed, too (wild bootstrap). Times are processor time of all
threads. `--pieces` keeps the trained model and the out-of-fold cells, with their times, for another call that differs
in the link only.
"""

import argparse
import json
import lzma
import time
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from benchmarks.corpora import choose_rows, corpus_parser, load_corpus
from unmissed.calibration import fit_calibration, make_folds, true_probability
from unmissed.execution import OnDisk, Work
from unmissed.matrices import check_Y
from unmissed.metrics.calibration_error import compare_log_loss, probability_errors
from unmissed.models import PWDiSMEC, TrainingData
from unmissed.models.out_of_fold import cross_fit
from unmissed.propensity import FromTable, Jain, drop_labels

SETS = ("bibtex", "debtags", "eurlex57k", "tibkat")
GROUPS = {"debtags": "source", "eurlex57k": "random", "tibkat": "random"}


def read_groups(folder: Path, field: str, n_samples: int, part: str = "train") -> np.ndarray | None:
    if field == "similar":
        return None
    if field == "random" or not (folder / f"{part}.jsonl.xz").is_file():
        return np.arange(n_samples)
    with lzma.open(folder / f"{part}.jsonl.xz", "rt", encoding="utf-8") as lines:
        return np.array([str(json.loads(line)[field]) for line in lines])


def rivals(cells) -> dict:
    """Return maps from labels and scores to probabilities: one isotonic map, and Platt scaling, of all labels."""
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(cells.scores, cells.observed, sample_weight=cells.weights)
    platt = LogisticRegression(C=1e6).fit(cells.scores[:, None], cells.observed, sample_weight=cells.weights)
    a, b = float(platt.coef_[0, 0]), float(platt.intercept_[0])
    return {
        "pooled isotonic": lambda labels, scores: isotonic.predict(scores.ravel()).reshape(scores.shape),
        "Platt": lambda labels, scores: expit(a * scores.astype(np.float64) + b),
    }


def excess(one) -> str:
    return f"{one.excess:+.4f}{'*' if one.ece > one.intervals['floor'].high else ''}"


def show(name: str, errors: list) -> None:
    at = {one.k: one for one in errors if one.decile is None}
    parts = [f"ECE@{k} {one.ece:.4f} (floor {one.floor:.4f}, excess {excess(one)})" for k, one in at.items()]
    last = at[max(at)]
    low, high = last.intervals["log_loss"]
    print(f"  {name:16s} {'  '.join(parts)}  log loss {last.log_loss:.4f} [{low:.4f}, {high:.4f}]", end="")
    print(f"  Brier {last.brier:.4f}")
    deciles = [
        f"{one.decile}: {excess(one)} of {one.n_cells}" for one in errors if one.decile is not None and one.k == last.k
    ]
    print(f"    ECE@{last.k} above its floor by decile, rarest first: {'  '.join(deciles)}", flush=True)


def measure(folder: Path, options: argparse.Namespace) -> None:
    corpus = load_corpus(folder, options.cache)
    field = options.groups or GROUPS.get(folder.name, "similar")
    groups = read_groups(folder, field, corpus.X.shape[0])
    chosen = choose_rows(corpus.X.shape[0], options.rows)
    X, Y, groups = corpus.X[chosen], corpus.Y[chosen], None if groups is None else groups[chosen]
    print(f"{folder.name}:", end=" ")
    kept = None if options.pieces is None else options.pieces / folder.name
    model, rows, cells, calibration = calibrate(X, Y, groups, None, options.folds, kept)
    ranking, truth = model.rank(corpus.X_test, 5), check_Y(corpus.Y_test)
    methods = {
        "calibration": lambda labels, scores: calibration.probability(labels, scores, np.arange(5)),
        "without ranks": calibration.probability,
        **rivals(cells),
    }
    found = {name: map_scores(ranking.labels, ranking.scores) for name, map_scores in methods.items()}
    for name, p in found.items():
        show(name, probability_errors(ranking.labels, p, truth, train_counts=rows.label_counts))
    if field not in ("similar", "random"):
        of_test = read_groups(folder, field, len(ranking.labels), "test")
        errors = probability_errors(
            ranking.labels, found["calibration"], truth, train_counts=rows.label_counts, groups=of_test
        )
        show(f"floor by {field}", errors)
    for name in list(found)[1:]:
        gap = compare_log_loss(ranking.labels, found["calibration"], found[name], truth)
        print(f"  log loss minus that of {name}: {gap.value:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}]")
    arrays = calibration.to_piece().arrays.values()
    tables = sum(array.nbytes for array in arrays if len(array) != rows.n_labels)
    per_label = sum(array.nbytes for array in arrays if len(array) == rows.n_labels) / rows.n_labels
    ratio = rank_speed(model, calibration, corpus.X_test)
    print(
        f"  {per_label:.0f} bytes per label and {tables} of tables; ranking with probabilities at {ratio:.3f} ", end=""
    )
    print("of the speed without (median of 5, in turns)", flush=True)
    if options.drop:
        measure_dropped(corpus, X, Y, groups, options.folds, kept)


def calibrate(X, Y, groups, propensities, n_folds, kept: Path | None) -> tuple:
    """Train and calibrate a model; print the processor time of each step."""
    rows = TrainingData.check(X, Y, normalize=True)
    known = {} if propensities is None else {"propensity": FromTable(propensities)}
    model = PWDiSMEC(weighting="floored-tail", C=0.5, **known)
    seconds: dict[str, float] = {}

    def timed(name: str, step, kept: Path | None = None):
        begin = time.process_time()
        found = step() if kept is None else step(Work(OnDisk(kept / name)))
        seconds[name] = time.process_time() - begin
        stored = None if kept is None else kept / f"{name}.json"
        if stored is not None and stored.is_file():
            seconds[name] = float(stored.read_text())
        elif stored is not None:
            stored.write_text(str(seconds[name]))
        return found

    timed("training", lambda work=None: model.fit_rows(rows, work), kept)
    folds = timed("folds", lambda: make_folds(rows.X, groups, n_folds=n_folds))
    cells = timed("cells", lambda work=None: cross_fit(model, rows, folds, work=work), kept)
    calibration = timed("link", lambda: fit_calibration(cells, rows.label_counts))
    cost = (sum(seconds.values()) - seconds["training"]) / seconds["training"]
    print(f"{rows.n_samples} rows, {folds.n_groups} groups, {len(cells)} cells;", end=" ")
    print(", ".join(f"{name} {one:.1f} s" for name, one in seconds.items()) + f": {cost:.2f} trainings", flush=True)
    return model, rows, cells, calibration


def measure_dropped(corpus, X, Y, groups, n_folds, kept) -> None:
    """Judge probabilities that a label is true, made from incomplete labels, on the complete labels of test rows."""
    p = Jain().estimate(np.asarray(Y.sum(axis=0)).ravel(), Y.shape[0])
    observed = drop_labels(Y, p, 0)
    print(f"  labels dropped, {observed.nnz} of {Y.nnz} left:", end=" ")
    model, rows, _cells, calibration = calibrate(X, observed, groups, p, n_folds, kept and kept / "dropped")
    ranking = model.rank(corpus.X_test, 5)
    pi = calibration.probability(ranking.labels, ranking.scores, np.arange(5))
    true, clipped = true_probability(ranking.labels, pi, p)
    test = check_Y(corpus.Y_test)
    for name, found, truth in (("observed", pi, check_Y(drop_labels(test, p, 1))), ("true", true, test)):
        show(f"{name} labels", probability_errors(ranking.labels, found, truth, train_counts=rows.label_counts))
    print(f"  share of pi / p clipped at 1: {clipped:.4f}", flush=True)


def rank_speed(model: PWDiSMEC, calibration, X) -> float:
    """Return the speed of ranking with probabilities over that without."""
    seconds: list[list[float]] = [[], []]
    for _ in range(5):
        for with_p in (0, 1):
            begin = time.process_time()
            ranking = model.rank(X, 5)
            if with_p:
                calibration.probability(ranking.labels, ranking.scores, np.arange(5))
            seconds[with_p].append(time.process_time() - begin)
    return float(np.median(seconds[0]) / np.median(seconds[1]))


def main() -> None:
    parser = corpus_parser(__doc__, SETS)
    parser.add_argument("--folds", type=int)
    parser.add_argument("--groups")
    parser.add_argument("--drop", action="store_true")
    parser.add_argument("--pieces", type=Path)
    options = parser.parse_args()
    for name in options.sets:
        measure(options.data / name, options)


if __name__ == "__main__":
    main()
