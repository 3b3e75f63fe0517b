"""Why propensities matter: drop rare labels from a complete corpus, train, and evaluate on the complete labels."""

from unmissed import DiSMEC, Jain, PWDiSMEC, drop_labels, evaluate, make_corpus
from unmissed.metrics import Conventions


def main() -> None:
    # In a synthetic corpus all true labels are known. Observed are some of them, rare ones least often.
    train, test = make_corpus(1500, 500, n_labels=100, n_features=2000, rng=0)
    p = Jain().estimate(train.label_counts, train.n_samples)
    observed, observed_test = (drop_labels(one.Y, p, rng=1) for one in (train, test))
    print(f"observed: {observed.nnz / train.Y.nnz:.0%} of the true labels")

    # PSP@5 on observed labels is an unbiased estimate of P@5 on complete ones, if it is not normalized (`raw`).
    print(f"{'':24}{'P@5 observed':>14}{'PSP@5 observed':>16}{'P@5 complete':>14}")
    for name, model in (("plain costs", DiSMEC()), ("costs from propensities", PWDiSMEC(propensity=p))):
        ranking = model.fit(train.X, observed).rank(test.X, k=5)
        seen = evaluate(ranking, observed_test, 1 / p, conventions=Conventions(variant="raw"))
        true = evaluate(ranking, test.Y, 1 / p)
        print(f"{name:24}{seen['P@5']:14.3f}{seen['PSP@5']:16.3f}{true['P@5']:14.3f}")


if __name__ == "__main__":
    main()
