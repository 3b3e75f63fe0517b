"""Which labels are missing? List the most probable ones, and check them against the truth."""

import numpy as np

from unmissed import Dataset, drop_labels, make_corpus
from unmissed.audit import find_missing
from unmissed.runs import calibrate, train


def main() -> None:
    # Annotators forgot 40 % of the labels of a corpus; here we know which ones.
    complete = make_corpus(1500, 0, n_labels=60, n_features=2000, rng=0).train
    observed = Dataset(complete.X, drop_labels(complete.Y, 0.6, rng=1), label_names=complete.label_names)

    # The list needs probabilities by models that have not seen the row.
    train("pw-dismec", observed, "forgetful", {"propensity": 0.6})
    run = calibrate("forgetful", old_rows=[observed])
    found = find_missing(run, top=100, propensity=0.6, old_rows=[observed])

    true = np.asarray(complete.Y[found.cells.rows, found.cells.labels]).ravel()
    print(f"{len(found)} cells, expected to be true: {found.expected:.0f}, true: {true.sum():.0f}")
    n_empty = complete.n_samples * complete.n_labels - observed.Y.nnz
    print(f"random empty cells would be true in {(complete.Y.nnz - observed.Y.nnz) / n_empty:.1%} of the cases")


if __name__ == "__main__":
    main()
