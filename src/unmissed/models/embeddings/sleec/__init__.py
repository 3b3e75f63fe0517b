"""SLEEC: sparse local embeddings for extreme classification (Bhatia et al., 2015).

`estimator.py` has the model; start there. `solver.py` learns the embeddings and the regressors of one cluster.
`kernels.py` finds nearest neighbors in label space and counts the votes of neighbors.
"""
