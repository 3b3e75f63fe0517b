"""The mathematics of the paper: pointwise losses, and Theorem 1 that makes any of them unbiased."""
