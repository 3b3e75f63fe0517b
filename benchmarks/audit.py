"""Simulate audits: labels of real data are dropped by known propensities, and simulated people answer the checks.

    python -m benchmarks.audit DATA/bibtex [--cache DIR] [--checks 2000] [--simulations 200] [--drops 40] [--kinds KIND]

Labels are dropped several times by each propensity. Each time the finder is trained and calibrated, out of fold, and
an equal part of the simulations draws samples and answers. The plan always assumes Jain's propensities. Printed by
frequency band: the true p (observed over all labels of the band), the mean estimate and its root mean squared error,
the mean half-width of the 95 % interval, and in how many simulations the interval has the true p, with a binomial 95 %
interval for as many independent simulations as the differences between drops leave.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from benchmarks.corpora import load_corpus
from benchmarks.missing import cross_fitted
from unmissed.audit.audit_estimates import CellAnswers, estimate
from unmissed.audit.missing_draws import LEVEL
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
    parser.add_argument("--drops", type=int, default=40, help="how often labels are dropped")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first drop")
    parser.add_argument("--kinds", nargs="+", help="some of the propensities")
    options = parser.parse_args()
    corpus = load_corpus(options.data, options.cache)
    X, Y = corpus.X, check_Y(corpus.Y)
    rows = TrainingData.check(X, Y, normalize=True)
    p = known_propensities(rows.X, Y, PWDiSMEC().fit_rows(rows))
    for kind, each in p.items():
        if options.kinds is None or kind in options.kinds:
            found = []
            for drop in range(options.drops):
                seeds = range(drop, options.drops * max(1, options.simulations // options.drops), options.drops)
                found.append(simulate(*audited(X, Y, each, options.seed + drop), options.checks, seeds))
            report(kind, found)


def audited(X, Y, p: np.ndarray, seed: int) -> tuple[AuditPopulation, np.ndarray]:
    """Return the population of an audit of labels dropped by p, and the keys of dropped cells."""
    kept = np.random.default_rng(seed).random(Y.nnz) < p
    coo = Y.tocoo()
    observed = check_Y(type(Y)((np.ones(kept.sum(), Y.dtype), (coo.row[kept], coo.col[kept])), shape=Y.shape))
    case = cross_fitted(X, observed)
    assumed = Jain().estimate(case.rows.label_counts, case.rows.n_samples)
    population = AuditPopulation(case.cells, case.pi, assumed, observed)
    return population, np.sort(coo.row[~kept].astype(np.int64) * Y.shape[1] + coo.col[~kept])


class Audit(NamedTuple):
    """A simulated audit by band: range of positives, true p, estimate, its interval and Horvitz-Thompson's estimate."""

    bands: list[tuple[int, int]]
    true: np.ndarray
    p: np.ndarray
    low: np.ndarray
    high: np.ndarray
    raw: np.ndarray
    warns: bool


def simulate(population: AuditPopulation, dropped: np.ndarray, n_checks: int, seeds: range) -> list[Audit]:
    """Return an audit per seed of the sample; people answer rightly."""
    n_missing = np.bincount(population.band[dropped % population.n_labels] + 1, minlength=len(population.bands) + 1)[1:]
    observed = np.array([band.n_observed for band in population.bands])
    ranges = [(band.fewest, band.most) for band in population.bands]
    found = []
    for seed in seeds:
        sample = population.sample(n_checks, seed)
        yes = np.isin(sample.rows * population.n_labels + sample.labels, dropped).astype(np.int64)
        result = estimate(sample, CellAnswers(yes, 1 - yes, np.zeros_like(yes)), seed)
        p, low, high = np.array([(one.p, one.low, one.high) for one in result.bands]).T
        raw = observed / (observed + [one.horvitz_thompson for one in result.bands])
        warns = result.constant_p_value is not None and result.constant_p_value < LEVEL
        found.append(Audit(ranges, observed / (observed + n_missing), p, low, high, raw, warns))
    return found


def say_share(inside: np.ndarray) -> str:
    """Return the mean of 0 and 1 in simulations of drops, (drops, simulations), with its interval.

    Simulations of one drop are not independent: the interval is that of fewer ones, so that the variance is that of the
    means of drops. If all are equal, each drop counts once.
    """
    share, n = float(inside.mean()), float(inside.size)
    between = inside.mean(axis=1).var(ddof=1) / len(inside)
    n = min(n, share * (1 - share) / between) if between > 0 else float(len(inside))
    low = stats.beta.ppf(0.025, n * share, n - n * share + 1) if share > 0 else 0.0
    high = stats.beta.ppf(0.975, n * share + 1, n - n * share) if share < 1 else 1.0
    return f"{share:.3f} [{low:.3f}, {high:.3f}]"


def report(kind: str, found: list[list[Audit]]) -> None:
    """Print the figures of audits with the same propensity; drops differ a little in the ranges of their bands."""
    fields = (np.array([[getattr(one, name) for one in of_drop] for of_drop in found]) for name in Audit._fields[1:])
    true, p, low, high, raw, warns = fields
    inside, width = (low <= true) & (true <= high), (high - low) / 2
    print(f"{kind}: {warns.size} simulations; all bands: coverage {say_share(inside.mean(axis=2))}, ", end="")
    print(f"warns in {say_share(warns)}")
    for at, (fewest, most) in enumerate(found[0][0].bands):
        error, raw_error = (np.sqrt(((one - true)[..., at] ** 2).mean()) for one in (p, raw))
        print(
            f"  {fewest}-{most} positives: true {true[..., at].mean():.3f}, estimate {p[..., at].mean():.3f} ", end=""
        )
        print(f"(error {error:.3f}; Horvitz-Thompson {raw[..., at].mean():.3f}, error {raw_error:.3f}), ", end="")
        print(f"half-width {width[..., at].mean():.3f}, coverage {say_share(inside[..., at])}", flush=True)


if __name__ == "__main__":
    main()
