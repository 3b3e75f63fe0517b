"""One block of labels in, weights and a certificate of optimality out."""
