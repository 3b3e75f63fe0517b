"""A comparison made up for the tests of reports: no training."""

import numpy as np

from unmissed.data.catalog import find

METRICS = [f"{name}@{k}" for name in ("P", "nDCG", "PSP", "PSnDCG", "recall") for k in (1, 3, 5)]


def entry(value):
    return {"value": value, "low": value - 0.02, "high": value + 0.02}


def method(key, title, family, level, seconds=1.0):
    rng = np.random.default_rng(len(key))
    figures = {name: entry(level + 0.01 * float(rng.random())) for name in METRICS}
    gains = {name: {"value": level - 0.5, "low": level - 0.52, "high": level - 0.48, "ahead": 0.9} for name in METRICS}
    deciles = [
        {
            "decile": decile,
            "begin": max(decile - 5, 0) / 10,
            "end": decile / 10,
            "k": 5,
            "fewest": decile,
            "most": decile + (decile > 1),
            "true": 10,
            "recall": min(decile / 10, 1.0) * level,
        }
        for decile in (0, 1, 5, 10)
    ]
    return {
        "key": key,
        "title": title,
        "family": family,
        "state": "finished",
        "reason": "",
        "seconds": {"train": seconds, "processor": 1.5 * seconds, "predict": 0.5},
        "peak_bytes": 2**28,
        "disk_bytes": int(2**20 * seconds),
        "warnings": [],
        "figures": figures,
        "reranked": {name: figures[name] for name in METRICS if name.startswith("PS")},
        "against_baseline": gains,
        "deciles": deciles,
    }


def make_results(*, published=False):
    methods = [
        method("dismec", "DiSMEC", "linear one-vs-rest", 0.5),
        method("pw-dismec:weighting=tail", "PW-DiSMEC, tail", "linear one-vs-rest", 0.55, 2.0),
        method("parabel", "Parabel", "tree based", 0.48, 0.2),
        method("popularity", "Popularity", "baseline", 0.1, 0.01),
        {
            "key": "sleec",
            "title": "SLEEC",
            "family": "embedding based",
            "state": "time limit",
            "reason": "stopped after 9",
        },
    ]
    row = {
        "metric": "PSP@1",
        "column": "DiSMEC",
        "value": 41.2,
        "place": "main table",
        "key": "dismec",
        "title": "DiSMEC",
        "ours": 42.0,
        "difference": 0.8,
        "reranked": 40.0,
        "difference_reranked": -1.2,
    }
    known = find("EURLex-4K").__dict__ if published else None
    return {
        "settings": {
            "k": [1, 3, 5],
            "propensity": {"model": "jain", "a": 0.55, "b": 1.5},
            "interval": {"level": 0.95, "resamples": 100, "seed": 0},
            "n_jobs": None,
        },
        "made_with": {"unmissed": "0", "cores": 2},
        "data": {
            "name": "<tiny> & sons",
            "n_train": 1000,
            "n_test": 200,
            "n_labels": 30,
            "n_features": 99,
            "points_per_label": 12.3,
            "labels_per_point": 2.5,
            "power_law": {"exponent": 0.9, "intercept": 5.0, "r_squared": 0.9},
            "digests": {"train": "ab" * 32, "test": "cd" * 32},
            "unknown_assignments": 3,
            "low_cost_fraction": 0.25,
            "recognized": {"entry": known, "by": "name"} if published else None,
            "frequencies": {"rank": [1, 2, 5, 30], "count": [200, 90, 40, 1]},
        },
        "baseline": "dismec",
        "best": {
            name: {"key": "pw-dismec:weighting=tail", "near": ["dismec"] if name == "P@1" else []} for name in METRICS
        },
        "methods": methods,
        "published": {"name": "EURLex-4K", "by": "name", "note": "Mind.", "figures": [row]} if published else None,
        "claims": [{"claim": "it is better", "holds": None, "evidence": "PSP@1 +1 [-1, +3]"}],
    }
