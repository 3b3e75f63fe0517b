"""From scores to decisions: calibrate a model, check its probabilities, and accept labels by a rule."""

import numpy as np

from unmissed import DiSMEC, make_corpus
from unmissed.calibration import DecisionRule


def main() -> None:
    train, test = make_corpus(1500, 500, n_labels=60, n_features=2000, rng=0)

    # Three models, each trained without a third of the rows, score the rows that they have not seen.
    model = DiSMEC().fit(train.X, train.Y).calibrate(train.X, train.Y)
    ranking = model.rank(test.X, k=5)

    # Of the labels with a probability of about 0.7, about 70 % should be right.
    right = np.asarray(test.Y[np.arange(test.n_samples)[:, None], ranking.labels].todense()).astype(bool)
    for low in (0.1, 0.5, 0.9):
        near = (ranking.probabilities >= low) & (ranking.probabilities < low + 0.1)
        print(f"probability {low:.1f} to {low + 0.1:.1f}: {near.sum()} labels, {right[near].mean():.2f} of them right")

    for rule in ("top 3", "p>=0.5", "f1"):
        chosen = DecisionRule.parse(rule).decide(ranking)
        accepted = chosen.labels >= 0
        hits = test.Y[np.nonzero(accepted)[0], chosen.labels[accepted]].sum()
        print(f"{rule}: {accepted.sum()} labels accepted, {hits / accepted.sum():.2f} of them right")


if __name__ == "__main__":
    main()
