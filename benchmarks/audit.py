"""Simulate audits: labels of real data are dropped by known propensities, and simulated people answer the checks.

    python -m benchmarks.audit DATA/bibtex [--cache DIR] [--checks 2000] [--simulations 200]

For each propensity the finder is trained and calibrated once, out of fold; samples and answers are repeated. The plan
always assumes Jain's propensities. Printed by frequency band: the true p (observed over all labels of the band), the
mean estimate, the mean half-width of the 95 % interval, and in how many simulations the interval has the true p.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.corpora import load_corpus
from benchmarks.missing import cross_fitted
from unmissed.audit.audit_estimates import CellAnswers, estimate
from unmissed.audit.sampling import AuditPopulation
from unmissed.matrices import check_Y
from unmissed.models import PWDiSMEC, TrainingData
from unmissed.propensity import Jain


def known_propensities(X, Y, model) -> dict[str, np.ndarray]:
    """Return p of each true label, in the order of Y's entries, by kind."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    position = (np.argsort(np.argsort(counts)) / Y.shape[1])[Y.indices]  # 0 for the rarest label
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    scores = model.rank(X, Y.shape[1])
    dense = np.zeros(Y.shape, np.float32)
    np.put_along_axis(dense, scores.labels, scores.scores, axis=1)
    order = np.argsort(np.argsort(dense[rows, Y.indices])) / Y.nnz
    return {
        "Jain": Jain().estimate(counts, Y.shape[0])[Y.indices],
        "constant": np.full(Y.nnz, 0.6),
        "not monotone": 0.4 + 0.4 * np.abs(2 * position - 1),
        "depends on x": 0.25 + 0.6 * order,  # what the text hardly shows is overlooked more often
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--checks", type=int, default=2000)
    parser.add_argument("--simulations", type=int, default=200)
    options = parser.parse_args()
    corpus = load_corpus(options.data, options.cache)
    X, Y = corpus.X, check_Y(corpus.Y)
    rows = TrainingData.check(X, Y, normalize=True)
    p = known_propensities(rows.X, Y, PWDiSMEC().fit_rows(rows))
    for kind, each in p.items():
        population, truth = audited(X, Y, each)
        simulate(kind, population, truth, options)


def audited(X, Y, p: np.ndarray) -> tuple[AuditPopulation, np.ndarray]:
    """Return the population of an audit of labels dropped by p, and the keys of dropped cells."""
    kept = np.random.default_rng(1).random(Y.nnz) < p
    coo = Y.tocoo()
    observed = check_Y(type(Y)((np.ones(kept.sum(), Y.dtype), (coo.row[kept], coo.col[kept])), shape=Y.shape))
    case = cross_fitted(X, observed)
    assumed = Jain().estimate(case.rows.label_counts, case.rows.n_samples)
    population = AuditPopulation(case.cells, case.pi, assumed, observed)
    return population, np.sort(coo.row[~kept].astype(np.int64) * Y.shape[1] + coo.col[~kept])


def simulate(kind: str, population: AuditPopulation, dropped: np.ndarray, options: argparse.Namespace) -> None:
    n_missing = np.bincount(population.band[dropped % population.n_labels] + 1, minlength=len(population.bands) + 1)[1:]
    observed = np.array([band.n_observed for band in population.bands])
    true = observed / (observed + n_missing)
    found, rejected, raw = [], [], []
    for seed in range(options.simulations):
        sample = population.sample(options.checks, seed)
        yes = np.isin(sample.rows * population.n_labels + sample.labels, dropped).astype(np.int64)
        result = estimate(sample, CellAnswers(yes, 1 - yes, np.zeros_like(yes)), seed)
        found.append([(one.p, one.low, one.high) for one in result.bands])
        raw.append([one.band.n_observed / (one.band.n_observed + one.horvitz_thompson) for one in result.bands])
        rejected.append(result.constant_p_value is not None and result.constant_p_value < 0.01)
    p, low, high = np.moveaxis(np.array(found), 2, 0)
    inside = (low <= true) & (true <= high)
    print(f"{kind}: {len(sample)} checks, {options.simulations} simulations; all bands: ", end="")
    print(f"coverage {inside.mean():.3f}, warns in {np.mean(rejected):.1%}")
    for at, band in enumerate(population.bands):
        width = ((high - low) / 2)[:, at]
        print(
            f"  {band.fewest}-{band.most} positives: true {true[at]:.3f}, estimate {p[:, at].mean():.3f} "
            f"(sd {p[:, at].std():.3f}; Horvitz-Thompson {np.mean(raw, axis=0)[at]:.3f}, sd "
            f"{np.std(raw, axis=0)[at]:.3f}), half-width {width.mean():.3f}, coverage {inside[:, at].mean():.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
