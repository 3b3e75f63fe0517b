"""An unbiased loss for a neural network: train on incomplete labels as if they were complete (extra `torch`)."""

import torch
from torch import nn

from unmissed import drop_labels, make_corpus
from unmissed.losses.torch import UnbiasedBCEWithLogitsLoss


def main() -> None:
    # Observed are 40 % of the true labels.
    train, test = make_corpus(1000, 300, n_labels=30, n_features=500, rng=0)
    p = 0.4
    X, X_test = (torch.tensor(one.X.toarray()) for one in (train, test))
    observed = torch.tensor(drop_labels(train.Y, p, rng=1).toarray())
    complete = torch.tensor(test.Y.toarray())

    for name, loss in (
        ("plain", nn.BCEWithLogitsLoss()),
        ("unbiased", UnbiasedBCEWithLogitsLoss(torch.full((30,), p))),
    ):
        torch.manual_seed(0)
        network = nn.Linear(500, 30)
        optimizer = torch.optim.Adam(network.parameters(), lr=0.05, weight_decay=1e-4)
        for _ in range(200):
            optimizer.zero_grad()
            loss(network(X), observed).backward()
            optimizer.step()

        # The plain loss learns how often a label is observed, the unbiased one how often it is true.
        probability = torch.sigmoid(network(X_test)).mean().item()
        print(f"{name}: mean probability {probability:.3f}; {complete.mean().item():.3f} of the labels are true")


if __name__ == "__main__":
    main()
